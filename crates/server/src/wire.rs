//! How the processes of a mount say things to each other: messages of a SOCK_SEQPACKET pair, each a line ([`Said`]), bytes, and
//! descriptors (S-16.15).

use crate::held::{Held, Item};
use crate::line;
use crate::said::Said;
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

/// A message that came.
#[derive(Debug)]
pub struct Message {
    /// What its first line says; `None`: nothing that is known.
    pub said: Option<Said>,
    /// What follows the first line.
    pub bytes: Vec<u8>,
    /// What came with it.
    pub descriptors: Vec<OwnedFd>,
}

/// Sends one message. Errors: `EPIPE` if nobody is there, `EINVAL` if it is too large.
pub fn send(socket: BorrowedFd<'_>, said: &Said, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    send_so(socket, said, bytes, descriptors, SendFlags::NOSIGNAL)
}

/// Sends one message to whoever may have stopped listening, without waiting. Errors: as [`send`]; `WouldBlock` if too much is
/// unread there.
pub fn tell(socket: BorrowedFd<'_>, said: &Said, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
    send_so(
        socket,
        said,
        bytes,
        descriptors,
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    )
}

fn send_so(
    socket: BorrowedFd<'_>,
    said: &Said,
    bytes: &[u8],
    descriptors: &[OwnedFd],
    flags: SendFlags,
) -> io::Result<()> {
    let line = line::of(said);
    if line.len() + 1 + bytes.len() > MESSAGE_MAX || descriptors.len() > DESCRIPTORS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parts = [IoSlice::new(line.as_bytes()), IoSlice::new(b"\n"), IoSlice::new(bytes)];
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
    let said = line::read(&String::from_utf8_lossy(&bytes[..end]));
    bytes.drain(..(end + 1).min(bytes.len()));
    Ok(Some(Message {
        said,
        bytes,
        descriptors,
    }))
}

/// Sends an item.
pub fn send_item(socket: BorrowedFd<'_>, name: &str, item: &Item) -> io::Result<()> {
    send(socket, &Said::Put(name.to_owned()), &item.bytes, &item.descriptors)
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
