//! A pool without its map, or without any superblock, is found by headers (S-21.2, S-21.15).

use crate::builder::{Built, PAGES};
use crate::sample;
use keepfs_check::Finding;
use keepfs_check::read::View;
use keepfs_format::PAGE;
use keepfs_format::superblock::slot_page;

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
