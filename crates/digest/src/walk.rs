//! The walk over a transaction: every change and every record is looked at once, and put on its side of the equations.

use crate::dying::Dying;
use crate::equation::Equation;
use crate::geometry::Geometry;
use crate::input::{Block, Fate, Nature, Transaction};
use crate::sink::Sink;
use core::ops::Range;
use keepfs_format::blockmap::PageEntry;
use keepfs_format::inode::{self, Inode};
use keepfs_format::metablock::HEADER;
use keepfs_format::{FromZeros, IntoBytes, Kind, MetaId, PAGE, Page, Space};
use std::cell::Cell;

/// A metablock before and after the transaction, as far as it was asked for.
pub(crate) struct Image {
    before: Page,
    after: Page,
}

/// What a node was before it was born, and is after its death.
static ZEROS: Page = [0; PAGE];

impl Image {
    /// Before and after.
    pub fn of(&self, fate: Fate) -> (&Page, &Page) {
        match fate {
            Fate::Born => (&ZEROS, &self.after),
            Fate::Dies => (&self.before, &ZEROS),
            _ => (&self.before, &self.after),
        }
    }
}

/// What a walk needs and leaves to the next one of its thread, so that nothing is allocated as a rule.
#[derive(Default)]
pub(crate) struct Spare {
    image: Option<Box<Image>>,
    order: Vec<(usize, usize)>,
    pub carried: Vec<Carried>,
    pub inodes: Inodes,
    /// Bits of ORPHANS that changed: inode number, set.
    pub orphans: Vec<(u64, bool)>,
    /// A leaf that dies.
    pub dying: Option<Box<Dying>>,
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
        self.inodes.count = 0;
        self.orphans.clear();
        self.dying.iter_mut().for_each(|leaf| leaf.forget());
        let longest = [
            self.order.capacity(),
            self.inodes.list.capacity(),
            self.orphans.capacity(),
        ];
        if longest.iter().all(|capacity| *capacity <= KEEP_MAX) {
            SPARE.set(Some(self));
        }
    }
}

/// Numbers that follow each other, put together before they are told.
#[derive(Clone, Copy, Default)]
pub(crate) struct Run {
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
pub(crate) struct Runs {
    pub gained: Run,
    pub lost: Run,
    pub set: Run,
    pub cleared: Run,
}

/// A page entry of an inode's body area that leaves it because the body became a tree: it should stand there.
pub(crate) struct Carried {
    pub ino: u64,
    pub slot: u64,
    pub entry: PageEntry,
}

/// An inode that changed.
pub(crate) struct Changed {
    pub ino: u64,
    pub before: Inode,
    pub after: Inode,
}

/// Inodes that changed: those of earlier transactions lie behind them, to be overwritten.
#[derive(Default)]
pub(crate) struct Inodes {
    list: Vec<Changed>,
    count: usize,
}

impl Inodes {
    /// Room for one more, whatever stands there.
    pub fn more(&mut self) -> Option<&mut Changed> {
        if self.count == self.list.len() {
            self.list.push(Changed {
                ino: 0,
                before: Inode::new_zeroed(),
                after: Inode::new_zeroed(),
            });
        }
        self.count += 1;
        self.list.get_mut(self.count - 1)
    }

    /// Those of this transaction.
    pub fn all(&self) -> &[Changed] {
        self.list.get(..self.count).unwrap_or_default()
    }
}

pub(crate) struct Walk<'t, T, S> {
    pub txn: &'t T,
    pub name_seed: [u64; 2],
    pub geometry: &'t Geometry,
    /// Of a checkpoint, or of who makes the pool: it leaves no redo.
    pub is_own: bool,
    pub sink: S,
    pub runs: Runs,
    pub spare: Box<Spare>,
    /// Whether an inode lost its last name, or one without names got one or ended.
    pub is_hidden_moved: bool,
    /// Page entries that are no holes, gained less lost, of the inode looked at last.
    pub entries: (u64, i64),
    /// born and cur of the inode looked at last.
    pub life: (u64, (u64, u64)),
}

/// The changes of one metablock out of all, sorted by it.
pub(crate) fn of_block(order: &[(usize, usize)], index: usize) -> &[(usize, usize)] {
    let from = order.partition_point(|(block, _)| *block < index);
    let to = order.partition_point(|(block, _)| *block <= index);
    order.get(from..to).unwrap_or_default()
}

impl<'t, T: Transaction, S: Sink> Walk<'t, T, S> {
    pub fn new(txn: &'t T, (name_seed, geometry, is_own): ([u64; 2], &'t Geometry, bool), sink: S) -> Self {
        Walk {
            txn,
            name_seed,
            geometry,
            is_own,
            sink,
            runs: Runs::default(),
            spare: Spare::take(),
            is_hidden_moved: false,
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
                Nature::Bits => self.bits(change),
                Nature::Bytes => match self.txn.block(change.block).kind {
                    Kind::Shares | Kind::Totals => self.counts(change),
                    _ => order.push((change.block, at)),
                },
            }
        }
        // By metablock, those of one metablock in their order.
        order.sort_unstable();
        // Inodes first: what they carry over is looked for in nodes.
        self.blocks(&order, &mut image, |kind| kind == Kind::Inodes);
        let dies = self.txn.dies();
        if dies {
            self.keep_dying(&order);
        }
        self.blocks(&order, &mut image, Kind::is_owned);
        if dies {
            self.dead_nodes(&order, &mut image);
        }
        self.carried_nowhere();
        self.hidden();
        self.records();
        self.operations();
        self.tell_runs();
        self.spare.image = Some(image);
        self.spare.order = order;
        self.spare.give();
        self.sink
    }

    fn blocks(&mut self, order: &[(usize, usize)], image: &mut Image, is_wanted: impl Fn(Kind) -> bool) {
        for changes in order.chunk_by(|a, b| a.0 == b.0) {
            let index = changes[0].0;
            let block = self.txn.block(index);
            if is_wanted(block.kind) && matches!(block.fate, Fate::Stays | Fate::Born) {
                self.block(&block, changes, image);
                self.redo(block.id, index, changes);
            }
        }
    }

    /// What dies counts whether it changed or not.
    fn dead_nodes(&mut self, order: &[(usize, usize)], image: &mut Image) {
        for index in 0..self.txn.count() {
            let block = self.txn.block(index);
            if block.fate == Fate::Dies && block.kind.is_owned() && !self.dying_leaf(&block, index) {
                self.dead_node(&block, index, of_block(order, index), image);
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

    /// Fills both images within `span`, as far as the fate leaves one (S-17.3).
    pub fn image(&self, block: &Block, changes: &[(usize, usize)], span: Range<usize>, image: &mut Image) {
        let Some((index, _)) = changes.first() else { return };
        let (before, after) = (&mut image.before[span.clone()], &mut image.after[span.clone()]);
        match block.fate {
            Fate::Born => self.txn.load(*index, span.start, after),
            Fate::Dies => self.before(*index, changes, span.start, before),
            _ => self.images((*index, changes), span.start, (before, after)),
        }
    }

    /// What stood at `start` before, and what stands there now: of one length.
    pub fn images(
        &self,
        (index, changes): (usize, &[(usize, usize)]),
        start: usize,
        (before, after): (&mut [u8], &mut [u8]),
    ) {
        self.txn.load(index, start, after);
        before.copy_from_slice(after);
        self.take_back(changes, start, before);
    }

    /// What stood at `start` before.
    pub fn before(&self, index: usize, changes: &[(usize, usize)], start: usize, before: &mut [u8]) {
        self.txn.load(index, start, before);
        self.take_back(changes, start, before);
    }

    /// Takes changes back in bytes of a metablock.
    fn take_back(&self, changes: &[(usize, usize)], start: usize, before: &mut [u8]) {
        let all = self.txn.changes();
        let end = start + before.len();
        for change in changes.iter().rev().filter_map(|(_, at)| all.get(*at)) {
            let (from, to) = (change.offset.max(start), (change.offset + change.old.len()).min(end));
            if from < to {
                let old = &change.old[from - change.offset..to - change.offset];
                before[from - start..to - start].copy_from_slice(old);
            }
        }
    }

    /// The metablock, if the transaction touched it.
    pub fn find(&self, id: MetaId) -> Option<usize> {
        (0..self.txn.count()).find(|index| self.txn.block(*index).id == id)
    }

    /// What is asked of an inode as it is now, if its metablock was touched.
    pub fn inode_now<A>(&self, ino: u64, asked: impl FnOnce(&Inode) -> A) -> Option<A> {
        if let Some(changed) = self.spare.inodes.all().iter().find(|c| c.ino == ino) {
            return Some(asked(&changed.after));
        }
        let block = self.find(inode::block_of(ino))?;
        let mut inode = Inode::new_zeroed();
        self.txn.load(block, inode::offset_of(ino), inode.as_mut_bytes());
        Some(asked(&inode))
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
        if self.runs.gained.len > 0 {
            self.tell_gained(self.runs.gained);
        }
        if self.runs.lost.len > 0 {
            self.tell_lost(self.runs.lost);
        }
        if self.runs.set.len > 0 {
            self.tell_set(self.runs.set);
        }
        if self.runs.cleared.len > 0 {
            self.tell_cleared(self.runs.cleared);
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
