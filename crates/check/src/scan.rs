//! Metablocks found by their headers, where the map that leads to them is lost (S-21.2).

mod age;
mod plausible;
mod sums;

use crate::Page;
use crate::bitmap::{Set, ones};
use crate::finding::Finding;
use crate::image::Image;
use crate::map::kind_fits;
use crate::pool::{Load, Pool, header};
use crate::report::Sink;
use crate::space::fixed_pages;
use crate::superblock;
use keepfs_codes::crc64;
use keepfs_format::blockmap::{self, PageEntry};
use keepfs_format::inode::{self, PER_BLOCK};
use keepfs_format::map::{CHUNKS, Chunk, LIVE, MapEntry, chunk_offset};
use keepfs_format::metablock::MAGIC;
use keepfs_format::superblock::Superblock;
use keepfs_format::{FromBytes, Kind, MetaId, PAGE, Space};
use std::collections::BTreeMap;
use sums::{Said, Sums};

/// Pages by the metablock that their header names.
type Found = BTreeMap<u64, Vec<u64>>;

/// Pages that hold metadata.
struct Used {
    /// HOMES of the checkpoint says so, not one that was found.
    is_known: bool,
    pages: Set,
}

/// What is known of a pool whose map has holes.
struct Evidence {
    found: Found,
    used: Used,
    sums: Sums,
}

/// Fills the holes of the map with what the device holds. What is in none of its pages does not exist from here on. How many
/// metablocks were found so.
pub(crate) fn fill(pool: &mut Pool<'_>) -> u64 {
    if pool.holes.is_empty() {
        return 0;
    }
    if !pool.age.is_without_log {
        let of_files = [Space::Nodes, Space::Inodes].into_iter();
        pool.age.unled = of_files
            .flat_map(|space| pool.holes.ids(space))
            .map(|id| id.0)
            .collect();
    }
    let known = known_homes(pool);
    let found = match &known {
        Some(homes) => {
            let pages: Vec<u64> = homes.used.iter().filter(|page| !pool.home_pages.has(*page)).collect();
            collect(pool, pages.into_iter())
        }
        None => collect(pool, 1..pool.pages()),
    };
    let (is_known, chunks) = known.as_ref().map_or((false, &[][..]), |homes| (true, &homes.chunks));
    let sums = Sums::read(pool, &found, chunks);
    let used = Used {
        is_known,
        pages: known.map_or_else(|| likely_homes(pool, &found), |homes| homes.used),
    };
    let evidence = Evidence { found, used, sums };
    let holes = core::mem::take(&mut pool.holes);
    let mut number = 0;
    for (space, first, end) in holes.iter() {
        number += fill_hole(pool, space, first, end, &evidence);
        pool.rows[space as usize].sort_unstable_by_key(|row| row.index);
        pool.rows[space as usize].dedup_by_key(|row| row.index);
    }
    if !evidence.used.is_known {
        age::judge(pool, &holes, &evidence);
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

/// What HOMES says.
#[derive(Default)]
struct Homes {
    used: Set,
    /// First page and number of pages of each chunk.
    chunks: Vec<(u64, u64)>,
}

/// HOMES of the checkpoint, if all of it can be read.
fn known_homes(pool: &mut Pool<'_>) -> Option<Homes> {
    if pool.holes.any(Space::Homes) {
        return None;
    }
    let mut homes = Homes::default();
    for index in pool.live(Space::Homes) {
        match pool.load(MetaId::new(Space::Homes, index)) {
            Load::Live(bytes) => {
                used_pages(&bytes).for_each(|page| {
                    homes.used.add(page);
                });
                homes
                    .chunks
                    .extend(chunks(&bytes).map(|chunk| (chunk.start(), chunk.pages().into())));
            }
            _ => return None,
        }
    }
    Some(homes)
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

fn chunks(bytes: &Page) -> impl Iterator<Item = Chunk> {
    let chunk = |slot| Chunk::read_from_prefix(&bytes[chunk_offset(slot)..]).ok();
    let chunks = (0..CHUNKS).filter_map(chunk).map(|(chunk, _)| chunk);
    chunks.filter(|chunk| chunk.start() != 0)
}

fn used_pages(bytes: &Page) -> impl Iterator<Item = u64> {
    chunks(bytes).flat_map(|chunk| {
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
    // What a stray write of the device put where no metablock can have its home is none.
    let fixed = fixed_pages(&pool.sb);
    let mut found = Found::new();
    for page in pages.filter(|page| !fixed.has(*page) && !pool.home_pages.has(*page)) {
        if let Some((id, _)) = read(pool, page).and_then(|bytes| ours(pool, &bytes)) {
            found.entry(id.0).or_default().push(page);
        }
    }
    found
}

fn log_pages(pool: &Pool<'_>) -> core::ops::Range<u64> {
    let (start, length) = (pool.sb.log_start.get(), pool.sb.log_pages.get());
    start..start.saturating_add(length)
}

/// The metablock that a page says it holds, with its generation.
fn ours(pool: &Pool<'_>, bytes: &Page) -> Option<(MetaId, u32)> {
    let head = header(bytes);
    let id = MetaId(head.id.get());
    let is_ours = head.magic.get() == MAGIC && head.pool.get() == pool.tag();
    let generation = head.generation.get();
    (is_ours && generation > 0 && kind_fits(id, head.kind)).then_some((id, generation))
}

fn fill_hole(pool: &mut Pool<'_>, space: Space, first: u64, end: u64, evidence: &Evidence) -> u64 {
    let mut number = 0;
    // A map page that is only out of reach tells more than the metablocks themselves: their sums.
    let said = if evidence.used.is_known {
        sums::said(pool, space, first, end, &evidence.found)
    } else {
        Said::default()
    };
    number += said.pages.len() as u64;
    pool.map_pages += said.pages.len() as u64;
    for (id, entry) in &said.pages {
        claim(pool, *id, entry);
    }
    for (index, entry) in &said.right {
        push(pool, space, *index, entry);
    }
    let blocks = MetaId::new(space, first).0..=MetaId::new(space, (end - 1).min((1 << 56) - 1)).0;
    let mut other = said.other;
    for (id, pages) in evidence.found.range(blocks) {
        let index = MetaId(*id).index();
        if said.right.contains_key(&index) {
            continue;
        }
        if let Some(entry) = best(pool, MetaId(*id), pages, evidence, other.get(&index)) {
            other.remove(&index);
            push(pool, space, index, &entry);
            number += 1;
        }
    }
    // What is said to exist and is found nowhere is lost; what is said to be dead, dead.
    for (index, entry) in &other {
        push(pool, space, *index, entry);
    }
    number
}

/// Makes the entry a row of the map.
fn push(pool: &mut Pool<'_>, space: Space, index: u64, entry: &MapEntry) {
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

/// Which of several pages holds the metablock as it is. `said` is what a map page says of it that has no sum itself.
fn best(pool: &Pool<'_>, id: MetaId, pages: &[u64], evidence: &Evidence, said: Option<&MapEntry>) -> Option<MapEntry> {
    let (used, sums) = (&evidence.used, &evidence.sums);
    let mut versions = versions(pool, pages);
    versions.retain(|(bytes, pages)| said.is_none_or(|said| sums::may_be(said, pages, bytes)));
    let rank = |(bytes, pages): &(Page, Vec<u64>)| {
        let is_used = pages.iter().any(|page| used.pages.has(*page));
        // HOMES that were found may be as old as anything else.
        (
            is_used && used.is_known,
            plausible::is_plausible(bytes),
            header(bytes).generation.get(),
            newness(id, bytes),
            sums.has(id, bytes),
            is_used,
            pages.len().min(2),
            // What was written in part only has zeros.
            bytes.iter().filter(|byte| **byte != 0).count(),
        )
    };
    let (bytes, mut pages) = versions.into_iter().max_by_key(rank)?;
    let is_used = |page: &u64| used.pages.has(*page);
    pages.sort_by_key(|page| !is_used(page));
    let copies = pool.sb.meta_copies.get();
    let second = pages.get(1).copied().filter(|_| copies == 2).unwrap_or(0);
    Some(entry_of(&bytes, *pages.first()?, second))
}

/// The different contents of these pages, each with the pages that have it; none of a page that the map leads to.
fn versions(pool: &Pool<'_>, pages: &[u64]) -> Vec<(Page, Vec<u64>)> {
    let mut versions: Vec<(Page, Vec<u64>)> = Vec::new();
    for page in pages.iter().filter(|page| !pool.home_pages.has(**page)) {
        let Some(bytes) = read(pool, *page) else { continue };
        match versions.iter_mut().find(|(known, _)| *known == bytes) {
            Some((_, pages)) => pages.push(*page),
            None => versions.push((bytes, vec![*page])),
        }
    }
    versions
}

/// The map entry of a metablock that was found.
fn entry_of(bytes: &Page, first: u64, second: u64) -> MapEntry {
    let head = header(bytes);
    MapEntry {
        first: first.into(),
        second: second.into(),
        crc: crc64::full(bytes).into(),
        generation: head.generation,
        kind: head.kind,
        state: LIVE,
        reserved: 0.into(),
    }
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
