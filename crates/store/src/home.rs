//! Where metadata stays: the verbs that every home has, and the one place that tells homes apart.
//!
//! A verb that needs frames, space or whoever is told gets the store that the home is of.

use crate::adopted::Adopted;
use crate::cache::Pin;
use crate::checkpoint::Wish;
use crate::error::{BadData, Error, Pressure, Stop};
use crate::flash::Flash;
use crate::frames::Frames;
use crate::ladder::{Evidence, Past, Untold};
use crate::locks::Awaited;
use crate::map::CopiesSeen;
use crate::nvm::Nvm;
use crate::options::StoreOptions;
use crate::pool::{Pool, Settings};
use crate::recover::{self, Opened};
use crate::scrub::{Looked, RestPlace};
use crate::{Store, cutter, wanted};
use core::ops::Range;
use keepfs_flash::log::{Cut, Mended};
use keepfs_flash::redo::Redo;
use keepfs_flash::segment::Segment;
use keepfs_flash::staged::{Bases, Coming, Key, Staged};
use keepfs_format::map::MapEntry;
use keepfs_format::plog::Record;
use keepfs_format::superblock::Superblock;
use keepfs_format::{MetaId, PAGE, Space};
use keepfs_media::Device;
use keepfs_vault::arena::{self, FrameNo};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Which home.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// Pages of a device, with a log and checkpoints.
    #[default]
    Flash,
    /// Persistent memory, which there is not yet.
    Nvm,
}

/// Where metadata stays.
#[expect(
    clippy::large_enum_variant,
    reason = "a store has one, and asks it at each step of a transaction"
)]
pub enum Home {
    /// Pages of a device.
    Flash(Flash),
    /// Persistent memory.
    Nvm(Nvm),
}

/// A home begins.
impl Home {
    /// Errors: there is no such home yet.
    pub fn is_there(kind: Kind) -> Result<(), Error> {
        match kind {
            Kind::Flash => Ok(()),
            Kind::Nvm => Err(Nvm::refused()),
        }
    }

    /// The home of a pool as its superblock tells it. Errors: there is no memory, or no such home.
    pub fn of(sb: &Superblock, pool: &Pool, o: &StoreOptions, frames: &Frames) -> Result<Home, Error> {
        match o.home {
            Kind::Flash => Flash::of(sb, pool, o, frames).map(Home::Flash),
            Kind::Nvm => Nvm::of(pool).map(Home::Nvm),
        }
    }

    /// Opens the pool on a device with all that is behind its superblock, of what a dead server owed the redo, too (S-16.5).
    pub fn open(device: Arc<dyn Device>, o: &StoreOptions, owed: Option<&mut Adopted>) -> Result<Opened, Error> {
        match o.home {
            Kind::Flash => recover::open_owing(device, o, owed),
            Kind::Nvm => Err(Nvm::refused()),
        }
    }

    /// The flash home, for its own code.
    pub fn flash(&self) -> &Flash {
        match self {
            Home::Flash(flash) => flash,
            Home::Nvm(nvm) => match *nvm {},
        }
    }

    /// Its threads begin.
    pub fn spawn_threads(&self, store: &Arc<Store>) -> Result<(), Error> {
        wanted::spawn(self.flash(), store)?;
        cutter::spawn(self.flash(), store)
    }

    /// Its threads shall end.
    pub fn stop_threads(&self) {
        self.flash().checkpoints.wanted.stop();
        self.flash().log.cutter.stop();
    }

    /// Waits for threads that shall end.
    pub fn join_threads(&self) {
        self.flash().checkpoints.wanted.join();
        self.flash().log.cutter.join();
    }
}

/// What a home knows of metablocks.
impl Home {
    /// Where a metablock lies, as of the last checkpoint.
    pub fn locate(&self, store: &Store, id: MetaId) -> Result<Option<MapEntry>, Error> {
        self.flash().locate(store, id)
    }

    /// The same without reading; `Miss` names what to fetch.
    pub fn locate_in_memory(&self, store: &Store, id: MetaId) -> Result<Option<MapEntry>, Stop> {
        self.flash().locate_in_memory(store, id)
    }

    /// What a metablock holds that lies there, and its CRC-64, if it is there.
    pub fn content_at_home(
        &self,
        store: &Store,
        id: MetaId,
        entry: Option<MapEntry>,
    ) -> Result<Option<(arena::Copy, u64)>, Error> {
        self.flash().content_at_home(store, id, entry)
    }

    /// The generation that a metablock of nodes is born with now (S-3.4).
    pub fn next_generation(&self, store: &Store, id: MetaId) -> Result<u32, Stop> {
        self.flash().next_generation(store, id)
    }

    /// Indices of the metablocks that a space has.
    pub fn blocks_of(&self, store: &Store, space: Space) -> Result<BTreeSet<u64>, Error> {
        self.flash().blocks_of(store, space)
    }

    /// Pins the frame of a metablock, fetching it if need be. `None`: there is no such metablock.
    pub fn fetch<'s>(&'s self, store: &'s Store, id: MetaId) -> Result<Option<Pin<'s>>, Error> {
        self.flash().fetch(store, id)
    }

    /// Whether a metablock has died and no home in force says so.
    pub fn has_died(&self, id: MetaId) -> Result<bool, Error> {
        Ok(self.flash().checkpoints.deaths.get(id)?.is_some())
    }
}

/// What transactions tell and ask it.
impl Home {
    /// Waits while there is no room for what a transaction changes.
    pub fn make_room(&self, store: &Store) -> Result<(), Error> {
        self.flash().make_room(store)
    }

    /// Frees what a transaction, rolled back now, had not enough of.
    pub fn relieve(&self, store: &Store, what: Pressure) -> Result<(), Error> {
        self.flash().relieve(store, what)
    }

    /// A transaction is about to write to a frame for the first time; `bounded`, unless there is no room for more.
    pub fn before_first_write(&self, store: &Store, id: MetaId, pin: &Pin<'_>, bounded: bool) -> Result<(), Stop> {
        self.flash().before_first_write(store, id, pin, bounded)
    }

    /// The place of a metablock will be another one.
    pub fn map_changes(&self, store: &Store, id: MetaId) {
        self.flash().map_changes(store, id)
    }

    /// Staged pages that these records change a part of are looked at.
    pub fn look_before_change(&self, store: &Store, records: &[Record]) -> Result<(), Error> {
        self.flash().look_before_change(store, records)
    }

    /// The same of the only one.
    pub fn look_before_one(&self, store: &Store, key: Key, records: &[Record]) -> Result<(), Error> {
        self.flash().look_before_one(store, key, records)
    }

    /// What is staged follows a transaction that is committed.
    pub fn follow_staged(
        &self,
        store: &Store,
        seq: u64,
        records: &[Record],
        bases: &mut Bases,
        coming: &mut Coming,
        promised: u64,
    ) {
        self.flash().follow_staged(store, seq, records, bases, coming, promised)
    }

    /// A metablock died with this generation.
    pub fn died(&self, id: MetaId, generation: u32) {
        self.flash().checkpoints.deaths.insert(id, generation);
    }

    /// An inode ended in this metablock of inodes.
    pub fn inode_ended(&self, block: MetaId) {
        self.flash().checkpoints.emptied.lock().insert(block.index());
    }

    /// So many bytes of file data were given to the device.
    pub fn given(&self, bytes: u64) {
        self.flash().log.given.add(bytes);
    }

    /// A checkpoint is wanted, and nobody waits for it.
    pub fn want_checkpoint(&self) {
        self.flash().checkpoints.wanted.set();
    }
}

/// How it becomes durable.
impl Home {
    /// Makes all that is committed durable.
    pub fn sync(&self, store: &Store) -> Result<(), Error> {
        self.flash().sync(store)
    }

    /// Brings home what waits for that.
    pub fn checkpoint(&self, store: &Store) -> Result<(), Error> {
        self.flash().checkpoint(store)
    }

    /// The same with a wish.
    pub fn checkpoint_as(&self, store: &Store, wish: Wish) -> Result<(), Error> {
        self.flash().checkpoint_as(store, wish)
    }

    /// Everything is at home, and the pool says that it was closed.
    pub fn settle(&self, store: &Store) -> Result<(), Error> {
        self.flash().settle(store)
    }

    /// The same, and nothing is written behind it. Whether that begins now.
    pub fn rest(&self, store: &Store) -> Result<bool, Error> {
        self.flash().rest(store)
    }

    /// Writing begins. Whether it does for the first time.
    pub fn begin_writing(&self, store: &Store) -> Result<bool, Error> {
        self.flash().begin_writing(store)
    }

    /// Changes settings of the pool; whether any did.
    pub fn set(&self, store: &Store, settings: &Settings) -> Result<bool, Error> {
        self.flash().set(store, settings)
    }

    /// The pool with its settings as the device has them.
    pub fn pool_in_force(&self) -> Pool {
        self.flash().pool_in_force()
    }

    /// Tells the device what is durable, if nothing else has.
    pub fn write_durable(&self, store: &Store) -> Result<(), Error> {
        self.flash().write_durable(store)
    }

    /// Tells the device which free pages are not needed.
    pub fn trim(&self, store: &Store, range: Range<u64>, least: u64) -> Result<Option<u64>, Error> {
        self.flash().trim(store, range, least)
    }

    /// The same of those that became free.
    pub fn discard_released(&self, store: &Store) -> Result<(), Error> {
        self.flash().discard_released(store)
    }
}

/// What it tells against damage in memory.
impl Home {
    /// What the device has of a metablock.
    pub fn past(&self, store: &Store, id: MetaId) -> Result<Past, Untold> {
        self.flash().past(store, id)
    }

    /// What its frame may contain.
    pub fn evidence(
        &self,
        store: &Store,
        id: MetaId,
        frame: FrameNo,
        past: Past,
        live: &[u8; PAGE],
    ) -> Result<Evidence, Untold> {
        self.flash().evidence(store, id, frame, past, live)
    }

    /// What it contained behind a transaction, and the last one that is known of.
    pub fn told_content(&self, store: &Store, id: MetaId, up_to: u64) -> Option<(arena::Copy, u64)> {
        self.flash().told_content(store, id, up_to)
    }

    /// Reads a staged page that was not right.
    pub fn staged_again(&self, store: &Store, ino: u64, index: u64, page: &mut [u8; PAGE]) -> Result<bool, Error> {
        self.flash().staged_again(store, ino, index, page)
    }

    /// Reads the page under a staged one.
    pub fn base(&self, store: &Store, page: u64, crc: u32, buf: &mut [u8; PAGE]) -> Result<(), BadData> {
        self.flash().base(store, page, crc, buf)
    }

    /// Looks at what memory says of itself.
    pub fn scrub_page_0(&self, store: &Store) -> Looked {
        self.flash().scrub_page_0(store)
    }

    /// Looks at a staged page.
    pub fn scrub_staged(&self, store: &Store, ino: u64, index: u64) -> Looked {
        self.flash().scrub_staged(store, ino, index)
    }
}

/// What lies at rest.
impl Home {
    /// Looks at the copies of a metablock.
    pub fn check_copies(&self, store: &Store, id: MetaId) -> Result<CopiesSeen, Error> {
        self.flash().check_copies(store, id)
    }

    /// Whether one of them is right.
    pub fn is_whole_at_rest(&self, store: &Store, id: MetaId, known: Option<&MapEntry>) -> Result<bool, MapEntry> {
        self.flash().is_whole_at_rest(store, id, known)
    }

    /// Looks at the superblocks.
    pub fn scrub_superblocks(&self, store: &Store) -> Looked {
        self.flash().scrub_superblocks(store)
    }

    /// Looks at a part of what lies there.
    pub fn scrub_rest(&self, store: &Store, place: RestPlace) -> Result<(Looked, Option<RestPlace>), Error> {
        self.flash().scrub_rest(store, place)
    }

    /// Looks at the copies of one metablock.
    pub fn scrub_copies(&self, store: &Store, id: MetaId) -> Result<Looked, Error> {
        self.flash().scrub_copies(store, id)
    }

    /// Whether something is to be written elsewhere.
    pub fn has_copies_to_write(&self) -> bool {
        self.flash().has_copies_to_write()
    }

    /// Numbers of inodes, as they are at rest.
    pub fn inodes_in_use(&self, store: &Store, from: u64, limit: usize) -> Result<Vec<u64>, Error> {
        self.flash().inodes_in_use(store, from, limit)
    }
}

/// Its memory and its figures.
impl Home {
    /// Guarded memory of redo and staged pages (S-14).
    pub fn memory(&self) -> &Segment {
        &self.flash().log.segment
    }

    /// Redo of committed transactions.
    pub fn redo(&self) -> &Awaited<Redo> {
        &self.flash().log.redo
    }

    /// What is staged.
    pub fn staged(&self) -> &Staged {
        &self.flash().staged
    }

    /// Number of the last transaction that is durable.
    pub fn durable_seq(&self) -> u64 {
        self.flash().log.sync.durable()
    }

    /// Pages of the log in use, and how many may be before a checkpoint must empty it.
    pub fn log_fill(&self, store: &Store) -> (u64, u64) {
        self.flash().log_fill(store)
    }

    /// Where the log was cut when the pool was opened, if it was (S-9.7).
    pub fn log_cut(&self) -> Option<Cut> {
        self.flash().log.cut.get().copied()
    }

    /// Which pages of it were bad and mended then (S-9.11, S-9.24).
    pub fn log_mended(&self) -> &[Mended] {
        self.flash().log.mended.get().map_or(&[], Vec::as_slice)
    }

    /// A sentence, if both slots of one generation of superblocks held none then (S-21.22).
    pub fn superblocks_lost(&self) -> Option<&str> {
        self.flash().checkpoints.superblocks_lost.get().map(String::as_str)
    }

    /// How long ago the last checkpoint was written; before the first one, how long ago the pool was opened.
    pub fn since_checkpoint(&self) -> Duration {
        self.flash().checkpoints.at.lock().elapsed()
    }
}

#[cfg(test)]
mod tests;
