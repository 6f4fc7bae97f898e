//! The door: the only code that changes a frame's bytes once others can see the frame (DESIGN section 1).
//!
//! Fixed order of every change, PROTOCOLS section 2: 1 undo record with the delta, 2 one more writer, 3 sum,
//! 6 copy, 7 version + 1 and one writer less. (4 parity and 5 digest join here with their issues.)
//! Step 0, the verify at first touch, and the checks of identity and range are done by the transaction before.

use crate::arena::{Arena, FrameNo};
use crate::error::{Error, Stop};
use crate::undo::{Kept, Undo, UndoSlot};
use keepfs_codes::crc64;
use keepfs_format::PAGE;

/// Most bytes that one change may carry.
const BYTES_MAX: usize = PAGE;

/// Stores `new` at `offset`: bytes that belong to this transaction alone. Returns whether anything changed.
pub(crate) fn put(
    arena: &Arena,
    undo: &mut UndoSlot<'_>,
    frame: FrameNo,
    offset: usize,
    new: &[u8],
) -> Result<bool, Stop> {
    let mut buf = [0; BYTES_MAX];
    let old = &mut buf[..new.len()];
    arena.load(frame, offset, old);
    if old == new {
        return Ok(false);
    }
    let delta = crc64::delta(offset, old, new);
    undo.keep(Undo::Bytes, frame, offset, delta, old)?;
    arena.enter(frame);
    arena.fold(frame, delta);
    arena.copy(frame, offset, new);
    arena.leave(frame);
    Ok(true)
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
    undo.keep(Undo::Bits, frame, offset, delta, &[mask])?;
    arena.enter(frame);
    arena.fold(frame, delta);
    let old = arena.flip(frame, offset, mask);
    arena.leave(frame);
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
    let mut bytes = [0; 8];
    arena.load(frame, offset, &mut bytes);
    let mut old = u64::from_le_bytes(bytes);
    let mut delta = delta64(offset, old, add);
    undo.keep(Undo::Add64, frame, offset, delta, &add.to_le_bytes())?;
    arena.enter(frame);
    while let Err(now) = arena.swap_u64(frame, offset, old, old.wrapping_add_signed(add)) {
        old = now;
        delta = delta64(offset, old, add);
        undo.amend(Undo::Add64, frame, offset, delta, &add.to_le_bytes());
    }
    arena.fold(frame, delta);
    arena.leave(frame);
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
    let mut bytes = [0; 2];
    arena.load(frame, offset, &mut bytes);
    let mut old = u16::from_le_bytes(bytes);
    let Some(mut new) = old.checked_add_signed(add) else {
        return Ok(false);
    };
    let mut delta = crc64::delta(offset, &old.to_le_bytes(), &new.to_le_bytes());
    undo.keep(Undo::Add16, frame, offset, delta, &add.to_le_bytes())?;
    arena.enter(frame);
    while let Err(now) = arena.swap_u16(frame, offset, old, new) {
        old = now;
        // Wrapping here would be undone by the rollback that the caller starts on `false`; saturation cannot be.
        new = old.wrapping_add_signed(add);
        delta = crc64::delta(offset, &old.to_le_bytes(), &new.to_le_bytes());
        undo.amend(Undo::Add16, frame, offset, delta, &add.to_le_bytes());
    }
    arena.fold(frame, delta);
    arena.leave(frame);
    Ok(old.checked_add_signed(add).is_some())
}

fn delta64(offset: usize, old: u64, add: i64) -> u64 {
    crc64::delta(offset, &old.to_le_bytes(), &old.wrapping_add_signed(add).to_le_bytes())
}

/// Takes back one change of an open transaction, bytes and sum exactly.
pub(crate) fn take_back(arena: &Arena, kept: &Kept) {
    let (frame, offset) = (kept.frame, kept.offset);
    arena.enter(frame);
    match kept.undo {
        Undo::Bytes => {
            arena.fold(frame, kept.delta);
            arena.copy(frame, offset, &kept.old);
        }
        Undo::Bits => {
            arena.fold(frame, kept.delta);
            arena.flip(frame, offset, kept.old.first().copied().unwrap_or(0));
        }
        Undo::Add64 => {
            let add = i64::from_le_bytes(kept.old.as_slice().try_into().unwrap_or_default());
            subtract64(arena, frame, offset, add);
        }
        Undo::Add16 => {
            let add = i16::from_le_bytes(kept.old.as_slice().try_into().unwrap_or_default());
            subtract16(arena, frame, offset, add);
        }
    }
    arena.leave(frame);
}

fn subtract64(arena: &Arena, frame: FrameNo, offset: usize, add: i64) {
    let mut bytes = [0; 8];
    arena.load(frame, offset, &mut bytes);
    let mut old = u64::from_le_bytes(bytes);
    while let Err(now) = arena.swap_u64(frame, offset, old, old.wrapping_sub(add as u64)) {
        old = now;
    }
    arena.fold(frame, delta64(offset, old, add.wrapping_neg()));
}

fn subtract16(arena: &Arena, frame: FrameNo, offset: usize, add: i16) {
    let mut bytes = [0; 2];
    arena.load(frame, offset, &mut bytes);
    let mut old = u16::from_le_bytes(bytes);
    let mut new = old.wrapping_sub(add as u16);
    while let Err(now) = arena.swap_u16(frame, offset, old, new) {
        old = now;
        new = old.wrapping_sub(add as u16);
    }
    arena.fold(frame, crc64::delta(offset, &old.to_le_bytes(), &new.to_le_bytes()));
}

/// Replay's entry: bytes from a verified log group, before anybody else is there. No undo: the device still has
/// the state before, and recovery is repeated from it.
pub(crate) fn replay(arena: &Arena, frame: FrameNo, offset: usize, new: &[u8]) {
    let mut buf = [0; BYTES_MAX];
    let old = &mut buf[..new.len()];
    arena.load(frame, offset, old);
    arena.enter(frame);
    arena.fold(frame, crc64::delta(offset, old, new));
    arena.copy(frame, offset, new);
    arena.leave(frame);
}
