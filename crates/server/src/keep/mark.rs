//! What the processes of a mount have in their environment, so that what a server left behind is known by who did not start it (S-16.31).

use crate::task::Stat;
use rustix::process::{Pid, PidfdFlags, getuid, pidfd_open};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its name in the environment.
const VARIABLE: &str = "KEEPFS_MOUNT";
/// Most bytes of an environment that are looked at.
const ENVIRONMENT_MAX: u64 = 1 << 20;

/// The mark of one mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark(OsString);

impl Mark {
    /// That of a mount that this process begins: no other process has its number and its start.
    pub fn new() -> Mark {
        let started = Stat::of(Path::new("/proc/self")).map_or(0, |stat| stat.started);
        Mark(format!("{}.{started}", std::process::id()).into())
    }

    /// That of the mount whose keeper started this process. One of an earlier release tells none.
    pub fn inherited() -> Mark {
        let told = std::env::var_os(VARIABLE).filter(|told| !told.is_empty());
        told.map_or_else(Mark::new, Mark)
    }

    /// What is started gets it, and so does what that starts.
    pub fn put_on(&self, command: &mut Command) {
        command.env(VARIABLE, &self.0);
    }

    /// The processes that have it. Only those that are this process's user's in every way: anybody may set a variable of a program
    /// that takes another user's rights.
    pub fn bearers(&self) -> Vec<(Pid, OwnedFd)> {
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pid = |process: fs::DirEntry| Pid::from_raw(process.file_name().to_str()?.parse().ok()?);
        let bearer = |pid: Pid| {
            // What is read behind this is of this process, or it is gone, and so is who would be killed.
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            let folder = PathBuf::from(format!("/proc/{pid}"));
            (is_own_users(&folder) && self.is_in(&folder)).then_some((pid, pidfd))
        };
        processes.filter_map(pid).filter_map(bearer).collect()
    }

    /// Whether the process with this folder in /proc has it; one that has ended has nothing.
    fn is_in(&self, process: &Path) -> bool {
        let mut environment = Vec::new();
        let read = File::open(process.join("environ"))
            .and_then(|file| file.take(ENVIRONMENT_MAX).read_to_end(&mut environment));
        let value = |word: &[u8]| {
            let value = word.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"=")?;
            Some(value == self.0.as_bytes())
        };
        let mut words = environment.split(|byte| *byte == 0);
        read.is_ok() && words.find_map(value) == Some(true)
    }
}

/// Whether all four user numbers of a process are this process's.
fn is_own_users(process: &Path) -> bool {
    let status = fs::read(process.join("status")).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let own = getuid().as_raw();
    let numbers = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    numbers.is_some_and(|numbers| {
        let mut numbers = numbers.split_whitespace();
        numbers.clone().count() == 4 && numbers.all(|number| number.parse() == Ok(own))
    })
}

#[cfg(test)]
mod tests;
