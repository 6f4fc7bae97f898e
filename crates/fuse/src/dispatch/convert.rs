//! Between the types of the seam and those of the wire.

use super::Dispatcher;
use crate::protocol::flags;
use crate::protocol::reply::{AttrOut, EntryOut, FuseAttr, FuseStatx, StatfsOut, StatxOut, SxTime};
use crate::protocol::request::SetattrIn;
use keepfs_vfs::{Attr, Entry, FileKind, InodeFlags, NAME_MAX, SetAttr, SetTime, StatFs, Time};
use std::time::Duration;

/// Preferred size of I/O that stat(2) shows, bytes.
const BLOCK_SIZE: u32 = 4096;
/// What a file is told to have at least while the kernel may have data of it: a page, in units of 512 bytes.
const BLOCKS_MIN: u64 = 8;
/// Of less than this size no file is taken for a hole by its blocks, bytes.
const HOLE_MIN: u64 = 512;
/// How long the kernel may believe [`BLOCKS_MIN`]. With the writeback cache it needs attributes for each write.
const BLOCKS_TIMEOUT: Duration = Duration::from_secs(1);

impl Dispatcher {
    /// The blocks that are told, and how long the kernel may believe the attributes. Those of a file with set-id bits not at all:
    /// it leaves it to us to clear them behind a write, and execve(2) would go by the bits that it remembers (S-20.18).
    fn told(&self, attr: &Attr) -> (u64, Duration) {
        let (blocks, timeout) = match self.looks_empty(attr) {
            true => self.told_of_empty(attr),
            false => (attr.blocks, self.attr_timeout),
        };
        (blocks, if has_set_id(attr) { Duration::ZERO } else { timeout })
    }

    /// Whether by its blocks it has no data, and the kernel may know it to be large enough that somebody believes that (S-20.31).
    fn looks_empty(&self, attr: &Attr) -> bool {
        let may_be_large = attr.size >= HOLE_MIN || self.granted.has(flags::init::WRITEBACK_CACHE);
        attr.blocks == 0 && may_be_large && attr.kind() == FileKind::File
    }

    /// As [`Dispatcher::told`]. No zero is believed: an open does not make the kernel ask again.
    fn told_of_empty(&self, attr: &Attr) -> (u64, Duration) {
        if self.stores.may_come(attr.ino) {
            return (BLOCKS_MIN, self.attr_timeout.min(BLOCKS_TIMEOUT));
        }
        // What the kernel had may have come behind `attr`, before the release.
        let blocks = self.vfs.getattr(attr.ino).map_or(0, |now| now.blocks);
        (blocks, Duration::ZERO)
    }

    /// An entry as the kernel wants it.
    pub(crate) fn entry_out(&self, entry: &Entry) -> EntryOut {
        let (blocks, attr_timeout) = self.told(&entry.attr);
        EntryOut {
            nodeid: entry.attr.ino.0,
            generation: told_generation(entry.attr.generation).into(),
            entry_valid: self.entry_timeout.as_secs(),
            attr_valid: attr_timeout.as_secs(),
            entry_valid_nsec: self.entry_timeout.subsec_nanos(),
            attr_valid_nsec: attr_timeout.subsec_nanos(),
            attr: fuse_attr(&entry.attr, blocks),
        }
    }

    /// "There is no such name, and you may believe that for a while."
    pub(super) fn negative_entry(&self) -> Option<EntryOut> {
        let valid = self.negative_timeout;
        (valid != Duration::ZERO).then(|| EntryOut {
            entry_valid: valid.as_secs(),
            entry_valid_nsec: valid.subsec_nanos(),
            ..EntryOut::default()
        })
    }

    /// The reply to GETATTR and SETATTR.
    pub(super) fn attr_out(&self, attr: &Attr) -> AttrOut {
        let (blocks, attr_timeout) = self.told(attr);
        AttrOut {
            attr_valid: attr_timeout.as_secs(),
            attr_valid_nsec: attr_timeout.subsec_nanos(),
            dummy: 0,
            attr: fuse_attr(attr, blocks),
        }
    }

    /// The reply to STATX.
    pub(super) fn statx_out(&self, attr: &Attr) -> StatxOut {
        let (blocks, attr_timeout) = self.told(attr);
        StatxOut {
            attr_valid: attr_timeout.as_secs(),
            attr_valid_nsec: attr_timeout.subsec_nanos(),
            stat: fuse_statx(attr, blocks),
            ..StatxOut::default()
        }
    }
}

/// A generation in the 32 bits that the kernel keeps, which make its handles (S-20.30). The factor is that of Fibonacci hashing: multiples of
/// it lie far apart, so that only lives of a number with millions of changes could meet.
pub(super) fn told_generation(generation: u64) -> u32 {
    let (high, low) = ((generation >> 32) as u32, generation as u32);
    high.wrapping_mul(0x9E37_79B1).wrapping_add(low)
}

/// Whether it is a regular file whose set-id bits let those who execute it be somebody else.
pub(super) fn has_set_id(attr: &Attr) -> bool {
    attr.kind() == FileKind::File && attr.mode & (libc::S_ISUID | libc::S_ISGID) != 0
}

fn fuse_attr(attr: &Attr, blocks: u64) -> FuseAttr {
    FuseAttr {
        ino: attr.ino.0,
        size: attr.size,
        blocks,
        atime: attr.atime.sec as u64,
        mtime: attr.mtime.sec as u64,
        ctime: attr.ctime.sec as u64,
        atimensec: attr.atime.nsec,
        mtimensec: attr.mtime.nsec,
        ctimensec: attr.ctime.nsec,
        mode: attr.mode,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        rdev: attr.rdev,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

fn fuse_statx(attr: &Attr, blocks: u64) -> FuseStatx {
    let time = |t: Time| SxTime {
        tv_sec: t.sec,
        tv_nsec: t.nsec,
        reserved: 0,
    };
    FuseStatx {
        mask: flags::STATX_BASIC_STATS | flags::STATX_BTIME,
        blksize: BLOCK_SIZE,
        attributes: statx_attributes(attr.flags),
        attributes_mask: flags::STATX_ATTR_IMMUTABLE | flags::STATX_ATTR_APPEND | flags::STATX_ATTR_NODUMP,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        mode: attr.mode as u16,
        ino: attr.ino.0,
        size: attr.size,
        blocks,
        atime: time(attr.atime),
        btime: time(attr.btime),
        ctime: time(attr.ctime),
        mtime: time(attr.mtime),
        // The kernel's 32-bit encoding: 12 bits of major between 8 and 12 bits of minor.
        rdev_major: (attr.rdev >> 8) & 0xfff,
        rdev_minor: (attr.rdev & 0xff) | ((attr.rdev >> 12) & 0xf_ff00),
        ..FuseStatx::default()
    }
}

fn statx_attributes(flags: InodeFlags) -> u64 {
    let bit = |flag, attribute| if flags.has(flag) { attribute } else { 0 };
    bit(InodeFlags::IMMUTABLE, flags::STATX_ATTR_IMMUTABLE)
        | bit(InodeFlags::APPEND, flags::STATX_ATTR_APPEND)
        | bit(InodeFlags::NODUMP, flags::STATX_ATTR_NODUMP)
}

/// What SETATTR asks for.
pub(super) fn set_attr(args: &SetattrIn) -> SetAttr {
    let on = |bit: u32| args.valid & bit != 0;
    let time = |set: u32, now: u32, sec: u64, nsec: u32| {
        on(set).then(|| {
            if on(now) {
                SetTime::Now
            } else {
                SetTime::At(wire_time(sec, nsec))
            }
        })
    };
    SetAttr {
        mode: on(flags::fattr::MODE).then_some(args.mode & 0o7777),
        uid: on(flags::fattr::UID).then_some(args.uid),
        gid: on(flags::fattr::GID).then_some(args.gid),
        size: on(flags::fattr::SIZE).then_some(args.size),
        atime: time(flags::fattr::ATIME, flags::fattr::ATIME_NOW, args.atime, args.atimensec),
        mtime: time(flags::fattr::MTIME, flags::fattr::MTIME_NOW, args.mtime, args.mtimensec),
        ctime: on(flags::fattr::CTIME).then(|| wire_time(args.ctime, args.ctimensec)),
        kill_suidgid: on(flags::fattr::KILL_SUIDGID),
    }
}

/// Seconds before 1970 come as two's complement.
fn wire_time(sec: u64, nsec: u32) -> Time {
    Time {
        sec: sec as i64,
        nsec: nsec.min(999_999_999),
    }
}

/// The reply to STATFS.
pub(super) fn statfs_out(figures: &StatFs) -> StatfsOut {
    StatfsOut {
        blocks: figures.blocks,
        bfree: figures.blocks_free,
        bavail: figures.blocks_available,
        files: figures.files,
        ffree: figures.files_free,
        bsize: figures.block_size,
        namelen: NAME_MAX as u32,
        frsize: figures.block_size,
        ..StatfsOut::default()
    }
}
