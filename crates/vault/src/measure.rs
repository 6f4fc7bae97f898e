//! What the steps of a put cost, for the lab (BARS M-4). Only with the feature `measure`.

mod raw;

pub use raw::{Way, writes};

use crate::arena::{Arena, UNBOUND};
use crate::error::Error;
use crate::undo::{Change, Undo, UndoLog};
use crate::update;
use keepfs_codes::identity::Group;
use keepfs_codes::{Protection, crc64};
use keepfs_format::PAGE;
use keepfs_memory::Guard;
use std::time::Instant;

/// Puts that are timed together.
const BATCH: usize = 100;
/// Frames that the puts go to.
const FRAMES: u32 = 16;

/// Nanoseconds of each step: the least of many trials.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// The old bytes are read and compared.
    pub read_ns: f64,
    /// The CRC-64 delta.
    pub delta_ns: f64,
    /// Step 1: the undo record.
    pub undo_ns: f64,
    /// Steps 2 and 6: the frame word.
    pub word_ns: f64,
    /// Steps 3 and 4: sum and parity.
    pub fold_ns: f64,
    /// Step 5.
    pub copy_ns: f64,
    /// The changed range joins those of the transaction.
    pub dirty_ns: f64,
    /// A whole put.
    pub put_ns: f64,
}

/// The steps of a put of `len` bytes under `code` and `guard`, each the least of so many trials. What a transaction does with
/// the range that was changed is `joins`, told which put it is and where. Errors: `Memory`.
pub fn put(
    code: Protection,
    guard: Guard,
    len: usize,
    trials: usize,
    joins: &mut dyn FnMut(usize, usize),
) -> Result<Steps, Error> {
    let arena = Arena::protected(FRAMES, guard, false, code)?;
    let undo = UndoLog::new(guard, false)?;
    for frame in 0..FRAMES {
        arena.fill(frame, &[0; PAGE], crc64::of_zeros());
    }
    let place = |i: usize| (i as u32 % FRAMES, 32 + i * 72 % (PAGE - 32 - len));
    let (old, mut new) = (vec![0; len], vec![0; len]);
    let least = |step: &mut dyn FnMut(usize)| least(trials, step);
    let mut buffer = vec![0; len];
    let read_ns = least(&mut |i| {
        let (frame, offset) = place(i);
        arena.load_raw(frame, offset, &mut buffer);
        std::hint::black_box(buffer == new);
    });
    fill(&mut new, 1);
    let delta_ns = least(&mut |i| {
        std::hint::black_box(crc64::delta(place(i).1, &old, &new));
    });
    let mut slot = undo.open();
    let undo_ns = least(&mut |i| {
        if i == 0 {
            slot = undo.open();
        }
        let (frame, offset) = place(i);
        let kept = slot.keep(&Change {
            undo: Undo::Bytes,
            frame,
            offset,
            delta: 1,
            old: &old,
            new: &new,
        });
        std::hint::black_box(kept.is_ok());
    });
    let word_ns = least(&mut |i| {
        arena.enter(place(i).0);
        arena.leave(place(i).0);
    });
    let fold_ns = least(&mut |i| {
        let (frame, offset) = place(i);
        arena.fold(frame, Group::Bitmap, (offset, &old, &new), 77);
    });
    let copy_ns = least(&mut |i| {
        let (frame, offset) = place(i);
        arena.copy(frame, offset, &new);
    });
    let dirty_ns = least(&mut |i| joins(i, place(i).1));
    // Not what the steps before left: sums that do not fit, and a put that changes nothing.
    for frame in 0..FRAMES {
        arena.fill(frame, &[0; PAGE], crc64::of_zeros());
    }
    let mut count = 1u8;
    let mut failed = None;
    let put_ns = least(&mut |i| {
        if i == 0 {
            slot = undo.open();
            count = count.wrapping_add(1);
            fill(&mut new, count);
        }
        let (frame, offset) = place(i);
        failed = update::put_anywhere(&arena, &mut slot, (UNBOUND, Group::Bitmap, frame), offset, &new).err();
    });
    match failed {
        Some(e) => Err(e),
        None => Ok(Steps {
            read_ns,
            delta_ns,
            undo_ns,
            word_ns,
            fold_ns,
            copy_ns,
            dirty_ns,
            put_ns,
        }),
    }
}

/// Bytes of which no two lines cancel in the parity, others for each `count`.
fn fill(bytes: &mut [u8], count: u8) {
    let factor = count.wrapping_mul(2) | 1;
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = (i as u8 ^ (i / 64) as u8).wrapping_add(1).wrapping_mul(factor);
    }
}

/// Nanoseconds of one call in the fastest of `trials` batches.
fn least(trials: usize, step: &mut dyn FnMut(usize)) -> f64 {
    let mut least = f64::MAX;
    for _ in 0..trials {
        let begun = Instant::now();
        (0..BATCH).for_each(&mut *step);
        least = least.min(begun.elapsed().as_nanos() as f64 / BATCH as f64);
    }
    least
}
