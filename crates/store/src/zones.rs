//! Which zones are open: two at a time, listed in the superblock, switched with a checkpoint (SPEC S-2.4).

use crate::Store;
use crate::error::Error;
use crate::gate::Closed;
use crate::space::{Holder, OpenZone};
use core::sync::atomic::Ordering;
use keepfs_format::bitmap::BITS;
use keepfs_format::plog::Run;
use keepfs_format::{MetaId, PAGE, Space, bitmap};

/// How many zones are looked at before the best so far is taken.
const LOOKS: u64 = 64;

impl Store {
    /// Which of `len` pages from `start` on may not be handed out: those that are allocated, and those that belong to the
    /// pool itself, whatever the page bitmap says (C-8).
    pub(crate) fn taken(&self, start: u64, len: u32) -> Result<Vec<bool>, Error> {
        let end = start + u64::from(len);
        let mut taken = Vec::with_capacity(len as usize);
        let mut copy = Box::new([0; PAGE]);
        for block in start / BITS..=(start + u64::from(len).max(1) - 1) / BITS {
            let pin = self.fetch(MetaId::new(Space::Pages, block))?;
            self.verified_copy(&pin, &mut copy)?;
            let pages = start.max(block * BITS)..end.min((block + 1) * BITS);
            taken.extend(pages.map(|page| {
                let (_, offset, mask) = bitmap::bit(Space::Pages, page);
                copy[offset] & mask != 0
            }));
        }
        for run in self.system.runs_in(start..end) {
            let from = run.start.max(start) - start;
            let to = (run.start + u64::from(run.count)).min(end) - start;
            taken[from as usize..to as usize].fill(true);
        }
        Ok(taken)
    }

    /// A zone as its bitmap says now. While transactions run, call it with the gate shut (S-11.3).
    pub(crate) fn load_zone(&self, number: u64) -> Result<OpenZone, Error> {
        let (start, len) = self.pool.zone(number);
        let taken = self.taken(start, len)?;
        Ok(OpenZone::new(number, start, len, |page| taken[(page - start) as usize]))
    }

    /// Runs `f` while no transaction is open and no checkpoint takes or gives back chunks, with the bitmaps of `runs` in
    /// memory: of an open transaction nobody knows yet whether its frees count (PROTOCOLS section 5). What `f` reads of the
    /// bitmaps it uses before it returns: behind it they say something else (S-11.3).
    pub(crate) fn settled<T>(&self, runs: &[Run], f: impl FnOnce(&Closed<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let mut pins = Vec::new();
        for run in runs {
            pins.extend(self.pin_bits(*run)?);
        }
        f(&self.close_gate()?)
    }

    fn zone_run(&self, number: u64) -> Run {
        let (start, count) = self.pool.zone(number);
        Run { start, count }
    }

    fn free_in(&self, number: u64) -> Result<u32, Error> {
        let (start, len) = self.pool.zone(number);
        Ok(self.taken(start, len)?.into_iter().filter(|taken| !taken).count() as u32)
    }

    /// The next checkpoint lists other zones, full or not; for tests of the switch.
    pub fn want_other_zones(&self) {
        self.switch_zones.store(true, Ordering::Release);
    }

    /// The zones that the next superblock shall list.
    pub(crate) fn zones_wanted(&self) -> [u64; 2] {
        let [(current, current_full), (next, next_full)] = self.space.zones();
        if self.switch_zones.swap(false, Ordering::AcqRel) {
            let first = self.pick_zone(next, &[]).unwrap_or(current);
            return [first, self.pick_zone(first, &[first]).unwrap_or(next)];
        }
        match (current_full, next_full) {
            (false, _) => [current, next],
            (true, false) => [next, self.pick_zone(next, &[next]).unwrap_or(current)],
            (true, true) => {
                let first = self.pick_zone(next, &[]).unwrap_or(current);
                [first, self.pick_zone(first, &[first]).unwrap_or(next)]
            }
        }
    }

    /// The first zone behind `after` that is a quarter free, else the one with most free pages among those looked at.
    fn pick_zone(&self, after: u64, except: &[u64]) -> Option<u64> {
        let zones = self.pool.zones();
        let mut best: Option<(u32, u64)> = None;
        for number in (1..=zones)
            .map(|i| (after + i) % zones)
            .filter(|n| !except.contains(n))
            .take(LOOKS as usize)
        {
            let Ok(free) = self.free_in(number) else { continue };
            if free >= self.pool.zone(number).1 / 4 {
                return Some(number);
            }
            if free > 0 && best.is_none_or(|(most, _)| free > most) {
                best = Some((free, number));
            }
        }
        best.map(|(_, number)| number)
    }

    /// Up to `want` pages for `holder` from a zone that is not open, when the open ones have none (promise C-7).
    pub(crate) fn reserve_elsewhere(&self, holder: Holder, want: u32) -> Vec<Run> {
        // Reservations and quarantine are not in the bitmap: a zone that looks free may have nothing left.
        let mut tried = self.space.zones().map(|(number, _)| number).to_vec();
        let after = tried[1];
        while let Some(number) = self.pick_zone(after, &tried) {
            let runs = self.settled(&[self.zone_run(number)], |shut| {
                Ok(self.space.reserve_in(shut, holder, self.load_zone(number)?, want))
            });
            match runs {
                Ok(runs) if runs.is_empty() => tried.push(number),
                runs => return runs.unwrap_or_default(),
            }
        }
        Vec::new()
    }

    /// Opens the zones of the superblock that is now durable.
    pub(crate) fn open_zones(&self, wanted: [u64; 2]) {
        let open = self.space.zones().map(|(number, _)| number);
        if wanted == open {
            return;
        }
        let opened = self.settled(&wanted.map(|number| self.zone_run(number)), |shut| {
            let mut loaded = [None, None];
            for (i, number) in wanted.into_iter().enumerate().filter(|(_, n)| !open.contains(n)) {
                loaded[i] = Some(self.load_zone(number)?);
            }
            self.space.open_zones(shut, wanted, loaded);
            Ok(())
        });
        if let Err(error) = opened {
            self.fail(error);
        }
    }
}
