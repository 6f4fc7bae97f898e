//! How much of the redo before damage is a state that was: of which every data page is there (S-16.19, S-16.21).

use crate::redo::TxnRedo;
use keepfs_codes::crc32c;
use keepfs_format::plog::{Record, Run};
use keepfs_format::{PAGE, Space};
use keepfs_media::{Device, PageNo};
use keepfs_pool::BadData;
use std::collections::{BTreeMap, BTreeSet};

/// Pages read at a time.
const BATCH: usize = 64;

/// A data page as records leave it.
#[derive(Default)]
struct Page {
    /// What the last map-entry record says of it.
    crc: Option<u32>,
    /// How often it was named since it was freed last, the references that it got taken off: if 0, it was there before.
    brought: i64,
}

impl Page {
    /// Whether the device has something else there. A page that cannot be read is no sign of that.
    fn is_gone(&self, found: Option<&u32>) -> bool {
        let told = self.crc.filter(|_| self.brought != 0);
        told.zip(found).is_some_and(|(told, found)| told != *found)
    }
}

/// A page that lies under staged data, read once more before it is believed to be bad.
///
/// # Errors
/// How it is bad.
pub fn base(device: &dyn Device, page: u64, crc: u32, buf: &mut [u8; PAGE]) -> Result<(), BadData> {
    let mut bad = BadData::Checksum;
    for _ in 0..2 {
        let read = device.read(PageNo(page), buf);
        if read.is_ok() && crc32c::of(buf) == crc {
            return Ok(());
        }
        bad = if read.is_ok() {
            BadData::Checksum
        } else {
            BadData::Unreadable
        };
    }
    Err(bad)
}

/// Of how many transactions, counted from the first, each page is on the device that they bring, as they name it at their end:
/// the most that there are. Those before them are in the log.
pub fn there(device: &dyn Device, transactions: &[TxnRedo]) -> usize {
    let found = contents(device, &named(transactions));
    let mut pages: BTreeMap<u64, Page> = BTreeMap::new();
    let (mut gone, mut taken) = (BTreeSet::new(), 0);
    for (at, transaction) in transactions.iter().enumerate() {
        let mut touched = BTreeSet::new();
        for record in &transaction.records {
            follow(&mut pages, record, &mut touched);
        }
        for page in touched {
            match pages.get(&page).is_some_and(|known| known.is_gone(found.get(&page))) {
                true => gone.insert(page),
                false => gone.remove(&page),
            };
        }
        if gone.is_empty() {
            taken = at + 1;
        }
    }
    taken
}

/// The pages of a run.
fn each(run: &Run) -> core::ops::Range<u64> {
    run.start..run.start.saturating_add(u64::from(run.count))
}

/// What a record makes of the pages that it is about.
fn follow(pages: &mut BTreeMap<u64, Page>, record: &Record, touched: &mut BTreeSet<u64>) {
    match record {
        Record::MapEntry { page: first, crcs, .. } => {
            for (page, crc) in (*first..).zip(crcs) {
                let known = pages.entry(page).or_default();
                (known.crc, known.brought) = (Some(*crc), known.brought + 1);
                touched.insert(page);
            }
        }
        Record::Ref { run, delta: 1.. } => {
            for page in each(run) {
                pages.entry(page).or_default().brought -= 1;
                touched.insert(page);
            }
        }
        Record::Free {
            space: Space::Pages,
            run,
        } => {
            let freed: Vec<u64> = pages.range(each(run)).map(|(page, _)| *page).collect();
            for page in &freed {
                pages.remove(page);
            }
            touched.extend(freed);
        }
        _ => {}
    }
}

/// Pages that map-entry records name.
fn named(transactions: &[TxnRedo]) -> BTreeSet<u64> {
    let records = transactions.iter().flat_map(|transaction| &transaction.records);
    let of = |record: &Record| match record {
        Record::MapEntry { page, crcs, .. } => *page..page.saturating_add(crcs.len() as u64),
        _ => 0..0,
    };
    records.flat_map(of).collect()
}

/// The CRC-32C of those that can be read.
fn contents(device: &dyn Device, named: &BTreeSet<u64>) -> BTreeMap<u64, u32> {
    let named: Vec<u64> = named.iter().copied().collect();
    let mut buf = vec![0; BATCH.min(named.len()) * PAGE];
    let mut found = BTreeMap::new();
    for run in named.chunk_by(|a, b| a + 1 == *b).flat_map(|run| run.chunks(BATCH)) {
        let bytes = &mut buf[..run.len() * PAGE];
        let whole = device.read(PageNo(run[0]), bytes).is_ok();
        for (page, bytes) in run.iter().zip(bytes.chunks_exact_mut(PAGE)) {
            if whole || device.read(PageNo(*page), bytes).is_ok() {
                found.insert(*page, crc32c::of(bytes));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
