//! Repair: whatever is lost, what is left is a sound pool (S-21.3, S-21.4, S-21.5).

use crate::builder::{Built, PAGES};
use crate::sample;
use keepfs_audit::mend::{Plan, Refusal, plan};
use keepfs_audit::read::View;
use keepfs_audit::{Options, walk};
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

#[test]
fn a_pool_that_a_later_version_may_have_written_is_left_alone() {
    let mut builder = sample::pool();
    builder.sb.ro_compat = (1 << 40).into();
    assert!(matches!(plan(&builder.build().bytes), Err(Refusal::Unknown(_))));
    let none = vec![0; PAGES as usize * PAGE];
    assert!(matches!(plan(&none), Err(Refusal::NoPool(_))));
}

/// S-4.8: names of inodes that a mount gave up go, as decision 0838 promises.
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
    let findings = walk(&after, &Options::default()).findings;
    assert!(
        !findings
            .iter()
            .any(|f| matches!(f, keepfs_audit::Finding::MetaLost { .. })),
        "{findings:?}"
    );
}
