//! Who has a mount in another mount namespace.

use crate::visible::Shown;
use crate::{servers, table};
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::path::PathBuf;

/// A process in another mount namespace that has a mount of ours.
pub struct Holder {
    pid: u32,
    name: String,
    dir: PathBuf,
}

impl Holder {
    /// Of the file system with this device number, which must be no other's by now; `None` if none is seen.
    pub fn of(device: &str) -> Option<Holder> {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let mut known = BTreeSet::from([namespace("self")]);
        servers::numbers().find_map(|pid| {
            let is_new = known.insert(namespace(&pid.to_string()));
            let mounts = if is_new { table::of_process(pid) } else { Vec::new() };
            let mount = mounts
                .into_iter()
                .find(|mount| mount.is_keepfs() && mount.device == device)?;
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            Some(Holder {
                pid,
                name: name.trim().to_owned(),
                dir: mount.dir,
            })
        })
    }

    /// The mount there, to be synced.
    pub fn open(&self) -> Option<File> {
        let inside = self.dir.strip_prefix("/").ok()?;
        File::open(PathBuf::from(format!("/proc/{}/root", self.pid)).join(inside)).ok()
    }

    /// What ends it there.
    pub fn action(&self) -> String {
        format!("`nsenter -t {} -m umount {}` ends it there", self.pid, self.dir.shown())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Holder { pid, name, dir } = self;
        write!(f, "at {} in the mount namespace of process {pid} ({name})", dir.shown())
    }
}
