//! An anchored mount that is shown under the pool's name.
//!
//! The source that mount(8), df(1) and findmnt(8) show is the path by which the kernel found the block device. So the
//! device is bound over the pool's path where nobody sees it, in a mount namespace of a thread that ends at once; the
//! mount is made there, detached, and moved to its place from outside. `docs/decisions/0121-how-a-mount-is-made-and-ends.md`.

use super::mount_options;
use crate::config::MountConfig;
use crate::sys;
use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, mount_bind, mount_change, move_mount,
};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;

/// A mount of the connection of `channel`, anchored on the block device `anchor` and shown as `config.fsname`, which
/// must be the absolute path of a file or device. It is nowhere yet.
/// Errors: those of the system; the mount can then still be made under the anchor's own name.
pub(super) fn make(channel: &File, anchor: &Path, config: &MountConfig) -> io::Result<OwnedFd> {
    if !Path::new(&config.fsname).is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the source is no path"));
    }
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("fuse-mount".into());
        let made = builder.spawn_scoped(scope, || make_apart(channel, anchor, config))?;
        let panicked = |_| Err(io::Error::other("the mounting thread panicked"));
        made.join().unwrap_or_else(panicked)
    })
}

/// Gives a mount its place.
pub(super) fn put(mount: OwnedFd, target: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(move_mount(mount, "", CWD, target, flags)?)
}

/// Run by a thread of its own, which loses its mount namespace.
fn make_apart(channel: &File, anchor: &Path, config: &MountConfig) -> io::Result<OwnedFd> {
    sys::leave_mount_namespace()?;
    // Nothing of what follows may be seen outside.
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)?;
    mount_bind(anchor, config.fsname.as_os_str())?;
    let context = fsopen("fuseblk", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", config.fsname.as_os_str())?;
    if !config.subtype.is_empty() {
        fsconfig_set_string(&context, "subtype", config.subtype.as_str())?;
    }
    if config.read_only {
        fsconfig_set_flag(&context, "ro")?;
    }
    for option in mount_options(channel, config).split(',') {
        match option.split_once('=') {
            Some((name, value)) => fsconfig_set_string(&context, name, value)?,
            None => fsconfig_set_flag(&context, option)?,
        }
    }
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes(config))?)
}

/// The options that belong to the mount and not to the file system.
fn attributes(config: &MountConfig) -> MountAttrFlags {
    let atime = match (config.noatime, config.strictatime) {
        (true, _) => MountAttrFlags::MOUNT_ATTR_NOATIME,
        (false, true) => MountAttrFlags::MOUNT_ATTR_STRICTATIME,
        (false, false) => MountAttrFlags::MOUNT_ATTR_RELATIME,
    };
    let table = [
        (config.read_only, MountAttrFlags::MOUNT_ATTR_RDONLY),
        (config.nosuid, MountAttrFlags::MOUNT_ATTR_NOSUID),
        (config.nodev, MountAttrFlags::MOUNT_ATTR_NODEV),
        (config.noexec, MountAttrFlags::MOUNT_ATTR_NOEXEC),
        (config.nosymfollow, MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW),
        (config.nodiratime, MountAttrFlags::MOUNT_ATTR_NODIRATIME),
    ];
    let flags = table.iter().filter(|(on, _)| *on);
    flags.fold(atime, |all, (_, flag)| all | *flag)
}
