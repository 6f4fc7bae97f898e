//! The seam between names-and-files and whoever calls them: the `Vfs` trait, its types, the errno table and the rules of [`acl`].
//!
//! Everything here is plain data. No type knows of FUSE, of the store or of a device, so the same trait is
//! implemented by the engine (`keepfs-fs`), by the in-memory oracle (`keepfs-testkit`) and by tests.
//!
//! Access rights are *not* checked here: through FUSE the kernel does it (`default_permissions`), in process the
//! caller is the owner of the pool. What is checked here is what the kernel cannot know: the immutable and
//! append-only flags, types, names, limits and space.

pub mod acl;
mod errno;
mod once;
mod refusing;
mod types;

pub use errno::Errno;
pub use once::{Direct, OnceOp, Request, made};
pub use refusing::Refusing;
pub use types::*;

/// What every operation returns.
pub type Result<T> = core::result::Result<T, Errno>;

/// A POSIX file system by inode number.
///
/// Lookup counts: every [`Entry`] that is returned raises the count of its inode by one; [`Vfs::forget`] lowers
/// it. An inode without names lives until its count is zero. There are no file handles: an open file is a
/// looked-up inode.
///
/// Every operation is atomic, also against a crash, except where it says otherwise.
pub trait Vfs: Send + Sync {
    /// The entry `name` of `parent`. `.` and `..` are allowed. Errors: `ENOENT`, `ENOTDIR`, `ENAMETOOLONG`.
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Entry>;

    /// The entry of an inode known by its number (NFS handles, readdirplus); raises its lookup count. Errors: `ESTALE`.
    fn lookup_ino(&self, ino: Ino) -> Result<Entry>;

    /// Gives back `count` lookups of `ino`; never fails, unknown numbers are ignored.
    fn forget(&self, ino: Ino, count: u64);

    /// Attributes. Errors: `ESTALE` if no such inode.
    fn getattr(&self, ino: Ino) -> Result<Attr>;

    /// Changes the attributes that are `Some`; returns the attributes after the change. `now` stamps ctime.
    fn setattr(&self, ino: Ino, change: &SetAttr) -> Result<Attr>;

    /// The target of a symbolic link. Errors: `EINVAL` if it is none.
    fn readlink(&self, ino: Ino) -> Result<Vec<u8>>;

    /// A change that must not happen twice. With a `request` it is remembered as that one's, in the same transaction; of one that
    /// is sent again and was done the entry comes that it was answered with, as it is now. Returns the entry of a new inode or
    /// name, and nothing of any other change. Errors: those of the methods of [`Direct`]; `EIO` for a request that servers died of.
    fn once(&self, request: Option<Request>, op: OnceOp<'_>) -> Result<Option<Entry>>;

    /// Asked at open(2): checks the immutable and append-only flags; truncates if `truncate`.
    fn open(&self, ino: Ino, how: OpenHow) -> Result<()>;

    /// Reads at `offset` into `buf`; returns how much, less than asked only at the end of the file.
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize>;

    /// Writes `data` at `offset` (at the end if `how.append`). A write of at most 64 KiB is atomic against a
    /// crash; a larger one is a prefix of pieces. Returns how much was written, less than asked only when space is short.
    fn write(&self, ino: Ino, offset: u64, data: &[u8], how: WriteHow) -> Result<usize>;

    /// fallocate(2). Errors: `EOPNOTSUPP` for modes not in [`FallocMode`], `ENOSPC`, `EFBIG`.
    fn fallocate(&self, ino: Ino, mode: FallocMode, offset: u64, len: u64) -> Result<()>;

    /// lseek(2) with `SEEK_DATA` or `SEEK_HOLE`. Errors: `ENXIO` past the end.
    fn seek(&self, ino: Ino, offset: u64, whence: SeekWhence) -> Result<u64>;

    /// Copies up to `len` bytes, sharing whole pages by reference where both offsets are aligned alike.
    fn copy_file_range(&self, from: Ino, from_offset: u64, to: Ino, to_offset: u64, len: u64) -> Result<u64>;

    /// Lists entries whose cookie is greater than `cookie` (0 = from the start) in cookie order, `.` and `..`
    /// first, until `sink` returns `false` (the entry for which it did is not consumed). Does not raise lookup counts.
    fn readdir(&self, ino: Ino, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()>;

    /// As [`Vfs::readdir`], for who goes on from the last cookie until no name comes: once `sink` got a name other than `.` and
    /// `..` it may end anywhere, so that a directory with much between its names keeps nobody.
    fn readdir_part(&self, ino: Ino, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.readdir(ino, cookie, sink)
    }

    /// How often changes that were answered have been lost with the memory of a server, since this was mounted (S-16.9).
    fn losses(&self) -> u32 {
        0
    }

    /// Whether changes that were answered have been lost since this was mounted, and nobody has taken note of it (S-16.14).
    fn must_note_loss(&self) -> bool {
        false
    }

    /// Makes everything done to `ino` (and, by the prefix promise C-1, everything before) durable.
    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()>;

    /// [`Vfs::fsync`] with each of these arguments, so that one flush does for all; the results in their order.
    fn fsync_all(&self, wanted: &[(Ino, bool)]) -> Vec<Result<()>> {
        wanted
            .iter()
            .map(|(ino, data_only)| self.fsync(*ino, *data_only))
            .collect()
    }

    /// Whether each read has to reach this file system, because it stamps the access time.
    fn stamps_each_read(&self) -> bool {
        false
    }

    /// Makes everything durable.
    fn syncfs(&self) -> Result<()>;

    /// Figures for statfs(2).
    fn statfs(&self) -> Result<StatFs>;

    /// The value of an extended attribute. Errors: `ENODATA`.
    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>>;

    /// The names of all extended attributes.
    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>>;

    /// chattr(1) flags: only [`InodeFlags::IMMUTABLE`], [`InodeFlags::APPEND`], [`InodeFlags::NOATIME`] and
    /// [`InodeFlags::NODUMP`] may be set; others give `EOPNOTSUPP`. A file or directory
    /// has the last two from the directory that it is made in. `EPERM` if it is immutable, stays so, and another changes.
    fn set_flags(&self, ino: Ino, flags: InodeFlags) -> Result<()>;

    /// The FITRIM ioctl (fstrim(8)): tells the device which bytes of the range are not needed, in runs of at least
    /// `min_len` bytes; returns how many. Errors: `EOPNOTSUPP` if the device cannot be told, `EROFS`.
    fn trim(&self, start: u64, len: u64, min_len: u64) -> Result<u64> {
        let _ = (start, len, min_len);
        Err(Errno::EOPNOTSUPP)
    }

    /// The shutdown ioctl: from here on nothing more reaches the device (as if power were cut); every later
    /// operation gives `EIO`. With `flush_first`, everything is made durable before.
    fn shutdown(&self, flush_first: bool) -> Result<()>;

    /// Called once when the last user is gone: makes everything durable and writes a checkpoint.
    fn unmount(&self) -> Result<()>;
}
