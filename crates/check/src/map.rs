//! Reading the map: from the roots in the superblock to the entry of every metablock (SPEC section 4).

use crate::finding::Finding;
use crate::pool::{Pool, Row};
use crate::{Page, is_zero};
use keepfs_format::map::{DEAD, FANOUT, LIVE, MapEntry, NEVER, entry_offset};
use keepfs_format::{FromBytes, IntoBytes, Kind, MetaId, Space, bitmap};

/// Reads the maps of all spaces into the pool's rows, from the roots on (S-4.2).
pub(crate) fn read(pool: &mut Pool<'_>) {
    for space in Space::ALL {
        let root = pool.sb.roots[space as usize];
        if root.height == 0 {
            if !is_zero(root.entry.as_bytes()) {
                let id = MetaId::map(space, 0, 0).into();
                pool.sink.push(Finding::MapEntry {
                    id,
                    field: "root without height",
                });
                lost(pool, space, 8, 0);
            }
            continue;
        }
        let (level, id) = (root.height - 1, MetaId::map(space, root.height - 1, 0));
        if root.entry.state != LIVE {
            pool.sink.push(Finding::MapEntry {
                id: id.into(),
                field: "state",
            });
            lost(pool, space, level, 0);
        } else {
            descend(pool, space, level, 0, &root.entry);
        }
    }
}

/// Reads map page `number` of `level` and what is below it (S-4.1).
fn descend(pool: &mut Pool<'_>, space: Space, level: u8, number: u64, entry: &MapEntry) {
    let id = MetaId::map(space, level, number);
    let bytes = claim(pool, id, entry).then(|| pool.fetch(id, entry)).flatten();
    let Some(bytes) = bytes else {
        lost(pool, space, level, number);
        return;
    };
    pool.map_pages += 1;
    for slot in 0..FANOUT {
        let at = entry_offset(slot);
        if is_zero(&bytes[at..at + size_of::<MapEntry>()]) {
            continue;
        }
        let entry = entry_at(&bytes, slot);
        let below = number * FANOUT + slot;
        if level > 0 {
            child(pool, space, level - 1, below, &entry);
        } else {
            leaf_entry(pool, space, below, &entry);
        }
    }
}

fn child(pool: &mut Pool<'_>, space: Space, level: u8, number: u64, entry: &MapEntry) {
    let id = MetaId::map(space, level, number);
    if !well_formed(pool, id, entry) {
        lost(pool, space, level, number);
    } else if entry.state == LIVE {
        descend(pool, space, level, number, entry);
    }
}

fn leaf_entry(pool: &mut Pool<'_>, space: Space, index: u64, entry: &MapEntry) {
    let id = MetaId::new(space, index);
    let known = index < limit(space, pool) && id.index() == index;
    if !known {
        pool.sink.push(Finding::MapEntry {
            id: id.into(),
            field: "index",
        });
        return;
    }
    if !well_formed(pool, id, entry) || (entry.state == LIVE && !claim(pool, id, entry)) {
        pool.holes.add(space, index, index + 1);
        return;
    }
    pool.rows[space as usize].push(Row {
        index,
        entry: *entry,
        seen: false,
    });
}

/// How many metablocks a space can have (S-3.1).
fn limit(space: Space, pool: &Pool<'_>) -> u64 {
    match space {
        Space::Pages => pool.pages().div_ceil(bitmap::BITS),
        Space::Shares => pool.pages().div_ceil(bitmap::COUNTS),
        Space::Totals if pool.is_striped() => bitmap::TOTALS_BLOCKS,
        Space::Totals => 1,
        _ => 1 << 56,
    }
}

/// S-4.3: whether the entry's fields are allowed, pages aside.
fn well_formed(pool: &mut Pool<'_>, id: MetaId, entry: &MapEntry) -> bool {
    let empty = entry.first.get() == 0 && entry.second.get() == 0 && entry.crc.get() == 0;
    let rules = [
        (matches!(entry.state, LIVE | DEAD | NEVER), "state"),
        (entry.reserved.get() == 0, "reserved field"),
        (entry.state == LIVE || empty, "page of a metablock that does not exist"),
        (entry.state != NEVER || entry.generation.get() == 0, "generation"),
    ];
    report(pool, id, &rules)
}

/// S-4.3: a live entry names one or two pages that are its own, and a kind that belongs in the space.
fn claim(pool: &mut Pool<'_>, id: MetaId, entry: &MapEntry) -> bool {
    let (first, second, pages) = (entry.first.get(), entry.second.get(), pool.pages());
    let two = pool.sb.meta_copies.get() == 2;
    let rules = [
        (kind_fits(id, entry.kind), "kind"),
        (entry.generation.get() > 0, "generation"),
        ((1..pages).contains(&first), "first page"),
        (
            if two {
                (1..pages).contains(&second) && second != first
            } else {
                second == 0
            },
            "second page",
        ),
    ];
    if !report(pool, id, &rules) {
        return false;
    }
    // S-4.9
    pool.close_copies += u64::from(two && first.abs_diff(second) < pages / 8);
    let mut own = true;
    for page in [first, second].into_iter().filter(|page| *page != 0) {
        if pool.home_pages.add(page) {
            pool.homes.push((page, id));
        } else {
            pool.sink.push(Finding::MetaPageTwice { id: id.into(), page });
            own = false;
        }
    }
    own
}

/// S-4.3: whether an entry that nobody vouches for may stand there. Says nothing.
pub(crate) fn is_formed(pool: &Pool<'_>, id: MetaId, entry: &MapEntry) -> bool {
    let (first, second, pages) = (entry.first.get(), entry.second.get(), pool.pages());
    let is_empty = first == 0 && second == 0 && entry.crc.get() == 0;
    let is_second = match pool.sb.meta_copies.get() {
        2 => (1..pages).contains(&second) && second != first,
        _ => second == 0,
    };
    let is_pages = (1..pages).contains(&first) && is_second && kind_fits(id, entry.kind);
    let is_known = id.space().is_some_and(|space| id.index() < limit(space, pool));
    let is_right = match entry.state {
        LIVE => is_pages,
        DEAD => is_empty,
        _ => false,
    };
    is_right && is_known && entry.generation.get() > 0 && entry.reserved.get() == 0
}

pub(crate) fn kind_fits(id: MetaId, kind: u8) -> bool {
    let Some(kind) = Kind::of(kind) else {
        return false;
    };
    if id.as_map().is_some() {
        return kind == Kind::Map;
    }
    match id.space() {
        Some(Space::Nodes) => matches!(kind, Kind::DirLeaf | Kind::DirIndex | Kind::BlockMap | Kind::Xattr),
        Some(space) => kind_of(space) == Some(kind),
        None => false,
    }
}

/// The kind of all metablocks of a space, if there is one.
pub(crate) fn kind_of(space: Space) -> Option<Kind> {
    Some(match space {
        Space::Nodes => return None,
        Space::Inodes => Kind::Inodes,
        Space::Pages | Space::NodeNumbers | Space::InodeNumbers | Space::Orphans => Kind::Bitmap,
        Space::Shares => Kind::Shares,
        Space::Totals => Kind::Totals,
        Space::Homes => Kind::Homes,
    })
}

fn report(pool: &mut Pool<'_>, id: MetaId, rules: &[(bool, &'static str)]) -> bool {
    let broken = rules.iter().find(|(holds, _)| !holds);
    if let Some((_, field)) = broken {
        pool.sink.push(Finding::MapEntry { id: id.into(), field });
    }
    broken.is_none()
}

/// Notes that nothing below this map page is known.
fn lost(pool: &mut Pool<'_>, space: Space, level: u8, number: u64) {
    let covers = FANOUT.saturating_pow(u32::from(level) + 1);
    let first = number.saturating_mul(covers);
    pool.holes.add(space, first, first.saturating_add(covers));
}

pub(crate) fn entry_at(bytes: &Page, slot: u64) -> MapEntry {
    let at = entry_offset(slot);
    MapEntry::read_from_prefix(&bytes[at..]).map_or_else(|_| MapEntry::default(), |(entry, _)| entry)
}
