//! What was found wrong in memory and what was done about it, as values and as events (S-15.15).

mod telling;

pub use telling::Place;
pub use telling::{Told, owner_of};

use crate::history::History;
use core::fmt;
use core::ops::Range;
use keepfs_codes::Verdict;
use keepfs_format::{MetaId, PAGE};
use keepfs_vault::locks::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Damages kept in memory; older ones are in the log of events only.
const KEPT: usize = 256;
/// Bytes of a stray write that an event shows.
const SHOWN: usize = 64;
/// Most bits that are told as flips.
const FLIPS_MAX: usize = 8;

/// What the code says was done to a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// One or two bits flipped, or up to eight that lie apart: byte in the frame, bit in the byte.
    Flips(Vec<(usize, u8)>),
    /// Somebody wrote.
    StrayWrite {
        /// Address of the first byte that changed, where everybody reads the arena.
        address: usize,
        /// The same as an offset in the frame.
        offset: usize,
        /// What stood there, the bytes between the first and the last that changed.
        old: Vec<u8>,
        /// What was found.
        new: Vec<u8>,
    },
    /// The parity was changed, the bytes are right.
    Parity,
    /// The sum was changed, the bytes are right.
    Sum,
    /// The control words named another metablock, the bytes are right.
    Words,
    /// The bytes are another metablock's.
    Misdirected(MetaId),
    /// A page with parts of two writes: sectors of its metablock behind the header of another one.
    Torn,
    /// The medium does not give it back.
    Medium,
    /// A transaction contradicted itself.
    Logic,
    /// It is not what its checksum says, and nothing tells more.
    Checksum,
    /// The checksum agrees with the bytes, and the keyed sum does not: somebody wrote, nobody can tell where (S-15.18).
    Hidden,
    /// The code cannot tell.
    Unknown,
}

impl Seen {
    /// From the code's verdict on these bytes, which lie at `address`; and the right bytes, where the verdict tells them.
    pub fn of(verdict: &Verdict, found: &[u8; PAGE], address: usize) -> (Seen, Option<[u8; PAGE]>) {
        let mut right = *found;
        let seen = match verdict {
            Verdict::Clean => Seen::Words,
            Verdict::ParityBad => Seen::Parity,
            Verdict::SumsBad => Seen::Sum,
            Verdict::Repair(repair) => {
                repair.apply(&mut right);
                Seen::between(&right, found, address)
            }
            Verdict::Ambiguous | Verdict::Uncorrectable => return (Seen::Unknown, None),
        };
        (seen, Some(right))
    }

    /// The verdict's number (S-18.5).
    pub fn number(&self) -> u8 {
        match self {
            Seen::Flips(_) => 1,
            Seen::StrayWrite { .. } => 2,
            Seen::Parity => 3,
            Seen::Sum => 4,
            Seen::Words => 5,
            Seen::Misdirected(_) => 6,
            Seen::Torn => 7,
            Seen::Medium => 8,
            Seen::Logic => 9,
            Seen::Checksum => 10,
            Seen::Hidden | Seen::Unknown => 11,
        }
    }

    /// Whether no more bytes are wrong than in a stray write of 64: of a page on the device nothing is said otherwise.
    pub fn is_small(right: &[u8; PAGE], found: &[u8; PAGE]) -> bool {
        right.iter().zip(found).filter(|(a, b)| a != b).count() <= SHOWN
    }

    /// From the bytes that should be there.
    pub fn between(right: &[u8; PAGE], found: &[u8; PAGE], address: usize) -> Seen {
        let flips = right.iter().zip(found).enumerate().flat_map(|(at, (a, b))| {
            let bits = a ^ b;
            (0..8).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| (at, bit))
        });
        let few: Vec<(usize, u8)> = flips.take(FLIPS_MAX + 1).collect();
        if few.len() <= 2 {
            return Seen::Flips(few);
        }
        let range = differing(right, found);
        match (lie_apart(&few), range.len() > SHOWN) {
            _ if few.len() > FLIPS_MAX => Seen::stray(range, right, found, address),
            (false, false) => Seen::stray(range, right, found, address),
            (true, true) if is_filled(&found[range.clone()]) => Seen::stray(range, right, found, address),
            (true, true) => Seen::Flips(few),
            // Who writes some bytes may change single bits of a few, too; and flips may be neighbours.
            _ => Seen::Unknown,
        }
    }

    /// Somebody wrote to `range`.
    fn stray(range: Range<usize>, right: &[u8; PAGE], found: &[u8; PAGE], address: usize) -> Seen {
        Seen::StrayWrite {
            address: address + range.start,
            offset: range.start,
            old: right[range.clone()].to_vec(),
            new: found[range].to_vec(),
        }
    }
}

/// Whether no two of these bits lie in one byte or in neighbours, as those of a write do.
fn lie_apart(flips: &[(usize, u8)]) -> bool {
    flips.windows(2).all(|two| two[1].0 > two[0].0 + 1)
}

/// Whether all bytes are the same: a write that fills changes what was another value, however few bits that is.
fn is_filled(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == bytes[0])
}

fn differing(a: &[u8; PAGE], b: &[u8; PAGE]) -> Range<usize> {
    let start = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(0);
    let end = a.iter().zip(b).rposition(|(a, b)| a != b).map_or(0, |last| last + 1);
    start..end
}

/// What was done about it; the numbers are those of S-18.5.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// The code has repaired the frame.
    Repaired = 1,
    /// The bytes were right; parity and sum were made anew from the witness (S-15.24).
    SumsRebuilt = 2,
    /// The content was made anew from the device, the log and the transactions since (S-15.24).
    Rebuilt = 3,
    /// The frame was clean; it was read again from the device.
    ReadAgain = 4,
    /// The other copy on the device was taken.
    OtherCopy = 5,
    /// The frame was clean and on its way out; it was dropped.
    Dropped = 6,
    /// The transaction was rolled back.
    RolledBack = 7,
    /// What needs the metablock gets EIO (S-15.17).
    Fenced = 8,
    /// Nothing can be done: writing to the pool has ended.
    Ended = 9,
    /// Nothing can be done: reading it is an error.
    Nothing = 10,
    /// Nothing can be done here: this server ends, and the next one makes its memory anew (S-16.8).
    HandedOn = 11,
}

/// A frame that did not verify.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// Which metablock.
    pub id: MetaId,
    /// In which frame.
    pub frame: u32,
    /// What the code says.
    pub seen: Seen,
    /// Whose it is, 0 = of no single file.
    pub owner: u64,
    /// Milliseconds since it was last seen to be right, if anybody knows.
    pub window_ms: Option<u32>,
}

impl Damage {
    /// The same, where the frame's bytes are right, and parity or sums are not.
    pub fn of_sums(self, right: &[u8; PAGE]) -> Damage {
        Damage {
            seen: Seen::Sum,
            ..self.owned(right)
        }
    }

    /// The same, whose owner the right bytes tell.
    pub fn owned(self, right: &[u8; PAGE]) -> Damage {
        Damage {
            owner: owner_of(self.id, Some(right)),
            ..self
        }
    }

    /// The same, with the right bytes known from elsewhere: they tell what the code cannot.
    pub fn against(self, found: &[u8; PAGE], right: &[u8; PAGE], address: usize) -> Damage {
        let damage = self.owned(right);
        match damage.seen {
            Seen::Hidden | Seen::Unknown | Seen::Sum if found != right => Damage {
                seen: Seen::between(right, found, address),
                ..damage
            },
            _ => damage,
        }
    }
}

/// Bytes in hexadecimal, not too many of them.
struct Hex<'b>(&'b [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(SHOWN).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(if self.0.len() > SHOWN { "…" } else { "" })
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Seen::Flips(flips) => {
                f.write_str("bit flip:")?;
                flips
                    .iter()
                    .try_for_each(|(byte, bit)| write!(f, " byte {byte} bit {bit}"))
            }
            Seen::StrayWrite {
                address,
                offset,
                old,
                new,
            } => write!(
                f,
                "stray write: {} bytes at address {address:#x} (offset {offset}), old {}, new {}",
                new.len(),
                Hex(old),
                Hex(new)
            ),
            Seen::Parity => f.write_str("the parity was changed, the bytes are right"),
            Seen::Sum => f.write_str("the checksum was changed, the bytes are right"),
            Seen::Words => f.write_str("the control words were changed, the bytes are right"),
            Seen::Misdirected(other) => write!(f, "misdirected: there stands {other}"),
            Seen::Torn => f.write_str("torn: a part of a write"),
            Seen::Medium => f.write_str("the medium cannot be read"),
            Seen::Logic => f.write_str("a logic bug"),
            Seen::Checksum => f.write_str("not what its checksum says"),
            Seen::Hidden => {
                f.write_str("unknown: a stray write that leaves the checksum as it is, or one into the keyed sum")
            }
            Seen::Unknown => f.write_str("unknown: more than the code can tell"),
        }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Done::Repaired => "repaired by the code",
            Done::SumsRebuilt => "the bytes are what device and log tell; parity and sum were made anew from them",
            Done::Rebuilt => "made anew from the device, the log and the transactions since",
            Done::ReadAgain => "read again from the device, which has it whole",
            Done::OtherCopy => "the other copy is whole; the next checkpoint writes this one anew",
            Done::Dropped => "dropped, the device has it whole",
            Done::RolledBack => "taken back; nothing of it was written",
            Done::Fenced => "not repaired; what needs it gets EIO, all else goes on",
            Done::Ended => "not repaired; nothing is written any more",
            Done::Nothing => "not repaired; reading it is an error",
            Done::HandedOn => "not repaired; this server ends, and the next one makes its memory anew",
        })
    }
}

/// What happened, as it is told and kept.
pub struct Events {
    /// What was found wrong in frames.
    pub damages: Damages,
    /// What the pool keeps (S-18.3).
    pub history: Arc<History>,
    /// What staged data were lost.
    staged: StagedLosses,
}

/// Losses of staged pages, which whoever is above the store is told of.
#[derive(Default)]
struct StagedLosses {
    seen: AtomicBool,
    tell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Events {
    /// Of a pool of which nothing was told yet.
    pub fn of(history: History) -> Events {
        Events {
            damages: Damages::default(),
            history: Arc::new(history),
            staged: StagedLosses::default(),
        }
    }
}

impl Events {
    /// A staged page is lost.
    fn lost_staged(&self) {
        self.staged.seen.store(true, Ordering::Release);
        if let Some(tell) = self.staged.tell.get() {
            tell();
        }
    }

    /// Whether this server has lost a staged page, or found that it is lost when it took over (S-14.6).
    pub fn has_lost_staged(&self) -> bool {
        self.staged.seen.load(Ordering::Acquire)
    }

    /// From here on `tell` is called whenever a staged page is lost; it must not wait, nor ask the store anything. Only the first one is.
    pub fn when_staged_is_lost(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.staged.tell.set(Box::new(tell));
    }
}

/// The last damages of frames.
#[derive(Default)]
pub struct Damages(Mutex<VecDeque<(Damage, Done)>>);

#[cfg(test)]
mod tests;
