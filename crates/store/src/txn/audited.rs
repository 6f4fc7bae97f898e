//! A transaction as the auditor sees it (SPEC section 17): the changes from its undo records, which the door wrote, and
//! what was told besides.

use super::Txn;
use crate::arena::FrameNo;
use crate::error::{Error, Stop};
use crate::undo::Undo;
use core::cell::Cell;
use keepfs_audit::digest::{Block, Change, Equations, Fate, Nature, Transaction};
use keepfs_format::Space;
use keepfs_format::plog::Record;
use std::sync::Arc;

/// Touched metablocks from which a sorted list of their frames is worth making.
const MANY: usize = 12;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// What the auditor is shown.
struct Seen<'t, 's> {
    txn: &'t Txn<'s>,
    changes: Vec<Change<'t>>,
}

impl Txn<'_> {
    /// The audit equations must balance before a transaction may commit. Errors: [`Error::Unbalanced`] (S-17.1).
    pub(super) fn audit(&self) -> Result<(), Stop> {
        let among = match self.logged {
            true => Equations::ALL,
            false => Equations::OF_CHECKPOINTS,
        };
        let Some(auditor) = self.store.audits.auditor() else {
            return Ok(());
        };
        let mut bytes = SPARE.take();
        let found = auditor.judge(&self.seen(&mut bytes), among);
        SPARE.set(bytes);
        if found.is_empty() {
            return Ok(());
        }
        let found = Arc::new(found);
        self.store.audits.found(&found);
        Err(Error::Unbalanced(found.into()).into())
    }

    fn seen<'t>(&'t self, bytes: &'t mut Vec<u8>) -> Seen<'t, 't> {
        let mut frames: Vec<(FrameNo, usize)> = Vec::new();
        if self.touched.len() > MANY {
            frames.extend(self.touched.iter().enumerate().map(|(i, t)| (t.pin.frame, i)));
            frames.sort_unstable();
        }
        let block_of = |frame: FrameNo| match frames.is_empty() {
            true => self.touched.iter().position(|t| t.pin.frame == frame),
            false => frames
                .binary_search_by_key(&frame, |(f, _)| *f)
                .ok()
                .map(|i| frames[i].1),
        };
        let change = |told: crate::undo::Told<'t>| {
            Some(Change {
                block: block_of(told.frame)?,
                offset: told.offset,
                nature: match told.undo {
                    Undo::Bytes => Nature::Bytes,
                    Undo::Bits => Nature::Bits,
                    Undo::Add64 | Undo::Add16 => Nature::Counter,
                },
                old: told.old,
                new: told.new,
            })
        };
        let changes = self.undo.forwards(bytes).filter_map(change).collect();
        Seen { txn: self, changes }
    }
}

impl Transaction for Seen<'_, '_> {
    fn count(&self) -> usize {
        self.txn.touched.len()
    }

    fn block(&self, index: usize) -> Block {
        let r = self.txn.touched[index].r;
        let is_node = r.id.space() == Some(Space::Nodes);
        let born = is_node && self.txn.births.contains(&r.id);
        let dies = is_node && self.txn.deaths.iter().any(|(id, _)| *id == r.id);
        Block {
            id: r.id,
            kind: r.kind,
            owner: r.owner,
            fate: match (born, dies) {
                (false, false) => Fate::Stays,
                (true, false) => Fate::Born,
                (false, true) => Fate::Dies,
                (true, true) => Fate::Passes,
            },
        }
    }

    fn changes(&self) -> &[Change<'_>] {
        &self.changes
    }

    fn load(&self, block: usize, offset: usize, buf: &mut [u8]) {
        let frame = self.txn.touched[block].pin.frame;
        self.txn.store.arena.load(frame, offset, buf);
    }

    fn ranges(&self, block: usize) -> &[(u16, u16)] {
        &self.txn.touched[block].ranges
    }

    fn records(&self) -> &[Record] {
        &self.txn.records
    }

    fn operations(&self) -> Option<&[u8]> {
        self.txn.draft.as_ref().map(crate::oplog::Draft::operations)
    }

    fn pages_used(&self) -> u64 {
        self.txn.pages_used
    }
}
