//! How the fields of operations stand in their data: packed, little-endian (S-12.3).

use super::{Attrs, Moment};
use crate::blockmap::PageEntry;
use zerocopy::{FromBytes, IntoBytes};

/// What is left to read.
pub(super) struct Rest<'a>(pub &'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }
}

/// A field of an operation.
pub(super) trait Field<'a>: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(rest: &mut Rest<'a>) -> Option<Self>;
}

macro_rules! numbers {
    ($($ty:ty)*) => { $(
        impl<'a> Field<'a> for $ty {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn take(rest: &mut Rest<'a>) -> Option<Self> {
                rest.array().map(Self::from_le_bytes)
            }
        }
    )* };
}

numbers!(u8 u32 u64 i64);

impl<'a> Field<'a> for Moment {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.sec.put(out);
        self.nsec.put(out);
    }
    fn take(rest: &mut Rest<'a>) -> Option<Self> {
        Some(Moment {
            sec: Field::take(rest)?,
            nsec: Field::take(rest)?,
        })
    }
}

impl<'a> Field<'a> for Attrs {
    fn put(&self, out: &mut Vec<u8>) {
        self.set.put(out);
        [self.mode, self.uid, self.gid].iter().for_each(|n| n.put(out));
        [self.atime, self.mtime, self.ctime].iter().for_each(|t| t.put(out));
    }
    fn take(rest: &mut Rest<'a>) -> Option<Self> {
        Some(Attrs {
            set: Field::take(rest)?,
            mode: Field::take(rest)?,
            uid: Field::take(rest)?,
            gid: Field::take(rest)?,
            atime: Field::take(rest)?,
            mtime: Field::take(rest)?,
            ctime: Field::take(rest)?,
        })
    }
}

impl<'a> Field<'a> for &'a [u8] {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        out.extend_from_slice(self);
    }
    fn take(rest: &mut Rest<'a>) -> Option<Self> {
        let len = u32::take(rest)?;
        rest.bytes(len as usize)
    }
}

impl<'a> Field<'a> for &'a [PageEntry] {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_bytes().put(out);
    }
    fn take(rest: &mut Rest<'a>) -> Option<Self> {
        <[PageEntry]>::ref_from_bytes(<&[u8]>::take(rest)?).ok()
    }
}
