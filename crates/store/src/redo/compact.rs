//! Compacting transactions to one group (S-8.7).

use super::TxnRedo;
use crate::cache::IdMap;
use keepfs_format::plog::Record;
use keepfs_format::{MetaId, PAGE};
use std::collections::BTreeSet;

/// Ranges of bytes of a metablock: offset and bytes.
type Ranges = Vec<(u16, Vec<u8>)>;

/// What the transactions of a group stored in one metablock, in order.
struct Updates {
    generation: u32,
    parts: Vec<Ranges>,
}

/// The latest bytes of a metablock: which are set, and their values. One serves all metablocks of a group in turn.
struct Image {
    set: [u64; PAGE / 64],
    bytes: [u8; PAGE],
}

impl Image {
    fn new() -> Box<Image> {
        Box::new(Image {
            set: [0; PAGE / 64],
            bytes: [0; PAGE],
        })
    }

    /// The ranges of several transactions as one list: merged, ascending (S-8.7).
    fn merge(&mut self, parts: &[Ranges]) -> Ranges {
        self.set.fill(0);
        for (offset, bytes) in parts.iter().flatten() {
            self.store(usize::from(*offset), bytes);
        }
        self.ranges()
    }

    fn store(&mut self, offset: usize, bytes: &[u8]) {
        self.bytes[offset..offset + bytes.len()].copy_from_slice(bytes);
        let (mut at, end) = (offset, offset + bytes.len());
        while at < end {
            let len = (64 - at % 64).min(end - at);
            self.set[at / 64] |= (u64::MAX >> (64 - len)) << (at % 64);
            at += len;
        }
    }

    /// The first bit from `at` on that is as asked, or the end.
    fn next(&self, at: usize, set: bool) -> usize {
        let mut at = at;
        while at < PAGE {
            let word = if set { self.set[at / 64] } else { !self.set[at / 64] } >> (at % 64);
            if word != 0 {
                return at + word.trailing_zeros() as usize;
            }
            at = (at / 64 + 1) * 64;
        }
        PAGE
    }

    fn ranges(&self) -> Ranges {
        let mut ranges = Vec::new();
        let mut start = self.next(0, true);
        while start < PAGE {
            let end = self.next(start, false);
            ranges.push((start as u16, self.bytes[start..end].to_vec()));
            start = self.next(end, true);
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
}

/// Compacts transactions to one group: each metablock's ranges once; tails dropped that a later record of the same
/// group makes void.
pub fn compact(pending: Vec<TxnRedo>) -> Group {
    let mut group = Group {
        seq: pending.last().map_or(0, |t| t.seq),
        records: Vec::new(),
        touched: Vec::new(),
    };
    let mut updates: IdMap<MetaId, Updates> = IdMap::default();
    let mut order = Vec::new();
    for record in pending.into_iter().flat_map(|t| t.records) {
        match record {
            Record::Update { id, generation, ranges } => {
                let all = updates.entry(id).or_insert_with(|| {
                    order.push(id);
                    Updates {
                        generation,
                        parts: Vec::new(),
                    }
                });
                if all.generation != generation {
                    (all.generation, all.parts) = (generation, Vec::new());
                }
                all.parts.push(ranges);
            }
            Record::Death { id, .. } => {
                updates.remove(&id);
                group.records.push(record);
            }
            _ => group.records.push(record),
        }
    }
    drop_void_tails(&mut group.records);
    let mut image = Image::new();
    for id in order {
        let Some(Updates { generation, mut parts }) = updates.remove(&id) else {
            continue;
        };
        // The ranges of one transaction are merged and ascending already.
        let ranges = match (parts.pop(), parts.is_empty()) {
            (Some(only), true) => only,
            (last, _) => {
                parts.extend(last);
                image.merge(&parts)
            }
        };
        group.touched.push((id, generation));
        group.records.push(Record::Update { id, generation, ranges });
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
