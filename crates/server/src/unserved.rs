//! A mount of which no server is known: why that is, and what to do.

use crate::failure::Failure;
use crate::registry::{self, Record};
use crate::visible::Shown;
use crate::{servers, table};
use rustix::io::Errno;
use std::path::Path;

/// Why nobody is found to ask about a mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unserved {
    /// Its connection is gone: every access fails with ENOTCONN.
    Ended,
    /// Who asks may not see servers.
    NotRoot,
    /// It has a server, of which nothing is known here.
    Unknown,
}

impl Unserved {
    /// Of the mount at `dir`. The kernel is called on it only where no server is seen that could let it wait.
    pub fn at(dir: &Path) -> Unserved {
        if !is_root() {
            return Unserved::NotRoot;
        }
        match servers::is_seen_at(dir) {
            false if rustix::fs::statfs(dir).is_err_and(|error| error == Errno::NOTCONN) => Unserved::Ended,
            _ => Unserved::Unknown,
        }
    }

    /// The status of the mount.
    pub fn status(self) -> &'static str {
        match self {
            Unserved::Ended => {
                "its mount was ended from outside (`umount -f`, or its server and its keeper are gone): every access fails"
            }
            Unserved::NotRoot => "its server cannot be asked: only root may",
            Unserved::Unknown => {
                "its server cannot be asked: /run was not writable when it was mounted, or is another one here"
            }
        }
    }

    /// What to do.
    pub fn action(self, dir: &Path) -> String {
        match self {
            Unserved::Ended => format!("keepfs unmount -f {}, then mount it again", dir.shown()),
            Unserved::NotRoot => "ask as root".into(),
            Unserved::Unknown => "ask where it was mounted (namespace, chroot, container), or mount it again".into(),
        }
    }

    /// That nothing can be asked about the mount at `dir`.
    pub fn failure(self, dir: &Path) -> Failure {
        Failure::Other(format!("{}: {}; {}", dir.shown(), self.status(), self.action(dir)))
    }
}

/// Whether root asks.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The topmost mount at `dir` and its server. Errors: nothing of Keepfs is mounted there, or no server of it is known.
pub fn server_at(dir: &Path) -> Result<(table::Mount, Record), Failure> {
    let (mount, record) = registry::at_dir(dir)?;
    match record {
        Some(record) => Ok((mount, record)),
        None => Err(Unserved::at(&mount.dir).failure(&mount.dir)),
    }
}
