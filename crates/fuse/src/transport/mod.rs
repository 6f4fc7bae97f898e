//! The seam between the session and what moves bytes to and from the kernel.

mod dev;

pub use dev::DevTransport;
pub(crate) use dev::io_flusher;

use crate::error::FuseError;
use crate::reply::ReplyBuf;
use std::io;

/// Moves requests and replies. `dev` is the one that survives its server's death (pump.md); others can be added.
pub trait Transport: Send + Sync {
    /// Serves requests until the file system is unmounted; blocks. Starts and ends its own threads.
    /// Errors: [`FuseError::Aborted`], [`FuseError::Device`], [`FuseError::Thread`].
    fn serve(&self, service: &dyn Service) -> Result<(), FuseError>;

    /// Sends a finished message: a reply made elsewhere than in [`Service::serve`], which must go back the way its
    /// request came, or a notification, which may go by [`Channel::FIRST`].
    /// Errors: `ENOENT` if nobody waits for it any more.
    fn send(&self, channel: Channel, message: &[u8]) -> io::Result<()>;
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
    /// Handles one request. `true`: send `reply`. `false`: it will be answered later through
    /// [`Transport::send`], or needs no answer; the service may have taken `request` away (it is empty then).
    fn serve(&self, channel: Channel, request: &mut RequestBuf, reply: &mut ReplyBuf) -> bool;

    /// Bytes of payload a reply can have.
    fn reply_size(&self) -> usize;

    /// Bytes a request can have.
    fn request_size(&self) -> usize;
}

/// The bytes of one request as they were read.
#[derive(Debug, Default)]
pub struct RequestBuf {
    bytes: Vec<u8>,
    len: usize,
}

impl RequestBuf {
    /// A buffer for requests of up to `size` bytes.
    pub fn new(size: usize) -> RequestBuf {
        RequestBuf {
            bytes: vec![0; size],
            len: 0,
        }
    }

    /// The request.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Reads the next request by `read`, which says how long it was.
    pub fn fill(&mut self, read: impl FnOnce(&mut [u8]) -> io::Result<usize>) -> io::Result<()> {
        self.len = 0;
        self.len = read(&mut self.bytes)?.min(self.bytes.len());
        Ok(())
    }

    /// Takes the request out, leaving the empty buffer `spare` in its place.
    pub fn replace(&mut self, spare: RequestBuf) -> RequestBuf {
        std::mem::replace(self, spare)
    }

    /// A small copy of the request.
    pub fn to_small(&self) -> RequestBuf {
        RequestBuf {
            bytes: self.bytes().to_vec(),
            len: self.len,
        }
    }
}
