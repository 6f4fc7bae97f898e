//! The verdicts: from what programs, trees, `check`, `damage list`, `events` and the image say, and from nothing else.

use super::memory::{Memory, PAGE, Region, with_memory};
use super::striker::Stray;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A violation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A tree, a repository or a database that is not what it must be, without EIO.
    Wrong,
    /// A program that failed with another error than those of damage.
    Unclear,
    /// An image that does not check.
    Unsound,
    /// All writing ended, and each stray was within the code's distance.
    Faulted,
    /// A stray that stayed and was not told.
    Untold,
    /// Bytes of a stray on the device.
    Written,
    /// A program or a command that did not end.
    Hung,
    /// A mount that its keeper lost, or that cannot be unmounted.
    Gone,
}

/// Whether a kind fails the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// One is a failure.
    Holds,
    /// Counted and told: each one is looked at.
    Told,
}

impl Kind {
    /// All, with their words and what a run makes of them today.
    pub const ALL: [(Kind, &'static str, Rule); 8] = [
        (Kind::Wrong, "wrong", Rule::Holds),
        (Kind::Unclear, "unclear", Rule::Told),
        (Kind::Unsound, "unsound", Rule::Holds),
        (Kind::Faulted, "faulted", Rule::Holds),
        (Kind::Untold, "untold", Rule::Holds),
        (Kind::Written, "written", Rule::Holds),
        (Kind::Hung, "hung", Rule::Holds),
        (Kind::Gone, "gone", Rule::Holds),
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        Kind::ALL.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// Whether one is a failure.
    pub fn holds(self) -> bool {
        Kind::ALL.iter().any(|row| row.0 == self && row.2 == Rule::Holds)
    }
}

/// Violations, with a sentence each.
pub type Violations = Vec<(Kind, String)>;

/// Events of a pool, gathered while they last: a pool forgets the oldest.
#[derive(Default)]
pub struct Told {
    events: BTreeMap<(u64, String), Value>,
}

impl Told {
    /// Takes in an answer of `events --json`.
    pub fn take(&mut self, answer: &Value) {
        for event in answer["history"].as_array().into_iter().flatten() {
            let number = event["number"].as_u64().unwrap_or(0);
            let text = event["text"].as_str().unwrap_or("").to_owned();
            self.events.insert((number, text), event.clone());
        }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.events.len()
    }

    /// Whether some were forgotten before anybody looked.
    pub fn has_gaps(&self) -> bool {
        let numbers: BTreeSet<u64> = self.events.keys().map(|(number, _)| *number).collect();
        numbers.first().is_some_and(|first| *first > 1)
            || numbers.iter().zip(numbers.iter().skip(1)).any(|(a, b)| b - a > 1)
    }

    /// When changes were first told as lost that programs were promised and that nobody had synced: a server died, and the
    /// redo that it left was damaged (S-16.5). What was made before may be missing since, as after a power cut.
    pub fn lost_at(&self) -> Option<i64> {
        let is_loss = |event: &&Value| {
            let text = event["text"].as_str().unwrap_or("");
            event["place"] == "redo" && text.contains("changes that were acknowledged and not synced are lost")
        };
        self.events
            .values()
            .filter(is_loss)
            .map(|event| event["time_s"].as_i64().unwrap_or(0))
            .min()
    }

    /// Whether a frame was told since.
    fn names(&self, frame: u64, since: i64) -> bool {
        self.events.values().any(|event| {
            event["place"] == "memory"
                && event["at"].as_u64() == Some(frame)
                && event["time_s"].as_i64().unwrap_or(0) >= since - 1
        })
    }

    /// The texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.events.keys().map(|(_, text)| text.as_str())
    }

    /// How often each deed was told.
    pub fn deeds(&self) -> BTreeMap<String, usize> {
        let mut deeds = BTreeMap::new();
        for event in self.events.values() {
            let word = |name: &str| event[name].as_str().unwrap_or("").to_owned();
            *deeds.entry(format!("{}: {}", word("place"), word("done"))).or_default() += 1;
        }
        deeds
    }
}

/// What became of a stray in a frame, behind a look at all of memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fate {
    /// An event names its frame.
    Told,
    /// Its bytes are others by now.
    Covered,
    /// Its frame holds no metablock.
    Nobodys,
    /// Its frame holds another metablock by now, with the same bytes there: zeros stand in many.
    Anothers,
    /// Its frame is known to be bad since before: nobody reads it.
    Fenced,
    /// So few bytes that the file system may have written them there itself.
    Few,
    /// Its server is gone, and its memory with it.
    Gone,
    /// None of these: a violation.
    Untold,
}

impl Fate {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Fate::Told => "told",
            Fate::Covered => "covered",
            Fate::Nobodys => "nobody's",
            Fate::Anothers => "another's",
            Fate::Fenced => "fenced",
            Fate::Few => "few bytes",
            Fate::Gone => "server gone",
            Fate::Untold => "untold",
        }
    }
}

/// What a look at one frame says, as `scrub start --arena --addresses` answers: metablocks in it, and bad ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Metablocks looked at: 0 or 1.
    pub pages: u64,
    /// Of them bad, and not mended by this look.
    pub bad: u64,
}

/// What became of each stray in a frame. Only those of at least `SURE` changed bytes can be untold. `look` asks for one frame;
/// who says of a frame that is in use that it holds nothing, or that it is right although a stray stands in it, is believed the
/// first and not the second.
pub fn fates(strays: &[Stray], memory: &Memory, told: &Told, look: &mut dyn FnMut(u64) -> Option<Seen>) -> Vec<Fate> {
    let fate = |stray: &Stray, look: &mut dyn FnMut(u64) -> Option<Seen>| {
        if stray.memory != memory.number() {
            return Fate::Gone;
        }
        let frame = stray.at / PAGE as u64;
        if told.names(frame, stray.second) {
            return Fate::Told;
        }
        let mut now = vec![0; stray.after.len()];
        let identity = memory.identity(frame);
        let stands = || memory.read(stray.region, stray.at, &mut now).is_ok() && now == stray.after;
        fate(
            stands,
            (stray.identity, identity),
            told.names(frame, 0),
            stray.changed(),
            || look(frame),
        )
    };
    let frames = strays.iter().filter(|stray| stray.region == Region::Arena);
    frames.map(|stray| fate(stray, look)).collect()
}

/// Changed bytes from which on a stray cannot be the file system's own work.
const SURE: usize = 4;

/// The fate of one that was not told; of which metablock its frame was then and is now; `known`: its frame was told before. What only this look finds, the look at all of memory
/// before it should have.
fn fate(
    stands: impl FnOnce() -> bool,
    (then, now): (u64, u64),
    known: bool,
    changed: usize,
    look: impl FnOnce() -> Option<Seen>,
) -> Fate {
    if !stands() {
        return Fate::Covered;
    }
    if now == 0 {
        return Fate::Nobodys;
    }
    if now != then {
        return Fate::Anothers;
    }
    match look() {
        Some(Seen { pages: 0, .. }) => Fate::Nobodys,
        Some(Seen { bad: 1.., .. }) if known => Fate::Fenced,
        _ if changed < SURE => Fate::Few,
        _ => Fate::Untold,
    }
}

/// Strays whose bytes the pool's image holds, the region of its history aside (S-18.5 keeps what was found).
pub fn written(strays: &[Stray], image: &Path) -> Result<Violations, String> {
    const SURE: usize = 8;
    let mut needles: HashMap<[u8; SURE], &Stray> = HashMap::new();
    for stray in strays.iter().filter(|stray| stray.region != Region::Requests) {
        // Bytes that are all others than before, and many enough that nobody has them by chance.
        let differs = |at: &usize| (0..SURE).all(|more| stray.before[at + more] != stray.after[at + more]);
        let varied = |at: &usize| stray.after[*at..at + SURE].iter().collect::<BTreeSet<_>>().len() > SURE / 2;
        let places = (0..(stray.after.len() + 1).saturating_sub(SURE))
            .filter(differs)
            .find(varied);
        if let Some(at) = places {
            needles.insert(stray.after[at..at + SURE].try_into().unwrap_or_default(), stray);
        }
    }
    let mut first = vec![false; 1 << 16];
    for needle in needles.keys() {
        first[usize::from(u16::from_le_bytes([needle[0], needle[1]]))] = true;
    }
    let file = File::open(image).map_err(|e| format!("{}: {e}", image.display()))?;
    let len = file.metadata().map_err(|e| e.to_string())?.len();
    let history = history(&file)?;
    let (mut found, mut page) = (BTreeMap::new(), [0; PAGE]);
    for (from, to) in with_memory(&file, len) {
        for at in (from..to)
            .step_by(PAGE)
            .filter(|at| !history.contains(&(at / PAGE as u64)))
        {
            file.read_exact_at(&mut page, at).map_err(|e| e.to_string())?;
            for place in 0..=PAGE - SURE {
                if !first[usize::from(u16::from_le_bytes([page[place], page[place + 1]]))] {
                    continue;
                }
                if let Some(stray) = needles.get(&page[place..place + SURE]) {
                    found.entry(stray.line()).or_insert((at / PAGE as u64, place));
                }
            }
        }
    }
    let line = |(stray, (page, place)): (String, (u64, usize))| {
        (Kind::Written, format!("page {page} of the pool, byte {place}: {stray}"))
    };
    Ok(found.into_iter().map(line).collect())
}

/// Pages of the history (S-2.7), by the superblock's first copy.
fn history(file: &File) -> Result<std::ops::Range<u64>, String> {
    let mut head = [0; PAGE];
    file.read_exact_at(&mut head, 0).map_err(|e| e.to_string())?;
    let start = u64::from_le_bytes(head[664..672].try_into().unwrap_or_default());
    let pages = u32::from_le_bytes(head[672..676].try_into().unwrap_or_default());
    Ok(start..start + u64::from(pages))
}

/// Whether all writing has ended, and why, by what `status --json` says.
pub fn faulted(status: &Value) -> Option<String> {
    let ended = status["state"] == "FAULTED" || status["mount"]["writing_ended"] == true;
    ended.then(|| status["errors"].to_string())
}

#[cfg(test)]
mod tests;
