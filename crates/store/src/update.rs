//! The door: the only code that changes a frame's bytes once others can see the frame (DESIGN section 1).
//!
//! Fixed order of every change, PROTOCOLS section 2: 1 undo record with the delta, 2 one more writer, 3 sum, 4 parity,
//! 6 copy, 7 version + 1 and one writer less. (5 digest joins here with its issue.) Sum and parity follow by the group
//! of callers that the change comes from (S-15.5).
//! Step 0, the verify at first touch, and the checks of identity and range are done by the transaction before.

use crate::arena::{Arena, FrameNo};
use crate::error::{Error, Stop};
use crate::planted::{self, Bug};
use crate::undo::{Change, Kept, Lost, Undo, UndoSlot};
use keepfs_codes::crc64;
use keepfs_codes::identity::Group;
use keepfs_format::PAGE;

/// Most bytes that one change may carry.
const BYTES_MAX: usize = PAGE;
/// Bytes of most changes: a buffer of this size costs nothing to clear.
const BYTES_FEW: usize = 256;

/// Stores `new` at `offset`: bytes that belong to this transaction alone. Those that stand there already are stored too:
/// a stray write may have put them there, and what is to be cannot be told from it later unless it was recorded.
pub(crate) fn put(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    (group, frame): (Group, FrameNo),
    offset: usize,
    new: &[u8],
) -> Result<(), Stop> {
    match new.len() {
        ..=BYTES_FEW => put_over(
            arena,
            undo,
            (group, frame),
            offset,
            &mut [0; BYTES_FEW][..new.len()],
            new,
        ),
        len => put_over(arena, undo, (group, frame), offset, &mut [0; BYTES_MAX][..len], new),
    }
}

/// [`put`] with room for the old bytes.
#[inline]
fn put_over(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    (group, frame): (Group, FrameNo),
    offset: usize,
    old: &mut [u8],
    new: &[u8],
) -> Result<(), Stop> {
    arena.load(frame, offset, old);
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

/// Flips the bits of `mask` in one byte, which must all be `from` before: bits commute, the byte is shared.
pub(crate) fn flip(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    frame: FrameNo,
    offset: usize,
    mask: u8,
    from: bool,
) -> Result<(), Stop> {
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
    let (old, good) = arena.flip(frame, offset, mask);
    arena.leave(frame);
    checked(good, frame)?;
    let wrong = if from { !old & mask } else { old & mask };
    if wrong != 0 {
        let what = if from { "freed twice" } else { "allocated twice" };
        return Err(Error::Logic(format!("a number was {what} (bitmap byte {offset}, bits {wrong:#04x})")).into());
    }
    Ok(())
}

/// Adds `add` to the 8-byte counter at `offset`.
pub(crate) fn add64(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    frame: FrameNo,
    offset: usize,
    add: i64,
) -> Result<(), Stop> {
    let counter = Counter {
        undo: Undo::Add64,
        frame,
        offset,
    };
    counter.add(arena, undo, |old| Some(old.wrapping_add_signed(add)))?;
    Ok(())
}

/// Adds `add` to the 2-byte counter at `offset`. `Ok(false)`, with nothing changed, if it would leave 0..=65535.
pub(crate) fn add16(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    frame: FrameNo,
    offset: usize,
    add: i16,
) -> Result<bool, Stop> {
    let counter = Counter {
        undo: Undo::Add16,
        frame,
        offset,
    };
    counter.add(arena, undo, |old| (old as u16).checked_add_signed(add).map(u64::from))
}

/// A counter in a frame that many transactions change.
#[derive(Clone, Copy)]
pub(crate) struct Counter {
    undo: Undo,
    frame: FrameNo,
    offset: usize,
}

impl Counter {
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

    /// Its value.
    pub(crate) fn load(self, arena: &Arena) -> u64 {
        let mut bytes = [0; 8];
        arena.load(self.frame, self.offset, &mut bytes[..self.width()]);
        u64::from_le_bytes(bytes)
    }

    /// What a record read as its value.
    pub(crate) fn value(bytes: &[u8]) -> u64 {
        let mut word = [0; 8];
        let len = bytes.len().min(8);
        word[..len].copy_from_slice(&bytes[..len]);
        u64::from_le_bytes(word)
    }

    /// `value` with what the record added taken away.
    pub(crate) fn less(self, value: u64, kept: &Kept) -> u64 {
        let less = value
            .wrapping_sub(Counter::value(&kept.new))
            .wrapping_add(Counter::value(&kept.old));
        if self.undo == Undo::Add16 { less & 0xffff } else { less }
    }

    /// The delta of the rolling checksum when it changes from `old` to `new`.
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

    /// The whole change, under the frame's latch, so that what a killed server leaves can be told (S-13.4):
    /// an intent, the record with the value before and after, the value, the sum, the intent's end.
    fn add(self, arena: &Arena, undo: &mut UndoSlot<'_>, next: impl Fn(u64) -> Option<u64>) -> Result<bool, Stop> {
        arena.enter(self.frame);
        arena.latch(self.frame);
        let old = self.load(arena);
        let result = match next(old) {
            Some(new) if new != old => self.change(arena, undo, old, new).map(|()| true),
            other => Ok(other.is_some()),
        };
        arena.unlatch(self.frame);
        arena.leave(self.frame);
        result
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

    /// Takes a record's change back.
    fn take_back(self, arena: &Arena, undo: &UndoSlot<'_>, kept: &Kept) {
        arena.enter(self.frame);
        arena.latch(self.frame);
        let old = self.load(arena);
        undo.intend_back(kept.number, old);
        // What does not check is told when the frame is verified; here and below.
        let _later = self.store(arena, old, self.less(old, kept));
        undo.taken_back(kept.number);
        undo.intent_done();
        arena.unlatch(self.frame);
        arena.leave(self.frame);
    }
}

/// Takes back all changes of an open transaction, last first, bytes and sums exactly, but those whose records do not read
/// back, which are returned (S-13.10). How far it came stands in the slot, so that a restart can go on (S-13.5).
pub(crate) fn take_all_back(arena: &Arena, undo: &mut UndoSlot<'_>) -> Vec<Lost> {
    let mut all_lost = Vec::new();
    if undo.is_empty() {
        return all_lost;
    }
    undo.taken_back(undo.next());
    for kept in undo.backwards() {
        match kept {
            Ok(kept) => take_back(arena, undo, &kept),
            Err(lost) => {
                undo.taken_back(lost.number);
                all_lost.push(lost);
            }
        }
    }
    all_lost
}

fn take_back(arena: &Arena, undo: &UndoSlot<'_>, kept: &Kept) {
    let (frame, offset) = (kept.frame, kept.offset);
    if kept.undo.is_counter() {
        return Counter::of(kept).take_back(arena, undo, kept);
    }
    arena.enter(frame);
    let group = arena.binding(frame).group;
    arena.fold(frame, group, (offset, &kept.new, &kept.old), kept.delta);
    let _later = match (kept.undo, kept.old.first(), kept.new.first()) {
        (Undo::Bits, Some(old), Some(new)) => arena.flip(frame, offset, old ^ new).1,
        _ => arena.copy(frame, offset, &kept.old),
    };
    arena.leave(frame);
    undo.taken_back(kept.number);
}
