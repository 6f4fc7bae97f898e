//! Staged data: file pages whose newest bytes are durable by the log only (S-8.8, S-14.6).
//!
//! The same function follows the records at commit, at replay and after a kill, so memory and log cannot disagree. Pages
//! and what is known of them lie in the session segment (S-14.5); the heap has an index that can be rebuilt.

mod ahead;
mod carry;
mod lost;
mod mend;
mod rebuild;
mod room;
mod slots;
mod stacks;
mod witness;

pub use ahead::only_one;
pub use mend::{Outcome, found_in, is_proved};
pub use witness::{Past, Told};

pub use ahead::Coming;
pub use carry::Carried;
pub use rebuild::rebuild;
pub use room::{STAGED_MAX, STAGED_SPARE, Staged};

use crate::error::{Error, Room};
use crate::segment::{SMALL, Segment};
use core::sync::atomic::{AtomicUsize, Ordering};
use keepfs_codes::crc32c;
use keepfs_format::PAGE;
use keepfs_format::plog::Record;
use keepfs_frames::ids::IdMap;
use keepfs_pool::BadData;
use keepfs_vault::Padded;
use slots::{Head, Slots, Stored};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the heap knows of a staged page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Where.
    pub slot: u32,
    /// With which stamp its content was stored.
    stamp: u64,
    /// With which stamp it was staged first.
    first: u64,
    /// A device page lies under it.
    based: bool,
    /// It has no more than its first quarter: the rest is zeros.
    small: bool,
    /// It is known to be lost: its content is not to be used.
    pub lost: bool,
}

/// How much is staged, for who does not wait for the table: quarters of pages.
#[derive(Clone, Default)]
pub struct Weight(Arc<Padded<AtomicUsize>>);

impl Weight {
    /// In whole pages: a page that is zeros behind its first quarter counts as a quarter.
    pub fn pages(&self) -> usize {
        self.0.load(Ordering::Relaxed).div_ceil(WHOLE)
    }
}

/// Quarters of a page that a whole one counts as.
const WHOLE: usize = PAGE / SMALL;

/// Damage found in a staged page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagedDamage {
    /// Inode.
    pub ino: u64,
    /// Page of the file.
    pub index: u64,
}

impl From<StagedDamage> for Error {
    fn from(StagedDamage { ino, index }: StagedDamage) -> Error {
        Error::Lost { ino, index }
    }
}

/// There is no slot for another staged page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl From<Full> for Error {
    fn from(Full: Full) -> Error {
        Error::Damaged("there are more staged pages than the pool may have".into())
    }
}

/// Inode and page of the file.
pub type Key = (u64, u64);
/// A page that became lost, with its base if that is why.
type Lost = (Key, Option<(u64, BadData)>);
/// Content of the base of pages that a transaction stages for the first time.
pub type Bases = IdMap<Key, Box<[u8; PAGE]>>;

/// Where the content under a newly staged page comes from.
pub enum Under<'b> {
    /// Read before; what is not there is zeros.
    Bases(&'b mut Bases),
    /// From the device when the whole log is applied ([`Table::settle`]).
    Later,
}

/// What a tail or zero record says besides its bytes.
pub struct Staging {
    /// Which page.
    pub key: Key,
    version: u32,
    base: u64,
    base_crc: u32,
}

/// What a record stages, if it does.
pub fn staging(record: &Record) -> Option<(Staging, Patch<'_>)> {
    let (Record::Tail {
        ino,
        index,
        version,
        base,
        base_crc,
        offset,
        ..
    }
    | Record::Zero {
        ino,
        index,
        version,
        base,
        base_crc,
        offset,
        ..
    }) = record
    else {
        return None;
    };
    let (len, bytes) = match record {
        Record::Tail { bytes, .. } => (bytes.len(), Some(&bytes[..])),
        Record::Zero { len, .. } => (usize::from(*len), None),
        _ => return None,
    };
    let staging = Staging {
        key: (*ino, *index),
        version: *version,
        base: *base,
        base_crc: *base_crc,
    };
    let offset = usize::from(*offset);
    Some((staging, Patch { offset, len, bytes }))
}

impl Staging {
    /// Makes `page` what lies under the page: `base`, or zeros. `false`: it is not what was read (S-13.17).
    fn has_base(&self, base: Option<&[u8; PAGE]>, page: &mut [u8; PAGE]) -> bool {
        match base {
            Some(base) => *page = *base,
            None => page.fill(0),
        }
        match self.base {
            0 => base.is_none(),
            _ => crc32c::of(page) == self.base_crc,
        }
    }

    /// The head of a page that was not staged before.
    fn head(&self, stamp: u64) -> Head {
        Head {
            key: self.key,
            base: self.base,
            base_crc: self.base_crc,
            version: self.version,
            damaged: false,
            stamp,
            first: stamp,
        }
    }
}

/// Which part of a page becomes what.
pub struct Patch<'r> {
    offset: usize,
    /// Bytes that change.
    pub len: usize,
    /// `None`: zeros.
    bytes: Option<&'r [u8]>,
}

/// Where a page was staged.
pub struct Place {
    key: Key,
    /// What the heap knows of it.
    pub placed: Placed,
}

impl Place {
    /// Copies the page. `false`: it is damaged, or something else is staged by now: ask [`Table::read`].
    pub fn read(&self, segment: &Segment, page: &mut [u8; PAGE]) -> bool {
        slots::load(segment, self.key, &self.placed, page).is_some()
    }
}

/// All staged pages, by (inode, index).
pub struct Table {
    slots: Slots,
    /// Quarters of pages that are staged...
    quarters: usize,
    weight: Weight,
    /// ...and that transactions about to commit may add.
    coming: usize,
    pages: BTreeMap<Key, Placed>,
    /// Bytes set while replaying a log, of pages with a base.
    patches: IdMap<Key, Box<[u64; PAGE / 64]>>,
    stamp: u64,
    /// What was staged up to this stamp was there at the moment of the last checkpoint.
    seen_by_checkpoint: u64,
    /// Staged pages that have no device page under them: each is promised one.
    pub promised: u64,
    /// Staged pages that are known to be lost (S-14.6).
    lost: usize,
}

impl Table {
    /// An empty table.
    pub fn new(segment: Arc<Segment>) -> Table {
        Table {
            quarters: 0,
            weight: Weight::default(),
            coming: 0,
            slots: Slots::new(segment.clone(), (0..segment.slots()).rev()),
            pages: BTreeMap::new(),
            patches: IdMap::default(),
            stamp: 0,
            seen_by_checkpoint: 0,
            promised: 0,
            lost: 0,
        }
    }

    /// Number of staged pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// How much is staged.
    pub fn weight(&self) -> Weight {
        self.weight.clone()
    }

    fn weigh(&self) {
        self.weight.0.store(self.quarters, Ordering::Relaxed);
    }

    /// Whether a page is staged.
    pub fn has(&self, ino: u64, index: u64) -> bool {
        self.pages.contains_key(&(ino, index))
    }

    /// Whether a record may need room.
    pub fn concerns(record: &Record) -> bool {
        matches!(
            record,
            Record::Tail { .. } | Record::Zero { .. } | Record::Truncate { .. }
        )
    }

    /// What applying `records` needs (S-14.7).
    pub fn room_for(&self, records: &[Record]) -> Room {
        let mut room = Room::default();
        for record in records {
            let (slots, quarters) = match record {
                Record::Tail { ino, index, .. } | Record::Zero { ino, index, .. } => {
                    let staged = self.pages.get(&(*ino, *index));
                    (1, WHOLE - staged.map_or(0, |p| p.quarters()))
                }
                Record::Truncate { .. } => (1, 0),
                _ => (0, 0),
            };
            room.slots += slots;
            room.quarters += quarters;
        }
        room
    }

    /// Takes room, if there is as much.
    pub fn take_room(&mut self, room: Room) -> bool {
        let most = self.slots.segment().staged_most() * WHOLE;
        let fits = room.quarters == 0 || self.quarters + self.coming + room.quarters <= most;
        let taken = fits && self.slots.take_room(room.slots);
        self.coming += if taken { room.quarters } else { 0 };
        taken
    }

    /// Gives room back.
    pub fn give_room(&mut self, room: Room) {
        self.coming -= room.quarters;
        self.slots.give_room(room.slots);
    }

    /// Where a page is staged: who has it may read it with [`Place::read`] without the table.
    pub fn where_is(&self, ino: u64, index: u64) -> Option<Place> {
        let placed = *self.pages.get(&(ino, index))?;
        let key = (ino, index);
        Some(Place { key, placed })
    }

    /// Copies a staged page. `Ok(false)` if it is not staged.
    pub fn read(&self, ino: u64, index: u64, page: &mut [u8; PAGE]) -> Result<bool, StagedDamage> {
        let Some(placed) = self.pages.get(&(ino, index)) else {
            return Ok(false);
        };
        match slots::load(self.slots.segment(), (ino, index), placed, page) {
            Some(_) => Ok(true),
            None => Err(StagedDamage { ino, index }),
        }
    }

    /// Where in the segment a staged page lies, for fault injection.
    pub fn place(&self, ino: u64, index: u64) -> Option<usize> {
        let placed = self.pages.get(&(ino, index))?;
        Some(self.slots.page_at(placed.slot))
    }

    /// Where in the segment its head lies.
    pub fn head_place(&self, ino: u64, index: u64) -> Option<usize> {
        let placed = self.pages.get(&(ino, index))?;
        Some(self.slots.segment().head_place(placed.slot))
    }

    /// Inode and index of all staged pages, ascending.
    pub fn keys(&self) -> Vec<(u64, u64)> {
        self.pages.keys().copied().collect()
    }

    /// The indices of an inode's staged pages, ascending.
    pub fn of(&self, ino: u64) -> Vec<u64> {
        self.pages
            .range((ino, 0)..=(ino, u64::MAX))
            .map(|((_, i), _)| *i)
            .collect()
    }

    /// Up to `limit` inodes with staged pages, the longest staged first.
    pub fn inodes(&self, limit: usize) -> Vec<u64> {
        self.oldest(limit, |_| true)
    }

    fn oldest(&self, limit: usize, wanted: impl Fn(&Placed) -> bool) -> Vec<u64> {
        let mut oldest: BTreeMap<u64, u64> = BTreeMap::new();
        for ((ino, _), placed) in self.pages.iter().filter(|(_, placed)| wanted(placed)) {
            let first = oldest.entry(*ino).or_insert(placed.first);
            *first = (*first).min(placed.first);
        }
        let mut inodes: Vec<_> = oldest.into_iter().map(|(ino, first)| (first, ino)).collect();
        inodes.sort_unstable();
        inodes.into_iter().take(limit).map(|(_, ino)| ino).collect()
    }

    /// Those among [`Table::inodes`] that the last checkpoint carried over: they have outlived the log that they came with.
    pub fn inodes_carried(&self, limit: usize) -> Vec<u64> {
        let carried = |placed: &Placed| placed.first <= self.seen_by_checkpoint;
        match self.pages.values().any(carried) {
            true => self.oldest(limit, carried),
            false => Vec::new(),
        }
    }

    /// Whether [`Table::apply`] does anything with a record.
    pub fn follows(record: &Record) -> bool {
        Table::concerns(record)
            || matches!(
                record,
                Record::MapEntry { .. }
                    | Record::Create { .. }
                    | Record::Lost { .. }
                    | Record::Free {
                        space: keepfs_format::Space::InodeNumbers,
                        ..
                    }
            )
    }

    /// Follows one record of a committed transaction.
    pub fn apply(&mut self, record: &Record, under: &mut Under<'_>) -> Result<(), Full> {
        if let Some((staging, patch)) = staging(record) {
            return self.stage(&staging, &patch, under);
        }
        match record {
            Record::MapEntry { ino, index, count, .. } => {
                self.drop_range(*ino, *index, index.saturating_add(u64::from(*count)));
                Ok(())
            }
            Record::Truncate { ino, size } => self.truncate(*ino, *size),
            Record::Lost { ino, index } => self.stage_lost((*ino, *index)),
            Record::Create { ino, .. } => {
                self.forget(*ino);
                Ok(())
            }
            Record::Free {
                space: keepfs_format::Space::InodeNumbers,
                run,
            } => {
                self.forget(run.start);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Forgets all pages of an inode.
    fn forget(&mut self, ino: u64) {
        self.drop_range(ino, 0, u64::MAX);
    }

    fn stage(&mut self, staging: &Staging, patch: &Patch<'_>, under: &mut Under<'_>) -> Result<(), Full> {
        match self.pages.get(&staging.key).copied() {
            Some(placed) => self.change(staging.key, placed, Some(staging.version), patch),
            None => self.stage_first(staging, patch, under),
        }
    }

    fn stage_first(&mut self, staging: &Staging, patch: &Patch<'_>, under: &mut Under<'_>) -> Result<(), Full> {
        self.stamp += 1;
        let mut page = [0; PAGE];
        let right = match under {
            Under::Bases(bases) => staging.has_base(bases.remove(&staging.key).as_deref(), &mut page),
            Under::Later => true,
        };
        patch.to(&mut page);
        let head = staging.head(self.stamp);
        let stored = self.slots.put(&head, &page)?;
        if !right {
            // Whoever reads it finds that it is lost; the log has what was written, for a base that is read again.
            self.slots.spoil(&head, &stored);
        }
        self.placed(None, &head, &stored);
        if staging.base != 0 && matches!(under, Under::Later) {
            let mut set = Box::new([0; PAGE / 64]);
            patch.mark(&mut set);
            self.patches.insert(staging.key, set);
        }
        Ok(())
    }

    /// Replaces a staged page by its successor (S-14.6).
    fn change(&mut self, key: Key, placed: Placed, version: Option<u32>, patch: &Patch<'_>) -> Result<(), Full> {
        self.stamp += 1;
        let mut page = [0; PAGE];
        let old = slots::load(self.slots.segment(), key, &placed, &mut page);
        let whole = patch.offset == 0 && patch.len == PAGE;
        let mut head = old.unwrap_or_else(|| self.slots.head_or(key, &placed));
        head.damaged = old.is_none() && !whole;
        head.version = version.unwrap_or(head.version);
        head.stamp = self.stamp;
        patch.to(&mut page);
        let stored = self.slots.put(&head, &page)?;
        self.placed(Some(placed), &head, &stored);
        if let Some(set) = self.patches.get_mut(&key) {
            patch.mark(set);
        }
        Ok(())
    }

    /// The page in this slot has its head: it takes the place of `was`.
    fn placed(&mut self, was: Option<Placed>, head: &Head, stored: &Stored) {
        let now = match was {
            None => {
                let now = Placed::of(stored.slot, head, stored.small);
                self.promised += u64::from(!now.based);
                now
            }
            Some(was) => {
                self.slots.free(was.slot, was.stamp);
                self.quarters -= was.quarters();
                Placed {
                    slot: stored.slot,
                    stamp: head.stamp,
                    small: stored.small,
                    lost: head.damaged,
                    ..was
                }
            }
        };
        self.lost += usize::from(now.lost);
        self.lost -= usize::from(was.is_some_and(|was| was.lost));
        self.quarters += now.quarters();
        self.weigh();
        self.pages.insert(head.key, now);
    }

    fn remove(&mut self, key: Key) {
        if let Some(gone) = self.pages.remove(&key) {
            self.promised -= u64::from(!gone.based);
            self.lost -= usize::from(gone.lost);
            self.quarters -= gone.quarters();
            self.weigh();
            self.slots.free(gone.slot, gone.stamp);
            self.patches.remove(&key);
        }
    }

    fn drop_range(&mut self, ino: u64, from: u64, to: u64) {
        let keys: Vec<_> = self.pages.range((ino, from)..(ino, to)).map(|(k, _)| *k).collect();
        keys.into_iter().for_each(|k| self.remove(k));
    }

    fn truncate(&mut self, ino: u64, size: u64) -> Result<(), Full> {
        self.drop_range(ino, size.div_ceil(PAGE as u64), u64::MAX);
        let cut = (size % PAGE as u64) as usize;
        let key = (ino, size / PAGE as u64);
        match self.pages.get(&key).copied() {
            Some(placed) if cut != 0 => {
                let patch = Patch {
                    offset: cut,
                    len: PAGE - cut,
                    bytes: None,
                };
                self.change(key, placed, None, &patch)
            }
            _ => Ok(()),
        }
    }

    /// After a replay: puts the bases under the pages staged over one. `read` gives a device page; a page whose base it does
    /// not give is lost. Returns the pages that became lost, with their bases if these are why.
    pub fn settle(
        &mut self,
        mut read: impl FnMut(u64, u32, &mut [u8; PAGE]) -> Result<(), BadData>,
    ) -> Result<Vec<Lost>, Full> {
        let mut lost = Vec::new();
        for (key, set) in core::mem::take(&mut self.patches) {
            let Some(placed) = self.pages.get(&key).copied().filter(|placed| !placed.lost) else {
                continue;
            };
            let (mut page, mut under) = ([0; PAGE], [0; PAGE]);
            let bad = match slots::load(self.slots.segment(), key, &placed, &mut page) {
                None => Some(None),
                Some(head) => read(head.base, head.base_crc, &mut under)
                    .err()
                    .map(|bad| Some((head.base, bad))),
            };
            if let Some(why) = bad {
                lost.push((key, why));
                self.lose(key.0, key.1);
                continue;
            }
            let is_set = |i: usize| set[i / 64] & (1 << (i % 64)) != 0;
            (0..PAGE).filter(|i| is_set(*i)).for_each(|i| under[i] = page[i]);
            let whole = Patch {
                offset: 0,
                len: PAGE,
                bytes: Some(&under),
            };
            self.change(key, placed, None, &whole)?;
        }
        Ok(lost)
    }
}

impl Placed {
    fn of(slot: u32, head: &Head, small: bool) -> Placed {
        Placed {
            slot,
            stamp: head.stamp,
            first: head.first,
            based: head.base != 0,
            small,
            lost: head.damaged,
        }
    }

    fn quarters(&self) -> usize {
        if self.small { 1 } else { WHOLE }
    }
}

impl Patch<'_> {
    fn to(&self, page: &mut [u8; PAGE]) {
        let to = &mut page[self.offset..self.offset + self.len];
        match self.bytes {
            Some(bytes) => to.copy_from_slice(bytes),
            None => to.fill(0),
        }
    }

    fn mark(&self, set: &mut [u64; PAGE / 64]) {
        (self.offset..self.offset + self.len).for_each(|i| set[i / 64] |= 1 << (i % 64));
    }
}

#[cfg(test)]
mod tests;
