//! The keeper's spare: a keeper that stands ready, because a server may not start programs (decision 0580).
//!
//! It is `keepfs keep --adopt`, and waits at one end of a socket for a server to hand everything over. The other end is held by
//! keeper and server: a keeper that dies leaves it to the server; when both are gone the spare ends, unless it was told before
//! to stand in (S-16.12).

use super::life::{Program, TRIAL};
use crate::held::Item;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};

/// A keeper that stands ready.
pub struct Spare {
    process: Child,
    pidfd: OwnedFd,
    /// Device and inode number of its program.
    program: Option<(u64, u64)>,
}

impl Spare {
    /// Starts `program` as one; `words` come after `keep --adopt`. Returns what to hold as [`crate::rooms::SPARE`] too.
    /// Errors: it cannot be started.
    pub fn start(program: &Program, words: &[OsString]) -> io::Result<(Spare, Item)> {
        let (held, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = program.command();
        command.args(["keep", "--adopt", &std::process::id().to_string()]);
        command.args(words).stdin(Stdio::from(theirs));
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let pidfd = pidfd_open(Pid::from_child(&process), PidfdFlags::empty())?;
        let item = Item {
            bytes: process.id().to_string().into_bytes(),
            descriptors: vec![held],
        };
        let program = program.identity();
        Ok((
            Spare {
                process,
                pidfd,
                program,
            },
            item,
        ))
    }

    /// Whether it is of this program.
    pub fn is_of(&self, program: &Program) -> bool {
        self.program == program.identity()
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// To wait for its end.
    pub fn ends(&self) -> PollFd<'_> {
        PollFd::new(&self.pidfd, PollFlags::IN)
    }

    /// It is not wanted any more, or gone: nothing is left of it when this returns.
    pub fn end(mut self) {
        // Gone is what it shall be.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The keeper beside which this process stands ready.
pub struct Before(Option<OwnedFd>);

impl Before {
    /// The keeper with this number, which has started this process.
    pub fn of(number: u32) -> Before {
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw);
        let opened = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        // Else it was gone before, and the number may be another's.
        Before(opened.filter(|_| getppid() == pid))
    }

    /// Waits until something comes from `socket`; whether nothing did for [`TRIAL`] since the keeper ended.
    pub fn leaves_waiting(&self, socket: &OwnedFd) -> bool {
        let comes = PollFd::new(socket, PollFlags::IN);
        if let Some(keeper) = &self.0 {
            let mut both = [comes.clone(), PollFd::new(keeper, PollFlags::IN)];
            // Interrupted: again.
            while poll(&mut both, None).is_err() {}
            if !both[0].revents().is_empty() {
                return false;
            }
        }
        let limit = Timespec {
            tv_sec: TRIAL.as_secs() as i64,
            tv_nsec: 0,
        };
        poll(&mut [comes], Some(&limit)) == Ok(0)
    }
}
