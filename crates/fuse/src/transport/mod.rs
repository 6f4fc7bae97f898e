//! The seam between the session and what moves bytes to and from the kernel.

mod dev;

pub use dev::DevTransport;
pub(crate) use dev::{io_flusher, pin};

use crate::dispatch::Parts;
use crate::error::FuseError;
use crate::protocol::request::{InHeader, WriteIn};
use crate::reply::ReplyBuf;
use crate::uring::Slot;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Moves requests and replies. `dev` is the one that survives its server's death; `uring` is faster.
pub trait Transport: Send + Sync {
    /// Serves requests until the file system is unmounted; blocks. Starts and ends its own threads.
    /// Errors: [`FuseError::Aborted`], [`FuseError::Device`], [`FuseError::Thread`].
    fn serve(&self, service: &dyn Service) -> Result<(), FuseError>;

    /// Sends the reply to a request for which [`Service::serve`] did not want it sent. `reply` is not used if it was
    /// built where `request` says. It must go back the way its request came.
    /// Errors: `ENOENT` if nobody waits for it any more.
    fn answer(&self, channel: Channel, request: &mut RequestBuf, reply: &ReplyBuf) -> io::Result<()>;

    /// Sends a notification. Errors: `ENOENT` if the kernel has nothing cached of what it is about.
    fn notify(&self, message: &[u8]) -> io::Result<()>;

    /// All its descriptors of the connection once more; none if they do not carry all of it.
    /// Errors: those of dup(2).
    fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        Ok(Vec::new())
    }

    /// Whether the file system is mounted still: the kernel ends the connection before its device number is another's.
    fn is_connected(&self) -> bool;

    /// Its name, as in the mount option.
    fn name(&self) -> &'static str;
}

/// The way a request came. The kernel looks for the request of a reply only where it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channel(pub usize);

impl Channel {
    /// The way that always exists.
    pub const FIRST: Channel = Channel(0);
}

/// What a transport hands requests to.
pub trait Service: Sync {
    /// Handles one request. `true`: send `reply`, or what was built where `request` says. `false`: it will be
    /// answered later through [`Transport::answer`], or needs no answer; the service may have taken `request` away
    /// (it is empty then).
    fn serve(&self, channel: Channel, request: &mut RequestBuf, reply: &mut ReplyBuf) -> bool;

    /// The transport has sent the reply to `request` itself, and needed `took` for it.
    fn replied(&self, request: &RequestBuf, took: Duration) {
        let _ = (request, took);
    }

    /// A buffer for any reply, of whom does one request at a time.
    fn reply_buf(&self) -> ReplyBuf<'static>;

    /// Bytes a request can have.
    fn request_size(&self) -> usize;
}

/// One request: its bytes as they were read, or the beginning of them and the ring's slot with the rest.
#[derive(Debug, Default)]
pub struct RequestBuf {
    bytes: Vec<u8>,
    /// Where the request begins in `bytes`.
    start: usize,
    len: usize,
    slot: Option<Slot>,
}

/// Bytes of the heads before the data of a WRITE.
const WRITE_HEAD: usize = size_of::<InHeader>() + size_of::<WriteIn>();

impl RequestBuf {
    /// A buffer for requests of up to `size` bytes. The data of a WRITE lies in whole pages, so that the kernel copies
    /// page to page.
    pub fn new(size: usize) -> RequestBuf {
        // Not zeros, which would be pages that are not there yet: if the server is killed while the kernel fetches one to put a
        // request into it, the kernel answers that request EIO instead of keeping it for the next server (decision 0531).
        let mut bytes = vec![1; size + PAGE];
        let start = to_page(&bytes, WRITE_HEAD);
        bytes.truncate(start + size);
        RequestBuf {
            bytes,
            start,
            len: 0,
            slot: None,
        }
    }

    /// The request; over io_uring only its head and its fixed part.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    /// All of the request.
    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts {
            head: self.bytes(),
            rest: self.slot.as_ref().map_or(&[], Slot::data),
        }
    }

    /// The request and the place where its reply must be built; `None` if the reply is built in a buffer.
    pub(crate) fn in_place(&mut self) -> Option<(Parts<'_>, &mut [u8])> {
        let area = self.slot.as_mut()?.reply_area()?;
        Some((Parts::from(&self.bytes[self.start..self.start + self.len]), area))
    }

    /// Reads the next request by `read`, which says how long it was.
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<()> {
        self.len = 0;
        let room = &mut self.bytes[self.start..];
        self.len = read(room)?.min(room.len());
        Ok(())
    }

    /// Takes in the request that has come in `slot`.
    pub(crate) fn hold(&mut self, slot: Slot) {
        slot.copy_head(&mut self.bytes);
        (self.start, self.len) = (0, self.bytes.len());
        self.slot = Some(slot);
    }

    /// The slot of the request, if it came in one and nobody has taken it.
    pub(crate) fn take_slot(&mut self) -> Option<Slot> {
        self.slot.take()
    }

    /// Takes the request out, leaving the empty buffer `spare` in its place.
    pub fn replace(&mut self, spare: RequestBuf) -> RequestBuf {
        std::mem::replace(self, spare)
    }

    /// Takes the request out by a small copy, leaving the buffer.
    pub(crate) fn take_small(&mut self) -> RequestBuf {
        RequestBuf {
            slot: self.slot.take(),
            ..self.to_small()
        }
    }

    /// A small copy of [`RequestBuf::bytes`], which cannot be answered.
    pub fn to_small(&self) -> RequestBuf {
        RequestBuf {
            bytes: self.bytes().to_vec(),
            start: 0,
            len: self.len,
            slot: None,
        }
    }
}

/// Bytes of a page.
const PAGE: usize = 4096;

/// Where in `bytes` something must begin for its byte `at` to be the first of a page; less than a page.
pub(crate) fn to_page(bytes: &[u8], at: usize) -> usize {
    (PAGE - (bytes.as_ptr() as usize + at) % PAGE) % PAGE
}
