//! A map page that no sum vouches for is believed entry by entry, and never hides what a search by headers would find (S-21.14).

use crate::builder::{Builder, Built, node};
use crate::sample;
use keepfs_check::mend::plan;
use keepfs_check::read::{Part, View};
use keepfs_check::{Finding, Options, walk};
use keepfs_codes::crc64;
use keepfs_format::map::{MapEntry, entry_offset};
use keepfs_format::{MetaId, PAGE, Space};

/// All that salvage asks of a pool: numbers, names, inodes and pages.
fn seen(view: &mut View<'_>) -> String {
    let (numbers, bad) = view.inodes();
    let of = |view: &mut View<'_>, ino| {
        let mut pages: Vec<(u64, Option<u64>)> = Vec::new();
        view.each_page(ino, &mut |index, part| match part {
            Part::Data(bytes) => pages.push((index, Some(crc64::full(bytes)))),
            Part::Bad(_) => pages.push((index, None)),
        });
        format!(
            "{ino}: {:?} {:?} {:?} {pages:?}\n",
            view.inode_view(ino),
            view.entries(ino),
            view.xattrs(ino)
        )
    };
    let all: Vec<String> = numbers.iter().map(|ino| of(view, *ino)).collect();
    format!("{bad} {}", all.concat())
}

/// A pool with a map page above each that has entries.
fn pool(copies: u32) -> Builder {
    let mut b = sample::pool();
    b.sb.meta_copies = copies.into();
    for space in [Space::Nodes, Space::Inodes] {
        b.heights.insert(space, 2);
    }
    b
}

fn pages(built: &Built, id: MetaId) -> Vec<u64> {
    let entry = built.places[&id.0];
    let pages = [entry.first.get(), entry.second.get()];
    pages.into_iter().filter(|page| *page != 0).collect()
}

/// No sum leads to the map pages of the lowest level.
fn unsummed(built: &mut Built, space: Space) -> Vec<u64> {
    for page in pages(built, MetaId::map(space, 1, 0)) {
        built.page(page).fill(0);
    }
    pages(built, MetaId::map(space, 0, 0))
}

#[track_caller]
fn all_is_found(built: &Built, whole: &str, what: &str) {
    let salvaged = seen(&mut View::salvage(&built.bytes).unwrap());
    assert_eq!(salvaged, whole, "{what}");
    let plan = plan(&built.bytes).unwrap();
    let mut after = built.bytes.clone();
    for write in &plan.writes {
        after[write.page as usize * PAGE..][..PAGE].copy_from_slice(&write.bytes[..]);
    }
    let (report, found) = (
        walk(&after, &Options::default()),
        seen(&mut View::open(&after).unwrap()),
    );
    assert!(report.is_sound(), "{what}: {report}");
    assert_eq!(found, whole, "{what}: {:#?}", plan.actions);
}

/// A part of a page, as damage comes.
fn parts() -> Vec<core::ops::Range<usize>> {
    let entry = |slot| entry_offset(slot);
    vec![
        entry(1)..PAGE,
        entry(4)..PAGE,
        PAGE / 2..PAGE,
        entry(0)..entry(5),
        entry(2) + 8..entry(6) + 12,
        0..PAGE,
        0..0,
    ]
}

#[test]
fn what_a_map_page_lost_is_looked_for() {
    for copies in [1, 2] {
        for space in [Space::Nodes, Space::Inodes] {
            for (part, fill) in parts().into_iter().flat_map(|part| [(part.clone(), 0), (part, 0x5a)]) {
                for damaged in [&[0][..], &[1], &[0, 1]] {
                    let mut built = pool(copies).build();
                    let whole = seen(&mut View::open(&built.bytes).unwrap());
                    let maps = unsummed(&mut built, space);
                    for page in damaged.iter().filter_map(|n| maps.get(*n)) {
                        built.page(*page)[part.clone()].fill(fill);
                    }
                    all_is_found(
                        &built,
                        &whole,
                        &format!("{space:?} {copies} {part:?} {fill} {damaged:?}"),
                    );
                }
            }
        }
    }
}

/// Writes another content over a map page that is not used any more.
fn older(built: &mut Built, space: Space, edit: impl FnOnce(&mut [u8])) {
    let from = pages(built, MetaId::map(space, 0, 0))[0] as usize * PAGE;
    let mut page = built.bytes[from..from + PAGE].to_vec();
    edit(&mut page);
    // The last page of the second chunk, which nothing uses.
    built.page(331).copy_from_slice(&page);
}

#[test]
fn an_older_map_page_says_which_copy_is_whole() {
    for spoiled in [0, 1] {
        let mut built = pool(2).build();
        let whole = seen(&mut View::open(&built.bytes).unwrap());
        older(&mut built, Space::Nodes, |_| {});
        for page in unsummed(&mut built, Space::Nodes) {
            built.page(page).fill(0);
        }
        // One copy of a block map node: laid out as it may be, as new as the other one, and with more in it.
        let page = pages(&built, node(sample::TREE_A))[spoiled];
        let entry: Vec<u8> = built.page(page)[32..48].to_vec();
        built.page(page)[32 + 16 * 9..32 + 16 * 10].copy_from_slice(&entry);
        all_is_found(&built, &whole, &format!("copy {spoiled}"));
    }
}

#[test]
fn what_is_damaged_is_not_taken_for_what_the_map_page_means() {
    let mut built = pool(2).build();
    unsummed(&mut built, Space::Nodes);
    for page in pages(&built, node(sample::TREE_A)) {
        built.page(page)[32..].fill(0);
    }
    let mut view = View::salvage(&built.bytes).unwrap();
    assert!(view.metablock(node(sample::TREE_A)).is_err());
    assert!(view.page(5, 0).is_err());
    let actions = plan(&built.bytes).unwrap().actions;
    assert!(
        actions
            .iter()
            .any(|action| action.contains("pages of inode 5 are lost")),
        "{actions:#?}"
    );
}

#[test]
fn one_flipped_bit_of_a_sum_loses_nothing() {
    let mut built = pool(1).build();
    let whole = seen(&mut View::open(&built.bytes).unwrap());
    let map = unsummed(&mut built, Space::Nodes)[0];
    let at = entry_offset(sample::TREE_A) + core::mem::offset_of!(MapEntry, crc);
    built.page(map)[at] ^= 4;
    all_is_found(&built, &whole, "a bit");
}

#[test]
fn what_a_map_page_says_is_there_and_is_not_found_is_told() {
    let mut built = pool(2).build();
    unsummed(&mut built, Space::Inodes);
    let block = MetaId::new(Space::Inodes, 1);
    for page in pages(&built, block) {
        built.page(page).fill(0);
    }
    let mut view = View::salvage(&built.bytes).unwrap();
    assert_eq!(view.inodes().1, 1);
    let is_told = |f: &Finding| matches!(f, Finding::Metablock { id, .. } if *id == block.into());
    assert!(view.findings().iter().any(is_told));
    let actions = plan(&built.bytes).unwrap().actions;
    assert!(
        actions.iter().any(|action| action.contains("inodes 15 to 29")),
        "{actions:#?}"
    );
}
