//! A slot of which one bit is wrong: its CRC tells which (S-2.27, S-2.28).

use super::{Content, Slot};
use keepfs_codes::burst::Burst;
use keepfs_codes::crc64;
use keepfs_format::superblock::{CRC_OFFSET, MAGIC, Superblock};
use keepfs_format::{FromBytes, PAGE};
use keepfs_vault::planted::{self, Bug};

/// A bit of a page: the byte, and its number in that.
pub type Bit = (usize, u8);

/// A slot that counts as if one bit of it were the other way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flipped {
    /// Its number.
    pub slot: usize,
    /// Its page.
    pub page: u64,
    /// The wrong bit.
    pub bit: Bit,
}

/// What stands in a slot, with its checksum right.
pub(super) struct Whole {
    pub sb: Superblock,
    /// The bit that was undone for that.
    pub undone: Option<Bit>,
}

/// Whether these bytes begin as a superblock but for one bit.
pub(super) fn begins(bytes: &[u8; PAGE]) -> bool {
    let turned = bytes.iter().zip(&MAGIC[..6]).map(|(a, b)| (a ^ b).count_ones());
    turned.sum::<u32>() <= 1
}

impl Whole {
    /// From the bytes of a slot. `None`: more than one bit is wrong, or it is no superblock.
    pub fn of(bytes: &[u8; PAGE]) -> Option<Box<Whole>> {
        let (mut bytes, stored) = (*bytes, u64::from_le_bytes(*bytes.last_chunk()?));
        let undone = match stored ^ crc64::full(&bytes[..CRC_OFFSET]) {
            0 => None,
            _ if planted::is(Bug::TornSlotTaken) => None,
            syndrome => Burst::find(syndrome, PAGE).filter(|run| run.wrong == 1).map(|run| {
                run.flip(&mut bytes);
                run.bits().next()
            })?,
        };
        let sb = Superblock::read_from_bytes(&bytes).ok()?;
        (sb.magic[..6] == MAGIC[..6]).then(|| Box::new(Whole { sb, undone }))
    }

    /// Whether another slot tells that what was undone here is not all that is wrong.
    fn is_denied_by(&self, other: &Whole) -> bool {
        self.undone.is_some() && self.sb.generation == other.sb.generation && self.sb != other.sb
    }
}

/// Of superblocks of one generation that differ those do not count that had to be mended.
pub(super) fn drop_denied(slots: &mut [Slot]) {
    let is_denied = |slot: &Slot| {
        let whole = slot.whole.as_ref();
        let others = || slots.iter().filter_map(|other| other.whole.as_ref());
        whole.is_some_and(|whole| others().any(|other| whole.is_denied_by(other)))
    };
    let denied: Vec<bool> = slots.iter().map(is_denied).collect();
    for (slot, _) in slots.iter_mut().zip(denied).filter(|(_, denied)| *denied) {
        (slot.content, slot.whole) = (Content::Damaged, None);
    }
}

/// The slots of which a bit was undone.
pub(super) fn of(slots: Vec<Slot>) -> Vec<Flipped> {
    let of = |slot: Slot| {
        Some(Flipped {
            slot: slot.number,
            page: slot.page,
            bit: slot.whole?.undone?,
        })
    };
    slots.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests;
