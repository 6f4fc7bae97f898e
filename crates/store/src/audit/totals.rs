//! The totals of the pool against what all transactions between two checkpoints told (S-17.6).

use crate::locks::Mutex;
use keepfs_format::plog::Record;
use keepfs_format::{MetaId, Space};
use keepfs_frames::Totals;
use keepfs_vault::{Padded, STRIPES, stripe};

/// What TOTALS were, and what was told since.
#[derive(Default)]
pub(crate) struct Ledger {
    /// `None`: not known yet.
    known: Mutex<Option<Totals>>,
    /// What the threads of a stripe told since, as differences that wrap (decision 0667).
    told: [Padded<Mutex<Totals>>; STRIPES],
}

fn add(total: &mut u64, count: u64, more: bool) {
    *total = match more {
        true => total.wrapping_add(count),
        false => total.wrapping_sub(count),
    };
}

fn sum(one: Totals, other: &Totals) -> Totals {
    Totals {
        pages: one.pages.wrapping_add(other.pages),
        inodes: one.inodes.wrapping_add(other.inodes),
        nodes: one.nodes.wrapping_add(other.nodes),
        shares: one.shares.wrapping_add(other.shares),
    }
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
        let mut told = self.told[stripe()].lock();
        records.iter().for_each(|record| tell(&mut told, record));
    }

    /// Pages of chunks were given back, which no record tells.
    pub fn left(&self, pages: u64) {
        add(&mut self.told[stripe()].lock().pages, pages, false);
    }

    /// While no transaction is open: TOTALS are `found`. Errors: what they should be. Either way they are known from here.
    pub fn check(&self, found: Totals) -> Result<(), Totals> {
        let told = self.told.iter().map(|told| core::mem::take(&mut *told.lock()));
        let told: Vec<Totals> = told.collect();
        let before = self.known.lock().replace(found);
        match before.map(|before| told.iter().fold(before, sum)) {
            Some(expected) if expected != found => Err(expected),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
