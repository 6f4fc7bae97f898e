//! Which of the metablocks that were found by their headers are older than they should be, as far as that can be known (S-21.8).

use super::{Evidence, ours, read, versions};
use crate::pool::{Holes, Pool};
use keepfs_codes::crc64;
use keepfs_format::map::{LIVE, MapEntry};
use keepfs_format::{MetaId, Space};
use std::collections::{BTreeMap, BTreeSet};

/// Notes what of the holes nothing proves to be the newest version, and what is told to be older.
pub(super) fn judge(pool: &mut Pool<'_>, holes: &Holes, evidence: &Evidence) {
    let mut taken: BTreeMap<u64, u64> = BTreeMap::new();
    for (space, first, end) in holes.iter() {
        let rows = pool.rows[space as usize].iter();
        let of_hole = rows.filter(|row| row.entry.state == LIVE && (first..end).contains(&row.index));
        taken.extend(of_hole.map(|row| (MetaId::new(space, row.index).0, row.entry.crc.get())));
    }
    pool.age.older = older(pool, evidence, &taken);
    let has_rival = |id: &&u64| {
        let pages = evidence.found.get(id).map_or(&[][..], Vec::as_slice);
        matches!(MetaId(**id).space(), Some(Space::Nodes | Space::Inodes)) && !versions(pool, pages).is_empty()
    };
    pool.age.rivals = taken.keys().filter(has_rival).count();
    pool.age.unproved = taken.into_keys().collect();
}

/// A map page tells of a version that is on no page, and where it was nothing else has been written: it was damaged, not given up.
/// A map page that knows less than one with the version taken is an older one, and says nothing.
fn older(pool: &Pool<'_>, evidence: &Evidence, taken: &BTreeMap<u64, u64>) -> BTreeSet<u64> {
    let is_taken = |id: &MetaId, entry: &MapEntry| taken.get(&id.0) == Some(&entry.crc.get());
    let mut known: Vec<(usize, Vec<MetaId>)> = Vec::new();
    // The most that a map page knows which has the version taken.
    let mut most: BTreeMap<u64, usize> = BTreeMap::new();
    for map in &evidence.sums.maps {
        let (newest, others): (Vec<_>, Vec<_>) = map.iter().partition(|(id, entry)| is_taken(id, entry));
        let others = others.into_iter().filter(|(id, _)| taken.contains_key(&id.0));
        let gone: Vec<MetaId> = others
            .filter(|(id, entry)| is_gone(pool, evidence, *id, entry))
            .map(|(id, _)| id)
            .collect();
        let knows = newest.len() + gone.len();
        for (id, _) in newest {
            let best = most.entry(id.0).or_default();
            *best = knows.max(*best);
        }
        known.push((knows, gone));
    }
    // A version that no map page knows is newer than all of them.
    let is_newer = |id: &MetaId, knows: usize| most.get(&id.0).is_some_and(|most| knows >= *most);
    let of_map = |(knows, gone): (usize, Vec<MetaId>)| gone.into_iter().filter(move |id| is_newer(id, knows));
    known.into_iter().flat_map(of_map).map(|id| id.0).collect()
}

/// Whether no page has the content, and those where it was have nothing that was written over it.
fn is_gone(pool: &Pool<'_>, evidence: &Evidence, id: MetaId, entry: &MapEntry) -> bool {
    let mut found = evidence.found.get(&id.0).into_iter().flatten().copied();
    let is_there = |page: u64| read(pool, page).is_some_and(|bytes| crc64::full(&bytes) == entry.crc.get());
    let is_damaged = |page: u64| {
        let held = read(pool, page).and_then(|bytes| Some((ours(pool, &bytes)?.0, bytes)));
        held.is_none_or(|(other, bytes)| other == id && !evidence.sums.has(id, &bytes))
    };
    let places = [entry.first.get(), entry.second.get()];
    places.into_iter().filter(|page| *page != 0).all(is_damaged) && !found.any(is_there)
}
