//! Which servers there are: one small file each in `/run/keepfs`, beside the socket on which the server answers.

use crate::failure::Failure;
use crate::options::MountOptions;
use crate::visible::Shown;
use crate::{table, told_path};
use keepfs_media::mounts;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the files are. Only root mounts, so only root writes here.
pub const FOLDER: &str = "/run/keepfs";

/// A server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Its process; of a mount with a keeper, the keeper's: servers come and go.
    pub pid: u32,
    /// Whether there is a keeper.
    #[serde(default)]
    pub kept: bool,
    /// Its pool, an absolute path.
    #[serde(flatten, with = "told_path::pool")]
    pub pool: PathBuf,
    /// What its pool is by whatever name ([`mounts::identities`]).
    #[serde(default)]
    pub identities: Vec<String>,
    /// When those of them that are files were made ([`mounts::Named`]). A number of an inode is another file's when its own is gone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub births: BTreeMap<String, u64>,
    /// Where it is mounted.
    #[serde(flatten, with = "told_path::dir")]
    pub dir: PathBuf,
    /// Device number of the mount, `major:minor`.
    pub device: String,
    /// When its mounting began, nanoseconds since 1970, before anything of this mount is told (S-18.18): of two that claim the same mount the later one is right.
    pub since_ns: u64,
    /// The options it was mounted with, as they were given.
    #[serde(default)]
    pub options: Vec<String>,
}

impl Record {
    /// The socket of the server.
    pub fn socket(&self) -> PathBuf {
        socket_of(self.pid)
    }

    fn file(&self) -> PathBuf {
        file_of(self.pid)
    }

    /// What the server wrote to standard error: nothing, unless a guard or a panic ended it.
    pub fn last_words(&self) -> Option<String> {
        let words = fs::read(words_of(self.pid)).ok()?;
        let words = String::from_utf8_lossy(&words).trim().to_owned();
        (!words.is_empty()).then_some(words)
    }

    /// Writes the file. Errors: those of the file system.
    pub fn publish(&self) -> io::Result<()> {
        // The process's umask (077) keeps others out.
        fs::create_dir_all(FOLDER)?;
        // Complete or not there: somebody may be reading the folder.
        let part = part_of(self.pid);
        fs::write(&part, serde_json::to_vec(self)?)?;
        fs::rename(part, self.file())
    }

    /// The mount has another keeper from now on: its files change their names. Errors: those of the file system.
    pub fn moved_to(&self, pid: u32) -> io::Result<Record> {
        // Who looks meanwhile may find both, and takes the later one.
        let since_ns = self.since_ns + 1;
        let moved = Record {
            pid,
            since_ns,
            ..self.clone()
        };
        fs::hard_link(self.socket(), moved.socket())?;
        // Not there with a log of its own.
        let _ = fs::rename(words_of(self.pid), words_of(pid));
        moved.publish()?;
        fs::remove_file(self.file())?;
        fs::remove_file(self.socket())?;
        Ok(moved)
    }

    /// Takes file and socket away.
    pub fn withdraw(&self) {
        for file in files_of(self.pid) {
            if let Err(error) = fs::remove_file(&file)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(file = %file.shown(), %error, "cannot remove");
            }
        }
    }

    /// Whether nothing that goes by a pool's id is about this mount (`nouuid`, S-2.18).
    pub fn is_apart(&self) -> bool {
        MountOptions::parse(&self.options, true).is_ok_and(|options| options.nouuid)
    }

    /// Whether its pool is, or lies beneath, what has this name, in the same life of it as far as that is known.
    fn is_of(&self, named: &mounts::Named) -> bool {
        let is_other = |born: &u64| named.born_ns.is_some_and(|now| now != *born);
        self.identities.contains(&named.name) && !self.births.get(&named.name).is_some_and(is_other)
    }

    /// The path that its pool has today: it may have been moved since it was mounted. Whoever holds it open knows.
    pub fn pool_today(&self) -> PathBuf {
        let is_it = |path: &Path| named(path).iter().any(|named| self.is_of(named));
        if is_it(&self.pool) {
            return self.pool.clone();
        }
        let held = fs::read_dir(format!("/proc/{}/fd", self.pid))
            .into_iter()
            .flatten()
            .flatten();
        // One that was removed ends in a word that no file has.
        let mut paths = held.filter_map(|entry| fs::read_link(entry.path()).ok());
        let found = paths.find(|path| path.is_absolute() && path.is_file() && is_it(path));
        found.unwrap_or_else(|| self.pool.clone())
    }

    /// Whether the mount is in the table of mounts. Its device number alone proves nothing: it may be another's by now.
    pub fn is_mounted(&self) -> bool {
        table::mounts()
            .iter()
            .any(|mount| mount.is_keepfs() && mount.device == self.device && mount.dir == self.dir)
    }
}

/// Listens as the server of `pid`, of which nobody is told yet. The process's umask decides who may connect: it must be 077.
/// Errors: those of the file system.
pub fn listen(pid: u32) -> io::Result<UnixListener> {
    fs::create_dir_all(FOLDER)?;
    let socket = socket_of(pid);
    // A process of this number died here before us.
    let _ = fs::remove_file(&socket);
    UnixListener::bind(socket)
}

/// A file for the standard error of the servers of `pid` (see [`Record`]), and what the one before wrote there.
/// Errors: those of the file system.
pub fn words_file(pid: u32) -> io::Result<(File, String)> {
    fs::create_dir_all(FOLDER)?;
    let before = fs::read(words_of(pid)).unwrap_or_default();
    let before = String::from_utf8_lossy(&before).trim().to_owned();
    Ok((File::create(words_of(pid))?, before))
}

/// Takes the files of a keeper away that holds no mount any more.
pub fn forget(pid: u32) {
    for file in files_of(pid)
        .into_iter()
        .chain([wish_of(pid), turn_of(pid), part_of(pid)])
    {
        // Which of them there are depends on how far it came.
        let _ = fs::remove_file(file);
    }
}

/// The file of the events of the pool with this identity, for reading and appending. It is this mount's alone as long as it is
/// open: another pool that claims the same identity gets none. Errors: those of the file system; it is another mount's.
pub fn open_events(id: &str) -> io::Result<File> {
    fs::create_dir_all(FOLDER)?;
    let events = events_file(id);
    let file = File::options().read(true).append(true).create(true).open(events)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

/// Removes a file of events that is still open, if nothing was written.
pub fn remove_empty_events(file: &File) {
    if file.metadata().is_ok_and(|found| found.len() == 0) {
        remove_open(file, "events");
    }
}

/// Removes a file that is still open, if it is one of ours that ends so: what else is said to be one stays.
pub fn remove_open(file: &File, ending: &str) {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
    if path.parent() == Some(Path::new(FOLDER)) && path.extension().is_some_and(|end| end == ending) {
        // Somebody else may have cleaned up.
        let _ = fs::remove_file(path);
    }
}

/// What the keeper `pid` has published of its mount. Errors: those of the file system; it makes no sense.
pub fn of(pid: u32) -> io::Result<Record> {
    Ok(serde_json::from_slice(&fs::read(file_of(pid))?)?)
}

/// Nanoseconds since 1970.
pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Whether anybody listens, or did, as the server of `pid`.
pub fn is_heard(pid: u32) -> bool {
    socket_of(pid).exists()
}

/// `program` shall take the place of the server that the keeper `pid` has; its server only says when. Errors: those of the
/// file system.
pub fn wish(pid: u32, program: &Path) -> io::Result<()> {
    fs::write(wish_of(pid), program.as_os_str().as_bytes())
}

/// Whoever has this replaces the server of the keeper `pid`, alone, until it is dropped (S-16.29). Errors: `WouldBlock`: somebody else has it; those
/// of the file system.
pub fn turn_to_upgrade(pid: u32) -> io::Result<File> {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(turn_of(pid))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn turn_of(pid: u32) -> PathBuf {
    Path::new(FOLDER).join(format!("{pid}.turn"))
}

/// What was wished, once.
pub fn take_wish(pid: u32) -> Option<PathBuf> {
    let program = fs::read(wish_of(pid)).ok()?;
    fs::remove_file(wish_of(pid)).ok()?;
    Some(OsString::from_vec(program).into())
}

fn wish_of(pid: u32) -> PathBuf {
    Path::new(FOLDER).join(format!("{pid}.upgrade"))
}

/// Takes the file of a server away that never served.
pub fn forget_words(pid: u32) {
    // Not there with a log of its own.
    let _ = fs::remove_file(words_of(pid));
}

/// Where the events of the pool with this identity are kept.
pub fn events_file(id: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{id}.events"))
}

fn files_of(pid: u32) -> [PathBuf; 3] {
    [file_of(pid), socket_of(pid), words_of(pid)]
}

fn file_of(pid: u32) -> PathBuf {
    Path::new(FOLDER).join(format!("{pid}.json"))
}

fn part_of(pid: u32) -> PathBuf {
    Path::new(FOLDER).join(format!("{pid}.part"))
}

/// The processes that have files here and published nothing: they are about to, or were killed before.
pub fn unpublished() -> BTreeSet<u32> {
    let entries = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| Path::new(&entry.file_name()).file_stem()?.to_str()?.parse().ok();
    entries
        .filter_map(number)
        .filter(|pid| !file_of(*pid).exists())
        .collect()
}

/// Where the server of `pid` listens.
pub fn socket_of(pid: u32) -> PathBuf {
    Path::new(FOLDER).join(format!("{pid}.sock"))
}

fn words_of(pid: u32) -> PathBuf {
    Path::new(FOLDER).join(format!("{pid}.err"))
}

/// All servers that there are, or were when the machine or they died.
pub fn all() -> Vec<Record> {
    all_in(Path::new(FOLDER))
}

fn all_in(folder: &Path) -> Vec<Record> {
    let read = |path: &PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
    let mut files = files(folder);
    let mut records: Vec<Record> = files.iter().filter_map(read).collect();
    // While a mount moves to its next keeper one look may meet neither of its files.
    for _ in 0..LOOKS {
        let before = std::mem::replace(&mut files, self::files(folder));
        if files == before {
            break;
        }
        records = files.iter().filter_map(read).collect();
    }
    records.sort_by(|a, b| a.dir.cmp(&b.dir));
    records
}

/// Looks at a folder that never stays the same.
const LOOKS: u32 = 100;

fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let folder = fs::read_dir(folder).into_iter().flatten().flatten();
    folder
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect()
}

/// The server of the topmost mount at `dir`; the mount point is not touched, so a dead one does no harm.
/// Errors: nothing of Keepfs is mounted there.
pub fn at_dir(dir: &Path) -> Result<(table::Mount, Option<Record>), Failure> {
    let dir = settled(dir);
    let mount = match table::at(&dir) {
        Some(mount) if mount.is_keepfs() => mount,
        over => return Err(nothing_at(&dir, over)),
    };
    // An older server may have had the same number, and a bind mount is at another place than its server says.
    let record = all()
        .into_iter()
        .filter(|record| record.device == mount.device)
        .max_by_key(|record| (record.dir == mount.dir, record.since_ns));
    Ok((mount, record))
}

/// That nothing of Keepfs is met at `dir`, but `over`.
fn nothing_at(dir: &Path, over: Option<table::Mount>) -> Failure {
    let is_below = |mount: &table::Mount| mount.dir == dir && mount.is_keepfs();
    let covered = over.filter(|_| table::mounts().iter().any(is_below));
    let dir = dir.shown();
    Failure::Other(match covered {
        Some(over) => format!(
            "a {} is mounted over the pool at {dir}; `umount {dir}` takes that away, then try again",
            over.kind
        ),
        None => format!("no pool is mounted at {dir}"),
    })
}

/// The same for who may name the pool instead, as umount(8) takes it.
pub fn at_dir_or_of_pool(of: &Path) -> Result<(table::Mount, Option<Record>), Failure> {
    at_dir(of).or_else(|failure| match of_pool(of).into_iter().find(Record::is_mounted) {
        Some(record) => met(&record),
        None => Err(failure),
    })
}

/// The mount of `record` where it is met: at its place or, if something is mounted over that, wherever else it is.
/// Errors: it is met nowhere.
fn met(record: &Record) -> Result<(table::Mount, Option<Record>), Failure> {
    let is_met = |mount: &table::Mount| table::at(&mount.dir).is_some_and(|top| top.device == mount.device);
    let place = |mount: &table::Mount| (mount.dir != record.dir, mount.dir.clone());
    let mounts = table::all_of_device(&record.device).into_iter().filter(is_met);
    match (mounts.min_by_key(place), table::at(&record.dir)) {
        (Some(mount), _) => Ok((mount, Some(record.clone()))),
        (None, Some(over)) if over.is_keepfs() => {
            let dir = record.dir.shown();
            Err(Failure::Other(format!(
                "another pool ({}) is mounted over {} at {dir}; `keepfs unmount {dir}` takes that away, then try again",
                over.source.shown(),
                record.pool.shown()
            )))
        }
        (None, over) => Err(nothing_at(&record.dir, over)),
    }
}

/// The record that the mount of `record` has since another keeper took it over.
pub fn moved(record: &Record) -> Option<Record> {
    let is_later = |found: &Record| {
        (&found.device, &found.dir) == (&record.device, &record.dir) && found.since_ns > record.since_ns
    };
    all().into_iter().find(is_later)
}

/// The servers of a pool, by any name of it, the latest first: one whose mount is dead may be left beside the one that serves. Its
/// path alone counts only where there is nothing to look at: a pool that was removed may still be mounted, and another one may be
/// there by now.
pub fn of_pool(pool: &Path) -> Vec<Record> {
    let names = named(pool);
    let pool = settled(pool);
    let is_of = |record: &Record| match names.is_empty() || record.identities.is_empty() {
        true => record.pool == pool,
        false => names.iter().any(|named| record.is_of(named)),
    };
    let mut found: Vec<Record> = all().into_iter().filter(is_of).collect();
    found.sort_by_key(|record| Reverse(record.since_ns));
    found
}

/// See [`mounts::identities`]; none if it cannot be looked at.
pub fn identities(pool: &Path) -> Vec<String> {
    named(pool).into_iter().map(|named| named.name).collect()
}

/// See [`Record::births`].
pub fn births(pool: &Path) -> BTreeMap<String, u64> {
    let names = named(pool).into_iter();
    names.filter_map(|named| Some((named.name, named.born_ns?))).collect()
}

fn named(pool: &Path) -> Vec<mounts::Named> {
    mounts::identities(pool).unwrap_or_default()
}

/// An absolute path without links, as good as it can be had: the last part of a dead mount cannot be looked at.
pub fn settled(path: &Path) -> PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match (absolute.parent().map(Path::canonicalize), absolute.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => absolute,
    }
}

#[cfg(test)]
mod tests;
