//! Tests of the memory that a replay may ask for.

use super::*;
use keepfs_format::Kind;
use keepfs_pool::{FormatOptions, first_superblock};
use keepfs_testkit::sim::SimDevice;

fn demand() -> Demand {
    let sb = first_superblock(&SimDevice::new(2048), &FormatOptions::default()).expect("superblock");
    Demand::of(&Pool::of(&sb))
}

fn birth(index: u64) -> Record {
    Record::Birth {
        id: MetaId::new(Space::Nodes, index),
        generation: 1,
        kind: Kind::Xattr as u8,
        level: 0,
        owner: 9,
    }
}

/// What died needs no frame any more: a log may bear far more nodes than are ever alive at once.
#[test]
fn only_what_lives_at_once_counts() {
    let mut demand = demand();
    for index in 0..20_000 {
        demand.see(&birth(index)).expect("birth");
        let death = Record::Death {
            id: MetaId::new(Space::Nodes, index),
            generation: 1,
        };
        demand.see(&death).expect("death");
    }
    assert_eq!(demand.frames(), STEP);
    assert_eq!(demand.most, 2, "the node and the bitmap of its number");
}

/// S-9.6: a pool of 2048 pages with two copies never has more than 1024 metablocks.
#[test]
fn a_log_that_bears_more_than_the_pool_holds_is_refused() {
    let mut demand = demand();
    let refused = (0..20_000).find_map(|index| demand.see(&birth(index)).err().map(|e| (index, e)));
    let (index, error) = refused.expect("it is refused");
    assert!((1000..=1024).contains(&index), "after {index} births");
    assert!(error.to_string().contains("more than 1024 metablocks"), "{error}");
    assert!(demand.frames() <= 2 * 1025 + SPARE + STEP);
}

/// Each metablock of a run counts, and a run that touches far too many ends at the limit.
#[test]
fn runs_count_by_the_metablocks_they_touch() {
    let mut demand = demand();
    let run = Run {
        start: BITS - 1,
        count: 2,
    };
    demand
        .see(&Record::Alloc {
            space: Space::Pages,
            run,
        })
        .expect("two bitmap metablocks");
    assert_eq!(demand.most, 2);
    let run = Run {
        start: 0,
        count: u32::MAX,
    };
    let all = Record::Ref { run, delta: 1 };
    assert!(demand.see(&all).is_err());
    assert!(demand.frames() <= 2 * 1025 + SPARE + STEP);
}
