//! Unmounting by force a mount whose server does not answer: the mount goes, then the server, and its keeper's next one closes the pool.

use super::{Said, Tell, take_away};
use crate::registry::Record;
use crate::visible::Shown;
use crate::{Failure, servers};
use keepfs_fuse::How;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::os::fd::OwnedFd;
use std::path::Path;

/// How long a process may take to end that was killed, and its keeper to close the pool by another server, seconds.
const ENDING_S: i64 = 20;

/// Takes the mount at `dir` away and ends its server.
pub fn end(dir: &Path, record: Option<Record>, tell: &mut Tell<'_>) -> Result<(), Failure> {
    let holder = record.as_ref().and_then(|record| process(record.pid));
    take_away(dir, How::Force)?;
    let Some(record) = record else { return Ok(()) };
    let dir = dir.shown();
    let Some(server) = servers::of(&record) else {
        tell(Said::News(format!("{dir} is unmounted")));
        return Ok(());
    };
    // It may have ended by itself, since nobody is at the other end any more.
    let killed = process(server.pid).map(|process| pidfd_send_signal(&process, Signal::KILL));
    let limit = Timespec {
        tv_sec: ENDING_S,
        tv_nsec: 0,
    };
    let gone = |process: &OwnedFd| poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)).is_ok_and(|n| n > 0);
    if holder.as_ref().is_some_and(|holder| !gone(holder)) {
        return Err(Failure::Other(format!(
            "{dir} is unmounted, but its server does not end ({}); the pool stays in use until it does",
            server.why()
        )));
    }
    match (record.kept, killed) {
        (true, _) => tell(Said::News(format!(
            "{dir} is unmounted; its server did not answer and was ended, another one closed the pool"
        ))),
        (false, _) => {
            record.withdraw();
            tell(Said::News(format!(
                "{dir} is unmounted; its server did not answer and was ended, the next mount recovers what was synced"
            )));
        }
    }
    Ok(())
}

fn process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}
