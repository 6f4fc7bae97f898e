//! The keeper's spare: a keeper that stands ready, because a server may not start programs (decision 0580).
//!
//! It is `keepfs keep --adopt`, and waits at one end of a socket for a server to hand everything over. The other end is held by
//! keeper and server: a keeper that dies leaves it to the server; when both are gone the spare ends, unless it was told before
//! to stand in (S-16.12).

use super::life::Program;
use crate::environment;
use crate::held::Item;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

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
        let mut command = Command::new(program.path());
        command.args(["keep", "--adopt", &std::process::id().to_string()]);
        command.args(words).stdin(Stdio::from(theirs));
        environment::bare(&mut command);
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
