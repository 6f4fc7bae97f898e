//! What the kernel sends: the header of every request and the fixed part of each.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

macro_rules! wire {
    ($(#[doc = $doc:literal] $name:ident, $size:literal { $($field:ident: $ty:ty,)* })*) => {
        $(
            #[doc = $doc]
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            #[allow(missing_docs, reason = "the fields have the kernel's names and meaning")]
            pub struct $name { $(pub $field: $ty,)* }
            const _: () = assert!(size_of::<$name>() == $size);
        )*
    };
}
pub(crate) use wire;

wire! {
    /// Head of every request. `len` counts the head and all that follows; `total_extlen` is in units of 8 bytes.
    InHeader, 40 {
        len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16,
    }
    /// INIT.
    InitIn, 64 { major: u32, minor: u32, max_readahead: u32, flags: u32, flags2: u32, unused: [u32; 11], }
    /// FORGET.
    ForgetIn, 8 { nlookup: u64, }
    /// Head of BATCH_FORGET; `count` of [`ForgetOne`] follow.
    BatchForgetIn, 8 { count: u32, dummy: u32, }
    /// One inode of BATCH_FORGET.
    ForgetOne, 16 { nodeid: u64, nlookup: u64, }
    /// GETATTR.
    GetattrIn, 16 { getattr_flags: u32, dummy: u32, fh: u64, }
    /// STATX.
    StatxIn, 24 { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32, }
    /// SETATTR.
    SetattrIn, 88 {
        valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64,
        atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32,
    }
    /// MKNOD; the name follows.
    MknodIn, 16 { mode: u32, rdev: u32, umask: u32, padding: u32, }
    /// MKDIR; the name follows.
    MkdirIn, 8 { mode: u32, umask: u32, }
    /// RENAME; both names follow.
    RenameIn, 8 { newdir: u64, }
    /// RENAME2; both names follow.
    Rename2In, 16 { newdir: u64, flags: u32, padding: u32, }
    /// LINK; the name follows.
    LinkIn, 8 { oldnodeid: u64, }
    /// OPEN and OPENDIR.
    OpenIn, 8 { flags: u32, open_flags: u32, }
    /// CREATE and TMPFILE; the name follows.
    CreateIn, 16 { flags: u32, mode: u32, umask: u32, open_flags: u32, }
    /// READ, READDIR and READDIRPLUS.
    ReadIn, 40 { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32, }
    /// WRITE; `size` bytes follow.
    WriteIn, 40 { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32, }
    /// RELEASE and RELEASEDIR.
    ReleaseIn, 24 { fh: u64, flags: u32, release_flags: u32, lock_owner: u64, }
    /// FSYNC and FSYNCDIR.
    FsyncIn, 16 { fh: u64, fsync_flags: u32, padding: u32, }
    /// SETXATTR with `SETXATTR_EXT`; the name and `size` bytes follow.
    SetxattrIn, 16 { size: u32, flags: u32, setxattr_flags: u32, padding: u32, }
    /// SETXATTR without `SETXATTR_EXT`; the name and `size` bytes follow.
    SetxattrInCompat, 8 { size: u32, flags: u32, }
    /// GETXATTR (the name follows) and LISTXATTR.
    GetxattrIn, 8 { size: u32, padding: u32, }
    /// INTERRUPT: the request that nobody waits for any more.
    InterruptIn, 8 { unique: u64, }
    /// IOCTL; `in_size` bytes follow.
    IoctlIn, 32 { fh: u64, flags: u32, cmd: u32, arg: u64, in_size: u32, out_size: u32, }
    /// FALLOCATE.
    FallocateIn, 32 { fh: u64, offset: u64, length: u64, mode: u32, padding: u32, }
    /// LSEEK.
    LseekIn, 24 { fh: u64, offset: u64, whence: u32, padding: u32, }
    /// COPY_FILE_RANGE and COPY_FILE_RANGE_64; the header's node is the source.
    CopyFileRangeIn, 56 {
        fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64,
    }
}
