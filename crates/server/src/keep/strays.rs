//! Processes that servers started and left behind. They may have what the server was handed, locks of the pool among it, so they end with
//! it (S-16.27), without the keeper that started it, too (S-16.31).

use super::mark::Mark;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, set_child_subreaper, waitpid,
};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How long it is waited for their ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the head of the file.
pub struct Strays {
    /// They become children of this process.
    are_ours: bool,
    mark: Mark,
}

/// One of them.
struct Stray {
    pid: Pid,
    pidfd: OwnedFd,
}

impl Stray {
    fn number(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }
}

impl Strays {
    /// From here on they become children of this process. Not where it has other children, or would have anybody's: nobody could tell
    /// them apart.
    pub fn begin(mark: Mark) -> Strays {
        let own = std::process::id();
        let is_alone = own != 1 && children().is_some_and(|children| children.is_empty());
        let pid = i32::try_from(own).ok().and_then(Pid::from_raw);
        Strays {
            are_ours: is_alone && set_child_subreaper(pid).is_ok(),
            mark,
        }
    }

    /// Nothing is left of those that have ended; `started` are none.
    pub fn reap(&self, started: &[u32]) {
        self.children(started).into_iter().for_each(|pid| {
            is_reaped(pid);
        });
    }

    /// Ends all of them, and what they have started; `started` are none. `are_anothers`: another keeper started their server, so they
    /// are children of this one as little as the server was. How many there were that had not ended, and who does not end.
    pub fn end(&self, started: &[u32], are_anothers: bool) -> (usize, Vec<u32>) {
        let begun = Instant::now();
        let mut killed = BTreeSet::new();
        loop {
            // What one of them has started comes to us with its end.
            let there = self.there(started, are_anothers);
            if there.is_empty() {
                return (killed.len(), Vec::new());
            }
            if begun.elapsed() >= PATIENCE {
                return (killed.len(), there.iter().map(Stray::number).collect());
            }
            for stray in &there {
                // One that has ended meanwhile is dead.
                let _ = pidfd_send_signal(&stray.pidfd, Signal::KILL);
            }
            killed.extend(there.iter().map(Stray::number));
            for stray in &there {
                let left = PATIENCE.saturating_sub(begun.elapsed());
                let left = Timespec {
                    tv_sec: 0,
                    tv_nsec: left.as_nanos().min(999_999_999) as i64,
                };
                // Whether it came, the next round sees.
                let _ = poll(&mut [PollFd::new(&stray.pidfd, PollFlags::IN)], Some(&left));
            }
        }
    }

    /// Those that have not ended. Where they are not ours, or were not, the mark tells: that takes a look at every process.
    fn there(&self, started: &[u32], are_anothers: bool) -> Vec<Stray> {
        let children = self.children(started).into_iter().filter(|pid| !is_reaped(*pid));
        let opened = |pid: Pid| {
            let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            Some(Stray { pid, pidfd })
        };
        let mut there: Vec<Stray> = children.filter_map(opened).collect();
        if are_anothers || !self.are_ours {
            let own = std::process::id();
            let found = self.mark.bearers().into_iter();
            let marked = found.map(|(pid, pidfd)| Stray { pid, pidfd });
            there.extend(marked.filter(|stray| stray.number() != own && !started.contains(&stray.number())));
        }
        there
    }

    fn children(&self, started: &[u32]) -> Vec<Pid> {
        let children = if self.are_ours { children() } else { None };
        let children = children.unwrap_or_default().into_iter();
        let others = children.filter(|pid| !started.contains(pid));
        others
            .filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?))
            .collect()
    }
}

/// Whether a child has ended; nothing is left of it then.
fn is_reaped(pid: Pid) -> bool {
    waitpid(Some(pid), WaitOptions::NOHANG).is_ok_and(|ended| ended.is_some())
}

/// The children of this process, which has one thread; `None` where the kernel does not tell.
fn children() -> Option<Vec<u32>> {
    let told = fs::read_to_string("/proc/thread-self/children").ok()?;
    told.split_whitespace().map(|pid| pid.parse().ok()).collect()
}
