//! A mount that goes on though nothing is mounted where its server says: `umount -l` of one in use, a bind mount elsewhere,
//! another mount namespace. What names the pool finds it all the same.

use crate::failure::Failure;
use crate::figures::Status;
use crate::namespaces::Holder;
use crate::question::{Question, Whereabouts};
use crate::registry::{self, Record};
use crate::visible::Shown;
use crate::{control, table};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Where the kernel lets a connection be ended.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Such a mount.
pub struct Lingering {
    /// Its server.
    pub record: Record,
    /// Another place here where it is mounted.
    pub elsewhere: Option<PathBuf>,
    /// Its server sees it mounted, in its own mount namespace.
    is_mounted_there: bool,
    /// A process of another mount namespace that sees it mounted.
    holder: Option<Holder>,
}

/// The server of `pool`, if it goes on and the mount is not in the table here where it was made. One that closes the pool is none.
pub fn of_pool(pool: &Path) -> Option<Lingering> {
    registry::of_pool(pool).into_iter().find_map(of)
}

/// The same of one server.
pub fn of(record: Record) -> Option<Lingering> {
    if record.is_mounted() {
        return None;
    }
    let place: Whereabouts = control::ask_soon(&record, &Question::Where).ok()?;
    if !place.serves {
        return None;
    }
    // While it serves its number is nobody else's.
    let mounts = table::all_of_device(&record.device).into_iter();
    let elsewhere = mounts.filter(table::Mount::is_keepfs).map(|mount| mount.dir).next();
    let is_mounted_there = place.mounted;
    let is_seen = elsewhere.is_some() || is_mounted_there;
    Some(Lingering {
        holder: (!is_seen).then(|| Holder::of(&record.device)).flatten(),
        is_mounted_there,
        elsewhere,
        record,
    })
}

/// The server of `pool`, wherever it is mounted.
pub fn server_of(pool: &Path) -> Option<Record> {
    let mounted = registry::of_pool(pool).into_iter().find(Record::is_mounted);
    mounted.or_else(|| of_pool(pool).map(|lingering| lingering.record))
}

impl Lingering {
    /// How it is mounted.
    pub fn what(&self) -> String {
        let dir = self.record.dir.shown();
        match (&self.elsewhere, self.is_mounted_there, &self.holder) {
            (Some(elsewhere), ..) => format!("unmounted from {dir}, and mounted still at {}", elsewhere.shown()),
            (None, true, _) => format!("mounted at {dir} in another mount namespace"),
            (None, false, Some(holder)) => format!("unmounted from {dir}, and mounted still {holder}"),
            (None, false, None) => {
                format!("unmounted from {dir} while it was in use (`umount -l`), and served until its last user ends")
            }
        }
    }

    /// What ends it.
    pub fn action(&self) -> String {
        let (dir, pool) = (self.record.dir.shown(), self.record.pool.shown());
        match (&self.elsewhere, self.is_mounted_there, &self.holder) {
            (Some(elsewhere), ..) => format!("keepfs unmount {} ends it", elsewhere.shown()),
            (None, true, _) => format!("nsenter -t {} -m keepfs unmount {dir} ends it", self.record.pid),
            (None, false, Some(holder)) => holder.action(),
            (None, false, None) => {
                format!("end the programs that use it, or keepfs unmount -f {pool} (they get errors)")
            }
        }
    }

    /// Where it is, in a status; that it is nowhere, if nothing worse is known.
    pub fn tell(&self, status: &mut Status) {
        match &self.elsewhere {
            Some(elsewhere) => status.dir = Some(elsewhere.clone()),
            None if self.is_mounted_there || status.status.is_some() => {}
            None => {
                let state = status.state.clone();
                status.say(&state, &self.what(), &self.action());
            }
        }
    }

    /// Ends its connection: who uses it gets errors, and its server closes the pool. Errors: the kernel offers it not here.
    pub fn abort(&self) -> Result<(), Failure> {
        let number = connection(&self.record.device);
        let file = number.map(|number| Path::new(CONNECTIONS).join(format!("{number}/abort")));
        let done = file
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
            .and_then(|file| fs::write(file, "1"));
        done.map_err(|error| {
            Failure::Other(format!(
                "{}: {}, and its connection cannot be ended ({CONNECTIONS}: {error}); `mount -t fusectl none {CONNECTIONS}`, then try again",
                self.record.pool.shown(),
                self.what()
            ))
        })
    }
}

/// What the kernel calls the connection of the mount with this device number, `major:minor`.
fn connection(device: &str) -> Option<u64> {
    let (major, minor) = device.split_once(':')?;
    Some(major.parse::<u64>().ok()? << 20 | minor.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    /// The kernel's own numbers of devices: 12 bits and 20.
    #[test]
    fn connections_are_called_by_the_device() {
        assert_eq!(super::connection("0:52"), Some(52));
        assert_eq!(super::connection("7:3"), Some((7 << 20) + 3));
        assert_eq!(super::connection("x"), None);
    }
}
