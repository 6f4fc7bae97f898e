//! What was found wrong in memory and what was done about it, as values and as events (S-15.15).

use crate::Store;
use core::fmt;
use core::ops::Range;
use keepfs_codes::Verdict;
use keepfs_format::{MetaId, PAGE};
use parking_lot::Mutex;
use std::collections::VecDeque;

/// Damages kept in memory; older ones are in the log of events only.
const KEPT: usize = 256;
/// Bytes of a stray write that an event shows.
const SHOWN: usize = 64;

/// What the code says was done to a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// One or two bits flipped: byte in the frame, bit in the byte.
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
    /// The code cannot tell.
    Unknown,
}

impl Seen {
    /// From the code's verdict on these bytes, which lie at `address`.
    pub(crate) fn of(verdict: &Verdict, found: &[u8; PAGE], address: usize) -> Seen {
        match verdict {
            Verdict::Clean => Seen::Words,
            Verdict::ParityBad => Seen::Parity,
            Verdict::SumBad { .. } => Seen::Sum,
            Verdict::Repair(repair) => {
                let mut right = *found;
                repair.apply(&mut right);
                Seen::between(&right, found, address)
            }
            Verdict::Ambiguous | Verdict::Uncorrectable { .. } => Seen::Unknown,
        }
    }

    /// From the bytes that should be there.
    fn between(right: &[u8; PAGE], found: &[u8; PAGE], address: usize) -> Seen {
        let flips = right.iter().zip(found).enumerate().flat_map(|(at, (a, b))| {
            let bits = a ^ b;
            (0..8).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| (at, bit))
        });
        let few: Vec<(usize, u8)> = flips.take(3).collect();
        if few.len() <= 2 {
            return Seen::Flips(few);
        }
        let range = differing(right, found);
        Seen::StrayWrite {
            address: address + range.start,
            offset: range.start,
            old: right[range.clone()].to_vec(),
            new: found[range].to_vec(),
        }
    }
}

fn differing(a: &[u8; PAGE], b: &[u8; PAGE]) -> Range<usize> {
    let start = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or(0);
    let end = a.iter().zip(b).rposition(|(a, b)| a != b).map_or(0, |last| last + 1);
    start..end
}

/// What was done about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// The code has repaired the frame.
    Repaired,
    /// The frame was clean; it was read again from the device.
    ReadAgain,
    /// The frame was clean and on its way out; it was dropped.
    Dropped,
    /// Nothing can be done: writing to the pool has ended.
    Nothing,
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
}

impl Damage {
    /// The same, with the right bytes known from elsewhere: they tell what the code cannot.
    pub(crate) fn against(self, found: &[u8; PAGE], right: &[u8; PAGE], address: usize) -> Damage {
        match self.seen {
            Seen::Unknown if found != right => Damage {
                seen: Seen::between(right, found, address),
                ..self
            },
            _ => self,
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
            Seen::Unknown => f.write_str("unknown: more than the code can tell"),
        }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Done::Repaired => "repaired by the code",
            Done::ReadAgain => "read again from the device, which has it whole",
            Done::Dropped => "dropped, the device has it whole",
            Done::Nothing => "not repaired; nothing is written any more",
        })
    }
}

/// The last damages.
#[derive(Default)]
pub(crate) struct Damages(Mutex<VecDeque<(Damage, Done)>>);

impl Store {
    /// Tells a damage: as an event, and in [`Store::damages`].
    pub(crate) fn tell(&self, damage: &Damage, done: Done) {
        let (metablock, frame) = (damage.id, damage.frame);
        tracing::error!(%metablock, frame, verdict = %damage.seen, %done, "metadata in memory was changed by something else");
        let mut kept = self.damages.0.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back((damage.clone(), done));
    }

    /// What was found wrong in memory since the pool was opened, at most the last 256, oldest first.
    pub fn damages(&self) -> Vec<(Damage, Done)> {
        self.damages.0.lock().iter().cloned().collect()
    }
}
