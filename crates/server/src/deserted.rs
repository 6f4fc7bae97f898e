//! A mount in a namespace of mounts that only its own servers are left in: the kernel would end it with the namespace, which these
//! servers keep alive. So the keeper ends it, and of a mount without a keeper a process beside the server (decision 0121).

use crate::failure::Failure;
use crate::program::OWN;
use crate::words::Watch;
use crate::{Outcome, environment};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How often it is looked, seconds.
pub const LOOK_S: i64 = 3;
/// Looks in a row that must find nobody: a program may be about to come.
const LOOKS: u32 = 2;
/// First words of the processes that a mount consists of.
const DAEMONS: [&[u8]; 5] = [b"keep", b"serve", b"attach", b"detach", b"watch"];
const PROC: &str = "/proc";

/// The namespace of mounts of this process, which is not that of the machine.
pub struct Private {
    namespace: PathBuf,
    program: (u64, u64),
    /// Processes of which it could not be seen in which one they are.
    unseen: BTreeSet<u32>,
    found_nobody: u32,
}

impl Private {
    /// `None`: it is the machine's, or that cannot be found out.
    pub fn begin() -> Option<Private> {
        let namespace = namespace_of("self").ok()?;
        let program = identity(Path::new(OWN)).ok()?;
        let is_private = match namespace_of("1") {
            Ok(first) => first != namespace,
            Err(_) => is_beneath_another(&namespace),
        };
        is_private.then(|| Private {
            // Whoever has more rights than this process, and was there before it: it would have started no servers with fewer.
            unseen: processes().filter(|process| is_unseen(*process)).collect(),
            namespace,
            program,
            found_nobody: 0,
        })
    }

    /// Looks once more; whether nobody but servers, `own` among them, has been here for some looks.
    pub fn is_deserted(&mut self, own: &[u32]) -> bool {
        self.found_nobody = match self.is_in_use(own) {
            true => 0,
            false => self.found_nobody + 1,
        };
        self.found_nobody >= LOOKS
    }

    fn is_in_use(&self, own: &[u32]) -> bool {
        // What is seen elsewhere too is not this namespace's alone; one that has a name stays.
        let shared = table_of("self").is_ok_and(|table| is_shared(&table));
        let name = self.namespace.to_string_lossy();
        let named = table_of("1").is_ok_and(|table| is_named(&table, &name));
        shared || named || processes().any(|process| !own.contains(&process) && self.is_user(process))
    }

    /// Whether a process is in this namespace and none that a mount consists of.
    fn is_user(&self, process: u32) -> bool {
        match namespace_of(&process.to_string()) {
            Ok(namespace) => namespace == self.namespace && !self.is_daemon(process),
            // Else it is gone, or ends.
            Err(error) => error.kind() == io::ErrorKind::PermissionDenied && !self.unseen.contains(&process),
        }
    }

    fn is_daemon(&self, process: u32) -> bool {
        let of = |name: &str| PathBuf::from(format!("{PROC}/{process}/{name}"));
        let words = fs::read(of("cmdline")).unwrap_or_default();
        let word = words.split(|byte| *byte == 0).nth(1).unwrap_or_default();
        DAEMONS.contains(&word) && identity(&of("exe")).is_ok_and(|program| program == self.program)
    }
}

/// The mounts that a process sees. Places are any bytes (S-18.10), and nothing here is found by them.
fn table_of(process: &str) -> io::Result<String> {
    let table = fs::read(format!("{PROC}/{process}/mountinfo"))?;
    Ok(String::from_utf8_lossy(&table).into_owned())
}

fn namespace_of(process: &str) -> io::Result<PathBuf> {
    fs::read_link(format!("{PROC}/{process}/ns/mnt"))
}

fn is_unseen(process: u32) -> bool {
    namespace_of(&process.to_string()).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(PROC).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Whether one of those from whom this process descends is seen in another namespace.
fn is_beneath_another(namespace: &Path) -> bool {
    let parent = |process: &u32| {
        let status = fs::read_to_string(format!("{PROC}/{process}/status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        parent.trim().parse().ok().filter(|parent| *parent > 0)
    };
    std::iter::successors(Some(std::process::id()), parent)
        .take(GENERATIONS)
        .any(|process| namespace_of(&process.to_string()).is_ok_and(|other| other != namespace))
}

/// Most generations that are looked at.
const GENERATIONS: usize = 64;

fn identity(program: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(program)?;
    Ok((found.dev(), found.ino()))
}

/// Whether a mount of Keepfs is one that other namespaces see too: `shared:` is among its optional fields (proc(5)).
fn is_shared(table: &str) -> bool {
    table.lines().any(|line| {
        let Some((mount, kind)) = line.split_once(" - ") else {
            return false;
        };
        let is_ours = kind.starts_with("fuse.keepfs ") || kind.starts_with("fuseblk.keepfs ");
        is_ours && mount.split(' ').skip(6).any(|field| field.starts_with("shared:"))
    })
}

/// Whether a namespace is bound to a name.
fn is_named(table: &str, namespace: &str) -> bool {
    table.lines().any(|line| line.split(' ').nth(3) == Some(namespace))
}

/// Starts a process that has this one unmount when its namespace is deserted, if it is in one of its own. Call it before rights are
/// given up.
pub fn watch() -> Option<io::Result<Child>> {
    Private::begin()?;
    let mut command = Command::new(OWN);
    command.args(["watch", "--server", &std::process::id().to_string()]);
    environment::bare(&mut command);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Some(command.spawn())
}

/// The role `watch`: ends with the server, or tells it to unmount.
pub fn run(args: &Watch) -> Outcome {
    let failed = |error: rustix::io::Errno| Failure::Other(format!("no server: {error}"));
    let pid = i32::try_from(args.server).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| failed(rustix::io::Errno::SRCH))?;
    let server = pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?;
    // Its death is seen by the poll; a terminal's signals are not for it.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    let Some(mut private) = Private::begin() else {
        return Ok(0);
    };
    let pause = Timespec {
        tv_sec: LOOK_S,
        tv_nsec: 0,
    };
    while poll(&mut [PollFd::new(&server, PollFlags::IN)], Some(&pause)) == Ok(0) {
        if private.is_deserted(&[args.server]) {
            pidfd_send_signal(&server, Signal::TERM).map_err(failed)?;
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests;
