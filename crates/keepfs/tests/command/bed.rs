//! A pool and a mount point for one test; nothing stays mounted when it is dropped.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The program under test.
pub const KEEPFS: &str = env!("CARGO_BIN_EXE_keepfs");

/// A directory with a place for a pool and a mount point, which every user may enter.
pub struct Bed {
    dir: tempfile::TempDir,
}

/// Whether real mounts are possible; says so if not.
pub fn possible() -> bool {
    let found = Path::new("/dev/fuse").exists() && rustix::process::geteuid().is_root();
    if !found {
        skipped("root and /dev/fuse");
    }
    found
}

/// Says that a test is skipped, past what the harness keeps of a test that passes: `cargo xtask test` counts it.
pub fn skipped(needs: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: needs {needs}");
}

/// Runs a command to its end.
pub fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

/// Runs a command that must succeed; its standard output.
pub fn done(command: &mut Command) -> String {
    let output = run(command);
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command that must succeed once no file is held open. A program that another test starts at this moment may hold a
/// copy of one until it runs: while the command says `busy`, it is run again.
pub fn done_when_free(command: &mut Command, busy: &str) -> String {
    soon(&format!("{command:?} is not {busy}"), || {
        let output = run(command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() || said.contains(busy),
            "{command:?}: {output:?}"
        );
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        output.status.success().then_some(said)
    })
}

/// What comes to pass in a while, not at once: it is asked for until it is there.
pub fn soon<T>(what: &str, mut now: impl FnMut() -> Option<T>) -> T {
    for _ in 0..12_000 {
        if let Some(come) = now() {
            return come;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("it never came to pass that {what}");
}

/// Runs a command that must fail; its exit code and what it says on standard error.
pub fn fails(command: &mut Command) -> (i32, String) {
    let output = run(command);
    assert!(!output.status.success(), "{command:?}: {output:?}");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

/// A copy of a program that can be run at once: written by another process, so that no program which a test starts at this
/// moment holds it open for writing (ETXTBSY).
pub fn copy_program(from: impl AsRef<OsStr>, to: &Path) {
    done(Command::new("cp").arg(from).arg(to));
}

/// `keepfs` with arguments.
pub fn keepfs<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Command {
    let mut command = Command::new(KEEPFS);
    command.args(args);
    command
}

/// Sends a signal to a process and waits until it is gone.
pub fn end(pid: Pid, signal: Signal) {
    let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    kill_process(pid, signal).unwrap();
    poll(&mut [PollFd::new(&process, PollFlags::IN)], None).unwrap();
}

impl Bed {
    /// Without a pool.
    pub fn empty() -> Bed {
        let dir = tempfile::Builder::new().prefix("keepfs-command-").tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("mount")).unwrap();
        Bed { dir }
    }

    /// With an empty pool of 64 MiB.
    pub fn new() -> Bed {
        let bed = Bed::empty();
        done(keepfs(["create", "--size", "64M", "--label", "bed"]).arg(bed.pool()));
        bed
    }

    /// With the pool mounted; `None` if that cannot be tested here.
    pub fn mounted(options: &str) -> Option<Bed> {
        possible().then(|| {
            let bed = Bed::new();
            bed.mount(options);
            bed
        })
    }

    /// With a pool for tests mounted, and a file of eight pages in it: `dir/file`. `None` if that cannot be tested here.
    pub fn with_a_file() -> Option<Bed> {
        possible().then(|| {
            let bed = Bed::empty();
            done(keepfs(["create", "--size", "64M", "--test"]).arg(bed.pool()));
            bed.mount("");
            fs::create_dir(bed.on("dir")).unwrap();
            fs::write(bed.on("dir/file"), vec![1; 30_000]).unwrap();
            bed
        })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn pool(&self) -> PathBuf {
        self.path("pool")
    }

    pub fn dir(&self) -> PathBuf {
        self.path("mount")
    }

    /// A path on the mount.
    pub fn on(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// The command that mounts.
    pub fn mounting(&self, options: &str) -> Command {
        let mut command = keepfs(["mount"]);
        command.arg(self.pool()).arg(self.dir());
        if !options.is_empty() {
            command.args(["-o", options]);
        }
        command
    }

    pub fn mount(&self, options: &str) {
        done(&mut self.mounting(options));
    }

    pub fn unmount(&self) {
        let mut unmount = keepfs(["unmount"]);
        unmount.arg(self.dir());
        soon("it is unmounted", || {
            let output = run(&mut unmount);
            let said = String::from_utf8_lossy(&output.stderr);
            if said.contains("in the mount namespace of process") {
                // Another test's, which has a copy of each mount that was there when it began.
                let in_use = || run(keepfs(["check"]).arg(self.pool())).stderr;
                let is_free = || !String::from_utf8_lossy(&in_use()).contains("is in use");
                soon("the pool is closed", || is_free().then_some(()));
                return Some(());
            }
            let is_busy = !output.status.success() && said.contains("busy");
            assert!(is_busy || output.status.success(), "{unmount:?}: {said}");
            (!is_busy).then_some(())
        });
    }

    /// Unmounts, where its server died before it had closed the pool.
    pub fn unmount_dead(&self) {
        let (code, said) = fails(keepfs(["unmount"]).arg(self.dir()));
        assert!(code == 1 && said.contains("its server died before"), "{code}: {said}");
    }

    /// `status --json` of the mount point.
    pub fn status(&self) -> Value {
        let text = done(keepfs(["status", "--json"]).arg(self.dir()));
        serde_json::from_str(&text).unwrap()
    }

    /// One line of `status`, without its name.
    pub fn line(&self, of: &Path, name: &str) -> String {
        let text = done(keepfs(["status"]).arg(of));
        let start = format!("{name}: ");
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(&start));
        line.unwrap_or_else(|| panic!("no line {name} in\n{text}")).to_owned()
    }

    /// `check` must find nothing.
    pub fn check(&self) {
        done(keepfs(["check", "--data"]).arg(self.pool()));
    }

    /// The server's process.
    pub fn server(&self) -> Pid {
        Pid::from_raw(self.status()["server_pid"].as_i64().unwrap() as i32).unwrap()
    }

    /// Sends a signal to the server and waits until it is gone.
    pub fn end_server(&self, signal: Signal) {
        end(self.server(), signal);
    }

    /// The options of the mount that the kernel shows.
    pub fn flags(&self) -> Vec<String> {
        let table = String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").unwrap()).into_owned();
        let here = format!(" {} ", self.dir().display());
        let line = table.lines().rfind(|line| line.contains(&here)).unwrap();
        let options = line.split(' ').nth(5).unwrap();
        options.split(',').map(str::to_owned).collect()
    }

    /// Whether anything is mounted.
    pub fn is_mounted(&self) -> bool {
        let table = String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").unwrap()).into_owned();
        table.contains(&format!(" {} ", self.dir().display()))
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if self.is_mounted() {
            drop(run(keepfs(["unmount", "--lazy"]).arg(self.dir())));
        }
    }
}
