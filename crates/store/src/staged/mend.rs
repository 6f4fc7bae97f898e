//! Staged pages that are not what was staged: they are mended, or lost (S-14.11, S-14.12).
//!
//! Invariant: nobody holds redo, log or the table while device or log are read; whether the same page is still staged is asked
//! behind it.

use crate::error::Error;
use crate::events::{self, Done, Seen};
use crate::ladder::{Rungs, Untold, told};
use crate::scrub::Looked;
use crate::{Flash, Store};
use keepfs_flash::staged::{
    Carried, Key, Outcome, Past, Patch, Placed, Table, Told, found_in, is_proved, only_one, staging,
};
use keepfs_format::PAGE;
use keepfs_format::plog::Record;

/// How often a page is mended before it is believed that it does not stay right.
const MENDED_MAX: usize = 4;

impl Flash {
    /// A page that a checkpoint could not carry over is lost (S-14.6).
    pub(crate) fn lose_carried(&self, store: &Store, carried: &Carried) {
        if self.staged.table.lock().lose_carried(carried) {
            let (ino, index) = carried.key;
            store.watch.events.tell_lost_staged(ino, index, None);
        }
    }

    /// A page that is staged does not read: it is mended, or lost (S-14.6). `false`: it is not staged any more. Errors: it is
    /// lost.
    #[cold]
    pub(crate) fn staged_again(
        &self,
        store: &Store,
        ino: u64,
        index: u64,
        page: &mut [u8; PAGE],
    ) -> Result<bool, Error> {
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
            if turn < MENDED_MAX && self.mend_staged(store, key, &place.placed) {
                continue;
            }
            let lost = self.staged.table.lock().lose_placed(key, &place.placed);
            match lost {
                None => continue,
                Some(true) => store.watch.events.tell_lost_staged(ino, index, None),
                Some(false) => store.watch.events.met_lost_again(ino, index),
            }
            return Err(damage.into());
        }
        Ok(false)
    }

    /// Looks at a staged page, if it is one. Errors: it is lost.
    fn look_at_staged(&self, store: &Store, (ino, index): Key) -> Result<(), Error> {
        store.staged(ino, index, &mut [0; PAGE]).map(|_| ())
    }

    /// See [`Store::scrub_staged`].
    pub(crate) fn scrub_staged(&self, store: &Store, ino: u64, index: u64) -> Looked {
        let mut looked = Looked::default();
        let mut page = [0; PAGE];
        let Some(place) = self.staged.table.lock().where_is(ino, index) else {
            return looked;
        };
        looked.pages = 1;
        if !place.read(&self.log.segment, &mut page) && self.staged.table.lock().read(ino, index, &mut page).is_err() {
            looked.bad = 1;
            looked.mended = u64::from(self.look_at_staged(store, (ino, index)).is_ok());
        }
        looked
    }

    /// The staged pages of which a transaction with these records is about to change a part are looked at, while they can be
    /// mended: behind the commit nobody waits. Errors: it does nothing else with one that is lost (S-7.6).
    pub(crate) fn look_before_change(&self, store: &Store, records: &[Record]) -> Result<(), Error> {
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
                        .look_at_staged(store, staging.key)
                        .or_else(|lost| if only_stages { Err(lost) } else { Ok(()) })?,
                }
            }
            if let Record::Truncate { ino, size } = record
                && !size.is_multiple_of(PAGE as u64)
            {
                // What is lost stays lost.
                let _ = self.look_at_staged(store, (*ino, size / PAGE as u64));
            }
        }
        Ok(())
    }

    /// The only page that a transaction with these records stages did not read when they were about to change it. Errors: it is
    /// lost, and they change a part of it.
    #[cold]
    pub(crate) fn look_before_one(&self, store: &Store, key: Key, records: &[Record]) -> Result<(), Error> {
        let is_whole = |(_, patch): (_, Patch<'_>)| patch.len == PAGE;
        let looked = self.look_at_staged(store, key);
        match only_one(records).and_then(staging).is_some_and(is_whole) {
            true => Ok(()),
            false => looked,
        }
    }

    /// Mends what was placed. Whether it may be right now.
    fn mend_staged(&self, store: &Store, key: Key, placed: &Placed) -> bool {
        let asks = store.life.options.rungs.has(Rungs::LOG) && !placed.lost;
        asks && told(|| self.mend_staged_once(store, key, placed)).unwrap_or(false)
    }

    fn mend_staged_once(&self, store: &Store, key: Key, placed: &Placed) -> Result<bool, Untold> {
        let told = self.told_staged(store, key, u64::MAX)?;
        let outcome = self.staged.table.lock().mend(key, placed, &told);
        match outcome {
            Outcome::Moved => Ok(true),
            Outcome::Unproved => Ok(false),
            Outcome::Mended(found) => {
                self.tell_staged_mended(store, key, placed, &told, &found);
                Ok(true)
            }
        }
    }

    /// What device, log and redo tell of a page up to transaction `last`.
    fn told_staged(&self, store: &Store, key: Key, last: u64) -> Result<Told, Untold> {
        let mut past = Past::of(key);
        let logged = self.logged(store, last, |record| past.apply(record))?;
        let redo = self.log.redo.lock();
        let since = redo.beyond(logged).ok_or(Untold::Moved)?.read_whole(&self.log.segment);
        drop(redo);
        let since = since.iter().filter(|txn| txn.seq <= last);
        since.flat_map(|txn| &txn.records).for_each(|record| past.apply(record));
        let read = |page, crc, under: &mut [u8; PAGE]| self.base(store, page, crc, under).is_ok();
        past.told(read).ok_or(Untold::Nothing)
    }

    /// The record of a page that a checkpoint of the moment `last` carries over and that is not what was staged, if its witness
    /// tells it. Where the same page is still staged it is mended, too.
    pub(crate) fn mend_carried(&self, store: &Store, carried: &Carried, last: u64) -> Option<Record> {
        let (key, placed) = (carried.key, &carried.placed);
        if placed.lost || !store.life.options.rungs.has(Rungs::LOG) {
            return None;
        }
        let told = told(|| self.told_staged(store, key, last))?;
        let found = found_in(&self.log.segment, placed.slot);
        if !is_proved(&self.log.segment, placed.slot, carried.crc, &told.page, &found) {
            return None;
        }
        // What is staged now may be younger than the moment, and right.
        let _ = self.staged.table.lock().mend(key, placed, &told);
        self.tell_staged_mended(store, key, placed, &told, &found);
        Some(carried.record_of(&told.page, told.version))
    }

    fn tell_staged_mended(&self, store: &Store, (ino, index): Key, placed: &Placed, told: &Told, found: &[u8; PAGE]) {
        let address = self.log.segment.region().shown_address() + self.log.segment.page_at(placed.slot);
        let (seen, what) = match *found == *told.page {
            true => (Seen::Checksum, "what leads to it was changed in memory"),
            false => (Seen::between(&told.page, found, address), "it was changed in memory"),
        };
        store.watch.events.tell_of(&events::Told {
            place: events::Place::Staged { ino, index },
            seen: &seen,
            done: Done::Rebuilt,
            owner: ino,
            inodes: &[],
            window_ms: None,
            more: format!("{what}; nothing is lost"),
        });
    }
}

#[cfg(test)]
mod tests;
