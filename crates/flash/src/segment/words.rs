//! The words of page 0: each twice, with its CRC (S-14.1, S-14.10, S-14.16).

use super::Segment;
use crate::twice::{APART, Found};
use core::sync::atomic::{Ordering, fence};
use keepfs_codes::crc64;

/// A word of page 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// Where the redo entries are that are kept, and the number of the last ([`crate::redo`]).
    Cursor,
    /// The last transaction whose redo was given up.
    Last,
    /// The last transaction of those that change staged pages that the staged slots hold.
    Followed,
    /// Whether writing has ended because the device failed.
    Fault,
    /// 1 + number of the code of the frames in the same set (S-2.6); 0: that of the superblock.
    Code,
    /// Generation of the superblock from whose log this life has refused groups (S-9.9); 0: it refused none.
    RefusedBehind,
    /// The first group that it refused.
    Refused,
}

/// Where the words begin.
const FIRST: usize = 64;
/// Where in the cursor the low bits of its number stand, and which they are.
const NUMBER_AT: u32 = 40;
const NUMBER: u64 = u64::MAX >> NUMBER_AT;
/// So much less than another number is one that is older.
const OLDER: u64 = 1 << 23;

impl Word {
    /// All, by their numbers.
    pub const ALL: [Word; 7] = [
        Word::Cursor,
        Word::Last,
        Word::Followed,
        Word::Fault,
        Word::Code,
        Word::RefusedBehind,
        Word::Refused,
    ];

    /// Its first place.
    pub const fn at(self) -> usize {
        FIRST + 16 * self as usize
    }

    /// Its only place in layout 2.
    pub const fn at_before(self) -> usize {
        FIRST + 8 * self as usize
    }

    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Word::Cursor => "cursor",
            Word::Last => "last",
            Word::Followed => "followed",
            Word::Fault => "fault",
            Word::Code => "code",
            Word::RefusedBehind => "refused behind",
            Word::Refused => "refused",
        }
    }
}

impl Segment {
    /// A word of page 0. `None`: it is right at neither place.
    pub fn word(&self, word: Word) -> Option<u64> {
        self.found(word).right()
    }

    /// The same, and whether one of its places was changed. Layout 2 has one place and no CRC: what stands there counts.
    pub fn found(&self, word: Word) -> Found<u64> {
        if self.is_former {
            return Found::Both(self.region.load_u64(word.at_before(), Ordering::Acquire));
        }
        let at = |at: usize| {
            let [value, check] = [at, at + 8].map(|at| self.region.load_u64(at, Ordering::Acquire));
            (self.check(word, value) == check).then_some(value)
        };
        match (at(word.at()), at(word.at() + APART)) {
            // No store leaves the second further on: the first is one that stood there before.
            (Some(first), Some(second)) if self.is_further(word, second, first) => Found::One(second),
            (first, second) => Found::of(first, second),
        }
    }

    /// Whether a word that is stored at `than` comes to be `value` later on: all of them only grow, the cursor in its number, of
    /// which it has the low bits.
    fn is_further(&self, word: Word, value: u64, than: u64) -> bool {
        if word != Word::Cursor {
            return value > than;
        }
        // Numbers before this one are behind all others.
        let last = self.word(Word::Last).unwrap_or(than >> NUMBER_AT);
        let [value, than] =
            [value, than].map(|word| (word >> NUMBER_AT).wrapping_sub(last).wrapping_add(OLDER) & NUMBER);
        value > than
    }

    /// Stores a word of page 0, behind everything that was stored before.
    pub fn set_word(&self, word: Word, value: u64) {
        if self.is_former {
            return self.region.store_u64(word.at_before(), value);
        }
        let pair = [value, self.check(word, value)].map(u64::to_le);
        for at in [word.at(), word.at() + APART] {
            fence(Ordering::Release);
            self.region.store_pair(at, pair);
        }
    }

    fn check(&self, word: Word, value: u64) -> u64 {
        crc64::two_more(self.seed, word as u64, value)
    }

    /// Whether the words are those of layout 2.
    pub fn is_former(&self) -> bool {
        self.is_former
    }

    /// What of page 0 was changed by something else, and whether its other place is right.
    pub fn changed(&self) -> Vec<(&'static str, bool)> {
        let header = self.header_changed.then_some(("header", true));
        let words = Word::ALL.into_iter().filter_map(|word| match self.found(word) {
            Found::Both(_) => None,
            Found::One(_) => Some((word.name(), true)),
            Found::Neither => Some((word.name(), false)),
        });
        header.into_iter().chain(words).collect()
    }
}

#[cfg(test)]
mod tests;
