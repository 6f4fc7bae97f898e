//! What a killed server left in its staging segment, for the one that comes after it (S-14.8, S-14.9).
//!
//! The keeper holds the descriptor; the undo slots tell which transactions are committed; the log on the device tells
//! which of them it has. What the server owes the device is the redo that the log does not have: with it the log is
//! what a sync would have made of it, and staged pages follow from the log (S-8.8). So nothing else is used; the staged pages
//! in the segment are compared with those, as evidence.

use crate::error::Error;
use crate::log;
use crate::recovery::freed::Freed;
use crate::redo::{self, ENTRIES_MAX, Rebuilt, Redo, RedoDamage, TxnRedo, Work, compact};
use crate::segment::Segment;
use crate::staged::{self, Table};
use keepfs_codes::Protection;
use keepfs_format::PAGE;
use keepfs_memory::Guard;
use keepfs_pool::BadData;
use keepfs_vault::undo::UndoLog;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The redo of a killed server.
pub struct Adopted {
    segment: Arc<Segment>,
    redo: Redo,
    /// The last transaction that somebody may have heard of.
    heard: u64,
    /// Least number of transactions that are lost, unless it is shown that none is.
    least: u64,
    /// [`UndoLog::last_numbered`].
    numbered: Option<u64>,
}

impl Adopted {
    /// Reads a segment; nothing in it is changed by that. The undo slots, not yet retired, tell what is committed; without them the
    /// last transaction may be taken as not committed, if nobody has heard of it. Errors: `Memory`; `Damaged` if it is no
    /// segment.
    pub fn new(descriptor: OwnedFd, guard: Guard, undo: Option<&UndoLog>) -> Result<Adopted, Error> {
        let segment = Arc::new(Segment::adopt(descriptor, guard, false)?);
        let committed = |slot, generation| undo.and_then(|undo| undo.committed(slot, generation));
        let Rebuilt {
            redo,
            damage,
            mut heard,
            is_known,
        } = redo::rebuild(segment.clone(), committed);
        if damage.is_some() && (!is_known || segment.is_former()) {
            let most = redo.last.saturating_add(ENTRIES_MAX);
            heard = heard.max(undo.map_or(0, |undo| undo.last_told(most)));
        }
        Ok(Adopted {
            segment,
            redo,
            heard,
            least: u64::from(!is_known),
            numbered: undo.and_then(UndoLog::last_numbered),
        })
    }

    /// Which life of the pool it is of.
    pub fn incarnation(&self) -> u64 {
        self.segment.incarnation()
    }

    /// Number of the last committed transaction whose redo is whole, and that of all before it.
    pub fn last_seq(&self) -> u64 {
        self.redo.last
    }

    /// Whether the transactions here do not follow `logged`: others were given up, because a log had them that has them no
    /// more.
    pub fn lacks(&self, logged: u64) -> bool {
        self.redo.beyond(logged).is_none()
    }

    /// Committed transactions, up to the last, that are neither here whole nor in a log that has `logged`.
    pub fn lost(&self, logged: u64) -> u64 {
        let known = match self.lacks(logged) {
            true => logged,
            false => self.redo.last.max(logged),
        };
        let lost = self.heard.max(self.redo.last).saturating_sub(known);
        match lost < self.least && !shows_none_beyond(&self.segment, self.numbered, known) {
            true => self.least,
            false => lost,
        }
    }

    /// What of page 0 was changed by something else, and whether its other place is right.
    pub fn changed(&self) -> Vec<(&'static str, bool)> {
        self.segment.changed()
    }

    /// The first group that this server had refused of the log behind the superblock of `generation` (S-9.9).
    pub fn refused(&self, generation: u64) -> Option<u64> {
        self.segment.refused(generation)
    }

    /// Writing to the pool had ended because the device failed.
    pub fn device_failed(&self) -> bool {
        self.segment.device_failed()
    }

    /// It ends here: no later life writes either (S-14.8).
    pub fn note_device_failed(&self) {
        self.segment.note_device_failed();
    }

    /// The code of the frames that this server left, if it told (S-2.9).
    pub fn code(&self) -> Option<Protection> {
        self.segment.code()
    }

    /// Where something is lost: gives up the last entries beyond `logged` until those left are a state that was. `there` tells of
    /// how many, counted from the first, it has each data page (S-16.19, S-16.22). Whoever adopts this memory again comes to the same.
    pub fn keep_there(&mut self, logged: u64, there: impl FnOnce(&[TxnRedo]) -> usize) -> Result<(), Error> {
        let Some(beyond) = self.redo.beyond(logged) else {
            return Ok(());
        };
        let transactions = beyond.read(&self.segment).map_err(damaged)?;
        let taken = there(&transactions);
        self.heard = self.heard.max(self.redo.last);
        self.redo.leave_out(transactions.len() - taken);
        Ok(())
    }

    /// The records of the next group, encoded (S-8.4), when the log has everything up to transaction `logged`.
    pub fn next_group(&mut self, logged: u64) -> Result<Vec<u8>, Error> {
        self.redo.taken_up_to(logged);
        let pending = self.redo.take();
        let mut buffer = Vec::new();
        let (records, count) = pending.records(&self.segment, &mut buffer).map_err(damaged)?;
        let seq = pending.last();
        let group = compact(seq, records, count, Vec::new(), &mut Work::default()).ok_or(Error::Redo { seq })?;
        Ok(group.payload)
    }

    /// The staged pages as the server had them, half-done changes finished; `read` gives a device page that has a CRC-32C.
    /// Errors: a slot is not right.
    pub fn staged(&self, read: impl FnMut(u64, u32, &mut [u8; PAGE]) -> Result<(), BadData>) -> Result<Table, Error> {
        let transactions = self.redo.kept().read(&self.segment).map_err(damaged)?;
        staged::rebuild(self.segment.clone(), &transactions, read)
    }

    /// The same as records, encoded (S-16.36). Errors: one is not right.
    pub fn staged_whole(
        &self,
        read: impl FnMut(u64, u32, &mut [u8; PAGE]) -> Result<(), BadData>,
    ) -> Result<Vec<u8>, Error> {
        Ok(log::encode(self.staged(read)?.whole()?))
    }

    /// Shows `freed` what transactions beyond `logged` have freed and taken again (S-14.9).
    pub fn show_freed(&self, logged: u64, freed: &mut Freed) -> Result<(), Error> {
        let kept = self.redo.kept().read(&self.segment).map_err(damaged)?;
        for TxnRedo { seq, records } in kept.into_iter().filter(|txn| txn.seq > logged) {
            records.iter().for_each(|record| freed.see(seq, record));
        }
        Ok(())
    }
}

/// Whether neither the undo slots, of which the greatest number is `numbered`, nor an entry anywhere in the ring tells of a transaction
/// behind `known`: then there was none that anybody may have heard of, whatever became of the words (S-14.17).
pub fn shows_none_beyond(segment: &Segment, numbered: Option<u64>, known: u64) -> bool {
    !segment.is_former() && numbered.is_some_and(|numbered| numbered <= known) && !redo::has_beyond(segment, known)
}

fn damaged(RedoDamage { seq }: RedoDamage) -> Error {
    Error::Redo { seq }
}
