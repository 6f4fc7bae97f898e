//! What a pool's history holds, as words (SPEC section 18): from its server if it is mounted, else from its device.

use super::control::{self, Silent};
use super::failure::Failure;
use super::image::DeviceImage;
use super::registry::{self, Record};
use super::unmount::patiently;
use super::unserved::Unserved;
use keepfs_audit::read::View;
use keepfs_audit::{Image, history as offline};
use keepfs_format::MetaId;
use keepfs_format::history::{Event, Lasting, REPAIR, is_lost as is_lost_by};
use keepfs_fs::Volume;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::Path;

/// Names of places by their number (S-18.5).
const PLACES: [&str; 10] = [
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
/// Places of other memory: redo, what lies outside, staged pages, undo.
pub const BESIDE: [u8; 4] = [REDO, 7, 8, 9];
/// The place of redo.
pub const REDO: u8 = 4;
/// The place of the log.
pub const LOG: u8 = 6;
/// The other place of what stands twice was taken.
pub const OTHER_COPY: u8 = 5;
/// What was dropped, and is made anew.
pub const DROPPED: u8 = 6;
/// A verdict: nothing tells what it was.
pub const UNKNOWN: u8 = 11;

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
    /// Its number; a pool's events are numbered without gaps.
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
}

impl Noticed {
    /// Whether what was done leaves something lost.
    pub fn is_lost(&self) -> bool {
        (1..)
            .zip(DEEDS)
            .any(|(done, name)| is_lost_by(done) && name == self.done)
    }
}

impl From<Event> for Noticed {
    fn from(event: Event) -> Noticed {
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
    /// Its path when that was looked for last, where it leads to it no more; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub was: String,
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
    /// An entry in words. `is_there`: its path is that of its inode now (S-18.6).
    fn of(entry: Lasting, is_there: bool) -> Damaged {
        let (place, done, lost) = (name(&PLACES, entry.place), name(&DEEDS, entry.done), is_lost(&entry));
        let (path, was) = match is_there {
            true => (entry.path, String::new()),
            false => (String::new(), entry.path),
        };
        Damaged {
            inode: entry.inode,
            path,
            was,
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
}

/// Entries in words, of a pool in an image. Who has moved a file since its path was looked for is not asked: that path is believed
/// if it leads to the file.
fn of_image(image: &dyn Image, list: impl IntoIterator<Item = Lasting>) -> Vec<Damaged> {
    let mut view = None;
    let mut leads_to = |path: &str, ino| {
        let view = view.get_or_insert_with(|| View::open(image).ok()).as_mut();
        view.is_some_and(|view| view.resolve(path.as_bytes()).ok() == Some(ino))
    };
    let words = list.into_iter().map(|entry| {
        let is_there = entry.path.is_empty() || entry.is_of_gone() || leads_to(&entry.path, entry.inode);
        Damaged::of(entry, is_there)
    });
    words.collect()
}

/// What the server of a volume answers to `history N`, `damage` and `damage clear`.
pub fn answer(volume: &Volume, question: &str) -> Option<Value> {
    let history = volume.store().history();
    // Nobody is told what could be forgotten (S-18.7).
    volume.store().keep_history();
    if let Some(after) = question.strip_prefix("history ") {
        let events = history.events(after.parse().ok()?);
        return serde_json::to_value(events.into_iter().map(Noticed::from).collect::<Vec<_>>()).ok();
    }
    match question {
        "damage" => {
            volume.heal_damage();
            let named = volume.name_damage();
            volume.store().keep_history();
            let list = history.damage().into_iter().map(|entry| {
                let is_there = entry.is_of_gone() || named.contains(&entry.inode);
                Damaged::of(entry, is_there)
            });
            serde_json::to_value(list.collect::<Vec<_>>()).ok()
        }
        "damage clear" => {
            let cleared = volume.store().take_note();
            volume.store().keep_history();
            Some(json!(cleared))
        }
        _ => None,
    }
}

/// What a server that serves nothing answers to `history N` and `damage`: what is on the device.
pub fn answer_offline(image: &dyn Image, question: &str) -> Option<Value> {
    let found = offline::of(image).ok()?;
    let after: Option<u64> = question.strip_prefix("history ").and_then(|after| after.parse().ok());
    match (question, after) {
        (_, Some(after)) => {
            let events = found.events.into_iter().filter(|event| event.number > after);
            serde_json::to_value(events.map(Noticed::from).collect::<Vec<_>>()).ok()
        }
        ("damage", None) => serde_json::to_value(of_image(image, found.damage)).ok(),
        _ => None,
    }
}

/// The server of a mount point or pool, if it has one. Errors: it is a mount point whose server is not to be found.
pub fn server_of(of: &Path) -> Result<Option<Record>, Failure> {
    match registry::at_dir(of) {
        Ok((_, Some(record))) => Ok(Some(record)),
        Ok((mount, None)) => Err(Unserved::at(&mount.dir).failure(&mount.dir)),
        Err(_) => Ok(registry::of_pool(of).into_iter().find(Record::is_mounted)),
    }
}

/// Asks a server. `None`: it is dead.
pub fn ask<T: DeserializeOwned>(record: &Record, question: &str) -> Result<Option<T>, Failure> {
    let dir = record.dir.display();
    let answer = match question {
        // It may wait for the device.
        "damage clear" => control::ask(record, question),
        _ => control::ask_soon(record, question),
    };
    match answer {
        Ok(answer) if answer["error"].is_string() => {
            let why = answer["error"].as_str().unwrap_or_default();
            Err(Failure::Other(format!("{dir}: {why}")))
        }
        Ok(answer) => serde_json::from_value(answer)
            .map(Some)
            .map_err(|e| Failure::Other(format!("{dir}: its server is of another version ({e})"))),
        Err(Silent::Dead) => Ok(None),
        Err(error) => Err(Failure::Other(format!("{dir}: {error}"))),
    }
}

/// The history on the device of a pool that nobody serves.
pub fn on_device(pool: &Path) -> Result<offline::History, Failure> {
    with_history(pool, |_, found| found)
}

/// The list of damages on the device of a pool that nobody serves.
pub fn damage_on_device(pool: &Path) -> Result<Vec<Damaged>, Failure> {
    with_history(pool, |image, found| of_image(image, found.damage))
}

fn with_history<T>(pool: &Path, of: impl FnOnce(&DeviceImage, offline::History) -> T) -> Result<T, Failure> {
    let image = patiently(pool, || DeviceImage::open(pool))?;
    let found = offline::of(&image).map_err(|source| Failure::Read {
        path: pool.to_owned(),
        source,
    })?;
    Ok(of(&image, found))
}

/// What the pool in an image knows to be lost (S-18.6); nothing, if it has no history that can be read.
pub fn known_lost(image: &dyn Image) -> Vec<Damaged> {
    let damage = offline::of(image).map(|found| found.damage).unwrap_or_default();
    of_image(image, damage.into_iter().filter(is_lost))
}
