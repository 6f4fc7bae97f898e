//! Who uses a block device or a file that backs a loop device: mounts, holders and whoever has it open alone, from /proc and /sys.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use keepfs_format::shown;

use crate::loops::{self, Beneath, Identity};

/// A user of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// It is mounted at this place.
    Mount(PathBuf),
    /// Another driver (device mapper, RAID, ...) of this name sits on it.
    Holder(String),
    /// Somebody has a loop device over the same bytes, this one, for himself alone.
    Loop(PathBuf),
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            User::Mount(place) => write!(f, "mounted at {}", shown::path(place)),
            User::Holder(name) => write!(f, "held by {name}"),
            User::Loop(node) => write!(f, "another process has it open as {}", shown::path(node)),
        }
    }
}

/// Major and minor number of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceNumber {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

impl DeviceNumber {
    /// From stat(2).
    pub(crate) fn of(number: u64) -> Self {
        Self {
            major: libc::major(number),
            minor: libc::minor(number),
        }
    }

    /// From a structure of the kernel (`huge_encode_dev`: 20 bits of the minor around 12 of the major).
    pub(crate) fn of_kernel(number: u64) -> Self {
        Self {
            major: (number >> 8 & 0xfff) as u32,
            minor: (number & 0xff | number >> 12 & 0xfff00) as u32,
        }
    }
}

/// The users of the block device at `path` and of its partitions, or, if `path` is a regular file, of
/// the loop devices it backs; and those of other loop devices over the same bytes. Where /proc or /sys is not there, nothing
/// is found.
///
/// # Errors
/// If `path` itself cannot be examined.
pub fn users_of(path: &Path) -> io::Result<Vec<User>> {
    let meta = fs::metadata(path)?;
    let over = loops_over(path, &meta)?;
    let mut devices: Vec<DeviceNumber> = over.iter().copied().flat_map(with_partitions).collect();
    let beside = match meta.file_type().is_block_device() {
        true => {
            let device = DeviceNumber::of(meta.rdev());
            devices.extend(with_partitions(device));
            loops::beside(device)
        }
        false => Vec::new(),
    };
    // Places are any bytes.
    let mountinfo = fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mut users = mounted_at(&mountinfo, &devices);
    users.extend(devices.into_iter().flat_map(holders));
    users.extend(
        over.into_iter()
            .chain(beside)
            .filter_map(loops::held_by)
            .map(User::Loop),
    );
    Ok(users)
}

/// Who writes to what is at `path` through a loop device over it, as far as known.
///
/// # Errors
/// As [`users_of`].
pub fn writers_over(path: &Path) -> io::Result<Vec<User>> {
    let over = loops_over(path, &fs::metadata(path)?)?;
    Ok(over.into_iter().filter_map(loops::held_by).map(User::Loop).collect())
}

fn loops_over(path: &Path, meta: &fs::Metadata) -> io::Result<Vec<DeviceNumber>> {
    let all = (0, u64::MAX);
    let path = fs::canonicalize(path)?;
    Ok(loops::over(Path::new("/sys/block"), Identity::of(meta), &path, all))
}

/// Names of what is at `path` and, where a loop device is nothing but that, of what lies beneath it: two paths that have one in
/// common lead to the same bytes. They are the same for all processes until the machine restarts.
///
/// # Errors
/// If `path` cannot be examined.
pub fn identities(path: &Path) -> io::Result<Vec<Named>> {
    let meta = fs::metadata(path)?;
    let mut all = vec![Named::of(&meta)];
    if meta.file_type().is_block_device() {
        for below in loops::beneath(DeviceNumber::of(meta.rdev()), false)? {
            match below {
                Beneath::Open { file, whole: true, .. } => all.push(Named::of(&file.metadata()?)),
                Beneath::Hidden { of, whole: true, .. } => all.push(Named {
                    name: of.name(),
                    born_ns: None,
                }),
                _ => {}
            }
        }
    }
    Ok(all)
}

/// A name of [`identities`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// When the file was made, nanoseconds since 1970, where that is known: of two that have the name one after the other it tells which.
    pub born_ns: Option<u64>,
}

impl Named {
    /// Of what has this metadata.
    pub fn of(meta: &fs::Metadata) -> Named {
        let born = meta.created().ok().filter(|_| meta.is_file());
        let since = born.and_then(|born| born.duration_since(UNIX_EPOCH).ok());
        Named {
            name: Identity::of(meta).name(),
            born_ns: since.and_then(|since| u64::try_from(since.as_nanos()).ok()),
        }
    }
}

/// Whether the kernel says of the block device at `path` that it must not be written. Where /sys is not there: no.
///
/// # Errors
/// If `path` itself cannot be examined.
pub fn is_write_protected(path: &Path) -> io::Result<bool> {
    let told = fs::read_to_string(sys_folder(DeviceNumber::of(fs::metadata(path)?.rdev())).join("ro"));
    Ok(told.is_ok_and(|told| told.trim() == "1"))
}

/// The mounts of `devices` in a mountinfo file (proc(5)).
fn mounted_at(mountinfo: &[u8], devices: &[DeviceNumber]) -> Vec<User> {
    let mut users = Vec::new();
    for line in mountinfo.split(|byte| *byte == b'\n') {
        let mut fields = line.split(|byte| *byte == b' ').skip(2);
        let (number, place) = (fields.next(), fields.nth(1));
        let number = number.and_then(|number| parse_number(str::from_utf8(number).ok()?));
        let (Some(number), Some(place)) = (number, place) else {
            continue;
        };
        if devices.contains(&number) {
            users.push(User::Mount(OsString::from_vec(unescape(place)).into()));
        }
    }
    users
}

fn parse_number(text: &str) -> Option<DeviceNumber> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(DeviceNumber {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}

/// Undoes the octal escapes of blanks, newlines and backslashes in a field of a mountinfo file.
pub fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let byte = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        plain.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    plain
}

pub(crate) fn sys_folder(device: DeviceNumber) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", device.major, device.minor))
}

/// The names in a folder; none if it is not there.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries.flatten().map(|entry| entry.path()).collect()
}

pub(crate) fn number_in(folder: &Path) -> Option<DeviceNumber> {
    parse_number(&fs::read_to_string(folder.join("dev")).ok()?)
}

fn with_partitions(device: DeviceNumber) -> Vec<DeviceNumber> {
    let children = entries(&sys_folder(device)).into_iter();
    let partitions = children
        .filter(|child| child.join("partition").exists())
        .filter_map(|child| number_in(&child));
    std::iter::once(device).chain(partitions).collect()
}

fn holders(device: DeviceNumber) -> Vec<User> {
    entries(&sys_folder(device).join("holders"))
        .iter()
        .filter_map(|holder| holder.file_name())
        .map(|name| User::Holder(shown::shown(name.as_bytes()).into_owned()))
        .collect()
}

#[cfg(test)]
mod tests;
