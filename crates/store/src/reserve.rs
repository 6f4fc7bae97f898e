//! Reservations: pages picked before the data is written, allocated by the transaction that names them.

use crate::crowd::Claiming;
use crate::error::Error;
use crate::home::Settling;
use crate::space::{Claim, Holder, Near, Need, Purpose, Refused};
use crate::{Flash, Store};
use core::ops::RangeInclusive;
use core::sync::atomic::Ordering;
use keepfs_flash::homes::Homes;
use keepfs_format::bitmap::{BITS, COUNTS};
use keepfs_format::plog::Run;

/// Pages kept for overwriting on a full pool, until the free of the old ones is durable: one of so many...
const OVERWRITING_PART: u64 = 64;
/// ...at least this, and no more than two writes of the largest size that the kernel sends.
const OVERWRITING_MIN: u64 = 8;
const OVERWRITING_MAX: u64 = 512;

/// How often a reservation that is refused makes frees durable and tries again: what there is for it then may be gone to others.
const TRIES: u32 = 8;

/// So much may always wait for a checkpoint: what one transaction changes on a small pool.
const REWRITE_LEAST: u64 = 24;

/// Pages that nobody else is given. Released on drop unless a transaction has allocated them.
pub struct Reservation<'s> {
    store: &'s Store,
    holder: Holder,
    runs: Vec<Run>,
    /// Of one with a claim, until it ends.
    claiming: Option<Claiming<'s>>,
}

impl<'s> Reservation<'s> {
    /// One of nothing yet, to add to.
    pub(crate) fn of(store: &'s Store, holder: Holder) -> Reservation<'s> {
        Reservation {
            store,
            holder,
            runs: Vec::new(),
            claiming: None,
        }
    }

    /// The pages, in the order in which they are to be used.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The page goes elsewhere: the reservation has it no more. With `refused`, the device did not take its bytes, and
    /// nobody is given it again while the pool is open (S-7.6).
    pub fn leave(&mut self, page: u64, refused: bool) {
        crate::space::leave_run(&mut self.runs, page);
        self.store.alloc.space.leave(self.holder, page, refused);
        if refused {
            tell_refused(page);
        }
    }

    /// More pages, taken from the open zones if they have so many, for a holder that has a claim to them.
    pub(crate) fn add(&mut self, pages: u32) -> Result<(), Error> {
        let (space, holder) = (&self.store.alloc.space, self.holder);
        match space.reserve(holder, pages, Purpose::Claimed, Near::Current) {
            Ok((runs, _)) => self.runs.extend(runs),
            // As many as there are.
            Err(_) => {
                let mut claim = space.claim_some(holder, pages, Purpose::Claimed);
                find(self.store, &mut claim, self)?;
            }
        }
        Ok(())
    }

    /// More pages, as many as there are of those at least `apart` from all of `near`.
    pub(crate) fn add_apart(
        &mut self,
        pages: u32,
        purpose: Purpose,
        near: RangeInclusive<u64>,
        apart: u64,
    ) -> Result<(), Error> {
        let mut claim = self.store.alloc.space.claim_some(self.holder, pages, purpose);
        self.store
            .home
            .flash()
            .take_apart(self.store, &mut claim, &near, apart, &mut self.runs)
    }

    /// How many pages it has.
    pub(crate) fn pages(&self) -> u64 {
        self.runs.iter().map(|run| u64::from(run.count)).sum()
    }

    /// A transaction that allocated each run of them has committed, which ended the reservation.
    pub fn allocated(mut self) {
        self.runs.clear();
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.runs.is_empty() {
            self.store.alloc.space.give_back(self.holder, &self.runs);
        }
    }
}

/// Pages that a file gives back and takes again: no new data gets them in between (S-20.3). Ends on drop.
pub struct Promised<'s> {
    store: &'s Store,
    left: u64,
}

impl<'s> Promised<'s> {
    /// So many.
    pub(crate) fn of(store: &'s Store, left: u64) -> Promised<'s> {
        Promised { store, left }
    }

    /// So many of them were taken.
    pub fn taken(&mut self, pages: u64) {
        let pages = pages.min(self.left);
        self.left -= pages;
        self.store.alloc.space.promise_back(pages);
    }
}

impl Drop for Promised<'_> {
    fn drop(&mut self) {
        self.taken(self.left);
    }
}

/// Picks `pages` free pages, in the open zones and in as few runs as they offer. What is in quarantine is set free
/// by a sync if need be; full zones are switched with a checkpoint; the last pages of a pool come from any zone.
/// Call it outside transactions. Errors: [`Error::NoSpace`] only if there are not so many (S-11.4).
pub(crate) fn reserve<'s>(
    store: &'s Store,
    pages: u32,
    purpose: Purpose,
    near: Near,
) -> Result<Reservation<'s>, Error> {
    store.ground.alive()?;
    let holder = store.alloc.space.holder();
    let claiming = (purpose == Purpose::Claimed).then(|| store.alloc.crowd.claiming());
    let mut switched = false;
    for _ in 0..TRIES {
        if let Some(mut all) = reserve_now(store, holder, pages, purpose, near, &mut switched)? {
            all.claiming = claiming;
            return Ok(all);
        }
        if store.alloc.space.figures().obtainable(purpose) < u64::from(pages) {
            break;
        }
        store.home.sync(store)?;
    }
    Err(Error::NoSpace)
}

/// The same of what is not in quarantine. `None`: there are not so many.
fn reserve_now<'s>(
    store: &'s Store,
    holder: Holder,
    pages: u32,
    purpose: Purpose,
    near: Near,
    switched: &mut bool,
) -> Result<Option<Reservation<'s>>, Error> {
    let mut asked = store.alloc.space.reserve(holder, pages, purpose, near);
    if asked == Err(Refused::Zones) && !core::mem::replace(switched, true) {
        store.alloc.switch_zones.store(true, Ordering::Release);
        match store.home.settle(store, Settling::Goes(None)).map(drop) {
            // One that has no space switches none.
            Ok(()) | Err(Error::NoSpace) => {}
            Err(error) => return Err(error),
        }
        asked = store.alloc.space.reserve(holder, pages, purpose, near);
    }
    match asked {
        Ok((runs, nearly_full)) => {
            if nearly_full {
                store.home.want_checkpoint();
            }
            let mut all = Reservation::of(store, holder);
            all.runs = runs;
            Ok(Some(all))
        }
        Err(Refused::NoSpace) => Ok(None),
        Err(Refused::Zones) => gather(store, holder, pages, purpose),
    }
}

/// There are so many pages, but not in two zones: what the open ones have, the rest wherever it is. `None`: there are not so
/// many any more, which is asked in the step that counts them (S-10.5, S-11.4).
pub(crate) fn gather<'s>(
    store: &'s Store,
    holder: Holder,
    pages: u32,
    purpose: Purpose,
) -> Result<Option<Reservation<'s>>, Error> {
    let Some(mut claim) = store.alloc.space.claim(holder, pages, purpose) else {
        return Ok(None);
    };
    let mut all = Reservation::of(store, holder);
    for _ in 0..TRIES {
        find(store, &mut claim, &mut all)?;
        if claim.left() == 0 {
            return Ok(Some(all));
        }
    }
    Ok(None)
}

/// Adds what the open zones have of the claim, and the rest from wherever it is.
pub(crate) fn find(store: &Store, claim: &mut Claim<'_>, all: &mut Reservation<'_>) -> Result<(), Error> {
    all.runs.extend(store.alloc.space.take_open(claim));
    store.home.flash().take_elsewhere(store, claim, &mut all.runs)
}

pub(crate) fn tell_refused(page: u64) {
    tracing::warn!(
        page,
        "the device refused to write this page; its data went elsewhere, and the page is not used again"
    );
}

impl Flash {
    /// What checkpoints need, with metadata as the last one left it.
    pub(crate) fn need(&self, store: &Store, homes: &Homes) -> Need {
        let copies = u64::from(store.ground.pool.meta_copies);
        Need {
            copies,
            limit: self.checkpoints.rewrite_limit,
            settled: homes.used().div_ceil(copies),
            homes: Need::with_map(homes.blocks() + 1),
            tables: store.ground.pool.pages.div_ceil(BITS)
                + store.ground.pool.pages.div_ceil(COUNTS)
                + 3
                + store.ground.pool.totals_blocks(),
            free: homes.free(),
            overwriting: (store.ground.pool.pages / OVERWRITING_PART).clamp(OVERWRITING_MIN, OVERWRITING_MAX),
        }
    }

    /// Sets how much is kept for checkpoints (S-10.9); the last one is durable.
    pub(crate) fn set_reserve(&self, store: &Store, homes: &Homes) {
        let need = self.need(store, homes);
        store.alloc.space.set_need(need);
        self.limit_by_space(store, &need);
    }

    /// Where less is free than is kept (the arena is larger than in the life before), less may wait for a checkpoint.
    pub(crate) fn limit_by_space(&self, store: &Store, need: &Need) {
        let claimable = store.alloc.space.figures().obtainable(Purpose::Claimed);
        let most = need.weight_for(claimable.saturating_sub(need.overwriting));
        self.checkpoints
            .rewrite_now
            .store(most.max(REWRITE_LEAST), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
