//! Repair: whatever is lost, what is left is a sound pool (S-21.3, S-21.4, S-21.5).

use crate::builder::{Built, PAGES, node};
use crate::hostile::{Random, mutate};
use crate::sample;
use keepfs_check::mend::{Plan, Refusal, plan};
use keepfs_check::read::View;
use keepfs_check::{Options, walk};
use keepfs_format::history::REPAIR;
use keepfs_format::superblock::{slot_page, slots_of};
use keepfs_format::{MetaId, PAGE, Space};

fn ruin(bytes: &mut [u8], pages: impl IntoIterator<Item = u64>) {
    for page in pages.into_iter().filter(|page| *page != 0) {
        bytes[page as usize * PAGE..][..PAGE].fill(0x77);
    }
}

/// Repairs an image. What stands then must be sound, and need no repair.
#[track_caller]
fn repaired(bytes: &[u8]) -> (Vec<u8>, Plan) {
    let plan = plan(&bytes).unwrap_or_else(|refusal| panic!("{refusal}\n{}", walk(&bytes, &Options::default())));
    let mut after = bytes.to_vec();
    for write in &plan.writes {
        after[write.page as usize * PAGE..][..PAGE].copy_from_slice(&write.bytes[..]);
    }
    let report = walk(&after, &Options::default());
    assert!(report.is_sound(), "{:#?}\n{report}", plan.actions);
    assert_eq!(report.findings, plan.after.findings);
    let again = self::again(&after);
    assert!(
        again.writes.is_empty(),
        "{:#?}\n{:#?}\n{report}",
        plan.actions,
        again.actions
    );
    (after, plan)
}

fn again(bytes: &[u8]) -> Plan {
    plan(&bytes).unwrap()
}

/// Every name of a pool and what it leads to, by directory.
fn names(bytes: &[u8]) -> Vec<String> {
    let mut view = View::open(&bytes).unwrap();
    let numbers = view.inodes().0;
    let mut names: Vec<String> = Vec::new();
    for ino in numbers {
        let entries = view.entries(ino).entries;
        names.extend(
            entries
                .iter()
                .map(|entry| format!("{ino}/{} {}", entry.name, entry.ino)),
        );
    }
    names.sort();
    names
}

fn places(built: &Built) -> Vec<(MetaId, [u64; 2])> {
    let live = built.places.iter().filter(|(_, entry)| entry.first.get() != 0);
    live.map(|(id, entry)| (MetaId(*id), [entry.first.get(), entry.second.get()]))
        .collect()
}

#[test]
fn a_sound_pool_is_left_alone() {
    for built in [sample::pool().build(), sample::pool_with_log().build()] {
        let plan = plan(&built.bytes).unwrap();
        assert!(plan.writes.is_empty() && plan.actions.is_empty(), "{plan:?}");
    }
}

/// S-21.18: the new superblock goes to the slots that hold none, and that in force stays beside it, whether the newer one is told
/// of or not.
#[test]
fn a_generation_of_superblocks_may_be_lost() {
    for (is_told, parity) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        let mut built = match is_told {
            true => sample::pool_with_log().build(),
            false => sample::pool().build(),
        };
        ruin(
            &mut built.bytes,
            [parity, parity + 2].map(|slot| slot_page(slot, PAGES)),
        );
        if parity == 0 {
            built.page(0).fill(0x77);
        }
        let (after, plan) = repaired(&built.bytes);
        assert!(!plan.writes.is_empty(), "{is_told} {parity}");
        let report = walk(&after, &Options::default());
        assert_eq!(
            (report.findings, slots_of(report.generation)),
            (vec![], [parity, parity + 2])
        );
    }
}

/// S-9.24, S-21.18: a repair does nothing for wrong bits in a page of the log alone. One that has another cause and is cut before its
/// superblock leaves the page as it was, to be read without them, until it has a second run of them: then its group is none.
#[test]
fn wrong_bits_of_the_log_stay_until_a_checkpoint() {
    let flip = |bytes: &mut [u8], page: u64, at: usize| bytes[page as usize * PAGE + at] ^= 1;
    let read = |bytes: &[u8]| {
        let report = walk(&bytes, &Options::default());
        let of_log = report.findings.iter().filter(|f| f.code().starts_with("log"));
        (of_log.map(|f| f.code()).collect::<Vec<_>>(), report.log_groups)
    };
    let last = 8 + 51 % 32;
    let mut bytes = sample::pool_with_log().build().bytes;
    flip(&mut bytes, last, 30);
    assert_eq!(read(&bytes), (vec!["log-flipped"], 2));
    assert!(again(&bytes).writes.is_empty());
    flip(&mut bytes, slot_page(1, PAGES), 3000);
    let (whole, plan) = repaired(&bytes);
    assert_eq!(
        read(&whole).0,
        Vec::<&str>::new(),
        "its checkpoint has what the log had"
    );
    let mut cut = bytes;
    for write in plan.writes.iter().filter(|write| !write.is_superblock) {
        assert_ne!(write.page, last);
        cut[write.page as usize * PAGE..][..PAGE].copy_from_slice(&write.bytes[..]);
    }
    assert_eq!(read(&cut), (vec!["log-flipped"], 2));
    flip(&mut cut, last, 70);
    assert_eq!(read(&cut), (vec![], 1));
    flip(&mut cut, last, 30);
    assert_eq!(read(&cut), (vec!["log-flipped"], 2));
}

#[test]
fn each_metablock_may_be_lost() {
    for with_log in [false, true] {
        let build = || match with_log {
            true => sample::pool_with_log().build(),
            false => sample::pool().build(),
        };
        let whole = names(&build().bytes);
        for (id, pages) in places(&build()) {
            let mut built = build();
            ruin(&mut built.bytes, pages);
            let (after, plan) = repaired(&built.bytes);
            assert!(!plan.actions.is_empty(), "{id}");
            let counted = !matches!(id.space(), Some(Space::Nodes | Space::Inodes));
            if counted {
                assert_eq!(names(&after), whole, "{id}: {:#?}", plan.actions);
            }
        }
    }
}

#[test]
fn two_metablocks_may_be_lost() {
    let places = places(&sample::pool_with_log().build());
    for (n, (_, first)) in places.iter().enumerate() {
        for (_, second) in places.iter().skip(n + 1).step_by(3) {
            let mut built = sample::pool_with_log().build();
            ruin(&mut built.bytes, first.iter().chain(second).copied());
            repaired(&built.bytes);
        }
    }
}

/// S-21.16: what is computed from all that is reached.
#[test]
fn what_is_computed_may_all_be_lost() {
    let mut built = sample::pool_with_log().build();
    let whole = names(&built.bytes);
    for (id, pages) in places(&built) {
        if !matches!(id.space(), Some(Space::Nodes | Space::Inodes)) {
            ruin(&mut built.bytes, pages);
        }
    }
    let (after, _) = repaired(&built.bytes);
    assert_eq!(names(&after), whole);
}

#[test]
fn the_map_may_be_lost() {
    let mut built = sample::pool_with_log().build();
    let whole = names(&built.bytes);
    for root in built.sb.roots {
        ruin(&mut built.bytes, [root.entry.first.get(), root.entry.second.get()]);
    }
    let (after, _) = repaired(&built.bytes);
    assert_eq!(names(&after), whole);
}

/// Where nothing tells the homes, a metablock that was written over an older superblock has none there.
#[test]
fn a_metablock_in_the_place_of_a_superblock_is_none() {
    let mut builder = sample::pool_with_log();
    builder.sb.meta_copies = 1.into();
    let mut built = builder.build();
    for root in built.sb.roots {
        ruin(&mut built.bytes, [root.entry.first.get(), root.entry.second.get()]);
    }
    let [_, older] = slots_of(built.sb.generation.get() + 1);
    let place = slot_page(older, PAGES) as usize * PAGE;
    let (_, pages) = places(&built)
        .into_iter()
        .find(|(id, _)| id.space() == Some(Space::Nodes))
        .unwrap();
    let page = pages[0] as usize * PAGE;
    built.bytes.copy_within(page..page + PAGE, place);
    ruin(&mut built.bytes, pages);
    repaired(&built.bytes);
}

/// The pages of the map of INODES and NODES.
fn map_of_files(built: &Built) -> Vec<u64> {
    let of_files = |id: &u64| matches!(MetaId(*id).as_map(), Some((Space::Inodes | Space::Nodes, ..)));
    let maps = built
        .places
        .iter()
        .filter(|(id, _)| of_files(id))
        .map(|(_, entry)| *entry);
    let roots = [Space::Inodes, Space::Nodes].map(|space| built.sb.roots[space as usize].entry);
    maps.chain(roots)
        .flat_map(|entry| [entry.first.get(), entry.second.get()])
        .collect()
}

/// A pool whose map is lost has no sums: what is found by its header may say anything. It costs what is garbage, not the pool.
#[test]
fn garbage_without_a_sum_costs_itself() {
    let mut bad = Vec::new();
    for seed in 1..=300 {
        let mut random = Random(u64::wrapping_mul(seed, 0x9e37_79b9_7f4a_7c15));
        let mut built = match seed % 2 {
            0 => sample::pool_with_log().build(),
            _ => sample::pool().build(),
        };
        let map = map_of_files(&built);
        ruin(&mut built.bytes, map);
        let of_files = |(id, _): &(MetaId, [u64; 2])| matches!(id.space(), Some(Space::Inodes | Space::Nodes));
        let places: Vec<(MetaId, [u64; 2])> = places(&built).into_iter().filter(of_files).collect();
        for _ in 0..=random.below(4) {
            let (_, [first, second]) = places[random.below(places.len() as u64) as usize];
            let content = first as usize * PAGE + 32..(first as usize + 1) * PAGE;
            for _ in 0..=random.below(12) {
                mutate(&mut random, &mut built.bytes[content.clone()]);
            }
            let copy = built.bytes[first as usize * PAGE..][..PAGE].to_vec();
            built.bytes[second as usize * PAGE..][..PAGE].copy_from_slice(&copy);
        }
        if std::panic::catch_unwind(|| repaired(&built.bytes)).is_err() {
            bad.push(seed);
        }
    }
    assert!(bad.is_empty(), "seeds {bad:?}");
}

/// S-21.17, S-5.2 to S-5.4: each field of an inode that a pool without sums may have wrong.
#[test]
fn a_field_that_is_not_allowed_costs_no_more_than_its_inode() {
    type Edit = fn(&mut keepfs_format::inode::Inode);
    let whole = names(&sample::pool().build().bytes);
    // The number of inodes that go.
    let edits: [(u64, Edit, usize); 12] = [
        (5, |i| i.size = u64::MAX.into(), 0),
        (5, |i| i.height = 9, 0),
        (5, |i| i.root = 0.into(), 0),
        (4, |i| i.body = 77, 0),
        (4, |i| i.height = 3, 0),
        (4, |i| i.root = 5.into(), 0),
        (4, |i| i.born = 0.into(), 0),
        (7, |i| (i.size, i.root, i.body) = (5.into(), 9.into(), 3), 0),
        (9, |i| (i.size, i.height, i.xattrs) = (5.into(), 1, 7.into()), 0),
        (4, |i| i.mode = 0.into(), 1),
        (6, |i| i.size = 0.into(), 1),
        (2, |i| i.mode = (0x7004_1000).into(), 1),
    ];
    for (n, (ino, edit, gone)) in edits.into_iter().enumerate() {
        let mut builder = sample::pool();
        builder.inode(ino, edit);
        let mut built = builder.build();
        let map = map_of_files(&built);
        ruin(&mut built.bytes, map);
        let name = whole.iter().find(|name| name.ends_with(&format!(" {ino}"))).unwrap();
        let (after, plan) = repaired(&built.bytes);
        assert_eq!(
            plan.after.counts.inodes,
            13 + u64::from(ino == 2) - gone as u64,
            "{n}: {:#?}",
            plan.actions
        );
        assert_eq!(names(&after).contains(name), gone == 0, "{n}: {:#?}", plan.actions);
    }
}

/// S-21.17: a file that is too large for the pool to mark what it lost ends where that begins; the rest of the pool is repaired.
#[test]
fn a_file_may_lose_more_than_can_be_marked() {
    for (lost, size, ends) in [
        (sample::TREE_ROOT, 1 << 50, Some(0)),
        (sample::TREE_ROOT, 254 * PAGE as u64 * 4, None),
        (sample::TREE_B, 1 << 50, None),
    ] {
        let mut builder = sample::pool();
        builder.inode(5, |inode| inode.size = size.into());
        let mut built = builder.build();
        let whole = names(&built.bytes);
        let pages = [
            built.places[&node(lost).0].first.get(),
            built.places[&node(lost).0].second.get(),
        ];
        ruin(&mut built.bytes, pages);
        let (after, plan) = repaired(&built.bytes);
        let inode = View::open(&after).unwrap().inode(5).unwrap();
        assert_eq!(inode.size.get(), ends.unwrap_or(size), "{:#?}", plan.actions);
        let told = plan
            .actions
            .iter()
            .any(|action| action.contains("inode 5 is cut to 0 bytes"));
        assert_eq!(told, ends.is_some(), "{:#?}", plan.actions);
        assert_eq!(names(&after), whole);
    }
}

#[test]
fn a_pool_that_a_later_version_may_have_written_is_left_alone() {
    let mut builder = sample::pool();
    builder.sb.ro_compat = (1 << 40).into();
    assert!(matches!(plan(&builder.build().bytes), Err(Refusal::Unknown(_))));
    let none = vec![0; PAGES as usize * PAGE];
    assert!(matches!(plan(&none), Err(Refusal::NoPool(_))));
}

/// S-4.8: names of inodes that a mount gave up go, as decision 0800 promises.
#[test]
fn what_is_lost_by_its_own_word_is_cut_off() {
    let mut builder = sample::pool();
    builder.on_entry = Some(|id, entry| {
        if id == MetaId::new(Space::Inodes, 0) {
            entry.crc = keepfs_format::map::LOST.into();
        }
    });
    let built = builder.build();
    assert!(walk(&built.bytes, &Options::default()).is_sound());
    let (after, plan) = repaired(&built.bytes);
    assert!(
        plan.actions.iter().any(|action| action.contains("is removed")),
        "{:#?}",
        plan.actions
    );
    let is_named = plan
        .given_up
        .iter()
        .any(|entry| entry.place == REPAIR && entry.path.len() > 1);
    assert!(is_named, "{:#?}", plan.given_up);
    let findings = walk(&after, &Options::default()).findings;
    assert!(
        !findings
            .iter()
            .any(|f| matches!(f, keepfs_check::Finding::MetaLost { .. })),
        "{findings:?}"
    );
}
