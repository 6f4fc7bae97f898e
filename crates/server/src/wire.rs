//! What keeper and server say to each other: messages of a SOCK_SEQPACKET pair, each a line of words, bytes, and descriptors.
//!
//! From the server: `put NAME` (bytes and descriptors replace what has the name; answered by `refused`, bytes: why, if there is
//! no room for it), `ready`, `unmount` (somebody wants the end of the mount), `ended CODE` (in order: no other server shall come;
//! descriptors: to be closed when the pool is free), `upgrade` (the server makes room). To a new server: `put NAME` for all that
//! is held, then `begin` (bytes: [`crate::lives::Begin`]). To a new keeper of a running server: the same, then `serving PID`.
//! To one that stands ready, from a server that makes room: the same, then [`STAND_IN`] (bytes: [`crate::lives::Begin`]); from a
//! server that begins: [`STAND_DOWN`] (S-16.12).
//! The words are described for other implementations in docs/decisions/0530.

use crate::held::{Held, Item};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest message, bytes.
const MESSAGE_MAX: usize = 64 << 10;
/// Most descriptors of one message; the kernel's limit (`SCM_MAX_FD`).
pub const DESCRIPTORS_MAX: usize = 253;

/// Whoever hears this becomes the keeper when nobody else has its socket any more.
pub const STAND_IN: &str = "stand-in";
/// That is over: what came before is not held any more.
pub const STAND_DOWN: &str = "stand-down";

/// A message that came.
#[derive(Debug)]
pub struct Message {
    /// The words of its first line.
    pub words: Vec<String>,
    /// What follows the first line.
    pub bytes: Vec<u8>,
    /// What came with it.
    pub descriptors: Vec<OwnedFd>,
}

/// Sends one message. Errors: `EPIPE` if nobody is there, `EINVAL` if it is too large.
pub fn send(socket: BorrowedFd<'_>, words: &str, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    send_so(socket, words, bytes, descriptors, SendFlags::NOSIGNAL)
}

/// Sends one message to whoever may have stopped listening, without waiting. Errors: as [`send`]; `WouldBlock` if too much is
/// unread there.
pub fn tell(socket: BorrowedFd<'_>, words: &str, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    send_so(
        socket,
        words,
        bytes,
        descriptors,
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    )
}

fn send_so(
    socket: BorrowedFd<'_>,
    words: &str,
    bytes: &[u8],
    descriptors: &[OwnedFd],
    flags: SendFlags,
) -> io::Result<()> {
    if words.len() + 1 + bytes.len() > MESSAGE_MAX || descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parts = [IoSlice::new(words.as_bytes()), IoSlice::new(b"\n"), IoSlice::new(bytes)];
    loop {
        match sendmsg(socket, &parts, &mut control, flags) {
            Err(Errno::INTR) => {}
            other => return Ok(other.map(drop)?),
        }
    }
}

/// The next message; `None` when the other side is gone. `wait`: else `WouldBlock` if there is none.
pub fn receive(socket: BorrowedFd<'_>, wait: bool) -> io::Result<Option<Message>> {
    let mut bytes = vec![0; MESSAGE_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = match wait {
        true => RecvFlags::CMSG_CLOEXEC,
        false => RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    };
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            // The other side died with messages of ours unread: told once, before what it had sent.
            Err(Errno::INTR | Errno::CONNRESET) => {}
            other => break other?,
        }
    };
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut descriptors = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message was cut"));
    }
    bytes.truncate(received.bytes);
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let words = String::from_utf8_lossy(&bytes[..end])
        .split(' ')
        .map(str::to_owned)
        .collect();
    bytes.drain(..(end + 1).min(bytes.len()));
    Ok(Some(Message {
        words,
        bytes,
        descriptors,
    }))
}

/// Sends an item.
pub fn send_item(socket: BorrowedFd<'_>, name: &str, item: &Item) -> io::Result<()> {
    send(socket, &format!("put {name}"), &item.bytes, &item.descriptors)
}

/// Sends all that is held.
pub fn send_all(socket: BorrowedFd<'_>, held: &Held) -> io::Result<()> {
    held.items().try_for_each(|(name, item)| send_item(socket, name, item))
}

impl From<Message> for Item {
    fn from(message: Message) -> Item {
        Item {
            bytes: message.bytes,
            descriptors: message.descriptors,
        }
    }
}

#[cfg(test)]
mod tests;
