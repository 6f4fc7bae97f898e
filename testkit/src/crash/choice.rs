//! Which units of a position a state keeps, numbered so that any state can be named by its index.

use std::fmt;
use std::sync::Arc;

use crate::sim::SECTOR;
use keepfs_media::PAGE;

/// Up to this many units every subset is taken.
const ALL_SUBSETS_UP_TO: usize = 10;
/// Random subsets beyond that.
const RANDOM_SUBSETS: u64 = 256;
/// Sectors of a page.
const SECTORS: usize = PAGE / SECTOR;
/// Ways to tear a page: first 1..=7, last 1..=7, all but one of the middle six.
const TEARS: u64 = (3 * SECTORS - 4) as u64;
/// What a torn page stands among: nothing, all earlier units, all units.
const SETTINGS: u64 = 3;

/// Which sectors of a torn page are new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tear {
    First(usize),
    Last(usize),
    Without(usize),
}

impl Tear {
    fn numbered(index: u64) -> Self {
        let index = index as usize;
        let each = SECTORS - 1;
        match index / each {
            0 => Tear::First(index + 1),
            1 => Tear::Last(index - each + 1),
            _ => Tear::Without(index - 2 * each + 1),
        }
    }

    fn is_new(self, sector: usize) -> bool {
        match self {
            Tear::First(count) => sector < count,
            Tear::Last(count) => sector >= SECTORS - count,
            Tear::Without(lost) => sector != lost,
        }
    }

    /// Copies the sectors that are new.
    pub(super) fn copy(self, new: &[u8; PAGE], into: &mut [u8; PAGE]) {
        let pairs = new.chunks(SECTOR).zip(into.chunks_mut(SECTOR));
        for (sector, (new, into)) in pairs.enumerate() {
            if self.is_new(sector) {
                into.copy_from_slice(new);
            }
        }
    }
}

impl fmt::Display for Tear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tear::First(count) => write!(f, "first {count} sectors new"),
            Tear::Last(count) => write!(f, "last {count} sectors new"),
            Tear::Without(lost) => write!(f, "all but sector {lost} new"),
        }
    }
}

/// Which units are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// The oldest so many.
    Prefix(usize),
    /// The newest so many.
    Suffix(usize),
    /// Those whose bit is set.
    Mask(u64),
    /// Only these (equal: one).
    Only(usize, usize),
    /// All but these (equal: one).
    AllBut(usize, usize),
    /// Those that a draw by this seed says.
    Random(u64),
}

/// The kept units and perhaps a torn one among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    kept: Kept,
    torn: Option<(usize, Tear)>,
}

impl Choice {
    fn whole(kept: Kept) -> Self {
        Self { kept, torn: None }
    }

    pub(super) fn prefix(count: usize) -> Self {
        Self::whole(Kept::Prefix(count))
    }

    pub(super) fn suffix(count: usize) -> Self {
        Self::whole(Kept::Suffix(count))
    }

    /// Whether unit `index` of `units` is kept, whole or torn.
    pub(super) fn keeps(self, index: usize, units: usize) -> bool {
        match self.kept {
            Kept::Prefix(count) => index < count,
            Kept::Suffix(count) => index + count >= units,
            Kept::Mask(mask) => mask >> index & 1 == 1,
            Kept::Only(a, b) => index == a || index == b,
            Kept::AllBut(a, b) => index != a && index != b,
            Kept::Random(seed) => mix(seed ^ index as u64) & 1 == 1,
        }
    }

    /// How unit `index` is torn, if it is.
    pub(super) fn tear_of(self, index: usize) -> Option<Tear> {
        self.torn.filter(|(unit, _)| *unit == index).map(|(_, tear)| tear)
    }

    pub(super) fn torn(self) -> Option<(usize, Tear)> {
        self.torn
    }
}

/// A bijective mixing of 64 bits (splitmix64).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ value >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ value >> 31
}

/// The numbered choices of a position.
#[derive(Clone, Debug)]
pub(super) struct Choices {
    units: usize,
    tearable: Arc<[usize]>,
    seed: u64,
}

impl Choices {
    pub(super) fn new(units: usize, tearable: Vec<usize>, seed: u64) -> Self {
        Self {
            units,
            tearable: tearable.into(),
            seed: mix(seed),
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.whole_count() + self.tearable.len() as u64 * TEARS * SETTINGS
    }

    /// The choice of number `index`: whole units first, torn pages after them.
    pub(super) fn get(&self, index: u64) -> Option<Choice> {
        let whole = self.whole_count();
        if index < whole {
            return Some(Choice::whole(self.whole(index)));
        }
        self.torn(index - whole)
    }

    /// Indices of at most `limit` choices.
    pub(super) fn sample(&self, limit: u64) -> impl Iterator<Item = u64> + use<> {
        let (count, seed, all) = (self.count(), self.seed, self.all_kept());
        let everything = count <= limit;
        (0..count.min(limit)).map(move |draw| match draw {
            _ if everything => draw,
            0 => 0,
            1 => all,
            _ => mix(seed ^ draw.rotate_left(17)) % count,
        })
    }

    /// The number of the choice that keeps everything.
    fn all_kept(&self) -> u64 {
        if self.units <= ALL_SUBSETS_UP_TO {
            return (1 << self.units) - 1;
        }
        self.units as u64
    }

    fn pairs(&self) -> u64 {
        let units = self.units as u64;
        units * (units + 1) / 2
    }

    fn whole_count(&self) -> u64 {
        if self.units <= ALL_SUBSETS_UP_TO {
            return 1 << self.units;
        }
        2 * (self.units as u64 + 1) + 2 * self.pairs() + RANDOM_SUBSETS
    }

    fn whole(&self, index: u64) -> Kept {
        if self.units <= ALL_SUBSETS_UP_TO {
            return Kept::Mask(index);
        }
        let ends = self.units as u64 + 1;
        let mut index = index;
        for (size, kept) in [
            (ends, (|_, i| Kept::Prefix(i as usize)) as fn(&Self, u64) -> Kept),
            (ends, |_, i| Kept::Suffix(i as usize)),
            (self.pairs(), |_, i| pair(i, Kept::Only)),
            (self.pairs(), |_, i| pair(i, Kept::AllBut)),
        ] {
            if index < size {
                return kept(self, index);
            }
            index -= size;
        }
        Kept::Random(mix(self.seed ^ index << 40))
    }

    fn torn(&self, index: u64) -> Option<Choice> {
        let unit = *self.tearable.get((index / (TEARS * SETTINGS)) as usize)?;
        let tear = Tear::numbered(index % TEARS);
        let kept = match index / TEARS % SETTINGS {
            0 => Kept::Only(unit, unit),
            1 => Kept::Prefix(unit + 1),
            _ => Kept::Prefix(self.units),
        };
        Some(Choice {
            kept,
            torn: Some((unit, tear)),
        })
    }
}

/// The pair (low <= high) of number `index` in the order (0,0) (0,1) (1,1) (0,2) (1,2) (2,2) ...
fn pair(index: u64, kept: fn(usize, usize) -> Kept) -> Kept {
    let high = ((8 * index + 1).isqrt() - 1) / 2;
    let low = index - high * (high + 1) / 2;
    kept(low as usize, high as usize)
}

#[cfg(test)]
mod tests;
