//! How bytes go into a region and out of it: by words, and before and behind them by halves, quarters and eighths of one,
//! each with one atomic.
//!
//! Invariant:
//! P-1 An address is a multiple of the length of what is loaded or stored there: a part that is wanted before the first word
//!     and is longer than what is left is left out, and then nothing as long as it follows.

use crate::sys::{byte, word16, word32, word64};
use core::sync::atomic::Ordering::Relaxed;

/// Copies bytes out of memory from an address on where they may be read.
#[inline(never)]
pub(crate) fn load_at(mut at: usize, mut rest: &mut [u8]) {
    if at & 7 != 0 {
        if at & 1 != 0 {
            rest = load_part(&mut at, rest, |at| byte(at).load(Relaxed).to_ne_bytes());
        }
        if at & 2 != 0 {
            rest = load_part(&mut at, rest, |at| word16(at).load(Relaxed).to_ne_bytes());
        }
        if at & 4 != 0 {
            rest = load_part(&mut at, rest, |at| word32(at).load(Relaxed).to_ne_bytes());
        }
    }
    debug_assert!(rest.len() < 8 || at.is_multiple_of(8));
    let (fours, rest) = rest.as_chunks_mut();
    load_fours(at, fours);
    at += size_of_val(fours);
    let (words, rest) = rest.as_chunks_mut();
    for word in words {
        *word = word64(at).load(Relaxed).to_ne_bytes();
        at += 8;
    }
    if rest.is_empty() {
        return;
    }
    let rest = load_part(&mut at, rest, |at| word32(at).load(Relaxed).to_ne_bytes());
    let rest = load_part(&mut at, rest, |at| word16(at).load(Relaxed).to_ne_bytes());
    load_part(&mut at, rest, |at| byte(at).load(Relaxed).to_ne_bytes());
}

/// Copies four words at a time out of memory from an aligned address on, which stays in registers. All of it may be read, so
/// that no sum is beyond the last address.
#[inline(always)]
pub(crate) fn load_fours(mut at: usize, fours: &mut [[u8; 32]]) {
    for four in fours {
        let (words, _) = four.as_chunks_mut();
        for (i, word) in words.iter_mut().enumerate() {
            *word = word64(at.wrapping_add(8 * i)).load(Relaxed).to_ne_bytes();
        }
        at = at.wrapping_add(32);
    }
}

/// The first `N` bytes, if there are so many; returns the others.
#[inline(always)]
fn load_part<'b, const N: usize>(at: &mut usize, rest: &'b mut [u8], load: impl Fn(usize) -> [u8; N]) -> &'b mut [u8] {
    if rest.len() < N {
        return rest;
    }
    debug_assert!(at.is_multiple_of(N));
    let (part, left) = rest.split_at_mut(N);
    part.copy_from_slice(&load(*at));
    *at += N;
    left
}

/// Stores bytes from an address on where they may be written. Inlined, so that nobody saves the address (W-3).
#[inline(always)]
pub(crate) fn store_at(mut at: usize, mut rest: &[u8]) {
    if at & 7 != 0 {
        if at & 1 != 0 {
            rest = store_part(&mut at, rest, |at, part| {
                byte(at).store(u8::from_ne_bytes(part), Relaxed)
            });
        }
        if at & 2 != 0 {
            rest = store_part(&mut at, rest, |at, part| {
                word16(at).store(u16::from_ne_bytes(part), Relaxed)
            });
        }
        if at & 4 != 0 {
            rest = store_part(&mut at, rest, |at, part| {
                word32(at).store(u32::from_ne_bytes(part), Relaxed)
            });
        }
    }
    debug_assert!(rest.len() < 8 || at.is_multiple_of(8));
    let (words, rest) = rest.as_chunks();
    for word in words {
        word64(at).store(u64::from_ne_bytes(*word), Relaxed);
        at += 8;
    }
    if rest.is_empty() {
        return;
    }
    let rest = store_part(&mut at, rest, |at, part| {
        word32(at).store(u32::from_ne_bytes(part), Relaxed)
    });
    let rest = store_part(&mut at, rest, |at, part| {
        word16(at).store(u16::from_ne_bytes(part), Relaxed)
    });
    store_part(&mut at, rest, |at, part| {
        byte(at).store(u8::from_ne_bytes(part), Relaxed)
    });
}

/// The first `N` bytes, if there are so many; returns the others.
#[inline(always)]
fn store_part<'b, const N: usize>(at: &mut usize, rest: &'b [u8], store: impl Fn(usize, [u8; N])) -> &'b [u8] {
    match rest.split_first_chunk() {
        Some((part, left)) => {
            debug_assert!(at.is_multiple_of(N));
            store(*at, *part);
            *at += N;
            left
        }
        None => rest,
    }
}

#[cfg(test)]
mod tests;
