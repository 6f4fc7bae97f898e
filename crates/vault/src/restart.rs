//! Rolling back what a killed server left half done: proved by the rolling checksums, never recomputed
//! (S-13.5, S-13.6, S-13.7, S-13.8).
//!
//! It reads only the arena, the control words and the undo slots. Recomputing a sum would bless a stray write; so a
//! frame is given a new sum only when its bytes, with the open changes put back, have exactly the checksum that the
//! stored sum and the deltas of the records tell.
//!
//! Invariants:
//! B-1 No frame is written before every frame was judged and every finding that the writing hides is in its slot.
//! B-2 Each store may be the last one: a second [`roll_back`] comes to the same bytes, sums and findings.
//! B-3 The slots stay open until [`retire`], so the report can be used (frames repaired) before it is lost.

mod judge;

use crate::arena::{Arena, FrameNo};
use crate::undo::{Kept, State, UndoLog};
use judge::Judgement;
use std::collections::BTreeSet;

/// What was wrong in guarded memory besides half-done transactions. Comparable values.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Finding {
    /// Something else wrote into the range of an open change. The bytes came back from the undo log.
    Inside {
        /// Which frame.
        frame: FrameNo,
        /// First byte that is wrong.
        offset: usize,
        /// Bytes up to the last that is wrong.
        len: usize,
    },
    /// A frame's bytes are not what its sum says, open changes put back. It keeps a sum that it does not have,
    /// for the repair ladder.
    Frame {
        /// Which frame.
        frame: FrameNo,
        /// CRC-64 of its bytes now.
        found: u64,
        /// Its right bytes have this CRC-64 ...
        expected: u64,
        /// ... XOR some of these (changes of which nobody can tell any more whether the sum holds them).
        perhaps: Vec<u64>,
    },
    /// An undo slot is damaged: what its transaction changed is not known. The arena must not be used; open the
    /// pool as after a power cut.
    Slot {
        /// Which slot.
        slot: usize,
    },
}

/// What a rollback did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Transactions that were open and are rolled back.
    pub open: usize,
    /// Transactions that were committed and stay so.
    pub committed: usize,
    /// Frames that open transactions had changed.
    pub frames: usize,
    /// What was wrong besides, sorted.
    pub findings: Vec<Finding>,
}

/// An open slot with its records.
pub(crate) struct Open {
    slot: usize,
    head: crate::undo::Head,
    records: Vec<Kept>,
}

impl Open {
    /// Records that still count.
    fn remaining(&self) -> &[Kept] {
        let left = self.head.left.map_or(self.records.len(), |n| n as usize);
        &self.records[..left.min(self.records.len())]
    }
}

/// Rolls back every open transaction as a killed server left it. Nobody else uses the arena. It may be cut at any
/// store and called again, with the same result, until [`retire`].
pub fn roll_back(arena: &Arena, undo: &UndoLog) -> Report {
    let mut report = Report::default();
    if undo.is_retiring() {
        undo.retire();
        return report;
    }
    let open = survey(arena, undo, &mut report);
    let frames: BTreeSet<FrameNo> = open
        .iter()
        .flat_map(|o| o.records.iter().map(|kept| kept.frame))
        .collect();
    let judgements: Vec<Judgement> = frames.iter().map(|f| judge::judge(arena, *f, &open)).collect();
    note(undo, &open, &judgements, &mut report);
    judgements.iter().for_each(|j| j.write(arena));
    (0..arena.count()).for_each(|frame| arena.restore_word(frame));
    report.frames = frames.len();
    report
        .findings
        .extend(judgements.iter().filter_map(Judgement::unproved));
    report.findings.sort();
    report.findings.dedup();
    report
}

/// Ends a rollback whose report was used: all slots are free again. The first store decides.
pub fn retire(undo: &UndoLog) {
    undo.retire();
}

/// The open transactions; damaged slots become findings.
fn survey(arena: &Arena, undo: &UndoLog, report: &mut Report) -> Vec<Open> {
    let mut found = Vec::new();
    for slot in undo.slots() {
        let head = undo.head(slot);
        match head.state {
            Some(State::Free) => {}
            Some(State::Committed) => report.committed += 1,
            Some(State::Open) => match undo.records(slot, &head) {
                Some(records) if records.iter().all(|k| k.frame < arena.count()) => {
                    found.push(Open { slot, head, records });
                }
                _ => report.findings.push(Finding::Slot { slot }),
            },
            None => report.findings.push(Finding::Slot { slot }),
        }
    }
    report.open = found.len();
    found
}

/// Reports stray writes inside the ranges of open changes, one a slot, those that a cut restart saw included, and puts
/// them into the slots before the first frame is written (B-1).
fn note(undo: &UndoLog, open: &[Open], judgements: &[Judgement], report: &mut Report) {
    for o in open {
        let place = match o.head.restarted {
            true => o.head.note,
            false => judgements.iter().find_map(|j| j.inside_of(o.slot)),
        };
        undo.restarting(o.slot, place);
        report
            .findings
            .extend(place.map(|(frame, offset, len)| Finding::Inside { frame, offset, len }));
    }
}

#[cfg(test)]
mod tests;
