//! What the memory of a dead server tells about its death: its arena, rolled back and looked at frame by frame (S-16.4).

use super::Resumed;
use crate::Store;
use crate::remains::REQUESTS;
use core::fmt;
use keepfs_flash::adopted::Adopted;
use keepfs_flash::staged::Table;
use keepfs_format::{MetaId, PAGE};
use keepfs_pool::events::{Damage, Done, Place, Seen, Told};
use keepfs_vault::arena::{Arena, FrameNo};
use keepfs_vault::restart::{self, Finding};
use keepfs_vault::undo::{State, UndoLog};
use std::collections::BTreeSet;

/// Something that was wrong in the memory of a dead server. Nothing of it was used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// A memory file is missing, or none of a server of this version: its name, and what is wrong.
    Memory(&'static str, String),
    /// What stands twice in a memory file is not right at one of its places, or, if not this, at both: file, what (S-14.10).
    Twice(&'static str, &'static str, bool),
    /// A rollback found it.
    Rollback(Finding),
    /// A frame's bytes are not what its sum says. Addresses count from the beginning of the arena's memory.
    Frame(Damage),
    /// A staged page (inode, index) was not what log and redo say, or could not be read.
    Staged(Option<(u64, u64)>),
    /// A request's slot is damaged: its request is executed again.
    Request(usize),
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Evidence::Memory(name, what) => write!(f, "{name}: {what}"),
            Evidence::Twice(name, what, is_known) => {
                let places = if *is_known {
                    "one of its two places"
                } else {
                    "both of its places"
                };
                write!(f, "{name}: its {what} is not right at {places}")
            }
            Evidence::Rollback(Finding::Inside { frame, offset, len }) => {
                write!(f, "frame {frame}: {len} bytes at {offset}, inside an open change")
            }
            Evidence::Rollback(Finding::Frame {
                frame, found, expected, ..
            }) => {
                write!(f, "frame {frame}: checksum {found:#018x}, expected {expected:#018x}")
            }
            Evidence::Rollback(Finding::Slot { slot }) => write!(f, "undo slot {slot}"),
            Evidence::Frame(Damage { id, frame, seen, .. }) => write!(f, "frame {frame} of {id}: {seen}"),
            Evidence::Staged(Some((ino, index))) => write!(f, "staged page {index} of inode {ino}"),
            Evidence::Staged(None) => f.write_str("staged pages"),
            Evidence::Request(slot) => write!(f, "request slot {slot}"),
        }
    }
}

impl Evidence {
    /// Where it was, and what (S-18.5).
    fn place(&self) -> (Place, Seen) {
        match self {
            Evidence::Memory(..) | Evidence::Twice(..) | Evidence::Request(_) => (Place::Outside(0), Seen::Checksum),
            Evidence::Rollback(Finding::Inside { frame, .. } | Finding::Frame { frame, .. }) => {
                (Place::Frame(MetaId(0), *frame), Seen::Checksum)
            }
            Evidence::Rollback(Finding::Slot { slot }) => (Place::Undo(*slot as u64), Seen::Checksum),
            Evidence::Frame(damage) => (Place::Frame(damage.id, damage.frame), damage.seen.clone()),
            Evidence::Staged(Some((ino, index))) => (
                Place::Staged {
                    ino: *ino,
                    index: *index,
                },
                Seen::Checksum,
            ),
            Evidence::Staged(None) => (Place::Outside(0), Seen::Checksum),
        }
    }
}

impl Evidence {
    /// What was done, and what more that is for users.
    fn outcome(&self) -> (Done, &'static str) {
        match self {
            Evidence::Twice(_, _, true) => (Done::OtherCopy, ""),
            Evidence::Request(_) | Evidence::Memory(REQUESTS, _) => (
                Done::Dropped,
                "; what was executed and not answered may have been executed twice",
            ),
            _ => (Done::Dropped, "; nothing of it was used"),
        }
    }
}

/// Rolls the old arena back. Returns the frames that were being filled when the server died.
pub(super) fn roll_back(arena: &Option<Arena>, undo: &Option<UndoLog>, resumed: &mut Resumed) -> BTreeSet<FrameNo> {
    let (Some(arena), Some(undo)) = (arena, undo) else {
        return BTreeSet::new();
    };
    let mut half_done: BTreeSet<FrameNo> = (0..arena.count()).filter(|frame| arena.has_writer(*frame)).collect();
    for slot in undo.slots() {
        let head = undo.head(slot);
        // Frames of one that is committed may be another metablock's by now: it lets go of them before its slot is free.
        let records = match head.state {
            Some(State::Open) => undo.records(slot, &head).unwrap_or_default(),
            _ => Vec::new(),
        };
        for kept in records {
            half_done.remove(&kept.frame);
        }
    }
    // For who comes to the same memory after this server: rolling back ends all writers.
    half_done.iter().for_each(|frame| arena.forget(*frame));
    let report = restart::roll_back(arena, undo);
    resumed.open = report.open;
    resumed
        .findings
        .extend(report.findings.into_iter().map(Evidence::Rollback));
    half_done
}

/// Looks at every frame that was ever filled. The new store has what should stand there.
pub(super) fn look(store: &Store, arena: &Arena, half_done: &BTreeSet<FrameNo>, findings: &mut Vec<Evidence>) {
    let mut copy = [0; PAGE];
    for frame in (0..arena.count()).filter(|frame| arena.is_filled(*frame) && !half_done.contains(frame)) {
        if arena.verified_copy(frame, &mut copy).is_err() && !was_told(frame, findings) {
            findings.push(Evidence::Frame(damage(store, arena, frame)));
        }
    }
}

/// Compares the staged pages that the dead server had with those that follow from log and redo.
pub(super) fn compare_staged(store: &Store, adopted: &Adopted, findings: &mut Vec<Evidence>) {
    let old = adopted.staged(|page, crc, bytes| store.home.base(&store.frames, page, crc, bytes));
    let Ok(old) = old else {
        return findings.push(Evidence::Staged(None));
    };
    let new = store.home.staged().table.lock();
    let (mut was, mut is) = ([0; PAGE], [0; PAGE]);
    for (ino, index) in old.keys().into_iter().chain(new.keys()) {
        // One that was known to be lost is no news; log and redo may even have it. One that is lost since was told: the device
        // page under it is bad, not this memory.
        let is_known = [&old, &*new]
            .map(|table| table.is_lost(ino, index))
            .contains(&Some(true));
        let read = |table: &Table, page| table.read(ino, index, page) == Ok(true);
        let same = is_known || read(&old, &mut was) && read(&new, &mut is) && was == is;
        if !same && !findings.contains(&Evidence::Staged(Some((ino, index)))) {
            findings.push(Evidence::Staged(Some((ino, index))));
        }
    }
}

/// Whether the rollback has told the frame.
fn was_told(frame: FrameNo, findings: &[Evidence]) -> bool {
    findings
        .iter()
        .any(|finding| matches!(finding, Evidence::Rollback(Finding::Frame { frame: told, .. }) if *told == frame))
}

fn damage(store: &Store, arena: &Arena, frame: FrameNo) -> Damage {
    let address = frame as usize * PAGE;
    let held = arena.hold(frame);
    let verdict = held.locate(held.binding());
    let found = *held.bytes();
    drop(held);
    let damage = Damage {
        id: keepfs_frames::named::id_in(&found),
        frame,
        seen: Seen::of(&verdict, &found, address).0,
        owner: 0,
        window_ms: None,
    };
    let mut right = [0; PAGE];
    match content(store, damage.id, &mut right) {
        true => damage.against(&found, &right, address),
        false => damage,
    }
}

/// Tells what a resume found, in the log and in the history: it was in the memory of the server before.
pub(super) fn tell(store: &Store, evidence: &Evidence) {
    let (place, seen) = evidence.place();
    let (done, outcome) = evidence.outcome();
    store.ground.events.tell_of(&Told {
        place,
        seen: &seen,
        done,
        owner: 0,
        inodes: &[],
        window_ms: None,
        more: format!("in the memory of the server before: {evidence}{outcome}"),
    });
}

/// Tells that changes are lost which were acknowledged: if it is the log that ends before what the redo has, synced ones may be among
/// them.
pub(super) fn tell_lost(store: &Store, transactions: u64, by_log: bool) {
    let (seen, more) = match by_log {
        true => (
            Seen::Unknown,
            format!(
                "changes that were acknowledged are lost, synced ones perhaps among them, {transactions} transactions: the log of \
                 the server before ends before what its redo has"
            ),
        ),
        false => (
            Seen::Checksum,
            format!(
                "changes that were acknowledged and not synced are lost, {transactions} transactions: the redo of the server before \
                 was damaged"
            ),
        ),
    };
    let last = store.last_seq();
    store.ground.events.tell_of(&Told {
        place: Place::Lost { last, transactions },
        seen: &seen,
        done: Done::Nothing,
        owner: 0,
        inodes: &[],
        window_ms: None,
        more,
    });
}

/// The content of a metablock, if there is such a one.
fn content(store: &Store, id: MetaId, copy: &mut [u8; PAGE]) -> bool {
    let known = store.fetch_known(id).ok().flatten();
    known.is_some_and(|pin| store.verified_copy(&pin, copy).is_ok())
}

#[cfg(test)]
mod tests;
