//! A transaction as the auditor sees it (SPEC section 17): the changes from its undo records, which the door wrote, and
//! what was told besides.

use super::Txn;
use crate::error::{Error, Stop};
use keepfs_codes::line;
use keepfs_digest::{Block, Change, Equations, Fate, Nature, Transaction};
use keepfs_format::plog::Record;
use keepfs_format::{Kind, PAGE};
use keepfs_vault::arena::Line;
use keepfs_vault::planted::{self, Logic, Use};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// What the auditor is shown.
struct Seen<'t, 's> {
    txn: &'t Txn<'s>,
    changes: &'t [Change<'t>],
    /// Something that it asked for is not right and cannot be mended: what it says of the rest counts for nothing.
    damage: Cell<Option<Error>>,
}

impl Seen<'_, '_> {
    /// Bytes of a metablock, verified (S-15.19); zeros where they cannot be had.
    fn load_right(&self, block: usize, offset: usize, buf: &mut [u8]) {
        let t = &self.txn.touched[block];
        let _blind = planted::blind(Use::AuditUnverified);
        if let Err(error) = self.txn.store.read(&t.pin, t.binding, offset, buf) {
            buf.fill(0);
            self.damage.set(Some(error));
        }
    }

    /// The line of a metablock that has this byte, into `line`; none as there.
    fn line(&self, block: usize, offset: usize, line: &mut Line) {
        let _blind = planted::blind(Use::AuditUnverified);
        if let Err(Stop::Error(error)) = self.txn.line(block, offset, line) {
            self.damage.set(Some(error));
        }
    }
}

impl Txn<'_> {
    /// The audit equations must balance before a transaction may commit. Errors: [`Error::Unbalanced`] (S-17.1); what the
    /// auditor looks at is damaged and cannot be mended.
    pub(super) fn audit(&self, changes: &[Change<'_>]) -> Result<(), Stop> {
        let among = match self.logged {
            true => Equations::ALL,
            false => Equations::OF_CHECKPOINTS,
        };
        let Some(auditor) = self.store.watch.audits.auditor() else {
            return Ok(());
        };
        let mut fewer = Vec::new();
        let changes = match changes.iter().any(|change| self.is_unseen(change)) {
            true => {
                fewer.extend(changes.iter().filter(|change| !self.is_unseen(change)).copied());
                &fewer[..]
            }
            false => changes,
        };
        let seen = Seen {
            txn: self,
            changes,
            damage: Cell::new(None),
        };
        let found = auditor.judge(&seen, among);
        if let Some(damage) = seen.damage.take() {
            return Err(damage.into());
        }
        if found.is_empty() {
            return Ok(());
        }
        let found = Arc::new(found);
        self.store.watch.audits.found(&found);
        let operations = self.draft.as_ref().map_or(&[][..], crate::oplog::Draft::operations);
        self.store
            .ground
            .events
            .tell_unbalanced(&found.clone().into(), operations);
        Err(Error::Unbalanced(found.into()).into())
    }

    /// Whether a planted bug keeps the change from the auditor.
    fn is_unseen(&self, change: &Change<'_>) -> bool {
        match change.nature {
            Nature::Bits => planted::has(Logic::BitsUnseen),
            Nature::Bytes => match self.touched[change.block].r.kind {
                Kind::Shares | Kind::Totals => planted::has(Logic::CountersUnseen),
                Kind::DirLeaf => planted::has(Logic::LeavesUnseen),
                _ => false,
            },
        }
    }
}

impl Transaction for Seen<'_, '_> {
    #[inline]
    fn count(&self) -> usize {
        self.txn.touched.len()
    }

    #[inline]
    fn block(&self, index: usize) -> Block {
        let t = &self.txn.touched[index];
        Block {
            id: t.r.id,
            kind: t.r.kind,
            owner: t.r.owner,
            fate: match t.r.kind {
                // What it held was told before it dies.
                Kind::Inodes => Fate::Stays,
                _ => t.fate,
            },
        }
    }

    fn dies(&self) -> bool {
        self.txn.touched.iter().any(|t| t.fate == Fate::Dies)
    }

    fn changes(&self) -> &[Change<'_>] {
        self.changes
    }

    fn load(&self, block: usize, offset: usize, buf: &mut [u8]) {
        self.load_right(block, offset, buf);
    }

    #[inline]
    fn bytes(&self, block: usize) -> impl Fn(usize) -> u8 {
        // Most who ask for single bytes ask for several of a line.
        let last = RefCell::new(Line::none());
        move |at| {
            let (at, line) = (at % PAGE, &mut *last.borrow_mut());
            if line.number() != line::at(at) {
                self.line(block, at, line);
            }
            match line.number() == line::at(at) {
                true => line.at(at, 1)[0],
                false => 0,
            }
        }
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
