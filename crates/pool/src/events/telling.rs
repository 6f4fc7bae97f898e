//! Where everything that was noticed is told: the log of the server, the last damages, and the history (S-15.15, S-18.5).

use super::{Damage, Damages, Done, Events, KEPT, SHOWN, Seen};
use crate::error::{BadData, Error, Unbalanced};
use core::ops::Range;
use keepfs_codes::identity::Group;
use keepfs_format::history::{Event, Lasting};
use keepfs_format::oplog::Operation;
use keepfs_format::{FromBytes, Header, MetaId, PAGE, Space, inode};
use keepfs_vault::undo::UndoSlot;
use std::time::{SystemTime, UNIX_EPOCH};

/// Most operations of a transaction that an event names.
const OPERATIONS_TOLD: usize = 4;

/// Where it was noticed (S-18.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// A frame.
    Frame(MetaId, u32),
    /// A copy of a metablock on the device.
    Copy {
        /// The metablock.
        id: MetaId,
        /// The first or the second.
        copy: u8,
        /// Page of the device.
        page: u64,
    },
    /// A page of a file.
    Data {
        /// The file.
        ino: u64,
        /// Page of the file.
        index: u64,
        /// Page of the device.
        page: u64,
    },
    /// The redo of a transaction.
    Redo(u64),
    /// What is lost of redo or log behind transaction `last`.
    Lost {
        /// The last one that is there.
        last: u64,
        /// How many are not, at least.
        transactions: u64,
    },
    /// A transaction.
    Transaction {
        /// The inode that its first operation is about, or the metablock that it would have changed; 0: unknown.
        id: u64,
        /// The first equation that did not hold, 0: none.
        equation: u64,
    },
    /// A group of the log.
    Log {
        /// Its number.
        group: u64,
        /// Page of the device, 0: none alone.
        page: u64,
    },
    /// The group at which the log was cut (S-9.7).
    Cut {
        /// Its number.
        group: u64,
        /// What was synced is lost; else it may be.
        proved: bool,
        /// The carried group is lost, too (S-9.17).
        carried: bool,
    },
    /// Memory outside the frames.
    Outside(u64),
    /// A page of a file that is staged.
    Staged {
        /// The file.
        ino: u64,
        /// Page of the file.
        index: u64,
    },
    /// The page of the device under a page of a file that is staged, which is lost with it.
    Base {
        /// The file.
        ino: u64,
        /// Page of the file.
        index: u64,
        /// Page of the device.
        page: u64,
    },
    /// An undo slot.
    Undo(u64),
    /// A superblock on the device.
    Superblock {
        /// Its slot.
        slot: usize,
        /// Page of the device.
        page: u64,
    },
}

impl Place {
    /// Number of the place, id, at, page.
    fn fields(self) -> (u8, u64, u64, u64) {
        match self {
            Place::Frame(id, frame) => (1, id.0, frame.into(), 0),
            Place::Copy { id, copy, page } => (2, id.0, copy.into(), page),
            Place::Data { ino, index, page } | Place::Base { ino, index, page } => (3, ino, index, page),
            Place::Redo(seq) | Place::Lost { last: seq, .. } => (4, 0, seq, 0),
            Place::Transaction { id, equation } => (5, id, equation, 0),
            Place::Log { group, page } => (6, 0, group, page),
            Place::Cut { group, .. } => (6, 0, group, 0),
            Place::Outside(address) => (7, 0, address, 0),
            Place::Staged { ino, index } => (8, ino, index, 0),
            Place::Undo(slot) => (9, 0, slot, 0),
            Place::Superblock { slot, page } => (11, 0, slot as u64, page),
        }
    }

    /// The number of the place in the list of damages.
    fn number(self) -> u8 {
        match self {
            // What is damaged is what was staged.
            Place::Base { ino, index, .. } => Place::Staged { ino, index }.number(),
            other => other.fields().0,
        }
    }

    /// Inode, metablock, first byte and length of what is damaged, if it is something that lasts.
    fn lasting(self, owner: u64) -> Option<Spot> {
        match self {
            Place::Frame(id, _) | Place::Copy { id, .. } => Some((owner, id.0, 0, PAGE as u64)),
            Place::Data { ino, index, .. } | Place::Base { ino, index, .. } | Place::Staged { ino, index } => {
                Some((ino, 0, index.saturating_mul(PAGE as u64), PAGE as u64))
            }
            Place::Lost { last, transactions } => Some((0, 0, last, transactions)),
            Place::Cut { group, proved, carried } => {
                Some((0, 0, group, u64::from(proved) + u64::from(proved && carried)))
            }
            _ => None,
        }
    }
}

/// Inode, metablock, first byte and length.
type Spot = (u64, u64, u64, u64);

/// Something to tell.
pub struct Told<'t> {
    /// Where.
    pub place: Place,
    /// What.
    pub seen: &'t Seen,
    /// What was done.
    pub done: Done,
    /// Whose it is, 0 = of no single file.
    pub owner: u64,
    /// Of a metablock of inodes: all those that it is about; none: those whose bytes are wrong.
    pub inodes: &'t [u64],
    /// Milliseconds since it was right.
    pub window_ms: Option<u32>,
    /// More words.
    pub more: String,
}

impl Told<'_> {
    fn event(&self, (seconds, nanoseconds): (i64, u32)) -> Event {
        let (place, id, at, page) = self.place.fields();
        let (range, old, new) = shown(self.seen);
        let more = if self.more.is_empty() { "" } else { "; " };
        // Of the memory of a server that died; the device has nothing of it.
        let deed = match (self.place, self.done) {
            (Place::Outside(0), Done::OtherCopy) => "the other place is right and was used".into(),
            (Place::Outside(0), Done::Dropped) => "not used".into(),
            (Place::Lost { .. } | Place::Cut { .. }, Done::Nothing) => "not repaired".into(),
            (_, done) => done.to_string(),
        };
        let window = self
            .window_ms
            .map_or_else(String::new, |ms| format!(", right {ms} ms before"));
        Event {
            number: 0,
            seconds,
            nanoseconds,
            place,
            verdict: self.seen.number(),
            done: self.done as u8,
            id,
            at,
            page,
            offset: range.start as u32,
            length: range.len() as u32,
            window_ms: self.window_ms.unwrap_or(u32::MAX),
            old,
            new,
            text: format!(
                "{}: {}{window}; {deed}{more}{}",
                Where(self.place),
                self.seen,
                self.more
            ),
        }
    }
}

impl Told<'_> {
    /// What is damaged, if it is something that lasts: of a metablock of inodes each of these by itself (S-18.6).
    fn lasting(&self) -> Vec<Spot> {
        // Nothing of it outlives this process.
        if self.done == Done::HandedOn {
            return Vec::new();
        }
        let Some(whole) = self.place.lasting(self.owner) else {
            return Vec::new();
        };
        let id = MetaId(whole.1);
        if id.space() != Some(Space::Inodes) {
            return vec![whole];
        }
        let slot = |ino: u64| (ino, id.0, inode::offset_of(ino) as u64, inode::SIZE as u64);
        let mut slots: Vec<Spot> = match self.inodes {
            [] => slots_hit(id, self.seen).into_iter().map(slot).collect(),
            inodes => inodes.iter().copied().map(slot).collect(),
        };
        if slots.is_empty() {
            slots.push(whole);
        }
        slots
    }
}

/// The inodes of metablock `id` whose bytes are wrong; none if it is not known, or if other bytes are wrong, too.
fn slots_hit(id: MetaId, seen: &Seen) -> Vec<u64> {
    let bytes: Vec<usize> = match seen {
        Seen::Flips(flips) => flips.iter().map(|(at, _)| *at).collect(),
        Seen::StrayWrite { offset, new, .. } => (*offset..*offset + new.len()).collect(),
        _ => Vec::new(),
    };
    let slots = inode::offset_of(0)..inode::offset_of(0) + inode::PER_BLOCK as usize * inode::SIZE;
    if !bytes.iter().all(|at| slots.contains(at)) {
        return Vec::new();
    }
    let mut hit: Vec<u64> = bytes
        .into_iter()
        .map(|at| inode::at(id, at))
        .filter(|ino| *ino != 0)
        .collect();
    hit.dedup();
    hit
}

/// Range that is wrong, the first bytes that should stand there, and those found.
fn shown(seen: &Seen) -> (Range<usize>, Vec<u8>, Vec<u8>) {
    match seen {
        Seen::Flips(flips) => {
            let start = flips.iter().map(|(at, _)| *at).min().unwrap_or(0);
            let end = flips.iter().map(|(at, _)| *at + 1).max().unwrap_or(0);
            (start..end, Vec::new(), Vec::new())
        }
        Seen::StrayWrite { offset, old, new, .. } => {
            let first = |bytes: &Vec<u8>| bytes.iter().take(SHOWN).copied().collect();
            (*offset..*offset + new.len(), first(old), first(new))
        }
        _ => (0..0, Vec::new(), Vec::new()),
    }
}

/// A place in words.
struct Where(Place);

impl core::fmt::Display for Where {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Place::Frame(id, frame) => write!(f, "{id} in memory (frame {frame})"),
            Place::Copy { id, copy, page } => write!(f, "copy {copy} of {id} on the device (page {page})"),
            Place::Data { ino, index, page } | Place::Base { ino, index, page } => {
                write!(f, "page {index} of inode {ino} (page {page} of the device)")
            }
            Place::Redo(seq) => write!(f, "redo of transaction {seq} in memory"),
            Place::Lost { last, .. } => write!(f, "transactions behind {last}"),
            Place::Transaction { .. } => f.write_str("a transaction"),
            Place::Log { group, .. } | Place::Cut { group, .. } => write!(f, "log group {group}"),
            Place::Outside(address) => write!(f, "memory at {address:#x}"),
            Place::Staged { ino, index } => write!(f, "page {index} of inode {ino}, staged in memory"),
            Place::Undo(slot) => write!(f, "undo slot {slot} in memory"),
            Place::Superblock { slot, page } => write!(f, "superblock slot {slot} (page {page} of the device)"),
        }
    }
}

fn now() -> (i64, u32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}

/// An entry of the list of damages, met once at a time: place, verdict and deed; what is damaged; seconds since 1970 and nanoseconds.
fn entry((place, verdict, done): (u8, u8, u8), (inode, id, from, length): Spot, time: (i64, u32)) -> Lasting {
    let (last, last_part) = Lasting::time(time);
    Lasting {
        place,
        verdict,
        done,
        inode,
        id,
        from,
        length,
        first: last,
        last,
        last_part,
        count: 1,
        path: Vec::new(),
    }
}

/// Whose metablock it is, by its id and its right bytes, if they are known; 0 if it is nobody's alone, or nobody knows.
pub fn owner_of(id: MetaId, right: Option<&[u8; PAGE]>) -> u64 {
    let header = right.and_then(|right| Header::read_from_prefix(&right[..]).ok());
    match (id.space(), header) {
        (Some(Space::Nodes), Some((header, _))) if header.id.get() == id.0 => header.owner.get(),
        _ => 0,
    }
}

impl Events {
    /// Tells one thing, at every place.
    pub fn tell_of(&self, told: &Told<'_>) {
        let time = now();
        let event = told.event(time);
        let fields = (told.place.number(), event.verdict, event.done);
        let lasting: Vec<Lasting> = told
            .lasting()
            .into_iter()
            .map(|spot| entry(fields, spot, time))
            .collect();
        if self.history.is_told(&event, &lasting) {
            return;
        }
        match told.done {
            Done::Ended | Done::Fenced | Done::Nothing | Done::HandedOn => tracing::error!("{}", event.text),
            _ => tracing::warn!("{}", event.text),
        }
        self.history.tell(event, lasting);
    }

    /// Tells a damage of a frame: as an event, and in [`Events::damages`].
    pub fn tell(&self, damage: &Damage, done: Done) {
        self.tell_with(damage, done, String::new(), &[]);
    }

    /// The same with more words, and with the inodes that it is about.
    pub fn tell_with(&self, damage: &Damage, done: Done, more: String, inodes: &[u64]) {
        self.tell_of(&Told {
            place: Place::Frame(damage.id, damage.frame),
            seen: &damage.seen,
            done,
            owner: damage.owner,
            inodes,
            window_ms: damage.window_ms,
            more,
        });
        self.damages.push(damage.clone(), done);
    }

    /// A transaction was found to be wrong by itself.
    #[cold]
    pub fn tell_logic(&self, (id, equation): (u64, u64), done: Done, what: String) {
        self.tell_of(&Told {
            place: Place::Transaction { id, equation },
            seen: &Seen::Logic,
            done,
            owner: 0,
            inodes: &[],
            window_ms: None,
            more: what,
        });
    }

    /// A transaction that did these operations did not balance and was rolled back.
    pub fn tell_unbalanced(&self, unbalanced: &Unbalanced, operations: &[u8]) {
        let mut rest = operations;
        let decoded = core::iter::from_fn(|| {
            let (operation, behind) = Operation::decode(rest)?;
            rest = behind;
            Some(operation)
        });
        let first: Vec<Operation<'_>> = decoded.take(OPERATIONS_TOLD).collect();
        let words: Vec<String> = first
            .iter()
            .map(|o| format!("{} of inode {}", o.action.name(), o.object))
            .collect();
        let words = if words.is_empty() {
            "unknown".into()
        } else {
            words.join(", ")
        };
        let inode = first.first().map_or(0, |operation| operation.object);
        let equation = unbalanced.imbalances().first().map_or(0, |found| found.equation as u64);
        self.tell_logic(
            (inode, equation),
            Done::RolledBack,
            format!("operations: {words}; {unbalanced}"),
        );
    }

    /// Undo records of an open transaction do not read back (S-13.10).
    #[cold]
    pub fn tell_undo(&self, undo: &UndoSlot<'_>, done: Done, owner: u64, what: String) {
        self.tell_of(&Told {
            place: Place::Undo(undo.place().0.into()),
            seen: &Seen::Checksum,
            done,
            owner,
            inodes: &[],
            window_ms: None,
            more: what,
        });
    }

    /// A change of metablock `id` by callers that it does not belong to was refused; the error of its transaction.
    #[cold]
    pub fn tell_foreign(&self, id: MetaId, caller: Group, own: Group) -> Error {
        let what = format!("a change of {id}, which {own:?} callers change, by {caller:?} callers (S-15.5)");
        self.tell_logic((id.0, 0), Done::RolledBack, what.clone());
        Error::Logic(what)
    }

    /// A page of file data is bad.
    pub fn tell_bad_data(&self, ino: u64, index: u64, page: u64, bad: BadData) {
        self.tell_of(&Told {
            place: Place::Data { ino, index, page },
            seen: &seen(bad),
            done: Done::Nothing,
            owner: ino,
            inodes: &[],
            window_ms: None,
            more: String::new(),
        });
    }

    /// A staged page is lost: memory does not have it as it was staged, or the device page under it is bad (S-14.6).
    pub fn tell_lost_staged(&self, ino: u64, index: u64, base: Option<(u64, BadData)>) {
        let (place, seen) = match base {
            None => (Place::Staged { ino, index }, Seen::Checksum),
            Some((page, bad)) => (Place::Base { ino, index, page }, seen(bad)),
        };
        self.lost_staged();
        self.tell_of(&Told {
            place,
            seen: &seen,
            done: Done::Nothing,
            owner: ino,
            inodes: &[],
            window_ms: None,
            more: "what was written to it since its last write-out is lost with it".to_owned(),
        });
    }

    /// A page of file data that was told to be bad was met again.
    pub fn met_bad_data_again(&self, ino: u64, index: u64, page: u64) {
        self.met_again(ino, Place::Data { ino, index, page });
    }

    /// The same for a staged page that is known to be lost.
    pub fn met_lost_again(&self, ino: u64, index: u64) {
        self.met_again(ino, Place::Staged { ino, index });
    }

    fn met_again(&self, ino: u64, place: Place) {
        if let Some(spot) = place.lasting(ino) {
            let fields = (place.fields().0, 0, Done::Nothing as u8);
            self.history.again(&entry(fields, spot, now()));
        }
    }

    /// A watched value in the heap is not what was set (S-13.9).
    #[cold]
    pub fn tell_heap(&self, address: usize, done: Done, what: &str) {
        self.tell_of(&Told {
            place: Place::Outside(address as u64),
            seen: &Seen::Checksum,
            done,
            owner: 0,
            inodes: &[],
            window_ms: None,
            more: what.to_owned(),
        });
    }

    /// A store into guarded memory was stopped by its guard.
    pub fn tell_guard_fault(&self, address: u64, report: &str) {
        self.tell_of(&Told {
            place: Place::Outside(address),
            seen: &Seen::Unknown,
            done: Done::RolledBack,
            owner: 0,
            inodes: &[],
            window_ms: None,
            more: report.to_owned(),
        });
    }
}

/// What one sees of data that is bad.
fn seen(bad: BadData) -> Seen {
    match bad {
        BadData::Unreadable => Seen::Medium,
        BadData::Checksum => Seen::Checksum,
    }
}

impl Damages {
    fn push(&self, damage: Damage, done: Done) {
        let mut kept = self.0.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back((damage, done));
    }

    /// They, oldest first.
    pub fn all(&self) -> Vec<(Damage, Done)> {
        self.0.lock().iter().cloned().collect()
    }
}
