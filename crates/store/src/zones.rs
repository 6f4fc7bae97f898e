//! Which zones are open: two at a time, listed in the superblock, switched with a checkpoint (SPEC S-2.4).

use crate::Store;
use crate::error::Error;
use crate::space::OpenZone;
use core::sync::atomic::Ordering;
use keepfs_format::bitmap::BITS;
use keepfs_format::plog::Run;
use keepfs_format::{MetaId, PAGE, Space, bitmap};
use std::collections::BTreeMap;

/// How many zones are looked at before the best so far is taken.
const LOOKS: u64 = 64;

/// Bitmap metablocks copied for a moment.
pub(crate) struct Bits(BTreeMap<u64, Box<[u8; PAGE]>>);

impl Bits {
    pub(crate) fn used(&self, page: u64) -> bool {
        let (_, offset, mask) = bitmap::bit(Space::Pages, page);
        self.0.get(&(page / BITS)).is_none_or(|b| b[offset] & mask != 0)
    }
}

impl Store {
    fn bits_of(&self, start: u64, len: u32) -> Result<Bits, Error> {
        let mut bits = Bits(BTreeMap::new());
        for block in start / BITS..=(start + u64::from(len).max(1) - 1) / BITS {
            let pin = self.fetch(MetaId::new(Space::Pages, block))?;
            let mut copy = Box::new([0; PAGE]);
            self.verified_copy(&pin, &mut copy)?;
            bits.0.insert(block, copy);
        }
        Ok(bits)
    }

    /// A zone as its bitmap says now.
    pub(crate) fn load_zone(&self, number: u64) -> Result<OpenZone, Error> {
        let (start, len) = self.pool.zone(number);
        let bits = self.settled(Run { start, count: len }, |bits| bits)?;
        Ok(OpenZone::new(number, start, len, |page| {
            bits.used(page) || self.system.has(page)
        }))
    }

    /// Runs `f` with the bits of a run as they are while no transaction is open: of an open one nobody knows yet whether its
    /// frees count, so none of them may be used or discarded (PROTOCOLS section 5).
    pub(crate) fn settled<T>(&self, run: Run, f: impl FnOnce(Bits) -> T) -> Result<T, Error> {
        let pins = self.pin_bits(run)?;
        let closed = self.close_gate()?;
        let bits = self.bits_of(run.start, run.count)?;
        let made = f(bits);
        drop(closed);
        drop(pins);
        Ok(made)
    }

    fn free_in(&self, number: u64) -> Result<u32, Error> {
        let (start, len) = self.pool.zone(number);
        let bits = self.bits_of(start, len)?;
        Ok((0..len)
            .map(|i| start + u64::from(i))
            .filter(|page| !bits.used(*page) && !self.system.has(*page))
            .count() as u32)
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

    /// Up to `want` pages for metadata from a zone that is not open, when the open ones have none (promise C-7).
    pub(crate) fn reserve_elsewhere(&self, want: u32) -> Vec<Run> {
        // Reservations and quarantine are not in the bitmap: a zone that looks free may have nothing left.
        let mut tried = self.space.zones().map(|(number, _)| number).to_vec();
        let after = tried[1];
        while let Some(number) = self.pick_zone(after, &tried) {
            let Ok(zone) = self.load_zone(number) else {
                return Vec::new();
            };
            let runs = self.space.reserve_in(zone, want);
            if !runs.is_empty() {
                return runs;
            }
            tried.push(number);
        }
        Vec::new()
    }

    /// Opens the zones of the superblock that is now durable.
    pub(crate) fn open_zones(&self, wanted: [u64; 2]) {
        let open = self.space.zones().map(|(number, _)| number);
        if wanted == open {
            return;
        }
        let mut loaded = [None, None];
        for (i, number) in wanted.into_iter().enumerate().filter(|(_, n)| !open.contains(n)) {
            match self.load_zone(number) {
                Ok(zone) => loaded[i] = Some(zone),
                Err(e) => {
                    self.fail(e);
                    return;
                }
            }
        }
        self.space.open_zones(wanted, loaded);
    }
}
