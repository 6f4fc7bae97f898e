//! Applying the records of the log to the checkpoint (S-8.5), before anybody else is there.
//!
//! No record is believed: each names what exists and fits, or the pool is not opened (promise C-8).
//!
//! Invariants:
//! P-1 A frame that the log changes is verified, changed in a private copy, and stored once, with sums of that copy: behind some
//!     guards each store is a system call or more, and a service waits for all of them (decision 0520).
//! P-2 What a copy is of is pinned, and read by nobody else, until it is stored or dropped.
//! P-3 A metablock of one owner that cannot be read is lost alone, with what the log has for it; what only writers need and
//!     cannot be read is left out if nobody writes (S-9.10).

use crate::error::{Error, stopped};
use crate::home::Flash;
use crate::staged::Under;
use keepfs_codes::crc64;
use keepfs_format::bitmap::{self, BITS, NUMBERS, TOTAL_INODES, TOTAL_NODES, TOTAL_PAGES, TOTAL_SHARES, TOTALS};
use keepfs_format::blockmap::FILE_SIZE_MAX;
use keepfs_format::metablock::HEADER;
use keepfs_format::plog::{Record, Run};
use keepfs_format::{Header, Kind, MetaId, PAGE, Space};
use keepfs_frames::{Frames, Pin};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A replay under way.
pub struct Replay<'s> {
    flash: &'s Flash,
    frames: &'s Frames,
    images: BTreeMap<MetaId, Image<'s>>,
}

/// A frame as it shall be.
struct Image<'s> {
    pin: Pin<'s>,
    bytes: Box<[u8; PAGE]>,
}

/// Images at a time; more are stored first.
const IMAGES_MAX: usize = 4096;

impl<'s> Replay<'s> {
    /// Into the frames of `store`, which has nothing of the log yet.
    pub fn of(flash: &'s Flash, frames: &'s Frames) -> Replay<'s> {
        Replay {
            flash,
            frames,
            images: BTreeMap::new(),
        }
    }

    /// Stores what was changed: nobody reads the frames before.
    pub fn store_all(&mut self) {
        for (_, Image { pin, bytes }) in core::mem::take(&mut self.images) {
            self.frames.arena.refill(pin.frame, &bytes, crc64::full(&*bytes));
        }
    }

    /// What the frame of `id` shall be; marks it dirty. Errors: it cannot be verified; the arena is full.
    pub(crate) fn image(&mut self, id: MetaId, pin: Pin<'s>) -> Result<&mut [u8; PAGE], Error> {
        if self.images.len() >= IMAGES_MAX && !self.images.contains_key(&id) {
            self.store_all();
        }
        match self.images.entry(id) {
            Entry::Occupied(image) => Ok(&mut image.into_mut().bytes),
            Entry::Vacant(none) => {
                let mut bytes = Box::new([0; PAGE]);
                self.flash.verified_copy(self.frames, &pin, &mut bytes)?;
                self.flash
                    .before_first_write(self.frames, id, &pin, false)
                    .map_err(stopped)?;
                Ok(&mut none.insert(Image { pin, bytes }).bytes)
            }
        }
    }

    /// Applies one record of a group that is taken (S-8.5).
    pub fn apply(&mut self, record: &Record) -> Result<(), Error> {
        match record {
            Record::Update { id, generation, ranges } => self.replay_update(*id, *generation, ranges)?,
            Record::Birth {
                id,
                generation,
                kind,
                level,
                owner,
            } => {
                self.replay_birth(*id, *generation, *kind, *level, *owner)?;
            }
            Record::Death { id, generation } => self.replay_death(*id, *generation)?,
            Record::Alloc { space, run } => self.replay_bits(*space, *run, true)?,
            Record::Free { space, run } => {
                self.replay_bits(*space, *run, false)?;
                self.flash.staged.table.lock().apply(record, &mut Under::Later)?;
            }
            Record::Ref { run, delta } => self.replay_ref(*run, *delta)?,
            Record::MapEntry { ino, index, .. }
            | Record::Tail { ino, index, .. }
            | Record::Zero { ino, index, .. }
            | Record::Lost { ino, index }
                if *index > FILE_SIZE_MAX / PAGE as u64 =>
            {
                return Err(Error::Damaged(format!(
                    "it names page {index} of inode {ino}, beyond any file"
                )));
            }
            // Errors: more staged pages than the pool that wrote the log had slots for (S-9.6).
            Record::Tail { .. }
            | Record::Zero { .. }
            | Record::Lost { .. }
            | Record::MapEntry { .. }
            | Record::Truncate { .. }
            | Record::Create { .. } => self.flash.staged.table.lock().apply(record, &mut Under::Later)?,
            Record::Link { .. } | Record::Unlink { .. } | Record::Parity { .. } => {}
        }
        Ok(())
    }

    pub(crate) fn replay_update(
        &mut self,
        id: MetaId,
        generation: u32,
        ranges: &[(u16, Vec<u8>)],
    ) -> Result<(), Error> {
        if !matches!(id.space(), Some(Space::Nodes | Space::Inodes)) {
            return Err(Error::Damaged(format!("it changes {id}, which is not logged")));
        }
        if self.frames.fences.has(id) {
            return Ok(());
        }
        let pin = match self.flash.fetch(self.frames, id) {
            Ok(Some(pin)) => pin,
            Ok(None) => return Err(Error::Damaged(format!("it changes {id}, which does not exist"))),
            Err(why @ (Error::Damaged(_) | Error::DamagedOne { .. })) => {
                return self.flash.lose_at_rest(self.frames, id, why);
            }
            Err(error) => return Err(error),
        };
        let live = self.flash.header(self.frames, id)?.generation.get();
        if live != generation {
            let newer = generation > live;
            return if newer {
                Err(Error::Damaged(format!(
                    "it changes {id} in generation {generation}, which was never born"
                )))
            } else {
                Ok(())
            };
        }
        let image = self.image(id, pin)?;
        for (offset, bytes) in ranges {
            let offset = usize::from(*offset);
            if offset < HEADER || offset + bytes.len() > PAGE {
                return Err(Error::Damaged(format!("it changes the header of {id}")));
            }
            image[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        Ok(())
    }

    pub(crate) fn replay_birth(
        &mut self,
        id: MetaId,
        generation: u32,
        kind: u8,
        level: u8,
        owner: u64,
    ) -> Result<(), Error> {
        let wrong = || Error::Damaged(format!("it bears {id} of the impossible kind {kind} for inode {owner}"));
        let kind = Kind::of(kind)
            .filter(|kind| kind.is_owned() && owner != 0 && id.space() == Some(Space::Nodes))
            .ok_or_else(wrong)?;
        self.replay_bits(Space::NodeNumbers, one(id.index()), true)?;
        let header = Header::new(self.frames.ground.pool.tag, id, kind, level, owner, generation);
        // A stale frame of an earlier life may be here: its death is in this log.
        self.images.remove(&id);
        if let Some(pin) = self.frames.cache.pin(id) {
            self.frames.cache.remove(id, pin);
        }
        let pin = self.flash.place_new(self.frames, id, &header).map_err(stopped)?;
        self.flash
            .before_first_write(self.frames, id, &pin, false)
            .map_err(stopped)
    }

    pub(crate) fn replay_death(&mut self, id: MetaId, generation: u32) -> Result<(), Error> {
        if !matches!(id.space(), Some(Space::Nodes | Space::Inodes)) {
            return Err(Error::Damaged(format!("it ends {id}, which never ends")));
        }
        let live = match self.frames.fences.has(id) {
            true => Ok(Some(generation)),
            false => self.flash.live_generation(self.frames, id),
        };
        let live = match live {
            Err(why @ (Error::Damaged(_) | Error::DamagedOne { .. })) => {
                self.flash.lose_at_rest(self.frames, id, why).map(|()| Some(generation))
            }
            live => live,
        };
        if live? != Some(generation) {
            return Err(Error::Damaged(format!(
                "it ends {id} of generation {generation}, which is not alive"
            )));
        }
        if id.space() == Some(Space::Nodes) {
            self.replay_bits(Space::NodeNumbers, one(id.index()), false)?;
        }
        self.images.remove(&id);
        if let Some(pin) = self.frames.cache.pin(id) {
            self.frames.cache.remove(id, pin);
        }
        self.frames.fences.died(id);
        self.flash.checkpoints.deaths.insert(id, generation);
        self.flash.map_changes(self.frames, id);
        Ok(())
    }

    pub(crate) fn replay_bits(&mut self, space: Space, run: Run, on: bool) -> Result<(), Error> {
        let limit = if space == Space::Pages {
            self.frames.ground.pool.pages
        } else {
            NUMBERS
        };
        let end = run.start + u64::from(run.count);
        if end > limit {
            return Err(Error::Damaged(format!(
                "it names {space:?} {}, which does not exist",
                end - 1
            )));
        }
        let mut at = run.start;
        while at < end {
            let next = ((at / BITS + 1) * BITS).min(end);
            self.replay_bits_in_one(space, at, next, on)?;
            at = next;
        }
        let total = match space {
            Space::Pages => TOTAL_PAGES,
            Space::InodeNumbers => TOTAL_INODES,
            Space::NodeNumbers => TOTAL_NODES,
            _ => return Ok(()),
        };
        let count = i64::from(run.count);
        self.replay_total(total, if on { count } else { -count })
    }

    /// The bits `at..end`, which stand in one metablock.
    pub(crate) fn replay_bits_in_one(&mut self, space: Space, at: u64, end: u64, on: bool) -> Result<(), Error> {
        let (id, first, _) = bitmap::bit(space, at);
        let (_, last, _) = bitmap::bit(space, end - 1);
        let Some(pin) = self.frames.or_without(self.flash.fetch_named(self.frames, id))? else {
            return Ok(());
        };
        let bytes = &mut self.image(id, pin)?[first..=last];
        for number in at..end {
            let (_, offset, mask) = bitmap::bit(space, number);
            let byte = &mut bytes[offset - first];
            if (*byte & mask != 0) == on {
                let what = if on {
                    "allocates what is allocated"
                } else {
                    "frees what is free"
                };
                return Err(Error::Damaged(format!("it {what}: {space:?} {number}")));
            }
            *byte ^= mask;
        }
        Ok(())
    }

    pub(crate) fn replay_ref(&mut self, run: Run, delta: i32) -> Result<(), Error> {
        if run.start + u64::from(run.count) > self.frames.ground.pool.pages {
            return Err(Error::Damaged(format!(
                "it shares page {}, which does not exist",
                run.start
            )));
        }
        for page in run.start..run.start + u64::from(run.count) {
            let (id, offset) = bitmap::share(page);
            let Some(pin) = self.frames.or_without(self.flash.fetch_named(self.frames, id))? else {
                continue;
            };
            let count = counter(self.image(id, pin)?, offset)?;
            let now = i32::from(u16::from_le_bytes(*count))
                .checked_add(delta)
                .and_then(|n| u16::try_from(n).ok());
            let now =
                now.ok_or_else(|| Error::Damaged(format!("it shares page {page} an impossible number of times")))?;
            *count = now.to_le_bytes();
        }
        self.replay_total(TOTAL_SHARES, i64::from(run.count) * i64::from(delta))
    }

    pub(crate) fn replay_total(&mut self, offset: usize, add: i64) -> Result<(), Error> {
        let Some(pin) = self.frames.or_without(self.flash.fetch_named(self.frames, TOTALS))? else {
            return Ok(());
        };
        let total = counter(self.image(TOTALS, pin)?, offset)?;
        *total = u64::from_le_bytes(*total).wrapping_add_signed(add).to_le_bytes();
        Ok(())
    }
}

/// `N` bytes of an image.
fn counter<const N: usize>(image: &mut [u8; PAGE], offset: usize) -> Result<&mut [u8; N], Error> {
    let bytes = image.get_mut(offset..).and_then(<[u8]>::first_chunk_mut);
    bytes.ok_or_else(|| Error::Logic(format!("a counter at {offset} of a metablock")))
}

/// A run of one number.
fn one(number: u64) -> Run {
    Run {
        start: number,
        count: 1,
    }
}

impl Flash {
    /// The generation of a node that is alive, from the arena or the map; its content is not read. A metablock of
    /// inodes is alive from its first change on, which the log does not tell if it died in the same group (S-8.9).
    pub(crate) fn live_generation(&self, frames: &Frames, id: MetaId) -> Result<Option<u32>, Error> {
        let born = id.space() == Some(Space::Inodes) && self.fetch(frames, id)?.is_some();
        if born || frames.cache.pin(id).is_some() {
            return Ok(Some(self.header(frames, id)?.generation.get()));
        }
        let entry = self.live(id, self.locate(frames, id)?)?;
        Ok(entry.map(|e| e.generation.get()))
    }
}
