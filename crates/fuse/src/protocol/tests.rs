//! Offsets of every field, taken from the C header by `offsetof`, and small checks of the tables.

use super::reply::*;
use super::request::*;
use super::*;
use std::mem::offset_of;

macro_rules! offsets {
    ($($name:ident { $($field:ident: $at:literal,)* })*) => {
        $($(assert_eq!(offset_of!($name, $field), $at, concat!(stringify!($name), ".", stringify!($field)));)*)*
    };
}

#[test]
fn fields_lie_where_the_kernel_expects_them() {
    offsets! {
        InHeader { len: 0, opcode: 4, unique: 8, nodeid: 16, uid: 24, gid: 28, pid: 32, total_extlen: 36, padding: 38, }
        InitIn { major: 0, minor: 4, max_readahead: 8, flags: 12, flags2: 16, unused: 20, }
        ForgetIn { nlookup: 0, }
        BatchForgetIn { count: 0, dummy: 4, }
        ForgetOne { nodeid: 0, nlookup: 8, }
        SetattrIn { valid: 0, padding: 4, fh: 8, size: 16, lock_owner: 24, atime: 32, mtime: 40, ctime: 48, atimensec: 56, mtimensec: 60, ctimensec: 64, mode: 68, unused4: 72, uid: 76, gid: 80, unused5: 84, }
        MknodIn { mode: 0, rdev: 4, umask: 8, padding: 12, }
        MkdirIn { mode: 0, umask: 4, }
        RenameIn { newdir: 0, }
        Rename2In { newdir: 0, flags: 8, padding: 12, }
        LinkIn { oldnodeid: 0, }
        OpenIn { flags: 0, open_flags: 4, }
        CreateIn { flags: 0, mode: 4, umask: 8, open_flags: 12, }
        ReadIn { fh: 0, offset: 8, size: 16, read_flags: 20, lock_owner: 24, flags: 32, padding: 36, }
        WriteIn { fh: 0, offset: 8, size: 16, write_flags: 20, lock_owner: 24, flags: 32, padding: 36, }
        ReleaseIn { fh: 0, flags: 8, release_flags: 12, lock_owner: 16, }
        FsyncIn { fh: 0, fsync_flags: 8, padding: 12, }
        SetxattrIn { size: 0, flags: 4, setxattr_flags: 8, padding: 12, }
        GetxattrIn { size: 0, padding: 4, }
        InterruptIn { unique: 0, }
        IoctlIn { fh: 0, flags: 8, cmd: 12, arg: 16, in_size: 24, out_size: 28, }
        FallocateIn { fh: 0, offset: 8, length: 16, mode: 24, padding: 28, }
        LseekIn { fh: 0, offset: 8, whence: 16, padding: 20, }
        CopyFileRangeIn { fh_in: 0, off_in: 8, nodeid_out: 16, fh_out: 24, off_out: 32, len: 40, flags: 48, }
        OutHeader { len: 0, error: 4, unique: 8, }
        InitOut { major: 0, minor: 4, max_readahead: 8, flags: 12, max_background: 16, congestion_threshold: 18, max_write: 20, time_gran: 24, max_pages: 28, map_alignment: 30, flags2: 32, }
        FuseAttr { ino: 0, size: 8, blocks: 16, atime: 24, mtime: 32, ctime: 40, atimensec: 48, mtimensec: 52, ctimensec: 56, mode: 60, nlink: 64, uid: 68, gid: 72, rdev: 76, blksize: 80, flags: 84, }
        EntryOut { nodeid: 0, generation: 8, entry_valid: 16, attr_valid: 24, entry_valid_nsec: 32, attr_valid_nsec: 36, attr: 40, }
        AttrOut { attr_valid: 0, attr_valid_nsec: 8, dummy: 12, attr: 16, }
        OpenOut { fh: 0, open_flags: 8, }
        WriteOut { size: 0, padding: 4, }
        StatfsOut { blocks: 0, bfree: 8, bavail: 16, files: 24, ffree: 32, bsize: 40, namelen: 44, frsize: 48, padding: 52, spare: 56, }
        GetxattrOut { size: 0, padding: 4, }
        IoctlOut { result: 0, flags: 4, in_iovs: 8, out_iovs: 12, }
        LseekOut { offset: 0, }
        Dirent { ino: 0, off: 8, namelen: 16, r#type: 20, }
        NotifyInvalInode { ino: 0, off: 8, len: 16, }
        NotifyInvalEntry { parent: 0, namelen: 8, flags: 12, }
        GetattrIn { getattr_flags: 0, dummy: 4, fh: 8, }
        StatxIn { getattr_flags: 0, reserved: 4, fh: 8, sx_flags: 16, sx_mask: 20, }
        SetxattrInCompat { size: 0, flags: 4, }
        SxTime { tv_sec: 0, tv_nsec: 8, reserved: 12, }
        FuseStatx { mask: 0, blksize: 4, attributes: 8, nlink: 16, uid: 20, gid: 24, mode: 28, ino: 32, size: 40, blocks: 48, attributes_mask: 56, atime: 64, btime: 80, ctime: 96, mtime: 112, rdev_major: 128, rdev_minor: 132, dev_major: 136, dev_minor: 140, spare2: 144, }
        StatxOut { attr_valid: 0, attr_valid_nsec: 8, flags: 12, spare: 16, stat: 32, }
        CopyFileRangeOut { bytes_copied: 0, }
        InitOut { max_stack_depth: 36, request_timeout: 40, unused: 42, }
        OpenOut { backing_id: 12, }
    }
}

#[test]
fn opcodes_have_the_kernels_numbers() {
    assert_eq!(Opcode::ALL.len(), 51);
    for op in Opcode::ALL {
        assert_eq!(Opcode::from_wire(*op as u32), Some(*op));
    }
    assert_eq!(Opcode::Readdirplus as u32, 44);
    assert_eq!(Opcode::CopyFileRange64 as u32, 53);
    for unknown in [0, 7, 19, 54, 4096, u32::MAX] {
        assert_eq!(Opcode::from_wire(unknown), None);
    }
}
