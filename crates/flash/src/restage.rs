//! Staged pages that are not what was staged: they are mended, or lost (S-14.11, S-14.12).
//!
//! Invariant: nobody holds redo, log or the table while device or log are read; whether the same page is still staged is asked
//! behind it.

use crate::error::Error;
use crate::home::Flash;
use crate::recovery::there::base;
use crate::segment::Word;
use crate::staged::{
    Bases, Carried, Coming, Key, Outcome, Past, Patch, Placed, Table, Told, Under, found_in, is_proved, only_one,
    staging,
};
use keepfs_format::PAGE;
use keepfs_format::plog::Record;
use keepfs_frames::evidence::{Untold, told};
use keepfs_frames::{Frames, Looked};
use keepfs_pool::BadData;
use keepfs_pool::events::{self, Done, Seen};
use keepfs_pool::options::Rungs;

/// How often a page is mended before it is believed that it does not stay right.
const MENDED_MAX: usize = 4;

impl Flash {
    /// Copies a staged page; `false` if it is not staged. Errors: it is lost.
    pub fn read_staged(&self, frames: &Frames, ino: u64, index: u64, page: &mut [u8; PAGE]) -> Result<bool, Error> {
        let Some(place) = self.staged.table.lock().where_is(ino, index) else {
            return Ok(false);
        };
        if place.read(&self.log.segment, page) {
            return Ok(true);
        }
        self.staged_again(frames, ino, index, page)
    }

    /// A page that a checkpoint could not carry over is lost (S-14.6).
    pub fn lose_carried(&self, frames: &Frames, carried: &Carried) {
        if self.staged.table.lock().lose_carried(carried) {
            let (ino, index) = carried.key;
            frames.ground.events.tell_lost_staged(ino, index, None);
        }
    }

    /// A page that is staged does not read: it is mended, or lost (S-14.6). `false`: it is not staged any more. Errors: it is
    /// lost.
    #[cold]
    pub fn staged_again(&self, frames: &Frames, ino: u64, index: u64, page: &mut [u8; PAGE]) -> Result<bool, Error> {
        let key = (ino, index);
        for turn in 0.. {
            let table = self.staged.table.lock();
            let Some(place) = table.where_is(ino, index) else {
                return Ok(false);
            };
            let Err(damage) = table.read(ino, index, page) else {
                return Ok(true);
            };
            drop(table);
            if turn < MENDED_MAX && self.mend_staged(frames, key, &place.placed) {
                continue;
            }
            let lost = self.staged.table.lock().lose_placed(key, &place.placed);
            match lost {
                None => continue,
                Some(true) => frames.ground.events.tell_lost_staged(ino, index, None),
                Some(false) => frames.ground.events.met_lost_again(ino, index),
            }
            return Err(damage.into());
        }
        Ok(false)
    }

    /// Looks at a staged page, if it is one. Errors: it is lost.
    pub(crate) fn look_at_staged(&self, frames: &Frames, (ino, index): Key) -> Result<(), Error> {
        self.read_staged(frames, ino, index, &mut [0; PAGE]).map(|_| ())
    }

    /// Looks at a staged page for a scrub; nothing if it is not staged.
    pub fn scrub_staged(&self, frames: &Frames, ino: u64, index: u64) -> Looked {
        let mut looked = Looked::default();
        let mut page = [0; PAGE];
        let Some(place) = self.staged.table.lock().where_is(ino, index) else {
            return looked;
        };
        looked.pages = 1;
        if !place.read(&self.log.segment, &mut page) && self.staged.table.lock().read(ino, index, &mut page).is_err() {
            looked.bad = 1;
            looked.mended = u64::from(self.look_at_staged(frames, (ino, index)).is_ok());
        }
        looked
    }

    /// The staged pages of which a transaction with these records is about to change a part are looked at, while they can be
    /// mended: behind the commit nobody waits. Errors: it does nothing else with one that is lost (S-7.6).
    pub fn look_before_change(&self, frames: &Frames, records: &[Record]) -> Result<(), Error> {
        // That is looked at where it is made.
        if only_one(records).is_some() {
            return Ok(());
        }
        let is_stage = |record: &Record| staging(record).is_some();
        let only_stages = records.iter().filter(|record| Table::follows(record)).all(is_stage);
        let mut healed = Vec::new();
        for record in records {
            if let Some((staging, patch)) = staging(record) {
                match patch.len {
                    PAGE => healed.push(staging.key),
                    _ if healed.contains(&staging.key) => {}
                    _ => self
                        .look_at_staged(frames, staging.key)
                        .or_else(|lost| if only_stages { Err(lost) } else { Ok(()) })?,
                }
            }
            if let Record::Truncate { ino, size } = record
                && !size.is_multiple_of(PAGE as u64)
            {
                // What is lost stays lost.
                let _ = self.look_at_staged(frames, (*ino, size / PAGE as u64));
            }
        }
        Ok(())
    }

    /// The only page that a transaction with these records stages did not read when they were about to change it. Errors: it is
    /// lost, and they change a part of it.
    #[cold]
    pub fn look_before_one(&self, frames: &Frames, key: Key, records: &[Record]) -> Result<(), Error> {
        let is_whole = |(_, patch): (_, Patch<'_>)| patch.len == PAGE;
        let looked = self.look_at_staged(frames, key);
        match only_one(records).and_then(staging).is_some_and(is_whole) {
            true => Ok(()),
            false => looked,
        }
    }

    /// Mends what was placed. Whether it may be right now.
    pub(crate) fn mend_staged(&self, frames: &Frames, key: Key, placed: &Placed) -> bool {
        let asks = frames.ground.options.rungs.has(Rungs::LOG) && !placed.lost;
        asks && told(|| self.mend_staged_once(frames, key, placed)).unwrap_or(false)
    }

    pub(crate) fn mend_staged_once(&self, frames: &Frames, key: Key, placed: &Placed) -> Result<bool, Untold> {
        let told = self.told_staged(frames, key, u64::MAX)?;
        let outcome = self.staged.table.lock().mend(key, placed, &told);
        match outcome {
            Outcome::Moved => Ok(true),
            Outcome::Unproved => Ok(false),
            Outcome::Mended(found) => {
                self.tell_staged_mended(frames, key, placed, &told, &found);
                Ok(true)
            }
        }
    }

    /// What device, log and redo tell of a page up to transaction `last`.
    pub(crate) fn told_staged(&self, frames: &Frames, key: Key, last: u64) -> Result<Told, Untold> {
        let mut past = Past::of(key);
        let logged = self.logged(frames, last, |record| past.apply(record))?;
        let redo = self.log.redo.lock();
        let since = redo.beyond(logged).ok_or(Untold::Moved)?.read_whole(&self.log.segment);
        drop(redo);
        let since = since.iter().filter(|txn| txn.seq <= last);
        since.flat_map(|txn| &txn.records).for_each(|record| past.apply(record));
        let read = |page, crc, under: &mut [u8; PAGE]| self.base(frames, page, crc, under).is_ok();
        past.told(read).ok_or(Untold::Nothing)
    }

    /// The record of a page that a checkpoint of the moment `last` carries over and that is not what was staged, if its witness
    /// tells it. Where the same page is still staged it is mended, too.
    pub fn mend_carried(&self, frames: &Frames, carried: &Carried, last: u64) -> Option<Record> {
        let (key, placed) = (carried.key, &carried.placed);
        if placed.lost || !frames.ground.options.rungs.has(Rungs::LOG) {
            return None;
        }
        let told = told(|| self.told_staged(frames, key, last))?;
        let found = found_in(&self.log.segment, placed.slot);
        if !is_proved(&self.log.segment, placed.slot, carried.crc, &told.page, &found) {
            return None;
        }
        // What is staged now may be younger than the moment, and right.
        let _ = self.staged.table.lock().mend(key, placed, &told);
        self.tell_staged_mended(frames, key, placed, &told, &found);
        Some(carried.record_of(&told.page, told.version))
    }

    pub(crate) fn tell_staged_mended(
        &self,
        frames: &Frames,
        (ino, index): Key,
        placed: &Placed,
        told: &Told,
        found: &[u8; PAGE],
    ) {
        let address = self.log.segment.region().shown_address() + self.log.segment.page_at(placed.slot);
        let (seen, what) = match *found == *told.page {
            true => (Seen::Checksum, "what leads to it was changed in memory"),
            false => (Seen::between(&told.page, found, address), "it was changed in memory"),
        };
        frames.ground.events.tell_of(&events::Told {
            place: events::Place::Staged { ino, index },
            seen: &seen,
            done: Done::Rebuilt,
            owner: ino,
            inodes: &[],
            window_ms: None,
            more: format!("{what}; nothing is lost"),
        });
    }

    /// A page that lies under staged data.
    pub fn base(&self, frames: &Frames, page: u64, crc: u32, buf: &mut [u8; PAGE]) -> Result<(), BadData> {
        base(&*frames.ground.device, page, crc, buf)
    }

    /// The staged table follows a committed transaction. Returns how many pages are promised no more. Under the lock of redo, so in the order of commit (S-14.3).
    pub fn follow_staged(
        &self,
        frames: &Frames,
        seq: u64,
        records: &[Record],
        bases: &mut Bases,
        coming: &mut Coming,
        promised: u64,
    ) -> u64 {
        let mut give_back = promised;
        if records.iter().any(Table::follows) {
            let mut table = self.staged.table.lock();
            let before = table.promised;
            let mut under = Under::Bases(bases);
            if !table.apply_ahead(coming, records)
                && let Err(full) = records.iter().try_for_each(|record| table.apply(record, &mut under))
            {
                // Room was taken before the commit (S-14.7).
                frames.ground.fail(full.into());
            }
            table.give_up(core::mem::take(coming));
            self.log.segment.set_word(Word::Followed, seq);
            // The transaction's promises are the table's now; what the table gave up goes back.
            give_back = (before + promised).saturating_sub(table.promised);
        }
        give_back
    }
}
