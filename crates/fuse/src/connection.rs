//! What a mounted connection is to a process that outlives its server: the open descriptors, and what was agreed on them.
//!
//! A keeper holds both, opaque to it, and hands them to the next server, which goes on without a handshake
//! . It must hold **every** descriptor before a request is read: the kernel aborts what was read
//! through one whose last holder is gone.

use crate::error::FuseError;
use crate::init::Granted;
use crate::mountpoint::Mounted;
use crate::session::Unmounter;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// First word of the description; another one is another layout.
const LAYOUT: &str = "fuse1";

const UNREADABLE: FuseError = FuseError::Handshake {
    what: "what the server before this one agreed on cannot be read",
};

/// A connection that can change hands.
#[derive(Debug)]
pub struct Connection {
    /// What was agreed with the kernel and where it is mounted: `fuse1 MINOR FLAGS MAX_WRITE MOUNT_ID MAJ:MIN BLOCK PATH`,
    /// the numbers decimal but for the flags, `BLOCK` 1 on a block device.
    pub description: Vec<u8>,
    /// `/dev/fuse`, and the clones of it, in the order of their readers.
    pub descriptors: Vec<OwnedFd>,
}

impl Connection {
    pub(crate) fn of(granted: Granted, unmounter: &Unmounter, descriptors: Vec<OwnedFd>) -> Connection {
        let Mounted {
            id,
            device,
            on_block_device,
        } = &unmounter.mounted;
        let Granted {
            minor,
            flags,
            max_write,
        } = granted;
        let head = format!(
            "{LAYOUT} {minor} {flags:x} {max_write} {id} {device} {} ",
            u8::from(*on_block_device)
        );
        let mut description = head.into_bytes();
        description.extend_from_slice(unmounter.path.as_os_str().as_bytes());
        Connection {
            description,
            descriptors,
        }
    }

    /// Which mount a description is of. Errors: [`FuseError::Handshake`] if it is none.
    pub(crate) fn mount_of(description: &[u8]) -> Result<Unmounter, FuseError> {
        parse(description).map(|(_, unmounter)| unmounter).ok_or(UNREADABLE)
    }

    /// The parts again. Errors: [`FuseError::Handshake`] if the description is not one, or nothing is open.
    pub(crate) fn parts(self) -> Result<(Granted, Unmounter, Vec<File>), FuseError> {
        let (granted, unmounter) = parse(&self.description).ok_or(UNREADABLE)?;
        if self.descriptors.is_empty() {
            return Err(FuseError::Handshake {
                what: "no descriptor of the connection was handed over",
            });
        }
        Ok((
            granted,
            unmounter,
            self.descriptors.into_iter().map(File::from).collect(),
        ))
    }
}

fn parse(description: &[u8]) -> Option<(Granted, Unmounter)> {
    let mut words = description.splitn(8, |byte| *byte == b' ');
    let mut word = || std::str::from_utf8(words.next()?).ok();
    if word()? != LAYOUT {
        return None;
    }
    let granted = Granted {
        minor: word()?.parse().ok()?,
        flags: u64::from_str_radix(word()?, 16).ok()?,
        max_write: word()?.parse().ok()?,
    };
    let mounted = Mounted {
        id: word()?.parse().ok()?,
        device: word()?.to_owned(),
        on_block_device: word()? == "1",
    };
    let path = OsStr::from_bytes(words.next()?).into();
    Some((granted, Unmounter { path, mounted }))
}

#[cfg(test)]
mod tests;
