//! A file system that is not there any more: everything it is asked fails.

use crate::{
    Attr, DirEntry, Entry, Errno, FallocMode, Ino, InodeFlags, OnceOp, OpenHow, Request, Result, SeekWhence, SetAttr,
    StatFs, Vfs, WriteHow,
};

/// What stands where a pool cannot be opened: `EIO` for every request. Nothing fails for who forgets and who unmounts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refusing;

impl Vfs for Refusing {
    fn lookup(&self, _: Ino, _: &[u8]) -> Result<Entry> {
        Err(Errno::EIO)
    }

    fn lookup_ino(&self, _: Ino) -> Result<Entry> {
        Err(Errno::EIO)
    }

    fn forget(&self, _: Ino, _: u64) {}

    fn getattr(&self, _: Ino) -> Result<Attr> {
        Err(Errno::EIO)
    }

    fn setattr(&self, _: Ino, _: &SetAttr) -> Result<Attr> {
        Err(Errno::EIO)
    }

    fn readlink(&self, _: Ino) -> Result<Vec<u8>> {
        Err(Errno::EIO)
    }

    fn once(&self, _: Option<Request>, _: OnceOp<'_>) -> Result<Option<Entry>> {
        Err(Errno::EIO)
    }

    fn open(&self, _: Ino, _: OpenHow) -> Result<()> {
        Err(Errno::EIO)
    }

    fn read(&self, _: Ino, _: u64, _: &mut [u8]) -> Result<usize> {
        Err(Errno::EIO)
    }

    fn write(&self, _: Ino, _: u64, _: &[u8], _: WriteHow) -> Result<usize> {
        Err(Errno::EIO)
    }

    fn fallocate(&self, _: Ino, _: FallocMode, _: u64, _: u64) -> Result<()> {
        Err(Errno::EIO)
    }

    fn seek(&self, _: Ino, _: u64, _: SeekWhence) -> Result<u64> {
        Err(Errno::EIO)
    }

    fn copy_file_range(&self, _: Ino, _: u64, _: Ino, _: u64, _: u64) -> Result<u64> {
        Err(Errno::EIO)
    }

    fn readdir(&self, _: Ino, _: u64, _: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        Err(Errno::EIO)
    }

    fn fsync(&self, _: Ino, _: bool) -> Result<()> {
        Err(Errno::EIO)
    }

    fn syncfs(&self) -> Result<()> {
        Err(Errno::EIO)
    }

    fn statfs(&self) -> Result<StatFs> {
        Err(Errno::EIO)
    }

    fn getxattr(&self, _: Ino, _: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::EIO)
    }

    fn listxattr(&self, _: Ino) -> Result<Vec<Vec<u8>>> {
        Err(Errno::EIO)
    }

    fn set_flags(&self, _: Ino, _: InodeFlags) -> Result<()> {
        Err(Errno::EIO)
    }

    fn shutdown(&self, _: bool) -> Result<()> {
        Err(Errno::EIO)
    }

    fn unmount(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
