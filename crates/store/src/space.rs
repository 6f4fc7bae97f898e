//! Free pages: zones, reservations, promises and the quarantine (S-2.4, S-10.5, S-11.1).
//!
//! The truth is the page bitmap. What lies here is recomputable: for the two open zones a mask of pages that may not
//! be handed out (allocated, quarantined or reserved), and counters.

mod claim;
mod held;
mod near;
mod need;
mod zone;

pub use claim::Claim;
pub use held::Holder;
pub use near::Near;
pub use need::Need;
pub use zone::{OpenZone, Settled};

use crate::locks::Mutex;
use held::{Held, Holders};
use keepfs_flash::gate::{Closed, Owner};
use keepfs_format::plog::{Record, Run};
use keepfs_vault::planted::{self, Bug};
use near::Sides;
use smallvec::SmallVec;
use std::collections::{BTreeSet, VecDeque};

/// Most runs freed young that are remembered.
const AGAIN_MAX: usize = 256;

/// For what pages are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// New data: stops before the reserve.
    New,
    /// Data that already has a claim (overwriting, staged pages, chunks): may use the reserve (promise C-7).
    Claimed,
}

/// Why pages cannot be had now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// There are not enough free pages.
    NoSpace,
    /// There are, but not in the open zones: a checkpoint must switch zones.
    Zones,
}

/// Pages freed by a transaction whose free is not durable yet.
struct Quarantined {
    seq: u64,
    run: Run,
}

#[derive(Default)]
struct Inner {
    zones: [OpenZone; 2],
    quarantine: VecDeque<Quarantined>,
    /// Runs that were freed young: their old bytes may still be on their way to the device, and new ones take their place.
    again: VecDeque<Run>,
    /// What is reserved, and by whom.
    held: Held,
    /// Pages that the device refused to write: handed out no more in this life (S-7.8).
    bad: BTreeSet<u64>,
    /// Chunks that the checkpoint under way gives back to data.
    leaving: Vec<Run>,
    sides: Sides,
    /// What checkpoints need (S-10.5).
    need: Need,
    births: Births,
    figures: Figures,
}

/// Metablocks that have no home yet.
#[derive(Default)]
struct Births {
    /// NODES metablocks in use now, and at the moment of the last checkpoint that is durable.
    nodes: u64,
    nodes_homed: u64,
    /// The same at the moment of the checkpoint under way.
    nodes_flying: u64,
    /// By how many they were fewer at the moment of the last durable checkpoint than at that of the one before.
    nodes_fewer: u64,
    /// INODES metablocks used for the first time since the last moment, and before it.
    blocks: BTreeSet<u64>,
    blocks_flying: BTreeSet<u64>,
}

impl Births {
    fn count(&self) -> u64 {
        let blocks = self.blocks.len() + self.blocks_flying.len();
        self.nodes.saturating_sub(self.nodes_homed) + blocks as u64
    }
}

impl Inner {
    /// The run may be handed out, but for the pages that the device refused.
    fn show(&mut self, run: Run) {
        self.figures.bad += self.bad.range(run.start..run.start + u64::from(run.count)).count() as u64;
        show_run(&mut self.zones, &self.bad, run);
    }

    /// Pages allocated by a transaction that commits now.
    fn born(&mut self, run: Run) {
        self.zones.iter_mut().for_each(|zone| zone.set_young(run));
        self.held.take(None, run);
    }

    /// Pages freed by transaction `seq`, which commits now: in quarantine from now on, but for those that the same group
    /// allocates, which are free at once (S-11.2).
    fn freed(&mut self, seq: u64, run: Run) {
        self.figures.free += u64::from(run.count);
        for (part, young) in self.by_age(run) {
            if young {
                self.show(part);
                self.again.push_back(part);
                if self.again.len() > AGAIN_MAX {
                    self.again.pop_front();
                }
            } else {
                self.figures.quarantined += u64::from(part.count);
                hide_run(&mut self.zones, part);
                self.quarantine.push_back(Quarantined { seq, run: part });
            }
        }
    }

    fn used(&mut self, pages: u64) {
        self.figures.reserved = self.figures.reserved.saturating_sub(pages);
        self.figures.free = self.figures.free.saturating_sub(pages);
    }

    fn release(&mut self, seq: u64) -> Vec<Run> {
        let mut released = Vec::new();
        while self.quarantine.front().is_some_and(|q| q.seq <= seq) {
            let Some(q) = self.quarantine.pop_front() else { break };
            self.figures.quarantined -= u64::from(q.run.count);
            self.show(q.run);
            released.push(q.run);
        }
        released
    }

    /// The run in parts, each with whether it is young.
    fn by_age(&self, run: Run) -> SmallVec<[(Run, bool); 2]> {
        let mut parts: SmallVec<[(Run, bool); 2]> = SmallVec::new();
        for page in run.start..run.start + u64::from(run.count) {
            let young = self.zones.iter().any(|zone| zone.is_young(page));
            match parts.last_mut() {
                Some((part, age)) if *age == young => part.count += 1,
                _ => parts.push((Run { start: page, count: 1 }, young)),
            }
        }
        parts
    }

    fn count_births(&mut self) {
        self.figures.grown = self.need.kept(self.births.count()) - self.need.kept(0);
        self.figures.died = self.births.nodes_homed.saturating_sub(self.births.nodes) + self.births.nodes_fewer;
    }
}

/// Counters of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Pages in the pool.
    pub pages: u64,
    /// Bits clear in the page bitmap.
    pub free: u64,
    /// Of these: freed, but not durably.
    pub quarantined: u64,
    /// Of these: handed to a writer that has not committed.
    pub reserved: u64,
    /// Of these: promised to staged pages.
    pub promised: u64,
    /// Of these: kept for checkpoints (S-10.5).
    pub reserve: u64,
    /// Of these: for metablocks born since the last checkpoint, which need homes, and must be written anew later.
    pub grown: u64,
    /// Of these: refused by the device when they were written, and left alone since.
    pub bad: u64,
    /// Beside `free`: pages of chunks of metadata that the next checkpoints give back to data, a part each.
    pub spare: u64,
    /// NODES metablocks that died, beside those that were born, since the moment of the last durable checkpoint but one: how many
    /// pages become spare is known when there is another one, as each finds the pages of those in use that died with it.
    pub died: u64,
}

impl Figures {
    /// Pages that may be handed out now for `purpose`.
    pub fn available(&self, purpose: Purpose) -> u64 {
        self.beside(self.quarantined, purpose)
    }

    /// Pages that a write gets for `purpose`: those that may be handed out now, and those in quarantine, which a sync
    /// sets free (S-11.4).
    pub fn obtainable(&self, purpose: Purpose) -> u64 {
        self.obtainable_with(0, purpose)
    }

    /// The same with so many more free pages.
    pub fn obtainable_with(&self, coming: u64, purpose: Purpose) -> u64 {
        Figures {
            free: self.free.saturating_add(coming),
            ..*self
        }
        .beside(0, purpose)
    }

    fn beside(&self, quarantined: u64, purpose: Purpose) -> u64 {
        let free = self.free.saturating_sub(quarantined + self.reserved + self.bad);
        match purpose {
            Purpose::New => free.saturating_sub(self.promised + self.reserve + self.grown),
            Purpose::Claimed => free,
        }
    }
}

/// The allocator of pages.
#[derive(Default)]
pub struct Space {
    inner: Mutex<Inner>,
    holders: Holders,
}

impl Space {
    /// Starts with the two zones open, `used` bits set in the page bitmap of `pages` pages.
    pub fn start(&self, pages: u64, used: u64, zones: [OpenZone; 2]) {
        let mut inner = self.inner.lock();
        inner.zones = zones;
        inner.figures.pages = pages;
        inner.figures.free = pages.saturating_sub(used);
    }

    /// Opens zones after a checkpoint has made them current. `None`: that zone is open already and stays as it is. One that is
    /// named twice is open once, or each of its pages were there twice.
    pub fn open_zones(&self, wanted: [u64; 2], loaded: [Option<Settled<'_>>; 2]) {
        let mut inner = self.inner.lock();
        let mut old = core::mem::take(&mut inner.zones).into_iter().collect::<Vec<_>>();
        let mut zones = <[OpenZone; 2]>::default();
        let count = if wanted[0] == wanted[1] { 1 } else { 2 };
        let opened = wanted.into_iter().zip(loaded).take(count);
        for (zone, (number, new)) in zones.iter_mut().zip(opened) {
            let at = old.iter().position(|z| z.number == number && z.len > 0);
            let kept = at.map(|at| old.swap_remove(at));
            if let Some(open) = kept.or_else(|| new.map(Settled::zone)) {
                *zone = open;
            }
        }
        inner.hide_what_is_not_free(&mut zones);
        inner.zones = zones;
    }

    /// Counters.
    pub fn figures(&self) -> Figures {
        self.inner.lock().figures
    }

    /// A checkpoint has its moment.
    pub fn barrier(&self, _shut: &Closed<'_>) {
        let births = &mut self.inner.lock().births;
        births.nodes_flying = births.nodes;
        let mut before = core::mem::take(&mut births.blocks);
        births.blocks_flying.append(&mut before);
    }

    /// Nothing runs yet: the checkpoint found has so many NODES metablocks.
    pub fn begin(&self, nodes: u64) {
        let births = &mut self.inner.lock().births;
        births.nodes = nodes;
        births.nodes_flying = nodes;
    }

    /// The checkpoint of the last moment is durable, and this is what the next ones need.
    pub fn set_need(&self, need: Need) {
        let mut inner = self.inner.lock();
        inner.births.nodes_fewer = inner.births.nodes_homed.saturating_sub(inner.births.nodes_flying);
        inner.births.nodes_homed = inner.births.nodes_flying;
        inner.births.blocks_flying.clear();
        inner.figures.reserve = need.kept(0);
        inner.need = need;
        inner.count_births();
    }

    /// Metablocks born since the last durable checkpoint, those that died taken off.
    pub fn grown(&self) -> u64 {
        self.inner.lock().births.count()
    }

    /// There are so many NODES metablocks now.
    pub fn nodes_now(&self, nodes: u64) {
        let mut inner = self.inner.lock();
        inner.births.nodes = nodes;
        inner.count_births();
    }

    /// So many of them died, or were not made after all.
    pub fn nodes_went(&self, nodes: u64) {
        if nodes > 0 {
            let mut inner = self.inner.lock();
            inner.births.nodes = inner.births.nodes.saturating_sub(nodes);
            inner.count_births();
        }
    }

    /// Whether metadata may grow by `nodes` NODES metablocks and `block` of INODES, which is used for the first time. Without `claim` only while there is room before the reserve, so that the next checkpoint finds homes for
    /// all of them (promise C-7).
    pub fn grow(&self, nodes: u64, block: Option<u64>, claim: bool) -> bool {
        let mut inner = self.inner.lock();
        let was = (inner.births.nodes, inner.figures.grown);
        inner.births.nodes += nodes;
        let new =
            block.filter(|block| !inner.births.blocks_flying.contains(block) && inner.births.blocks.insert(*block));
        inner.count_births();
        if claim || inner.figures.grown <= was.1 || inner.figures.available(Purpose::New) > 0 {
            return true;
        }
        inner.births.nodes = was.0;
        if let Some(block) = new {
            inner.births.blocks.remove(&block);
        }
        inner.count_births();
        false
    }

    /// Numbers of the open zones and whether each is nearly full. Where one alone is open it is both, and the other is full.
    pub fn zones(&self) -> [(u64, bool); 2] {
        let inner = self.inner.lock();
        let [current, next] = &inner.zones;
        let number = if next.len > 0 { next.number } else { current.number };
        [(current.number, current.nearly_full()), (number, next.nearly_full())]
    }

    /// Somebody new, who is about to reserve pages.
    pub fn holder(&self) -> Holder {
        self.holders.next()
    }

    /// Takes `want` pages out of the open zones. Tells besides whether the current zone is nearly full.
    pub fn reserve(
        &self,
        holder: Holder,
        want: u32,
        purpose: Purpose,
        near: Near,
    ) -> Result<(Vec<Run>, bool), Refused> {
        let mut inner = self.inner.lock();
        if inner.figures.available(purpose) < u64::from(want) {
            return Err(Refused::NoSpace);
        }
        let (runs, got) = take_open(&mut inner, want, near);
        inner.figures.reserved += u64::from(got);
        if got < want {
            unreserve(&mut inner, &runs);
            return Err(Refused::Zones);
        }
        inner.held.add(holder, &runs);
        let nearly_full = inner.zones[0].nearly_full();
        Ok((runs, nearly_full))
    }

    /// Gives back those pages of `runs` that `holder` still has: what a transaction has allocated is its file's.
    pub fn give_back(&self, holder: Holder, runs: &[Run]) {
        let mut inner = self.inner.lock();
        for run in runs {
            let parts = inner.held.take(Some(holder), *run);
            unreserve(&mut inner, &parts);
        }
    }

    /// `holder` needs a reserved page no more. `refused`: the device did not take its bytes; it stays hidden in this life.
    pub fn leave(&self, holder: Holder, page: u64, refused: bool) {
        let mut inner = self.inner.lock();
        let parts = inner.held.take(Some(holder), Run { start: page, count: 1 });
        if parts.is_empty() {
            return;
        }
        if refused {
            inner.bad.insert(page);
            inner.figures.reserved = inner.figures.reserved.saturating_sub(1);
            inner.figures.bad += 1;
        } else {
            unreserve(&mut inner, &parts);
        }
    }

    /// The device refused to write this page, which is allocated: once freed it stays hidden in this life.
    pub fn refused(&self, page: u64) {
        self.inner.lock().bad.insert(page);
    }

    /// These held runs are a checkpoint's now: whoever has read a bitmap without their bits has used it (S-11.3).
    pub fn keep(&self, _nobody_reads: &Owner<'_>, runs: &[Run]) {
        let held = &mut self.inner.lock().held;
        for run in runs {
            held.take(None, *run);
        }
    }

    /// Transaction `seq`, which commits now, has these records, and uses `used` pages that were reserved: what it allocates
    /// and frees counts from here on, and what it allocates is held for it no more. Under the lock of redo, so that the
    /// group's cut has all of it or nothing (S-11.2).
    pub fn follow(&self, seq: u64, records: &[Record], used: u64) {
        let concerns = |record: &Record| record_of_pages(record).is_some();
        if used == 0 && !records.iter().any(concerns) {
            return;
        }
        let mut inner = self.inner.lock();
        for (run, allocates) in records.iter().filter_map(record_of_pages) {
            match allocates {
                true => inner.born(run),
                false => inner.freed(seq, run),
            }
        }
        if planted::is(Bug::ReuseTooEarly) {
            inner.release(seq);
        }
        inner.used(used);
    }

    /// Reserved pages became allocated (their bits are set by a committed transaction).
    pub fn used(&self, pages: u64) {
        if pages == 0 {
            return;
        }
        self.inner.lock().used(pages);
    }

    /// A group is cut now: with what was allocated before it, pages freed after it may not be used at once (S-11.2).
    pub fn cut(&self) {
        let zones = &mut self.inner.lock().zones;
        zones.iter_mut().for_each(|zone| zone.young.fill(0));
    }

    /// Pages that transactions of a life before freed, up to `seq`, are clear in the bitmap, but not for good: nobody gets
    /// them before that (S-9.5, S-11.1, S-16.5). Called once, behind [`Space::start`].
    pub fn quarantine(&self, freed: Vec<(u64, Run)>) {
        let mut inner = self.inner.lock();
        for (seq, run) in freed {
            inner.figures.quarantined += u64::from(run.count);
            hide_run(&mut inner.zones, run);
            inner.quarantine.push_back(Quarantined { seq, run });
        }
    }

    /// A chunk of metadata is data's when the checkpoint under way is durable.
    pub fn leaving(&self, run: Run) {
        self.inner.lock().leaving.push(run);
    }

    /// It is: `first` is told of each run before anybody is given it.
    pub fn left(&self, first: impl Fn(Run)) {
        let mut inner = self.inner.lock();
        for run in core::mem::take(&mut inner.leaving) {
            first(run);
            inner.figures.free += u64::from(run.count);
            let Inner { zones, bad, .. } = &mut *inner;
            show_run(zones, bad, run);
        }
    }

    /// So many pages of chunks come back with the next checkpoints.
    pub fn set_spare(&self, pages: u64) {
        self.inner.lock().figures.spare = pages;
    }

    /// Everything up to transaction `seq` is durable: its freed pages may be used again (S-11.1). Returns them.
    pub fn release(&self, seq: u64) -> Vec<Run> {
        self.inner.lock().release(seq)
    }

    /// What is in quarantine, and which transaction freed it.
    #[cfg(test)]
    pub(crate) fn quarantined(&self) -> Vec<(u64, Run)> {
        let inner = self.inner.lock();
        inner.quarantine.iter().map(|q| (q.seq, q.run)).collect()
    }

    /// Promises one page to a staged page. `false` if there is none.
    pub fn promise(&self) -> bool {
        let mut inner = self.inner.lock();
        let ok = inner.figures.available(Purpose::New) > 0;
        inner.figures.promised += u64::from(ok);
        ok
    }

    /// Promises `pages`, of which all but `new` are given back by who asks. `false` if so many cannot be had (S-20.3).
    pub fn promise_for(&self, pages: u64, new: u64) -> bool {
        let mut inner = self.inner.lock();
        let ok = inner.figures.obtainable(Purpose::New) >= new;
        inner.figures.promised += if ok { pages } else { 0 };
        ok
    }

    /// Sets the number of promised pages to what the staged table says, plus those of open transactions.
    pub fn promise_back(&self, pages: u64) {
        if pages == 0 {
            return;
        }
        let mut inner = self.inner.lock();
        inner.figures.promised = inner.figures.promised.saturating_sub(pages);
    }

    /// Adds promises that a replayed log had made.
    pub fn promise_again(&self, pages: u64) {
        self.inner.lock().figures.promised += pages;
    }
}

/// The pages that a record allocates (`true`) or frees.
fn record_of_pages(record: &Record) -> Option<(Run, bool)> {
    match record {
        Record::Alloc {
            space: keepfs_format::Space::Pages,
            run,
        } => Some((*run, true)),
        Record::Free {
            space: keepfs_format::Space::Pages,
            run,
        } => Some((*run, false)),
        _ => None,
    }
}

fn take_open(inner: &mut Inner, want: u32, near: Near) -> (Vec<Run>, u32) {
    let mut runs = Vec::new();
    let side = inner.side(near);
    let mut got = match inner.take_again(want, side) {
        Some(run) => {
            runs.push(run);
            want
        }
        None => inner.zones[side].take(want, &mut runs),
    };
    if got < want {
        got += inner.zones[1 - side].take(want - got, &mut runs);
    }
    (runs, got)
}

fn unreserve(inner: &mut Inner, runs: &[Run]) {
    for run in runs {
        inner.figures.reserved = inner.figures.reserved.saturating_sub(u64::from(run.count));
        show_run(&mut inner.zones, &inner.bad, *run);
    }
}

/// Pages as runs of one.
fn singles(pages: &BTreeSet<u64>) -> impl Iterator<Item = Run> {
    pages.iter().map(|page| Run { start: *page, count: 1 })
}

/// Takes one page out of the run that has it.
pub(crate) fn leave_run(runs: &mut Vec<Run>, page: u64) {
    let has = |run: &Run| (run.start..run.start + u64::from(run.count)).contains(&page);
    let Some(at) = runs.iter().position(has) else { return };
    let Run { start, count } = runs[at];
    let before = (page - start) as u32;
    let parts = [
        Run { start, count: before },
        Run {
            start: page + 1,
            count: count - before - 1,
        },
    ];
    runs.splice(at..=at, parts.into_iter().filter(|run| run.count > 0));
}

fn hide_run(zones: &mut [OpenZone; 2], run: Run) {
    zones.iter_mut().for_each(|zone| hide_in(zone, run));
}

fn hide_in(zone: &mut OpenZone, run: Run) {
    zone.indices_of(run).for_each(|i| zone.hide(i));
}

fn show_run(zones: &mut [OpenZone; 2], bad: &BTreeSet<u64>, run: Run) {
    for page in (run.start..run.start + u64::from(run.count)).filter(|page| !bad.contains(page)) {
        for zone in zones.iter_mut() {
            if let Some(i) = zone.index_of(page) {
                zone.show(i);
            }
        }
    }
}

#[cfg(test)]
mod tests;
