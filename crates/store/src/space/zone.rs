//! A zone that is open for allocation: which of its pages may be handed out, and which are young (SPEC S-2.4, S-11.2).

use core::marker::PhantomData;
use keepfs_flash::gate::Closed;
use keepfs_format::plog::Run;

/// A part of the pool with the pages hidden that its bitmap calls allocated: it says so only as long as the gate is shut
/// (S-11.3), and cannot outlive that.
pub struct Settled<'c> {
    zone: OpenZone,
    _shut: PhantomData<&'c ()>,
}

impl<'c> Settled<'c> {
    /// Of a bitmap that was read while the gate was shut.
    pub fn new(_shut: &'c Closed<'_>, zone: OpenZone) -> Settled<'c> {
        Settled {
            zone,
            _shut: PhantomData,
        }
    }

    /// Used under the lock of the space, in which what the bitmap does not tell is known.
    pub(super) fn zone(self) -> OpenZone {
        self.zone
    }
}

/// One zone open for allocation.
#[derive(Default)]
pub struct OpenZone {
    /// Number of the zone.
    pub number: u64,
    start: u64,
    pub(super) len: u32,
    free: u32,
    /// What it had free when it was opened.
    free_first: u32,
    cursor: u32,
    /// Bit set: may not be handed out.
    mask: Vec<u64>,
    /// Bit set: allocated by a transaction of the group that is not cut yet (S-11.2).
    pub(super) young: Vec<u64>,
}

impl OpenZone {
    /// A zone of `len` pages from `start`; `used` tells which pages are allocated.
    pub fn new(number: u64, start: u64, len: u32, used: impl Fn(u64) -> bool) -> OpenZone {
        let mut zone = OpenZone {
            number,
            start,
            len,
            free: len,
            free_first: 0,
            cursor: 0,
            mask: vec![0; len.div_ceil(64) as usize],
            young: vec![0; len.div_ceil(64) as usize],
        };
        (0..len)
            .filter(|i| used(start + u64::from(*i)))
            .for_each(|i| zone.hide(i));
        zone.free_first = zone.free;
        zone
    }

    fn hidden(&self, i: u32) -> bool {
        self.mask[i as usize / 64] & (1 << (i % 64)) != 0
    }

    pub(super) fn hide(&mut self, i: u32) {
        if !self.hidden(i) {
            self.mask[i as usize / 64] |= 1 << (i % 64);
            self.free -= 1;
        }
    }

    pub(super) fn show(&mut self, i: u32) {
        if self.hidden(i) {
            self.mask[i as usize / 64] &= !(1 << (i % 64));
            self.free += 1;
        }
    }

    /// Takes the first `want` pages of `run`, all of them or none.
    pub(super) fn take_run(&mut self, run: Run, want: u32) -> Option<Run> {
        let first = self.index_of(run.start)?;
        let fits = want <= run.count && u64::from(first) + u64::from(want) <= u64::from(self.len);
        if !fits || (first..first + want).any(|i| self.hidden(i)) {
            return None;
        }
        (first..first + want).for_each(|i| self.hide(i));
        Some(Run {
            start: run.start,
            count: want,
        })
    }

    pub(super) fn set_young(&mut self, run: Run) {
        for page in run.start..run.start + u64::from(run.count) {
            if let Some(i) = self.index_of(page) {
                self.young[i as usize / 64] |= 1 << (i % 64);
            }
        }
    }

    pub(super) fn is_young(&self, page: u64) -> bool {
        self.index_of(page)
            .is_some_and(|i| self.young[i as usize / 64] & (1 << (i % 64)) != 0)
    }

    pub(super) fn index_of(&self, page: u64) -> Option<u32> {
        let i = page.checked_sub(self.start)?;
        (i < u64::from(self.len)).then_some(i as u32)
    }

    /// Whether less than 5 % is left (ReconFS section 4); of a zone that had less from the beginning, a quarter of that,
    /// so that a pool which is nearly full everywhere does not switch zones all the time.
    pub fn nearly_full(&self) -> bool {
        self.free < (self.len / 20).min(self.free_first / 4) + 1
    }

    /// Places of those pages of a run that lie in the zone.
    pub(super) fn indices_of(&self, run: Run) -> core::ops::Range<u32> {
        let place = |page: u64| page.clamp(self.start, self.start + u64::from(self.len)) - self.start;
        place(run.start) as u32..place(run.start + u64::from(run.count)) as u32
    }

    /// How many may be handed out.
    pub(super) fn free(&self) -> u32 {
        self.free
    }

    /// Whether less than half is left of what it had when it was opened.
    pub(super) fn is_half_used(&self) -> bool {
        self.free < self.free_first.div_ceil(2)
    }

    /// Takes up to `want` pages as runs, from the cursor on, once around.
    pub(super) fn take(&mut self, want: u32, runs: &mut Vec<Run>) -> u32 {
        let (mut got, mut i, mut seen) = (0, self.cursor.min(self.len.saturating_sub(1)), 0);
        while got < want && seen < self.len && self.free > 0 {
            if i.is_multiple_of(64) && self.mask[i as usize / 64] == u64::MAX && self.len - i >= 64 {
                (i, seen) = ((i + 64) % self.len, seen + 64);
                continue;
            }
            if !self.hidden(i) {
                self.hide(i);
                got += 1;
                push_page(runs, self.start + u64::from(i));
            }
            (i, seen) = ((i + 1) % self.len, seen + 1);
        }
        self.cursor = i;
        got
    }
}

fn push_page(runs: &mut Vec<Run>, page: u64) {
    match runs.last_mut() {
        Some(run) if run.start + u64::from(run.count) == page => run.count += 1,
        _ => runs.push(Run { start: page, count: 1 }),
    }
}
