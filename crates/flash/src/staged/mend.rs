//! Storing what a witness tells of a staged page that is not what was staged (S-14.11, S-14.12).
//!
//! Invariant: what is stored is proved: it has the CRC that the slot's head tells, or is what the slot has where the head is not
//! right.

use super::slots::{self, Found, Head, Stored};
use super::witness::Told;
use super::{Key, Placed, Table};
use crate::segment::Segment;
use keepfs_format::PAGE;

/// What became of a page that was to be mended.
pub enum Outcome {
    /// Something else is staged by now, or somebody else has mended it.
    Moved,
    /// It is right; this is what was found.
    Mended(Box<[u8; PAGE]>),
    /// The witness does not tell what was staged.
    Unproved,
}

/// Whether `page` is what was staged in a slot whose head tells `crc`, if it tells anything (M-1).
pub fn is_proved(segment: &Segment, slot: u32, crc: Option<u32>, page: &[u8; PAGE], found: &[u8; PAGE]) -> bool {
    let fits = !segment.is_small(slot) || slots::is_small(page);
    fits && crc.map_or(found == page, |crc| crc == slots::checksum(segment, slot, page))
}

/// What a slot has of a page.
pub fn found_in(segment: &Segment, slot: u32) -> Box<[u8; PAGE]> {
    let mut found = Box::new([0; PAGE]);
    segment.load_page(slot, &mut found);
    found
}

impl Table {
    /// Stores what a witness tells of a page, if that is still `placed` and this proves it.
    pub fn mend(&mut self, key: Key, placed: &Placed, told: &Told) -> Outcome {
        let segment = self.slots.segment();
        let is_right = |page: &mut [u8; PAGE]| slots::load(segment, key, placed, page).is_some();
        if self.pages.get(&key) != Some(placed) || is_right(&mut [0; PAGE]) {
            return Outcome::Moved;
        }
        let found = found_in(segment, placed.slot);
        let crc = match self.slots.found(placed.slot) {
            Found::Page(head, crc) if head.key == key && head.stamp == placed.stamp && !head.damaged => Some(crc),
            _ => None,
        };
        if !is_proved(segment, placed.slot, crc, &told.page, &found) {
            return Outcome::Unproved;
        }
        segment.store_page(placed.slot, &told.page);
        if crc.is_none() {
            let head = Head {
                version: told.version,
                damaged: false,
                first: placed.first,
                ..slots::unknown(key, placed.based, placed.stamp)
            };
            self.slots.name(&head, &Stored::there(segment, placed.slot, &told.page));
        }
        match is_right(&mut [0; PAGE]) {
            true => Outcome::Mended(found),
            false => Outcome::Unproved,
        }
    }

    /// A page that is still `placed` is lost. `None`: something else is staged by now; `Some(false)`: it was known.
    pub fn lose_placed(&mut self, key: Key, placed: &Placed) -> Option<bool> {
        (self.pages.get(&key) == Some(placed)).then(|| self.lose(key.0, key.1))
    }
}
