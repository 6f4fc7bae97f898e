//! Keepfs as a library: calls of [`Volume`] by the thread that wants them done.

use super::calls::{Calls, Traffic};
use keepfs_fs::Volume;
use keepfs_lab::million::new_inode;
use keepfs_vfs::{Direct, Errno, FileKind, Ino, RenameFlags, SetAttr, SetTime, Vfs, WriteHow};
use std::io::{Error, Result};

/// A volume in this process.
pub struct Library<'v>(pub &'v Volume);

fn error(errno: Errno) -> Error {
    Error::from_raw_os_error(errno.0)
}

impl Library<'_> {
    fn put(&self, file: Ino, offset: u64, data: &[u8], append: bool) -> Result<()> {
        let how = WriteHow {
            append,
            ..WriteHow::default()
        };
        match self.0.write(file, offset, data, how).map_err(error)? {
            n if n == data.len() => Ok(()),
            _ => Err(error(Errno::ENOSPC)),
        }
    }

    fn inode(&self, dir: Ino, name: &[u8], kind: FileKind) -> Result<Ino> {
        let entry = self.0.mknod(dir, name, &new_inode(kind)).map_err(error)?;
        Ok(entry.attr.ino)
    }
}

impl Calls for Library<'_> {
    type Dir = Ino;
    type File = Ino;
    type Made = Ino;

    fn directory(&self, name: &str) -> Result<Ino> {
        self.inode(Ino::ROOT, name.as_bytes(), FileKind::Dir)
    }
    fn make(&self, dir: &Ino, name: &[u8]) -> Result<Ino> {
        self.inode(*dir, name, FileKind::File)
    }
    fn release(&self, made: Ino) {
        self.0.forget(made, 1);
    }
    fn lookup(&self, dir: &Ino, name: &[u8]) -> Result<()> {
        let entry = self.0.lookup(*dir, name).map_err(error)?;
        self.0.forget(entry.attr.ino, 1);
        Ok(())
    }
    fn create(&self, dir: &Ino, name: &[u8]) -> Result<Ino> {
        self.make(dir, name)
    }
    fn open(&self, dir: &Ino, name: &[u8], _: bool) -> Result<Ino> {
        Ok(self.0.lookup(*dir, name).map_err(error)?.attr.ino)
    }
    fn close(&self, file: Ino) {
        self.0.forget(file, 1);
    }
    fn read(&self, file: &Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.0.read(*file, offset, buf).map_err(error)
    }
    fn write(&self, file: &Ino, offset: u64, data: &[u8]) -> Result<()> {
        self.put(*file, offset, data, false)
    }
    fn append(&self, file: &Ino, data: &[u8]) -> Result<()> {
        self.put(*file, 0, data, true)
    }
    fn fsync(&self, file: &Ino) -> Result<()> {
        self.0.fsync(*file, false).map_err(error)
    }
    fn rename(&self, dir: &Ino, from: &[u8], to: &[u8]) -> Result<()> {
        let done = self.0.rename(*dir, from, *dir, to, RenameFlags::default());
        done.map_err(error)
    }
    fn link(&self, dir: &Ino, from: &[u8], to: &[u8]) -> Result<()> {
        let ino = self.0.lookup(*dir, from).map_err(error)?.attr.ino;
        let linked = self.0.link(ino, *dir, to).map(|_| self.0.forget(ino, 1));
        self.0.forget(ino, 1);
        linked.map_err(error)
    }
    fn chmod(&self, dir: &Ino, mode: u32) -> Result<()> {
        let change = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        self.0.setattr(*dir, &change).map(drop).map_err(error)
    }
    fn touch(&self, dir: &Ino, name: &[u8]) -> Result<()> {
        let change = SetAttr {
            atime: Some(SetTime::Now),
            mtime: Some(SetTime::Now),
            ..SetAttr::default()
        };
        let ino = self.0.lookup(*dir, name).map_err(error)?.attr.ino;
        let touched = self.0.setattr(ino, &change).map(drop);
        self.0.forget(ino, 1);
        touched.map_err(error)
    }
    fn unlink(&self, dir: &Ino, name: &[u8]) -> Result<()> {
        self.0.unlink(*dir, name).map_err(error)
    }
    fn settle(&self) -> Result<()> {
        self.0.reclaim_now().map_err(Error::other)
    }
    fn traffic(&self) -> Result<Traffic> {
        let seen = self.0.store().traffic();
        Ok(Traffic {
            bytes: seen.all_written().bytes,
            flushes: seen.flushes,
        })
    }
}
