//! What parent and child say to each other: one packet a message, words in text, descriptors beside them.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Longest message, bytes.
const BYTES: usize = 1 << 16;
/// Most descriptors in one.
const DESCRIPTORS: usize = 32;
/// Room for them.
const SPACE: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS));

/// One end of a conversation.
pub struct End(OwnedFd);

impl End {
    /// Both ends of a new one. Neither is inherited.
    pub fn pair() -> Result<(End, OwnedFd)> {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((End(a), b))
    }

    /// An end that somebody gave.
    pub fn over(socket: OwnedFd) -> End {
        End(socket)
    }

    /// Waits so many microseconds, or until the other end is gone.
    pub fn gone_within(&self, micros: u64) {
        let time = Timespec {
            tv_sec: 0,
            tv_nsec: micros as i64 * 1000,
        };
        // Errors: it was no wait, which is as good as a short one.
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::empty())], Some(&time));
    }

    /// Sends a message. Errors: the other end is gone.
    pub fn send(&self, words: &str, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(Error::other("too many descriptors"));
        }
        let bytes = [IoSlice::new(words.as_bytes())];
        sendmsg(&self.0, &bytes, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for a message. Errors: the other end is gone.
    pub fn receive(&self) -> Result<(String, Vec<OwnedFd>)> {
        let mut bytes = vec![0; BYTES];
        let mut space = [MaybeUninit::uninit(); SPACE];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(
            &self.0,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        if got.bytes == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptors = rights.flatten().collect();
        bytes.truncate(got.bytes);
        let words = String::from_utf8(bytes).map_err(Error::other)?;
        Ok((words, descriptors))
    }
}
