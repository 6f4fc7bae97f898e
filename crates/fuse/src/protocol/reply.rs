//! What the server sends: the header of every reply, the fixed parts, and notifications.

use super::request::wire;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

wire! {
    /// Head of every reply. `error` is a negative errno, or a notification code if `unique` is 0.
    OutHeader, 16 { len: u32, error: i32, unique: u64, }
    /// INIT.
    InitOut, 64 {
        major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16,
        max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32,
        request_timeout: u16, unused: [u16; 11],
    }
    /// Attributes of an inode.
    FuseAttr, 88 {
        ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32,
        ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32,
    }
    /// LOOKUP and all that create; `nodeid` 0 with a timeout is a name known not to exist.
    EntryOut, 128 {
        nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32, attr_valid_nsec: u32,
        attr: FuseAttr,
    }
    /// GETATTR and SETATTR.
    AttrOut, 104 { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: FuseAttr, }
    /// A point in time inside STATX.
    SxTime, 16 { tv_sec: i64, tv_nsec: u32, reserved: i32, }
    /// Attributes inside STATX.
    FuseStatx, 256 {
        mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16, spare0: u16, ino: u64,
        size: u64, blocks: u64, attributes_mask: u64, atime: SxTime, btime: SxTime, ctime: SxTime, mtime: SxTime,
        rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32, spare2: [u64; 14],
    }
    /// STATX.
    StatxOut, 288 { attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: FuseStatx, }
    /// OPEN, OPENDIR, and behind the entry of CREATE and TMPFILE.
    OpenOut, 16 { fh: u64, open_flags: u32, backing_id: i32, }
    /// WRITE and COPY_FILE_RANGE.
    WriteOut, 8 { size: u32, padding: u32, }
    /// COPY_FILE_RANGE_64.
    CopyFileRangeOut, 8 { bytes_copied: u64, }
    /// STATFS.
    StatfsOut, 80 {
        blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32,
        padding: u32, spare: [u32; 6],
    }
    /// GETXATTR and LISTXATTR when only the size is asked for.
    GetxattrOut, 8 { size: u32, padding: u32, }
    /// Head of IOCTL; the output follows.
    IoctlOut, 16 { result: i32, flags: u32, in_iovs: u32, out_iovs: u32, }
    /// LSEEK.
    LseekOut, 8 { offset: u64, }
    /// Head of one entry of READDIR; `namelen` bytes follow, padded to 8.
    Dirent, 24 { ino: u64, off: u64, namelen: u32, r#type: u32, }
    /// Notification that an inode changed; `off` < 0 keeps the pages.
    NotifyInvalInode, 24 { ino: u64, off: i64, len: i64, }
    /// Notification that a name changed; the name and a NUL follow.
    NotifyInvalEntry, 16 { parent: u64, namelen: u32, flags: u32, }
}
