//! Which zones are open: two at a time, listed in the superblock, switched with a checkpoint (SPEC S-2.4).

use crate::error::Error;
use crate::space::{Claim, OpenZone, Settled};
use crate::{Flash, Store};
use core::ops::RangeInclusive;
use core::sync::atomic::Ordering;
use keepfs_flash::gate::Closed;
use keepfs_format::bitmap::BITS;
use keepfs_format::plog::Run;
use keepfs_format::{MetaId, PAGE, Space, bitmap};
use keepfs_frames::Pin;
use keepfs_pool::Pool;

/// How many zones are looked at before the best so far is taken, if there is one.
const LOOKS: usize = 64;

/// A zone with the pages that `used` names taken.
pub(crate) fn zone_with(pool: &Pool, number: u64, used: &dyn Fn(u64) -> bool) -> OpenZone {
    let (start, len) = pool.zone(number);
    OpenZone::new(number, start, len, used)
}

impl Flash {
    /// Which of `len` pages from `start` on may not be handed out: those that are allocated, and those that belong to the
    /// pool itself, whatever the page bitmap says (C-8).
    fn taken(&self, store: &Store, start: u64, len: u32) -> Result<Vec<bool>, Error> {
        let end = start + u64::from(len);
        let mut taken = Vec::with_capacity(len as usize);
        let mut copy = Box::new([0; PAGE]);
        for block in start / BITS..=(start + u64::from(len).max(1) - 1) / BITS {
            let pin = self.fetch_named(&store.frames, MetaId::new(Space::Pages, block))?;
            self.verified_copy(&store.frames, &pin, &mut copy)?;
            let pages = start.max(block * BITS)..end.min((block + 1) * BITS);
            taken.extend(pages.map(|page| {
                let (_, offset, mask) = bitmap::bit(Space::Pages, page);
                copy[offset] & mask != 0
            }));
        }
        for run in store.alloc.system.runs_in(start..end) {
            let from = run.start.max(start) - start;
            let to = (run.start + u64::from(run.count)).min(end) - start;
            taken[from as usize..to as usize].fill(true);
        }
        Ok(taken)
    }

    /// A zone as its bitmap says while nothing runs yet.
    pub(crate) fn zone_at_rest(&self, store: &Store, number: u64) -> Result<OpenZone, Error> {
        let (start, len) = store.ground.pool.zone(number);
        let taken = self.taken(store, start, len)?;
        Ok(OpenZone::new(number, start, len, |page| taken[(page - start) as usize]))
    }

    /// A part of a zone as its bitmap says as long as the gate is shut (S-11.3).
    pub(crate) fn read_settled<'c>(
        &self,
        store: &Store,
        shut: &'c Closed<'_>,
        part: Run,
    ) -> Result<Settled<'c>, Error> {
        let taken = self.taken(store, part.start, part.count)?;
        shut.was_read();
        let number = part.start / store.ground.pool.zone_pages;
        let is_taken = |page: u64| taken[(page - part.start) as usize];
        Ok(Settled::new(
            shut,
            OpenZone::new(number, part.start, part.count, is_taken),
        ))
    }

    /// Runs `f` while no transaction is open and no checkpoint takes or gives back chunks, with the bitmaps of `runs` in
    /// memory: of an open transaction nobody knows yet whether its frees count (S-11.3).
    pub(crate) fn settled<T>(
        &self,
        store: &Store,
        runs: &[Run],
        f: impl FnOnce(&Closed<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut pins = Vec::new();
        for run in runs {
            pins.extend(self.pin_bits(store, *run)?);
        }
        f(&store.txns.gate.shut(&store.ground)?)
    }

    /// How many pages of a zone can be had, as it is now.
    fn free_in(&self, store: &Store, number: u64) -> Result<u32, Error> {
        let (start, len) = store.ground.pool.zone(number);
        Ok(store.alloc.space.free_beside(start, &self.taken(store, start, len)?))
    }

    /// The zones that the next superblock shall list. Where no better ones are found, for whatever reason, those of now will do.
    pub(crate) fn zones_wanted(&self, store: &Store) -> [u64; 2] {
        let [(current, current_full), (next, next_full)] = store.alloc.space.zones();
        let pick = |after, except: &[u64]| self.pick_zone(store, after, except).unwrap_or(None);
        let first = match (current_full, next_full) {
            _ if store.alloc.switch_zones.swap(false, Ordering::AcqRel) => pick(next, &[]).unwrap_or(current),
            (false, _) => return [current, next],
            (true, false) => next,
            (true, true) => pick(next, &[]).unwrap_or(current),
        };
        let other = if first == next { current } else { next };
        [first, pick(first, &[first]).unwrap_or(other)]
    }

    /// The first zone behind `after` that is a quarter free, else the one with most free pages among those looked at. Errors:
    /// no zone was found that has a page, and one could not be read.
    fn pick_zone(&self, store: &Store, after: u64, except: &[u64]) -> Result<Option<u64>, Error> {
        let zones = store.ground.pool.zones();
        let mut best: Option<(u32, u64)> = None;
        let mut unread = Ok(None);
        let others = (1..=zones).map(|i| (after + i) % zones);
        for (looked, number) in others.filter(|n| !except.contains(n)).enumerate() {
            if looked >= LOOKS && best.is_some() {
                break;
            }
            let free = match self.free_in(store, number) {
                Ok(free) => free,
                Err(error) => {
                    unread = unread.and(Err(error));
                    continue;
                }
            };
            if free >= store.ground.pool.zone(number).1 / 4 {
                return Ok(Some(number));
            }
            if free > 0 && best.is_none_or(|(most, _)| free > most) {
                best = Some((free, number));
            }
        }
        best.map_or(unread, |(_, number)| Ok(Some(number)))
    }

    /// What zones that are not open have of the claim is added to `runs` (promise C-7). Errors: not all of it was found, and
    /// a zone could not be read (S-11.4).
    pub(crate) fn take_elsewhere(
        &self,
        store: &Store,
        claim: &mut Claim<'_>,
        runs: &mut Vec<Run>,
    ) -> Result<(), Error> {
        let mut tried = store.alloc.space.zones().map(|(number, _)| number).to_vec();
        let after = tried[1];
        let mut unread = Ok(());
        while claim.left() > 0 {
            let number = match self.pick_zone(store, after, &tried) {
                Ok(Some(number)) => number,
                Ok(None) => return unread,
                Err(error) => return unread.and(Err(error)),
            };
            tried.push(number);
            let zone = store.ground.pool.zone_run(number);
            let taken = self.settled(store, &[zone], |shut| {
                Ok(store
                    .alloc
                    .space
                    .take_settled(claim, self.read_settled(store, shut, zone)?))
            });
            match taken {
                Ok(found) => runs.extend(found),
                Err(error) => {
                    store.ground.alive()?;
                    unread = unread.and(Err(error));
                }
            }
        }
        Ok(())
    }

    /// What parts of the pool that lie at least `apart` from all of `near` have of the claim is added to `runs` (S-4.9): from where
    /// the last ones were, then from the other side of the device, then from wherever a look at some places finds most. As many as
    /// are found.
    pub(crate) fn take_apart(
        &self,
        store: &Store,
        claim: &mut Claim<'_>,
        near: &RangeInclusive<u64>,
        apart: u64,
        runs: &mut Vec<Run>,
    ) -> Result<(), Error> {
        let mut tried = Vec::new();
        while claim.left() > 0
            && let Some(part) = self.pick_apart(store, near, apart, &tried)
        {
            tried.push(part.start);
            let taken = self.settled(store, &[part], |shut| {
                Ok(store
                    .alloc
                    .space
                    .take_settled(claim, self.read_settled(store, shut, part)?))
            });
            match taken {
                Ok(found) => runs.extend(found),
                // What cannot be read has no page to offer.
                Err(_) => store.ground.alive()?,
            }
            store.alloc.far.store(part.start, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The first part of a zone among [`LOOKS`] that is a quarter free, else the one with most free pages.
    fn pick_apart(&self, store: &Store, near: &RangeInclusive<u64>, apart: u64, tried: &[u64]) -> Option<Run> {
        let pages = store.ground.pool.pages;
        let sides = [
            0..near
                .start()
                .saturating_sub(apart)
                .saturating_add(u64::from(*near.start() >= apart)),
            near.end().saturating_add(apart).min(pages)..pages,
        ];
        let middle = near.start() + (near.end() - near.start()) / 2;
        let first = [store.alloc.far.load(Ordering::Relaxed), (middle + pages / 2) % pages];
        let spread = (0..LOOKS as u64).map(|i| (i.reverse_bits() >> (64 - LOOKS.ilog2())) * pages / LOOKS as u64);
        let mut seen: Vec<u64> = tried.to_vec();
        let mut best: Option<(u32, Run)> = None;
        for page in first.into_iter().chain(spread) {
            let Some(side) = sides.iter().find(|side| side.contains(&page)) else {
                continue;
            };
            let (start, len) = store.ground.pool.zone(page / store.ground.pool.zone_pages);
            let (from, to) = (start.max(side.start), (start + u64::from(len)).min(side.end));
            let part = Run {
                start: from,
                count: (to - from) as u32,
            };
            if seen.contains(&part.start) {
                continue;
            }
            seen.push(part.start);
            let Ok(taken) = self.taken(store, part.start, part.count) else {
                continue;
            };
            let free = store.alloc.space.free_beside(part.start, &taken);
            if free > 0 && free >= part.count / 4 {
                return Some(part);
            }
            if free > 0 && best.is_none_or(|(most, _)| free > most) {
                best = Some((free, part));
            }
        }
        best.map(|(_, part)| part)
    }

    /// Opens the zones of the superblock that is now durable. Only those are read that were not open: what somebody holds in
    /// the others is in no bitmap yet, and what is young there (S-11.2) would be forgotten.
    pub(crate) fn open_zones(&self, store: &Store, wanted: [u64; 2]) -> Result<(), Error> {
        let open = store.alloc.space.zones().map(|(number, _)| number);
        if wanted == open {
            return Ok(());
        }
        let fresh = wanted.map(|number| (!open.contains(&number)).then(|| store.ground.pool.zone_run(number)));
        let runs: Vec<Run> = fresh.into_iter().flatten().collect();
        if runs.is_empty() {
            store.alloc.space.open_zones(wanted, [None, None]);
            return Ok(());
        }
        self.settled(store, &runs, |shut| {
            let mut loaded = [None, None];
            for (zone, run) in loaded.iter_mut().zip(fresh) {
                *zone = run.map(|run| self.read_settled(store, shut, run)).transpose()?;
            }
            store.alloc.space.open_zones(wanted, loaded);
            Ok(())
        })
    }

    /// Pins the bitmap metablocks of a run of pages and TOTALS, so that a transaction finds them, and right: what a checkpoint
    /// changes there is in no redo, so that no witness could mend them behind it (S-15.16).
    pub(crate) fn pin_bits<'s>(&'s self, store: &'s Store, run: Run) -> Result<Vec<Pin<'s>>, Error> {
        let blocks = run.start / BITS..=(run.start + u64::from(run.count) - 1) / BITS;
        let mut pins = self.pin_totals(&store.frames)?;
        for block in blocks {
            pins.push(self.pin_right(&store.frames, MetaId::new(Space::Pages, block))?);
        }
        Ok(pins)
    }
}

#[cfg(test)]
mod tests;
