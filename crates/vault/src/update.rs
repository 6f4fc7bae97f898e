//! The door: the only code that changes a frame's bytes once others can see the frame.
//!
//! Fixed order of every change: 1 undo record with the delta, 2 one more writer, 3 sums, 4 parity,
//! 5 bytes, 6 version + 1 and one writer less. Sum and parity follow by the group of callers that the change comes from
//! (S-15.5). The checks of identity and range are done by the transaction before.
//!
//! Invariants:
//! D-1 What a change replaces is taken from a line that had its sum ([`Line`]), before the change counts as a writer: so the
//!     sums are always those of the right bytes, and a stray write stays to be found, or is covered by right bytes (S-15.11).
//! D-2 A record, and the change that it describes, lies in one line (S-13.3).

use crate::arena::{Arena, FrameNo, Line};
use crate::error::Error;
use crate::planted::{self, Bug, Use};
use crate::undo::{Change, Kept, Lost, Undo, UndoSlot};
use core::ops::Range;
use keepfs_codes::crc64;
#[cfg(feature = "measure")]
use keepfs_codes::identity::Binding;
use keepfs_codes::identity::Group;
use keepfs_codes::line::{self, LINE};

/// The parts of `len` bytes at `offset` that lie in one line each.
#[inline]
pub fn by_lines(offset: usize, len: usize) -> impl Iterator<Item = Range<usize>> {
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
pub fn put(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    (group, frame): (Group, FrameNo),
    line: &Line,
    (offset, new): (usize, &[u8]),
) -> Result<(), Error> {
    let delta = crc64::delta(offset, line.at(offset, new.len()), new);
    if undo.is_empty() || !planted::is(Bug::UndoOmitted) {
        record(undo, frame, line, (offset, new, delta))?;
    }
    change(arena, (group, frame), line, (offset, new, delta))
}

/// The record of a change of `line`.
#[inline]
fn record(
    undo: &mut UndoSlot<'_>,
    frame: FrameNo,
    line: &Line,
    (offset, new, delta): (usize, &[u8], u64),
) -> Result<(), Error> {
    let old = line.at(offset, new.len());
    undo.keep(&Change {
        undo: Undo::Bytes,
        frame,
        offset,
        delta,
        old,
        new,
    })
}

/// A change of `line` that is recorded.
#[inline]
fn change(
    arena: &Arena,
    (group, frame): (Group, FrameNo),
    line: &Line,
    (offset, new, delta): (usize, &[u8], u64),
) -> Result<(), Error> {
    let old = line.at(offset, new.len());
    arena.enter(frame);
    arena.fold(frame, group, (offset, old, new), delta);
    let good = arena.copy(frame, offset, new);
    arena.leave(frame);
    checked(good, frame)
}

/// [`put`] of bytes in any lines of a frame, one line after the other, as `look` finds each (D-2): who looks is no writer.
#[inline]
pub fn put_all<E: From<Error>>(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    who: (Group, FrameNo),
    (offset, new): (usize, &[u8]),
    mut look: impl FnMut(usize, &mut Line) -> Result<(), E>,
) -> Result<(), E> {
    if planted::omits(Use::RecordsFirst) {
        return put_recorded(arena, undo, who, (offset, new), look);
    }
    let mut line = Line::none();
    for part in by_lines(offset, new.len()) {
        look(part.start, &mut line)?;
        let bytes = &new[part.start - offset..part.end - offset];
        put(arena, undo, who, &line, (part.start, bytes))?;
    }
    Ok(())
}

/// [`put_all`] with the records of all lines before the first change: a kill between leaves two of one slot in doubt.
#[cold]
fn put_recorded<E: From<Error>>(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    (group, frame): (Group, FrameNo),
    (offset, new): (usize, &[u8]),
    mut look: impl FnMut(usize, &mut Line) -> Result<(), E>,
) -> Result<(), E> {
    let mut lines = Vec::new();
    for part in by_lines(offset, new.len()) {
        let mut line = Line::none();
        look(part.start, &mut line)?;
        let bytes = &new[part.start - offset..part.end - offset];
        let delta = crc64::delta(part.start, line.at(part.start, part.len()), bytes);
        record(undo, frame, &line, (part.start, bytes, delta))?;
        lines.push((line, (part.start, bytes, delta)));
    }
    for (line, what) in &lines {
        change(arena, (group, frame), line, *what)?;
    }
    Ok(())
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
) -> Result<(), Error> {
    put_all(arena, undo, (group, frame), (offset, new), |at, line| {
        let found = arena.line(frame, binding, line::at(at), line);
        found.map_err(|bad| Error::Damaged(format!("line {} of frame {frame}", bad.line)))
    })
}

/// What was stored did not check (Greenan & Miller, figure 3, line 12): the transaction is taken back.
#[inline]
fn checked(good: bool, frame: FrameNo) -> Result<(), Error> {
    if good {
        return Ok(());
    }
    Err(Error::Damaged(format!(
        "frame {frame} was changed by something else while it was written"
    )))
}

/// Flips the bits of `mask` in the byte at `offset`, which must all be `from` in `line`: bits commute, the byte is shared.
pub fn flip(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    frame: FrameNo,
    line: &Line,
    (offset, mask, from): (usize, u8, bool),
) -> Result<(), Error> {
    let now = match planted::omits(Use::BitFromAtomic) {
        false => line.at(offset, 1)[0],
        true => as_it_is(arena, frame, line, offset),
    };
    let wrong = if from { !now & mask } else { now & mask };
    if wrong != 0 {
        let what = if from { "freed twice" } else { "allocated twice" };
        return Err(Error::Logic(format!(
            "a number was {what} (bitmap byte {offset}, bits {wrong:#04x})"
        )));
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

/// The byte at `offset` of the frame, whatever the copy of its line says.
#[cold]
fn as_it_is(arena: &Arena, frame: FrameNo, line: &Line, offset: usize) -> u8 {
    let _blind = planted::blind(Use::BitFromAtomic);
    planted::look(frame, Some(line.number()));
    let mut byte = [0];
    arena.load_raw(frame, offset, &mut byte);
    byte[0]
}

/// Takes back all changes of an open transaction, last first, bytes and sums exactly, but those whose records do not read
/// back, which are returned (S-13.10). How far it came stands in the slot, so that a restart can go on (S-13.5).
///
/// `group`: which callers change a frame.
pub fn take_all_back(arena: &Arena, undo: &mut UndoSlot<'_>, group: impl Fn(FrameNo) -> Group) -> Vec<Lost> {
    let mut all_lost = Vec::new();
    if undo.is_empty() {
        return all_lost;
    }
    undo.taken_back(undo.next());
    for kept in undo.backwards() {
        match kept {
            Ok(kept) => take_back(arena, undo, group(kept.frame), &kept),
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
    match planted::omits(Use::BackUnverified) {
        false => arena.fold(frame, group, (offset, &kept.new, &kept.old), kept.delta),
        true => fold_from_frame(arena, group, kept),
    }
    // What does not check is told when the frame is verified.
    let _later = match (kept.undo, kept.old.first(), kept.new.first()) {
        (Undo::Bits, Some(old), Some(new)) => arena.flip(frame, offset, old ^ new),
        _ => arena.copy(frame, offset, &kept.old),
    };
    arena.leave(frame);
    undo.taken_back(kept.number);
}

/// Folds from what stands in the frame to what the record has.
#[cold]
fn fold_from_frame(arena: &Arena, group: Group, kept: &Kept) {
    let mut live = vec![0; kept.old.len()];
    arena.load_raw(kept.frame, kept.offset, &mut live);
    let delta = crc64::delta(kept.offset, &live, &kept.old);
    arena.fold(kept.frame, group, (kept.offset, &live, &kept.old), delta);
}

#[cfg(any(test, feature = "schedules"))]
pub mod by_hand;
