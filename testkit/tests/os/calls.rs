//! The system calls behind the operations, one each.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;

use keepfs_testkit::ops::{Outcome, View};
use keepfs_testkit::tree::DataHash;
use keepfs_vfs::{FallocMode, FileKind, InodeFlags, RenameFlags, SeekWhence, SetTime, XattrHow};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, IFlags, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags,
};

use super::{Place, Run};

/// The user that does what an ordinary user shall do; a member of every group that the operations use.
const ORDINARY_USER: u32 = 1000;

/// Runs `call` with the rights of an ordinary user if `ordinary`: only this thread changes, only for the call.
pub fn as_user(ordinary: bool, call: impl FnOnce() -> Run<Outcome>) -> Run<Outcome> {
    if !ordinary {
        return call();
    }
    let groups = [0, 50, 1000].map(Gid::from_raw);
    rustix::thread::set_thread_groups(&groups)?;
    become_user(ORDINARY_USER)?;
    let outcome = call();
    become_user(0)?;
    outcome
}

fn become_user(uid: u32) -> Run<()> {
    Ok(rustix::thread::set_thread_res_uid(
        None,
        Some(Uid::from_raw(uid)),
        None,
    )?)
}

fn with_umask<T>(umask: u32, call: impl FnOnce() -> rustix::io::Result<T>) -> Run<T> {
    let before = rustix::process::umask(Mode::from_raw_mode(umask));
    let result = call();
    rustix::process::umask(before);
    Ok(result?)
}

fn at_flags(place: &Place) -> AtFlags {
    if place.is_slot {
        AtFlags::empty()
    } else {
        AtFlags::SYMLINK_NOFOLLOW
    }
}

fn view_of(stat: &Stat) -> Outcome {
    let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    Outcome::View(View {
        mode: stat.st_mode,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        size: if is_dir { 0 } else { stat.st_size as u64 },
    })
}

pub fn view(place: &Place) -> Run<Outcome> {
    Ok(view_of(&rustix::fs::statat(CWD, &place.path, at_flags(place))?))
}

pub fn view_of_fd(fd: &OwnedFd) -> Run<Outcome> {
    Ok(view_of(&rustix::fs::fstat(fd)?))
}

pub fn open(place: &Place, flags: OFlags) -> Run<OwnedFd> {
    let nofollow = if place.is_slot {
        OFlags::empty()
    } else {
        OFlags::NOFOLLOW
    };
    Ok(rustix::fs::open(
        &place.path,
        flags | nofollow | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

pub fn tmpfile(dir: &Place, mode: u32, umask: u32) -> Run<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    with_umask(umask, || rustix::fs::open(&dir.path, flags, Mode::from_raw_mode(mode)))
}

pub fn mknod(place: &Place, kind: FileKind, mode: u32, rdev: u32, umask: u32) -> Run<()> {
    let file_type = FileType::from_raw_mode(kind.type_bits());
    with_umask(umask, || {
        rustix::fs::mknodat(
            CWD,
            &place.path,
            file_type,
            Mode::from_raw_mode(mode & 0o7777),
            rdev.into(),
        )
    })
}

pub fn mkdir(place: &Place, mode: u32, umask: u32) -> Run<()> {
    with_umask(umask, || rustix::fs::mkdir(&place.path, Mode::from_raw_mode(mode)))
}

pub fn link(from: &Place, to: &Place) -> Run<()> {
    let flags = if from.is_slot {
        AtFlags::SYMLINK_FOLLOW
    } else {
        AtFlags::empty()
    };
    Ok(rustix::fs::linkat(CWD, &from.path, CWD, &to.path, flags)?)
}

pub fn unlink(place: &Place) -> Run<()> {
    Ok(rustix::fs::unlink(&place.path)?)
}

pub fn rmdir(place: &Place) -> Run<()> {
    Ok(rustix::fs::rmdir(&place.path)?)
}

pub fn rename(from: &Place, to: &Place, flags: RenameFlags) -> Run<()> {
    use rustix::fs::RenameFlags as Os;
    let mut os = Os::empty();
    os.set(Os::NOREPLACE, flags.no_replace);
    os.set(Os::EXCHANGE, flags.exchange);
    os.set(Os::WHITEOUT, flags.whiteout.is_some());
    Ok(rustix::fs::renameat_with(CWD, &from.path, CWD, &to.path, os)?)
}

pub fn pwrite(fd: &OwnedFd, offset: u64, bytes: &[u8]) -> Run<Outcome> {
    Ok(Outcome::Number(rustix::io::pwrite(fd, bytes, offset)? as u64))
}

pub fn truncate(fd: &OwnedFd, size: u64) -> Run<Outcome> {
    rustix::fs::ftruncate(fd, size)?;
    Ok(Outcome::Done)
}

pub fn fallocate(fd: &OwnedFd, mode: FallocMode, offset: u64, len: u64) -> Run<Outcome> {
    let keep = FallocateFlags::KEEP_SIZE;
    let flags = match mode {
        FallocMode::Allocate => FallocateFlags::empty(),
        FallocMode::KeepSize => keep,
        FallocMode::PunchHole => FallocateFlags::PUNCH_HOLE | keep,
        FallocMode::ZeroRange { keep_size: false } => FallocateFlags::ZERO_RANGE,
        FallocMode::ZeroRange { keep_size: true } => FallocateFlags::ZERO_RANGE | keep,
    };
    rustix::fs::fallocate(fd, flags, offset, len)?;
    Ok(Outcome::Done)
}

pub fn copy_range(from: &OwnedFd, from_offset: u64, to: &OwnedFd, to_offset: u64, len: u64) -> Run<Outcome> {
    let (mut source_at, mut target_at) = (from_offset, to_offset);
    let count = rustix::fs::copy_file_range(from, Some(&mut source_at), to, Some(&mut target_at), len as usize)?;
    Ok(Outcome::Number(count as u64))
}

pub fn read(fd: &OwnedFd, offset: u64, len: usize) -> Run<Outcome> {
    let mut buf = vec![0; len];
    let count = rustix::io::pread(fd, &mut buf, offset)?;
    let mut hash = DataHash::default();
    hash.add(0, &buf[..count]);
    Ok(Outcome::Data(count, hash))
}

pub fn seek(fd: &OwnedFd, offset: u64, whence: SeekWhence) -> Run<Outcome> {
    let to = match whence {
        SeekWhence::Data => rustix::fs::SeekFrom::Data(offset),
        SeekWhence::Hole => rustix::fs::SeekFrom::Hole(offset),
    };
    Ok(Outcome::Number(rustix::fs::seek(fd, to)?))
}

pub fn read_dir(place: &Place) -> Run<Outcome> {
    let mut names = vec![b".".to_vec(), b"..".to_vec()];
    for entry in fs::read_dir(&place.path)? {
        names.push(entry?.file_name().into_vec());
    }
    names.sort();
    Ok(Outcome::Names(names))
}

pub fn read_link(place: &Place) -> Run<Outcome> {
    if place.is_slot {
        // A slot never holds a symbolic link; the link in /proc is not meant.
        return Err(keepfs_vfs::Errno::EINVAL.into());
    }
    Ok(Outcome::Bytes(fs::read_link(&place.path)?.into_os_string().into_vec()))
}

pub fn chmod(place: &Place, mode: u32) -> Run<()> {
    Ok(fs::set_permissions(&place.path, fs::Permissions::from_mode(mode))?)
}

pub fn chown(place: &Place, uid: Option<u32>, gid: Option<u32>) -> Run<()> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    Ok(rustix::fs::chownat(CWD, &place.path, uid, gid, at_flags(place))?)
}

pub fn utimes(place: &Place, atime: Option<SetTime>, mtime: Option<SetTime>) -> Run<()> {
    let spec = |time: Option<SetTime>| match time {
        None => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
        Some(SetTime::Now) => Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_NOW,
        },
        Some(SetTime::At(time)) => Timespec {
            tv_sec: time.sec,
            tv_nsec: time.nsec.into(),
        },
    };
    let times = Timestamps {
        last_access: spec(atime),
        last_modification: spec(mtime),
    };
    Ok(rustix::fs::utimensat(CWD, &place.path, &times, at_flags(place))?)
}

/// The chattr flags that the operations know; ext4 has more of its own.
pub fn flags(fd: impl AsFd) -> Run<u32> {
    Ok(rustix::fs::ioctl_getflags(fd)?.bits() & InodeFlags::SETTABLE.0)
}

pub fn set_flags(fd: &OwnedFd, flags: u32) -> Run<Outcome> {
    let others = rustix::fs::ioctl_getflags(fd)?.bits() & !InodeFlags::SETTABLE.0;
    rustix::fs::ioctl_setflags(fd, IFlags::from_bits_retain(others | flags))?;
    Ok(Outcome::Done)
}

pub fn fsync(fd: &OwnedFd, data_only: bool) -> Run<Outcome> {
    if data_only {
        rustix::fs::fdatasync(fd)?;
    } else {
        rustix::fs::fsync(fd)?;
    }
    Ok(Outcome::Done)
}

pub fn syncfs(path: &str) -> Run<Outcome> {
    rustix::fs::syncfs(fs::File::open(path)?)?;
    Ok(Outcome::Done)
}

pub fn set_xattr(place: &Place, name: &str, value: &[u8], how: XattrHow) -> Run<Outcome> {
    let mut flags = XattrFlags::empty();
    flags.set(XattrFlags::CREATE, how.create);
    flags.set(XattrFlags::REPLACE, how.replace);
    if place.is_slot {
        rustix::fs::setxattr(&place.path, name, value, flags)?;
    } else {
        rustix::fs::lsetxattr(&place.path, name, value, flags)?;
    }
    Ok(Outcome::Done)
}

pub fn remove_xattr(place: &Place, name: &str) -> Run<Outcome> {
    if place.is_slot {
        rustix::fs::removexattr(&place.path, name)?;
    } else {
        rustix::fs::lremovexattr(&place.path, name)?;
    }
    Ok(Outcome::Done)
}

pub fn get_xattr(place: &Place, name: &str) -> Run<Vec<u8>> {
    get_xattr_named(place, OsStr::new(name))
}

pub fn get_xattr_named(place: &Place, name: &OsStr) -> Run<Vec<u8>> {
    let mut value = vec![0; 64 << 10];
    let len = if place.is_slot {
        rustix::fs::getxattr(&place.path, name, &mut value[..])?
    } else {
        rustix::fs::lgetxattr(&place.path, name, &mut value[..])?
    };
    value.truncate(len);
    Ok(value)
}

/// Names in byte order.
pub fn list_xattr(place: &Place) -> Run<Vec<Vec<u8>>> {
    let mut list = vec![0; 4 << 10];
    let len = if place.is_slot {
        rustix::fs::listxattr(&place.path, &mut list[..])?
    } else {
        rustix::fs::llistxattr(&place.path, &mut list[..])?
    };
    let names = list[..len].split(|&b| b == 0).filter(|name| !name.is_empty());
    let mut names: Vec<Vec<u8>> = names.map(<[u8]>::to_vec).collect();
    names.sort();
    Ok(names)
}

/// A name as the system takes it.
pub fn os_name(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}
