//! The oracle: an in-memory [`Vfs`] that is as simple as POSIX and Linux allow, to compare every other one with.
//!
//! It imports nothing but the types of this package. It is slow, keeps everything in maps and never runs out of
//! space; it is right. It is itself checked against ext4 by `tests/ext4.rs`.
//!
//! What it decides where Linux leaves a choice:
//! - **M-1 holes.** Granularity is the 4096-byte page. A page is data once any of its bytes was written or
//!   allocated (fallocate, `ZERO_RANGE`); `PUNCH_HOLE` frees the pages it covers whole and zeroes the parts it
//!   covers of others; truncation frees the pages behind the new end. The end of the file counts as a hole.
//! - **M-2 copies.** copy_file_range copies holes as holes wherever it covers whole pages of the target.
//! - **M-3 times.** One operation reads the clock once. mtime and ctime as POSIX says; a truncation stamps both even if
//!   the size stays; atime is relatime, and the `NOATIME` flag stops it.
//! - **M-4 flags.** Checked where Linux checks them: append-only at open, never in a write; immutable at open, in
//!   writes (not in the kernel's writeback) and in every change of an attribute. New files and directories have
//!   `NODUMP` and `NOATIME` of their directory.
//! - **M-5 privileges.** Writing, truncating, allocating, copying into and chown remove `security.capability`.
//!   chown removes set-user-id, and set-group-id of a group-executable file, whoever calls; the others if told so.
//! - **M-6 files that are gone.** A directory that was removed has no entries and takes none (`ENOENT`), nor files without names (`EPERM`); a file
//!   without names cannot be linked (`ENOENT`) unless it came from [`Direct::tmpfile`](keepfs_vfs::Direct::tmpfile).
//!
//! Where ext4 differs and the difference is allowed (the test leaves these out):
//! - **D-1** ext4 reports preallocated pages as holes, and copies holes as data (M-1, M-2).
//! - **D-2** ext4 counts no subdirectories beyond 65,000 (nlink 1); here creating one more is `EMLINK`.
//! - **D-3** sizes of directories, `blocks`, inode numbers, generations and cookies are each file system's own.
//! - **D-4** ext4 limits all attributes of an inode to one block, and files to 16 TiB; here see [`Options`].
//! - **D-5** a rename with a whiteout that fails stamps directories in ext4; here what fails changes nothing.
//! - **D-6** ext4 does not stamp ctime if an attribute or an ACL is set to what it is already.
//! - **D-7** an ordinary user's append to a file that is append-only and set-id is `EPERM` in Linux, because losing
//!   the bits is a change of mode; here they are lost.

mod acl;
mod attrs;
mod data;
mod inode;
mod names;
mod pages;
mod ranges;
mod rename;
mod state;
#[cfg(test)]
mod tests;
mod xattrs;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

pub use acl::{acl_name, acl_xattr};
use inode::Inode;
use keepfs_vfs::{
    Attr, DirEntry, Entry, Errno, FallocMode, Ino, InodeFlags, OnceOp, OpenHow, Request, Result, SeekWhence, SetAttr,
    StatFs, Time, Vfs, WriteHow,
};
use state::State;

/// Where the model takes the time from.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// Limits that file systems choose for themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Longest file, bytes.
    pub max_file_size: u64,
    /// Longest value of one extended attribute, bytes (`E2BIG` beyond).
    pub xattr_value_max: usize,
    /// Most bytes of names and values of all extended attributes of an inode (`ENOSPC` beyond).
    pub xattr_total_max: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            max_file_size: i64::MAX as u64,
            xattr_value_max: 64 << 10,
            xattr_total_max: 32 << 10,
        }
    }
}

/// The oracle. All operations take one lock.
pub struct Model {
    state: Mutex<State>,
    clock: Clock,
}

impl Default for Model {
    fn default() -> Model {
        Model::new(Options::default(), Arc::new(system_time))
    }
}

impl Model {
    /// An empty file system (a root directory of mode 755, owner 0:0) with these limits and this clock.
    pub fn new(options: Options, clock: Clock) -> Model {
        let now = clock();
        Model {
            state: Mutex::new(State::new(options, now)),
            clock,
        }
    }

    /// An empty file system with the default limits whose times come from `clock`, read once an operation.
    pub fn with_clock(clock: Clock) -> Model {
        Model::new(Options::default(), clock)
    }

    /// An independent copy of everything as it is now (lookup counts too), with the same clock.
    pub fn fork(&self) -> Model {
        Model {
            state: Mutex::new(self.lock().clone()),
            clock: self.clock.clone(),
        }
    }

    /// How many inodes exist, those without names included: tests see by it that nothing leaks.
    pub fn inode_count(&self) -> usize {
        self.lock().inodes.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs one operation at one moment. Errors: `EIO` after a shutdown.
    fn at_once<T>(&self, operation: impl FnOnce(&mut State, Time) -> Result<T>) -> Result<T> {
        let now = (self.clock)();
        let mut state = self.lock();
        if state.is_shut_down {
            return Err(Errno::EIO);
        }
        operation(&mut state, now)
    }
}

fn system_time() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time {
        sec: since.as_secs() as i64,
        nsec: since.subsec_nanos(),
    }
}

impl Vfs for Model {
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Entry> {
        self.at_once(|s, _| {
            let ino = s.find(parent, name)?;
            s.entry(ino)
        })
    }

    fn lookup_ino(&self, ino: Ino) -> Result<Entry> {
        self.at_once(|s, _| s.entry(ino))
    }

    fn forget(&self, ino: Ino, count: u64) {
        self.lock().forget(ino, count);
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.at_once(|s, _| s.inode(ino).map(Inode::attr))
    }

    fn setattr(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        self.at_once(|s, now| s.setattr(ino, change, now))
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.at_once(|s, now| s.readlink(ino, now))
    }

    fn once(&self, _: Option<Request>, op: OnceOp<'_>) -> Result<Option<Entry>> {
        self.at_once(|s, now| match op {
            OnceOp::Mknod { parent, name, new } => s.mknod(parent, name, new, now).map(Some),
            OnceOp::Symlink {
                parent,
                name,
                target,
                new,
            } => s.symlink(parent, name, target, new, now).map(Some),
            OnceOp::Tmpfile { parent, new } => s.tmpfile(parent, new, now).map(Some),
            OnceOp::Link { ino, parent, name } => s.link(ino, parent, name, now).map(Some),
            OnceOp::Unlink { parent, name } => s.unlink(parent, name, now).map(|()| None),
            OnceOp::Rmdir { parent, name } => s.rmdir(parent, name, now).map(|()| None),
            OnceOp::Rename { from, to, flags } => s.rename(from, to, flags, now).map(|()| None),
            OnceOp::Setxattr { ino, name, value, how } => s.setxattr(ino, name, value, how, now).map(|()| None),
            OnceOp::Removexattr { ino, name } => s.removexattr(ino, name, now).map(|()| None),
        })
    }

    fn open(&self, ino: Ino, how: OpenHow) -> Result<()> {
        self.at_once(|s, now| s.open(ino, how, now))
    }

    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.at_once(|s, now| s.read(ino, offset, buf, now))
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8], how: WriteHow) -> Result<usize> {
        self.at_once(|s, now| s.write(ino, offset, data, how, now))
    }

    fn fallocate(&self, ino: Ino, mode: FallocMode, offset: u64, len: u64) -> Result<()> {
        self.at_once(|s, now| s.fallocate(ino, mode, offset, len, now))
    }

    fn seek(&self, ino: Ino, offset: u64, whence: SeekWhence) -> Result<u64> {
        self.at_once(|s, _| s.seek(ino, offset, whence))
    }

    fn copy_file_range(&self, from: Ino, from_offset: u64, to: Ino, to_offset: u64, len: u64) -> Result<u64> {
        self.at_once(|s, now| s.copy_file_range((from, from_offset), (to, to_offset), len, now))
    }

    fn readdir(&self, ino: Ino, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        // Collected under the lock, told without it: the sink may call back.
        let entries = self.at_once(|s, now| s.readdir(ino, cookie, now))?;
        for entry in &entries {
            if !sink(DirEntry {
                ino: entry.ino,
                kind: entry.kind,
                name: &entry.name,
                cookie: entry.cookie,
            }) {
                break;
            }
        }
        Ok(())
    }

    fn fsync(&self, ino: Ino, _data_only: bool) -> Result<()> {
        self.at_once(|s, _| s.inode(ino).map(|_| ()))
    }

    fn syncfs(&self) -> Result<()> {
        self.at_once(|_, _| Ok(()))
    }

    fn statfs(&self) -> Result<StatFs> {
        self.at_once(|s, _| Ok(s.statfs()))
    }

    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.at_once(|s, _| s.getxattr(ino, name))
    }

    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.at_once(|s, _| Ok(s.inode(ino)?.xattr_names()))
    }

    fn set_flags(&self, ino: Ino, flags: InodeFlags) -> Result<()> {
        self.at_once(|s, now| s.set_flags(ino, flags, now))
    }

    fn shutdown(&self, _flush_first: bool) -> Result<()> {
        self.at_once(|s, _| {
            s.is_shut_down = true;
            Ok(())
        })
    }

    fn unmount(&self) -> Result<()> {
        self.at_once(|_, _| Ok(()))
    }
}
