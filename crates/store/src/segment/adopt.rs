//! What a killed server left in its staging segment, for the one that comes after it (S-14.8, S-14.9).
//!
//! The keeper holds the descriptor; the undo slots tell which transactions are committed; the log on the device tells
//! which of them it has.

use super::Segment;
use crate::arena::Guard;
use crate::error::Error;
use crate::log;
use crate::redo::{self, Redo, RedoDamage, TxnRedo, compact};
use crate::staged::{self, Table};
use crate::undo::UndoLog;
use keepfs_format::plog::{Record, Run};
use keepfs_format::{PAGE, Space};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Redo and staged pages as they were, half-done changes finished.
pub struct Adopted {
    segment: Arc<Segment>,
    redo: Redo,
    staged: Table,
}

/// What was freed and may not be used again yet, with the transaction that freed it (S-11.1).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Quarantine {
    /// Pages.
    pub pages: Vec<(u64, Run)>,
    /// Numbers of metablocks.
    pub nodes: Vec<(u64, u64)>,
    /// Numbers of inodes.
    pub inodes: Vec<(u64, u64)>,
}

impl Adopted {
    /// Reads a segment. The undo slots, not yet retired, tell what is committed; `read` gives a device page that has a
    /// CRC-32C. Errors: `Memory`; `Damaged` or `Redo` if something in it is not
    /// right: then it must not be used, and the pool is opened as after a power cut.
    pub fn new(
        descriptor: OwnedFd,
        (guard, seal): (Guard, bool),
        undo: &UndoLog,
        read: impl FnMut(u64, u32, &mut [u8; PAGE]) -> Result<(), Error>,
    ) -> Result<Adopted, Error> {
        let segment = Arc::new(Segment::adopt(descriptor, guard, seal)?);
        let redo =
            redo::rebuild(segment.clone(), |slot, generation| undo.committed(slot, generation)).map_err(damaged)?;
        let transactions = redo.kept().read(&segment).map_err(damaged)?;
        let staged = staged::rebuild(segment.clone(), &transactions, read)?;
        Ok(Adopted { segment, redo, staged })
    }

    /// Number of the last committed transaction.
    pub fn last_seq(&self) -> u64 {
        self.redo.last
    }

    /// The records of the next group, encoded (S-8.4), when the log has everything up to transaction `logged`.
    pub fn next_group(&mut self, logged: u64) -> Result<Vec<u8>, Error> {
        self.redo.taken_up_to(logged);
        let transactions = self.redo.take().read(&self.segment).map_err(damaged)?;
        Ok(log::encode(compact(transactions).records))
    }

    /// Copies a staged page; `false` if it is not staged.
    pub fn staged(&self, ino: u64, index: u64, page: &mut [u8; PAGE]) -> Result<bool, Error> {
        Ok(self.staged.read(ino, index, page)?)
    }

    /// Number of staged pages.
    pub fn staged_total(&self) -> usize {
        self.staged.len()
    }

    /// What the transactions kept have freed (S-14.9).
    pub fn quarantine(&self) -> Result<Quarantine, Error> {
        let mut freed = Quarantine::default();
        for TxnRedo { seq, records } in self.redo.kept().read(&self.segment).map_err(damaged)? {
            records.iter().for_each(|record| freed.add(seq, record));
        }
        Ok(freed)
    }
}

impl Quarantine {
    fn add(&mut self, seq: u64, record: &Record) {
        match record {
            Record::Alloc {
                space: Space::Pages,
                run,
            } => {
                self.pages = self
                    .pages
                    .iter()
                    .flat_map(|(seq, old)| left(*seq, *old, *run))
                    .collect()
            }
            Record::Free {
                space: Space::Pages,
                run,
            } => self.pages.push((seq, *run)),
            Record::Free {
                space: Space::InodeNumbers,
                run,
            } => self.inodes.push((seq, run.start)),
            Record::Death { id, .. } => self.nodes.push((seq, id.index())),
            _ => {}
        }
    }
}

/// What is left of a run when `used` is taken out of it.
fn left(seq: u64, run: Run, used: Run) -> impl Iterator<Item = (u64, Run)> {
    let (end, used_end) = (run.start + u64::from(run.count), used.start + u64::from(used.count));
    let parts = [(run.start, end.min(used.start)), (run.start.max(used_end), end)];
    let some = parts.into_iter().filter(|(from, to)| from < to);
    some.map(move |(start, to)| {
        let count = (to - start) as u32;
        (seq, Run { start, count })
    })
}

fn damaged(RedoDamage { seq }: RedoDamage) -> Error {
    Error::Redo { seq }
}
