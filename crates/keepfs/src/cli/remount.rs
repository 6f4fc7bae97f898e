//! `-o remount`: what of a mounted pool can change without unmounting it (ro, rw, access times, nosuid, nodev, noexec).
//!
//! The kernel holds these flags; the server follows what the kernel's table of mounts says, so a remount by mount(2)
//! without this program works as well. Here the command waits until the server has followed.

use super::Outcome;
use super::control;
use super::failure::Failure;
use super::options::{MountOptions, access_times_name};
use super::registry;
use std::path::Path;

/// Changes the mount at `dir`.
pub fn run(dir: &Path, given: &[String], sloppy: bool) -> Outcome {
    let (mount, record) = registry::at_dir(dir)?;
    let dir = mount.dir.display();
    let record = record.ok_or_else(|| {
        Failure::Other(format!(
            "{dir}: its server cannot be asked: only root may, and only if /run was writable"
        ))
    })?;
    let first = MountOptions::parse(&record.options, true)?;
    // What holds now: the options of the first day, then what remounts made of them, then what is asked.
    let as_mounted = match mount.is_read_only() {
        true => "ro",
        false => "rw",
    };
    let mut words = record.options.clone();
    let times = access_times_name(mount.access_times());
    words.extend([mount.options.clone(), times.into(), as_mounted.into()]);
    words.extend_from_slice(given);
    let wanted = MountOptions::parse(&words, sloppy)?;
    if let Some(name) = first.fixed_that_differs(&wanted) {
        return Err(Failure::Usage(format!(
            "mount option '{name}' cannot change while {dir} is mounted; unmount it and mount it again"
        )));
    }
    if first.read_only && !wanted.read_only {
        return Err(Failure::Other(format!(
            "{dir} was mounted read-only, and nothing of it was recovered on the device; unmount it and mount it rw"
        )));
    }
    let config = wanted.mount(&record.pool, &mount.dir);
    keepfs_fuse::remount(&mount.dir, &config)?;
    let answer = control::ask(&record, "follow").map_err(|e| Failure::Other(format!("{dir}: {e}")))?;
    match answer["error"].as_str() {
        Some(error) => Err(Failure::Other(format!("{dir}: {error}"))),
        None => Ok(0),
    }
}
