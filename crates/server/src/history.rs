//! What a pool's history holds, as words (SPEC section 18): from its server if it is mounted, else from its device.

mod offline;

use crate::control::{self, Silent};
use crate::failure::Failure;
use crate::image::DeviceImage;
use crate::lingering;
use crate::question::Question;
use crate::registry::{self, Record};
use crate::unserved::Unserved;
use crate::visible::Shown;
use crate::waiting::patiently;
use keepfs_check::read::View;
use keepfs_check::{Image, Report, for_programs, from_programs, history as kept};
use keepfs_format::history::{Event, Lasting, REPAIR, is_lost as is_lost_by};
use keepfs_format::{MetaId, PAGE, Space, inode};
use keepfs_fs::{Named, Volume};
use offline::OnDevice;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Names of places by their number (S-18.5).
const PLACES: [&str; 11] = [
    "memory",
    "device",
    "data",
    "redo",
    "transaction",
    "log",
    "outside",
    "staged",
    "undo",
    "repair",
    "superblock",
];
/// Names of verdicts by their number (S-18.5).
const VERDICTS: [&str; 11] = [
    "bit flip",
    "stray write",
    "parity",
    "sum",
    "control words",
    "misdirected",
    "torn",
    "media",
    "logic bug",
    "checksum",
    "unknown",
];
/// Names of what was done, by their number (S-18.5).
const DEEDS: [&str; 12] = [
    "repaired by the code",
    "sums rebuilt",
    "rebuilt from the log",
    "read again",
    "other copy taken",
    "dropped",
    "taken back",
    "fenced",
    "writing ended",
    "nothing",
    "handed on",
    "given up",
];

/// The place of frames.
pub const MEMORY: u8 = 1;
/// The place of copies of metablocks on the device.
pub const DEVICE: u8 = 2;
/// Places of other memory: redo, what lies outside, staged pages, undo.
pub const BESIDE: [u8; 4] = [REDO, 7, 8, 9];
/// The place of redo.
pub const REDO: u8 = 4;
/// The place of the log.
pub const LOG: u8 = 6;
/// The place of superblocks.
pub const SUPERBLOCK: u8 = 11;
/// The other place of what stands twice was taken.
pub const OTHER_COPY: u8 = 5;
/// What was dropped, and is made anew.
pub const DROPPED: u8 = 6;
/// What needs it gets EIO, until it is written anew.
const FENCED: u8 = 8;
/// Reading it is an error.
const NOTHING: u8 = 10;
/// A verdict: nothing tells what it was.
pub const UNKNOWN: u8 = 11;

/// How long the tree is searched for files while somebody waits for an answer (S-18.15).
const SEARCHED: Duration = Duration::from_secs(1);

/// Whether what was done has made a frame right again.
pub fn is_mended(done: u8) -> bool {
    (1..=4).contains(&done)
}

fn name(names: &[&str], number: u8) -> String {
    let name = names.get(usize::from(number).wrapping_sub(1));
    name.map_or_else(|| format!("kind {number}"), |name| (*name).to_owned())
}

/// An event of the history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Noticed {
    /// Its number; of old events those stay longest that tell of a loss, so numbers may be missing.
    pub number: u64,
    /// Seconds since 1970.
    pub time_s: i64,
    /// Where it was noticed.
    pub place: String,
    /// What it was.
    pub verdict: String,
    /// What was done.
    pub done: String,
    /// The metablock or inode, 0 = none.
    pub id: u64,
    /// Frame, copy, page of the file, transaction, equation, group or address, as the place has it (S-18.5).
    #[serde(default)]
    pub at: u64,
    /// `id` in digits, for programs that round numbers above 2^53. `None`: the server is older than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_text: Option<String>,
    /// The same of `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_text: Option<String>,
    /// Page of the device, 0 = none.
    pub page: u64,
    /// First byte that was wrong.
    pub offset: u32,
    /// Bytes up to the last that was wrong.
    pub length: u32,
    /// Milliseconds since it was last seen to be right.
    pub window_ms: Option<u32>,
    /// What should stand there, hexadecimal, at most 64 bytes.
    pub old: String,
    /// What was found.
    pub new: String,
    /// All of it in a sentence.
    pub text: String,
    /// The files that it is about, as far as they are known (S-18.9).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Concerned>,
}

/// A file that an event is about.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Concerned {
    /// Its number.
    pub inode: u64,
    /// Its path; not there if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Its bytes, if they are no UTF-8 (S-18.10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// The path that it had, where it leads to it no more.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub was: String,
    /// Its bytes, if they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was_bytes: Option<String>,
}

impl Concerned {
    fn new(inode: u64, path: &[u8], is_there: bool) -> Concerned {
        let ((path, path_bytes), (was, was_bytes)) = now_or_once(path, is_there);
        Concerned {
            inode,
            path,
            path_bytes,
            was,
            was_bytes,
        }
    }

    /// Its path in text, empty if unknown.
    pub fn shown_path(&self) -> Cow<'_, str> {
        from_programs(&self.path, self.path_bytes.as_deref())
    }

    /// The path that it had, in text.
    pub fn shown_was(&self) -> Cow<'_, str> {
        from_programs(&self.was, self.was_bytes.as_deref())
    }
}

impl From<Named> for Concerned {
    fn from(named: Named) -> Concerned {
        Concerned::new(named.inode, &named.path, named.is_there)
    }
}

/// A path for programs.
type ForPrograms = (String, Option<String>);

/// A path that leads to its inode, and one that did; one of them is empty.
fn now_or_once(path: &[u8], is_there: bool) -> (ForPrograms, ForPrograms) {
    let path = for_programs(path);
    match is_there {
        true => (path, ForPrograms::default()),
        false => (ForPrograms::default(), path),
    }
}

/// A file in words: its path now, or the one that it had, as they are shown, and the number of its inode.
fn whose(inode: u64, path: &str, was: &str) -> String {
    match (path, was) {
        (_, "") => keepfs_check::whose(inode, path),
        (_, was) => format!("inode {inode}, which was {was}"),
    }
}

impl Noticed {
    /// What was noticed and to which files, for people.
    pub fn sentence(&self) -> String {
        let files = self.files.iter();
        let in_words = |file: &Concerned| whose(file.inode, &file.shown_path(), &file.shown_was());
        keepfs_check::about(files.map(in_words).collect(), &self.text)
    }

    /// Whether what was done leaves something lost.
    pub fn is_lost(&self) -> bool {
        (1..)
            .zip(DEEDS)
            .any(|(done, name)| is_lost_by(done) && name == self.done)
    }
}

impl Noticed {
    fn of(event: Event, files: Vec<Concerned>) -> Noticed {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Noticed {
            number: event.number,
            time_s: event.seconds,
            place: name(&PLACES, event.place),
            verdict: name(&VERDICTS, event.verdict),
            done: name(&DEEDS, event.done),
            id: event.id,
            at: event.at,
            id_text: Some(event.id.to_string()),
            at_text: Some(event.at.to_string()),
            page: event.page,
            offset: event.offset,
            length: event.length,
            window_ms: (event.window_ms != u32::MAX).then_some(event.window_ms),
            old: hex(&event.old),
            new: hex(&event.new),
            text: event.text,
            files,
        }
    }
}

/// An entry of the list of damages.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Damaged {
    /// Whose it is, 0 = of no single file.
    pub inode: u64,
    /// Its path, empty if unknown.
    pub path: String,
    /// Its bytes, if they are no UTF-8 (S-18.10).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// Its path when that was looked for last, where it leads to it no more; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub was: String,
    /// Its bytes, if they are no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was_bytes: Option<String>,
    /// Where: in memory, on the device, data.
    pub place: String,
    /// The metablock, if it is one.
    pub metablock: Option<String>,
    /// First byte of the file or metablock.
    pub from: u64,
    /// Bytes.
    pub length: u64,
    /// What it was.
    pub verdict: String,
    /// What was done the last time.
    pub done: String,
    /// Whether something is lost until it is written anew or restored.
    pub lost: bool,
    /// When it was met first, seconds since 1970.
    pub first_s: i64,
    /// And last.
    pub last_s: i64,
    /// How often.
    pub count: u32,
}

/// Whether changes are lost with redo or log, of which nobody can say to which files they were made.
pub fn is_lost_change(entry: &Lasting) -> bool {
    is_lost(entry) && entry.inode == 0 && [REDO, LOG].contains(&entry.place)
}

/// Whether a repair gave it up (S-21.11).
pub fn is_given_up(entry: &Lasting) -> bool {
    entry.place == REPAIR
}

/// Whether what was done leaves something lost.
pub fn is_lost(entry: &Lasting) -> bool {
    is_lost_by(entry.done)
}

impl Damaged {
    /// An entry in words. `is_there`: its path is that of its inode now (S-18.11).
    fn of(entry: Lasting, is_there: bool) -> Damaged {
        let (place, done, lost) = (name(&PLACES, entry.place), name(&DEEDS, entry.done), is_lost(&entry));
        let ((path, path_bytes), (was, was_bytes)) = now_or_once(&entry.path, is_there);
        Damaged {
            inode: entry.inode,
            path,
            path_bytes,
            was,
            was_bytes,
            place,
            metablock: (entry.id != 0).then(|| MetaId(entry.id).to_string()),
            from: entry.from,
            length: entry.length,
            verdict: name(&VERDICTS, entry.verdict),
            done,
            lost,
            first_s: entry.first,
            last_s: entry.last,
            count: entry.count,
        }
    }

    /// Whose it is, in words.
    pub fn whose(&self) -> String {
        if self.inode == 0 && self.path.is_empty() {
            return "the pool".to_owned();
        }
        let (path, was) = (
            from_programs(&self.path, self.path_bytes.as_deref()),
            from_programs(&self.was, self.was_bytes.as_deref()),
        );
        whose(self.inode, &path, &was)
    }
}

/// An entry for each inode whose it is.
fn owned(entry: Lasting, report: &Report) -> Vec<Lasting> {
    let id = MetaId(entry.id);
    let owners = if entry.is_nobodys() {
        report.owners_of(id)
    } else {
        Vec::new()
    };
    let own = |ino: u64| {
        let (from, length) = match id.space() {
            Some(Space::Inodes) => (inode::offset_of(ino) as u64, inode::SIZE as u64),
            _ => (0, PAGE as u64),
        };
        Lasting {
            inode: ino,
            from,
            length,
            ..entry.clone()
        }
    };
    match owners.is_empty() {
        true => vec![entry],
        false => owners.into_iter().map(own).collect(),
    }
}

/// Whether an entry is of metadata that is whole by now, after a repair or in another life of the pool (S-18.14).
fn is_healed(view: &mut View<'_>, entry: &Lasting) -> bool {
    // Pages of the map have no space.
    let id = MetaId(entry.id);
    let may_be = [FENCED, NOTHING].contains(&entry.done) && entry.id != 0 && id.space().is_some();
    may_be && view.metablock(id).is_ok()
}

/// The entries of a list that are of what is damaged still.
pub fn standing(view: &mut View<'_>, list: Vec<Lasting>) -> Vec<Lasting> {
    list.into_iter().filter(|entry| !is_healed(view, entry)).collect()
}

/// Events in words, with files for which the tree is searched no longer than `patience`.
pub fn in_words(volume: &Volume, events: Vec<Event>, patience: Duration) -> Vec<Noticed> {
    let files = volume.files_of(&events, patience);
    let words = events.into_iter().zip(files).map(|(event, files)| {
        let files = files.into_iter().map(Concerned::from).collect();
        Noticed::of(event, files)
    });
    words.collect()
}

/// What the server of a volume answers about its history and damage. `None`: the question is about something else.
pub fn answer(volume: &Volume, question: &Question) -> Option<Value> {
    let history = volume.store().history();
    match question {
        Question::History(after) => {
            // Nobody is told what could be forgotten (S-18.7).
            volume.store().keep_history();
            serde_json::to_value(in_words(volume, history.events(*after), SEARCHED)).ok()
        }
        Question::Damage => {
            volume.store().keep_history();
            volume.heal_damage();
            let list = volume.name_damage().into_iter();
            volume.store().keep_history();
            let list = list.map(|(entry, is_there)| Damaged::of(entry, is_there));
            serde_json::to_value(list.collect::<Vec<_>>()).ok()
        }
        Question::DamageClear => {
            volume.store().keep_history();
            let cleared = volume.store().take_note();
            volume.store().keep_history();
            Some(json!(cleared))
        }
        _ => None,
    }
}

/// What a server that serves nothing answers about history and damage: what is on the device.
pub fn answer_offline(image: &dyn Image, question: &Question) -> Option<Value> {
    let found = kept::of(image).ok()?;
    match question {
        Question::History(after) => {
            let events = found.events.into_iter().filter(|event| event.number > *after);
            let events = OnDevice::new(image).noticed(events.collect(), &found.damage);
            serde_json::to_value(events).ok()
        }
        Question::Damage => serde_json::to_value(OnDevice::new(image).damaged(found.damage)).ok(),
        _ => None,
    }
}

/// The server of a mount point or pool, if it has one. Errors: it is a mount point whose server is not to be found, or a directory
/// where no pool is mounted.
pub fn server_of(of: &Path) -> Result<Option<Record>, Failure> {
    match registry::at_dir(of) {
        Ok((_, Some(record))) => Ok(Some(record)),
        Ok((mount, None)) => Err(Unserved::at(&mount.dir).failure(&mount.dir)),
        Err(failure) => match lingering::server_of(of) {
            None if of.is_dir() => Err(failure),
            found => Ok(found),
        },
    }
}

/// The pool that is meant: of a directory the one that is mounted there. Errors: none is, or its server is not to be found.
pub fn pool_meant(of: &Path) -> Result<PathBuf, Failure> {
    // One that is not there was moved, perhaps, while it is mounted.
    let record = server_of(of)?.filter(|_| registry::at_dir(of).is_ok() || !of.exists());
    Ok(record.map_or_else(|| of.to_owned(), |record| record.pool_today()))
}

/// Asks a server. `None`: it is dead.
pub fn ask<T: DeserializeOwned>(record: &Record, question: &Question) -> Result<Option<T>, Failure> {
    let dir = record.dir.shown();
    let answer = match question {
        // It may wait for the device.
        Question::DamageClear => control::ask(record, question),
        _ => control::ask_soon(record, question),
    };
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(Silent::Dead) => Ok(None),
        Err(error) => Err(Failure::Other(format!("{dir}: {error}"))),
    }
}

/// The history on the device of a pool that nobody serves.
pub fn on_device(pool: &Path) -> Result<kept::History, Failure> {
    with_history(pool, |_, found| found)
}

/// The events on the device of a pool that nobody serves.
pub fn events_on_device(pool: &Path) -> Result<Vec<Noticed>, Failure> {
    with_history(pool, |image, found| {
        OnDevice::new(image).noticed(found.events, &found.damage)
    })
}

/// The list of damages on the device of a pool that nobody serves.
pub fn damage_on_device(pool: &Path) -> Result<Vec<Damaged>, Failure> {
    with_history(pool, |image, found| {
        let mut known = OnDevice::new(image);
        let standing = known.standing(found.damage);
        known.damaged(standing)
    })
}

fn with_history<T>(pool: &Path, of: impl FnOnce(&DeviceImage, kept::History) -> T) -> Result<T, Failure> {
    let image = patiently(pool, || DeviceImage::open(pool))?;
    let found = kept::of(&image).map_err(|source| Failure::Read {
        path: pool.to_owned(),
        source,
    })?;
    Ok(of(&image, found))
}

/// What a repair gives up, in words: its paths are those of before (S-21.11).
pub fn given_up(list: &[Lasting]) -> Vec<Damaged> {
    list.iter().map(|entry| Damaged::of(entry.clone(), true)).collect()
}

/// What the pool in an image knows to be lost (S-18.6); nothing, if it has no history that can be read. `report` tells whose metadata is
/// of which the history does not know that.
pub fn known_lost(image: &dyn Image, report: &Report) -> Vec<Damaged> {
    let damage = kept::of(image).map(|found| found.damage).unwrap_or_default();
    let mut known = OnDevice::new(image);
    let lost = damage.into_iter().filter(is_lost);
    let lost = lost.flat_map(|entry| owned(entry, report)).collect();
    let standing = known.standing(lost);
    known.damaged(standing)
}
