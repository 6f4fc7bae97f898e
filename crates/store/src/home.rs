//! Where metadata stays: the verbs that every home has, and the one place that tells homes apart.
//!
//! What a verb touches its arguments say: frames, or the store that the home is of where it runs transactions or hands out pages.

use crate::error::{Error, Pressure, Stop};
use crate::flash::Flash;
use crate::locks::Awaited;
use crate::nvm::Nvm;
use crate::recover::{self, Opened};
use crate::scrub::RestPlace;
use crate::{Store, background};
use core::ops::Range;
use keepfs_flash::adopted::Adopted;
use keepfs_flash::bad::CopiesSeen;
use keepfs_flash::checkpoint::Wish;
use keepfs_flash::log::{Cut, Mended};
use keepfs_flash::redo::Redo;
use keepfs_flash::segment::Segment;
use keepfs_flash::staged::{Bases, Coming, Key, Staged};
use keepfs_format::map::{LIVE, MapEntry};
use keepfs_format::plog::Record;
use keepfs_format::superblock::Superblock;
use keepfs_format::{MetaId, PAGE, Space};
use keepfs_frames::{Frames, Looked, Pin};
use keepfs_media::Device;
use keepfs_pool::{BadData, HomeKind, Pool, Settings, StoreOptions};
use keepfs_vault::arena::Damaged;
use keepfs_vault::undo::UndoSlot;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

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

/// How everything that waits is brought home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settling {
    /// The pool goes on, as it is or with a wish.
    Goes(Option<Wish>),
    /// It says that it was closed.
    Closed,
    /// The same, and nothing is written behind it.
    Rests,
}

/// What a scrub looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// A frame.
    Frame(u32),
    /// The superblocks.
    Superblocks,
    /// The log.
    Log,
    /// What memory says of itself.
    Memory,
    /// A page of a file that is staged.
    Staged(Key),
    /// The copies of one metablock.
    Copies(MetaId),
}

/// What a transaction that commits has staged.
pub struct Staging<'t> {
    /// The pages under it.
    pub bases: &'t mut Bases,
    /// The room that was taken for it.
    pub coming: &'t mut Coming,
    /// Pages promised to it.
    pub promised: u64,
}

/// How a home is.
pub struct Figures<'h> {
    /// Number of the last transaction that is durable.
    pub durable: u64,
    /// Where the log was cut when the pool was opened, if it was (S-9.7).
    pub log_cut: Option<Cut>,
    /// Which pages of it were bad and mended then (S-9.11, S-9.24).
    pub log_mended: &'h [Mended],
    /// A sentence, if both slots of one generation of superblocks held none then (S-21.22).
    pub superblocks_lost: Option<&'h str>,
    /// How long ago the last checkpoint was written; before the first one, how long ago the pool was opened.
    pub since_checkpoint: Duration,
    /// Whether a copy of a metablock is to be written elsewhere.
    pub has_copies_to_write: bool,
}

/// A home begins and ends.
impl Home {
    /// Errors: there is no such home yet.
    pub fn is_there(kind: HomeKind) -> Result<(), Error> {
        match kind {
            HomeKind::Flash => Ok(()),
            HomeKind::Nvm => Err(Nvm::refused()),
        }
    }

    /// The home of a pool as its superblock tells it. Errors: there is no memory, or no such home.
    pub fn of(sb: &Superblock, frames: &Frames) -> Result<Home, Error> {
        match frames.ground.options.home {
            HomeKind::Flash => Flash::of(sb, frames).map(Home::Flash),
            HomeKind::Nvm => Nvm::of(&frames.ground.pool).map(Home::Nvm),
        }
    }

    /// Opens the pool on a device with all that is behind its superblock, of what a dead server owed the redo, too (S-16.5).
    pub fn recover(device: Arc<dyn Device>, o: &StoreOptions, owed: Option<&mut Adopted>) -> Result<Opened, Error> {
        match o.home {
            HomeKind::Flash => recover::open_owing(device, o, owed),
            HomeKind::Nvm => Err(Nvm::refused()),
        }
    }

    /// The flash home, for its own code.
    #[inline]
    pub fn flash(&self) -> &Flash {
        match self {
            Home::Flash(flash) => flash,
            Home::Nvm(nvm) => match *nvm {},
        }
    }

    /// Its threads begin.
    pub fn spawn(&self, store: &Arc<Store>) -> Result<(), Error> {
        background::spawn_checkpointer(self.flash(), store)?;
        background::spawn_cutter(self.flash(), store)
    }

    /// Its threads shall end; with `and_wait` they have.
    pub fn close(&self, and_wait: bool) {
        let (wanted, cutter) = (&self.flash().checkpoints.wanted, &self.flash().log.cutter);
        wanted.stop();
        cutter.stop();
        if and_wait {
            wanted.join();
            cutter.join();
        }
    }
}

/// What a home knows of metablocks.
impl Home {
    /// Where a metablock lies, as of the last checkpoint.
    pub fn locate(&self, frames: &Frames, id: MetaId) -> Result<Option<MapEntry>, Error> {
        self.flash().locate(frames, id)
    }

    /// The generation that a metablock of nodes is born with now (S-3.4). `Miss` names what to fetch.
    pub fn next_life(&self, frames: &Frames, id: MetaId) -> Result<u32, Stop> {
        self.flash().next_generation(frames, id)
    }

    /// Whether a metablock lies there and has not died since. `Miss` names what to fetch.
    pub fn has(&self, frames: &Frames, id: MetaId) -> Result<bool, Stop> {
        let flash = self.flash();
        let lives = flash.locate_in_memory(frames, id)?.is_some_and(|e| e.state == LIVE);
        Ok(lives && flash.checkpoints.deaths.get(id)?.is_none())
    }

    /// Pins the frame of a metablock, fetching it if need be. `None`: there is no such metablock.
    pub fn fetch<'s>(&'s self, frames: &'s Frames, id: MetaId) -> Result<Option<Pin<'s>>, Error> {
        self.flash().fetch(frames, id)
    }

    /// Indices of the metablocks that a space has.
    pub fn blocks_of(&self, frames: &Frames, space: Space) -> Result<BTreeSet<u64>, Error> {
        self.flash().blocks_of(frames, space)
    }

    /// Numbers of inodes, as they are at rest.
    pub fn inodes_in_use(&self, store: &Store, from: u64, limit: usize) -> Result<Vec<u64>, Error> {
        self.flash().inodes_in_use(store, from, limit)
    }

    /// Reads the page under a staged one.
    pub fn base(&self, frames: &Frames, page: u64, crc: u32, buf: &mut [u8; PAGE]) -> Result<(), BadData> {
        self.flash().base(frames, page, crc, buf)
    }
}

/// What transactions tell and ask it.
impl Home {
    /// Waits while there is no room for what a transaction changes; of `what` one, rolled back now, had not enough.
    pub fn pressure(&self, store: &Store, what: Option<Pressure>) -> Result<(), Error> {
        match what {
            None => self.flash().make_room(store),
            Some(what) => self.flash().relieve(store, what),
        }
    }

    /// A transaction is about to write to a frame for the first time; `bounded`, unless there is no room for more.
    #[inline]
    pub fn first_write(&self, frames: &Frames, id: MetaId, pin: &Pin<'_>, bounded: bool) -> Result<(), Stop> {
        self.flash().before_first_write(frames, id, pin, bounded)
    }

    /// Staged pages that these records change a part of are looked at; where they are about to change one only, which did not
    /// read, that one.
    pub fn about_to_stage(&self, frames: &Frames, only: Option<Key>, records: &[Record]) -> Result<(), Error> {
        match only {
            None => self.flash().look_before_change(frames, records),
            Some(key) => self.flash().look_before_one(frames, key, records),
        }
    }

    /// A transaction is committed: what is staged follows. Returns how many pages are promised no more.
    #[inline]
    pub fn committed(&self, frames: &Frames, seq: u64, records: &[Record], staging: Staging<'_>) -> u64 {
        let Staging {
            bases,
            coming,
            promised,
        } = staging;
        self.flash()
            .follow_staged(frames, seq, records, bases, coming, promised)
    }

    /// A metablock died with this generation, or with none an inode in it ended.
    pub fn ended(&self, id: MetaId, generation: Option<u32>) {
        let checkpoints = &self.flash().checkpoints;
        match generation {
            Some(generation) => checkpoints.deaths.insert(id, generation),
            None => {
                checkpoints.emptied.lock().insert(id.index());
            }
        }
    }

    /// So many bytes of file data were given to the device.
    pub fn given(&self, bytes: u64) {
        self.flash().log.given.add(bytes);
    }
}

/// How it becomes durable.
impl Home {
    /// Makes all that is committed durable.
    pub fn sync(&self, store: &Store) -> Result<(), Error> {
        self.flash().sync(store)
    }

    /// Tells the device what is durable, if nothing else has.
    pub fn tell_durable(&self, store: &Store) -> Result<(), Error> {
        self.flash().write_durable(&store.frames)
    }

    /// A checkpoint is wanted, and nobody waits for it.
    pub fn want_checkpoint(&self) {
        self.flash().checkpoints.wanted.set();
    }

    /// Brings home what waits for that. Whether the pool rests from now on.
    pub fn settle(&self, store: &Store, how: Settling) -> Result<bool, Error> {
        let flash = self.flash();
        match how {
            Settling::Goes(None) => flash.checkpoint(store).map(|()| false),
            Settling::Goes(Some(wish)) => flash.checkpoint_as(store, wish).map(|()| false),
            Settling::Closed => flash.settle(store).map(|()| false),
            Settling::Rests => flash.rest(store),
        }
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

    /// Tells the device which free pages of a range, in runs of at least so many, are not needed; without one those that became
    /// free. How many; `None`: the device cannot be told.
    pub fn trim(&self, store: &Store, range: Option<(Range<u64>, u64)>) -> Result<Option<u64>, Error> {
        match range {
            Some((range, least)) => self.flash().trim(store, range, least),
            None => self.flash().discard_released(store).map(|()| None),
        }
    }
}

/// What it tells against damage.
impl Home {
    /// Mends a frame until `look` finds what it looks for right. Errors: `Fenced`, `Scribble`: nothing mends it.
    pub fn mended<T>(
        &self,
        frames: &Frames,
        pin: &Pin<'_>,
        look: impl FnMut() -> Result<T, Damaged>,
    ) -> Result<T, Error> {
        self.flash().mended(frames, pin, look)
    }

    /// A private verified copy of a frame, as it goes to the device, mended if need be. Errors: as [`Home::mended`].
    pub fn verified_copy(&self, frames: &Frames, pin: &Pin<'_>, copy: &mut [u8; PAGE]) -> Result<(), Error> {
        self.flash().verified_copy(frames, pin, copy)
    }

    /// A transaction's changes of a frame are taken back but for some whose undo records do not read back, and which have
    /// folded `delta` into its CRC-64.
    pub fn bring_back(&self, frames: &Frames, pin: &Pin<'_>, delta: u64, undo: &UndoSlot<'_>) {
        self.flash().bring_back(frames, pin, delta, undo);
    }

    /// Looks at what nobody asked for. Errors: those of what leads to it.
    pub fn look(&self, store: &Store, what: Look) -> Result<Looked, Error> {
        let (flash, frames) = (self.flash(), &store.frames);
        Ok(match what {
            Look::Frame(frame) => flash.scrub_frame(frames, frame),
            Look::Superblocks => flash.scrub_superblocks(frames),
            Look::Log => flash.scrub_log(store)?,
            Look::Memory => flash.scrub_page_0(frames),
            Look::Staged((ino, index)) => flash.scrub_staged(frames, ino, index),
            Look::Copies(id) => flash.scrub_copies(store, id)?,
        })
    }

    /// Looks at a part of what lies there.
    pub fn look_at_rest(&self, store: &Store, place: RestPlace) -> Result<(Looked, Option<RestPlace>), Error> {
        self.flash().scrub_rest(store, place)
    }

    /// Looks at the copies of a metablock, of which what is bad is told.
    pub fn check_copies(&self, frames: &Frames, id: MetaId) -> Result<CopiesSeen, Error> {
        self.flash().check_copies(frames, id)
    }

    /// Whether one of them is right. Errors: the entry under which none is.
    pub fn is_whole_at_rest(&self, frames: &Frames, id: MetaId, known: Option<&MapEntry>) -> Result<bool, MapEntry> {
        self.flash().is_whole_at_rest(frames, id, known)
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

    /// Copies a staged page, mended if need be; `false` if it is not staged. Errors: it is lost.
    pub fn read_staged(&self, frames: &Frames, (ino, index): Key, page: &mut [u8; PAGE]) -> Result<bool, Error> {
        self.flash().read_staged(frames, ino, index, page)
    }

    /// Pages of the log in use, and how many may be before a checkpoint must empty it.
    pub fn log_fill(&self, frames: &Frames) -> (u64, u64) {
        self.flash().log_fill(frames)
    }

    /// How it is. Waits for no write.
    pub fn figures(&self) -> Figures<'_> {
        let flash = self.flash();
        Figures {
            durable: flash.log.sync.durable(),
            log_cut: flash.log.cut.get().copied(),
            log_mended: flash.log.mended.get().map_or(&[], Vec::as_slice),
            superblocks_lost: flash.checkpoints.superblocks_lost.get().map(String::as_str),
            since_checkpoint: flash.checkpoints.at.lock().elapsed(),
            has_copies_to_write: flash.has_copies_to_write(),
        }
    }
}

#[cfg(test)]
mod tests;
