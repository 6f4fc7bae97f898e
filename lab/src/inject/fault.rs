//! The faults: what is done to bytes in memory and at rest. What each class stands for, and which verdicts are right.

use super::Dice;
use super::memory::Behind;
use core::fmt;
use keepfs_codes::{Code, Protection};
use keepfs_format::PAGE;
use std::io;

/// Bytes of a frame's control words, and where the identity stands in them; behind those of all frames lie the line sums, so
/// many bytes a frame (S-13.12, S-15.20).
const CONTROL: u64 = 64;
const IDENTITY: u64 = 16;
const LINE_SUMS: u64 = 128;
/// Longest write that the codes are made for (S-15.6).
const BURST: usize = 64;
/// Fields of a header that tell which metablock it is: id to generation (S-3.2).
const NAME: core::ops::Range<usize> = 8..28;

macro_rules! classes {
    ($( $(#[doc = $doc:literal])* $name:ident = $word:literal, [$($right:literal),*]; )*) => {
        /// A class of faults.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Class {
            $( $(#[doc = $doc])* $name, )*
        }

        impl Class {
            /// All of them.
            pub const ALL: &'static [Class] = &[$( Class::$name ),*];

            /// Its name in files and tables.
            pub fn word(self) -> &'static str {
                match self { $( Class::$name => $word, )* }
            }

            /// The verdicts that are right; `unknown` always is.
            pub fn right(self) -> &'static [&'static str] {
                match self { $( Class::$name => &[$($right),*], )* }
            }
        }
    };
}

classes! {
    /// One bit of a frame.
    Flip = "one bit", ["flip"];
    /// Two bits of a frame.
    TwoFlips = "two bits", ["flip"];
    /// Three to eight bits of a frame.
    Flips = "3 to 8 bits", ["flip"];
    /// 1 to 64 bytes of a frame.
    Stray = "stray 1-64 B", ["stray"];
    /// 65 to 4096 bytes.
    Large = "stray 65-4096 B", ["stray"];
    /// Bytes of a header's name of the metablock.
    Header = "stray in header", ["stray"];
    /// All bytes of another metablock.
    Copy = "other metablock", ["misdirected", "stray"];
    /// Parity of a frame.
    Parity = "parity", ["parity"];
    /// Sum of a frame.
    Sum = "sum", ["sum"];
    /// Whose frame it is.
    Words = "control words", ["words"];
    /// Bytes that the next legal write of an open transaction overwrites, all or in part.
    UnderPut = "under a legal put", ["stray"];
    /// A thread writes while others write legally to the same frame.
    Wild = "thread, legal puts", ["stray"];
    /// One or two bits of a copy at rest.
    RestFlip = "rest: bits", ["rotten"];
    /// 1 to 64 bytes of a copy.
    RestFew = "rest: 1-64 B", ["rotten"];
    /// More of it, or all.
    RestMany = "rest: 65-4096 B", ["rotten"];
    /// Sectors of what lay there before.
    RestTorn = "rest: torn", ["torn", "rotten"];
    /// Another metablock's page.
    RestCopy = "rest: other page", ["misdirected", "rotten"];
    /// The device cannot read it.
    RestMedium = "rest: read error", ["media"];
    /// Both copies are bad.
    RestBoth = "rest: both copies", ["rotten"];
    /// A page of a file.
    Data = "rest: file data", ["rotten"];
    /// A wrong value through the door: every checksum is right.
    Door = "wrong value, door", ["logic"];
    /// A planted logic bug.
    Planted = "planted logic bug", ["logic"];
}

impl Class {
    /// The one with this name.
    pub fn of(word: &str) -> Option<Class> {
        Class::ALL.iter().copied().find(|class| class.word() == word)
    }

    /// Whether a legal write may have taken the fault away before anybody looked.
    pub fn may_vanish(self) -> bool {
        matches!(self, Class::UnderPut | Class::Wild)
    }

    /// Whether all that was changed is in frames, so that the place told is to be the one changed.
    pub fn tells_place(self) -> bool {
        matches!(
            self,
            Class::Flip | Class::TwoFlips | Class::Flips | Class::Stray | Class::Large | Class::Header
        )
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Bytes that somebody writes by mistake: noise, a constant, or a copy of other bytes.
pub fn noise(len: usize, other: &[u8; PAGE], dice: &mut Dice) -> Vec<u8> {
    match dice.below(8) {
        0 => vec![0; len],
        1 => vec![0xff; len],
        2 => vec![dice.roll() as u8; len],
        3 => {
            let from = dice.below(PAGE - len + 1);
            other[from..from + len].to_vec()
        }
        _ => dice.bytes(len),
    }
}

/// Changes the bytes of a frame, or a page at rest, as the class says; `other` is what another metablock has. A write that
/// happens to leave all bytes of the other is a misdirected one by every sum, so only the classes that are leave them.
pub fn damage(class: Class, bytes: &mut [u8; PAGE], other: &[u8; PAGE], dice: &mut Dice) {
    let right = *bytes;
    over(class, bytes, other, dice);
    while bytes == other && !matches!(class, Class::Copy | Class::RestCopy) {
        *bytes = right;
        over(class, bytes, other, dice);
    }
}

fn over(class: Class, bytes: &mut [u8; PAGE], other: &[u8; PAGE], dice: &mut Dice) {
    match class {
        Class::Flip => flip(bytes, 1, dice),
        Class::TwoFlips => flip(bytes, 2, dice),
        Class::RestFlip => {
            let count = 1 + dice.below(2);
            flip(bytes, count, dice);
        }
        Class::Flips => {
            let count = 3 + dice.below(6);
            flip(bytes, count, dice);
        }
        Class::Stray | Class::RestFew | Class::RestBoth | Class::Wild | Class::UnderPut => {
            let len = 1 + dice.below(BURST);
            over_at(bytes, len, None, other, dice);
        }
        Class::Large | Class::RestMany => {
            let len = BURST + 1 + dice.below(PAGE - BURST);
            over_at(bytes, len, None, other, dice);
        }
        Class::Header => {
            let at = NAME.start + dice.below(NAME.len());
            let len = 1 + dice.below(NAME.end - at);
            over_at(bytes, len, Some(at), other, dice);
        }
        Class::Copy | Class::RestCopy => *bytes = *other,
        _ => {}
    }
}

fn over_at(bytes: &mut [u8; PAGE], len: usize, at: Option<usize>, other: &[u8; PAGE], dice: &mut Dice) {
    let at = at.unwrap_or_else(|| dice.below(PAGE - len + 1));
    let new = noise(len, other, dice);
    bytes[at..at + len].copy_from_slice(&new);
}

/// Different bits.
fn flip(bytes: &mut [u8; PAGE], count: usize, dice: &mut Dice) {
    let mut done: Vec<usize> = Vec::new();
    while done.len() < count {
        let bit = dice.below(PAGE * 8);
        if !done.contains(&bit) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            done.push(bit);
        }
    }
}

/// The regions that faults go into.
pub struct Regions {
    arena: Behind,
    sums: Behind,
    parity: Behind,
    /// Bytes of parity a frame.
    parity_len: usize,
    /// Frames of the arena.
    frames: u64,
}

impl Regions {
    /// Those of the store opened last.
    pub fn find(code: Protection) -> io::Result<Regions> {
        let arena = Behind::of("keepfs-arena")?;
        Ok(Regions {
            frames: arena.len / PAGE as u64,
            arena,
            sums: Behind::of("keepfs-sums")?,
            parity: Behind::of("keepfs-parity")?,
            parity_len: code.parity_len(),
        })
    }

    /// The bytes of a frame.
    pub fn frame(&self, frame: u32) -> io::Result<[u8; PAGE]> {
        let mut bytes = [0; PAGE];
        self.arena.read(u64::from(frame) * PAGE as u64, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes over some bytes of a frame.
    pub fn write(&self, frame: u32, at: usize, bytes: &[u8]) -> io::Result<()> {
        self.arena.write(u64::from(frame) * PAGE as u64 + at as u64, bytes)
    }

    /// Writes those bytes of a frame that are to be others, from the first to the last.
    pub fn change(&self, frame: u32, old: &[u8; PAGE], new: &[u8; PAGE]) -> io::Result<()> {
        let range = super::lines::Change::between(old, new).range;
        self.write(frame, range.start, &new[range])
    }

    /// A fault beside the frame: its parity, sum or identity. Whether anything changed.
    pub fn beside(&self, class: Class, frame: u32, dice: &mut Dice) -> io::Result<bool> {
        let frame = u64::from(frame);
        match class {
            Class::Parity if self.parity_len > 0 => {
                let len = 1 + dice.below(self.parity_len.min(BURST));
                let at = frame * self.parity_len as u64 + dice.below(self.parity_len - len + 1) as u64;
                change(&self.parity, at, &dice.bytes(len))
            }
            Class::Sum => {
                let line = 8 * dice.below(LINE_SUMS as usize / 8) as u64;
                let at = self.frames * CONTROL + frame * LINE_SUMS + line;
                change(&self.sums, at, &dice.bytes(8))
            }
            Class::Words => change(&self.sums, frame * CONTROL + IDENTITY, &dice.bytes(8)),
            _ => Ok(false),
        }
    }
}

fn change(region: &Behind, at: u64, new: &[u8]) -> io::Result<bool> {
    let mut old = vec![0; new.len()];
    region.read(at, &mut old)?;
    region.write(at, new)?;
    Ok(old != new)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by a run of 5,000: a stray write of 4,071 bytes of another metablock, told as misdirected.
    #[test]
    fn only_a_copy_leaves_all_of_another_metablock() {
        let other = [7; PAGE];
        let mut right = other;
        right[8..12].fill(1);
        let mut dice = Dice::new(1);
        for class in [
            Class::Stray,
            Class::Large,
            Class::Header,
            Class::RestFew,
            Class::RestMany,
        ] {
            for _ in 0..1000 {
                let mut bytes = right;
                damage(class, &mut bytes, &other, &mut dice);
                assert_ne!(bytes, other, "{class}");
            }
        }
        for class in [Class::Copy, Class::RestCopy] {
            let mut bytes = right;
            damage(class, &mut bytes, &other, &mut dice);
            assert_eq!(bytes, other);
        }
    }
}
