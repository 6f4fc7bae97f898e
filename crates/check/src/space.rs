//! Space: chunks and HOMES, bitmaps, reference counts and totals against what the walk has reached.

use crate::bitmap::{BYTES, Bits, Set, count, minus, ones};
use crate::finding::Finding;
use crate::superblock::mmp_page;
use crate::walk::Walk;
use keepfs_format::bitmap::{
    self, BITS, COUNTS, STRIPE, STRIPES, TOTAL_INODES, TOTAL_NODES, TOTAL_PAGES, TOTAL_SHARES,
};
use keepfs_format::map::{CHUNKS, Chunk, chunk_offset};
use keepfs_format::metablock::HEADER;
use keepfs_format::superblock::{SLOTS, Superblock};
use keepfs_format::{FromBytes, MetaId, PAGE, Space};
use std::collections::{BTreeMap, BTreeSet};

/// Pages that have their place by the superblock: slots, log region (S-2.4), history (S-2.7), and the block of multi-mount protection
/// (S-2.12).
pub(crate) fn fixed_pages(sb: &Superblock) -> Set {
    let mut fixed = Set::default();
    for slot in 0..SLOTS {
        fixed.add(sb.slot_page(slot));
    }
    fixed.add_run(sb.log_start.get(), sb.log_pages.get());
    fixed.add_run(sb.history_start.get(), sb.history_pages.get().into());
    if let Some(page) = mmp_page(sb) {
        fixed.add(page);
    }
    fixed
}

/// These and chunks (S-4.5): the pages that no file may have. Checks HOMES on the way.
pub(crate) fn system_pages(walk: &mut Walk<'_>) {
    walk.system = fixed_pages(&walk.pool.sb);
    walk.pool.homes.sort_unstable();
    let mut chunks = Set::default();
    let mut bad = walk.pool.holes.any(Space::Homes);
    for index in walk.pool.live(Space::Homes) {
        let id = MetaId::new(Space::Homes, index);
        let Some(bytes) = walk.load(id, &mut bad) else {
            continue;
        };
        for slot in 0..CHUNKS {
            if let Ok((chunk, _)) = Chunk::read_from_prefix(&bytes[chunk_offset(slot)..]) {
                add_chunk(walk, &mut chunks, id, slot, &chunk);
            }
        }
        let end = chunk_offset(CHUNKS - 1) + size_of::<Chunk>();
        if let Some(past) = bytes[end..].iter().position(|b| *b != 0) {
            walk.finding(Finding::Reserved {
                id: id.into(),
                offset: end + past,
            });
        }
    }
    walk.blind.users |= bad;
    let homes = core::mem::take(&mut walk.pool.homes);
    for (page, id) in &homes {
        if !bad && !chunks.has(*page) {
            walk.finding(Finding::HomeOutside {
                id: (*id).into(),
                page: *page,
            });
        }
    }
    walk.pool.homes = homes;
}

fn add_chunk(walk: &mut Walk<'_>, chunks: &mut Set, id: MetaId, slot: usize, chunk: &Chunk) {
    let (start, length) = (chunk.start(), u64::from(chunk.pages()));
    let beyond = ones(&chunk.used).any(|n| n >= length || start == 0);
    let inside = start.checked_add(length).is_some_and(|end| end <= walk.pool.pages());
    let own = start == 0 || !inside || (start..start + length).all(|page| !walk.system.has(page));
    let rules = [
        (!beyond, "bit beyond its pages"),
        (
            chunk.start_and_len.get() >> 56 == 0 && (start != 0 || chunk.start_and_len.get() == 0),
            "length",
        ),
        (start == 0 || inside, "place outside the pool"),
        (own, "page that another chunk, a superblock or the log has"),
    ];
    if let Some((_, field)) = rules.iter().find(|(holds, _)| !holds) {
        walk.finding(Finding::Chunk {
            id: id.into(),
            slot,
            start,
            field,
        });
        walk.blind.users = true;
    }
    if start == 0 || !inside {
        return;
    }
    walk.system.add_run(start, length);
    chunks.add_run(start, length);
    if own && !beyond {
        compare_homes(walk, start, length, chunk);
    }
}

/// S-4.5: the used pages of a chunk are those that the map names.
fn compare_homes(walk: &mut Walk<'_>, start: u64, length: u64, chunk: &Chunk) {
    for page in start..start + length {
        let set = crate::bitmap::test(&chunk.used, page - start);
        let used = walk.pool.home_pages.has(page);
        if set && !used && walk.pool.holes.is_empty() {
            walk.finding(Finding::HomeSet { page });
        }
        if used && !set {
            let at = walk.pool.homes.binary_search_by_key(&page, |(page, _)| *page);
            if let Ok((_, id)) = at.map(|at| walk.pool.homes[at]) {
                walk.finding(Finding::HomeClear { id: id.into(), page });
            }
        }
    }
}

/// Reads the hidden list, which says how files are to be judged.
pub(crate) fn load_orphans(walk: &mut Walk<'_>) {
    let mut bad = walk.pool.holes.any(Space::Orphans);
    for index in walk.pool.live(Space::Orphans) {
        if let Some(bytes) = walk.load(MetaId::new(Space::Orphans, index), &mut bad) {
            let mut bits = Box::new([0; BYTES]);
            bits.copy_from_slice(&bytes[HEADER..]);
            walk.orphans.blocks.insert(index, bits);
        }
    }
    walk.blind.orphans = bad;
}

/// Compares bitmaps, reference counts and totals with what was reached.
pub(crate) fn check(walk: &mut Walk<'_>) {
    let mut pages = core::mem::take(&mut walk.system);
    for (index, bits) in &walk.data.blocks {
        let all = pages.blocks.entry(*index).or_insert_with(|| Box::new([0; BYTES]));
        all.iter_mut().zip(bits.iter()).for_each(|(a, b)| *a |= b);
    }
    let mut numbers = Set::default();
    for ino in walk.inodes.keys() {
        numbers.add(*ino);
    }
    let mut nodes = Set::default();
    for index in walk.pool.live(Space::Nodes) {
        nodes.add(index);
        if !walk.nodes.has(index) && !walk.blind.users {
            walk.finding(Finding::NodeUnreached {
                id: MetaId::new(Space::Nodes, index).into(),
            });
        }
    }
    let page_total = compare(walk, Space::Pages, &pages, page_bits);
    let inode_total = compare(walk, Space::InodeNumbers, &numbers, inode_bits);
    let node_total = compare(walk, Space::NodeNumbers, &nodes, node_bits);
    let share_total = shares(walk);
    totals(walk, [page_total, inode_total, node_total, share_total]);
}

/// Compares each metablock of a bitmap with `found`; how many bits are set, None if not all could be read.
fn compare(walk: &mut Walk<'_>, space: Space, found: &Set, tell: fn(&mut Walk<'_>, Vec<u64>, bool)) -> Option<u64> {
    let mut bad = walk.pool.holes.any(space);
    let mut blocks: BTreeSet<u64> = walk.pool.live(space).into_iter().collect();
    blocks.extend(found.blocks.keys());
    let mut total = 0;
    for index in blocks {
        let before = bad;
        bad = false;
        let bytes = walk.load(MetaId::new(space, index), &mut bad);
        if !bad {
            let stored: &[u8] = bytes.as_ref().map_or(&[0; BYTES], |bytes| &bytes[HEADER..]);
            total += count(stored);
            differ(walk, index, stored, found.bits(index), tell);
        }
        bad |= before;
    }
    (!bad).then_some(total)
}

fn differ(walk: &mut Walk<'_>, index: u64, stored: &[u8], found: &Bits, tell: fn(&mut Walk<'_>, Vec<u64>, bool)) {
    if stored == found {
        return;
    }
    let numbers = |bits: Vec<u8>| ones(&bits).map(|n| index * BITS + n).collect::<Vec<_>>();
    tell(walk, numbers(minus(found, stored)), false);
    tell(walk, numbers(minus(stored, found)), true);
}

fn page_bits(walk: &mut Walk<'_>, pages: Vec<u64>, set: bool) {
    if set && walk.blind.users {
        return;
    }
    for run in pages.chunk_by(|a, b| a + 1 == *b) {
        let (first, count) = (run[0], run.len() as u64);
        walk.finding(match set {
            true => Finding::PageSet { first, count },
            false => Finding::PageClear { first, count },
        });
    }
}

fn inode_bits(walk: &mut Walk<'_>, numbers: Vec<u64>, set: bool) {
    for ino in numbers {
        match set {
            true if walk.is_hidden(ino) => {}
            true => walk.finding(Finding::InodeNumberSet { ino }),
            false => walk.finding(Finding::InodeNumberClear { ino }),
        }
    }
}

fn node_bits(walk: &mut Walk<'_>, numbers: Vec<u64>, set: bool) {
    for index in numbers {
        match set {
            true if walk.pool.holes.has(Space::Nodes, index) => {}
            true => walk.finding(Finding::NodeNumberSet { index }),
            false => walk.finding(Finding::NodeNumberClear { index }),
        }
    }
}

/// S-7.3: every reference beyond the first is counted. The sum of the counts; None if not all could be read.
fn shares(walk: &mut Walk<'_>) -> Option<u64> {
    let mut blocks: BTreeSet<u64> = walk.pool.live(Space::Shares).into_iter().collect();
    blocks.extend(walk.shared.keys().map(|page| page / COUNTS));
    let mut bad = walk.pool.holes.any(Space::Shares);
    let mut total = 0;
    for index in blocks {
        let before = bad;
        bad = false;
        let bytes = walk.load(MetaId::new(Space::Shares, index), &mut bad);
        if !bad {
            total += share_block(walk, index, bytes.as_deref().unwrap_or(&[0; PAGE]));
        }
        bad |= before;
    }
    (!bad).then_some(total)
}

fn share_block(walk: &mut Walk<'_>, index: u64, bytes: &crate::Page) -> u64 {
    let (words, _) = bytes[HEADER..].as_chunks::<8>();
    let mut both: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (word, first) in words
        .iter()
        .zip((index * COUNTS..).step_by(4))
        .filter(|(word, _)| **word != [0; 8])
    {
        let (counts, _) = word.as_chunks::<2>();
        let stored = counts
            .iter()
            .map(|count| u64::from(u16::from_le_bytes(*count)))
            .zip(first..);
        both.extend(stored.map(|(stored, page)| (page, (stored, 0))));
    }
    for (page, found) in walk.shared.range(index * COUNTS..(index + 1) * COUNTS) {
        both.entry(*page).or_default().1 = *found;
    }
    for (page, (stored, found)) in &both {
        let (page, stored, found) = (*page, *stored, *found);
        if stored != found && !(walk.blind.users && stored > found) {
            walk.finding(Finding::Share { page, stored, found });
        }
    }
    both.values().map(|(stored, _)| stored).sum()
}

/// S-7.5: what all stripes together say against the bitmaps and counts as they are stored.
fn totals(walk: &mut Walk<'_>, found: [Option<u64>; 4]) {
    let counters = [
        (TOTAL_PAGES, "pages in use"),
        (TOTAL_INODES, "inodes in use"),
        (TOTAL_NODES, "nodes in use"),
        (TOTAL_SHARES, "extra references"),
    ];
    // S-2.10
    let stripes = if walk.pool.is_striped() { STRIPES } else { 1 };
    let mut bad = walk.pool.holes.any(Space::Totals);
    let mut stored = [0_u64; 4];
    for number in walk.pool.live(Space::Totals) {
        let id = bitmap::totals(number);
        let Some(bytes) = walk.load(id, &mut bad) else {
            continue;
        };
        for stripe in 0..stripes {
            for (sum, (which, _)) in stored.iter_mut().zip(counters) {
                let word = bytes[bitmap::in_stripe(stripe, which)..].first_chunk();
                *sum = sum.wrapping_add(word.copied().map_or(0, u64::from_le_bytes));
            }
        }
        let is_stripe = |at: usize| at / STRIPE < stripes && at % STRIPE >= TOTAL_PAGES;
        if let Some(offset) = (HEADER..PAGE).find(|at| bytes[*at] != 0 && !is_stripe(*at)) {
            walk.finding(Finding::Reserved { id: id.into(), offset });
        }
    }
    if bad {
        return;
    }
    for ((stored, (_, field)), found) in stored.into_iter().zip(counters).zip(found) {
        if let Some(found) = found.filter(|found| *found != stored) {
            walk.finding(Finding::Total { field, stored, found });
        }
    }
}
