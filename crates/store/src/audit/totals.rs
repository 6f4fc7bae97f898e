//! The totals of the pool against what all transactions between two checkpoints told (S-17.6).

use crate::Totals;
use keepfs_format::plog::Record;
use keepfs_format::{MetaId, Space};
use parking_lot::Mutex;

/// What TOTALS were, and what was told since. `None`: not known yet.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Option<Totals>>);

fn add(total: &mut u64, count: u64, more: bool) {
    *total = match more {
        true => total.wrapping_add(count),
        false => total.wrapping_sub(count),
    };
}

fn is_node(id: MetaId) -> bool {
    id.space() == Some(Space::Nodes)
}

fn tell(totals: &mut Totals, record: &Record) {
    match record {
        Record::Alloc { space, run } | Record::Free { space, run } => {
            let more = matches!(record, Record::Alloc { .. });
            match space {
                Space::Pages => add(&mut totals.pages, u64::from(run.count), more),
                Space::InodeNumbers => add(&mut totals.inodes, u64::from(run.count), more),
                _ => {}
            }
        }
        Record::Birth { .. } => add(&mut totals.nodes, 1, true),
        Record::Death { id, .. } if is_node(*id) => add(&mut totals.nodes, 1, false),
        Record::Ref { run, delta } => {
            let count = u64::from(run.count) * u64::from(delta.unsigned_abs());
            add(&mut totals.shares, count, *delta > 0);
        }
        _ => {}
    }
}

impl Ledger {
    /// A transaction commits with these records.
    pub fn told(&self, records: &[Record]) {
        if let Some(totals) = &mut *self.0.lock() {
            records.iter().for_each(|record| tell(totals, record));
        }
    }

    /// Pages of chunks were given back, which no record tells.
    pub fn left(&self, pages: u64) {
        if let Some(totals) = &mut *self.0.lock() {
            add(&mut totals.pages, pages, false);
        }
    }

    /// While no transaction is open: TOTALS are `found`. Errors: what they should be. Either way they are known from here.
    pub fn check(&self, found: Totals) -> Result<(), Totals> {
        match self.0.lock().replace(found) {
            Some(expected) if expected != found => Err(expected),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
