//! Flag bits of the protocol, under the kernel's names without the prefix `FUSE_`.

/// Flags of INIT: the kernel offers them, the server grants some. 64 bits, the upper half in `flags2`.
pub mod init {
    #![allow(
        missing_docs,
        reason = "the names are the kernel's; init.rs says what each is taken for"
    )]
    pub const ASYNC_READ: u64 = 1;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    pub const HAS_IOCTL_DIR: u64 = 1 << 11;
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const HANDLE_KILLPRIV: u64 = 1 << 19;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const ABORT_ERROR: u64 = 1 << 21;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const SETXATTR_EXT: u64 = 1 << 29;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const SECURITY_CTX: u64 = 1 << 32;
    pub const CREATE_SUPP_GROUP: u64 = 1 << 34;
    pub const HAS_EXPIRE_ONLY: u64 = 1 << 35;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub const PASSTHROUGH: u64 = 1 << 37;
    pub const NO_EXPORT_SUPPORT: u64 = 1 << 38;
    pub const HAS_RESEND: u64 = 1 << 39;
    pub const ALLOW_IDMAP: u64 = 1 << 40;
    pub const OVER_IO_URING: u64 = 1 << 41;
    pub const REQUEST_TIMEOUT: u64 = 1 << 42;
}

/// `SETATTR.valid`: which fields count.
pub mod fattr {
    #![allow(missing_docs, reason = "the names are the kernel's")]
    pub const MODE: u32 = 1;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const CTIME: u32 = 1 << 10;
    pub const KILL_SUIDGID: u32 = 1 << 11;
    /// All that set an attribute other than the time of the change.
    pub const SET: u32 = MODE | UID | GID | SIZE | ATIME | MTIME | ATIME_NOW | MTIME_NOW | KILL_SUIDGID;
}

/// Flags in the reply to OPEN: bypass the page cache.
pub const FOPEN_DIRECT_IO: u32 = 1;
/// Flags in the reply to OPEN: keep what is cached.
pub const FOPEN_KEEP_CACHE: u32 = 1 << 1;
/// Flags in the reply to OPENDIR: remember the listing, and believe it until the kernel itself changes the directory.
pub const FOPEN_CACHE_DIR: u32 = 1 << 3;
/// Flags in the reply to OPEN: direct writes of one file may run at the same time.
pub const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;

/// `OPEN.open_flags`: clear set-id bits if the open truncates.
pub const OPEN_KILL_SUIDGID: u32 = 1;
/// `GETATTR.getattr_flags`: asked through an open file.
pub const GETATTR_FH: u32 = 1;
/// `WRITE.write_flags`: comes from the page cache; the file handle and open flags are guessed.
pub const WRITE_CACHE: u32 = 1;
/// `WRITE.write_flags`: clear set-id bits.
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// `FSYNC.fsync_flags`: fdatasync(2).
pub const FSYNC_FDATASYNC: u32 = 1;
/// `SETXATTR.setxattr_flags`: clear set-group-id.
pub const SETXATTR_ACL_KILL_SGID: u32 = 1;

/// Bits of `statx.mask`: everything stat(2) shows.
pub const STATX_BASIC_STATS: u32 = 0x7ff;
/// Bits of `statx.mask`: the time of birth.
pub const STATX_BTIME: u32 = 0x800;
/// Bits of `statx.attributes`: immutable.
pub const STATX_ATTR_IMMUTABLE: u64 = 0x10;
/// Bits of `statx.attributes`: append only.
pub const STATX_ATTR_APPEND: u64 = 0x20;
/// Bits of `statx.attributes`: not dumped.
pub const STATX_ATTR_NODUMP: u64 = 0x40;
