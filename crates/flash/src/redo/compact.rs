//! Compacting transactions to one group (S-8.7), on the bytes of their records: what is passed on is not taken apart.

use keepfs_format::plog::{self, Raw, RawUpdate};
use keepfs_format::{MetaId, PAGE};
use keepfs_frames::ids::IdMap;
use keepfs_pool::stats::Updates;
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;

/// No update.
const NONE: u32 = u32::MAX;

/// What the transactions of a group stored in one metablock: a chain of updates, in order. `first` is [`NONE`] if the
/// metablock died behind them.
struct Block {
    id: MetaId,
    generation: u32,
    first: u32,
    last: u32,
}

/// An update: where its record begins, and which one follows it in the chain of its metablock.
struct Link {
    at: u32,
    next: u32,
}

/// What compacting has to remember of the records of a group: where they begin. The memory for it is kept from one group to
/// the next (decision 0673).
#[derive(Default)]
pub struct Work {
    places: IdMap<MetaId, u32>,
    /// In order of their first updates.
    blocks: Vec<Block>,
    links: Vec<Link>,
    /// Where the records that are no updates begin.
    others: Vec<u32>,
    image: Image,
}

impl Work {
    fn clear(&mut self) {
        self.places.clear();
        self.blocks.clear();
        self.links.clear();
        self.others.clear();
    }

    /// Gives back what is more than `most` elements of each kind.
    pub fn shrink_to(&mut self, most: usize) {
        self.clear();
        self.places.shrink_to(most);
        self.blocks.shrink_to(most);
        self.links.shrink_to(most);
        self.others.shrink_to(most);
    }

    /// Sorts the records; their number. `None`: they are not as S-8.5 says.
    fn sort(&mut self, records: &[u8]) -> Option<u32> {
        self.clear();
        let (mut at, mut count) = (0, 0);
        for record in plog::raw(records) {
            let record = record.ok()?;
            match record.update() {
                Some(update) => self.add(at, update.id, update.generation),
                None if record.is_update() => return None,
                None => {
                    self.others.push(at);
                    self.end(record.death());
                }
            }
            at += u32::try_from(record.whole.len()).ok()?;
            count += 1;
        }
        Some(count)
    }

    /// An update of `id`. One of another generation makes those before it void.
    fn add(&mut self, at: u32, id: MetaId, generation: u32) {
        let link = self.links.len() as u32;
        self.links.push(Link { at, next: NONE });
        let new = Block {
            id,
            generation,
            first: link,
            last: link,
        };
        match self.places.entry(id) {
            Entry::Vacant(place) => {
                place.insert(self.blocks.len() as u32);
                self.blocks.push(new);
            }
            Entry::Occupied(place) => {
                let block = &mut self.blocks[*place.get() as usize];
                if block.generation == generation {
                    self.links[block.last as usize].next = link;
                    block.last = link;
                } else {
                    *block = new;
                }
            }
        }
    }

    /// The updates of a metablock that died are void.
    fn end(&mut self, died: Option<MetaId>) {
        if let Some(place) = died.and_then(|id| self.places.remove(&id)) {
            self.blocks[place as usize].first = NONE;
        }
    }
}

/// The record that begins there; it was one when the records were sorted.
fn record_at(records: &[u8], at: u32) -> Option<Raw<'_>> {
    plog::raw(records.get(at as usize..)?).next()?.ok()
}

/// The latest bytes of a metablock: which are set, and their values. One serves all metablocks of a group in turn.
struct Image {
    set: [u64; PAGE / 64],
    bytes: Box<[u8; PAGE]>,
    /// Ranges (from, to) that are set: merged, ascending.
    ranges: Vec<(u16, u16)>,
}

impl Default for Image {
    fn default() -> Image {
        Image {
            set: [0; PAGE / 64],
            bytes: Box::new([0; PAGE]),
            ranges: Vec::new(),
        }
    }
}

impl Image {
    /// Nothing is set.
    fn clear(&mut self) {
        self.set.fill(0);
        self.ranges.clear();
    }

    /// What one more transaction stored.
    fn add(&mut self, update: &RawUpdate<'_>) {
        for (offset, bytes) in update.ranges() {
            self.store(offset, bytes);
        }
    }

    /// Makes one list of the ranges of several transactions: merged, ascending (S-8.7).
    fn merge(&mut self) {
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
/// `payload` is memory for it, whatever is in it, and so is `work`.
pub fn compact(seq: u64, records: &[u8], count: u32, mut payload: Vec<u8>, work: &mut Work) -> Option<Group> {
    if work.sort(records)? != count {
        return None;
    }
    drop_void_tails(records, &mut work.others)?;
    payload.clear();
    payload.reserve_exact(records.len());
    let mut group = Group {
        seq,
        payload,
        ..Group::default()
    };
    for at in &work.others {
        group.payload.extend_from_slice(record_at(records, *at)?.whole);
    }
    for block in work.blocks.iter().filter(|block| block.first != NONE) {
        group.touched.push((block.id, block.generation));
        if block.first == block.last {
            // The ranges of one transaction are merged and ascending already.
            let only = record_at(records, work.links[block.first as usize].at)?;
            group.push_whole(&only.update()?, only.whole);
            continue;
        }
        work.image.clear();
        let mut next = block.first;
        while let Some(link) = work.links.get(next as usize) {
            work.image.add(&record_at(records, link.at)?.update()?);
            next = link.next;
        }
        work.image.merge();
        group.push_merged(block.id, block.generation, &work.image);
    }
    Some(group)
}

/// Drops tails of pages that a later map-entry of the same group covers (the map-entry brings the whole page). `others` tells
/// where the records begin. `None`: there is none.
fn drop_void_tails(records: &[u8], others: &mut Vec<u32>) -> Option<()> {
    let raws: Vec<Raw<'_>> = match others.iter().any(|at| is_map_entry(records, *at)) {
        true => others.iter().map(|at| record_at(records, *at)).collect::<Option<_>>()?,
        false => return Some(()),
    };
    // A hole may cover 2^31 pages (C-8): only the pages that have tails are looked at.
    let mut open: BTreeSet<(u64, u64)> = raws.iter().filter_map(Raw::staged).collect();
    if open.is_empty() {
        return Some(());
    }
    let mut keep = vec![true; raws.len()];
    for (at, record) in raws.iter().enumerate().rev() {
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
    let mut keep = keep.into_iter();
    others.retain(|_| keep.next() == Some(true));
    Some(())
}

fn is_map_entry(records: &[u8], at: u32) -> bool {
    record_at(records, at).is_some_and(|record| record.map_entry().is_some())
}

#[cfg(test)]
mod tests;
