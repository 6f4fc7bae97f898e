//! Lookup counts by several threads, over several lives, in little memory (S-16.7, S-16.23).

use super::*;
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_store::{FormatOptions, Store};

fn pool() -> Pool {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    Pool::on(&*device).expect("a pool")
}

fn lookups() -> Lookups {
    Lookups::new(&pool(), Guard::Alias, false).expect("memory")
}

/// Memory that is in use, bytes.
fn used(lookups: &Lookups) -> usize {
    let ranges = lookups.region.written_ranges().expect("ranges");
    ranges.into_iter().map(|range| range.len()).sum()
}

#[test]
fn counts_go_up_and_down() {
    let lookups = lookups();
    assert!(!lookups.held(7) && !lookups.lower(7, 1));
    lookups.raise(7);
    lookups.raise(7);
    lookups.raise(6);
    assert!(lookups.held(7) && lookups.held(6) && !lookups.held(5));
    assert!(!lookups.lower(7, 1) && lookups.held(7));
    assert!(lookups.lower(7, 1) && !lookups.held(7) && lookups.held(6));
    lookups.raise(8);
    assert!(lookups.lower(8, 9) && !lookups.held(8), "more than there are");
    lookups.clear();
    assert!(!lookups.held(6));
}

#[test]
fn numbers_beyond_the_pool_count_as_held() {
    let lookups = lookups();
    let beyond = lookups.end;
    lookups.raise(beyond - 1);
    lookups.raise(beyond);
    assert!(!lookups.lower(beyond, 1) && lookups.held(beyond) && lookups.held(u64::MAX));
    assert!(lookups.lower(beyond - 1, 1));
}

#[test]
fn a_full_count_stays() {
    let lookups = lookups();
    lookups.change(5, |_| Some(COUNT)).expect("set");
    lookups.raise(5);
    assert!(!lookups.lower(5, 1 << 40) && lookups.held(5) && !lookups.held(4));
}

#[test]
fn who_never_had_a_name_stands_with_the_count() {
    let lookups = lookups();
    lookups.set_linkable(5, true);
    assert!(!lookups.is_linkable(5), "nobody holds it");
    lookups.raise(5);
    lookups.set_linkable(5, true);
    lookups.raise(5);
    assert!(lookups.is_linkable(5) && !lookups.is_linkable(4));
    assert!(!lookups.lower(5, 1) && lookups.is_linkable(5));
    lookups.set_linkable(5, false);
    assert!(!lookups.is_linkable(5) && lookups.held(5));
    lookups.set_linkable(5, true);
    assert!(lookups.lower(5, 1) && !lookups.is_linkable(5));
}

/// Each held inode is held in the next life, and pages are known again.
#[test]
fn the_next_life_has_the_counts() {
    let (pool, first) = (pool(), lookups());
    let pool = Pool { id: pool.id, ..pool };
    let first = Lookups {
        region: {
            twice::store(&first.region, 0, &header(&pool));
            first.region
        },
        ..first
    };
    for ino in (1..60_000).step_by(7) {
        first.raise(ino);
        first.raise(ino);
    }
    let memory = first
        .descriptor()
        .expect("it lasts")
        .try_clone_to_owned()
        .expect("again");
    let (next, changed) = Lookups::adopt(memory, &pool, Guard::Alias, false).expect("adopted");
    assert_eq!(changed, Found::Both(()));
    for ino in 1..60_000 {
        assert_eq!(next.held(ino), ino % 7 == 1, "{ino}");
    }
    for ino in (1..60_000).step_by(7) {
        assert!(!next.lower(ino, 1) && next.lower(ino, 1));
    }
    assert!(
        used(&next) <= (1 + SHARDS as usize * GIVE_BACK) * PAGE as usize,
        "{}",
        used(&next)
    );
    let other = Pool { pages: 8192, ..pool };
    let memory = next
        .descriptor()
        .expect("it lasts")
        .try_clone_to_owned()
        .expect("again");
    assert!(Lookups::adopt(memory, &other, Guard::Alias, false).is_err());
}

/// P-9: what is forgotten takes no memory.
#[test]
fn pages_without_counts_are_given_back() {
    let lookups = Lookups::new(
        &Pool {
            pages: 1 << 17,
            ..pool()
        },
        Guard::Alias,
        false,
    )
    .expect("memory");
    let most = SHARDS as usize * GIVE_BACK * PAGE as usize;
    assert!(4 * lookups.end as usize > most * 3 / 2);
    for ino in 1..lookups.end {
        lookups.raise(ino);
        lookups.lower(ino, 1);
    }
    assert!(used(&lookups) <= most + PAGE as usize, "{}", used(&lookups));
    // Many lookups one at a time: the page stays.
    let stays = used(&lookups);
    for _ in 0..100 {
        lookups.raise(1);
        lookups.lower(1, 1);
        assert!(used(&lookups) >= stays);
    }
}

/// L-1, L-2: threads raise and lower neighbours, pages come and go meanwhile, no count is lost.
#[test]
fn threads_do_not_lose_counts() {
    let lookups = lookups();
    let kept: Vec<u64> = (0..40).map(|i| 1 + i * A_PAGE * SHARDS / 16).collect();
    std::thread::scope(|s| {
        for thread in 0..4 {
            let (lookups, kept) = (&lookups, &kept);
            s.spawn(move || {
                for round in 0..500 {
                    for ino in kept.iter().map(|ino| ino + (round + thread) % 3) {
                        lookups.raise(ino);
                        assert!(lookups.held(ino));
                        lookups.lower(ino, 1);
                    }
                }
                kept.iter().for_each(|ino| lookups.raise(*ino));
            });
        }
    });
    for ino in kept {
        assert!(!lookups.lower(ino, 3) && lookups.lower(ino, 1), "{ino}");
        assert!(!lookups.held(ino + 1) && !lookups.held(ino + 2));
    }
}

/// L-3: to ask for a count gives no page memory, before there was one and behind it.
#[test]
fn what_is_only_asked_for_takes_no_memory() {
    // So many that all shards give pages back.
    let end = 2 * SHARDS * GIVE_BACK as u64 * A_PAGE;
    let region = Region::lasting(NAME, (PAGE + 4 * end) as usize, Guard::Alias, false).expect("memory");
    region.store(0, &[1; 24]);
    let lookups = Lookups::over(region, end);
    let ask = || {
        for ino in (1..lookups.end).step_by(A_PAGE as usize / 2) {
            lookups.set_linkable(ino, true);
            assert!(!lookups.held(ino) && !lookups.is_linkable(ino) && !lookups.lower(ino, 1));
        }
    };
    ask();
    assert_eq!(used(&lookups), PAGE as usize);
    for ino in (1..lookups.end).step_by(A_PAGE as usize) {
        lookups.raise(ino);
        assert!(lookups.held(ino) && lookups.lower(ino, 1));
    }
    let left = used(&lookups);
    ask();
    assert_eq!(used(&lookups), left);
}

/// S-16.7, S-14.10: one stray write into page 0 costs neither the counts nor what is known of a loss, and it is told; also when
/// the server before wrote all of it once.
#[test]
fn one_stray_write_into_page_0_costs_nothing() {
    let pool = pool();
    for (at, byte) in [0, 8, 20, 24, 2048, 2060, 2072]
        .into_iter()
        .flat_map(|at| [(at, 0), (at, 0xFF)])
    {
        let mut lookups = Lookups::new(&pool, Guard::Alias, false).expect("memory");
        lookups.raise(7);
        lookups.note_lost();
        lookups.note_lost();
        let adopt = || {
            let memory = lookups.descriptor().expect("it lasts").try_clone_to_owned();
            Lookups::adopt(memory.expect("again"), &pool, Guard::Alias, false).expect("adopted")
        };
        lookups.region.store(at, &[byte; 64]);
        let (next, changed) = adopt();
        assert!(next.held(7) && next.has_lost(), "{byte:#x} at {at}");
        assert_eq!(next.losses(), 2, "{byte:#x} at {at}");
        let is_header = at % 2048 < 24 && (at, byte) != (2048, 0);
        assert_eq!(changed == Found::One(()), is_header, "{byte:#x} at {at}");
        lookups.region.store(if at < 2048 { 2048 } else { 0 }, &[0; 64]);
        let (next, _) = adopt();
        assert!(
            next.held(7) && next.has_lost() && next.losses() == 2,
            "{byte:#x} at {at}, and the other place later"
        );
    }
    let lookups = Lookups::new(&pool, Guard::Alias, false).expect("memory");
    lookups.region.store(2048, &[0; 2048]);
    let memory = lookups.descriptor().expect("it lasts").try_clone_to_owned();
    let (next, changed) = Lookups::adopt(memory.expect("again"), &pool, Guard::Alias, false).expect("adopted");
    assert!(changed == Found::Both(()) && !next.has_lost() && next.losses() == 0);
    // A loss that a server noted which did not count them: no handle tells of it, so none is refused for it (S-16.9).
    twice::store(&next.region, LOST_AT, &1u64.to_le_bytes());
    let memory = next.descriptor().expect("it lasts").try_clone_to_owned();
    let (mut after, _) = Lookups::adopt(memory.expect("again"), &pool, Guard::Alias, false).expect("adopted");
    assert!(after.has_lost() && after.losses() == 0);
    after.note_lost();
    assert_eq!(after.losses(), 1);
}

/// S-16.28: a header that is right at neither place takes no count away; one of another pool does.
#[test]
fn counts_are_used_without_a_header() {
    let pool = pool();
    for byte in [0, 0x5A, 0xFF] {
        let lookups = Lookups::new(&pool, Guard::Alias, false).expect("memory");
        lookups.raise(7);
        lookups.note_lost_staged();
        for at in [0, 2048] {
            lookups.region.store(at, &[byte; 24]);
        }
        let adopt = |pool: &Pool| {
            let memory = lookups.descriptor().expect("it lasts").try_clone_to_owned();
            Lookups::adopt(memory.expect("again"), pool, Guard::Alias, false)
        };
        let (next, header) = adopt(&pool).expect("adopted");
        assert!(next.held(7) && next.has_lost_staged() && header == Found::Neither);
        let (_, header) = adopt(&pool).expect("adopted");
        assert_eq!(header, Found::Both(()));
        // As each is made.
        let other = self::pool();
        assert!(adopt(&other).is_err());
    }
}
