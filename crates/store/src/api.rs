//! What the packages above may ask of a store besides transactions and views: durability, file data, looks at what lies at rest,
//! figures.

use crate::crowd::Alone;
use crate::error::{BadData, Error};
use crate::home::{Look, Settling};
use crate::oplog::{EarlierState, Half, LoggedTxn, OpLog};
use crate::requests::{Again, Running};
use crate::scrub::RestPlace;
use crate::view::View;
use crate::{Figures, Store};
use core::ops::Range;
use core::sync::atomic::Ordering;
use keepfs_codes::Protection;
use keepfs_flash::bad::CopiesSeen;
use keepfs_flash::log::{Cut, Mended};
use keepfs_format::bitmap::BITS;
use keepfs_format::map::MapEntry;
use keepfs_format::metablock::HEADER;
use keepfs_format::{Header, MetaId, PAGE, Space};
use keepfs_frames::Looked;
use keepfs_frames::Totals;
use keepfs_media::{Class, Device, PageNo};
use keepfs_pool::Unbalanced;
use keepfs_pool::events::{Damage, Done};
use keepfs_pool::history::History;
use keepfs_pool::stats::DeviceErrors;
use keepfs_pool::{Pool, Settings};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

impl Store {
    /// Makes everything committed so far durable: at most one group and one flush, shared with whoever waits too.
    pub fn sync(&self) -> Result<(), Error> {
        self.home.sync(self)
    }

    /// Writes a checkpoint now; none of a pool that is read-only.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.home.settle(self, Settling::Goes(None)).map(drop)
    }

    /// As [`Store::close`], but the store may be used on.
    pub fn settle(&self) -> Result<(), Error> {
        self.home.settle(self, Settling::Closed).map(drop)
    }

    /// Changes settings of the pool (S-2.9): when this returns they and everything before are durable, and whoever opens the
    /// pool next has them. This store goes on with the memory that it has. Returns whether anything was to change.
    ///
    /// Errors: `ReadOnly`; `BadPool`, no pool can have them; those of a checkpoint. With `NoSpace` nothing has changed.
    pub fn set(&self, settings: &Settings) -> Result<bool, Error> {
        self.home.set(self, settings)
    }

    /// The pool as the superblock in force tells it: its settings are those of the next opening. Waits for no checkpoint.
    pub fn pool_in_force(&self) -> Pool {
        self.home.pool_in_force()
    }

    /// Tells the device which free pages of `range` are not needed, in runs of at least `least` pages; returns how many
    /// pages. `None`: the device cannot be told. Errors: those of the device, [`Error::ReadOnly`]. None of a preallocated pool (S-2.17).
    pub fn trim(&self, range: Range<u64>, least: u64) -> Result<Option<u64>, Error> {
        self.home.trim(self, Some((range, least)))
    }

    /// With the option `discard`: tells the device what became free since the last time. Errors: those of the device.
    pub fn discard_released(&self) -> Result<(), Error> {
        self.home.trim(self, None).map(drop)
    }

    /// After a while without syncs: an empty group tells that the last one was flushed, so that recovery takes it as
    /// it is (S-9.2). It needs no flush itself. If somebody is cutting a group, that one tells it.
    pub fn write_durable(&self) -> Result<(), Error> {
        self.home.tell_durable(self)
    }

    /// Looks at the superblock in force and its copy. A bad copy is replaced by the next checkpoint's.
    pub fn scrub_superblocks(&self) -> Looked {
        self.home.look(self, Look::Superblocks).unwrap_or_default()
    }

    /// Reads the log as the next recovery would (S-19.4); not of a pool that is read-only. What is bad is told, and a checkpoint made,
    /// behind which nobody needs it. Errors: those of the checkpoint.
    pub fn scrub_log(&self) -> Result<Looked, Error> {
        self.home.look(self, Look::Log)
    }

    /// Looks at some metablocks from `place` on and at the map pages that lead to them, each copy. Where to go on; `None`:
    /// that was the last.
    pub fn scrub_rest(&self, place: RestPlace) -> Result<(Looked, Option<RestPlace>), Error> {
        self.home.look_at_rest(self, place)
    }

    /// Looks at each copy of one metablock; nothing if it does not live on the device.
    pub fn scrub_copies(&self, id: MetaId) -> Result<Looked, Error> {
        self.home.look(self, Look::Copies(id))
    }

    /// Reads every copy of a metablock or map page, for a scrub: what is bad is told and written anew by the next
    /// checkpoint (S-4.6). Returns how many were read and how many of them were bad; none, if it does not live on the
    /// device. Errors: those of the map above it.
    pub fn check_copies(&self, id: MetaId) -> Result<CopiesSeen, Error> {
        self.home.check_copies(&self.frames, id)
    }

    /// Whether a metablock that was told as damaged is whole again: a copy on the device is as its map entry says, or it does not
    /// live any more (S-18.8, S-18.14). Nothing is told. `known`: its entry when it was bad last, which is not read again. Errors: the
    /// entry under which it is bad.
    pub fn is_whole_at_rest(&self, id: MetaId, known: Option<&MapEntry>) -> Result<bool, MapEntry> {
        self.home.is_whole_at_rest(&self.frames, id, known)
    }

    /// Up to `limit` inode numbers in use from `from` on, ascending.
    pub fn inodes_in_use(&self, from: u64, limit: usize) -> Result<Vec<u64>, Error> {
        self.home.inodes_in_use(self, from, limit)
    }

    /// Whether something waits for a checkpoint because of its copies: one of them is bad, or they lie too close to each other.
    pub fn has_copies_to_write(&self) -> bool {
        self.home.figures().has_copies_to_write
    }

    /// Looks at what leads to redo and staged pages, for a scrub. It counts as no page.
    pub fn scrub_page_0(&self) -> Looked {
        self.home.look(self, Look::Memory).unwrap_or_default()
    }

    /// Looks at a staged page for a scrub; nothing if it is not staged.
    pub fn scrub_staged(&self, ino: u64, index: u64) -> Looked {
        self.home.look(self, Look::Staged((ino, index))).unwrap_or_default()
    }

    /// Pages of the log in use, and how many may be before a checkpoint must empty it.
    pub fn log_fill(&self) -> (u64, u64) {
        self.home.log_fill(&self.frames)
    }

    /// Tries whether this process could have the memory that `code` needs more than the code that it has, and gives it back: address
    /// space for the file of parity and the window on it, and memory for the file.
    ///
    /// Errors: `NoRoom`.
    pub fn try_room(&self, code: Protection) -> Result<(), Error> {
        self.frames.try_room(code)
    }

    /// Counters of the pool.
    pub fn totals(&self) -> Totals {
        self.frames.known.totals()
    }

    /// The pool's history.
    pub fn history(&self) -> &Arc<History> {
        &self.ground.events.history
    }

    /// Writes what the history has not on the device yet; nothing happens on a pool that is read only.
    pub fn keep_history(&self) {
        self.ground.keep_history();
    }

    /// Looks at a frame: its bytes are held against parity and sum, and what is wrong is mended if it can be (S-15.14).
    /// Nothing if it holds no metablock. Bad and not mended: it does not verify after all that can be done.
    pub fn scrub_frame(&self, frame: u32) -> Looked {
        self.home.look(self, Look::Frame(frame)).unwrap_or_default()
    }

    /// Something to read from. A view pins at most one frame; do not keep it across a call that waits.
    pub fn view(&self) -> View<'_> {
        View::of(self)
    }

    /// All frames, those first that were verified longest ago.
    pub fn frames_by_age(&self) -> Vec<u32> {
        self.frames.by_age()
    }

    /// The frames that hold bytes of these addresses, as events tell them.
    pub fn frames_at(&self, addresses: Range<usize>) -> Range<u32> {
        self.frames.at(addresses)
    }

    /// The frames that hold metadata of these inodes: their slots, and the nodes that say they are theirs (S-3.2).
    pub fn frames_of(&self, inodes: &BTreeSet<u64>) -> Vec<u32> {
        self.frames.of_inodes(inodes)
    }

    /// The addresses at which everybody reads the frames, for fault injection.
    pub fn frame_addresses(&self) -> core::ops::Range<usize> {
        let start = self.frames.arena.shown_address();
        start..start + self.frames.arena.count() as usize * keepfs_format::PAGE
    }

    /// The memory of the frames, as whatever scribbles finds it.
    #[cfg(any(test, feature = "strays"))]
    pub fn strays(&self) -> &keepfs_memory::Region {
        self.frames.arena.strays()
    }

    /// Address of the first frame that holds a metablock, for the store that the guard must stop.
    #[cfg(feature = "planted")]
    pub fn guarded_address(&self) -> usize {
        let mut frames = 0..self.frames.arena.count();
        let frame = frames.find(|frame| self.frames.arena.is_filled(*frame)).unwrap_or(0);
        self.frames.arena.shown_address() + frame as usize * keepfs_format::PAGE
    }

    /// The guarded memory of redo and staged pages (S-14.1), for fault injection and tests.
    pub fn staging(&self) -> &keepfs_memory::Region {
        self.home.memory().region()
    }

    /// Where in [`Store::staging`] a staged page lies, for fault injection and tests.
    pub fn staged_place(&self, ino: u64, index: u64) -> Option<usize> {
        self.home.staged().table.lock().place(ino, index)
    }

    /// The same for its head.
    pub fn staged_head_place(&self, ino: u64, index: u64) -> Option<usize> {
        self.home.staged().table.lock().head_place(ino, index)
    }

    /// Number of the last committed transaction.
    pub fn last_seq(&self) -> u64 {
        self.home.redo().lock().last
    }

    /// Number of the last transaction that is durable.
    pub fn durable_seq(&self) -> u64 {
        self.home.figures().durable
    }

    /// Drops every clean frame nobody uses; for tests of fetching.
    pub fn drop_clean_frames(&self) {
        self.frames
            .cache
            .shrink(|frame, id| self.frames.look_at_evicted(frame, id));
    }

    /// Pages: in the pool, free, promised, kept for checkpoints.
    pub fn figures(&self) -> Figures {
        self.alloc.space.figures()
    }

    /// How long ago the last checkpoint was written; before the first one, how long ago the pool was opened.
    pub fn since_checkpoint(&self) -> Duration {
        self.home.figures().since_checkpoint
    }

    /// Whether the pool has no inode at all yet.
    pub fn is_new(&self) -> bool {
        self.frames.fences.has_what_writers_need().is_ok() && self.totals().inodes == 0
    }

    /// Inode numbers on the hidden list. Errors: it cannot be read, so nothing can be written (S-9.10).
    pub fn orphans(&self) -> Result<Vec<u64>, Error> {
        Ok(self.frames.or_without(self.all_orphans())?.unwrap_or_default())
    }

    fn all_orphans(&self) -> Result<Vec<u64>, Error> {
        let mut orphans = Vec::new();
        for block in self.home.blocks_of(&self.frames, Space::Orphans)? {
            self.set_bits(Space::Orphans, block, &mut orphans)?;
        }
        Ok(orphans)
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

    /// Whether all of these pages can hold file data: a block map may say anything (C-8). Errors: `Damaged`.
    pub(crate) fn check_data_pages(&self, page: u64, count: u64) -> Result<(), Error> {
        let behind = page.saturating_add(count);
        let own = self.alloc.system.first_in(page..behind);
        match own.or((behind > self.ground.pool.pages).then_some(behind - 1)) {
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
        self.home.given(bytes.len() as u64);
        Ok(self.ground.device.write(PageNo(page), bytes, Class::Data)?)
    }

    /// The same for a scrub: from the device itself, not from the system's cache.
    pub fn read_data_fresh(&self, page: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.check_data_pages(page, (buf.len() / PAGE) as u64)?;
        Ok(self.ground.device.read_fresh(PageNo(page), buf)?)
    }

    /// Reads whole pages of file data. The caller checks the CRC-32C.
    pub fn read_data(&self, page: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.check_data_pages(page, (buf.len() / PAGE) as u64)?;
        Ok(self.ground.device.read(PageNo(page), buf)?)
    }

    /// What the device failed since the pool was opened.
    pub fn device_errors(&self) -> DeviceErrors {
        let refused = self.ground.device.refused();
        DeviceErrors {
            reads: refused.reads.load(Ordering::Relaxed),
            writes: refused.writes.load(Ordering::Relaxed),
            flushes: refused.flushes.load(Ordering::Relaxed),
            checksums: self.ground.stats.bad_checksums.load(Ordering::Relaxed),
        }
    }

    /// Whether the file system under the pool had no room for the last file data that were written (S-2.14).
    pub fn is_host_full(&self) -> bool {
        self.ground.device.refused().no_room.load(Ordering::Relaxed)
    }

    /// A data page was read and had another checksum than its entry tells.
    pub fn data_is_bad(&self) {
        self.ground.count_bad_checksum(true);
    }

    /// The pool is not written from here on, because of damage that its mount cannot do without (S-16.6).
    pub fn end_writing(&self, why: Error) {
        self.ground.fail(why);
    }

    /// Copies a staged page; `false` if it is not staged. Errors: it is lost.
    pub fn staged(&self, ino: u64, index: u64, page: &mut [u8; PAGE]) -> Result<bool, Error> {
        self.home.read_staged(&self.frames, (ino, index), page)
    }

    /// Where the log was cut when the pool was opened, if it was (S-9.7).
    pub fn log_cut(&self) -> Option<Cut> {
        self.home.figures().log_cut
    }

    /// Which pages of the log were bad and mended when the pool was opened (S-9.11, S-9.24).
    pub fn log_mended(&self) -> &[Mended] {
        self.home.figures().log_mended
    }

    /// Frames in the arena, checkpoint dirty frames, and evictions so far.
    pub fn arena_figures(&self) -> (u32, u64, u64) {
        (
            self.frames.arena.count(),
            self.frames.cache.dirty.load(Ordering::Relaxed),
            self.frames.cache.evictions.load(Ordering::Relaxed),
        )
    }

    /// What was read and written on the device.
    pub fn traffic(&self) -> keepfs_media::Counters {
        self.ground.device.counters()
    }

    /// A sentence, if both slots of one generation of superblocks held none when the pool was opened (S-21.22).
    pub fn superblocks_lost(&self) -> Option<&str> {
        self.home.figures().superblocks_lost
    }

    /// Whether a page is staged.
    pub fn is_staged(&self, ino: u64, index: u64) -> bool {
        self.home.staged().table.lock().has(ino, index)
    }

    /// Whether a staged page is known to be lost; `None` if it is not staged.
    pub fn is_staged_lost(&self, ino: u64, index: u64) -> Option<bool> {
        self.home.staged().table.lock().is_lost(ino, index)
    }

    /// Inode and index of the staged pages that are known to be lost, ascending.
    pub fn staged_lost(&self) -> Vec<(u64, u64)> {
        self.home.staged().table.lock().all_lost()
    }

    /// Indices of an inode's staged pages, ascending.
    pub fn staged_pages(&self, ino: u64) -> Vec<u64> {
        self.home.staged().table.lock().of(ino)
    }

    /// Up to `limit` inodes with staged pages, the longest staged first.
    pub fn staged_inodes(&self, limit: usize) -> Vec<u64> {
        self.home.staged().table.lock().inodes(limit)
    }

    /// Up to `limit` inodes with pages that were staged before the last checkpoint, the longest staged first.
    pub fn staged_before_checkpoint(&self, limit: usize) -> Vec<u64> {
        self.home.staged().table.lock().inodes_carried(limit)
    }

    /// Number of staged pages.
    pub fn staged_total(&self) -> usize {
        self.home.staged().table.lock().len()
    }

    /// How much is staged, in whole pages; small ones count as quarters (S-14.7).
    pub fn staged_weight(&self) -> usize {
        self.home.staged().weight.pages()
    }

    /// Above so much [`Store::staged_weight`] the caller writes some out.
    pub fn staged_soft_limit(&self) -> usize {
        (self.home.staged().limit / 2).max(1)
    }

    /// The kind of the metablock in the arena or on the device, for people who debug.
    pub fn header(&self, id: MetaId) -> Result<Header, Error> {
        let pin = self.fetch(id)?;
        self.header_in_frame(&pin)
    }

    /// Whether this server has lost a staged page, or found that it is lost when it took over (S-14.6).
    pub fn has_lost_staged(&self) -> bool {
        self.ground.events.has_lost_staged()
    }

    /// From here on `tell` is called whenever a staged page is lost; it must not wait, nor ask the store anything. Only the first one is.
    pub fn when_staged_is_lost(&self, tell: impl Fn() + Send + Sync + 'static) {
        self.ground.events.when_staged_is_lost(tell);
    }

    /// A page of a file cannot be read back as it was written.
    pub fn tell_bad_data(&self, ino: u64, index: u64, page: u64, bad: BadData) {
        self.ground.events.tell_bad_data(ino, index, page, bad);
    }

    /// A page of a file that was told of cannot be read back again: no event, but the list of damages counts it (S-18.13).
    pub fn met_bad_data_again(&self, ino: u64, index: u64, page: u64) {
        self.ground.events.met_bad_data_again(ino, index, page);
    }

    /// A store missed the door in an earlier life of the server, which a guard ended; `report` is what it said.
    pub fn tell_guard_fault(&self, address: u64, report: &str) {
        self.ground.events.tell_guard_fault(address, report);
    }

    /// What was found wrong in frames since the pool was opened, at most the last 256, oldest first.
    pub fn damages(&self) -> Vec<(Damage, Done)> {
        self.ground.events.damages.all()
    }

    /// From here on another server goes on with what this one leaves ([`Store::remains`]). In place of ending writing because
    /// of memory that the next one makes anew, `end` is called, which ends this process (S-16.8). Only the first call counts.
    pub fn hand_on_to_successor(&self, end: impl Fn(&Error) + Send + Sync + 'static) {
        let _first = self.ground.ending.successor.set(Box::new(end));
    }

    /// The failure that ended writing, if any.
    pub fn fault(&self) -> Option<Error> {
        self.ground.ending.fault()
    }

    /// Whether nothing is written: the pool was opened so or rests, and [`Store::begin_writing`] was not called since.
    pub fn is_read_only(&self) -> bool {
        self.ground.is_read_only()
    }

    /// How many metablocks are fenced.
    pub fn fenced(&self) -> usize {
        self.frames.fences.count()
    }

    /// Before a file is written, with no page reserved: waits for who writes alone, and is alone then itself.
    pub fn overwrite_in_turn(&self) -> Option<Alone<'_>> {
        self.is_crowded().then(|| self.alloc.crowd.alone())
    }

    /// Whether somebody overwrites alone, or waits to.
    pub fn is_crowded(&self) -> bool {
        self.alloc.crowd.is_taken()
    }

    /// For who has found no page to overwrite with, and has none reserved.
    pub fn overwrite_alone(&self) -> Alone<'_> {
        self.alloc.crowd.alone()
    }

    /// Transactions that did not balance since the pool was opened, the oldest first, at most 64; each was rolled back.
    pub fn unbalanced(&self) -> Vec<Unbalanced> {
        self.watch.audits.all()
    }

    /// The committed transactions of a half of the operation log, in the order of commit (S-12.1); none if it is not
    /// kept. Errors: `Damaged`.
    pub fn operations(&self, half: Half) -> Result<Vec<LoggedTxn>, Error> {
        self.watch
            .oplog
            .as_ref()
            .map_or(Ok(Vec::new()), |log| log.operations(half))
    }

    /// The state table of a half (S-12.4). Errors: `Damaged`.
    pub fn states(&self, half: Half) -> Result<Vec<EarlierState>, Error> {
        self.watch.oplog.as_ref().map_or(Ok(Vec::new()), |log| log.states(half))
    }

    /// Exchanges the halves (S-12.6): what was live can be read as previous until the next swap.
    pub fn swap_operations(&self) {
        if let Some(log) = &self.watch.oplog {
            log.swap();
        }
    }

    /// How often a full half was swapped without being asked; what was previous then is lost.
    pub fn forced_swaps(&self) -> u64 {
        self.watch.oplog.as_ref().map_or(0, OpLog::forced_swaps)
    }

    /// The kernel's request `unique` (without the resend bit) is done from here on by who has this seat, one request at a time:
    /// for [`crate::Txn::answers`]. Of a store that does not last nothing is kept.
    pub fn begin_request(&self, unique: u64, seat: u32) -> Option<Running> {
        self.life.requests.as_ref()?.begin(unique, seat)
    }

    /// What is known of a request that the kernel sends again (S-16.17); `None`: it was never begun, or is to be executed.
    /// One that is done must be answered and not executed.
    pub fn request_again(&self, unique: u64, seat: u32) -> Option<Again> {
        self.life.requests.as_ref()?.again(unique, seat)
    }

    /// The lookup that the reply to the request stands for is counted.
    pub fn request_raised(&self, running: Option<Running>) {
        if let Some((requests, running)) = self.life.requests.as_ref().zip(running) {
            requests.raised(running);
        }
    }

    /// Inode and index of all staged pages, ascending.
    pub fn staged_keys(&self) -> Vec<(u64, u64)> {
        self.home.staged().table.lock().keys()
    }

    /// Errors: `BadPool`: faults may not be injected into this pool.
    pub fn for_tests(&self) -> Result<(), Error> {
        match self.ground.pool.is_test {
            true => Ok(()),
            false => Err(Error::BadPool(
                "faults are injected into pools for tests only; make one with `keepfs create --test`".into(),
            )),
        }
    }
}
