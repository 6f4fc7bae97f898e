//! Compacting transactions to one group (S-8.7).

use super::TxnRedo;
use crate::cache::IdMap;
use keepfs_format::plog::Record;
use keepfs_format::{MetaId, PAGE};
use std::collections::BTreeSet;

/// The latest bytes of one metablock in a group: which are set, and their values.
struct Image {
    generation: u32,
    set: [u64; PAGE / 64],
    bytes: [u8; PAGE],
}

impl Image {
    fn new(generation: u32) -> Box<Image> {
        Box::new(Image {
            generation,
            set: [0; PAGE / 64],
            bytes: [0; PAGE],
        })
    }

    fn store(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        (offset..offset + bytes.len()).for_each(|i| self.set[i / 64] |= 1 << (i % 64));
    }

    /// The set bytes as ranges: merged, ascending (S-8.7).
    fn ranges(&self) -> Vec<(u16, Vec<u8>)> {
        let is_set = |i: usize| self.set[i / 64] & (1 << (i % 64)) != 0;
        let mut ranges = Vec::new();
        let mut at = 0;
        while at < PAGE {
            if !is_set(at) {
                at += 1;
                continue;
            }
            let start = at;
            while at < PAGE && is_set(at) {
                at += 1;
            }
            ranges.push((start as u16, self.bytes[start..at].to_vec()));
        }
        ranges
    }
}

/// A group: compacted records, and which metablocks it touches.
#[derive(Default)]
pub struct Group {
    /// Last transaction in it.
    pub seq: u64,
    /// Records as they are encoded.
    pub records: Vec<Record>,
    /// Metablocks with updates, to be verified before the group goes out.
    pub touched: Vec<(MetaId, u32)>,
    /// How many transactions.
    pub transactions: usize,
}

/// Compacts transactions to one group: each metablock's ranges once; tails dropped that a later record of the same
/// group makes void.
pub fn compact(pending: Vec<TxnRedo>) -> Group {
    let mut group = Group {
        seq: pending.last().map_or(0, |t| t.seq),
        records: Vec::new(),
        touched: Vec::new(),
        transactions: pending.len(),
    };
    let mut images: IdMap<MetaId, Box<Image>> = IdMap::default();
    let mut order = Vec::new();
    for record in pending.into_iter().flat_map(|t| t.records) {
        match record {
            Record::Update { id, generation, ranges } => {
                let image = images.entry(id).or_insert_with(|| {
                    order.push(id);
                    Image::new(generation)
                });
                if image.generation != generation {
                    *image = Image::new(generation);
                }
                ranges
                    .iter()
                    .for_each(|(offset, bytes)| image.store(usize::from(*offset), bytes));
            }
            Record::Death { id, .. } => {
                images.remove(&id);
                group.records.push(record);
            }
            _ => group.records.push(record),
        }
    }
    drop_void_tails(&mut group.records);
    for id in order {
        if let Some(image) = images.remove(&id) {
            group.touched.push((id, image.generation));
            group.records.push(Record::Update {
                id,
                generation: image.generation,
                ranges: image.ranges(),
            });
        }
    }
    group
}

/// The page that a tail record stages.
fn staged_page(record: &Record) -> Option<(u64, u64)> {
    match record {
        Record::Tail { ino, index, .. } | Record::Zero { ino, index, .. } => Some((*ino, *index)),
        _ => None,
    }
}

/// Drops tails of pages that a later map-entry of the same group covers (the map-entry brings the whole page).
fn drop_void_tails(records: &mut Vec<Record>) {
    if !records.iter().any(|r| matches!(r, Record::MapEntry { .. })) {
        return;
    }
    // A hole may cover 2^31 pages (C-8): only the pages that have tails are looked at.
    let mut open: BTreeSet<(u64, u64)> = records.iter().filter_map(staged_page).collect();
    let mut keep = vec![true; records.len()];
    for (at, record) in records.iter().enumerate().rev() {
        if let Record::MapEntry { ino, index, count, .. } = record {
            let behind = (*ino, index.saturating_add(u64::from(*count)));
            let covered: Vec<(u64, u64)> = open.range((*ino, *index)..behind).copied().collect();
            covered.iter().for_each(|page| {
                open.remove(page);
            });
        } else if let Some(page) = staged_page(record) {
            keep[at] = open.contains(&page);
        }
    }
    let mut at = 0;
    records.retain(|_| {
        at += 1;
        keep[at - 1]
    });
}
