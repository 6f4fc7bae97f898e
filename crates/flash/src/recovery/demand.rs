//! How much memory a replay takes, found before any is taken (S-9.6): a log is not believed when it asks for more than
//! the pool that wrote it could have had (promise C-8).

use crate::error::Error;
use keepfs_format::bitmap::{self, BITS};
use keepfs_format::plog::{Record, Run};
use keepfs_format::{MetaId, Space};
use keepfs_pool::Pool;
use std::collections::HashSet;

/// Frames beside those that the replay changes: for clean ones to go on with.
const SPARE: u64 = 128;

/// Arenas made for a replay have a multiple of so many frames.
const STEP: u64 = 512;

/// Follows the records of a log.
pub struct Demand {
    /// Metablocks changed so far that are alive: all of them are dirty until the checkpoint behind the replay.
    changed: HashSet<MetaId>,
    /// Most of them at any time.
    most: u64,
    /// How many there may be.
    limit: u64,
}

impl Demand {
    /// Nothing so far.
    pub fn of(pool: &Pool) -> Demand {
        Demand {
            changed: HashSet::new(),
            most: 0,
            limit: pool.replay_most(),
        }
    }

    /// Follows one record. Errors: `Damaged` if so many metablocks could never have been dirty at once.
    pub fn see(&mut self, record: &Record) -> Result<(), Error> {
        match record {
            Record::Update { id, .. } => self.add(*id),
            Record::Birth { id, .. } => {
                self.add(*id)?;
                self.add(bitmap::bit(Space::NodeNumbers, id.index()).0)
            }
            Record::Death { id, .. } => {
                self.changed.remove(id);
                self.add(bitmap::bit(Space::NodeNumbers, id.index()).0)
            }
            Record::Alloc { space, run } | Record::Free { space, run } => self.add_run(*space, *run, BITS),
            Record::Ref { run, .. } => self.add_run(Space::Shares, *run, bitmap::COUNTS),
            _ => Ok(()),
        }
    }

    /// The metablocks of a space that a run of numbers touches, so many numbers each.
    fn add_run(&mut self, space: Space, run: Run, each: u64) -> Result<(), Error> {
        let last = run.start + u64::from(run.count).max(1) - 1;
        (run.start / each..=last / each).try_for_each(|index| self.add(MetaId::new(space, index)))
    }

    fn add(&mut self, id: MetaId) -> Result<(), Error> {
        self.changed.insert(id);
        self.most = self.most.max(self.changed.len() as u64);
        if self.most <= self.limit {
            return Ok(());
        }
        Err(Error::Damaged(format!(
            "the log changes more than {} metablocks at once, which no pool of this size can",
            self.limit
        )))
    }

    /// Frames that the replay needs: as many again for the map pages, in a few sizes.
    pub fn frames(&self) -> u64 {
        (2 * self.most + SPARE).next_multiple_of(STEP)
    }
}

#[cfg(test)]
mod tests;
