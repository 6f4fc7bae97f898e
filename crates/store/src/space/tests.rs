//! Which freed pages are handed out at once (S-11.2).

use super::*;

const ZONE: u32 = 256;

fn space() -> Space {
    let space = Space::default();
    let zone = |number: u64| OpenZone::new(number, number * u64::from(ZONE), ZONE, |_| false);
    space.start(2 * u64::from(ZONE), 0, [zone(0), zone(1)]);
    space
}

/// A transaction allocates `pages` pages and commits.
fn allocate(space: &Space, pages: u32) -> Run {
    let runs = space.reserve(pages, Purpose::New).expect("room");
    space.keep(&runs);
    runs.iter().for_each(|run| space.born(*run));
    space.used(u64::from(pages));
    assert_eq!(runs.len(), 1);
    runs[0]
}

fn part(run: Run, from: u32, count: u32) -> Run {
    Run {
        start: run.start + u64::from(from),
        count,
    }
}

#[test]
fn what_one_group_allocates_and_frees_is_used_first() {
    let space = space();
    let first = allocate(&space, 16);
    allocate(&space, 16);
    space.freed(1, first);
    assert_eq!(space.figures().quarantined, 0);
    assert_eq!(allocate(&space, 10), part(first, 0, 10));
    assert_eq!(allocate(&space, 6), part(first, 10, 6));
    assert_eq!(allocate(&space, 1).start, 32);
    assert_eq!(space.figures().free, 2 * u64::from(ZONE) - 33);
}

#[test]
fn what_an_earlier_group_allocated_waits_in_quarantine() {
    let space = space();
    let first = allocate(&space, 16);
    space.cut();
    space.freed(1, first);
    assert_eq!(space.quarantined(), [(1, first)]);
    assert_eq!(allocate(&space, 16).start, 16);
    assert_eq!(space.release(1), [first]);
    assert_eq!(space.figures().quarantined, 0);
}

#[test]
fn a_run_of_both_is_divided() {
    let space = space();
    let old = allocate(&space, 8);
    space.cut();
    let young = allocate(&space, 8);
    assert_eq!(young.start, old.start + 8);
    space.freed(1, part(old, 0, 16));
    assert_eq!(space.quarantined(), [(1, old)]);
    assert_eq!(allocate(&space, 8), young);
}

#[test]
fn a_page_handed_out_meanwhile_is_not_handed_out_again() {
    let space = space();
    let first = allocate(&space, 4);
    space.freed(1, first);
    // All that is left but one page, then what is remembered is no longer free.
    let all = space.reserve_some(2 * ZONE);
    assert_eq!(all.iter().map(|run| run.count).sum::<u32>(), 2 * ZONE);
    assert_eq!(space.reserve_some(4), []);
}

#[test]
fn a_refused_page_stays_hidden_whatever_its_age() {
    let space = space();
    let first = allocate(&space, 4);
    space.refused(first.start + 1);
    space.freed(1, first);
    assert_eq!(space.figures().bad, 1);
    let again = space.reserve(4, Purpose::New).expect("room");
    assert!(again.iter().all(|run| run.start > first.start + 1), "{again:?}");
}
