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

    /// The page goes elsewhere: the reservation has it no more. With `refused`, the device did not take its bytes, and
    /// nobody is given it again while the pool is open (S-7.6).
    pub fn leave(&mut self, page: u64, refused: bool) {
        crate::space::leave_run(&mut self.runs, page);
        self.store.space.leave(page, refused);
        if refused {
            self.store.tell_refused(page);
        }
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
    /// Picks `pages` free pages, in the open zones and in as few runs as they offer. What is in quarantine is set free
    /// by a sync if need be; full zones are switched with a checkpoint; the last pages of a pool come from any zone.
    /// Call it outside transactions. Errors: [`Error::NoSpace`].
    pub fn reserve(&self, pages: u32, purpose: Purpose) -> Result<Reservation<'_>, Error> {
        self.alive()?;
        let (mut synced, mut switched) = (false, false);
        loop {
            match self.space.reserve(pages, purpose) {
                Ok(runs) => {
                    if self.space.zones()[0].1 {
                        self.want_checkpoint();
                    }
                    return Ok(Reservation { store: self, runs });
                }
                Err(Refused::NoSpace) => {
                    let enough = self.space.figures().obtainable(purpose) >= u64::from(pages);
                    if synced || !enough {
                        return Err(Error::NoSpace);
                    }
                    self.sync()?;
                    synced = true;
                }
                Err(Refused::Zones) if !switched => {
                    self.switch_zones.store(true, Ordering::Release);
                    self.checkpoint()?;
                    switched = true;
                }
                Err(Refused::Zones) => return self.gather(pages),
            }
        }
    }

    /// There are so many pages, but not in two zones: what the open ones have, the rest wherever it is.
    fn gather(&self, pages: u32) -> Result<Reservation<'_>, Error> {
        let runs = self.space.reserve_some(pages);
        let mut all = Reservation { store: self, runs };
        loop {
            let got: u32 = all.runs.iter().map(|run| run.count).sum();
            if got >= pages {
                return Ok(all);
            }
            let more = self.reserve_elsewhere(pages - got);
            if more.is_empty() {
                return Err(Error::NoSpace);
            }
            all.runs.extend(more);
        }
    }

    /// The device refused to write this allocated page: once it is free, nobody is given it while the pool is open.
    pub fn refuse(&self, page: u64) {
        self.space.refused(page);
        self.tell_refused(page);
    }

    fn tell_refused(&self, page: u64) {
        tracing::warn!(
            page,
            "the device refused to write this page; its data went elsewhere, and the page is not used again"
        );
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
