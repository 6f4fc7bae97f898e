//! Where the newest version of a metablock is lost and an older one is found, that is told, nobody reads zeros where data was, and
//! what was removed does not come back (S-21.8, S-21.19).

use crate::builder::{Built, edit_inode, fresh_inode, node};
use crate::sample;
use keepfs_check::mend::{Plan, plan};
use keepfs_check::read::{Part, View};
use keepfs_check::{Options, walk};
use keepfs_format::blockmap::entry_offset;
use keepfs_format::inode::{BODY_INLINE, block_of, offset_of};
use keepfs_format::{IntoBytes, MetaId, PAGE, Space};

/// Pages of the second chunk, which nothing uses.
const OLD: u64 = 331;
const OLD_MAP: u64 = 330;
/// A file with a tree: page 0 written, 3 unwritten, 254 written.
const FILE: u64 = 5;
/// A file that was removed.
const REMOVED: u64 = 20;

/// What knows of the newest versions.
#[derive(Clone, Copy, PartialEq)]
enum Map {
    /// Map pages of the lowest level, which no sum leads to.
    Lowest,
    /// Nothing.
    None,
}

fn pages(built: &Built, id: MetaId) -> Vec<u64> {
    let entry = built.places[&id.0];
    vec![entry.first.get(), entry.second.get()]
}

/// A pool without HOMES and the upper map, in which an older version of `id` stands and the newest one does not.
fn aged(id: MetaId, map: Map, edit: impl FnOnce(&mut [u8; PAGE])) -> Built {
    let mut b = sample::pool();
    for space in [Space::Nodes, Space::Inodes] {
        b.heights.insert(space, 2);
    }
    let mut built = b.build();
    let space = id.space().unwrap();
    let newest = pages(&built, id);
    let mut old: [u8; PAGE] = built.page(newest[0]).try_into().unwrap();
    edit(&mut old);
    built.page(OLD).copy_from_slice(&old);
    // What was the map then knows the older version, and not where the newest one is.
    let lowest = pages(&built, MetaId::map(space, 0, 0));
    let mut old_map: [u8; PAGE] = built.page(lowest[0]).try_into().unwrap();
    let at = keepfs_format::map::entry_offset(id.index());
    old_map[at..at + 8].copy_from_slice(&OLD.to_le_bytes());
    old_map[at + 16..at + 24].copy_from_slice(&keepfs_codes::crc64::full(&old).to_le_bytes());
    built.page(OLD_MAP).copy_from_slice(&old_map);
    let mut gone = newest;
    for of in [Space::Nodes, Space::Inodes] {
        gone.extend(pages(&built, MetaId::map(of, 1, 0)));
    }
    gone.extend(pages(&built, MetaId::map(Space::Homes, 0, 0)));
    gone.extend(pages(&built, MetaId::new(Space::Homes, 0)));
    if map == Map::None {
        gone.extend(lowest);
        gone.push(OLD_MAP);
    }
    gone.into_iter().for_each(|page| built.page(page).fill(0));
    built
}

#[track_caller]
fn repaired(built: &Built) -> (Vec<u8>, Plan) {
    let plan = plan(&built.bytes).unwrap();
    let mut after = built.bytes.clone();
    for write in &plan.writes {
        after[write.page as usize * PAGE..][..PAGE].copy_from_slice(&write.bytes[..]);
    }
    let report = walk(&after, &Options::default());
    assert!(report.is_sound(), "{report}");
    (after, plan)
}

#[track_caller]
fn tells(plan: &Plan, what: &str) {
    let is_told = plan.actions.iter().any(|action| action.contains(what));
    assert!(is_told, "{what}: {:#?}", plan.actions);
}

fn bad_pages(view: &mut View<'_>, ino: u64) -> Vec<u64> {
    let mut bad = Vec::new();
    view.each_page(ino, &mut |index, part| {
        if let Part::Bad(count) = part {
            bad.extend(index..index + count);
        }
    });
    bad
}

/// The node lacks the page that was written last.
fn older_node(map: Map) -> Built {
    aged(node(sample::TREE_A), map, |old| {
        old[entry_offset(0)..entry_offset(1)].fill(0)
    })
}

#[test]
fn pages_that_an_older_node_lacks_are_lost() {
    for map in [Map::Lowest, Map::None] {
        let built = older_node(map);
        let mut view = View::salvage(&built.bytes).unwrap();
        assert!(view.is_older(FILE) && !view.is_older(4));
        let bad = bad_pages(&mut view, FILE);
        assert!(bad.contains(&0) && !bad.contains(&3), "{bad:?}");
        let (after, plan) = repaired(&built);
        tells(&plan, "a part of inode 5 is an older version");
        let mut view = View::open(&after).unwrap();
        assert!(view.page(FILE, 0).is_err());
        assert!(view.page(FILE, 3).is_ok());
    }
}

#[test]
fn an_older_directory_is_named() {
    // A name less; as many bytes are dead.
    let built = aged(node(sample::LEAF_DIR), Map::Lowest, |old| {
        old[32..40].copy_from_slice(&[40, 0, 0, 0, 0, 0, 0, 0]);
        old[40..].fill(0);
    });
    assert!(View::salvage(&built.bytes).unwrap().is_older(2));
    let (_, plan) = repaired(&built);
    tells(&plan, "a part of directory 2 is an older version");
}

fn removed_file(map: Map) -> Built {
    aged(block_of(REMOVED), map, |old| {
        old[offset_of(REMOVED)..][..256].copy_from_slice(fresh_inode(sample::FILE).as_bytes());
        edit_inode(old, REMOVED, |inode| {
            (inode.body, inode.size) = (BODY_INLINE, 3.into());
            inode.body_area[..3].copy_from_slice(b"old");
        });
    })
}

#[test]
fn what_was_removed_does_not_come_back() {
    let built = removed_file(Map::Lowest);
    let mut view = View::salvage(&built.bytes).unwrap();
    assert!(view.is_older(REMOVED) && view.is_unproved(REMOVED));
    let (after, plan) = repaired(&built);
    tells(&plan, "inodes 16, 20 may be older than they should be");
    tells(
        &plan,
        "inode 20, which an older version of its metablock has, was removed since",
    );
    assert!(View::open(&after).unwrap().inode(REMOVED).is_err());
}

/// S-21.20.
#[test]
fn what_may_have_been_removed_is_named() {
    let (after, plan) = repaired(&removed_file(Map::None));
    tells(&plan, "some may be older");
    tells(&plan, "becomes lost+found/#20: its metablock may be older");
    assert!(View::open(&after).unwrap().inode(REMOVED).is_ok());
}

#[test]
fn what_is_the_newest_is_not_called_older() {
    for map in [Map::Lowest, Map::None] {
        let mut built = older_node(map);
        let whole = sample::pool().build();
        // One copy of the newest version stands.
        let page = pages(&built, node(sample::TREE_A))[1];
        let newest = pages(&whole, node(sample::TREE_A))[0];
        built
            .page(page)
            .copy_from_slice(&whole.bytes[newest as usize * PAGE..][..PAGE]);
        let mut view = View::salvage(&built.bytes).unwrap();
        assert!((1..30).all(|ino| !view.is_older(ino)));
        assert!(bad_pages(&mut view, FILE).is_empty());
        let (after, plan) = repaired(&built);
        assert!(
            !plan.actions.iter().any(|action| action.contains("older version")),
            "{:#?}",
            plan.actions
        );
        assert!(View::open(&after).unwrap().page(FILE, 0).is_ok());
    }
}
