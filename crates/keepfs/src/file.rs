//! An open file of a pool.

use crate::error::{Error, Result};
use crate::paths::Held;
use keepfs_vfs::{Errno, SetAttr, Vfs, WriteHow};
use std::path::{Path, PathBuf};

/// Bytes asked for in one read of a whole file.
const PIECE: usize = 1 << 20;

/// An open file: it stays readable and writable if its name is removed, until this is dropped.
pub struct File {
    held: Held,
    path: PathBuf,
}

impl File {
    pub(crate) fn over(held: Held, path: &Path) -> File {
        File {
            held,
            path: path.to_owned(),
        }
    }

    /// Bytes of the file now.
    ///
    /// # Errors
    /// [`Error::File`] if its metadata cannot be read.
    pub fn len(&self) -> Result<u64> {
        let attr = self.held.volume().getattr(self.held.ino());
        attr.map(|attr| attr.size).map_err(self.failed("look at"))
    }

    /// Whether the file has no bytes now.
    ///
    /// # Errors
    /// As [`File::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `buf` from `offset` on; returns how many bytes, less than asked only at the end of the file.
    ///
    /// # Errors
    /// `EIO` if the bytes are not what was written.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let read = self.held.volume().read(self.held.ino(), offset, buf);
        read.map_err(self.failed("read"))
    }

    /// The whole content.
    pub(crate) fn read_all(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let end = bytes.len();
            bytes.resize(end + PIECE, 0);
            let read = self.read_at(end as u64, &mut bytes[end..])?;
            bytes.truncate(end + read);
            if read < PIECE {
                return Ok(bytes);
            }
        }
    }

    /// Writes all of `bytes` at `offset`; at most 64 KiB are atomic against a crash, more are a prefix.
    ///
    /// # Errors
    /// `ENOSPC`, `EFBIG`; a part may have been written.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let rest = &bytes[done..];
            let written = self.held.volume().write(self.held.ino(), at, rest, WriteHow::default());
            match written.map_err(self.failed("write"))? {
                0 => return Err(self.failed("write")(Errno::ENOSPC)),
                n => done += n,
            }
        }
        Ok(())
    }

    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// `EFBIG`, `EPERM` (immutable or append-only).
    pub fn set_len(&self, bytes: u64) -> Result<()> {
        let change = SetAttr {
            size: Some(bytes),
            ..SetAttr::default()
        };
        let changed = self.held.volume().setattr(self.held.ino(), &change);
        changed.map(drop).map_err(self.failed("truncate"))
    }

    /// Makes the file durable, and everything done before it.
    ///
    /// # Errors
    /// `EIO` if the device failed.
    pub fn sync(&self) -> Result<()> {
        let synced = self.held.volume().fsync(self.held.ino(), false);
        synced.map_err(self.failed("sync"))
    }

    fn failed(&self, what: &'static str) -> impl FnOnce(Errno) -> Error {
        Error::file(what, &self.path)
    }
}
