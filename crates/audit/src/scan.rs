//! Metablocks found by their headers, where the map that leads to them is lost (S-21.2).

use crate::bitmap::{Set, ones};
use crate::finding::Finding;
use crate::image::Image;
use crate::map::{entry_at, kind_fits, leaf_entry};
use crate::pool::{Load, Pool, header};
use crate::report::Sink;
use crate::superblock;
use crate::{Page, is_zero};
use keepfs_codes::crc64;
use keepfs_format::blockmap::{self, PageEntry};
use keepfs_format::inode::{self, PER_BLOCK};
use keepfs_format::map::{CHUNKS, Chunk, FANOUT, LIVE, MapEntry, chunk_offset, entry_offset};
use keepfs_format::metablock::MAGIC;
use keepfs_format::superblock::Superblock;
use keepfs_format::{FromBytes, Kind, MetaId, PAGE, Space};
use std::collections::BTreeMap;

/// Pages by the metablock that their header names.
type Found = BTreeMap<u64, Vec<u64>>;

/// Pages that hold metadata.
struct Used {
    /// HOMES of the checkpoint says so, not one that was found.
    is_known: bool,
    pages: Set,
}

/// Fills the holes of the map with what the device holds. What is in none of its pages does not exist from here on. How many
/// metablocks were found so.
pub(crate) fn fill(pool: &mut Pool<'_>) -> u64 {
    if pool.holes.is_empty() {
        return 0;
    }
    let known = known_homes(pool);
    let found = match &known {
        Some(used) => {
            let pages: Vec<u64> = used.iter().filter(|page| !pool.home_pages.has(*page)).collect();
            collect(pool, pages.into_iter())
        }
        None => collect(pool, 1..pool.pages()),
    };
    let used = Used {
        is_known: known.is_some(),
        pages: known.unwrap_or_else(|| likely_homes(pool, &found)),
    };
    let holes = core::mem::take(&mut pool.holes);
    let mut number = 0;
    for (space, first, end) in holes.iter() {
        number += fill_hole(pool, space, first, end, &found, &used);
        pool.rows[space as usize].sort_unstable_by_key(|row| row.index);
        pool.rows[space as usize].dedup_by_key(|row| row.index);
    }
    number
}

/// A superblock made up for a pool that has none left: its size, and the tag that most metablocks have. None if there are none.
pub(crate) fn superblock_of(image: &dyn Image, sink: &mut Sink) -> Option<Box<Superblock>> {
    if let Some(sb) = superblock::choose(image, sink) {
        return Some(sb);
    }
    let mut tags: BTreeMap<u32, u64> = BTreeMap::new();
    let mut bytes = [0; PAGE];
    for page in 1..image.pages() {
        if image.read(page, &mut bytes).is_ok() && header(&bytes).magic.get() == MAGIC {
            *tags.entry(header(&bytes).pool.get()).or_default() += 1;
        }
    }
    let (tag, _) = tags.into_iter().max_by_key(|(_, count)| *count)?;
    let mut sb = Box::new(Superblock::blank());
    sb.pool[..4].copy_from_slice(&tag.to_le_bytes());
    sb.pages = image.pages().into();
    sb.meta_copies = 2.into();
    sb.generation = 1.into();
    Some(sb)
}

/// The pages that HOMES calls used, if all of it can be read.
fn known_homes(pool: &mut Pool<'_>) -> Option<Set> {
    if pool.holes.any(Space::Homes) {
        return None;
    }
    let mut used = Set::default();
    for index in pool.live(Space::Homes) {
        match pool.load(MetaId::new(Space::Homes, index)) {
            Load::Live(bytes) => used_pages(&bytes).for_each(|page| {
                used.add(page);
            }),
            _ => return None,
        }
    }
    Some(used)
}

/// The same from pages found: of each metablock the one whose pages hold metadata most often, and are known homes.
fn likely_homes(pool: &Pool<'_>, found: &Found) -> Set {
    let mut used = Set::default();
    let mut holds = Set::default();
    found.values().flatten().for_each(|page| {
        holds.add(*page);
    });
    let score = |bytes: &Page| {
        let judged = used_pages(bytes).map(|page| match (pool.home_pages.has(page), holds.has(page)) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => -1,
        });
        judged.sum::<i64>()
    };
    let homes = MetaId::new(Space::Homes, 0).0..=MetaId::new(Space::Homes, u64::MAX).0;
    for pages in found.range(homes).map(|(_, pages)| pages) {
        let contents = pages.iter().filter_map(|page| read(pool, *page));
        if let Some(best) = contents.max_by_key(score) {
            used_pages(&best).for_each(|page| {
                used.add(page);
            });
        }
    }
    used
}

fn used_pages(bytes: &Page) -> impl Iterator<Item = u64> {
    let chunk = |slot| Chunk::read_from_prefix(&bytes[chunk_offset(slot)..]).ok();
    let chunks = (0..CHUNKS).filter_map(chunk).map(|(chunk, _)| chunk);
    chunks.filter(|chunk| chunk.start() != 0).flat_map(|chunk| {
        let bits: Vec<u64> = ones(&chunk.used).collect();
        let (start, length) = (chunk.start(), u64::from(chunk.pages()));
        bits.into_iter()
            .filter(move |n| *n < length)
            .map(move |n| start.saturating_add(n))
    })
}

fn read(pool: &Pool<'_>, page: u64) -> Option<Page> {
    let mut bytes = [0; PAGE];
    (page < pool.pages() && pool.image.read(page, &mut bytes).is_ok()).then_some(bytes)
}

fn collect(pool: &Pool<'_>, pages: impl Iterator<Item = u64>) -> Found {
    let (start, length) = (pool.sb.log_start.get(), pool.sb.log_pages.get());
    let log = start..start.saturating_add(length);
    let mut found = Found::new();
    for page in pages.filter(|page| !log.contains(page) && !pool.home_pages.has(*page)) {
        let Some(bytes) = read(pool, page) else { continue };
        let head = header(&bytes);
        let id = MetaId(head.id.get());
        let is_ours = head.magic.get() == MAGIC && head.pool.get() == pool.tag();
        if is_ours && head.generation.get() > 0 && kind_fits(id, head.kind) {
            found.entry(id.0).or_default().push(page);
        }
    }
    found
}

fn fill_hole(pool: &mut Pool<'_>, space: Space, first: u64, end: u64, found: &Found, used: &Used) -> u64 {
    let mut number = 0;
    // A map page that is only out of reach tells more than the metablocks themselves: their sums.
    let maps = MetaId::map(space, 0, first / FANOUT).0..=MetaId::map(space, 0, end.saturating_sub(1) / FANOUT).0;
    let mut mapped = Vec::new();
    for (id, pages) in found.range(maps).filter(|_| used.is_known) {
        let Some((entry, bytes)) = best(pool, MetaId(*id), pages, used, true) else {
            continue;
        };
        claim(pool, MetaId(*id), &entry);
        let Some((_, _, n)) = MetaId(*id).as_map() else {
            continue;
        };
        for slot in 0..FANOUT {
            let at = entry_offset(slot);
            if !is_zero(&bytes[at..at + size_of::<MapEntry>()]) {
                leaf_entry(pool, space, n * FANOUT + slot, &entry_at(&bytes, slot));
            }
        }
        pool.map_pages += 1;
        number += 1;
        mapped.push(n);
    }
    let blocks = MetaId::new(space, first).0..=MetaId::new(space, (end - 1).min((1 << 56) - 1)).0;
    for (id, pages) in found.range(blocks) {
        let index = MetaId(*id).index();
        if mapped.contains(&(index / FANOUT)) {
            continue;
        }
        if let Some((entry, _)) = best(pool, MetaId(*id), pages, used, false) {
            leaf_entry_found(pool, space, index, &entry);
            number += 1;
        }
    }
    number
}

fn leaf_entry_found(pool: &mut Pool<'_>, space: Space, index: u64, entry: &MapEntry) {
    claim(pool, MetaId::new(space, index), entry);
    pool.rows[space as usize].push(crate::pool::Row {
        index,
        entry: *entry,
        seen: false,
    });
}

fn claim(pool: &mut Pool<'_>, id: MetaId, entry: &MapEntry) {
    for page in [entry.first.get(), entry.second.get()]
        .into_iter()
        .filter(|page| *page != 0)
    {
        if pool.home_pages.add(page) {
            pool.homes.push((page, id));
        }
    }
}

/// Which of several pages holds the metablock as it is: one that HOMES calls used, that stands twice, that is the newest.
fn best(pool: &Pool<'_>, id: MetaId, pages: &[u64], used: &Used, only_used: bool) -> Option<(MapEntry, Page)> {
    let mut kinds: Vec<(Page, Vec<u64>)> = Vec::new();
    for page in pages.iter().filter(|page| !pool.home_pages.has(**page)) {
        let Some(bytes) = read(pool, *page) else { continue };
        match kinds.iter_mut().find(|(known, _)| *known == bytes) {
            Some((_, pages)) => pages.push(*page),
            None => kinds.push((bytes, vec![*page])),
        }
    }
    let rank = |(bytes, pages): &(Page, Vec<u64>)| {
        let is_used = pages.iter().any(|page| used.pages.has(*page));
        // HOMES that were found may be as old as anything else.
        (
            is_used && used.is_known,
            header(bytes).generation.get(),
            newness(id, bytes),
            is_used,
            pages.len().min(2),
        )
    };
    let (bytes, mut pages) = kinds.into_iter().max_by_key(rank)?;
    let is_used = |page: &u64| used.pages.has(*page);
    if only_used && !pages.iter().any(is_used) {
        return None;
    }
    pages.sort_by_key(|page| !is_used(page));
    let copies = pool.sb.meta_copies.get();
    let second = pages.get(1).copied().filter(|_| copies == 2).unwrap_or(0);
    let head = header(&bytes);
    let entry = MapEntry {
        first: pages.first().copied()?.into(),
        second: second.into(),
        crc: crc64::full(&bytes).into(),
        generation: head.generation,
        kind: head.kind,
        state: LIVE,
        reserved: 0.into(),
    };
    Some((entry, bytes))
}

/// What only grows while a metablock lives: versions of what is in it, then times, or what was removed.
fn newness(id: MetaId, bytes: &Page) -> (u64, i128) {
    let kind = Kind::of(header(bytes).kind);
    let version = match kind {
        Some(Kind::Inodes) => return inodes_newness(id, bytes),
        // A name that goes leaves its bytes dead until others come.
        Some(Kind::DirLeaf) => {
            let version = crate::dir::versions(bytes).max().unwrap_or(0);
            return (version.into(), crate::dir::dead(bytes).into());
        }
        Some(Kind::BlockMap) if header(bytes).level == 1 => {
            let entry = |slot| PageEntry::read_from_prefix(&bytes[blockmap::entry_offset(slot)..]).ok();
            let entries = (0..blockmap::FANOUT).filter_map(entry);
            entries
                .map(|(entry, _)| u64::from(entry.version.get()))
                .max()
                .unwrap_or(0)
        }
        _ => 0,
    };
    (version, 0)
}

fn inodes_newness(id: MetaId, bytes: &Page) -> (u64, i128) {
    let first = id.index().saturating_mul(PER_BLOCK);
    let inodes = (first..first.saturating_add(PER_BLOCK)).filter_map(|ino| crate::inode::at(bytes, ino));
    let used = inodes.filter(|inode| [inode::LIVE, inode::DEAD].contains(&inode.state.get()));
    let moment = |seconds: i64, nanoseconds: u32| i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    used.fold((0, 0), |(versions, times), inode| {
        let changed = moment(inode.ctime.get(), inode.ctime_nsec.get());
        let read = moment(inode.atime.get(), inode.atime_nsec.get());
        (inode.cur.get().wrapping_add(versions), times + changed + read)
    })
}

/// Tells that the map was put together from what was found.
pub(crate) fn tell(pool: &mut Pool<'_>, found: u64) {
    if found > 0 {
        pool.sink.push(Finding::MapFound { found });
    }
}
