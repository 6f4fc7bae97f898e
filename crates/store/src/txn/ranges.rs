//! The ranges of a metablock that a transaction stores: they decide which bytes of which metablock are logged, so they have a
//! sum, which is compared when the redo is encoded (S-13.16).

use keepfs_format::MetaId;
use smallvec::SmallVec;

/// Ranges (from, to), merged, ascending, and the sum of all of them with the metablock.
#[derive(Default)]
pub(crate) struct Ranges {
    list: SmallVec<[(u16, u16); 6]>,
    sum: u64,
}

/// Spreads a number over 64 bits: of what is changed alike at two places the sums do not cancel, as those of a CRC would.
fn spread(number: u64) -> u64 {
    let x = (number ^ number >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

fn sum_of(&(from, to): &(u16, u16)) -> u64 {
    spread(1 << 32 | u64::from(from) << 16 | u64::from(to))
}

fn sum_of_block(id: MetaId, generation: u32) -> u64 {
    spread(id.0 ^ u64::from(generation).rotate_right(20))
}

impl Ranges {
    /// None yet, of the metablock `id` of this generation.
    pub fn of(id: MetaId, generation: u32) -> Ranges {
        Ranges {
            list: SmallVec::new(),
            sum: sum_of_block(id, generation),
        }
    }

    /// Inserts `from..to`, merged with those that it touches.
    pub fn insert(&mut self, from: u16, to: u16) {
        self.sum ^= sum_of(&(from, to));
        let list = &mut self.list;
        if list.last().is_none_or(|(_, end)| *end < from) {
            return list.push((from, to));
        }
        let first = list.partition_point(|(_, end)| *end < from);
        let last = list.partition_point(|(start, _)| *start <= to);
        // Not above it but where something else changed them.
        if first >= last {
            return list.insert(first, (from, to));
        }
        let merged = (from.min(list[first].0), to.max(list[last - 1].1));
        // By what they are now: one that is not what was inserted leaves the sum wrong.
        let before = self.sum ^ sum_of(&(from, to)) ^ sum_of(&merged);
        self.sum = list[first..last].iter().fold(before, |sum, range| sum ^ sum_of(range));
        list[first] = merged;
        list.drain(first + 1..last);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.sum = self.list.drain(..).fold(self.sum, |sum, range| sum ^ sum_of(&range));
    }

    /// Whether they are what was inserted, and of this metablock.
    pub fn are_right(&self, id: MetaId, generation: u32) -> bool {
        let found = self
            .list
            .iter()
            .fold(sum_of_block(id, generation), |sum, range| sum ^ sum_of(range));
        found == self.sum
    }

    /// A stray write.
    #[cfg(test)]
    pub fn scribble(&mut self, change: impl FnOnce(&mut [(u16, u16)])) {
        change(&mut self.list);
    }
}

impl core::ops::Deref for Ranges {
    type Target = [(u16, u16)];

    fn deref(&self) -> &[(u16, u16)] {
        &self.list
    }
}

#[cfg(test)]
mod tests;
