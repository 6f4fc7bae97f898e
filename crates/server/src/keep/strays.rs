//! Processes that servers started and left behind. They may have what the server was handed, locks of the pool among it, so they end with
//! it (S-16.27).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, set_child_subreaper, waitpid,
};
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// How long it is waited for their ends.
const PATIENCE: Duration = Duration::from_secs(1);

/// See the head of the file.
pub struct Strays {
    /// They become children of this process.
    are_ours: bool,
}

impl Strays {
    /// From here on they become children of this process. Not where it has other children, or would have anybody's: nobody could tell
    /// them apart.
    pub fn begin() -> Strays {
        let own = std::process::id();
        let is_alone = own != 1 && children().is_some_and(|children| children.is_empty());
        let pid = i32::try_from(own).ok().and_then(Pid::from_raw);
        Strays {
            are_ours: is_alone && set_child_subreaper(pid).is_ok(),
        }
    }

    /// Nothing is left of those that have ended; `started` are none.
    pub fn reap(&self, started: &[u32]) {
        self.there(started).into_iter().for_each(|pid| {
            is_reaped(pid);
        });
    }

    /// Ends all of them, and what they have started; `started` are none. How many there were that had not ended, and who does not end.
    pub fn end(&self, started: &[u32]) -> (usize, Vec<u32>) {
        let begun = Instant::now();
        let mut killed = BTreeSet::new();
        loop {
            // What one of them has started comes to us with its end.
            let mut there = self.there(started);
            there.retain(|pid| !is_reaped(*pid));
            if there.is_empty() {
                return (killed.len(), Vec::new());
            }
            if begun.elapsed() >= PATIENCE {
                return (
                    killed.len(),
                    there
                        .iter()
                        .map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
                        .collect(),
                );
            }
            let fds: Vec<_> = there
                .iter()
                .filter_map(|pid| pidfd_open(*pid, PidfdFlags::empty()).ok())
                .collect();
            for fd in &fds {
                // One that has ended meanwhile is dead.
                let _ = pidfd_send_signal(fd, Signal::KILL);
            }
            killed.extend(there.iter().map(|pid| pid.as_raw_nonzero()));
            for fd in &fds {
                let left = PATIENCE.saturating_sub(begun.elapsed());
                let left = Timespec {
                    tv_sec: 0,
                    tv_nsec: left.as_nanos().min(999_999_999) as i64,
                };
                // Whether it came, the next round sees.
                let _ = poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&left));
            }
        }
    }

    fn there(&self, started: &[u32]) -> Vec<Pid> {
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
