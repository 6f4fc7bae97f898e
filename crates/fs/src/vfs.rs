//! `Volume` as a [`Vfs`]: each operation in one line, errors through the one table. Who only reads is repeated as a whole where
//! damage stood in the way (S-15.19): what was read wrong may be what was followed.

use crate::readdir::Much;
use crate::{AccessTimes, Volume};
use keepfs_vfs::{
    Attr, DirEntry, Entry, FallocMode, FileKind, Ino, InodeFlags, OnceOp, OpenHow, Request, Result, SeekWhence,
    SetAttr, StatFs, Vfs, WriteHow,
};
use std::cell::Cell;

impl Vfs for Volume {
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Entry> {
        Ok(self.do_lookup(parent.0, name)?)
    }

    fn lookup_ino(&self, ino: Ino) -> Result<Entry> {
        Ok(self.do_lookup_ino(ino.0)?)
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.do_forget(ino.0, count);
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        Ok(self.do_getattr(ino.0)?)
    }

    fn setattr(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        Ok(self.do_setattr(ino.0, change)?)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        Ok(self.do_readlink(ino.0)?)
    }

    fn once(&self, request: Option<Request>, op: OnceOp<'_>) -> Result<Option<Entry>> {
        Ok(self.do_once(request, op)?)
    }

    fn open(&self, ino: Ino, how: OpenHow) -> Result<()> {
        Ok(self.do_open(ino.0, how)?)
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(self.do_read(ino.0, offset, buf)?)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], how: WriteHow) -> Result<usize> {
        Ok(self.do_write(ino.0, offset, data, how)?)
    }

    fn fallocate(&self, ino: Ino, mode: FallocMode, offset: u64, len: u64) -> Result<()> {
        Ok(self.do_fallocate(ino.0, mode, offset, len)?)
    }

    fn seek(&self, ino: Ino, offset: u64, whence: SeekWhence) -> Result<u64> {
        Ok(self.do_seek(ino.0, offset, whence)?)
    }

    fn copy_file_range(&self, from: Ino, from_offset: u64, to: Ino, to_offset: u64, len: u64) -> Result<u64> {
        Ok(self.do_copy((from.0, from_offset), (to.0, to_offset), len)?)
    }

    fn readdir(&self, ino: Ino, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let last = Cell::new(cookie);
        let mut told = |entry: DirEntry<'_>| {
            last.set(entry.cookie);
            sink(entry)
        };
        Ok(self.do_readdir(ino.0, last.get(), Much::All, &mut told)?)
    }

    fn losses(&self) -> u32 {
        self.lookups.losses()
    }

    fn must_note_loss(&self) -> bool {
        self.lookups.has_lost() && self.store.history().tells_of_answered()
            || self.lookups.has_lost_staged() && self.has_staged_loss_to_note()
    }

    fn readdir_part(&self, ino: Ino, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        Ok(self.do_readdir(ino.0, cookie, Much::Some, sink)?)
    }

    fn fsync(&self, ino: Ino, _data_only: bool) -> Result<()> {
        self.do_fsync([ino.0]).into_iter().collect()
    }

    fn fsync_all(&self, wanted: &[(Ino, bool)]) -> Vec<Result<()>> {
        self.do_fsync(wanted.iter().map(|(ino, _)| ino.0))
    }

    fn stamps_each_read(&self) -> bool {
        self.access_times.of(FileKind::File) == AccessTimes::Strict
    }

    fn syncfs(&self) -> Result<()> {
        Ok(self.do_syncfs()?)
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(self.do_statfs()?)
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        Ok(self.do_getxattr(ino.0, name)?)
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        Ok(self.do_listxattr(ino.0)?)
    }

    fn set_flags(&self, ino: Ino, flags: InodeFlags) -> Result<()> {
        Ok(self.do_set_flags(ino.0, flags)?)
    }

    fn trim(&self, start: u64, len: u64, min_len: u64) -> Result<u64> {
        Ok(self.do_trim(start, len, min_len)?)
    }

    fn shutdown(&self, flush_first: bool) -> Result<()> {
        Ok(self.do_shutdown(flush_first)?)
    }

    fn unmount(&self) -> Result<()> {
        Ok(self.do_unmount()?)
    }
}
