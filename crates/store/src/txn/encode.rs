//! The redo of a transaction, from its undo records (S-15.16, decision 0541).

use super::{Touched, Txn};
use crate::error::{Error, Stop};
use crate::oplog::Draft;
use keepfs_digest::{Change, Nature};
use keepfs_flash::redo;
use keepfs_format::plog::{self, Record};
use keepfs_pool::events::Done;
use smallvec::SmallVec;

impl<'s> Txn<'s> {
    /// The records with, last, the final bytes of every range of this transaction, as its undo records tell them (S-13.3).
    pub(super) fn encode_redo(&self, changes: &[Change<'_>]) -> Result<redo::Encoded<'s>, Stop> {
        let mut draft = redo::Draft::begin();
        self.records.iter().for_each(|record| draft.push(record));
        if !draft.begins_with(self.records.sum()) {
            return Err(self.tell_stray_records(Done::RolledBack).into());
        }
        // Not from the frames: redo is a witness against them (L-2).
        let changed = self.touched.iter().enumerate().filter(|(_, t)| !t.ranges.is_empty());
        for (block, t) in changed {
            let put = changes.iter().filter(|c| c.block == block && c.nature == Nature::Bytes);
            let put: SmallVec<[&Change<'_>; 8]> = put.collect();
            draft.push_update(t.r.id, t.birth.generation, &t.ranges, |from, bytes| {
                put.iter().for_each(|change| show(change, usize::from(from), bytes));
            });
        }
        self.check_ranges()?;
        Ok(draft.seal(self.store.home.memory())?)
    }

    /// Errors: `Records` if something else changed the operations, or which bytes are logged (S-13.9).
    pub(super) fn check_told(&self) -> Result<(), Error> {
        match &self.draft {
            Some(draft) if !draft.is_right() => Err(self.tell_stray_operations(Done::RolledBack)),
            _ => self.check_ranges(),
        }
    }

    fn check_ranges(&self) -> Result<(), Error> {
        let stray = self
            .touched
            .iter()
            .find(|t| !t.ranges.are_right(t.r.id, t.birth.generation));
        stray.map_or(Ok(()), |t| Err(self.tell_stray_ranges(t)))
    }

    /// Puts staged pages where they will be, as far as that can be done before the commit. Errors: `Records` if something else
    /// changed what was read of the page under one (S-13.17).
    pub(super) fn make_ahead(&mut self) -> Result<(), Error> {
        let mut made = self.coming.make(self.store.home.memory(), &self.records, &self.bases);
        if let Some(key) = self.coming.unread() {
            self.store
                .home
                .about_to_stage(&self.store.frames, Some(key), &self.records)?;
            made = self.coming.make(self.store.home.memory(), &self.records, &self.bases);
        }
        made.map_err(|address| self.tell_stray(address, Done::RolledBack, "the page under one that is staged"))
    }

    #[cold]
    fn tell_stray_ranges(&self, t: &Touched<'_>) -> Error {
        let address = t.ranges.as_ptr().addr();
        self.tell_stray(address, Done::RolledBack, "which bytes a transaction logs")
    }

    /// The operations are not what was added (S-13.16).
    #[cold]
    pub(super) fn tell_stray_operations(&self, done: Done) -> Error {
        let operations = self.draft.as_ref().map_or(&[][..], Draft::operations);
        self.tell_stray(operations.as_ptr().addr(), done, "the operations of a transaction")
    }

    #[cold]
    fn tell_stray(&self, address: usize, done: Done, what: &str) -> Error {
        self.store.ground.events.tell_heap(address, done, what);
        Error::Records
    }

    /// The records are not what was added (S-13.16).
    #[cold]
    pub(super) fn tell_stray_records(&self, done: Done) -> Error {
        self.tell_stray(self.records.as_ptr().addr(), done, "the records of a transaction")
    }

    /// Behind the seal, where nothing can fail any more, records that something else changed are read from their redo.
    pub(super) fn mend_records(&mut self, encoded: Option<&redo::Encoded<'_>>) {
        if !self.logged || self.records.are_right() {
            return;
        }
        let found = encoded.and_then(|encoded| plog::decode(encoded.payload()).ok());
        let mut found = found.unwrap_or_default();
        found.retain(|record| !matches!(record, Record::Update { .. }));
        match self.records.mend(found) {
            true => drop(self.tell_stray_records(Done::Rebuilt)),
            false => {
                let error = self.tell_stray_records(Done::Ended);
                self.store.ground.fail(error);
            }
        }
    }
}

/// Stores what a change has of the bytes from offset `from` on.
fn show(change: &Change<'_>, from: usize, bytes: &mut [u8]) {
    let start = change.offset.max(from);
    let end = (change.offset + change.new.len()).min(from + bytes.len());
    if start < end {
        bytes[start - from..end - from].copy_from_slice(&change.new[start - change.offset..end - change.offset]);
    }
}

#[cfg(test)]
mod tests;
