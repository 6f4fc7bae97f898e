//! Who uses a block device or a file that backs a loop device: mounts and holders, from /proc and /sys.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A user of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// It is mounted at this place.
    Mount(PathBuf),
    /// Another driver (device mapper, RAID, ...) of this name sits on it.
    Holder(String),
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            User::Mount(place) => write!(f, "mounted at {}", place.display()),
            User::Holder(name) => write!(f, "held by {name}"),
        }
    }
}

/// Major and minor number of a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DeviceNumber {
    major: u32,
    minor: u32,
}

/// The users of the block device at `path` and of its partitions, or, if `path` is a regular file, of
/// the loop devices it backs. Where /proc or /sys is not there, nothing is found.
///
/// # Errors
/// If `path` itself cannot be examined.
pub fn users_of(path: &Path) -> io::Result<Vec<User>> {
    let meta = fs::metadata(path)?;
    let devices = if meta.file_type().is_block_device() {
        with_partitions(number_of(&meta))
    } else {
        loops_over(Path::new("/sys/block"), &fs::canonicalize(path)?)
    };
    let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut users = mounted_at(&mountinfo, &devices);
    users.extend(devices.into_iter().flat_map(holders));
    Ok(users)
}

/// Whether the kernel says of the block device at `path` that it must not be written. Where /sys is not there: no.
///
/// # Errors
/// If `path` itself cannot be examined.
pub fn is_write_protected(path: &Path) -> io::Result<bool> {
    let told = fs::read_to_string(sys_folder(number_of(&fs::metadata(path)?)).join("ro"));
    Ok(told.is_ok_and(|told| told.trim() == "1"))
}

fn number_of(device: &fs::Metadata) -> DeviceNumber {
    DeviceNumber {
        major: libc::major(device.rdev()),
        minor: libc::minor(device.rdev()),
    }
}

/// The mounts of `devices` in the text of a mountinfo file (proc(5)).
fn mounted_at(mountinfo: &str, devices: &[DeviceNumber]) -> Vec<User> {
    let mut users = Vec::new();
    for line in mountinfo.lines() {
        let mut fields = line.split(' ').skip(2);
        let (number, place) = (fields.next(), fields.nth(1));
        let (Some(number), Some(place)) = (number.and_then(parse_number), place) else {
            continue;
        };
        if devices.contains(&number) {
            users.push(User::Mount(PathBuf::from(unescape(place))));
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

/// Undoes the octal escapes of blanks in a mountinfo field.
fn unescape(field: &str) -> String {
    field
        .replace("\\040", " ")
        .replace("\\011", "\t")
        .replace("\\012", "\n")
        .replace("\\134", "\\")
}

fn sys_folder(device: DeviceNumber) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", device.major, device.minor))
}

/// The names in a folder; none if it is not there.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries.flatten().map(|entry| entry.path()).collect()
}

fn number_in(folder: &Path) -> Option<DeviceNumber> {
    parse_number(&fs::read_to_string(folder.join("dev")).ok()?)
}

fn with_partitions(device: DeviceNumber) -> Vec<DeviceNumber> {
    let children = entries(&sys_folder(device)).into_iter();
    let partitions = children
        .filter(|child| child.join("partition").exists())
        .filter_map(|child| number_in(&child));
    std::iter::once(device).chain(partitions).collect()
}

/// The loop devices (and their partitions) that `file` backs, by the folders below `block`.
fn loops_over(block: &Path, file: &Path) -> Vec<DeviceNumber> {
    let backed = |folder: &PathBuf| {
        let backing = fs::read_to_string(folder.join("loop/backing_file")).ok();
        backing.is_some_and(|name| Path::new(name.trim_end_matches('\n')) == file)
    };
    entries(block)
        .into_iter()
        .filter(backed)
        .filter_map(|folder| number_in(&folder))
        .flat_map(with_partitions)
        .collect()
}

fn holders(device: DeviceNumber) -> Vec<User> {
    entries(&sys_folder(device).join("holders"))
        .iter()
        .filter_map(|holder| holder.file_name())
        .map(|name| User::Holder(name.to_string_lossy().into_owned()))
        .collect()
}

#[cfg(test)]
mod tests;
