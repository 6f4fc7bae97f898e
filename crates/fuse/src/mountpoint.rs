//! mount(2) and umount(2): options, flags, and finding our own mount again.

mod named;

use crate::config::MountConfig;
use crate::error::FuseError;
use crate::sys;
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How hard to unmount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum How {
    /// Only if nobody uses it. With an anchor it returns when the server has made everything durable.
    #[default]
    Gentle,
    /// Take the name away now, finish when the last user is gone.
    Lazy,
    /// Abort what is under way, then unmount.
    Force,
}

/// A mount as `/proc/self/mountinfo` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mounted {
    /// Number of the mount, never used twice while it lives.
    pub(crate) id: u64,
    /// Device number as `major:minor`.
    pub(crate) device: String,
    /// Whether it stands on a block device (`fuseblk`).
    pub(crate) on_block_device: bool,
}

/// Unmounts whatever is mounted on `path`.
///
/// On an anchored mount umount2(2) waits, deaf to every signal, for our own answer to DESTROY. If we are killed then,
/// the kernel gives up only when nothing refers to the connection any more. A thread of ours that waits in umount keeps
/// our descriptors open, and (whatever its table of descriptors is) our memory, in which a ring is mapped that refers to
/// the connection; the umount and every sync(2) of the machine would wait for ever. Hence a child process.
///
/// Errors: [`FuseError::Busy`], [`FuseError::NotMounted`],
/// [`FuseError::NotPermitted`], [`FuseError::Unmount`].
pub fn unmount(path: &Path, how: How) -> Result<(), FuseError> {
    let target = c_string(path)?;
    let flags = match how {
        How::Gentle => 0,
        How::Lazy => libc::MNT_DETACH,
        How::Force => libc::MNT_FORCE,
    };
    sys::umount_in_child(&target, flags | libc::UMOUNT_NOFOLLOW).map_err(|source| {
        let path = path.to_owned();
        match source.raw_os_error() {
            Some(libc::EBUSY) => FuseError::Busy { path },
            Some(libc::EINVAL) => FuseError::NotMounted { path },
            Some(libc::EPERM) => FuseError::NotPermitted { what: "umount" },
            _ => FuseError::Unmount { path, source },
        }
    })
}

/// Gives the mount on `path` the flags of `config` (read-only, nosuid, nodev, noexec, nosymfollow, access times) as mount(8) does with
/// `-o remount`; everything else of a mount cannot change.
/// Errors: [`FuseError::InUse`] (read-only while files are open for writing, or open without a name), [`FuseError::NotPermitted`],
/// [`FuseError::Mount`].
pub fn remount(path: &Path, config: &MountConfig) -> Result<(), FuseError> {
    mount_remount(path, flags(config), "").map_err(|error| match error {
        Errno::BUSY => FuseError::InUse { path: path.to_owned() },
        other => mount_error(path, other.into()),
    })
}

/// The mount point as an absolute path without links. Errors: [`FuseError::MountPoint`], [`FuseError::NotADirectory`].
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, FuseError> {
    let at = |source| FuseError::MountPoint {
        path: path.to_owned(),
        source,
    };
    let resolved = fs::canonicalize(path).map_err(at)?;
    if !fs::metadata(&resolved).map_err(at)?.is_dir() {
        return Err(FuseError::NotADirectory { path: resolved });
    }
    Ok(resolved)
}

/// Mounts the connection of `channel` on `target` (as from [`resolve`]) and finds the new mount.
pub(crate) fn attach(channel: &File, target: &Path, config: &MountConfig) -> Result<Mounted, FuseError> {
    let named = config
        .anchor
        .as_ref()
        .map(|anchor| named::make(channel, anchor, config));
    match named {
        Some(Ok(mount)) => named::put(mount, target).map_err(|source| mount_error(target, source))?,
        Some(Err(error)) => {
            tracing::debug!(%error, "the mount is shown under its anchor's name");
            attach_plainly(channel, target, config)?;
        }
        None => attach_plainly(channel, target, config)?,
    }
    find(target).ok_or_else(|| FuseError::NotMounted {
        path: target.to_owned(),
    })
}

/// By mount(2): the source is the anchor, or without one whatever the configuration says.
fn attach_plainly(channel: &File, target: &Path, config: &MountConfig) -> Result<(), FuseError> {
    let base = if config.anchor.is_some() { "fuseblk" } else { "fuse" };
    let fs_type = match config.subtype.as_str() {
        "" => base.to_owned(),
        subtype => format!("{base}.{subtype}"),
    };
    let source = match &config.anchor {
        Some(device) => device.as_path(),
        None => Path::new(&config.fsname),
    };
    let options = c_string(Path::new(&mount_options(channel, config)))?;
    let done = rustix::mount::mount(source, target, fs_type, flags(config), &*options);
    done.map_err(|error| mount_error(target, error.into()))
}

/// The options that only FUSE knows. Permissions are always checked by the kernel, also without `allow_other`.
fn mount_options(channel: &File, config: &MountConfig) -> String {
    let mut text = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions,max_read={}",
        channel.as_raw_fd(),
        config.max_write.max(4096)
    );
    if config.allow_other {
        text.push_str(",allow_other");
    }
    if config.anchor.is_some() {
        text.push_str(",blksize=4096");
    }
    text
}

/// The options that every file system has.
fn flags(config: &MountConfig) -> MountFlags {
    let table = [
        (config.read_only, MountFlags::RDONLY),
        (config.nosuid, MountFlags::NOSUID),
        (config.nodev, MountFlags::NODEV),
        (config.noexec, MountFlags::NOEXEC),
        (config.nosymfollow, MountFlags::NOSYMFOLLOW),
        (config.nodiratime, MountFlags::NODIRATIME),
        (config.noatime, MountFlags::NOATIME),
        (config.strictatime && !config.noatime, MountFlags::STRICTATIME),
        (!config.strictatime && !config.noatime, MountFlags::RELATIME),
    ];
    table.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag).collect()
}

fn mount_error(target: &Path, source: io::Error) -> FuseError {
    let path = target.to_owned();
    match source.raw_os_error() {
        Some(libc::EPERM) => FuseError::NotPermitted { what: "mount" },
        Some(libc::ENOTDIR) => FuseError::NotADirectory { path },
        _ => FuseError::Mount { path, source },
    }
}

/// The topmost mount on `target`.
pub(crate) fn find(target: &Path) -> Option<Mounted> {
    let table = fs::read("/proc/self/mountinfo").ok()?;
    table
        .split(|&b| b == b'\n')
        .filter_map(|line| parse(line, target))
        .next_back()
}

/// One line of mountinfo, if it is about `target`: id, parent, major:minor, root, mount point, ... - type, ...
fn parse(line: &[u8], target: &Path) -> Option<Mounted> {
    let mut fields = line.split(|&b| b == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let device = std::str::from_utf8(fields.nth(1)?).ok()?.to_owned();
    let point = unescape(fields.nth(1)?);
    if point != target.as_os_str().as_bytes() {
        return None;
    }
    let fs_type = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(Mounted {
        id,
        device,
        on_block_device: fs_type.starts_with(b"fuseblk"),
    })
}

/// Undoes the octal escapes of mountinfo (space, tab, newline, backslash).
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = (first == b'\\').then(|| tail.get(..3)).flatten();
        match octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()) {
            Some(byte) => {
                plain.push(byte);
                rest = &tail[3..];
            }
            None => {
                plain.push(first);
                rest = tail;
            }
        }
    }
    plain
}

fn c_string(path: &Path) -> Result<CString, FuseError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|e| {
        let bytes = e.into_vec();
        FuseError::BadPath {
            path: PathBuf::from(std::ffi::OsString::from_vec(bytes)),
        }
    })
}

#[cfg(test)]
mod tests;
