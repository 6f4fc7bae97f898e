//! The walk over a transaction: every change and every record is looked at once, and put on its side of the equations.

use super::equation::Equation;
use super::input::{Block, Fate, Nature, Transaction};
use super::local::Geometry;
use super::sink::Sink;
use crate::Page;
use core::ops::Range;
use keepfs_format::blockmap::PageEntry;
use keepfs_format::inode::{self, Inode};
use keepfs_format::metablock::HEADER;
use keepfs_format::{FromBytes, Kind, MetaId, PAGE, Space};
use std::cell::Cell;

/// A metablock before and after the transaction, as far as it was asked for.
pub(super) struct Image {
    pub before: Page,
    pub after: Page,
}

/// What a walk needs and leaves to the next one of its thread, so that nothing is allocated as a rule.
#[derive(Default)]
struct Spare {
    image: Option<Box<Image>>,
    order: Vec<(usize, usize)>,
    carried: Vec<Carried>,
    changed: Vec<Changed>,
    orphans: Vec<(u64, bool)>,
}

/// Longest lists that are kept.
const KEEP_MAX: usize = 1024;

thread_local! {
    static SPARE: Cell<Option<Box<Spare>>> = const { Cell::new(None) };
}

impl Spare {
    fn take() -> Box<Spare> {
        SPARE.take().unwrap_or_default()
    }

    /// Keeps the lists, emptied.
    fn give(mut self: Box<Spare>) {
        self.order.clear();
        self.carried.clear();
        self.changed.clear();
        self.orphans.clear();
        let longest = [self.order.capacity(), self.changed.capacity(), self.orphans.capacity()];
        if longest.iter().all(|capacity| *capacity <= KEEP_MAX) {
            SPARE.set(Some(self));
        }
    }
}

/// Numbers that follow each other, put together before they are told.
#[derive(Clone, Copy, Default)]
pub(super) struct Run {
    start: u64,
    len: u64,
}

impl Run {
    /// Takes one more; what it does not continue is given back to be told.
    #[inline]
    pub fn more(&mut self, number: u64, len: u64) -> Option<Run> {
        if self.len > 0 && self.start + self.len == number {
            self.len += len;
            return None;
        }
        let done = core::mem::replace(self, Run { start: number, len });
        (done.len > 0).then_some(done)
    }
}

/// Runs that are being put together.
#[derive(Default)]
pub(super) struct Runs {
    pub gained: Run,
    pub lost: Run,
    pub set: Run,
    pub cleared: Run,
}

/// A page entry of an inode's body area that leaves it because the body became a tree: it should stand there.
pub(super) struct Carried {
    pub ino: u64,
    pub slot: u64,
    pub entry: PageEntry,
}

/// An inode that changed.
pub(super) struct Changed {
    pub ino: u64,
    pub before: Inode,
    pub after: Inode,
}

pub(super) struct Walk<'t, T, S> {
    pub txn: &'t T,
    pub name_seed: [u64; 2],
    pub geometry: &'t Geometry,
    /// Of a checkpoint, or of who makes the pool: it leaves no redo.
    pub is_own: bool,
    pub sink: S,
    pub runs: Runs,
    pub carried: Vec<Carried>,
    pub changed: Vec<Changed>,
    /// Bits of ORPHANS that changed: inode number, set.
    pub orphans: Vec<(u64, bool)>,
    spare: Box<Spare>,
    /// Page entries that are no holes, gained less lost, of the inode looked at last.
    pub entries: (u64, i64),
    /// born and cur of the inode looked at last.
    pub life: (u64, (u64, u64)),
}

impl<'t, T: Transaction, S: Sink> Walk<'t, T, S> {
    pub fn new(txn: &'t T, (name_seed, geometry, is_own): ([u64; 2], &'t Geometry, bool), sink: S) -> Self {
        let mut spare = Spare::take();
        Walk {
            txn,
            name_seed,
            geometry,
            is_own,
            sink,
            runs: Runs::default(),
            carried: core::mem::take(&mut spare.carried),
            changed: core::mem::take(&mut spare.changed),
            orphans: core::mem::take(&mut spare.orphans),
            spare,
            entries: (0, 0),
            life: (0, (0, u64::MAX)),
        }
    }

    /// The whole walk; gives the sink back.
    pub fn go(mut self) -> S {
        let mut image = self.spare.image.take().unwrap_or_else(|| {
            Box::new(Image {
                before: [0; PAGE],
                after: [0; PAGE],
            })
        });
        let mut order = core::mem::take(&mut self.spare.order);
        for (at, change) in self.txn.changes().iter().enumerate() {
            match change.nature {
                Nature::Bytes => order.push((change.block, at)),
                Nature::Bits => self.bits(change),
                Nature::Counter => self.counter(change),
            }
        }
        // By metablock, those of one metablock in their order.
        order.sort_unstable();
        // Inodes first: what they carry over is looked for in nodes.
        self.blocks(&order, &mut image, |kind| kind == Kind::Inodes);
        self.blocks(&order, &mut image, Kind::is_owned);
        self.carried_nowhere();
        self.hidden();
        self.records();
        self.operations();
        self.redo(&order);
        self.tell_runs();
        let spare = Spare {
            image: Some(image),
            order,
            carried: self.carried,
            changed: self.changed,
            orphans: self.orphans,
        };
        *self.spare = spare;
        self.spare.give();
        self.sink
    }

    fn blocks(&mut self, order: &[(usize, usize)], image: &mut Image, is_wanted: impl Fn(Kind) -> bool) {
        for changes in order.chunk_by(|a, b| a.0 == b.0) {
            let block = self.txn.block(changes[0].0);
            if is_wanted(block.kind) && matches!(block.fate, Fate::Stays | Fate::Born) {
                self.block(&block, changes, image);
            }
        }
        // What dies counts whether it changed or not.
        for index in 0..self.txn.count() {
            let block = self.txn.block(index);
            if block.fate == Fate::Dies && is_wanted(block.kind) {
                let from = order.partition_point(|(b, _)| *b < index);
                let to = order.partition_point(|(b, _)| *b <= index);
                self.dead_node(&block, index, &order[from..to], image);
            }
        }
    }

    fn block(&mut self, block: &Block, changes: &[(usize, usize)], image: &mut Image) {
        match block.kind {
            Kind::Inodes => self.inodes(block, changes),
            Kind::BlockMap => self.map_node(block, changes, image),
            Kind::DirIndex => self.index(block, changes, image),
            Kind::DirLeaf => self.leaf(block, changes, image),
            Kind::Xattr => self.xattr_node(block, changes, image),
            _ => {}
        }
    }

    fn dead_node(&mut self, block: &Block, index: usize, changes: &[(usize, usize)], image: &mut Image) {
        let at = [(index, usize::MAX)];
        let changes = if changes.is_empty() { &at[..] } else { changes };
        self.block(block, changes, image);
    }

    /// The bytes that changed, from the first to the last of them.
    pub fn span(&self, block: &Block, changes: &[(usize, usize)]) -> Range<usize> {
        if block.fate == Fate::Dies {
            return HEADER..PAGE;
        }
        let all = self.txn.changes();
        let ranges = changes.iter().filter_map(|(_, at)| all.get(*at));
        let (start, end) = ranges.fold((PAGE, HEADER), |(start, end), change| {
            (start.min(change.offset), end.max(change.offset + change.new.len()))
        });
        start.min(end)..end
    }

    /// Fills both images within `span` (S-17.3).
    pub fn image(&self, block: &Block, changes: &[(usize, usize)], span: Range<usize>, image: &mut Image) {
        let (before, after) = (&mut image.before[span.clone()], &mut image.after[span.clone()]);
        self.images(block, changes, span.start, (before, after));
    }

    /// What stood at `start` before, and what stands there now: of one length (S-17.3).
    pub fn images(
        &self,
        block: &Block,
        changes: &[(usize, usize)],
        start: usize,
        (before, after): (&mut [u8], &mut [u8]),
    ) {
        let Some((index, _)) = changes.first() else { return };
        self.txn.load(*index, start, after);
        before.copy_from_slice(after);
        let all = self.txn.changes();
        let end = start + before.len();
        for change in changes.iter().rev().filter_map(|(_, at)| all.get(*at)) {
            let (from, to) = (change.offset.max(start), (change.offset + change.old.len()).min(end));
            if from < to {
                let old = &change.old[from - change.offset..to - change.offset];
                before[from - start..to - start].copy_from_slice(old);
            }
        }
        match block.fate {
            Fate::Born => before.fill(0),
            Fate::Dies => after.fill(0),
            _ => {}
        }
    }

    /// The metablock, if the transaction touched it.
    pub fn find(&self, id: MetaId) -> Option<usize> {
        (0..self.txn.count()).find(|index| self.txn.block(*index).id == id)
    }

    /// An inode as it is now, if its metablock was touched.
    pub fn inode_now(&self, ino: u64) -> Option<Inode> {
        if let Some(changed) = self.changed.iter().find(|c| c.ino == ino) {
            return Some(changed.after);
        }
        let block = self.find(inode::block_of(ino))?;
        let mut bytes = [0; inode::SIZE];
        self.txn.load(block, inode::offset_of(ino), &mut bytes);
        Inode::read_from_bytes(&bytes).ok()
    }

    /// Something that must equal something else at one place, without a sum over others.
    pub fn equal(&mut self, equation: Equation, object: u64, left: u64, right: u64) {
        if left != right {
            self.sink.pair(equation, object, left, 1);
            self.sink.pair(equation, object, right, -1);
        }
    }

    pub fn gained(&mut self, page: u64) {
        if let Some(run) = self.runs.gained.more(page, 1) {
            self.tell_gained(run);
        }
    }

    pub fn lost(&mut self, page: u64) {
        if let Some(run) = self.runs.lost.more(page, 1) {
            self.tell_lost(run);
        }
    }

    fn tell_gained(&mut self, run: Run) {
        self.sink.run(Equation::PagesGained, run.start, run.len, 1);
    }

    fn tell_lost(&mut self, run: Run) {
        self.sink.run(Equation::PagesLost, run.start, run.len, 1);
    }

    pub fn tell_set(&mut self, run: Run) {
        self.numbers(Space::Pages, run.start, run.len, true);
        self.sink.run(Equation::PagesGained, run.start, run.len, -1);
        self.sink.run(Equation::PagesAllocated, run.start, run.len, 1);
        self.sink.count(Equation::PagesTotal, run.len as i64);
        self.sink.count(Equation::PagesUsed, run.len as i64);
    }

    pub fn tell_cleared(&mut self, run: Run) {
        self.numbers(Space::Pages, run.start, run.len, false);
        self.sink.run(Equation::PagesLost, run.start, run.len, -1);
        self.sink.run(Equation::PagesFreed, run.start, run.len, 1);
        self.sink.count(Equation::PagesTotal, -(run.len as i64));
    }

    fn tell_runs(&mut self) {
        let runs = core::mem::take(&mut self.runs);
        for (run, tell) in [
            (runs.gained, Self::tell_gained as fn(&mut Self, Run)),
            (runs.lost, Self::tell_lost),
            (runs.set, Self::tell_set),
            (runs.cleared, Self::tell_cleared),
        ] {
            if run.len > 0 {
                tell(self, run);
            }
        }
        self.count_entries(0, 0);
    }

    /// Entries of `ino` that are no holes became `more`; told when another inode's come.
    pub fn count_entries(&mut self, ino: u64, more: i64) {
        let (last, count) = &mut self.entries;
        if *last == ino {
            *count += more;
            return;
        }
        let (ino, count) = core::mem::replace(&mut self.entries, (ino, more));
        self.sink.pair(Equation::InodePages, ino, 0, -count);
        if self.txn.operations().is_some() {
            self.sink.pair(Equation::PagesDone, ino, 0, count);
        }
    }
}
