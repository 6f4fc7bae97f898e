//! A change of a frame's bytes, cut into the units that parity is made of: words, lines, columns.

use crate::FRAME;
use crate::crc64::word_of;

/// Hands `each` the XOR of every aligned word (0..512) that the change touches, ascending; bytes outside the change
/// are zero.
///
/// # Panics
/// If `old` and `new` differ in length or reach beyond the frame.
#[inline]
pub(crate) fn words(offset: usize, old: &[u8], new: &[u8], mut each: impl FnMut(usize, u64)) {
    check(offset, old, new);
    let within = offset % 8;
    let head = if within == 0 { 0 } else { new.len().min(8 - within) };
    let (old_head, old) = old.split_at(head);
    let (new_head, new) = new.split_at(head);
    let mut index = offset / 8;
    if head > 0 {
        each(index, (word_of(old_head) ^ word_of(new_head)) << (8 * within));
        index += 1;
    }
    let (old, old_tail) = old.as_chunks::<8>();
    let (new, new_tail) = new.as_chunks::<8>();
    for (old, new) in old.iter().zip(new) {
        each(index, u64::from_le_bytes(*old) ^ u64::from_le_bytes(*new));
        index += 1;
    }
    if !new_tail.is_empty() {
        each(index, word_of(old_tail) ^ word_of(new_tail));
    }
}

/// As [`words`], for the columns of 16 bytes (0..256).
#[inline]
pub(crate) fn columns(offset: usize, old: &[u8], new: &[u8], mut each: impl FnMut(usize, u128)) {
    check(offset, old, new);
    let (mut at, mut old, mut new) = (offset, old, new);
    while !new.is_empty() {
        let within = at % 16;
        let len = new.len().min(16 - within);
        let (old_part, old_rest) = old.split_at(len);
        let (new_part, new_rest) = new.split_at(len);
        each(at / 16, (column_of(old_part) ^ column_of(new_part)) << (8 * within));
        (at, old, new) = (at + len, old_rest, new_rest);
    }
}

/// Up to 16 bytes, little-endian, zero-extended.
#[inline]
fn column_of(bytes: &[u8]) -> u128 {
    match bytes.split_first_chunk::<8>() {
        Some((low, high)) => u128::from(u64::from_le_bytes(*low)) | u128::from(word_of(high)) << 64,
        None => u128::from(word_of(bytes)),
    }
}

#[inline]
pub(crate) fn check(offset: usize, old: &[u8], new: &[u8]) {
    assert_eq!(old.len(), new.len(), "old and new bytes differ in length");
    assert!(
        offset <= FRAME && new.len() <= FRAME - offset,
        "change reaches beyond its frame"
    );
}

#[cfg(test)]
mod tests;
