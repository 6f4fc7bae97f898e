//! What the kernel says of a process that was killed and is not gone: whether it can still do anything (S-16.11).

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// Flags of a thread (proc(5), field 9) that runs its program no more: it exits, waits for the core to be written, or has taken
/// the signal that kills it.
const LEAVING: u64 = 0x4 | 0x8 | 0x200 | 0x400;
/// Of a thread of the kernel, which io_uring lends to a process: signals do not end its work.
const KERNELS: u64 = 0x10 | 0x4000;
const EXITING: u64 = 0x4;
/// SIGKILL among the signals that wait for a thread (field 31).
const KILL: u64 = 1 << 8;
/// Number of /dev/fuse: misc, 229.
const FUSE: (u32, u32) = (10, 229);

/// A process or a thread, as /proc/PID/stat has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// Its state, a letter.
    pub state: char,
    flags: u64,
    /// When it was started, ticks of the clock since the machine was.
    pub started: u64,
    pending: u64,
    /// As waitpid(2) tells it; 0 if that is not known yet, or may not be.
    exit: i32,
}

impl Stat {
    /// Of the process or thread with this folder in /proc; `None` if it is gone.
    pub fn of(folder: &Path) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(folder.join("stat")).ok()?)
    }

    /// Fields are counted behind the name, which may hold anything.
    fn parse(stat: &str) -> Option<Stat> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        Some(Stat {
            state: field(3)?.chars().next()?,
            flags: field(9)?.parse().ok()?,
            started: field(22)?.parse().ok()?,
            pending: field(31)?.parse().ok()?,
            exit: field(52)?.parse().ok()?,
        })
    }

    /// Whether it runs its program no more, though a call of the kernel that it is in may go on.
    pub fn is_killed(&self) -> bool {
        self.is_out() || self.pending & KILL != 0
    }

    /// Whether it is in no call of the kernel either that it has begun.
    fn is_out(&self) -> bool {
        let leaving = match self.flags & KERNELS {
            0 => LEAVING,
            _ => EXITING,
        };
        matches!(self.state, 'Z' | 'X') || self.flags & leaving != 0
    }
}

/// How the process `pid` has ended that waitpid(2) does not tell yet: it was killed, and of each of its threads that are left the
/// kernel waits for an answer from the next server only. `None`: it lives, or may still change something, or that is not to be seen.
pub fn ended(pid: u32) -> Option<ExitStatus> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let stat = Stat::of(&process).filter(Stat::is_killed)?;
    let threads = fs::read_dir(process.join("task")).ok()?;
    for thread in threads {
        let thread = thread.ok()?.path();
        // One that is gone meanwhile is looked for in vain: the next look tells.
        let found = Stat::of(&thread)?;
        let may_change = !found.is_out() && (!found.is_killed() || !is_telling_the_kernel(&thread));
        if may_change {
            return None;
        }
    }
    Some(ExitStatus::from_raw(stat.exit))
}

/// Whether a thread waits in a write to /dev/fuse: what it has to say is copied, and it changes no file and no memory.
fn is_telling_the_kernel(thread: &Path) -> bool {
    let call = fs::read_to_string(thread.join("syscall")).unwrap_or_default();
    let Some((number, descriptor)) = written_to(&call) else {
        return false;
    };
    let writes = [libc::SYS_write, libc::SYS_writev].contains(&number);
    let file = fs::metadata(thread.join("fd").join(descriptor.to_string()));
    writes
        && file.is_ok_and(|file| {
            let device = file.rdev();
            file.file_type().is_char_device() && (libc::major(device), libc::minor(device)) == FUSE
        })
}

/// Number and first argument of a call that is waited in; the line of one that runs, or of none, has neither.
fn written_to(call: &str) -> Option<(i64, u64)> {
    let mut words = call.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let first = words.next()?.strip_prefix("0x")?;
    Some((number, u64::from_str_radix(first, 16).ok()?))
}

#[cfg(test)]
mod tests;
