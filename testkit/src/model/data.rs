//! Contents of regular files: read, write, allocate, seek and copy.

use super::state::State;
use keepfs_vfs::{Errno, FallocMode, FileKind, Ino, Result, SeekWhence, Time, WriteHow};

/// A file and a byte offset in it.
type Place = (Ino, u64);

impl State {
    pub(super) fn read(&mut self, ino: Ino, offset: u64, buf: &mut [u8], now: Time) -> Result<usize> {
        let inode = self.inode_mut(ino)?;
        let count = inode.file()?.read(offset, buf);
        if !buf.is_empty() {
            inode.stamp_accessed(now);
        }
        Ok(count)
    }

    pub(super) fn write(&mut self, ino: Ino, offset: u64, data: &[u8], how: WriteHow, now: Time) -> Result<usize> {
        let max = self.options.max_file_size;
        let inode = self.inode_mut(ino)?;
        let size = inode.file()?.size();
        if inode.is_immutable() && !how.writeback {
            return Err(Errno::EPERM);
        }
        let offset = if how.append { size } else { offset };
        if how.keep_old && inode.is_append_only() && offset < size {
            return Err(Errno::EPERM);
        }
        if data.is_empty() {
            return Ok(0);
        }
        let count = room(offset, data.len() as u64, max)? as usize;
        inode.file_mut()?.write(offset, &data[..count]);
        let (mtime, ctime) = (inode.mtime, inode.ctime);
        inode.note_contents_changed(how.kill_suidgid, now);
        if how.keep_times {
            (inode.mtime, inode.ctime) = (mtime, ctime);
        }
        Ok(count)
    }

    pub(super) fn fallocate(&mut self, ino: Ino, mode: FallocMode, offset: u64, len: u64, now: Time) -> Result<()> {
        let max = self.options.max_file_size;
        let inode = self.inode_mut(ino)?;
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        let destroys = matches!(mode, FallocMode::PunchHole | FallocMode::ZeroRange { .. });
        if inode.is_immutable() || inode.is_append_only() && destroys {
            return Err(Errno::EPERM);
        }
        match inode.kind() {
            FileKind::File => (),
            FileKind::Dir => return Err(Errno::EISDIR),
            _ => return Err(Errno::ENODEV),
        }
        let end = offset.checked_add(len).filter(|&end| end <= max).ok_or(Errno::EFBIG)?;
        let pages = inode.file_mut()?;
        match mode {
            FallocMode::Allocate | FallocMode::KeepSize => pages.allocate(offset, end),
            FallocMode::PunchHole => pages.punch(offset, end),
            FallocMode::ZeroRange { .. } => pages.zero(offset, end),
        }
        if matches!(mode, FallocMode::Allocate | FallocMode::ZeroRange { keep_size: false }) {
            pages.extend(end);
        }
        inode.note_contents_changed(false, now);
        Ok(())
    }

    pub(super) fn seek(&self, ino: Ino, offset: u64, whence: SeekWhence) -> Result<u64> {
        let pages = self.inode(ino)?.file()?;
        if offset >= pages.size() {
            return Err(Errno::ENXIO);
        }
        match whence {
            SeekWhence::Data => pages.next_data(offset).ok_or(Errno::ENXIO),
            SeekWhence::Hole => Ok(pages.next_hole(offset)),
        }
    }

    pub(super) fn copy_file_range(&mut self, from: Place, to: Place, len: u64, now: Time) -> Result<u64> {
        let max = self.options.max_file_size;
        let source = self.inode(from.0)?;
        let target = self.inode(to.0)?;
        let source_pages = source.file()?;
        target.file()?;
        if target.is_immutable() {
            return Err(Errno::EPERM);
        }
        if from.1.checked_add(len).is_none() || to.1.checked_add(len).is_none() {
            return Err(Errno::EOVERFLOW);
        }
        let count = len.min(source_pages.size().saturating_sub(from.1));
        if count == 0 {
            return Ok(0);
        }
        let count = room(to.1, count, max)?;
        if from.0 == to.0 && to.1 < from.1 + count && from.1 < to.1 + count {
            return Err(Errno::EINVAL);
        }
        let pieces = source_pages.written_pieces(from.1, from.1 + count);
        self.inode_mut(from.0)?.stamp_accessed(now);
        let target = self.inode_mut(to.0)?;
        let pages = target.file_mut()?;
        pages.punch(to.1, to.1 + count);
        for (offset, bytes) in pieces {
            pages.write(to.1 + (offset - from.1), &bytes);
        }
        pages.extend(to.1 + count);
        target.note_contents_changed(false, now);
        Ok(count)
    }
}

/// How much of `len` bytes fits at `offset`. Errors: `EFBIG` if nothing does.
fn room(offset: u64, len: u64, max_file_size: u64) -> Result<u64> {
    match max_file_size.saturating_sub(offset) {
        0 if len > 0 => Err(Errno::EFBIG),
        rest => Ok(len.min(rest)),
    }
}
