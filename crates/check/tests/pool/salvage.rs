//! A pool without its map, or without any superblock, is found by headers (S-21.2, S-21.15), and what may be missing is told (S-21.24).

use crate::builder::{Built, PAGES};
use crate::sample;
use keepfs_check::Finding;
use keepfs_check::mend::plan;
use keepfs_check::read::View;
use keepfs_format::superblock::slot_page;
use keepfs_format::{MetaId, PAGE, Space};

fn ruin(built: &mut Built, pages: impl IntoIterator<Item = u64>) {
    for page in pages.into_iter().filter(|page| *page != 0) {
        built.bytes[page as usize * PAGE..][..PAGE].fill(0x77);
    }
}

/// All that salvage asks of a pool: numbers, names and inodes.
fn seen(view: &mut View<'_>) -> String {
    let (numbers, bad) = view.inodes();
    let of = |view: &mut View<'_>, ino| format!("{ino}: {:?} {:?}\n", view.inode_view(ino), view.entries(ino));
    let all: Vec<String> = numbers.iter().map(|ino| of(view, *ino)).collect();
    format!("{bad} {}", all.concat())
}

#[test]
fn a_map_that_is_lost_is_put_together() {
    let mut built = sample::pool_with_log().build();
    let whole = seen(&mut View::open(&built.bytes).unwrap());
    let roots = built.sb.roots;
    for root in roots {
        ruin(&mut built, [root.entry.first.get(), root.entry.second.get()]);
    }
    let mut view = View::salvage(&built.bytes).unwrap();
    assert!(
        view.findings()
            .iter()
            .any(|f| matches!(f, Finding::MapFound { found: 5.. }))
    );
    assert_eq!(seen(&mut view), whole);
}

#[test]
fn a_pool_without_superblock_is_found() {
    let mut built = sample::pool().build();
    let whole = seen(&mut View::open(&built.bytes).unwrap());
    built.bytes[..PAGE].fill(0);
    ruin(&mut built, (0..4).map(|slot| slot_page(slot, PAGES)));
    assert!(View::open(&built.bytes).is_err());
    assert_eq!(seen(&mut View::salvage(&built.bytes).unwrap()), whole);
}

#[test]
fn a_map_of_files_that_is_lost_may_have_led_to_newer_ones() {
    // The map of bitmaps leads to nothing of a file.
    for (space, is_of_files) in [(Space::Nodes, true), (Space::Inodes, true), (Space::Pages, false)] {
        let mut built = sample::pool_with_log().build();
        let root = built.sb.roots[space as usize];
        ruin(&mut built, [root.entry.first.get(), root.entry.second.get()]);
        let view = View::salvage(&built.bytes).unwrap();
        assert_eq!(
            (view.may_be_older(), view.losses().len()),
            (is_of_files, usize::from(is_of_files)),
            "{space:?}: {:?}",
            view.losses()
        );
        let plan = plan(&built.bytes).unwrap();
        assert_eq!(plan.may_be_older, is_of_files, "{space:?}: {:?}", plan.actions);
        let map = MetaId::map(space, root.height - 1, 0).0;
        let is_told = plan.given_up.iter().any(|entry| (entry.inode, entry.id) == (0, map));
        assert_eq!(is_told, is_of_files, "{space:?}: {:?}", plan.given_up);
    }
}
