//! Transactions: open → sealed → committed, or rolled back exactly (PROTOCOLS section 2).
//!
//! Invariants:
//! T-1 A transaction never waits: no device I/O, no lock of unknown length. What is missing stops it with [`Stop`],
//!     it is rolled back (cheap), and run again when the thing is there.
//! T-2 A frame is verified at the first touch, before any decision is taken from it.
//! T-3 Every byte range stored belongs to this transaction alone until it commits; shared bits and counters commute.
//! T-4 seq is taken, and the redo copied, while the caller still holds all its locks.

use crate::arena::FrameNo;
use crate::cache::Pin;
use crate::error::{Error, Stop};
use crate::redo::TxnRedo;
use crate::staged::Bases;
use crate::undo::UndoSlot;
use crate::{Store, update};
use core::sync::atomic::Ordering;
use keepfs_format::bitmap::{self, BITS, TOTAL_INODES, TOTAL_NODES, TOTAL_PAGES, TOTAL_SHARES, TOTALS};
use keepfs_format::metablock::{HEADER, MAGIC};
use keepfs_format::plog::{Record, Run};
use keepfs_format::{FromBytes, Header, IntoBytes, Kind, MetaId, PAGE, Space, inode};
use parking_lot::RwLockReadGuard;

/// Most frames one transaction may touch.
pub const FRAMES_MAX: usize = 256;

/// What a caller expects of a metablock; the door refuses another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ref {
    /// Which.
    pub id: MetaId,
    /// Of what kind.
    pub kind: Kind,
    /// Of which inode, or 0.
    pub owner: u64,
}

impl Ref {
    /// The metablock that holds inode `ino`.
    pub const fn inode_block(ino: u64) -> Ref {
        Ref {
            id: inode::block_of(ino),
            kind: Kind::Inodes,
            owner: 0,
        }
    }

    /// A node of inode `owner`.
    pub const fn node(id: MetaId, kind: Kind, owner: u64) -> Ref {
        Ref { id, kind, owner }
    }

    pub(crate) const fn shared(id: MetaId, kind: Kind) -> Ref {
        Ref { id, kind, owner: 0 }
    }
}

/// What a stored byte range means; the audits of a later issue read more from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// Fields of an inode.
    Inode,
    /// A directory entry.
    Dirent,
    /// Structure of a directory.
    DirNode,
    /// A page entry.
    MapEntry,
    /// Structure of a block map.
    MapNode,
    /// Extended attributes.
    Xattr,
}

/// The device page under a page that is staged for the first time.
#[derive(Clone, Copy)]
pub struct Base<'a> {
    /// Its number.
    pub page: u64,
    /// Its CRC-32C.
    pub crc: u32,
    /// Its bytes, checked.
    pub content: &'a [u8; PAGE],
}

/// Something metablocks can be read from: a transaction or a view.
pub trait Source {
    /// Copies bytes of a metablock.
    fn read(&mut self, r: Ref, offset: usize, buf: &mut [u8]) -> Result<(), Stop>;

    /// The level in its header.
    fn level(&mut self, r: Ref) -> Result<u8, Stop> {
        let mut level = [0];
        self.read(r, core::mem::offset_of!(Header, level), &mut level)?;
        Ok(level[0])
    }
}

/// Checks that a header is the one expected. `what` is wrong otherwise.
pub(crate) fn check_header(header: &Header, r: Ref, pool_tag: u32) -> Result<(), Error> {
    let right = header.magic.get() == MAGIC
        && header.id.get() == r.id.0
        && header.kind == r.kind as u8
        && header.owner.get() == r.owner
        && header.pool.get() == pool_tag;
    if right {
        return Ok(());
    }
    Err(Error::Damaged(format!(
        "{} was expected as {:?} of inode {}, but its header says kind {} of inode {} (id {})",
        r.id,
        r.kind,
        r.owner,
        header.kind,
        header.owner.get(),
        MetaId(header.id.get())
    )))
}

/// One frame in a transaction.
struct Touched<'s> {
    r: Ref,
    pin: Pin<'s>,
    generation: u32,
    /// Ranges stored, merged, ascending; only of spaces that are logged as ranges.
    ranges: Vec<(u16, u16)>,
    written: bool,
}

/// An open transaction. Dropped without [`Txn::seal`] and commit, it is rolled back.
pub struct Txn<'s> {
    store: &'s Store,
    undo: UndoSlot<'s>,
    touched: Vec<Touched<'s>>,
    records: Vec<Record>,
    bases: Bases,
    staged_here: Vec<(u64, u64)>,
    births: Vec<MetaId>,
    deaths: Vec<(MetaId, u32)>,
    taken: Vec<(Space, u64)>,
    freed: Vec<(Space, u64)>,
    pages_used: u64,
    promised: u64,
    lowered: Vec<u64>,
    /// Whether records are kept: not for the checkpoint's own changes, which the superblock carries.
    logged: bool,
    done: bool,
    _gate: Option<RwLockReadGuard<'s, ()>>,
}

/// A transaction whose audits balanced; only this can be committed.
pub struct Sealed<'s>(Txn<'s>);

impl<'s> Txn<'s> {
    pub(crate) fn begin(store: &'s Store) -> Txn<'s> {
        Txn::start(store, Some(store.gate.read()), true)
    }

    /// A transaction of the checkpoint itself, which holds the gate alone; it leaves no redo.
    pub(crate) fn begin_unlogged(store: &'s Store) -> Txn<'s> {
        Txn::start(store, None, false)
    }

    fn start(store: &'s Store, gate: Option<RwLockReadGuard<'s, ()>>, logged: bool) -> Txn<'s> {
        Txn {
            store,
            undo: store.undo.open(),
            touched: Vec::with_capacity(8),
            records: Vec::new(),
            bases: Bases::default(),
            staged_here: Vec::new(),
            births: Vec::new(),
            deaths: Vec::new(),
            taken: Vec::new(),
            freed: Vec::new(),
            pages_used: 0,
            promised: 0,
            lowered: Vec::new(),
            logged,
            done: false,
            _gate: gate,
        }
    }

    /// Step 0: pins and verifies the frame at the first touch (T-2), checks its identity.
    fn touch(&mut self, r: Ref) -> Result<usize, Stop> {
        if let Some(i) = self.touched.iter().position(|t| t.r.id == r.id) {
            if self.touched[i].r != r {
                return Err(Error::Logic(format!("{} used as two things in one transaction", r.id)).into());
            }
            return Ok(i);
        }
        if self.touched.len() >= FRAMES_MAX {
            return Err(Error::Logic("a transaction touches too many frames".into()).into());
        }
        let pin = self.store.cache.pin(r.id).ok_or(Stop::Miss(r.id))?;
        self.store.verify(&pin)?;
        let mut bytes = [0; HEADER];
        self.store.arena.load(pin.frame, 0, &mut bytes);
        let header = Header::read_from_bytes(&bytes).map_err(|e| Error::Logic(e.to_string()))?;
        check_header(&header, r, self.store.pool.tag)?;
        let generation = header.generation.get();
        self.touched.push(Touched {
            r,
            pin,
            generation,
            ranges: Vec::new(),
            written: false,
        });
        Ok(self.touched.len() - 1)
    }

    /// First write of this transaction to a frame: a checkpoint in progress gets its copy first (PROTOCOLS 6).
    fn write(&mut self, i: usize) -> Result<FrameNo, Stop> {
        let t = &mut self.touched[i];
        if !t.written {
            self.store.before_first_write(t.r.id, &t.pin)?;
            t.written = true;
        }
        Ok(t.pin.frame)
    }

    fn mark(&mut self, i: usize, offset: usize, len: usize) {
        insert_range(&mut self.touched[i].ranges, offset as u16, (offset + len) as u16);
    }

    /// Stores `new` at `offset`, behind the header.
    pub fn put(&mut self, r: Ref, offset: usize, new: &[u8], _meaning: Meaning) -> Result<(), Stop> {
        if offset < HEADER || offset + new.len() > PAGE {
            return Err(Error::Logic(format!("a write of {} bytes at {offset} leaves {}", new.len(), r.id)).into());
        }
        if new.is_empty() {
            return Ok(());
        }
        let i = self.touch(r)?;
        let frame = self.write(i)?;
        if update::put(&self.store.arena, &mut self.undo, frame, offset, new)? {
            self.mark(i, offset, new.len());
        }
        Ok(())
    }

    /// Stores the bytes of `new` that differ from `old`, as a few ranges. `old` was read in this transaction.
    pub fn put_diff(&mut self, r: Ref, offset: usize, old: &[u8], new: &[u8], meaning: Meaning) -> Result<(), Stop> {
        let len = old.len().min(new.len());
        let mut at = 0;
        while at < len {
            if old[at] == new[at] {
                at += 1;
                continue;
            }
            let start = at;
            let mut end = at + 1;
            // Gaps of up to 8 equal bytes cost less than another range (4 bytes of head, another put).
            while at < len && at < end + 8 {
                if old[at] != new[at] {
                    end = at + 1;
                }
                at += 1;
            }
            self.put(r, offset + start, &new[start..end], meaning)?;
            at = end;
        }
        Ok(())
    }

    fn flip(&mut self, space: Space, number: u64, from: bool) -> Result<(), Stop> {
        let (id, offset, mask) = bitmap::bit(space, number);
        let i = self.touch(Ref::shared(id, Kind::Bitmap))?;
        let frame = self.write(i)?;
        update::flip(&self.store.arena, &mut self.undo, frame, offset, mask, from)
    }

    fn flip_run(&mut self, space: Space, run: Run, from: bool) -> Result<(), Stop> {
        let mut number = run.start;
        let end = run.start + u64::from(run.count);
        while number < end {
            let (id, offset, mut mask) = bitmap::bit(space, number);
            number += 1;
            while number < end && !number.is_multiple_of(8) && !number.is_multiple_of(BITS) {
                mask |= bitmap::bit(space, number).2;
                number += 1;
            }
            let i = self.touch(Ref::shared(id, Kind::Bitmap))?;
            let frame = self.write(i)?;
            update::flip(&self.store.arena, &mut self.undo, frame, offset, mask, from)?;
        }
        Ok(())
    }

    fn total(&mut self, offset: usize, add: i64) -> Result<(), Stop> {
        let i = self.touch(Ref::shared(TOTALS, Kind::Totals))?;
        let frame = self.write(i)?;
        update::add64(&self.store.arena, &mut self.undo, frame, offset, add)
    }

    fn new_number(&mut self, space: Space) -> Result<u64, Stop> {
        let store = self.store;
        let numbers = store.numbers(space);
        loop {
            match numbers.take() {
                Ok(number) => {
                    self.taken.push((space, number));
                    self.flip(space, number, false)?;
                    return Ok(number);
                }
                Err(cursor) => self.look_for_numbers(space, cursor)?,
            }
        }
    }

    /// Fills the stock of numbers from the first bitmap metablock at or behind `cursor` with clear bits.
    fn look_for_numbers(&mut self, space: Space, cursor: u64) -> Result<(), Stop> {
        let limit = self.store.number_limit(space);
        if cursor >= limit {
            return Err(Error::NoSpace.into());
        }
        let block = cursor / BITS;
        let i = self.touch(Ref::shared(MetaId::new(space, block), Kind::Bitmap))?;
        let mut bytes = [0; PAGE];
        self.store.arena.load(self.touched[i].pin.frame, 0, &mut bytes);
        let mut found = Vec::with_capacity(crate::numbers::STOCK);
        let mut next = ((block + 1) * BITS).min(limit);
        for number in cursor..next {
            let (_, offset, mask) = bitmap::bit(space, number);
            if bytes[offset] & mask == 0 {
                found.push(number);
                if found.len() == crate::numbers::STOCK {
                    next = number + 1;
                    break;
                }
            }
        }
        self.store.numbers(space).fill(&found, next);
        Ok(())
    }

    fn free_number(&mut self, space: Space, number: u64) -> Result<(), Stop> {
        self.flip(space, number, true)?;
        self.freed.push((space, number));
        Ok(())
    }

    /// A new NODES metablock: header and zeros.
    pub fn new_node(&mut self, kind: Kind, level: u8, owner: u64) -> Result<Ref, Stop> {
        let number = self.new_number(Space::NodeNumbers)?;
        let id = MetaId::new(Space::Nodes, number);
        let generation = self.store.next_generation(id)?;
        self.total(TOTAL_NODES, 1)?;
        let r = Ref::node(id, kind, owner);
        let header = Header::new(self.store.pool.tag, id, kind, level, owner, generation);
        let pin = self.store.place_new(id, &header)?;
        self.births.push(id);
        self.touched.push(Touched {
            r,
            pin,
            generation,
            ranges: Vec::new(),
            written: false,
        });
        let i = self.touched.len() - 1;
        self.write(i)?;
        self.records.push(Record::Birth {
            id,
            generation,
            kind: kind as u8,
            level,
            owner,
        });
        Ok(r)
    }

    /// Generation of a node (for the child entries of block map nodes).
    pub fn node_generation(&mut self, r: Ref) -> Result<u32, Stop> {
        let i = self.touch(r)?;
        Ok(self.touched[i].generation)
    }

    /// A node dies.
    pub fn free_node(&mut self, r: Ref) -> Result<(), Stop> {
        let i = self.touch(r)?;
        self.write(i)?;
        let generation = self.touched[i].generation;
        self.free_number(Space::NodeNumbers, r.id.index())?;
        self.total(TOTAL_NODES, -1)?;
        self.touched[i].ranges.clear();
        self.deaths.push((r.id, generation));
        self.records.push(Record::Death { id: r.id, generation });
        Ok(())
    }

    /// A free inode number; the caller writes the inode.
    pub fn new_ino(&mut self) -> Result<u64, Stop> {
        let ino = self.new_number(Space::InodeNumbers)?;
        self.total(TOTAL_INODES, 1)?;
        self.records.push(Record::Alloc {
            space: Space::InodeNumbers,
            run: Run { start: ino, count: 1 },
        });
        Ok(ino)
    }

    /// Takes this inode number (the root directory's).
    pub fn claim_ino(&mut self, ino: u64) -> Result<(), Stop> {
        self.flip(Space::InodeNumbers, ino, false)?;
        self.total(TOTAL_INODES, 1)?;
        self.records.push(Record::Alloc {
            space: Space::InodeNumbers,
            run: Run { start: ino, count: 1 },
        });
        Ok(())
    }

    /// An inode number becomes free; its staged pages are gone.
    pub fn free_ino(&mut self, ino: u64) -> Result<(), Stop> {
        self.free_number(Space::InodeNumbers, ino)?;
        self.total(TOTAL_INODES, -1)?;
        self.records.push(Record::Free {
            space: Space::InodeNumbers,
            run: Run { start: ino, count: 1 },
        });
        Ok(())
    }

    /// Puts an inode on the hidden list, or takes it off.
    pub fn set_orphan(&mut self, ino: u64, on: bool) -> Result<(), Stop> {
        self.flip(Space::Orphans, ino, !on)?;
        let run = Run { start: ino, count: 1 };
        self.records.push(match on {
            true => Record::Alloc {
                space: Space::Orphans,
                run,
            },
            false => Record::Free {
                space: Space::Orphans,
                run,
            },
        });
        Ok(())
    }

    /// Reserved pages become allocated.
    pub fn use_pages(&mut self, run: Run) -> Result<(), Stop> {
        self.flip_run(Space::Pages, run, false)?;
        self.total(TOTAL_PAGES, i64::from(run.count))?;
        self.pages_used += u64::from(run.count);
        self.records.push(Record::Alloc {
            space: Space::Pages,
            run,
        });
        Ok(())
    }

    /// One reference of a data page goes; with the last one the page is free.
    pub fn free_page(&mut self, page: u64) -> Result<(), Stop> {
        if page == 0 || page >= self.store.pool.pages {
            return Err(Error::Damaged(format!("a file names page {page}, which the pool does not have")).into());
        }
        let (id, offset) = bitmap::share(page);
        let r = Ref::shared(id, Kind::Shares);
        let i = self.touch(r)?;
        let mut count = [0; 2];
        self.store.arena.load(self.touched[i].pin.frame, offset, &mut count);
        // What is decided from a count does not commute: while a transaction that lowered it is open, others run again.
        let shared = u16::from_le_bytes(count) != 0;
        if !self.store.lowering.lock().admit(page, shared) {
            return Err(Stop::Miss(id));
        }
        if shared {
            self.lowered.push(page);
            let frame = self.write(i)?;
            if !update::add16(&self.store.arena, &mut self.undo, frame, offset, -1)? {
                return Err(Stop::Miss(id));
            }
            self.total(TOTAL_SHARES, -1)?;
            self.records.push(Record::Ref {
                run: Run { start: page, count: 1 },
                delta: -1,
            });
            return Ok(());
        }
        self.flip(Space::Pages, page, true)?;
        self.total(TOTAL_PAGES, -1)?;
        match self.records.last_mut() {
            Some(Record::Free {
                space: Space::Pages,
                run,
            }) if run.start + u64::from(run.count) == page => run.count += 1,
            _ => self.records.push(Record::Free {
                space: Space::Pages,
                run: Run { start: page, count: 1 },
            }),
        }
        Ok(())
    }

    /// One more reference of each page of a run. `false`, and the transaction must fail, if a count is full.
    pub fn share_pages(&mut self, run: Run) -> Result<bool, Stop> {
        for page in run.start..run.start + u64::from(run.count) {
            let (id, offset) = bitmap::share(page);
            let i = self.touch(Ref::shared(id, Kind::Shares))?;
            let frame = self.write(i)?;
            if !update::add16(&self.store.arena, &mut self.undo, frame, offset, 1)? {
                return Ok(false);
            }
        }
        self.total(TOTAL_SHARES, i64::from(run.count))?;
        self.records.push(Record::Ref { run, delta: 1 });
        Ok(true)
    }

    /// Stages bytes of a file page (S-8.8). `base`: the written page under it, if it is not staged yet.
    pub fn stage(
        &mut self,
        ino: u64,
        index: u64,
        version: u32,
        base: Option<Base<'_>>,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), Stop> {
        let (base, base_crc) = self.stage_base((ino, index), base)?;
        let (offset, bytes) = (offset as u16, bytes.to_vec());
        self.records.push(Record::Tail {
            ino,
            index,
            version,
            base,
            base_crc,
            offset,
            bytes,
        });
        Ok(())
    }

    /// Stages zeros.
    pub fn stage_zero(
        &mut self,
        ino: u64,
        index: u64,
        version: u32,
        base: Option<Base<'_>>,
        offset: usize,
        len: usize,
    ) -> Result<(), Stop> {
        let (base, base_crc) = self.stage_base((ino, index), base)?;
        self.records.push(Record::Zero {
            ino,
            index,
            version,
            base,
            base_crc,
            offset: offset as u16,
            len: len as u16,
        });
        Ok(())
    }

    fn stage_base(&mut self, key: (u64, u64), base: Option<Base<'_>>) -> Result<(u64, u32), Stop> {
        if self.staged_here.contains(&key) || self.store.staged_table.lock().has(key.0, key.1) {
            return Ok((0, 0));
        }
        self.staged_here.push(key);
        if let Some(base) = base {
            self.bases.insert(key, Box::new(*base.content));
            return Ok((base.page, base.crc));
        }
        if !self.store.space.promise() {
            return Err(Error::NoSpace.into());
        }
        self.promised += 1;
        Ok((0, 0))
    }

    /// A typed record (S-8.5): create, link, unlink, truncate, map-entry.
    pub fn note(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Ends the open part: the audit equations must balance (they come with their issue).
    pub fn seal(self) -> Result<Sealed<'s>, Error> {
        Ok(Sealed(self))
    }

    fn rollback(&mut self) {
        for kept in self.undo.backwards() {
            update::take_back(&self.store.arena, &kept);
        }
        for id in core::mem::take(&mut self.births) {
            if let Some(i) = self.touched.iter().position(|t| t.r.id == id) {
                let t = self.touched.swap_remove(i);
                self.store.cache.remove(id, t.pin);
            }
        }
        for (space, number) in core::mem::take(&mut self.taken).into_iter().rev() {
            self.store.numbers(space).put_back(number);
        }
        self.store.space.promise_back(self.promised);
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.rollback();
        }
        if !self.lowered.is_empty() {
            self.store.lowering.lock().done(&self.lowered);
        }
    }
}

impl Source for Txn<'_> {
    fn read(&mut self, r: Ref, offset: usize, buf: &mut [u8]) -> Result<(), Stop> {
        if offset + buf.len() > PAGE {
            return Err(Error::Logic(format!("a read at {offset} leaves {}", r.id)).into());
        }
        let i = self.touch(r)?;
        self.store.arena.load(self.touched[i].pin.frame, offset, buf);
        Ok(())
    }
}

impl Sealed<'_> {
    /// Commits; returns the transaction's number, 0 if it changed nothing. From the state word on it is done.
    pub fn commit(self) -> u64 {
        let mut txn = self.0;
        txn.done = true;
        if txn.undo.is_empty() && txn.records.is_empty() {
            return 0;
        }
        let records = if txn.logged { txn.take_records() } else { Vec::new() };
        let seq = txn.publish(records);
        txn.settle(seq);
        seq
    }
}

impl Txn<'_> {
    /// The records with, last, the final bytes of every range of this transaction (T-3: they are still its own).
    fn take_records(&mut self) -> Vec<Record> {
        let mut records = core::mem::take(&mut self.records);
        for t in self.touched.iter().filter(|t| !t.ranges.is_empty()) {
            let ranges = t.ranges.iter().map(|(from, to)| {
                let mut bytes = vec![0; usize::from(to - from)];
                self.store.arena.load(t.pin.frame, usize::from(*from), &mut bytes);
                (*from, bytes)
            });
            records.push(Record::Update {
                id: t.r.id,
                generation: t.generation,
                ranges: ranges.collect(),
            });
        }
        records
    }

    /// Takes the number, stores the state word, hands the redo over and lets the staged table follow (T-4).
    fn publish(&mut self, records: Vec<Record>) -> u64 {
        let mut redo = self.store.redo.lock();
        redo.last += u64::from(self.logged);
        let seq = redo.last;
        self.undo.commit(seq);
        for record in &records {
            if let Record::Free {
                space: Space::Pages,
                run,
            } = record
            {
                self.store.space.freed(seq, *run);
            }
        }
        self.store.follow_staged(&records, &mut self.bases, self.promised);
        self.promised = 0;
        self.store.stats.bytes_dirtied(&records);
        if self.logged {
            redo.pending.push(TxnRedo { seq, records });
        }
        seq
    }

    /// Everything after the state word: idempotent, and nobody waits for it.
    fn settle(&mut self, seq: u64) {
        if self.logged {
            self.store.space.used(self.pages_used);
        }
        for (space, number) in self.taken.drain(..) {
            self.store.numbers(space).used(number);
        }
        for (space, number) in self.freed.drain(..) {
            self.store.numbers(space).freed(seq, number);
        }
        for t in self.touched.iter().filter(|t| t.written) {
            let mut state = t.pin.slot().state.lock();
            state.redo = state.redo.max(seq);
        }
        for (id, generation) in core::mem::take(&mut self.deaths) {
            self.store.deaths.lock().insert(id, generation);
            if let Some(i) = self.touched.iter().position(|t| t.r.id == id) {
                let t = self.touched.swap_remove(i);
                self.store.cache.remove(id, t.pin);
            }
        }
        self.store.stats.transactions.fetch_add(1, Ordering::Relaxed);
    }
}

/// Inserts `from..to` into sorted, disjoint ranges, merging those that touch.
fn insert_range(ranges: &mut Vec<(u16, u16)>, from: u16, to: u16) {
    let first = ranges.partition_point(|(_, end)| *end < from);
    let last = ranges.partition_point(|(start, _)| *start <= to);
    if first == last {
        ranges.insert(first, (from, to));
        return;
    }
    let merged = (from.min(ranges[first].0), to.max(ranges[last - 1].1));
    ranges.splice(first..last, [merged]);
}

/// The header of a metablock born now, as bytes followed by zeros.
pub(crate) fn newborn(header: &Header) -> Box<[u8; PAGE]> {
    let mut bytes = Box::new([0; PAGE]);
    bytes[..HEADER].copy_from_slice(header.as_bytes());
    bytes
}

/// Pages whose SHARES count an open transaction has lowered.
#[derive(Default)]
pub(crate) struct Lowering(std::collections::HashSet<u64>);

impl Lowering {
    /// Whether a transaction may decide from the count of `page`; if it will lower the count, others must not.
    fn admit(&mut self, page: u64, lowers: bool) -> bool {
        if self.0.contains(&page) {
            return false;
        }
        if lowers {
            self.0.insert(page);
        }
        true
    }

    fn done(&mut self, pages: &[u64]) {
        pages.iter().for_each(|p| {
            self.0.remove(p);
        });
    }
}
