//! What stands twice in page 0 of a memory file that outlives its server (S-14.10): a stray write of up to 64 bytes leaves one
//! of both.

use keepfs_memory::Region;

/// From the first place to the second, bytes.
pub const APART: usize = 2048;

/// What was found at the two places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found<T> {
    /// Both are right; the first one's.
    Both(T),
    /// One of them was changed; the other one's.
    One(T),
    /// Neither is right.
    Neither,
}

impl<T> Found<T> {
    /// Of what the places have, if they are right. The first is never older.
    pub fn of(first: Option<T>, second: Option<T>) -> Found<T> {
        match (first, second) {
            (Some(first), Some(_)) => Found::Both(first),
            (Some(one), None) | (None, Some(one)) => Found::One(one),
            (None, None) => Found::Neither,
        }
    }

    /// What is right.
    pub fn right(self) -> Option<T> {
        match self {
            Found::Both(right) | Found::One(right) => Some(right),
            Found::Neither => None,
        }
    }
}

/// Stores `bytes` at both places.
pub fn store(region: &Region, at: usize, bytes: &[u8]) {
    region.store(at, bytes);
    region.store(at + APART, bytes);
}

/// What `read` makes of the bytes at both places. A server that stored them once left zeros at the second.
pub fn found<const N: usize, T>(region: &Region, at: usize, read: impl Fn(&[u8; N]) -> Option<T>) -> Found<T> {
    let load = |at| {
        let mut bytes = [0; N];
        region.load(at, &mut bytes);
        bytes
    };
    let (first, second) = (load(at), load(at + APART));
    match (read(&first), read(&second)) {
        (Some(only), None) if second == [0; N] => Found::Both(only),
        (first, second) => Found::of(first, second),
    }
}
