//! Directories: leaves, and what their entries name (SPEC section 6). Indexes are in `index.rs`.

use crate::Page;
use crate::finding::Finding;
use crate::index;
use crate::node::follow;
use crate::walk::Walk;
use keepfs_format::dir::{DEAD, ENTRY_HEAD, EntryHead, FIRST, LIVE, LeafHead, TWINS, entry_size, name_key, slot_of};
use keepfs_format::inode::DIR;
use keepfs_format::metablock::HEADER;
use keepfs_format::rules::{in_life, wrong_entry};
use keepfs_format::{FromBytes, Kind, MetaId, PAGE};
use std::collections::HashMap;

/// A directory under way.
pub(crate) struct Dir {
    pub ino: u64,
    born: u64,
    cur: u64,
    /// Live entries found.
    found: u64,
    /// Every node could be read.
    pub complete: bool,
}

/// How a leaf was reached: which keys belong in it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Route {
    /// The slot taken in each index above the last.
    pub above: Vec<usize>,
    /// First slot and number of slots in the last index; None for a root leaf.
    pub span: Option<(usize, usize)>,
}

impl Route {
    fn leads(&self, key: u64) -> bool {
        let above = self
            .above
            .iter()
            .zip(0u8..)
            .all(|(slot, level)| slot_of(key, level) == *slot);
        let last = slot_of(key, self.above.len() as u8);
        above
            && self
                .span
                .is_none_or(|(first, count)| (first..first + count).contains(&last))
    }

    /// Local depth of the leaf (S-6.4); None if no leaf can stand so.
    fn depth(&self) -> Option<u8> {
        match self.span {
            None => Some(0),
            Some((first, count)) if count.is_power_of_two() && first % count == 0 => {
                Some(8 - count.trailing_zeros() as u8)
            }
            Some(_) => None,
        }
    }
}

/// Checks directory `ino` from its root node on.
pub(crate) fn directory(walk: &mut Walk<'_>, ino: u64) {
    let Some(facts) = walk.inodes.get(&ino).copied() else {
        return;
    };
    let mut dir = Dir {
        ino,
        born: facts.born,
        cur: facts.cur,
        found: 0,
        complete: true,
    };
    if facts.root != 0 {
        node(walk, &mut dir, facts.root, Route::default());
    }
    let (stored, found) = (facts.entries, dir.found);
    if !dir.complete {
        walk.blind.names = true;
    } else if stored != found {
        walk.finding(Finding::Entries { ino, stored, found });
    }
}

/// Checks the node reached by `route`. Each index adds to the route and none goes deeper than level 6.
pub(crate) fn node(walk: &mut Walk<'_>, dir: &mut Dir, id: u64, route: Route) {
    let Some((head, bytes)) = follow(walk, id, dir.ino, &[Kind::DirLeaf, Kind::DirIndex]) else {
        dir.complete = false;
        return;
    };
    let id = MetaId(id);
    if head.kind == Kind::DirIndex as u8 {
        index::check(walk, dir, id, head.level, &bytes, route);
        return;
    }
    match route.depth() {
        Some(depth) if depth == head.level => {}
        _ => walk.finding(Finding::Leaf {
            dir: dir.ino,
            id: id.into(),
            field: "local depth for the slots that it has",
        }),
    }
    leaf(walk, dir, id, &bytes, &route);
}

/// One live entry with its name.
struct Name<'b> {
    offset: usize,
    key: u64,
    name: &'b [u8],
}

/// S-6.1: the entries of a leaf, and what its head says of them.
fn leaf(walk: &mut Walk<'_>, dir: &mut Dir, id: MetaId, bytes: &Page, route: &Route) {
    let head = LeafHead::read_from_prefix(&bytes[HEADER..]).map_or(LeafHead::default(), |(head, _)| head);
    let tail = usize::from(head.tail.get());
    let report = |walk: &mut Walk<'_>, field| {
        walk.finding(Finding::Leaf {
            dir: dir.ino,
            id: id.into(),
            field,
        })
    };
    if !(FIRST..=PAGE).contains(&tail) || head.reserved.get() != 0 {
        report(
            walk,
            if head.reserved.get() != 0 {
                "reserved field"
            } else {
                "tail"
            },
        );
        dir.complete = false;
        return;
    }
    let (mut at, mut live, mut dead) = (FIRST, 0u64, 0usize);
    let mut names = Vec::new();
    while at < tail {
        let Some((entry, name)) = entry_at(&bytes[..tail], at) else {
            report(walk, "entry (it reaches beyond the tail)");
            dir.complete = false;
            return;
        };
        let size = entry_size(name.len());
        let padding = &bytes[at + ENTRY_HEAD + name.len()..at + size];
        let field = wrong_entry(&entry, name, padding);
        if let Some(field) = field {
            walk.finding(Finding::Entry {
                dir: dir.ino,
                id: id.into(),
                offset: at,
                field,
            });
        }
        if !matches!(entry.state, LIVE | DEAD) {
            // Whether it counts is not known, so neither are the sums.
            dir.complete = false;
        } else if entry.state == DEAD {
            dead += size;
        } else {
            live += 1;
            named(walk, dir, id, at, &entry);
            names.push(Name {
                offset: at,
                key: entry.key.get(),
                name,
            });
        }
        at += size;
    }
    keys(walk, dir, id, &names, route);
    dir.found += live;
    let counted = dir.complete;
    if counted && live != u64::from(head.live.get()) {
        walk.finding(Finding::Leaf {
            dir: dir.ino,
            id: id.into(),
            field: "count of live entries",
        });
    }
    if counted && dead != usize::from(head.dead.get()) {
        walk.finding(Finding::Leaf {
            dir: dir.ino,
            id: id.into(),
            field: "count of dead bytes",
        });
    }
}

/// The entry at `at` and its name, if all of it lies within the leaf.
fn entry_at(bytes: &[u8], at: usize) -> Option<(EntryHead, &[u8])> {
    let (entry, rest) = EntryHead::read_from_prefix(bytes.get(at..)?).ok()?;
    let name = rest.get(..usize::from(entry.name_len))?;
    (at + entry_size(name.len()) <= bytes.len()).then_some((entry, name))
}

/// The versions of all entries of a leaf, live or dead.
pub(crate) fn versions(bytes: &Page) -> impl Iterator<Item = u32> {
    let mut at = FIRST;
    core::iter::from_fn(move || {
        let (entry, name) = entry_at(&bytes[..], at)?;
        at += entry_size(name.len());
        matches!(entry.state, LIVE | DEAD).then(|| entry.version.get())
    })
}

/// Whether the entries of a leaf follow one another to its end, as many as its head tells.
pub(crate) fn is_laid_out(bytes: &Page) -> bool {
    let Ok((head, _)) = LeafHead::read_from_prefix(&bytes[HEADER..]) else {
        return false;
    };
    let (mut at, mut live, mut dead) = (FIRST, 0, 0);
    let tail = usize::from(head.tail.get());
    while at < tail.min(PAGE) {
        let Some((entry, name)) = entry_at(&bytes[..], at) else {
            return false;
        };
        let size = entry_size(name.len());
        match entry.state {
            LIVE => live += 1,
            DEAD => dead += size,
            _ => return false,
        }
        at += size;
    }
    at == tail && live == u32::from(head.live.get()) && dead == usize::from(head.dead.get())
}

/// Bytes in dead entries of a leaf, as its head tells.
pub(crate) fn dead(bytes: &Page) -> u16 {
    LeafHead::read_from_prefix(&bytes[HEADER..]).map_or(0, |(head, _)| head.dead.get())
}

/// The live entries of a leaf: inode number, kind (mode >> 12), key, name. What is malformed is left out.
pub(crate) fn entries(bytes: &Page) -> Vec<(u64, u8, u64, Vec<u8>)> {
    let head = LeafHead::read_from_prefix(&bytes[HEADER..]).map_or(LeafHead::default(), |(head, _)| head);
    let tail = usize::from(head.tail.get()).min(PAGE);
    let (mut at, mut list) = (FIRST, Vec::new());
    while at < tail {
        let Some((entry, name)) = entry_at(&bytes[..tail], at) else {
            break;
        };
        if entry.state == LIVE {
            list.push((entry.ino.get(), entry.kind, entry.key.get(), name.to_vec()));
        }
        at += entry_size(name.len());
    }
    list
}

/// A live entry against the inode that it names.
fn named(walk: &mut Walk<'_>, dir: &Dir, id: MetaId, offset: usize, entry: &EntryHead) {
    let report = |walk: &mut Walk<'_>, field| {
        walk.finding(Finding::Entry {
            dir: dir.ino,
            id: id.into(),
            offset,
            field,
        });
    };
    walk.counts.entries += 1;
    if !in_life(entry.version.get(), dir.born, dir.cur) {
        report(walk, "version");
    }
    let ino = entry.ino.get();
    let Some(facts) = walk.inodes.get_mut(&ino) else {
        walk.dangling.add(ino, dir.ino);
        if !walk.is_hidden(ino) {
            walk.finding(Finding::EntryInode {
                dir: dir.ino,
                id: id.into(),
                offset,
                ino,
            });
        }
        return;
    };
    facts.names += 1;
    let (kind, second) = (facts.kind, facts.named_in != 0);
    if !second {
        facts.named_in = dir.ino;
    }
    if kind != entry.kind {
        report(walk, "kind (its inode is of another)");
    }
    if kind != DIR {
        return;
    }
    if let Some(parent) = walk.inodes.get_mut(&dir.ino) {
        parent.subdirs += 1;
    }
    if second || ino == 1 {
        walk.finding(Finding::DirectoryTwice { ino, dir: dir.ino });
    }
}

/// S-6.3: keys are those of the names, lead here, and are distinct. Equal keys and names share a leaf.
fn keys(walk: &mut Walk<'_>, dir: &Dir, id: MetaId, names: &[Name<'_>], route: &Route) {
    let seed = walk.pool.sb.name_seed.map(|word| word.get());
    let mut seen: HashMap<u64, Vec<(&[u8], u64)>> = HashMap::new();
    for entry in names {
        let base = name_key(seed, entry.name);
        let twins = seen.entry(base).or_default();
        let field = if entry.key & !(TWINS - 1) != base {
            Some("key (it is not its name's)")
        } else if !route.leads(entry.key) {
            Some("leaf (its key leads to another)")
        } else if twins.iter().any(|(name, _)| *name == entry.name) {
            Some("name (there is another entry of this name)")
        } else if twins.iter().any(|(_, key)| *key == entry.key) {
            Some("key (there is another entry with it)")
        } else {
            None
        };
        twins.push((entry.name, entry.key));
        if let Some(field) = field {
            walk.finding(Finding::Entry {
                dir: dir.ino,
                id: id.into(),
                offset: entry.offset,
                field,
            });
        }
    }
}
