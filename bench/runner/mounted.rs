//! A mount of the benchmark, and how it is taken down: whatever happens, nothing stays behind.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;

use super::work::end_within;
use xtask::suites::process::{command, run};

/// How long a server may take to end after its unmount.
const GOING: Duration = Duration::from_secs(120);

/// How a mount is taken down.
enum How {
    /// umount(8).
    Umount,
    /// `keepfs unmount`.
    Keepfs(PathBuf),
    /// `zpool export`, then its server is told to end.
    Zpool(&'static str),
}

/// A mount, ended by [`Mounted::end`] or when dropped.
pub struct Mounted {
    /// Taken down in this order.
    layers: Vec<(PathBuf, How)>,
    /// A server in the foreground, which ends after its unmount.
    server: Option<Child>,
}

impl Mounted {
    /// A mount that umount(8) takes down.
    pub fn plain(dir: &Path) -> Self {
        Self::by(dir, How::Umount)
    }

    /// A pool of Keepfs.
    pub fn keepfs(dir: &Path, program: &Path) -> Self {
        Self::by(dir, How::Keepfs(program.to_owned()))
    }

    /// A pool of zfs-fuse.
    pub fn zpool(dir: &Path, name: &'static str) -> Self {
        Self::by(dir, How::Zpool(name))
    }

    fn by(dir: &Path, how: How) -> Self {
        Self {
            layers: vec![(dir.to_owned(), how)],
            server: None,
        }
    }

    /// The same with a server to wait for.
    pub fn served_by(mut self, server: Child) -> Self {
        self.server = Some(server);
        self
    }

    /// The same with a mount below it.
    pub fn over(mut self, mut lower: Self) -> Self {
        self.layers.append(&mut lower.layers);
        self
    }

    /// What `keepfs status --json` says.
    pub fn status(&self) -> Result<Value, String> {
        let Some((dir, How::Keepfs(keepfs))) = self.layers.first() else {
            return Err("only Keepfs tells its status".into());
        };
        let text = run(command(keepfs, Path::new("/")).arg("status").arg(dir).arg("--json"))?;
        serde_json::from_str(&text).map_err(|e| format!("keepfs status --json: {e}\n{text}"))
    }

    /// Unmounts; returns when the server has ended and everything is on the device.
    pub fn end(&mut self) -> Result<(), String> {
        let mut result = Ok(());
        for (dir, how) in std::mem::take(&mut self.layers) {
            let mut program = match &how {
                How::Umount => command("umount", Path::new("/")),
                How::Keepfs(keepfs) => command(keepfs, Path::new("/")),
                How::Zpool(_) => command("zpool", Path::new("/")),
            };
            let done = match how {
                How::Umount => run(program.arg(&dir)),
                How::Keepfs(_) => run(program.arg("unmount").arg(&dir)),
                How::Zpool(name) => run(program.args(["export", name])).inspect(|_| self.ask_to_end()),
            };
            if let Err(why) = done {
                // A mount that hangs or is dead goes away all the same.
                drop(command("umount", Path::new("/")).arg("-l").arg(&dir).output());
                self.ask_to_end();
                result = Err(why);
            }
        }
        if let Some(mut server) = self.server.take() {
            end_within(&mut server, GOING);
        }
        result
    }

    /// As if its server had been killed by somebody: SIGKILL, and the dead mount is taken away.
    pub fn kill(mut self) -> Result<(), String> {
        let pid = self.status()?["server_pid"]
            .as_i64()
            .and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).ok_or("status has no server_pid")?;
        let failed = |e| format!("server {pid:?}: {e}");
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?;
        kill_process(pid, Signal::KILL).map_err(failed)?;
        poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).map_err(failed)?;
        self.end()
    }

    fn ask_to_end(&self) {
        if let Some(pid) = self.server.as_ref().map(Pid::from_child) {
            // It may have ended already.
            let _gone = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // An error here follows one that was reported.
        let _reported = self.end();
    }
}

/// Whether anything is mounted at `dir`.
pub fn is_mounted(dir: &Path) -> bool {
    let table = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    is_in(&table, dir)
}

/// Whether the table (proc(5), mountinfo) has a mount at `dir`: paths are bytes.
fn is_in(table: &[u8], dir: &Path) -> bool {
    let mut lines = table.split(|byte| *byte == b'\n');
    lines.any(|line| {
        let place = line.split(|byte| *byte == b' ').nth(4);
        place.is_some_and(|place| xtask::sweep::unescape(place) == dir.as_os_str().as_bytes())
    })
}

#[cfg(test)]
mod tests;
