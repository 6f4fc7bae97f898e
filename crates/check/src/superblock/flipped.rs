//! What a slot holds of which one bit is wrong (S-2.27).

use super::Slot;
use crate::Page;
use keepfs_codes::burst::Burst;
use keepfs_codes::crc64;
use keepfs_format::superblock::{CRC_OFFSET, MAGIC, Superblock};
use keepfs_format::{FromBytes, PAGE};

/// A superblock whose CRC is right, and the byte of the bit that was the other way.
pub(super) type Sealed = (Superblock, Option<usize>);

/// Bits that differ between the begin of a page and that of every superblock.
pub(super) fn unlike(page: &Page) -> u32 {
    (0..6).map(|at| (page[at] ^ MAGIC[at]).count_ones()).sum()
}

/// A page as a superblock. `None`: it is none, or has more wrong bits.
pub(super) fn sealed(page: &Page) -> Option<Sealed> {
    if unlike(page) > 1 {
        return None;
    }
    let mut page = *page;
    let wrong = stored(&page) ^ crc64::full(&page[..CRC_OFFSET]);
    let mut byte = None;
    if wrong != 0 {
        let burst = Burst::find(wrong, PAGE)?;
        if burst.wrong.count_ones() != 1 {
            return None;
        }
        burst.flip(&mut page);
        byte = Some(burst.first / 8);
    }
    let sb = Superblock::read_from_bytes(&page).ok()?;
    (unlike(&page) == 0).then_some((sb, byte))
}

fn stored(page: &Page) -> u64 {
    u64::from_le_bytes(*page.last_chunk().unwrap_or(&[0; 8]))
}

/// Takes from the slots what one bit was undone for where another slot has another superblock of that generation.
pub(super) fn without_doubtful(slots: Vec<Slot>) -> Vec<Slot> {
    let all: Vec<Sealed> = slots
        .iter()
        .filter_map(|slot| slot.sealed.as_deref().copied())
        .collect();
    let is_doubtful = |(sb, byte): &Sealed| {
        let differs = |other: &Superblock| other.generation == sb.generation && other != sb;
        byte.is_some() && all.iter().any(|(other, _)| differs(other))
    };
    let keep = |slot: Slot| match slot.sealed.as_deref().is_some_and(is_doubtful) {
        true => Slot::of_none(slot.slot, slot.page),
        false => slot,
    };
    slots.into_iter().map(keep).collect()
}
