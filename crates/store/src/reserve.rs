//! Reservations: pages picked before the data is written, allocated by the transaction that names them.

use crate::Store;
use crate::error::Error;
use crate::space::{Purpose, Refused};
use core::sync::atomic::Ordering;
use keepfs_format::plog::Run;

/// Pages kept for overwriting on a full pool: two writes of the largest size that the kernel sends.
const OVERWRITING: u64 = 512;

/// Pages that nobody else is given. Released on drop unless kept.
pub struct Reservation<'s> {
    store: &'s Store,
    runs: Vec<Run>,
}

impl Reservation<'_> {
    /// The pages, in the order in which they are to be used.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The transaction that used all of them has committed.
    pub fn keep(mut self) {
        let runs = core::mem::take(&mut self.runs);
        self.store.space.keep(&runs);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.runs.is_empty() {
            self.store.space.give_back(&self.runs);
        }
    }
}

impl Store {
    /// Picks `pages` free pages in the open zones, in as few runs as they offer. Switches zones with a checkpoint if
    /// they are full. Call it outside transactions.
    pub fn reserve(&self, pages: u32, purpose: Purpose) -> Result<Reservation<'_>, Error> {
        self.alive()?;
        for _ in 0..3 {
            match self.space.reserve(pages, purpose) {
                Ok(runs) => {
                    if self.space.zones()[0].1 {
                        self.want_checkpoint();
                    }
                    return Ok(Reservation { store: self, runs });
                }
                Err(Refused::NoSpace) => break,
                Err(Refused::Zones) => {
                    self.switch_zones.store(true, Ordering::Release);
                    self.checkpoint()?;
                }
            }
        }
        // What is quarantined becomes free with a flush; only then is the pool really full.
        if self.space.figures().quarantined > 0 {
            self.sync()?;
            if let Ok(runs) = self.space.reserve(pages, purpose) {
                return Ok(Reservation { store: self, runs });
            }
        }
        Err(Error::NoSpace)
    }

    /// Sets how much is kept for checkpoints (PROTOCOLS section 6).
    ///
    /// `homed` metablocks have their homes. Beside two checkpoints something is kept for overwriting: until the free
    /// of the old pages is durable it needs new ones.
    pub(crate) fn set_reserve(&self, homes: &crate::homes::Homes, homed: u64) {
        let need = 2 * self.home_need(self.dirty_limit);
        let overwriting = OVERWRITING.min(self.pool.pages / 64);
        self.space
            .set_reserve(need.saturating_sub(homes.free()) + overwriting, homed);
    }

    /// A zone with the pages that `used` names taken.
    pub(crate) fn zone_with(&self, number: u64, used: &dyn Fn(u64) -> bool) -> crate::space::OpenZone {
        let (start, len) = self.pool.zone(number);
        crate::space::OpenZone::new(number, start, len, used)
    }
}
