//! Rolling back what a killed server left half done: proved by the rolling checksums, never recomputed
//! (PROTOCOLS section 2; S-13.5, S-13.6, S-13.7, S-13.8).
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
use crate::undo::{Intent, Kept, State, UndoLog};
use crate::update::Counter;
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
    /// A frame's bytes are not what its sum says, open changes put back. It keeps a sum that it does not have, and
    /// counters as they are, for the repair ladder.
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

    /// The record of the counter change that the killed server had in flight.
    fn in_flight(&self) -> Option<InFlight<'_>> {
        self.flying(self.head.intent?)
    }

    /// The record of the counter change that a cut restart had in flight.
    fn subtracting(&self) -> Option<InFlight<'_>> {
        self.flying(self.head.subtract?)
    }

    fn flying(&self, intent: Intent) -> Option<InFlight<'_>> {
        let kept = self.records.get(intent.number as usize)?;
        let counter = Counter::of(kept);
        let (old, new) = match intent.before {
            None => (Counter::value(&kept.old), Counter::value(&kept.new)),
            Some(before) => (before, counter.less(before, kept)),
        };
        kept.undo.is_counter().then_some(InFlight {
            kept,
            back: intent.before.is_some(),
            old,
            new,
        })
    }

    /// Whether a counter, which is `now`, still holds what the record added: a restart that was cut may have taken it back.
    fn still_counts(&self, kept: &Kept, now: u64) -> bool {
        if self.head.counters.is_some_and(|bound| kept.number >= bound) {
            return false;
        }
        match self.subtracting().filter(|f| f.kept.number == kept.number) {
            Some(cut) => now != cut.new,
            None => self.counts(kept, now),
        }
    }

    /// Whether a counter, which is `now`, holds what the record added, as its own server left it.
    fn counts(&self, kept: &Kept, now: u64) -> bool {
        match self.in_flight().filter(|f| f.kept.number == kept.number) {
            Some(f) if f.back => now != f.new,
            Some(f) => now != f.old,
            None => true,
        }
    }
}

/// A counter change of which a kill left some steps undone.
struct InFlight<'o> {
    kept: &'o Kept,
    /// It is being taken back.
    back: bool,
    old: u64,
    new: u64,
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
    subtract_all(arena, undo, &open, |kept| {
        let mut of_frame = judgements.iter().filter(|j| j.frame == kept.frame);
        of_frame.any(|j| j.has_proved(kept.offset))
    });
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

/// Takes the counters in proved lines back, each with an intent, so that none is taken back twice (S-13.7). First
/// those that were in flight, because whether they count is told by their value.
fn subtract_all(arena: &Arena, undo: &UndoLog, open: &[Open], proved: impl Fn(&Kept) -> bool) {
    let left = |o: &Open, kept: &Kept| (kept.number as usize) < o.remaining().len() && proved(kept);
    for o in open {
        if let Some(flying) = o.in_flight().filter(|f| left(o, f.kept)) {
            subtract(arena, undo, o, flying.kept);
        }
    }
    for o in open {
        for kept in o.remaining().iter().rev() {
            if kept.undo.is_counter() && left(o, kept) {
                subtract(arena, undo, o, kept);
            }
        }
    }
}

fn subtract(arena: &Arena, undo: &UndoLog, open: &Open, kept: &Kept) {
    if undo.head(open.slot).counters.is_some_and(|bound| kept.number >= bound) {
        return;
    }
    let counter = Counter::of(kept);
    let now = counter.load_raw(arena);
    if open.still_counts(kept, now) {
        undo.subtracting(open.slot, kept.number, now);
        // What does not check is told when the frame is verified.
        let _later = counter.store(arena, now, counter.less(now, kept));
    }
    undo.counters_done(open.slot, kept.number);
}

#[cfg(test)]
mod tests;
