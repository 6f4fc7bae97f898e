//! Applying the records of the log to the checkpoint (S-8.5), before anybody else is there.
//!
//! No record is believed: each names what exists and fits, or the pool is not opened (promise C-8).

use crate::cache::Pin;
use crate::error::Error;
use crate::staged::Under;
use crate::{Store, pool, update};
use keepfs_format::bitmap::{self, BITS, TOTAL_INODES, TOTAL_NODES, TOTAL_PAGES, TOTAL_SHARES, TOTALS};
use keepfs_format::blockmap::FILE_SIZE_MAX;
use keepfs_format::map::LIVE;
use keepfs_format::metablock::HEADER;
use keepfs_format::plog::{Record, Run};
use keepfs_format::{Header, Kind, MetaId, PAGE, Space};

impl Store {
    /// Applies one record of a group that is taken (S-8.5).
    pub(super) fn replay(&self, record: &Record) -> Result<(), Error> {
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
                self.staged_table.lock().apply(record, &mut Under::Later)?;
            }
            Record::Ref { run, delta } => self.replay_ref(*run, *delta)?,
            Record::MapEntry { ino, index, .. } | Record::Tail { ino, index, .. } | Record::Zero { ino, index, .. }
                if *index > FILE_SIZE_MAX / PAGE as u64 =>
            {
                return Err(Error::Damaged(format!(
                    "it names page {index} of inode {ino}, beyond any file"
                )));
            }
            // Errors: more staged pages than the pool that wrote the log had slots for (S-9.6).
            Record::Tail { .. }
            | Record::Zero { .. }
            | Record::MapEntry { .. }
            | Record::Truncate { .. }
            | Record::Create { .. } => self.staged_table.lock().apply(record, &mut Under::Later)?,
            Record::Link { .. } | Record::Unlink { .. } => {}
        }
        Ok(())
    }

    /// Stores bytes of a replayed record and marks the frame dirty.
    fn replay_store(&self, pin: &Pin<'_>, id: MetaId, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.before_first_write(id, pin, false).map_err(pool::stopped)?;
        update::replay(&self.arena, pin.frame, offset, bytes);
        Ok(())
    }

    fn replay_update(&self, id: MetaId, generation: u32, ranges: &[(u16, Vec<u8>)]) -> Result<(), Error> {
        if !matches!(id.space(), Some(Space::Nodes | Space::Inodes)) {
            return Err(Error::Damaged(format!("it changes {id}, which is not logged")));
        }
        let Some(pin) = self.fetch_known(id)? else {
            return Err(Error::Damaged(format!("it changes {id}, which does not exist")));
        };
        let live = self.header(id)?.generation.get();
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
        for (offset, bytes) in ranges {
            if usize::from(*offset) < HEADER || usize::from(*offset) + bytes.len() > PAGE {
                return Err(Error::Damaged(format!("it changes the header of {id}")));
            }
            self.replay_store(&pin, id, usize::from(*offset), bytes)?;
        }
        Ok(())
    }

    fn replay_birth(&self, id: MetaId, generation: u32, kind: u8, level: u8, owner: u64) -> Result<(), Error> {
        let wrong = || Error::Damaged(format!("it bears {id} of the impossible kind {kind} for inode {owner}"));
        let kind = Kind::of(kind)
            .filter(|kind| kind.is_owned() && owner != 0 && id.space() == Some(Space::Nodes))
            .ok_or_else(wrong)?;
        self.replay_bits(Space::NodeNumbers, one(id.index()), true)?;
        let header = Header::new(self.pool.tag, id, kind, level, owner, generation);
        // A stale frame of an earlier life may be here: its death is in this log.
        if let Some(pin) = self.cache.pin(id) {
            self.cache.remove(id, pin);
        }
        let pin = self.place_new(id, &header).map_err(pool::stopped)?;
        self.before_first_write(id, &pin, false).map_err(pool::stopped)
    }

    fn replay_death(&self, id: MetaId, generation: u32) -> Result<(), Error> {
        if !matches!(id.space(), Some(Space::Nodes | Space::Inodes)) {
            return Err(Error::Damaged(format!("it ends {id}, which never ends")));
        }
        let live = self.live_generation(id)?;
        if live != Some(generation) {
            return Err(Error::Damaged(format!(
                "it ends {id} of generation {generation}, which is not alive"
            )));
        }
        if id.space() == Some(Space::Nodes) {
            self.replay_bits(Space::NodeNumbers, one(id.index()), false)?;
        }
        if let Some(pin) = self.cache.pin(id) {
            self.cache.remove(id, pin);
        }
        self.deaths.insert(id, generation);
        self.map_changes(id);
        Ok(())
    }

    /// The generation of a node that is alive, from the arena or the map; its content is not read. A metablock of
    /// inodes is alive from its first change on, which the log does not tell if it died in the same group (S-8.9).
    fn live_generation(&self, id: MetaId) -> Result<Option<u32>, Error> {
        let born = id.space() == Some(Space::Inodes) && self.fetch_known(id)?.is_some();
        if born || self.cache.pin(id).is_some() {
            return Ok(Some(self.header(id)?.generation.get()));
        }
        let entry = self.locate(id)?.filter(|e| e.state == LIVE && !self.is_dead(id, e));
        Ok(entry.map(|e| e.generation.get()))
    }

    fn replay_bits(&self, space: Space, run: Run, on: bool) -> Result<(), Error> {
        let limit = if space == Space::Pages {
            self.pool.pages
        } else {
            self.number_limit(space)
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
    fn replay_bits_in_one(&self, space: Space, at: u64, end: u64, on: bool) -> Result<(), Error> {
        let (id, first, _) = bitmap::bit(space, at);
        let (_, last, _) = bitmap::bit(space, end - 1);
        let pin = self.fetch(id)?;
        let mut buf = [0; PAGE];
        let bytes = &mut buf[..last - first + 1];
        self.arena.load(pin.frame, first, bytes);
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
        self.replay_store(&pin, id, first, bytes)
    }

    fn replay_ref(&self, run: Run, delta: i32) -> Result<(), Error> {
        if run.start + u64::from(run.count) > self.pool.pages {
            return Err(Error::Damaged(format!(
                "it shares page {}, which does not exist",
                run.start
            )));
        }
        for page in run.start..run.start + u64::from(run.count) {
            let (id, offset) = bitmap::share(page);
            let pin = self.fetch(id)?;
            let mut count = [0; 2];
            self.arena.load(pin.frame, offset, &mut count);
            let now = i32::from(u16::from_le_bytes(count))
                .checked_add(delta)
                .and_then(|n| u16::try_from(n).ok());
            let now =
                now.ok_or_else(|| Error::Damaged(format!("it shares page {page} an impossible number of times")))?;
            self.replay_store(&pin, id, offset, &now.to_le_bytes())?;
        }
        self.replay_total(TOTAL_SHARES, i64::from(run.count) * i64::from(delta))
    }

    fn replay_total(&self, offset: usize, add: i64) -> Result<(), Error> {
        let pin = self.fetch(TOTALS)?;
        let mut bytes = [0; 8];
        self.arena.load(pin.frame, offset, &mut bytes);
        let now = u64::from_le_bytes(bytes).wrapping_add_signed(add);
        self.replay_store(&pin, TOTALS, offset, &now.to_le_bytes())
    }
}

/// A run of one number.
fn one(number: u64) -> Run {
    Run {
        start: number,
        count: 1,
    }
}
