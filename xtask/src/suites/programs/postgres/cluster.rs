//! One cluster of PostgreSQL, run by the user `postgres`.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::suites::process::{command, run as call};

/// The data lie on the file system under test; log and socket lie beside.
pub struct Cluster {
    programs: PathBuf,
    data: PathBuf,
    aside: PathBuf,
}

impl Cluster {
    /// A new cluster with page checksums in the directory `pgdata` of `dir`; its log and its socket lie in `aside`.
    pub fn create(aside: &Path, dir: &Path) -> Result<Self, String> {
        let cluster = Self::of(aside, dir)?;
        fs::create_dir(&cluster.data).map_err(|e| format!("{}: {e}", cluster.data.display()))?;
        let (user, group) = (number("-u")?, number("-g")?);
        for path in [&cluster.data, &cluster.aside] {
            chown(path, Some(user), Some(group)).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        let mut initdb = cluster.postgres("initdb");
        initdb.arg("--pgdata").arg(&cluster.data);
        call(initdb.args([
            "--no-locale",
            "--encoding=UTF8",
            "--auth=trust",
            "--data-checksums",
            "--no-instructions",
        ]))?;
        Ok(cluster)
    }

    /// The one that was created so.
    pub fn of(aside: &Path, dir: &Path) -> Result<Self, String> {
        Ok(Self {
            programs: programs()?,
            data: dir.join("pgdata"),
            aside: aside.to_owned(),
        })
    }

    /// Starts the server, which recovers first if it must. The lock files of a killed one are taken away: its process is
    /// gone, but may still have an entry in the process table if nobody asked for its exit code.
    pub fn start(&self) -> Result<(), String> {
        for lock in [self.data.join("postmaster.pid"), self.aside.join(".s.PGSQL.5432.lock")] {
            match fs::remove_file(&lock) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(format!("{}: {e}", lock.display())),
                _ => {}
            }
        }
        let options = format!("-k {} -c listen_addresses=", self.aside.display());
        let mut start = self.pg_ctl("start");
        call(
            start
                .args(["--timeout=300", "--options", &options, "--log"])
                .arg(self.aside.join("log")),
        )
        .map(drop)
        .map_err(|e| {
            format!(
                "{e}\n{}",
                fs::read_to_string(self.aside.join("log")).unwrap_or_default()
            )
        })
    }

    /// Stops the server in good order.
    pub fn stop(&self) -> Result<(), String> {
        call(self.pg_ctl("stop").args(["--timeout=300", "--mode=fast"])).map(drop)
    }

    /// Kills every process of the server and returns when all are gone. Their numbers are taken from the kernel: the
    /// data directory may be dead.
    pub fn kill(&self) -> Result<(), String> {
        let processes = self.processes();
        if processes.is_empty() {
            return Err("no process of PostgreSQL runs".into());
        }
        // One that ended meanwhile is what was wanted.
        let handles: Vec<_> = processes
            .iter()
            .filter_map(|pid| pidfd_open(*pid, PidfdFlags::empty()).ok())
            .collect();
        for pid in &processes {
            let _gone_already = kill_process(*pid, Signal::KILL);
        }
        for handle in handles {
            poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).map_err(|e| format!("poll: {e}"))?;
        }
        Ok(())
    }

    /// The one value that a query returns.
    pub fn sql(&self, query: &str) -> Result<String, String> {
        let mut psql = self.client("psql");
        let text = call(
            psql.args(["--no-psqlrc", "--tuples-only", "--no-align", "--command", query])
                .arg("postgres"),
        )?;
        Ok(text.trim().to_owned())
    }

    /// pgbench to its end.
    pub fn pgbench(&self, args: &[&str]) -> Result<(), String> {
        call(self.client("pgbench").args(args).arg("postgres")).map(drop)
    }

    /// pgbench with four clients in the background, until killed; writes a line to `log` for every acknowledged
    /// transaction.
    pub fn load(&self, log: &str) -> Result<Child, String> {
        let mut pgbench = self.client("pgbench");
        pgbench.args([
            "--no-vacuum",
            "--client=4",
            "--jobs=2",
            "--time=3600",
            "--progress=1",
            "--log",
            "--log-prefix",
            log,
        ]);
        super::quiet(pgbench.arg("postgres"))
            .spawn()
            .map_err(|e| format!("pgbench: {e}"))
    }

    /// Lines in the logs (one a thread) that [`Cluster::load`] wrote.
    pub fn logged_lines(&self, log: &str) -> Result<u64, String> {
        let mut lines = 0;
        for file in fs::read_dir(&self.aside).map_err(|e| e.to_string())?.flatten() {
            if file.file_name().to_string_lossy().starts_with(&format!("{log}.")) {
                let text = fs::read_to_string(file.path()).map_err(|e| e.to_string())?;
                lines += text.matches('\n').count() as u64;
            }
        }
        Ok(lines)
    }

    /// amcheck over every table and index.
    pub fn check_indexes(&self) -> Result<(), String> {
        let check = [
            "--install-missing",
            "--heapallindexed",
            "--no-password",
            "--database=postgres",
        ];
        call(self.client("pg_amcheck").args(check)).map(drop)
    }

    /// The checksum of every page of the stopped cluster.
    pub fn check_pages(&self) -> Result<(), String> {
        call(
            self.postgres("pg_checksums")
                .args(["--check", "--pgdata"])
                .arg(&self.data),
        )
        .map(drop)
    }

    fn pg_ctl(&self, action: &str) -> Command {
        let mut pg_ctl = self.postgres("pg_ctl");
        pg_ctl.args([action, "--wait", "--silent", "--pgdata"]).arg(&self.data);
        pg_ctl
    }

    fn client(&self, program: &str) -> Command {
        let mut client = self.postgres(program);
        client.arg("--host").arg(&self.aside);
        client
    }

    /// A program of PostgreSQL as its own user.
    fn postgres(&self, program: &str) -> Command {
        let mut runuser = command("runuser", &self.aside);
        runuser.args(["-u", "postgres", "--"]).arg(self.programs.join(program));
        runuser
    }

    /// The postmaster (its command line names the data directory) and its children.
    fn processes(&self) -> Vec<Pid> {
        let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers: Vec<i32> = numbers
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        let data = self.data.to_string_lossy().into_owned();
        let masters = |pid: &i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            words.first().is_some_and(|word| word.ends_with(b"/postgres")) && words.contains(&data.as_bytes())
        };
        let masters: Vec<i32> = numbers.iter().copied().filter(masters).collect();
        let ours = |pid: &i32| masters.contains(pid) || parent(*pid).is_some_and(|parent| masters.contains(&parent));
        numbers.iter().copied().filter(ours).filter_map(Pid::from_raw).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.kill());
    }
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The newest version that is installed.
fn programs() -> Result<PathBuf, String> {
    let versions = fs::read_dir("/usr/lib/postgresql").map_err(|e| format!("/usr/lib/postgresql: {e}"))?;
    let mut versions: Vec<PathBuf> = versions.flatten().map(|version| version.path().join("bin")).collect();
    versions.retain(|bin| bin.join("initdb").exists());
    versions.sort();
    versions
        .pop()
        .ok_or_else(|| "no PostgreSQL below /usr/lib/postgresql".to_owned())
}

/// The number of the user (`-u`) or group (`-g`) `postgres`.
fn number(which: &str) -> Result<u32, String> {
    let text = call(command("id", Path::new("/")).args([which, "postgres"]))?;
    text.trim()
        .parse()
        .map_err(|e| format!("id {which} postgres: {text}: {e}"))
}
