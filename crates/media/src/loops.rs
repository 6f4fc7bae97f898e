//! Loop devices: the file beneath one, and those over a file. A file is known by device and inode number, so that neither
//! links nor mount namespaces hide it; locks on it keep out who comes by another name (S-2.11, decision 0850).

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::mounts::{DeviceNumber, entries, number_in, sys_folder};
use crate::sys;

/// Devices on devices that are looked through; a kernel's stack is no deeper.
const DEPTH_MAX: u32 = 8;

/// A file, whatever it is called; of a device, the device, whatever node names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    File { device: DeviceNumber, inode: u64 },
    Block(DeviceNumber),
}

impl Identity {
    pub(crate) fn of(meta: &fs::Metadata) -> Self {
        match meta.file_type().is_block_device() {
            true => Identity::Block(DeviceNumber::of(meta.rdev())),
            false => Identity::File {
                device: DeviceNumber::of(meta.dev()),
                inode: meta.ino(),
            },
        }
    }

    /// As text that is the same in every process of this machine.
    pub(crate) fn name(self) -> String {
        match self {
            Identity::File { device, inode } => format!("file {}:{} {inode}", device.major, device.minor),
            Identity::Block(device) => format!("block {}:{}", device.major, device.minor),
        }
    }
}

/// What a loop device shows of what.
#[derive(Debug, PartialEq, Eq)]
struct Backing {
    of: Identity,
    /// Bytes of it, from and to.
    from: u64,
    to: u64,
}

impl Backing {
    fn of(node: &Path) -> Option<Self> {
        let told = sys::loop_status(&File::open(node).ok()?).ok()?;
        let of = match told.special {
            0 => Identity::File {
                device: DeviceNumber::of_kernel(told.device),
                inode: told.inode,
            },
            special => Identity::Block(DeviceNumber::of_kernel(special)),
        };
        let to = match told.limit {
            0 => u64::MAX,
            limit => told.offset.saturating_add(limit),
        };
        Some(Backing {
            of,
            from: told.offset,
            to,
        })
    }

    fn is_whole(&self) -> bool {
        (self.from, self.to) == (0, u64::MAX)
    }

    fn overlaps(&self, from: u64, to: u64) -> bool {
        self.from < to && from < self.to
    }
}

/// Its node, by the name that the kernel gives a device.
fn node_of(folder: &Path) -> Option<PathBuf> {
    // A name with a slash has `!` there.
    let name = fs::canonicalize(folder).ok()?.file_name()?.to_str()?.replace('!', "/");
    Some(Path::new("/dev").join(name))
}

fn backing_file(folder: &Path) -> Option<PathBuf> {
    let told = fs::read(folder.join("loop/backing_file")).ok()?;
    let path = told.strip_suffix(b"\n").unwrap_or(&told);
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

/// The loop devices over `file`, which is at `path`, by the folders below `block`; of those that show its bytes `from` to `to`
/// alone.
pub(crate) fn over(block: &Path, file: Identity, path: &Path, (from, to): (u64, u64)) -> Vec<DeviceNumber> {
    let is_over = |folder: &PathBuf| {
        let Some(told) = backing_file(folder) else { return false };
        match node_of(folder).as_deref().and_then(Backing::of) {
            Some(backing) => backing.of == file && backing.overlaps(from, to),
            // Where it has no node its file's name must do.
            None => told == path,
        }
    };
    entries(block)
        .into_iter()
        .filter(is_over)
        .filter_map(|folder| number_in(&folder))
        .collect()
}

/// Other loop devices that show what the loop device `device` (or the one it is a partition of) shows.
pub(crate) fn beside(device: DeviceNumber) -> Vec<DeviceNumber> {
    let device = whole_of(device).unwrap_or(device);
    let folder = sys_folder(device);
    let Some(path) = backing_file(&folder) else {
        return Vec::new();
    };
    let Some(backing) = node_of(&folder).as_deref().and_then(Backing::of) else {
        return Vec::new();
    };
    let mut all = over(Path::new("/sys/block"), backing.of, &path, (backing.from, backing.to));
    all.retain(|other| *other != device);
    all
}

/// The node of `device`, if somebody has it for himself alone (O_EXCL, a mount, a driver).
pub(crate) fn held_by(device: DeviceNumber) -> Option<PathBuf> {
    let node = node_of(&sys_folder(device))?;
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(&node);
    let is_held = opened.is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY));
    is_held.then_some(node)
}

/// Whether a device is a loop device, or a partition of one.
pub(crate) fn is_loop(meta: &fs::Metadata) -> bool {
    let device = DeviceNumber::of(meta.rdev());
    sys_folder(whole_of(device).unwrap_or(device)).join("loop").exists()
}

/// The device that `device` is a partition of.
fn whole_of(device: DeviceNumber) -> Option<DeviceNumber> {
    let folder = sys_folder(device);
    if !folder.join("partition").exists() {
        return None;
    }
    number_in(fs::canonicalize(folder).ok()?.parent()?)
}

/// A file or device beneath a device.
#[derive(Debug)]
pub(crate) enum Beneath {
    /// Open; `whole`: the device above it is nothing but it.
    Open { path: PathBuf, file: File, whole: bool },
    /// It has another name here, or none.
    Hidden { path: PathBuf, of: Identity, whole: bool },
}

/// What lies beneath `device`, and beneath that.
///
/// # Errors
/// It cannot be looked at.
pub(crate) fn beneath(device: DeviceNumber, write: bool) -> io::Result<Vec<Beneath>> {
    let mut found = Vec::new();
    descend(device, (true, write), 0, &mut found)?;
    Ok(found)
}

fn descend(device: DeviceNumber, (whole, write): (bool, bool), depth: u32, found: &mut Vec<Beneath>) -> io::Result<()> {
    if depth == DEPTH_MAX {
        return Ok(());
    }
    if let Some(disk) = whole_of(device) {
        return descend(disk, (false, write), depth + 1, found);
    }
    let folder = sys_folder(device);
    // Volumes of one driver may lie beside each other on one device.
    for slave in entries(&folder.join("slaves")) {
        if let Some(slave) = number_in(&slave) {
            descend(slave, (false, write), depth + 1, found)?;
        }
    }
    let Some(path) = backing_file(&folder) else {
        return Ok(());
    };
    let backing = node_of(&folder).as_deref().and_then(Backing::of);
    let whole = whole && backing.as_ref().is_none_or(Backing::is_whole);
    let opened = OpenOptions::new().read(true).write(write).open(&path);
    let file = match (opened.or_else(|_| File::open(&path)), &backing) {
        (Ok(file), Some(backing)) if Identity::of(&file.metadata()?) != backing.of => None,
        (Ok(file), _) => Some(file),
        (Err(_), _) => None,
    };
    let below = match (&file, &backing) {
        (Some(file), _) => Some(Identity::of(&file.metadata()?)),
        (None, Some(backing)) => Some(backing.of),
        (None, None) => None,
    };
    match (file, backing) {
        (Some(file), _) => found.push(Beneath::Open { path, file, whole }),
        (None, Some(Backing { of, .. })) => found.push(Beneath::Hidden { path, of, whole }),
        (None, None) => {}
    }
    match below {
        Some(Identity::Block(device)) => descend(device, (whole, write), depth + 1, found),
        _ => Ok(()),
    }
}

/// Whether somebody has locked `file`, by the text of /proc/locks (proc(5)).
pub(crate) fn is_locked(locks: &str, file: Identity) -> bool {
    let Identity::File { device, inode } = file else {
        return false;
    };
    let name = format!("{:02x}:{:02x}:{inode}", device.major, device.minor);
    locks.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.contains(&"FLOCK") && !fields.contains(&"->") && fields.contains(&name.as_str())
    })
}

#[cfg(test)]
mod tests;
