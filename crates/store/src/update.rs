//! The door: the only code that changes a frame's bytes once others can see the frame (DESIGN section 1).
//!
//! Fixed order of every change, PROTOCOLS section 2: 1 undo record with the delta, 2 one more writer, 3 sum, 4 parity,
//! 6 copy, 7 version + 1 and one writer less. Sum and parity follow by the group of callers that the change comes from
//! (S-15.5). The checks of identity and range are done by the transaction before.
//!
//! Invariants:
//! D-1 What a change replaces is taken from a line that had its sum ([`Line`]), before the change counts as a writer: so the
//!     sums are always those of the right bytes, and a stray write stays to be found, or is covered by right bytes (S-15.11).
//! D-2 A record, and the change that it describes, lies in one line (S-13.3).

use crate::arena::{Arena, FrameNo, Line};
use crate::error::{Error, Stop};
use crate::planted::{self, Bug};
use crate::undo::{Change, Kept, Lost, Undo, UndoSlot};
use core::ops::Range;
use keepfs_codes::crc64;
use keepfs_codes::identity::{Binding, Group};
use keepfs_codes::line::{self, LINE};

/// The parts of `len` bytes at `offset` that lie in one line each.
pub(crate) fn by_lines(offset: usize, len: usize) -> impl Iterator<Item = Range<usize>> {
    let end = offset + len;
    let mut from = offset;
    core::iter::from_fn(move || {
        let part = from..end.min((line::at(from) + 1) * LINE);
        from = part.end;
        (!part.is_empty()).then_some(part)
    })
}

/// Stores `new` at `offset`, which are bytes of `line` that belong to this transaction alone. Those that stand there already
/// are stored too: a stray write may have put them there since.
pub(crate) fn put(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    (group, frame): (Group, FrameNo),
    line: &Line,
    (offset, new): (usize, &[u8]),
) -> Result<(), Stop> {
    let old = line.at(offset, new.len());
    let delta = crc64::delta(offset, old, new);
    if undo.is_empty() || !planted::is(Bug::UndoOmitted) {
        undo.keep(&Change {
            undo: Undo::Bytes,
            frame,
            offset,
            delta,
            old,
            new,
        })?;
    }
    arena.enter(frame);
    arena.fold(frame, group, (offset, old, new), delta);
    let good = arena.copy(frame, offset, new);
    arena.leave(frame);
    checked(good, frame)
}

/// [`put`] of bytes in any lines of a frame of `binding`, where nothing is mended: for measurements and tests. Errors:
/// `Damaged`, what stands there is not right.
#[cfg(feature = "measure")]
pub(crate) fn put_anywhere(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    (binding, group, frame): (Binding, Group, FrameNo),
    offset: usize,
    new: &[u8],
) -> Result<(), Stop> {
    let mut line = Line::none();
    for part in by_lines(offset, new.len()) {
        let found = arena.line(frame, binding, line::at(part.start), &mut line);
        found.map_err(|bad| Error::Damaged(format!("line {} of frame {frame}", bad.line)))?;
        let bytes = &new[part.start - offset..part.end - offset];
        put(arena, undo, (group, frame), &line, (part.start, bytes))?;
    }
    Ok(())
}

/// What was stored did not check (Greenan & Miller, figure 3, line 12): the transaction is taken back.
#[inline]
fn checked(good: bool, frame: FrameNo) -> Result<(), Stop> {
    if good {
        return Ok(());
    }
    Err(Error::Damaged(format!(
        "frame {frame} was changed by something else while it was written"
    ))
    .into())
}

/// Flips the bits of `mask` in the byte at `offset`, which must all be `from` in `line`: bits commute, the byte is shared.
pub(crate) fn flip(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    frame: FrameNo,
    line: &Line,
    (offset, mask, from): (usize, u8, bool),
) -> Result<(), Stop> {
    let now = line.at(offset, 1)[0];
    let wrong = if from { !now & mask } else { now & mask };
    if wrong != 0 {
        let what = if from { "freed twice" } else { "allocated twice" };
        return Err(Error::Logic(format!("a number was {what} (bitmap byte {offset}, bits {wrong:#04x})")).into());
    }
    let delta = crc64::delta(offset, &[0], &[mask]);
    let before = if from { mask } else { 0 };
    undo.keep(&Change {
        undo: Undo::Bits,
        frame,
        offset,
        delta,
        old: &[before],
        new: &[before ^ mask],
    })?;
    arena.enter(frame);
    arena.fold(frame, Group::Bitmap, (offset, &[0], &[mask]), delta);
    let good = arena.flip(frame, offset, mask);
    arena.leave(frame);
    checked(good, frame)
}

/// A counter in a frame that many transactions change.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    undo: Undo,
    frame: FrameNo,
    offset: usize,
}

impl Counter {
    /// One of 8 bytes.
    pub(crate) fn wide(frame: FrameNo, offset: usize) -> Counter {
        let undo = Undo::Add64;
        Counter { undo, frame, offset }
    }

    /// One of 2 bytes.
    pub(crate) fn narrow(frame: FrameNo, offset: usize) -> Counter {
        let undo = Undo::Add16;
        Counter { undo, frame, offset }
    }

    /// The counter that a record changed.
    pub(crate) fn of(kept: &Kept) -> Counter {
        Counter {
            undo: kept.undo,
            frame: kept.frame,
            offset: kept.offset,
        }
    }

    fn width(self) -> usize {
        if self.undo == Undo::Add16 { 2 } else { 8 }
    }

    /// Its value as it lies there, for evidence.
    pub(crate) fn load_raw(self, arena: &Arena) -> u64 {
        let mut bytes = [0; 8];
        arena.load_raw(self.frame, self.offset, &mut bytes[..self.width()]);
        u64::from_le_bytes(bytes)
    }

    /// What a record or a line has as its value.
    pub(crate) fn value(bytes: &[u8]) -> u64 {
        let mut word = [0; 8];
        let len = bytes.len().min(8);
        word[..len].copy_from_slice(&bytes[..len]);
        u64::from_le_bytes(word)
    }

    /// `value` with `add` added; `None`: a counter of 2 bytes would leave 0..=65535.
    pub(crate) fn plus(self, value: u64, add: i64) -> Option<u64> {
        match self.undo {
            Undo::Add16 => {
                let add = i16::try_from(add).ok()?;
                (value as u16).checked_add_signed(add).map(u64::from)
            }
            _ => Some(value.wrapping_add_signed(add)),
        }
    }

    /// `value` with what the record added taken away.
    pub(crate) fn less(self, value: u64, kept: &Kept) -> u64 {
        let less = value
            .wrapping_sub(Counter::value(&kept.new))
            .wrapping_add(Counter::value(&kept.old));
        if self.undo == Undo::Add16 { less & 0xffff } else { less }
    }

    /// The delta of the line's sum when it changes from `old` to `new`.
    pub(crate) fn delta(self, old: u64, new: u64) -> u64 {
        let width = self.width();
        crc64::delta(self.offset, &old.to_le_bytes()[..width], &new.to_le_bytes()[..width])
    }

    fn fold(self, arena: &Arena, old: u64, new: u64) {
        let (delta, width) = (self.delta(old, new), self.width());
        let (old, new) = (old.to_le_bytes(), new.to_le_bytes());
        let change = (self.offset, &old[..width], &new[..width]);
        arena.fold(self.frame, Group::Bitmap, change, delta);
    }

    /// Stores a value and folds; the caller holds the latch. Returns what [`Arena::copy`] does.
    pub(crate) fn store(self, arena: &Arena, old: u64, new: u64) -> bool {
        let good = match self.undo {
            Undo::Add16 => arena.set_u16(self.frame, self.offset, new as u16),
            _ => arena.set_u64(self.frame, self.offset, new),
        };
        self.fold(arena, old, new);
        good
    }

    /// Calls `f` with the value, under the frame's latch, so that what a killed server leaves can be told (S-13.4). `None`:
    /// the line was not right at the look, and nothing was done: its own writer cannot tell damage from a change that is
    /// under way, so the caller looks at it as a reader and begins anew.
    fn latched<T>(self, arena: &Arena, binding: Binding, f: impl FnOnce(u64) -> T) -> Option<T> {
        arena.enter(self.frame);
        arena.latch(self.frame);
        let mut line = Line::none();
        let is_right = arena.try_line(self.frame, binding, line::at(self.offset), &mut line);
        let result = is_right.then(|| f(Counter::value(line.at(self.offset, self.width()))));
        arena.unlatch(self.frame);
        arena.leave(self.frame);
        result
    }

    /// The whole change: an intent, the record with the value before and after, the value, the sum, the intent's end.
    /// `Ok(Some(false))`, with nothing changed, if it would leave its range; `Ok(None)`: as [`Counter::latched`].
    pub(crate) fn add(
        self,
        arena: &Arena,
        undo: &mut UndoSlot<'_>,
        binding: Binding,
        add: i64,
    ) -> Result<Option<bool>, Stop> {
        let done = self.latched(arena, binding, |old| match self.plus(old, add) {
            Some(new) if new != old => self.change(arena, undo, old, new).map(|()| true),
            other => Ok(other.is_some()),
        });
        done.transpose()
    }

    fn change(self, arena: &Arena, undo: &mut UndoSlot<'_>, old: u64, new: u64) -> Result<(), Stop> {
        let width = self.width();
        undo.intend(undo.next());
        let kept = undo.keep(&Change {
            undo: self.undo,
            frame: self.frame,
            offset: self.offset,
            delta: self.delta(old, new),
            old: &old.to_le_bytes()[..width],
            new: &new.to_le_bytes()[..width],
        });
        let good = kept.is_err() || self.store(arena, old, new);
        undo.intent_done();
        kept.and_then(|()| checked(good, self.frame))
    }

    /// Takes a record's change back. `None`: as [`Counter::latched`].
    fn take_back(self, arena: &Arena, undo: &UndoSlot<'_>, binding: Binding, kept: &Kept) -> Option<()> {
        self.latched(arena, binding, |old| {
            undo.intend_back(kept.number, old);
            // What does not check is told when the frame is verified; here and below.
            let _later = self.store(arena, old, self.less(old, kept));
            undo.taken_back(kept.number);
            undo.intent_done();
        })
    }
}

/// Takes back all changes of an open transaction, last first, bytes and sums exactly, but those whose records do not read
/// back, which are returned (S-13.10). How far it came stands in the slot, so that a restart can go on (S-13.5).
///
/// `binding`: whose a frame is. `mend`: looks at the line of a counter that is not right, which only the right value can be
/// taken back from; `false`: it cannot be mended, and the counter stays as it is (writing has ended then).
pub(crate) fn take_all_back(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    binding: impl Fn(FrameNo) -> Binding,
    mend: impl Fn(FrameNo, usize) -> bool,
) -> Vec<Lost> {
    let mut all_lost = Vec::new();
    if undo.is_empty() {
        return all_lost;
    }
    undo.taken_back(undo.next());
    for kept in undo.backwards() {
        match kept {
            Ok(kept) if kept.undo.is_counter() => {
                let (counter, whose) = (Counter::of(&kept), binding(kept.frame));
                while counter.take_back(arena, undo, whose, &kept).is_none() && mend(kept.frame, kept.offset) {}
            }
            Ok(kept) => take_back(arena, undo, binding(kept.frame).group, &kept),
            Err(lost) => {
                undo.taken_back(lost.number);
                all_lost.push(lost);
            }
        }
    }
    all_lost
}

fn take_back(arena: &Arena, undo: &UndoSlot<'_>, group: Group, kept: &Kept) {
    let (frame, offset) = (kept.frame, kept.offset);
    arena.enter(frame);
    arena.fold(frame, group, (offset, &kept.new, &kept.old), kept.delta);
    let _later = match (kept.undo, kept.old.first(), kept.new.first()) {
        (Undo::Bits, Some(old), Some(new)) => arena.flip(frame, offset, old ^ new),
        _ => arena.copy(frame, offset, &kept.old),
    };
    arena.leave(frame);
    undo.taken_back(kept.number);
}

#[cfg(test)]
pub(crate) mod by_hand;
