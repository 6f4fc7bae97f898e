//! What is kept for checkpoints (SPEC S-10.9).

use keepfs_format::map::FANOUT;

/// Map pages and metablocks beyond those counted that a checkpoint may make: new levels of maps, HOMES of new chunks.
const SLACK: u64 = 8;

/// What checkpoints need at worst, in pages (SPEC S-10.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Need {
    /// Pages of each metablock.
    pub copies: u64,
    /// Most metablocks and map pages that wait for a checkpoint.
    pub limit: u64,
    /// All metablocks and map pages that have a home.
    pub settled: u64,
    /// HOMES metablocks and the map pages above them.
    pub homes: u64,
    /// Bitmaps, SHARES and others that may be used for the first time at any moment.
    pub tables: u64,
    /// Pages of chunks that are free.
    pub free: u64,
    /// Kept for overwriting.
    pub overwriting: u64,
}

impl Need {
    /// Pages that a checkpoint takes that writes `weight` metablocks and map pages anew.
    pub fn pages_for(&self, weight: u64) -> u64 {
        self.copies * (weight + self.homes + SLACK)
    }

    /// The weight for which `pages` of those free for data are enough, beside the free ones in chunks.
    pub fn weight_for(&self, pages: u64) -> u64 {
        ((self.free + pages) / self.copies.max(1)).saturating_sub(self.homes + Self::with_map(self.tables) + SLACK)
    }

    /// New metablocks with their part of the map.
    pub fn with_map(grown: u64) -> u64 {
        grown + grown.div_ceil(FANOUT / 2)
    }

    /// The greatest weight of a checkpoint: everything there is, but no more than may wait.
    pub fn most(&self, grown: u64) -> u64 {
        (self.settled + Self::with_map(self.tables + grown) + SLACK).min(self.limit)
    }

    /// Pages that must be free in chunks when a checkpoint begins that gives homes to `grown` metablocks, so that the
    /// one after it has what it needs.
    pub fn of_next(&self, grown: u64) -> u64 {
        let (most, born) = (self.most(grown), Self::with_map(self.tables + grown));
        // The eighth is for what is born between the reservation of chunks and the moment.
        self.pages_for(most) + self.copies * (born + most / 8)
    }

    /// Pages that are kept of those that are free for data.
    pub fn kept(&self, grown: u64) -> u64 {
        self.of_next(grown).saturating_sub(self.free) + self.overwriting
    }
}
