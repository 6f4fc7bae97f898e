//! Compacting transactions to one group (S-8.7), on the bytes of their records: what is passed on is not taken apart.

use crate::cache::IdMap;
use crate::stats::Updates;
use keepfs_format::plog::{self, Raw, RawUpdate};
use keepfs_format::{MetaId, PAGE};
use std::collections::BTreeSet;

/// What the transactions of a group stored in one metablock, in order.
struct Parts<'p> {
    generation: u32,
    /// The first of them as it stands in its transaction: alone, it is passed on as it is.
    first: Raw<'p>,
    parts: Vec<RawUpdate<'p>>,
}

impl<'p> Parts<'p> {
    fn of(first: Raw<'p>, update: RawUpdate<'p>) -> Parts<'p> {
        Parts {
            generation: update.generation,
            first,
            parts: vec![update],
        }
    }
}

/// The latest bytes of a metablock: which are set, and their values. One serves all metablocks of a group in turn.
struct Image {
    set: [u64; PAGE / 64],
    bytes: [u8; PAGE],
    /// Ranges (from, to) that are set: merged, ascending.
    ranges: Vec<(u16, u16)>,
}

impl Image {
    fn new() -> Box<Image> {
        Box::new(Image {
            set: [0; PAGE / 64],
            bytes: [0; PAGE],
            ranges: Vec::new(),
        })
    }

    /// The ranges of several transactions as one list: merged, ascending (S-8.7).
    fn merge(&mut self, parts: &[RawUpdate<'_>]) {
        self.set.fill(0);
        for (offset, bytes) in parts.iter().flat_map(RawUpdate::ranges) {
            self.store(offset, bytes);
        }
        self.ranges.clear();
        let mut start = self.next(0, true);
        while start < PAGE {
            let end = self.next(start, false);
            self.ranges.push((start as u16, end as u16));
            start = self.next(end, true);
        }
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
}

/// A group: its payload, and which metablocks it touches.
#[derive(Default)]
pub struct Group {
    /// Last transaction in it.
    pub seq: u64,
    /// Records as they are logged.
    pub payload: Vec<u8>,
    /// Metablocks with updates, to be verified before the group goes out.
    pub touched: Vec<(MetaId, u32)>,
    /// What the updates take.
    pub updates: Updates,
}

impl Group {
    fn push_whole(&mut self, update: &RawUpdate<'_>, whole: &[u8]) {
        let (ranges, dirty) = update.size();
        self.updates.count(ranges, dirty);
        self.payload.extend_from_slice(whole);
    }

    fn push_merged(&mut self, id: MetaId, generation: u32, image: &Image) {
        let dirty = image.ranges.iter().map(|(from, to)| usize::from(to - from)).sum();
        self.updates.count(image.ranges.len(), dirty);
        plog::encode_update(&mut self.payload, id, generation, &image.ranges, |from, bytes| {
            let from = usize::from(from);
            bytes.copy_from_slice(&image.bytes[from..from + bytes.len()]);
        });
    }
}

/// Compacts `count` records of transactions up to number `seq`, which stand one behind the other, to one group: each
/// metablock's ranges once; tails dropped that a later record of the same group makes void. `None`: they are not as S-8.5
/// says, or not as many.
/// `payload` is memory for it, whatever is in it.
pub fn compact(seq: u64, records: &[u8], count: u32, mut payload: Vec<u8>) -> Option<Group> {
    let mut updates: IdMap<MetaId, Parts<'_>> = IdMap::default();
    let mut order: Vec<MetaId> = Vec::new();
    let mut others: Vec<Raw<'_>> = Vec::new();
    let mut seen = 0;
    for record in plog::raw(records) {
        let record = record.ok()?;
        seen += 1;
        if !record.is_update() {
            if let Some(id) = record.death() {
                updates.remove(&id);
            }
            others.push(record);
            continue;
        }
        let update = record.update()?;
        match updates.get_mut(&update.id) {
            Some(all) if all.generation == update.generation => all.parts.push(update),
            Some(all) => *all = Parts::of(record, update),
            None => {
                order.push(update.id);
                updates.insert(update.id, Parts::of(record, update));
            }
        }
    }
    if seen != count {
        return None;
    }
    drop_void_tails(&mut others);
    payload.clear();
    payload.reserve_exact(records.len());
    let mut group = Group {
        seq,
        payload,
        ..Group::default()
    };
    others
        .iter()
        .for_each(|record| group.payload.extend_from_slice(record.whole));
    let mut image = Image::new();
    for id in order {
        let Some(all) = updates.remove(&id) else { continue };
        group.touched.push((id, all.generation));
        // The ranges of one transaction are merged and ascending already.
        match &all.parts[..] {
            [only] => group.push_whole(only, all.first.whole),
            parts => {
                image.merge(parts);
                group.push_merged(id, all.generation, &image);
            }
        }
    }
    Some(group)
}

/// Drops tails of pages that a later map-entry of the same group covers (the map-entry brings the whole page).
fn drop_void_tails(records: &mut Vec<Raw<'_>>) {
    if !records.iter().any(|r| r.map_entry().is_some()) {
        return;
    }
    // A hole may cover 2^31 pages (C-8): only the pages that have tails are looked at.
    let mut open: BTreeSet<(u64, u64)> = records.iter().filter_map(Raw::staged).collect();
    if open.is_empty() {
        return;
    }
    let mut keep = vec![true; records.len()];
    for (at, record) in records.iter().enumerate().rev() {
        if let Some((ino, index, count)) = record.map_entry() {
            let behind = (ino, index.saturating_add(u64::from(count)));
            let covered: Vec<(u64, u64)> = open.range((ino, index)..behind).copied().collect();
            covered.iter().for_each(|page| {
                open.remove(page);
            });
        } else if let Some(page) = record.staged() {
            keep[at] = open.contains(&page);
        }
    }
    let mut at = 0;
    records.retain(|_| {
        at += 1;
        keep[at - 1]
    });
}
