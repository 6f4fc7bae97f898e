//! A directory of the running system as something the operations of tests run on, by system calls.
//!
//! It resolves paths as [`keepfs_testkit::ops::Session`] does and gives the same outcomes, so that the two can be
//! compared operation by operation. Everything is done as root; what an ordinary user does is done with the
//! effective user changed for that one call.

mod calls;
mod tree;

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;

use keepfs_testkit::model::{acl_name, acl_xattr};
use keepfs_testkit::ops::{Op, Outcome, SLOTS, pattern, xattr_value};
use keepfs_testkit::tree::Snapshot;
use keepfs_vfs::{Errno, FileKind};
use rustix::fs::OFlags;

/// Why an operation gave nothing.
pub enum Stop {
    Errno(Errno),
    WrongKind,
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Errno(errno)
    }
}

impl From<rustix::io::Errno> for Stop {
    fn from(errno: rustix::io::Errno) -> Stop {
        Stop::Errno(Errno(errno.raw_os_error()))
    }
}

impl From<std::io::Error> for Stop {
    fn from(error: std::io::Error) -> Stop {
        Stop::Errno(Errno(error.raw_os_error().expect("an error of a system call")))
    }
}

pub type Run<T> = Result<T, Stop>;

/// Where a path of an operation leads in the running system.
pub struct Place {
    pub path: String,
    /// It is a link in `/proc/self/fd`, which must be followed.
    pub is_slot: bool,
}

/// A run of operations below a directory.
pub struct OsSession {
    /// Path of the directory that stands for the root.
    base: String,
    slots: [Option<OwnedFd>; SLOTS],
}

impl OsSession {
    /// Below the existing directory `base`.
    pub fn new(base: String) -> OsSession {
        OsSession {
            base,
            slots: [const { None }; SLOTS],
        }
    }

    /// Runs one operation.
    pub fn run(&mut self, op: &Op) -> Outcome {
        match self.try_run(op) {
            Ok(outcome) => outcome,
            Err(Stop::Errno(errno)) => Outcome::Err(errno),
            Err(Stop::WrongKind) => Outcome::WrongKind,
        }
    }

    /// The tree with times.
    pub fn snapshot(&self) -> Snapshot {
        tree::snapshot(&self.base)
    }

    fn try_run(&mut self, op: &Op) -> Run<Outcome> {
        match op {
            Op::Tmpfile { slot, dir, mode, who } => {
                let dir = self.existing_dir(dir)?;
                let fd = calls::tmpfile(&dir, mode.0, who.umask)?;
                let outcome = calls::view_of_fd(&fd)?;
                self.slots[*slot] = Some(fd);
                Ok(outcome)
            }
            Op::Hold { slot, path } => {
                let place = self.place(path)?;
                if !matches!(kind(&place)?, FileKind::File | FileKind::Dir) {
                    return Err(Stop::WrongKind);
                }
                self.slots[*slot] = Some(calls::open(&place, OFlags::PATH)?);
                Ok(Outcome::Done)
            }
            Op::Release { slot } => {
                self.slots[*slot] = None;
                Ok(Outcome::Done)
            }
            Op::Create { .. } | Op::Mkdir { .. } | Op::Mknod { .. } | Op::Symlink { .. } => self.run_create(op),
            Op::Link { .. } | Op::Unlink { .. } | Op::Rmdir { .. } | Op::Rename { .. } => self.run_on_names(op),
            _ => match self.run_on_contents(op) {
                Some(outcome) => outcome,
                None => self.run_on_inode(op),
            },
        }
    }

    fn run_create(&self, op: &Op) -> Run<Outcome> {
        let place = match op {
            Op::Create { path, mode, who } => {
                let place = self.place(path)?;
                calls::mknod(&place, FileKind::File, mode.0, 0, who.umask)?;
                place
            }
            Op::Mkdir { path, mode, who } => {
                let place = self.place(path)?;
                calls::mkdir(&place, mode.0, who.umask)?;
                place
            }
            Op::Mknod { path, mode, rdev, who } => {
                let place = self.place(path)?;
                let kind = FileKind::of_mode(mode.0).ok_or(Errno::EINVAL)?;
                calls::mknod(&place, kind, mode.0, *rdev, who.umask)?;
                place
            }
            Op::Symlink { path, target, .. } => {
                let place = self.place(path)?;
                std::os::unix::fs::symlink(target, &place.path)?;
                place
            }
            _ => return Err(Stop::WrongKind),
        };
        calls::view(&place)
    }

    fn run_on_names(&self, op: &Op) -> Run<Outcome> {
        match op {
            Op::Link { from, to } => {
                let from = self.existing(from)?;
                let to = self.place(to)?;
                calls::link(&from, &to)?;
                return calls::view(&to);
            }
            Op::Unlink { path } => calls::unlink(&self.place(path)?)?,
            Op::Rmdir { path } => calls::rmdir(&self.place(path)?)?,
            Op::Rename { from, to, flags } => calls::rename(&self.place(from)?, &self.place(to)?, *flags)?,
            _ => return Err(Stop::WrongKind),
        }
        Ok(Outcome::Done)
    }

    /// Operations on open regular files; `None` for all others.
    fn run_on_contents(&self, op: &Op) -> Option<Run<Outcome>> {
        let write = OFlags::WRONLY;
        Some(match op {
            Op::Write {
                path,
                offset,
                len,
                seed,
                kill,
            } => self
                .open(path, write)
                .and_then(|fd| calls::as_user(*kill, || calls::pwrite(&fd, *offset, &pattern(*seed, *len)))),
            Op::Append { path, len, seed, kill } => self
                .open(path, write | OFlags::APPEND)
                .and_then(|fd| calls::as_user(*kill, || calls::pwrite(&fd, 0, &pattern(*seed, *len)))),
            Op::Truncate { path, size, kill } => self.open(path, write).and_then(|fd| {
                calls::as_user(*kill, || calls::truncate(&fd, *size))?;
                calls::view_of_fd(&fd)
            }),
            Op::OpenTruncate { path } => self.open(path, write | OFlags::TRUNC).map(|_| Outcome::Done),
            Op::Fallocate {
                path,
                mode,
                offset,
                len,
            } => self
                .open(path, write)
                .and_then(|fd| calls::fallocate(&fd, *mode, *offset, *len)),
            Op::CopyRange {
                from,
                from_offset,
                to,
                to_offset,
                len,
            } => self.open(from, OFlags::RDONLY).and_then(|source| {
                let target = self.open(to, write)?;
                calls::copy_range(&source, *from_offset, &target, *to_offset, *len)
            }),
            Op::Read { path, offset, len } => self
                .open(path, OFlags::RDONLY)
                .and_then(|fd| calls::read(&fd, *offset, *len)),
            Op::Seek { path, offset, whence } => self
                .open(path, OFlags::RDONLY)
                .and_then(|fd| calls::seek(&fd, *offset, *whence)),
            // The reference is believed.
            Op::SeekMap { path } => self.open(path, OFlags::RDONLY).map(|_| Outcome::Done),
            _ => return None,
        })
    }

    fn run_on_inode(&self, op: &Op) -> Run<Outcome> {
        match op {
            Op::ReadDir { path } => calls::read_dir(&self.existing_dir(path)?),
            Op::ReadLink { path } => calls::read_link(&self.existing(path)?),
            Op::Stat { path } => calls::view(&self.existing(path)?),
            Op::SetMode { path, mode } => {
                let place = self.existing(path)?;
                if kind(&place)? == FileKind::Symlink {
                    return Err(Stop::WrongKind);
                }
                calls::chmod(&place, mode.0)?;
                calls::view(&place)
            }
            Op::Chown { path, uid, gid } => {
                let place = self.existing(path)?;
                calls::chown(&place, *uid, *gid)?;
                calls::view(&place)
            }
            Op::Utimes { path, atime, mtime } => {
                let place = self.existing(path)?;
                calls::utimes(&place, *atime, *mtime)?;
                calls::view(&place)
            }
            Op::SetFlags { path, flags } => calls::set_flags(&self.open_file_or_dir(path)?, flags.0),
            Op::Fsync { path, data_only } => calls::fsync(&self.open_file_or_dir(path)?, *data_only),
            Op::SyncFs {} => calls::syncfs(&self.base),
            Op::SetXattr {
                path,
                name,
                len,
                seed,
                how,
            } => calls::set_xattr(&self.existing(path)?, name, &xattr_value(name, *seed, *len), *how),
            Op::SetAcl { path, default, acl } => {
                let place = self.existing(path)?;
                let value = acl_xattr(acl).ok_or(Errno::EINVAL)?;
                calls::set_xattr(&place, acl_name(*default), &value, Default::default())
            }
            Op::GetXattr { path, name } => calls::get_xattr(&self.existing(path)?, name).map(Outcome::Bytes),
            Op::ListXattr { path } => calls::list_xattr(&self.existing(path)?).map(Outcome::Names),
            Op::RemoveXattr { path, name } => calls::remove_xattr(&self.existing(path)?, name),
            _ => Err(Stop::WrongKind),
        }
    }

    /// A regular file, opened.
    fn open(&self, path: &str, flags: OFlags) -> Run<OwnedFd> {
        let place = self.place(path)?;
        if kind(&place)? != FileKind::File {
            return Err(Stop::WrongKind);
        }
        calls::open(&place, flags)
    }

    fn open_file_or_dir(&self, path: &str) -> Run<OwnedFd> {
        let place = self.place(path)?;
        match kind(&place)? {
            FileKind::File | FileKind::Dir => calls::open(&place, OFlags::RDONLY),
            _ => Err(Stop::WrongKind),
        }
    }

    /// A place where something is. Errors: `ENOENT` and its like.
    fn existing(&self, path: &str) -> Run<Place> {
        let place = self.place(path)?;
        kind(&place)?;
        Ok(place)
    }

    /// A place where a directory is. Errors: `ENOTDIR`, also for a symbolic link to one.
    fn existing_dir(&self, path: &str) -> Run<Place> {
        let place = self.place(path)?;
        match kind(&place)? {
            FileKind::Dir => Ok(place),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    /// Where a path leads. Errors: `EBADF` for an empty slot, `ELOOP` for a symbolic link on the way.
    fn place(&self, path: &str) -> Run<Place> {
        if let Some(slot) = path.strip_prefix('@') {
            let index: usize = slot.parse().map_err(|_| Errno::EBADF)?;
            let fd = self.slots.get(index).and_then(Option::as_ref).ok_or(Errno::EBADF)?;
            return Ok(Place {
                path: format!("/proc/self/fd/{}", fd.as_raw_fd()),
                is_slot: true,
            });
        }
        let mut at = self.base.clone();
        if path != "/" {
            let mut names = path.split('/').peekable();
            while let Some(name) = names.next() {
                at = format!("{at}/{name}");
                let is_last = names.peek().is_none();
                if !is_last && fs::symlink_metadata(&at)?.is_symlink() {
                    return Err(Errno::ELOOP.into());
                }
            }
        }
        Ok(Place {
            path: at,
            is_slot: false,
        })
    }
}

/// What is at a place.
fn kind(place: &Place) -> Run<FileKind> {
    let metadata = if place.is_slot {
        fs::metadata(&place.path)
    } else {
        fs::symlink_metadata(&place.path)
    };
    let file_type = metadata?.file_type();
    Ok(match () {
        () if file_type.is_file() => FileKind::File,
        () if file_type.is_dir() => FileKind::Dir,
        () if file_type.is_symlink() => FileKind::Symlink,
        () if file_type.is_fifo() => FileKind::Fifo,
        () if file_type.is_socket() => FileKind::Socket,
        () if file_type.is_char_device() => FileKind::Char,
        () => FileKind::Block,
    })
}
