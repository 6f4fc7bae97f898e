//! Which freed pages are handed out at once (S-11.2).

use super::*;
use keepfs_flash::gate::Gate;
use keepfs_pool::stats::Times;
use keepfs_vault::STRIPES;

const ZONE: u32 = 256;

fn space() -> Space {
    let space = Space::default();
    let zone = |number: u64| OpenZone::new(number, number * u64::from(ZONE), ZONE, |_| false);
    space.start(2 * u64::from(ZONE), 0, [zone(0), zone(1)]);
    space
}

/// A transaction allocates `pages` pages and commits.
fn allocate(space: &Space, pages: u32) -> Run {
    let (runs, _) = space
        .reserve(space.holder(), pages, Purpose::New, Near::Current)
        .expect("room");
    let alloc = |run: &Run| Record::Alloc {
        space: keepfs_format::Space::Pages,
        run: *run,
    };
    let records: Vec<Record> = runs.iter().map(alloc).collect();
    space.follow(1, &records, u64::from(pages));
    assert_eq!(runs.len(), 1);
    runs[0]
}

/// Transaction `seq` frees a run and commits.
fn freed(space: &Space, seq: u64, run: Run) {
    let record = Record::Free {
        space: keepfs_format::Space::Pages,
        run,
    };
    space.follow(seq, &[record], 0);
}

/// Somebody takes everything that the open zones have.
fn take_all(space: &Space) -> Vec<Run> {
    let mut claim = space.claim_some(space.holder(), 2 * ZONE, Purpose::New);
    space.take_open(&mut claim)
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
    freed(&space, 1, first);
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
    freed(&space, 1, first);
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
    freed(&space, 1, part(old, 0, 16));
    assert_eq!(space.quarantined(), [(1, old)]);
    assert_eq!(allocate(&space, 8), young);
}

#[test]
fn a_page_handed_out_meanwhile_is_not_handed_out_again() {
    let space = space();
    let first = allocate(&space, 4);
    freed(&space, 1, first);
    // All that is left but one page, then what is remembered is no longer free.
    let all = take_all(&space);
    assert_eq!(all.iter().map(|run| run.count).sum::<u32>(), 2 * ZONE);
    assert_eq!(take_all(&space), []);
}

#[test]
fn a_refused_page_stays_hidden_whatever_its_age() {
    let space = space();
    let first = allocate(&space, 4);
    space.refused(first.start + 1);
    freed(&space, 1, first);
    assert_eq!(space.figures().bad, 1);
    let (again, _) = space
        .reserve(space.holder(), 4, Purpose::New, Near::Current)
        .expect("room");
    assert!(again.iter().all(|run| run.start > first.start + 1), "{again:?}");
}

/// A writer's pages come from one open zone, another's from the other one, of which half is left; a file's stay together.
#[test]
fn two_writers_take_their_pages_from_different_zones() {
    let space = space();
    let zone_of = |near: Near| {
        let (runs, _) = space.reserve(space.holder(), 2, Purpose::New, near).expect("room");
        runs[0].start / u64::from(ZONE)
    };
    let by_other = || std::thread::scope(|scope| scope.spawn(|| zone_of(Near::Thread)).join().expect("no panic"));
    let mine = zone_of(Near::Thread);
    assert_eq!((mine, zone_of(Near::Thread)), (0, 0));
    assert_eq!(zone_of(Near::Page(u64::from(ZONE))), 1);
    assert_eq!(zone_of(Near::Page(9 * u64::from(ZONE))), 0);
    let others: Vec<u64> = (0..STRIPES).map(|_| by_other()).collect();
    assert!(others.contains(&1), "{others:?}");
    space
        .reserve(
            space.holder(),
            u32::from(u8::MAX) / 2,
            Purpose::New,
            Near::Page(u64::from(ZONE)),
        )
        .expect("room");
    assert_eq!(zone_of(Near::Page(u64::from(ZONE))), 0);
}

/// What a transaction allocated is held for it no more: freed and durable, it is there for others in a zone that is opened again.
#[test]
fn what_is_allocated_is_held_no_more() {
    let space = space();
    let run = allocate(&space, 16);
    space.cut();
    freed(&space, 2, run);
    assert_eq!(space.release(2), [run]);
    let (gate, times) = (Gate::default(), Times::default());
    let shut = gate.own().close(&times).expect("nobody is inside");
    let zone = |number: u64| {
        let zone = OpenZone::new(number, number * u64::from(ZONE), ZONE, |_| false);
        Some(Settled::new(&shut, zone))
    };
    space.open_zones([2, 3], [zone(2), zone(3)]);
    space.open_zones([0, 1], [zone(0), zone(1)]);
    assert_eq!(allocate(&space, 32), Run { start: 0, count: 32 });
}

/// S-11.3: a reservation that ends gives back what it still has: not what its transaction allocated, nor what was freed since
/// and is somebody else's.
#[test]
fn giving_back_frees_nothing_of_others() {
    let space = space();
    let holder = space.holder();
    let (runs, _) = space.reserve(holder, 16, Purpose::New, Near::Current).expect("room");
    let (first, second) = (part(runs[0], 0, 8), part(runs[0], 8, 8));
    let alloc = Record::Alloc {
        space: keepfs_format::Space::Pages,
        run: first,
    };
    space.follow(1, &[alloc], 8);
    // What is freed in the same group goes to the next who asks.
    freed(&space, 1, part(first, 0, 2));
    let (others, _) = space
        .reserve(space.holder(), 2, Purpose::New, Near::Current)
        .expect("room");
    assert_eq!(others, [part(first, 0, 2)]);
    space.give_back(holder, &runs);
    assert_eq!(space.figures().reserved, 2);
    space.leave(holder, first.start, true);
    assert_eq!(space.figures().bad, 0);
    let all = take_all(&space);
    let has = |page: u64| {
        all.iter()
            .any(|run| (run.start..run.start + u64::from(run.count)).contains(&page))
    };
    let pages = |run: Run| run.start..run.start + u64::from(run.count);
    assert!(!pages(first).any(has), "{all:?}");
    assert!(pages(second).all(has), "{all:?}");
}

/// S-11.3: what is allocated is held no more page by page, however the runs of a transaction and of who held them are cut.
#[test]
fn what_is_allocated_is_held_no_more_however_it_is_cut() {
    let space = space();
    let reserve = |holder| space.reserve(holder, 8, Purpose::New, Near::Current).expect("room").0[0];
    let (one, other) = (space.holder(), space.holder());
    let (first, second) = (reserve(one), reserve(other));
    space.leave(one, first.start + 3, true);
    // All of them but the page that went elsewhere, in two records that end within what was held.
    let alloc = |from: u32, count: u32| Record::Alloc {
        space: keepfs_format::Space::Pages,
        run: part(first, from, count),
    };
    assert_eq!(second, part(first, 8, 8));
    space.follow(1, &[alloc(0, 3), alloc(4, 10), alloc(14, 2)], 15);
    assert_eq!((space.figures().reserved, space.figures().bad), (0, 1));
    assert_eq!(space.inner.lock().held.runs().count(), 0);
}

/// S-11.11: of two who look for more than the open zones have, each has what it asked for, or nothing.
#[test]
fn what_is_counted_for_one_is_nobody_elses() {
    let space = space();
    let half = ZONE + 1;
    let mut one = space
        .claim(space.holder(), half, Purpose::New)
        .expect("there are so many");
    assert!(space.claim(space.holder(), half, Purpose::New).is_none());
    assert_eq!(
        space.reserve(space.holder(), half, Purpose::New, Near::Current).err(),
        Some(Refused::NoSpace)
    );
    let mut rest = space.claim_some(space.holder(), half, Purpose::New);
    assert_eq!(rest.left(), half - 2);
    let found = |claim: &mut Claim<'_>| space.take_open(claim).iter().map(|run| run.count).sum::<u32>();
    assert_eq!((found(&mut rest), found(&mut one)), (half - 2, half));
    drop((one, rest));
    assert_eq!(space.figures().reserved, u64::from(2 * ZONE));
    drop(space.claim_some(space.holder(), 1, Purpose::New));
    assert_eq!(space.figures().reserved, u64::from(2 * ZONE));
}
