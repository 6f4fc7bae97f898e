//! The buffer a reply is built in: the head first, the payload behind it, no allocation per request.

use crate::protocol::reply::OutHeader;
use crate::seat::Seat;
use crate::transport::to_page;
use keepfs_vfs::Errno;
use zerocopy::{Immutable, IntoBytes};

const HEAD: usize = size_of::<OutHeader>();

/// A reusable buffer for one reply.
pub struct ReplyBuf<'a> {
    bytes: Storage<'a>,
    len: usize,
    /// Of whom answers requests that must not be done twice, from here.
    seat: Option<Seat>,
}

enum Storage<'a> {
    /// A buffer and where the reply begins in it.
    Own(Vec<u8>, usize),
    Lent(&'a mut [u8]),
}

impl ReplyBuf<'_> {
    /// A buffer whose payload can grow to `payload` bytes. The payload begins a page if it can be larger than one, so
    /// that the kernel copies page to page.
    pub fn new(payload: usize) -> ReplyBuf<'static> {
        let slack = if payload > 4096 { 4096 } else { 0 };
        let mut bytes = vec![0; HEAD + payload + slack];
        let start = to_page(&bytes, HEAD).min(slack);
        bytes.truncate(start + HEAD + payload);
        ReplyBuf {
            bytes: Storage::Own(bytes, start),
            len: HEAD,
            seat: None,
        }
    }

    /// As [`ReplyBuf::new`], of whom has this seat.
    pub(crate) fn seated(payload: usize, seat: Seat) -> ReplyBuf<'static> {
        ReplyBuf {
            seat: Some(seat),
            ..ReplyBuf::new(payload)
        }
    }

    /// The number that nobody else who answers has ([`keepfs_vfs::Request::seat`]).
    pub fn seat(&self) -> Option<u32> {
        self.seat.as_ref().map(Seat::number)
    }

    /// A reply built in `area`, head and all; of a ring, whose requests end with their server.
    pub(crate) fn over(area: &mut [u8]) -> ReplyBuf<'_> {
        debug_assert!(area.len() >= HEAD);
        ReplyBuf {
            bytes: Storage::Lent(area),
            len: HEAD,
            seat: None,
        }
    }

    /// The finished reply: head and payload.
    pub fn bytes(&self) -> &[u8] {
        &self.storage()[..self.len]
    }

    /// The payload so far.
    pub fn payload(&self) -> &[u8] {
        &self.storage()[HEAD..self.len]
    }

    /// Forgets the payload.
    pub(crate) fn clear(&mut self) {
        self.len = HEAD;
    }

    /// Bytes of payload that still fit.
    pub(crate) fn room(&self) -> usize {
        self.storage().len() - self.len
    }

    /// Appends bytes. Errors: `EOVERFLOW` if they do not fit.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        self.next(bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Appends a structure. Errors: `EOVERFLOW` if it does not fit.
    pub(crate) fn push_struct<T: IntoBytes + Immutable>(&mut self, value: &T) -> Result<(), Errno> {
        self.push(value.as_bytes())
    }

    /// Appends zeros up to a multiple of 8 bytes of payload.
    pub(crate) fn pad8(&mut self) -> Result<(), Errno> {
        let short = (self.len - HEAD).next_multiple_of(8) - (self.len - HEAD);
        self.push(&[0; 8][..short])
    }

    /// Lets `fill` write up to `size` bytes behind the payload; it returns how many it wrote.
    /// Errors: those of `fill`; `EIO` if it claims more than it was given.
    pub(crate) fn fill(
        &mut self,
        size: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<(), Errno> {
        let size = size.min(self.room());
        let wrote = fill(self.next(size)?)?;
        if wrote > size {
            tracing::error!(wrote, size, "a read returned more than was asked for");
            return Err(Errno::EIO);
        }
        self.len += wrote;
        Ok(())
    }

    /// Writes the head of a good reply.
    pub(crate) fn finish(&mut self, unique: u64) {
        self.head(unique, 0);
    }

    /// Makes this the reply "it failed with `errno`".
    pub(crate) fn fail(&mut self, unique: u64, errno: Errno) {
        self.clear();
        // The kernel takes -511..=0 only.
        let number = if (1..=511).contains(&errno.0) {
            errno.0
        } else {
            Errno::EIO.0
        };
        self.head(unique, -number);
    }

    fn head(&mut self, unique: u64, error: i32) {
        let head = OutHeader {
            len: self.len as u32,
            error,
            unique,
        };
        self.storage_mut()[..HEAD].copy_from_slice(head.as_bytes());
    }

    fn next(&mut self, size: usize) -> Result<&mut [u8], Errno> {
        let end = self.len.checked_add(size).ok_or(Errno::EOVERFLOW)?;
        let start = self.len;
        self.storage_mut().get_mut(start..end).ok_or(Errno::EOVERFLOW)
    }

    fn storage(&self) -> &[u8] {
        match &self.bytes {
            Storage::Own(bytes, start) => &bytes[*start..],
            Storage::Lent(bytes) => bytes,
        }
    }

    fn storage_mut(&mut self) -> &mut [u8] {
        match &mut self.bytes {
            Storage::Own(bytes, start) => &mut bytes[*start..],
            Storage::Lent(bytes) => bytes,
        }
    }
}
