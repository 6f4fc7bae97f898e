//! Runs operations on a [`Vfs`] as the kernel would: lookups, open, the operation, forget.

mod paths;

use super::{Op, Outcome, Who};
use crate::model::{acl_name, acl_xattr};
use crate::tree::DataHash;
use keepfs_vfs::{
    Direct, Errno, FileKind, Ino, NewInode, OpenHow, Result, SeekWhence, SetAttr, Vfs, WriteHow, XattrHow,
};
use paths::{Got, Stop};

/// How many inodes a session can hold open.
pub const SLOTS: usize = 4;

/// The bytes that a seed stands for; none of them is zero.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut rng = super::Rng::new(seed);
    while bytes.len() < len {
        bytes.extend(rng.next_u64().to_le_bytes().map(|b| b | 1));
    }
    bytes.truncate(len);
    bytes
}

/// The value that [`Op::SetXattr`] sets: bytes of the seed, but for file capabilities, which the kernel checks,
/// a valid set (revision 2, the seed's bits permitted) whatever the length.
pub fn xattr_value(name: &str, seed: u64, len: usize) -> Vec<u8> {
    if name == "security.capability" {
        let words: [u32; 5] = [0x0200_0001, seed as u32, 0, 0, 0];
        return words.iter().flat_map(|w| w.to_le_bytes()).collect();
    }
    pattern(seed, len)
}

/// The inodes that a session holds open.
pub type Slots = [Option<Ino>; SLOTS];

/// A run of operations on one file system, with the inodes it holds open. Ending it closes them.
pub struct Session<'a> {
    vfs: &'a dyn Vfs,
    slots: Slots,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        for ino in self.slots.iter().flatten() {
            self.vfs.forget(*ino, 1);
        }
    }
}

type Run = core::result::Result<Outcome, Stop>;

const READ: OpenHow = OpenHow {
    write: false,
    append: false,
    truncate: false,
    kill_suidgid: false,
};
const WRITE: OpenHow = OpenHow { write: true, ..READ };

fn new_inode(kind: FileKind, mode: u32, who: Who) -> NewInode {
    NewInode {
        mode: kind.type_bits() | mode & 0o7777,
        umask: who.umask,
        uid: who.uid,
        gid: who.gid,
        rdev: 0,
    }
}

impl<'a> Session<'a> {
    /// A session that holds nothing open.
    pub fn new(vfs: &'a dyn Vfs) -> Session<'a> {
        Session::holding(vfs, [None; SLOTS])
    }

    /// A session that goes on with what another one [left](Session::leave), on the next server of the same file system.
    pub fn holding(vfs: &'a dyn Vfs, slots: Slots) -> Session<'a> {
        Session { vfs, slots }
    }

    /// What is held open.
    pub fn held(&self) -> Slots {
        self.slots
    }

    /// Ends the session without closing what it holds: the server died.
    pub fn leave(mut self) -> Slots {
        core::mem::replace(&mut self.slots, [None; SLOTS])
    }

    /// Runs one operation. All lookups but those held in slots are given back.
    pub fn run(&mut self, op: &Op) -> Outcome {
        match self.try_run(op) {
            Ok(outcome) => outcome,
            Err(Stop::Errno(errno)) => Outcome::Err(errno),
            Err(Stop::WrongKind) => Outcome::WrongKind,
        }
    }

    fn try_run(&mut self, op: &Op) -> Run {
        match op {
            Op::Tmpfile { .. } | Op::Hold { .. } | Op::Release { .. } => self.run_on_slots(op),
            Op::Create { .. } | Op::Mkdir { .. } | Op::Mknod { .. } | Op::Symlink { .. } => self.run_create(op),
            Op::Link { .. } | Op::Unlink { .. } | Op::Rmdir { .. } | Op::Rename { .. } => self.run_on_names(op),
            Op::Write { .. } | Op::Append { .. } | Op::Truncate { .. } | Op::OpenTruncate { .. } => {
                self.run_on_contents(op)
            }
            Op::Fallocate { .. } | Op::CopyRange { .. } | Op::Read { .. } | Op::Seek { .. } | Op::SeekMap { .. } => {
                self.run_on_contents(op)
            }
            Op::SetXattr { .. } | Op::GetXattr { .. } | Op::ListXattr { .. } | Op::RemoveXattr { .. } => {
                self.run_on_xattrs(op)
            }
            Op::SetAcl { .. } => self.run_on_xattrs(op),
            _ => self.run_on_inode(op),
        }
    }

    fn run_on_slots(&mut self, op: &Op) -> Run {
        match op {
            Op::Tmpfile { slot, dir, mode, who } => {
                let dir = self.get(dir)?;
                let entry = self
                    .vfs
                    .tmpfile(dir.attr.ino, &new_inode(FileKind::File, mode.0, *who))?;
                self.put(*slot, Some(entry.attr.ino));
                Ok(entry.attr.into())
            }
            Op::Hold { slot, path } => {
                let mut got = self.get(path)?;
                if !matches!(got.attr.kind(), FileKind::File | FileKind::Dir) {
                    return Err(Stop::WrongKind);
                }
                if got.lookups == 0 {
                    self.vfs.lookup_ino(got.attr.ino)?;
                }
                got.lookups = 0;
                let ino = got.attr.ino;
                drop(got);
                self.put(*slot, Some(ino));
                Ok(Outcome::Done)
            }
            Op::Release { slot } => {
                self.put(*slot, None);
                Ok(Outcome::Done)
            }
            _ => Err(Stop::WrongKind),
        }
    }

    fn run_create(&self, op: &Op) -> Run {
        let entry = match op {
            Op::Create { path, mode, who } => {
                let (dir, name) = self.parent(path)?;
                self.vfs
                    .mknod(dir.attr.ino, name, &new_inode(FileKind::File, mode.0, *who))?
            }
            Op::Mkdir { path, mode, who } => {
                let (dir, name) = self.parent(path)?;
                self.vfs
                    .mknod(dir.attr.ino, name, &new_inode(FileKind::Dir, mode.0, *who))?
            }
            Op::Mknod { path, mode, rdev, who } => {
                let (dir, name) = self.parent(path)?;
                let kind = FileKind::of_mode(mode.0).ok_or(Errno::EINVAL)?;
                self.vfs.mknod(
                    dir.attr.ino,
                    name,
                    &NewInode {
                        rdev: *rdev,
                        ..new_inode(kind, mode.0, *who)
                    },
                )?
            }
            Op::Symlink { path, target, who } => {
                let (dir, name) = self.parent(path)?;
                let new = new_inode(FileKind::Symlink, 0o777, *who);
                self.vfs.symlink(dir.attr.ino, name, target.as_bytes(), &new)?
            }
            _ => return Err(Stop::WrongKind),
        };
        self.vfs.forget(entry.attr.ino, 1);
        Ok(entry.attr.into())
    }

    fn run_on_names(&self, op: &Op) -> Run {
        match op {
            Op::Link { from, to } => {
                let got = self.get(from)?;
                let (dir, name) = self.parent(to)?;
                let entry = self.vfs.link(got.attr.ino, dir.attr.ino, name)?;
                self.vfs.forget(entry.attr.ino, 1);
                Ok(entry.attr.into())
            }
            Op::Unlink { path } => {
                let (dir, name) = self.parent(path)?;
                Ok(self.vfs.unlink(dir.attr.ino, name)?.into())
            }
            Op::Rmdir { path } => {
                let (dir, name) = self.parent(path)?;
                Ok(self.vfs.rmdir(dir.attr.ino, name)?.into())
            }
            Op::Rename { from, to, flags } => {
                let (old, old_name) = self.parent(from)?;
                let (new, new_name) = self.parent(to)?;
                Ok(self
                    .vfs
                    .rename(old.attr.ino, old_name, new.attr.ino, new_name, *flags)?
                    .into())
            }
            _ => Err(Stop::WrongKind),
        }
    }

    fn run_on_contents(&self, op: &Op) -> Run {
        match op {
            Op::Write {
                path,
                offset,
                len,
                seed,
                kill,
            } => {
                let got = self.open(path, WRITE)?;
                let how = WriteHow {
                    kill_suidgid: *kill,
                    ..WriteHow::default()
                };
                Ok(Outcome::Number(self.write(
                    &got,
                    *offset,
                    &pattern(*seed, *len),
                    how,
                )?))
            }
            Op::Append { path, len, seed, kill } => {
                let got = self.open(path, OpenHow { append: true, ..WRITE })?;
                let how = WriteHow {
                    append: true,
                    kill_suidgid: *kill,
                    ..WriteHow::default()
                };
                Ok(Outcome::Number(self.write(&got, 0, &pattern(*seed, *len), how)?))
            }
            Op::Truncate { path, size, kill } => {
                let got = self.open(path, WRITE)?;
                let change = SetAttr {
                    size: Some(*size),
                    kill_suidgid: *kill,
                    ..SetAttr::default()
                };
                Ok(self.vfs.setattr(got.attr.ino, &change)?.into())
            }
            Op::OpenTruncate { path } => {
                self.open(
                    path,
                    OpenHow {
                        truncate: true,
                        ..WRITE
                    },
                )?;
                Ok(Outcome::Done)
            }
            Op::Fallocate {
                path,
                mode,
                offset,
                len,
            } => {
                let got = self.open(path, WRITE)?;
                Ok(self.vfs.fallocate(got.attr.ino, *mode, *offset, *len)?.into())
            }
            Op::CopyRange {
                from,
                from_offset,
                to,
                to_offset,
                len,
            } => {
                let source = self.open(from, READ)?;
                let target = self.open(to, WRITE)?;
                let (from, to) = (source.attr.ino, target.attr.ino);
                Ok(Outcome::Number(self.vfs.copy_file_range(
                    from,
                    *from_offset,
                    to,
                    *to_offset,
                    *len,
                )?))
            }
            Op::Read { path, offset, len } => self.read(&self.open(path, READ)?, *offset, *len),
            Op::Seek { path, offset, whence } => {
                let got = self.open(path, READ)?;
                Ok(Outcome::Number(self.vfs.seek(got.attr.ino, *offset, *whence)?))
            }
            Op::SeekMap { path } => Ok(self.check_seek_map(&self.open(path, READ)?)?),
            _ => Err(Stop::WrongKind),
        }
    }

    fn run_on_inode(&mut self, op: &Op) -> Run {
        match op {
            Op::ReadDir { path } => {
                let dir = self.get(path)?;
                let mut names = Vec::new();
                self.vfs.readdir(dir.attr.ino, 0, &mut |e| {
                    names.push(e.name.to_vec());
                    true
                })?;
                names.sort();
                Ok(Outcome::Names(names))
            }
            Op::ReadLink { path } => Ok(Outcome::Bytes(self.vfs.readlink(self.get(path)?.attr.ino)?)),
            Op::Stat { path } => Ok(self.vfs.getattr(self.get(path)?.attr.ino)?.into()),
            Op::SetMode { path, mode } => {
                let got = self.get(path)?;
                if got.attr.kind() == FileKind::Symlink {
                    return Err(Stop::WrongKind);
                }
                self.setattr(
                    &got,
                    &SetAttr {
                        mode: Some(mode.0),
                        ..SetAttr::default()
                    },
                )
            }
            Op::Chown { path, uid, gid } => self.setattr(
                &self.get(path)?,
                &SetAttr {
                    uid: *uid,
                    gid: *gid,
                    ..SetAttr::default()
                },
            ),
            Op::Utimes { path, atime, mtime } => self.setattr(
                &self.get(path)?,
                &SetAttr {
                    atime: *atime,
                    mtime: *mtime,
                    ..SetAttr::default()
                },
            ),
            Op::SetFlags { path, flags } => {
                let got = self.get_file_or_dir(path)?;
                Ok(self.vfs.set_flags(got.attr.ino, *flags)?.into())
            }
            Op::Fsync { path, data_only } => {
                let got = self.get_file_or_dir(path)?;
                Ok(self.vfs.fsync(got.attr.ino, *data_only)?.into())
            }
            Op::SyncFs {} => Ok(self.vfs.syncfs()?.into()),
            _ => Err(Stop::WrongKind),
        }
    }

    fn run_on_xattrs(&self, op: &Op) -> Run {
        match op {
            Op::SetXattr {
                path,
                name,
                len,
                seed,
                how,
            } => {
                let got = self.get(path)?;
                let value = xattr_value(name, *seed, *len);
                Ok(self.vfs.setxattr(got.attr.ino, name.as_bytes(), &value, *how)?.into())
            }
            Op::GetXattr { path, name } => Ok(Outcome::Bytes(
                self.vfs.getxattr(self.get(path)?.attr.ino, name.as_bytes())?,
            )),
            Op::ListXattr { path } => {
                let mut names = self.vfs.listxattr(self.get(path)?.attr.ino)?;
                names.sort();
                Ok(Outcome::Names(names))
            }
            Op::RemoveXattr { path, name } => {
                Ok(self.vfs.removexattr(self.get(path)?.attr.ino, name.as_bytes())?.into())
            }
            Op::SetAcl { path, default, acl } => {
                let got = self.get(path)?;
                let value = acl_xattr(acl).ok_or(Errno::EINVAL)?;
                let name = acl_name(*default).as_bytes();
                let set = self.vfs.setxattr(got.attr.ino, name, &value, XattrHow::default());
                Ok(set?.into())
            }
            _ => Err(Stop::WrongKind),
        }
    }

    fn setattr(&self, got: &Got<'_>, change: &SetAttr) -> Run {
        Ok(self.vfs.setattr(got.attr.ino, change)?.into())
    }

    /// One write; how much of `data` it took.
    fn write(&self, got: &Got<'_>, offset: u64, data: &[u8], how: WriteHow) -> Result<u64> {
        Ok(self.vfs.write(got.attr.ino, offset, data, how)? as u64)
    }

    fn read(&self, got: &Got<'_>, offset: u64, len: usize) -> Run {
        let mut buf = vec![0; len];
        let count = self.vfs.read(got.attr.ino, offset, &mut buf)?;
        let mut hash = DataHash::default();
        hash.add(0, &buf[..count]);
        Ok(Outcome::Data(count, hash))
    }

    /// Follows the map of data and holes and reads the beginnings of holes.
    fn check_seek_map(&self, got: &Got<'_>) -> Result<Outcome> {
        let ino = got.attr.ino;
        let size = self.vfs.getattr(ino)?.size;
        let mut buf = vec![0; 8192];
        let mut at = 0;
        while at < size {
            let data = match self.vfs.seek(ino, at, SeekWhence::Data) {
                Err(Errno::ENXIO) => size,
                other => other?,
            };
            let len = (data - at.min(data)).min(buf.len() as u64) as usize;
            let count = self.vfs.read(ino, at, &mut buf[..len])?;
            if data < at || buf[..count].iter().any(|&b| b != 0) {
                return Ok(Outcome::Contradiction(format!("data behind {at} begins at {data}")));
            }
            if data >= size {
                break;
            }
            at = self.vfs.seek(ino, data, SeekWhence::Hole)?;
            if at <= data || at > size {
                return Ok(Outcome::Contradiction(format!(
                    "the data at {data} of {size} ends at {at}"
                )));
            }
        }
        Ok(Outcome::Done)
    }
}
