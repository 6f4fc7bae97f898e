//! `-o remount`: what of a mounted pool can change without unmounting it (ro, rw, access times, nosuid, nodev, noexec,
//! nosymfollow).
//!
//! The kernel holds these flags; the server follows what the kernel's table of mounts says, so a remount by mount(2)
//! without this program works as well. Here the command waits until the server has followed.

use super::tell::warn_of;
use keepfs_server::options::{MountOptions, access_times_name};
use keepfs_server::question::{Question, Told};
use keepfs_server::registry::Record;
use keepfs_server::table::Mount;
use keepfs_server::visible::Shown;
use keepfs_server::{Failure, Outcome, control, unserved};
use std::path::Path;

/// What the table of mounts leaves out of a mount's options.
const NO_FLAGS: &str = "suid,dev,exec,symfollow,diratime";

/// What the options of a remount are (S-20.25).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Given {
    /// What changes; the rest stays as the kernel shows it.
    Changes,
    /// All that hold behind it, as mount(8) merges them. Access times stay if nothing is said of them, as in mount(2).
    All,
}

/// Options that say something of access times. mount(8) takes the one away that `diratime` is the opposite of.
const OF_TIMES: [&str; 7] = [
    "noatime",
    "atime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "nodiratime",
];

/// The flags that a remount of `mount` begins from.
fn flags(mount: &Mount, given: &[String], as_given: Given) -> Vec<String> {
    let mut words = given.iter().flat_map(|list| list.split(','));
    let says_times = words.any(|word| OF_TIMES.contains(&word));
    let times = access_times_name(mount.access_times());
    let flags = match as_given {
        // The place may be read-only alone, or the file system as a whole.
        Given::Changes if mount.is_read_only() => vec![&mount.options, times, "ro"],
        Given::Changes => vec![&mount.options, times],
        Given::All if says_times => vec!["rw", "relatime"],
        Given::All if mount.is_nodiratime() => vec!["rw", times, "nodiratime"],
        Given::All => vec!["rw", times],
    };
    [NO_FLAGS].into_iter().chain(flags).map(str::to_owned).collect()
}

/// Changes the mount at `dir`.
pub fn run(dir: &Path, given: &[String], as_given: Given, sloppy: bool) -> Outcome {
    let (mount, record) = unserved::server_at(dir)?;
    let dir = mount.dir.shown();
    let first = MountOptions::parse(&record.options, true)?;
    // What holds now: the options of the first day, then what remounts made of them, then what is asked.
    let mut words = MountOptions::known(&record.options);
    words.extend(flags(&mount, given, as_given));
    words.extend_from_slice(given);
    let wanted = MountOptions::parse(&words, sloppy)?;
    if let Some(name) = first.fixed_that_differs(&wanted) {
        return Err(Failure::Usage(format!(
            "mount option '{name}' cannot change while {dir} is mounted; unmount it and mount it again"
        )));
    }
    // The server first: what the kernel lets through must be taken.
    if !wanted.read_only {
        tell(&record, &Question::Write).map_err(|said| Failure::Other(format!("{dir}: {said}")))?;
    }
    // The kernel waits for it without a limit.
    control::alive(&record).map_err(|silent| Failure::Other(format!("{dir}: {silent}")))?;
    let config = wanted.mount(&record.pool, &mount.dir);
    if let Err(refused) = keepfs_fuse::remount(&mount.dir, &config) {
        // It closes the pool again that it has opened for writing.
        if let Err(said) = tell(&record, &Question::Follow) {
            warn_of!("keepfs: {dir}: {said}");
        }
        return Err(refused.into());
    }
    tell(&record, &Question::Follow).map_err(|said| Failure::Other(format!("{dir}: {said}")))?;
    Ok(0)
}

/// Lets the server do something; what it says if it could not.
fn tell(record: &Record, what: &Question) -> Result<(), String> {
    let told: Told = control::ask(record, what).map_err(|e| e.to_string())?;
    told.error.map_or(Ok(()), Err)
}
