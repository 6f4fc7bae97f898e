//! Reading outside transactions, and the pool's figures.

use crate::cache::Pin;
use crate::error::{Error, Stop};
use crate::log::{Cut, Mended};
use crate::read::Ref;
use crate::read::check_header;
use crate::repair::kind_of;
use crate::staged::Carried;
use crate::stats::DeviceErrors;
use crate::txn::{Birth, Source, Stamp};
use crate::{Figures, Store};
use core::sync::atomic::Ordering;
use keepfs_codes::identity::Binding;
use keepfs_format::bitmap::BITS;
use keepfs_format::map::{FANOUT, LIVE};
use keepfs_format::metablock::HEADER;
use keepfs_format::plog::Run;
use keepfs_format::{Header, MetaId, PAGE, Space};
use keepfs_media::{Class, Device, PageNo};
use std::collections::BTreeSet;
use std::time::Duration;

/// Reads metablocks outside a transaction: fetches what is missing, never asks to run again.
///
/// The caller holds the locks that keep what it reads from changing.
pub struct View<'s> {
    store: &'s Store,
    last: Option<(Ref, Pin<'s>, Binding, Birth)>,
}

impl Source for View<'_> {
    #[cfg_attr(feature = "planted", track_caller)]
    fn read(&mut self, r: Ref, offset: usize, buf: &mut [u8]) -> Result<(), Stop> {
        if offset + buf.len() > PAGE {
            return Err(Error::Logic(format!("a read at {offset} leaves {}", r.id)).into());
        }
        let store = self.store;
        let (pin, binding, _) = self.at(r)?;
        Ok(store.read(pin, binding, offset, buf)?)
    }

    #[cfg_attr(feature = "planted", track_caller)]
    fn whole(&mut self, r: Ref, copy: &mut [u8; PAGE]) -> Result<(), Stop> {
        let store = self.store;
        let (pin, binding, _) = self.at(r)?;
        Ok(store.whole(pin, binding, copy)?)
    }

    #[cfg_attr(feature = "planted", track_caller)]
    fn node(&mut self, id: MetaId, owner: u64) -> Result<Ref, Stop> {
        let pin = self.store.pin_alive(id)?;
        let header = self.store.header_in_frame(&pin)?;
        let r = Ref::node(id, kind_of(id, &header)?, owner);
        check_header(&header, r, self.store.pool.tag)?;
        self.last = Some((r, pin, self.store.binding(r), Birth::told_by(&header)));
        Ok(r)
    }

    #[cfg_attr(feature = "planted", track_caller)]
    fn birth(&mut self, r: Ref) -> Result<Birth, Stop> {
        Ok(self.at(r)?.2)
    }

    fn stamp(&mut self, r: Ref) -> Result<Stamp, Stop> {
        let store = self.store;
        let frame = self.at(r)?.0.frame;
        Ok(Stamp(frame, store.arena.quiet_version(frame)))
    }
}

impl<'s> View<'s> {
    /// The frame of a metablock, pinned until another one is read, and whose it is.
    fn at(&mut self, r: Ref) -> Result<(&Pin<'s>, Binding, Birth), Stop> {
        if self.last.as_ref().is_none_or(|(last, ..)| *last != r) {
            let (pin, binding) = (self.store.pin_alive(r.id)?, self.store.binding(r));
            let header = self.store.header_of(&pin, r, binding)?;
            self.last = Some((r, pin, binding, Birth::told_by(&header)));
        }
        match &self.last {
            Some((_, pin, binding, birth)) => Ok((pin, *binding, *birth)),
            None => Err(Error::Logic(format!("{} is not pinned", r.id)).into()),
        }
    }
}

impl Store {
    /// Something to read from. A view pins at most one frame; do not keep it across a call that waits.
    pub fn view(&self) -> View<'_> {
        View {
            store: self,
            last: None,
        }
    }

    /// Pins a metablock for who only reads.
    fn pin_alive(&self, id: MetaId) -> Result<Pin<'_>, Error> {
        match self.device.is_off() {
            true => Err(Error::Dead),
            false => self.fetch(id),
        }
    }

    /// The addresses at which everybody reads the frames, for fault injection.
    pub fn frame_addresses(&self) -> core::ops::Range<usize> {
        let start = self.arena.shown_address();
        start..start + self.arena.count() as usize * keepfs_format::PAGE
    }

    /// The memory of the frames, as whatever scribbles finds it.
    #[cfg(any(test, feature = "strays"))]
    pub fn strays(&self) -> &keepfs_memory::Region {
        self.arena.strays()
    }

    /// Address of the first frame that holds a metablock, for the store that the guard must stop.
    #[cfg(feature = "planted")]
    pub fn guarded_address(&self) -> usize {
        let mut frames = 0..self.arena.count();
        let frame = frames.find(|frame| self.arena.is_filled(*frame)).unwrap_or(0);
        self.arena.shown_address() + frame as usize * keepfs_format::PAGE
    }

    /// The guarded memory of redo and staged pages (S-14.1), for fault injection and tests.
    pub fn staging(&self) -> &keepfs_memory::Region {
        self.segment.region()
    }

    /// Where in [`Store::staging`] a staged page lies, for fault injection and tests.
    pub fn staged_place(&self, ino: u64, index: u64) -> Option<usize> {
        self.staged_table.lock().place(ino, index)
    }

    /// The same for its head.
    pub fn staged_head_place(&self, ino: u64, index: u64) -> Option<usize> {
        self.staged_table.lock().head_place(ino, index)
    }

    /// Number of the last committed transaction.
    pub fn last_seq(&self) -> u64 {
        self.redo.lock().last
    }

    /// Number of the last transaction that is durable.
    pub fn durable_seq(&self) -> u64 {
        self.sync.durable()
    }

    /// Drops every clean frame nobody uses; for tests of fetching.
    pub fn drop_clean_frames(&self) {
        self.cache.shrink(|frame, id| self.look_at_evicted(frame, id));
    }

    /// Pages: in the pool, free, promised, kept for checkpoints.
    pub fn figures(&self) -> Figures {
        self.space.figures()
    }

    /// Pages of the log in use, and how many may be before a checkpoint must empty it.
    pub fn log_fill(&self) -> (u64, u64) {
        let state = self.log.lock();
        let used = state.head.sequence - state.tail;
        let kept = self.carry_room + state.carry;
        (used, self.pool.log.pages.saturating_sub(kept))
    }

    /// How long ago the last checkpoint was written; before the first one, how long ago the pool was opened.
    pub fn since_checkpoint(&self) -> Duration {
        self.checkpoint_at.lock().elapsed()
    }

    /// Whether the pool has no inode at all yet.
    pub fn is_new(&self) -> bool {
        self.has_what_writers_need().is_ok() && self.totals().inodes == 0
    }

    /// Inode numbers on the hidden list. Errors: it cannot be read, so nothing can be written (S-9.10).
    pub fn orphans(&self) -> Result<Vec<u64>, Error> {
        Ok(self.or_without(self.all_orphans())?.unwrap_or_default())
    }

    fn all_orphans(&self) -> Result<Vec<u64>, Error> {
        let mut orphans = Vec::new();
        for block in self.blocks_of(Space::Orphans)? {
            self.set_bits(Space::Orphans, block, &mut orphans)?;
        }
        Ok(orphans)
    }

    /// Indices of the metablocks of a space that the map names or that were born since.
    pub(crate) fn blocks_of(&self, space: Space) -> Result<BTreeSet<u64>, Error> {
        let mut blocks: BTreeSet<u64> = self.mapped(space)?.into_iter().collect();
        let dirty: Result<Vec<[u64; 2]>, _> = self.dirty_list.lock().iter().collect();
        let dirty = dirty?.into_iter().map(|[id, _]| MetaId(id));
        blocks.extend(dirty.filter(|id| id.space() == Some(space)).map(|id| id.index()));
        Ok(blocks)
    }

    /// Indices of the metablocks of a space that the map names, ascending: as much work as there are map pages, however
    /// far apart they lie (C-8).
    pub(crate) fn mapped(&self, space: Space) -> Result<Vec<u64>, Error> {
        let root = self.root(space)?;
        let mut numbers = if root.height == 0 { Vec::new() } else { vec![0] };
        for level in (0..root.height).rev() {
            let mut below = Vec::new();
            for number in numbers {
                if let Some(pin) = self.fetch_known(MetaId::map(space, level, number))? {
                    for n in number * FANOUT..(number + 1) * FANOUT {
                        let id = match level {
                            0 => MetaId::new(space, n),
                            _ => MetaId::map(space, level - 1, n),
                        };
                        let entry = self.entry_in(&pin, id, n)?;
                        below.extend(entry.filter(|e| e.state == LIVE).map(|_| n));
                    }
                }
            }
            numbers = below;
        }
        Ok(numbers)
    }

    pub(crate) fn set_bits(&self, space: Space, block: u64, found: &mut Vec<u64>) -> Result<(), Error> {
        let pin = self.fetch(MetaId::new(space, block))?;
        let mut bytes = [0; PAGE];
        self.verified_copy(&pin, &mut bytes)?;
        for (i, byte) in bytes[HEADER..].iter().enumerate().filter(|(_, b)| **b != 0) {
            let base = block * BITS + 8 * i as u64;
            found.extend((0..8).filter(|bit| byte & (1 << bit) != 0).map(|bit| base + bit));
        }
        Ok(())
    }

    /// Pins the bitmap metablocks of a run of pages and TOTALS, so that a transaction finds them, and right: what a checkpoint
    /// changes there is in no redo, so that no witness could mend them behind it (S-15.16).
    pub(crate) fn pin_bits(&self, run: Run) -> Result<Vec<Pin<'_>>, Error> {
        let blocks = run.start / BITS..=(run.start + u64::from(run.count) - 1) / BITS;
        let mut pins = self.pin_totals()?;
        for block in blocks {
            pins.push(self.pin_right(MetaId::new(Space::Pages, block))?);
        }
        Ok(pins)
    }

    pub(crate) fn fetch_map_page(&self, id: MetaId) -> Result<Option<Pin<'_>>, Error> {
        self.fetch_known(id)
    }

    /// Whether all of these pages can hold file data: a block map may say anything (C-8). Errors: `Damaged`.
    pub(crate) fn check_data_pages(&self, page: u64, count: u64) -> Result<(), Error> {
        let behind = page.saturating_add(count);
        let own = self.system.first_in(page..behind);
        match own.or((behind > self.pool.pages).then_some(behind - 1)) {
            Some(page) => Err(Error::Damaged(format!(
                "page {page} is named as file data, which it cannot hold"
            ))),
            None => Ok(()),
        }
    }

    /// Writes whole pages of file data, contiguous from `page` on. Done, but not flushed, when it returns; call it
    /// before the transaction that names the pages commits.
    pub fn write_data(&self, page: u64, bytes: &[u8]) -> Result<(), Error> {
        self.check_data_pages(page, (bytes.len() / PAGE) as u64)?;
        self.given.add(bytes.len() as u64);
        Ok(self.device.write(PageNo(page), bytes, Class::Data)?)
    }

    /// The same for a scrub: from the device itself, not from the system's cache.
    pub fn read_data_fresh(&self, page: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.check_data_pages(page, (buf.len() / PAGE) as u64)?;
        Ok(self.device.read_fresh(PageNo(page), buf)?)
    }

    /// Reads whole pages of file data. The caller checks the CRC-32C.
    pub fn read_data(&self, page: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.check_data_pages(page, (buf.len() / PAGE) as u64)?;
        Ok(self.device.read(PageNo(page), buf)?)
    }

    /// What the device failed since the pool was opened.
    pub fn device_errors(&self) -> DeviceErrors {
        let refused = self.device.refused();
        DeviceErrors {
            reads: refused.reads.load(Ordering::Relaxed),
            writes: refused.writes.load(Ordering::Relaxed),
            flushes: refused.flushes.load(Ordering::Relaxed),
            checksums: self.stats.bad_checksums.load(Ordering::Relaxed),
        }
    }

    /// Whether the file system under the pool had no room for the last file data that were written (S-2.14).
    pub fn is_host_full(&self) -> bool {
        self.device.refused().no_room.load(Ordering::Relaxed)
    }

    /// A data page was read and had another checksum than its entry tells.
    pub fn data_is_bad(&self) {
        self.count_bad_checksum(true);
    }

    pub(crate) fn count_bad_checksum(&self, is_bad: bool) {
        self.stats.bad_checksums.fetch_add(u64::from(is_bad), Ordering::Relaxed);
    }

    /// Copies a staged page; `false` if it is not staged. Errors: it is lost.
    pub fn staged(&self, ino: u64, index: u64, page: &mut [u8; PAGE]) -> Result<bool, Error> {
        let Some(place) = self.staged_table.lock().where_is(ino, index) else {
            return Ok(false);
        };
        if place.read(&self.segment, page) {
            return Ok(true);
        }
        self.staged_again(ino, index, page)
    }

    /// A page that a checkpoint could not carry over is lost (S-14.6).
    pub(crate) fn lose_carried(&self, carried: &Carried) {
        if self.staged_table.lock().lose_carried(carried) {
            let (ino, index) = carried.key;
            self.tell_lost_staged(ino, index, None);
        }
    }

    /// Where the log was cut when the pool was opened, if it was (S-9.7).
    pub fn log_cut(&self) -> Option<Cut> {
        self.log_cut.get().copied()
    }

    /// Which page of the log was made again when the pool was opened, if one was (S-9.11).
    pub fn log_mended(&self) -> Option<Mended> {
        self.log_mended.get().copied()
    }

    /// Frames in the arena, checkpoint dirty frames, and evictions so far.
    pub fn arena_figures(&self) -> (u32, u64, u64) {
        (
            self.arena.count(),
            self.cache.dirty.load(Ordering::Relaxed),
            self.cache.evictions.load(Ordering::Relaxed),
        )
    }

    /// What was read and written on the device.
    pub fn traffic(&self) -> keepfs_media::Counters {
        self.device.counters()
    }

    /// A sentence, if both slots of one generation of superblocks held none when the pool was opened (S-21.22).
    pub fn superblocks_lost(&self) -> Option<&str> {
        self.superblocks_lost.get().map(String::as_str)
    }

    /// Whether a page is staged.
    pub fn is_staged(&self, ino: u64, index: u64) -> bool {
        self.staged_table.lock().has(ino, index)
    }

    /// Whether a staged page is known to be lost; `None` if it is not staged.
    pub fn is_staged_lost(&self, ino: u64, index: u64) -> Option<bool> {
        self.staged_table.lock().is_lost(ino, index)
    }

    /// Inode and index of the staged pages that are known to be lost, ascending.
    pub fn staged_lost(&self) -> Vec<(u64, u64)> {
        self.staged_table.lock().all_lost()
    }

    /// Indices of an inode's staged pages, ascending.
    pub fn staged_pages(&self, ino: u64) -> Vec<u64> {
        self.staged_table.lock().of(ino)
    }

    /// Up to `limit` inodes with staged pages, the longest staged first.
    pub fn staged_inodes(&self, limit: usize) -> Vec<u64> {
        self.staged_table.lock().inodes(limit)
    }

    /// Up to `limit` inodes with pages that were staged before the last checkpoint, the longest staged first.
    pub fn staged_before_checkpoint(&self, limit: usize) -> Vec<u64> {
        self.staged_table.lock().inodes_carried(limit)
    }

    /// Number of staged pages.
    pub fn staged_total(&self) -> usize {
        self.staged_table.lock().len()
    }

    /// How much is staged, in whole pages; small ones count as quarters (S-14.7).
    pub fn staged_weight(&self) -> usize {
        self.staged_weight.pages()
    }

    /// Above so much [`Store::staged_weight`] the caller writes some out.
    pub fn staged_soft_limit(&self) -> usize {
        (self.staged_limit / 2).max(1)
    }

    /// The kind of the metablock in the arena or on the device, for people who debug.
    pub fn header(&self, id: MetaId) -> Result<Header, Error> {
        let pin = self.fetch(id)?;
        self.header_in_frame(&pin)
    }
}
