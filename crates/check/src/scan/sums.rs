//! What map pages say that have no sum themselves: each of their entries has the sum of what it leads to (S-21.14).

use super::{Found, entry_of, log_pages, ours, read, versions};
use crate::Page;
use crate::map::{entry_at, is_formed};
use crate::pool::{Pool, header};
use keepfs_codes::crc64;
use keepfs_format::map::{FANOUT, LIVE, MapEntry};
use keepfs_format::{MetaId, Space};
use std::collections::{BTreeMap, BTreeSet};

/// A sum that differs from the right one in so few bits is damaged itself.
const FLIPS: u32 = 3;

/// The sums that map pages of any age tell of what is looked for. What has one of them is a whole version, of whatever age.
#[derive(Default)]
pub(super) struct Sums {
    told: BTreeSet<(u64, u64)>,
    /// The live entries of each map page that differs from the others, by the metablock they mean.
    pub maps: Vec<Vec<(MetaId, MapEntry)>>,
}

impl Sums {
    /// Reads the map pages that were found, those that lead to nothing because their own sum is wrong, and older ones, which stand
    /// in `chunks` where nothing is used.
    pub fn read(pool: &Pool<'_>, found: &Found, chunks: &[(u64, u64)]) -> Sums {
        let (mut sums, mut read_before) = (Sums::default(), BTreeSet::new());
        let maps = MetaId(0x80 << 56).0..;
        let found = found.range(maps).flat_map(|(_, pages)| pages.iter().copied());
        let failed = pool.homes.iter().filter(|(_, id)| is_looked_for(pool, *id));
        let log = log_pages(pool);
        let older = chunks
            .iter()
            .flat_map(|(first, count)| *first..first.saturating_add(*count))
            .filter(|page| !pool.home_pages.has(*page) && !log.contains(page));
        for page in found.chain(failed.map(|(page, _)| *page)).chain(older) {
            let Some(bytes) = read(pool, page) else { continue };
            let Some((space, 0, n)) = ours(pool, &bytes).and_then(|(id, _)| id.as_map()) else {
                continue;
            };
            if !read_before.insert(crc64::full(&bytes)) {
                continue;
            }
            let live = entries(&bytes, n).filter(|(index, entry)| entry.state == LIVE && pool.holes.has(space, *index));
            let live: Vec<_> = live.map(|(index, entry)| (MetaId::new(space, index), entry)).collect();
            sums.told.extend(live.iter().map(|(id, entry)| (id.0, entry.crc.get())));
            sums.maps.push(live);
        }
        sums
    }

    /// Whether a map page tells of this content.
    pub fn has(&self, id: MetaId, bytes: &Page) -> bool {
        self.told.contains(&(id.0, crc64::full(bytes)))
    }
}

/// Whether the map page leads to what is looked for.
fn is_looked_for(pool: &Pool<'_>, id: MetaId) -> bool {
    matches!(id.as_map(), Some((space, 0, n)) if pool.holes.has(space, n.saturating_mul(FANOUT)))
}

fn entries(bytes: &Page, n: u64) -> impl Iterator<Item = (u64, MapEntry)> {
    (0..FANOUT).map(move |slot| (n.saturating_mul(FANOUT).saturating_add(slot), entry_at(bytes, slot)))
}

/// What the map pages of a part of the map say.
#[derive(Default)]
pub(super) struct Said {
    /// The map pages, with entries as if they had been led to.
    pub pages: Vec<(MetaId, MapEntry)>,
    /// Entries that lead to what has their sum, by index.
    pub right: BTreeMap<u64, MapEntry>,
    /// Others that may stand in a map: live ones that lead to nothing of their sum, and dead ones.
    pub other: BTreeMap<u64, MapEntry>,
}

/// Reads all map pages found for the metablocks from `first` to `end`. Each entry counts by itself: where one of two copies was
/// written in part, the other one has the rest.
pub(super) fn said(pool: &Pool<'_>, space: Space, first: u64, end: u64, found: &Found) -> Said {
    let maps = MetaId::map(space, 0, first / FANOUT).0..=MetaId::map(space, 0, end.saturating_sub(1) / FANOUT).0;
    let mut said = Said::default();
    for (id, pages) in found.range(maps) {
        let Some((_, _, n)) = MetaId(*id).as_map() else {
            continue;
        };
        let judged = versions(pool, pages).into_iter().map(|(bytes, pages)| {
            let formed = entries(&bytes, n).filter(|(index, _)| (first..end).contains(index));
            let formed = formed.filter(|(index, entry)| is_formed(pool, MetaId::new(space, *index), entry));
            let (right, other): (Vec<_>, Vec<_>) =
                formed.partition(|(index, entry)| is_right(pool, MetaId::new(space, *index), entry));
            (bytes, pages, right, other)
        });
        let mut judged: Vec<_> = judged.collect();
        judged.sort_by_key(|(_, _, right, _)| core::cmp::Reverse(right.len()));
        if let Some((bytes, pages, ..)) = judged.first() {
            let second = pages.get(1).copied().unwrap_or(0);
            said.pages.push((MetaId(*id), entry_of(bytes, pages[0], second)));
        }
        for (_, _, right, other) in judged {
            for (index, entry) in right {
                said.right.entry(index).or_insert(entry);
            }
            for (index, entry) in other {
                said.other.entry(index).or_insert(entry);
            }
        }
    }
    said.other.retain(|index, _| !said.right.contains_key(index));
    said
}

/// Whether a page that the entry names holds what the entry means.
fn is_right(pool: &Pool<'_>, id: MetaId, entry: &MapEntry) -> bool {
    let pages = [entry.first.get(), entry.second.get()];
    entry.state == LIVE
        && pages.into_iter().filter(|page| *page != 0).any(|page| {
            read(pool, page).is_some_and(|bytes| {
                crc64::full(&bytes) == entry.crc.get()
                    && ours(pool, &bytes) == Some((id, entry.generation.get()))
                    && header(&bytes).kind == entry.kind
            })
        })
}

/// Whether content found at these pages may be what the entry means. An entry that names one of them, with its generation and
/// kind, is no garbage: if its sum is another one it is the content that is damaged.
pub(super) fn may_be(entry: &MapEntry, pages: &[u64], bytes: &Page) -> bool {
    let head = header(bytes);
    let is_named = pages.contains(&entry.first.get()) || pages.contains(&entry.second.get());
    let is_meant = entry.state == LIVE && is_named && head.generation == entry.generation && head.kind == entry.kind;
    !is_meant || (crc64::full(bytes) ^ entry.crc.get()).count_ones() <= FLIPS
}
