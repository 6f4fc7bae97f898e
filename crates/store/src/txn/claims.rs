//! What a transaction does to numbers, nodes, pages and staged data.

use super::{Base, Birth, Txn};
use crate::error::{Error, Pressure, Stop};
#[cfg(test)]
use crate::locks::{self, Rule};
use crate::numbers::STOCK;
use keepfs_codes::identity::Group;
use keepfs_codes::line::LINE;
use keepfs_digest::Fate;
use keepfs_format::bitmap::{self, BITS, TOTAL_INODES, TOTAL_NODES, TOTAL_PAGES, TOTAL_SHARES};
use keepfs_format::metablock::HEADER;
use keepfs_format::oplog::Action;
use keepfs_format::plog::{Record, Run};
use keepfs_format::{Header, Kind, MetaId, PAGE, Space};
use keepfs_frames::Ref;
use keepfs_frames::known::WHICH;
use keepfs_frames::scratch::with_page;
use keepfs_vault::arena::Line;
use keepfs_vault::planted::{self, Bug, Logic, Use};
use keepfs_vault::update;

impl Txn<'_> {
    fn flip(&mut self, space: Space, number: u64, from: bool) -> Result<(), Stop> {
        let (_, _, mask) = bitmap::bit(space, number);
        self.flip_bits(space, number, mask, from)
    }

    /// Flips bits of the byte that has the bit of `number`.
    fn flip_bits(&mut self, space: Space, number: u64, mask: u8, from: bool) -> Result<(), Stop> {
        let (id, offset, _) = bitmap::bit(space, number);
        let i = self.touch(Ref::shared(id, Kind::Bitmap))?;
        let frame = self.write(i)?;
        let mut line = Line::none();
        self.line(i, offset, &mut line)?;
        #[cfg(test)]
        if locks::breaks(Rule::LockAsWriter) {
            update::by_hand::enter(&self.store.frames.arena, frame);
            self.store.alloc.numbers(Space::NodeNumbers).lock_and_go();
            update::by_hand::leave(&self.store.frames.arena, frame);
        }
        if planted::is(Bug::BitsUndoneAsBytes) {
            let byte = line.at(offset, 1)[0] ^ mask;
            let place = (Group::Bitmap, frame);
            return Ok(update::put(
                &self.store.frames.arena,
                &mut self.undo,
                place,
                &line,
                (offset, &[byte]),
            )?);
        }
        update::flip(
            &self.store.frames.arena,
            &mut self.undo,
            frame,
            &line,
            (offset, mask, from),
        )?;
        Ok(())
    }

    fn flip_run(&mut self, space: Space, run: Run, from: bool) -> Result<(), Stop> {
        let mut number = run.start;
        let end = run.start + u64::from(run.count);
        while number < end {
            let first = number;
            let mut mask = 0;
            while number < end && number / 8 == first / 8 {
                mask |= bitmap::bit(space, number).2;
                number += 1;
            }
            self.flip_bits(space, first, mask, from)?;
        }
        Ok(())
    }

    /// TOTALS change when the transaction is sealed, each once (decision 0790).
    fn total(&mut self, which: usize, add: i64) {
        self.totals[(which - HEADER) / 8] += add;
    }

    /// NODES metablocks that end with the transaction.
    pub(super) fn nodes_died(&self) -> u64 {
        let more = self.totalled[(TOTAL_NODES - HEADER) / 8];
        self.grown.saturating_add_signed(more.saturating_neg())
    }

    /// Changes what was put off to the end: bits of the last pages freed, and the totals in this slot's stripe (S-13.4).
    pub(super) fn catch_up(&mut self) -> Result<(), Stop> {
        self.free_bits()?;
        let totals = core::mem::take(&mut self.totals);
        if totals == [0; 4] {
            return Ok(());
        }
        let (slot, _) = self.undo.place();
        let foreign = if planted::is(Bug::StripeForeign) { 8 } else { 0 };
        let (id, stripe) = self.store.ground.pool.stripe_of(slot ^ foreign);
        let i = self.touch(Ref::shared(id, Kind::Totals))?;
        for (which, add) in WHICH.into_iter().zip(totals).filter(|(_, add)| *add != 0) {
            self.totalled[(which - HEADER) / 8] += add;
            let offset = bitmap::in_stripe(stripe, which);
            let mut line = Line::none();
            self.line(i, offset, &mut line)?;
            let now = line.at(offset, 8).first_chunk().copied().map_or(0, u64::from_le_bytes);
            self.put_own(i, &line, offset, &now.wrapping_add_signed(add).to_le_bytes())?;
        }
        Ok(())
    }

    /// Stores bytes of SHARES or TOTALS that are this transaction's own, in one line.
    fn put_own(&mut self, i: usize, line: &Line, offset: usize, new: &[u8]) -> Result<(), Stop> {
        let frame = self.write(i)?;
        update::put(
            &self.store.frames.arena,
            &mut self.undo,
            (Group::Bitmap, frame),
            line,
            (offset, new),
        )?;
        Ok(())
    }

    /// The counts of these pages are this transaction's until it is settled (S-13.4). Errors: they are another one's.
    fn own(&mut self, run: Run) -> Result<(), Stop> {
        let owns = planted::is(Bug::ShareUnowned) || self.store.txns.owned.lock().take(run, &mut self.owned);
        match owns {
            true => Ok(()),
            false => Err(Stop::Pressure(Pressure::Owned)),
        }
    }

    /// The bit of a freed page is cleared with those of its neighbours in the same byte, when another byte's turn comes.
    fn free_bit(&mut self, page: u64) -> Result<(), Stop> {
        let (first, bit) = (page - page % 8, 1 << (page % 8));
        match &mut self.free_bits {
            Some((at, mask)) if *at == first && *mask & bit != 0 => {
                Err(Error::Logic(format!("page {page} was freed twice by one transaction")).into())
            }
            Some((at, mask)) if *at == first => {
                *mask |= bit;
                Ok(())
            }
            _ => {
                self.free_bits()?;
                self.free_bits = Some((first, bit));
                Ok(())
            }
        }
    }

    fn free_bits(&mut self) -> Result<(), Stop> {
        match self.free_bits.take() {
            Some((first, mask)) => self.flip_bits(Space::Pages, first, mask, true),
            None => Ok(()),
        }
    }

    /// This transaction places data that was told to be there: its metadata may grow into the reserve (promise C-7).
    pub fn claim(&mut self) {
        self.claim = true;
    }

    /// Metadata grew by `nodes`, with `block` of INODES maybe used for the first time. Errors: `NoSpace` if the next
    /// checkpoint could not be sure of homes for it.
    fn grow(&mut self, nodes: u64, block: Option<MetaId>) -> Result<(), Stop> {
        let homeless = match block {
            None => false,
            Some(id) => !self.store.home.has(&self.store.frames, id)?,
        };
        let block = block.filter(|_| homeless).map(|id| id.index());
        match self.store.alloc.space.grow(nodes, block, self.claim) {
            true => {
                self.grown += nodes;
                Ok(())
            }
            false => Err(Error::NoSpace.into()),
        }
    }

    fn new_number(&mut self, space: Space) -> Result<u64, Stop> {
        let store = self.store;
        let numbers = store.alloc.numbers(space);
        loop {
            match numbers.take() {
                Ok(number) => {
                    self.taken.push((space, number));
                    if space == Space::InodeNumbers && !self.has_cradle(number)? {
                        continue;
                    }
                    self.flip(space, number, false)?;
                    return Ok(number);
                }
                Err(cursor) => self.look_for_numbers(space, cursor)?,
            }
        }
    }

    /// Whether an inode can be made with this number. `false`: the metablock of inodes that it would lie in is fenced or lost, and
    /// nobody gets a number of it (S-4.8, S-15.17).
    fn has_cradle(&mut self, ino: u64) -> Result<bool, Stop> {
        let cradle = Ref::inode_block(ino);
        match self.touch(cradle) {
            Ok(_) => Ok(true),
            Err(Stop::Miss(id)) if id == cradle.id => Err(Stop::Pressure(Pressure::Cradle(id))),
            Err(Stop::Error(error)) if error.is_of_one() => {
                self.taken.pop();
                self.store.alloc.inos.avoid(cradle.id.index());
                Ok(false)
            }
            Err(stop) => Err(stop),
        }
    }

    /// Fills the stock of numbers from the first bitmap metablock at or behind `cursor` with clear bits.
    fn look_for_numbers(&mut self, space: Space, cursor: u64) -> Result<(), Stop> {
        let limit = self.store.alloc.number_limit();
        if cursor >= limit {
            return Err(Error::NoSpace.into());
        }
        let block = cursor / BITS;
        let i = self.touch(Ref::shared(MetaId::new(space, block), Kind::Bitmap))?;
        let (store, t) = (self.store, &self.touched[i]);
        // Under the lock of the numbers nothing is mended (S-15.19): it is before, and looked at again where that was too early.
        while !store.alloc.numbers(space).look(|| {
            let mut bytes = [0; PAGE];
            store.frames.arena.whole(t.pin.frame, t.binding, &mut bytes).ok()?;
            let end = ((block + 1) * BITS).min(limit);
            let is_clear = |number: &u64| {
                let (_, offset, mask) = bitmap::bit(space, *number);
                bytes[offset] & mask == 0
            };
            let found: Vec<u64> = (cursor..end).filter(is_clear).take(STOCK).collect();
            let next = match found.last() {
                Some(last) if found.len() == STOCK => last + 1,
                _ => end,
            };
            Some((found, next))
        }) {
            with_page(|copy| store.whole(&t.pin, t.binding, copy))?;
        }
        Ok(())
    }

    fn free_number(&mut self, space: Space, number: u64) -> Result<(), Stop> {
        self.store.alloc.numbers(space).freeing(number);
        self.freed.push((space, number));
        self.flip(space, number, true)
    }

    fn dies(&mut self, i: usize) {
        let t = &mut self.touched[i];
        t.fate = if t.is_born() { Fate::Passes } else { Fate::Dies };
    }

    /// A new NODES metablock: header and zeros.
    pub fn new_node(&mut self, kind: Kind, level: u8, owner: u64) -> Result<Ref, Stop> {
        let number = self.new_number(Space::NodeNumbers)?;
        let id = MetaId::new(Space::Nodes, number);
        let generation = self.store.home.next_life(&self.store.frames, id)?;
        self.total(TOTAL_NODES, 1);
        self.grow(1, None)?;
        let r = Ref::node(id, kind, owner);
        let header = Header::new(self.store.ground.pool.tag, id, kind, level, owner, generation);
        let pin = self.store.place_new(id, &header)?;
        let i = self.hold(r, pin, (self.store.binding(r), Birth { level, generation }, Fate::Born));
        self.write(i)?;
        if !planted::is(Bug::BirthOmitted) && !planted::has(Logic::BirthNotTold) {
            self.records.push(Record::Birth {
                id,
                generation,
                kind: kind as u8,
                level,
                owner,
            });
        }
        Ok(r)
    }

    /// Generation of a node (for the child entries of block map nodes).
    pub fn node_generation(&mut self, r: Ref) -> Result<u32, Stop> {
        let i = self.touch(r)?;
        Ok(self.touched[i].birth.generation)
    }

    /// A node dies.
    pub fn free_node(&mut self, r: Ref) -> Result<(), Stop> {
        let i = self.touch(r)?;
        self.write(i)?;
        let generation = self.touched[i].birth.generation;
        self.free_number(Space::NodeNumbers, r.id.index())?;
        if !planted::has(Logic::NodeNotTotalled) {
            self.total(TOTAL_NODES, -1);
        }
        self.touched[i].ranges.clear();
        self.dies(i);
        self.records.push(Record::Death { id: r.id, generation });
        Ok(())
    }

    /// A free inode number; the caller writes the inode.
    pub fn new_ino(&mut self) -> Result<u64, Stop> {
        let ino = self.new_number(Space::InodeNumbers)?;
        if !planted::has(Logic::InodeNotTotalled) {
            self.total(TOTAL_INODES, 1);
        }
        self.grow(0, Some(keepfs_format::inode::block_of(ino)))?;
        self.records.push(Record::Alloc {
            space: Space::InodeNumbers,
            run: Run { start: ino, count: 1 },
        });
        Ok(ino)
    }

    /// Takes this inode number (the root directory's).
    pub fn claim_ino(&mut self, ino: u64) -> Result<(), Stop> {
        self.flip(Space::InodeNumbers, ino, false)?;
        self.total(TOTAL_INODES, 1);
        self.records.push(Record::Alloc {
            space: Space::InodeNumbers,
            run: Run { start: ino, count: 1 },
        });
        Ok(())
    }

    /// An inode number becomes free; its staged pages are gone.
    pub fn free_ino(&mut self, ino: u64) -> Result<(), Stop> {
        self.free_number(Space::InodeNumbers, ino)?;
        self.total(TOTAL_INODES, -1);
        if planted::has(Logic::NumberNotTold) {
            return Ok(());
        }
        self.records.push(Record::Free {
            space: Space::InodeNumbers,
            run: Run { start: ino, count: 1 },
        });
        Ok(())
    }

    /// Puts an inode on the hidden list, or takes it off.
    pub fn set_orphan(&mut self, ino: u64, on: bool) -> Result<(), Stop> {
        self.flip(Space::Orphans, ino, !on)?;
        self.op(ino, Action::Orphan { on: u8::from(on) })?;
        if !on && planted::has(Logic::UnhidingNotTold) {
            return Ok(());
        }
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
        self.total(TOTAL_PAGES, i64::from(run.count));
        if !planted::has(Logic::UsedNotCounted) {
            self.pages_used += u64::from(run.count);
        }
        let short = u32::from(planted::has(Logic::AllocShort) && run.count > 1);
        self.records.push(Record::Alloc {
            space: Space::Pages,
            run: Run {
                count: run.count - short,
                ..run
            },
        });
        Ok(())
    }

    /// Pages of a chunk without metadata are data's again.
    pub(crate) fn leave_pages(&mut self, run: Run) -> Result<(), Stop> {
        self.flip_run(Space::Pages, run, true)?;
        self.total(TOTAL_PAGES, -i64::from(run.count));
        Ok(())
    }

    /// An INODES metablock without a live inode dies; only where no other transaction is open.
    pub(crate) fn free_inode_block(&mut self, r: Ref) -> Result<(), Stop> {
        let i = self.touch(r)?;
        self.write(i)?;
        let generation = self.touched[i].birth.generation;
        self.dies(i);
        self.records.push(Record::Death { id: r.id, generation });
        Ok(())
    }

    /// One reference of a data page goes; with the last one the page is free.
    pub fn free_page(&mut self, page: u64) -> Result<(), Stop> {
        if page == 0 || page >= self.store.ground.pool.pages || self.store.alloc.system.has(page) {
            return Err(Error::Damaged(format!("a file names page {page}, which the pool does not have")).into());
        }
        // Before it is read: what is decided from a count must not be taken back by another one.
        self.own(Run { start: page, count: 1 })?;
        let (id, offset) = bitmap::share(page);
        let i = self.touch(Ref::shared(id, Kind::Shares))?;
        let mut line = Line::none();
        let blind = planted::blind(Use::ShareUnverified);
        self.line(i, offset, &mut line)?;
        drop(blind);
        let count = line.at(offset, 2).first_chunk().copied().map_or(0, u16::from_le_bytes);
        if let Some(less) = count.checked_sub(1) {
            self.put_own(i, &line, offset, &less.to_le_bytes())?;
            if !planted::has(Logic::ShareNotTotalled) {
                self.total(TOTAL_SHARES, -1);
            }
            if !planted::has(Logic::RefOmitted) {
                self.records.push(Record::Ref {
                    run: Run { start: page, count: 1 },
                    delta: -1,
                });
            }
            return Ok(());
        }
        self.free_bit(page)?;
        if !planted::has(Logic::FreeNotTotalled) {
            self.total(TOTAL_PAGES, -1);
        }
        let longer = self.records.change_last(|last| match last {
            Record::Free {
                space: Space::Pages,
                run,
            } if run.start + u64::from(run.count) == page => {
                run.count += u32::from(!planted::has(Logic::FreeShort));
                true
            }
            _ => false,
        });
        if !longer {
            self.records.push(Record::Free {
                space: Space::Pages,
                run: Run { start: page, count: 1 },
            });
        }
        Ok(())
    }

    /// One more reference of each page of a run. `false`, and the transaction must fail, if a count is full.
    pub fn share_pages(&mut self, run: Run) -> Result<bool, Stop> {
        // A block map that lies (C-8) must not lead the log to pages that no file can have.
        self.store.check_data_pages(run.start, u64::from(run.count))?;
        self.own(run)?;
        let (mut page, end) = (run.start, run.start + u64::from(run.count));
        while page < end {
            // As many counts as stand in one line.
            let (id, offset) = bitmap::share(page);
            let count = ((LINE - offset % LINE) / 2).min((end - page) as usize);
            let i = self.touch(Ref::shared(id, Kind::Shares))?;
            let mut line = Line::none();
            let blind = planted::blind(Use::ShareUnverified);
            self.line(i, offset, &mut line)?;
            drop(blind);
            let mut new = [0; LINE];
            for (new, old) in new
                .chunks_exact_mut(2)
                .zip(line.at(offset, 2 * count).as_chunks::<2>().0)
            {
                let Some(more) = u16::from_le_bytes(*old).checked_add(1) else {
                    return Ok(false);
                };
                new.copy_from_slice(&more.to_le_bytes());
            }
            self.put_own(i, &line, offset, &new[..2 * count])?;
            page += count as u64;
        }
        self.total(TOTAL_SHARES, i64::from(run.count));
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
        self.tell_staged(ino, index, offset, bytes.len(), false)?;
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
        self.tell_staged(ino, index, offset, len, true)?;
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

    /// Indices of the pages of an inode that are staged, by transactions before this one, ascending.
    pub fn staged_pages(&self, ino: u64, indices: core::ops::Range<u64>) -> Vec<u64> {
        let all = self.store.home.staged().table.lock().of(ino);
        all.into_iter().filter(|index| indices.contains(index)).collect()
    }

    fn tell_staged(&mut self, ino: u64, index: u64, offset: usize, len: usize, zero: bool) -> Result<(), Stop> {
        let stage = Action::Stage {
            index,
            offset: offset as u32,
            len: len as u32,
            zero: u8::from(zero),
        };
        self.op(ino, stage)
    }

    fn stage_base(&mut self, key: (u64, u64), base: Option<Base<'_>>) -> Result<(u64, u32), Stop> {
        if self.staged_here.contains(&key) || self.store.home.staged().table.lock().has(key.0, key.1) {
            return Ok((0, 0));
        }
        self.staged_here.push(key);
        match base {
            Some(base) if base.page != 0 => {
                self.bases.insert(key, Box::new(*base.content));
                return Ok((base.page, base.crc));
            }
            // Counted as any page without a base, but not asked for (S-20.4).
            Some(_) => self.store.alloc.space.promise_again(1),
            None if self.store.alloc.space.promise() => {}
            None => return Err(Error::NoSpace.into()),
        }
        self.promised += 1;
        Ok((0, 0))
    }
}

/// Pages whose SHARES counts belong to open transactions (S-13.4).
#[derive(Default)]
pub(crate) struct Owned(std::collections::HashSet<u64>);

impl Owned {
    /// Adds the pages of a run to those that a transaction owns; `false` where it meets one of another's.
    fn take(&mut self, run: Run, own: &mut Vec<u64>) -> bool {
        (run.start..run.start + u64::from(run.count)).all(|page| {
            let is_new = self.0.insert(page);
            if is_new {
                own.push(page);
            }
            // A file may name a page twice.
            is_new || own.contains(&page)
        })
    }

    /// A transaction that owned these is settled.
    pub(crate) fn done(&mut self, pages: &[u64]) {
        pages.iter().for_each(|page| {
            self.0.remove(page);
        });
    }
}

#[cfg(test)]
mod tests;
