//! Records summed up as S-7.5 counts.

use super::Ledger;
use keepfs_format::plog::{Record, Run};
use keepfs_format::{MetaId, Space};
use keepfs_frames::Totals;
use keepfs_vault::STRIPES;

const FIRST: Totals = Totals {
    pages: 100,
    inodes: 10,
    nodes: 5,
    shares: 0,
};

fn run(start: u64, count: u32) -> Run {
    Run { start, count }
}

/// S-17.6: what is told is what totals must be; a total that differs is told with what it should be.
#[test]
fn totals_are_what_was_told() {
    let ledger = Ledger::default();
    ledger.told(&[Record::Ref {
        run: run(1, 1),
        delta: 1,
    }]);
    ledger.check(FIRST).expect("nothing is known yet");
    let node = MetaId::new(Space::Nodes, 4);
    ledger.told(&[
        Record::Alloc {
            space: Space::Pages,
            run: run(50, 7),
        },
        Record::Free {
            space: Space::Pages,
            run: run(9, 2),
        },
        Record::Alloc {
            space: Space::InodeNumbers,
            run: run(3, 1),
        },
        Record::Alloc {
            space: Space::Orphans,
            run: run(3, 1),
        },
        Record::Ref {
            run: run(20, 3),
            delta: 1,
        },
        Record::Death {
            id: node,
            generation: 1,
        },
        Record::Death {
            id: MetaId::new(Space::Inodes, 4),
            generation: 1,
        },
    ]);
    ledger.left(4);
    let expected = Totals {
        pages: 101,
        inodes: 11,
        nodes: 4,
        shares: 3,
    };
    let wrong = Totals { nodes: 5, ..expected };
    assert_eq!(ledger.check(wrong), Err(expected));
    assert_eq!(ledger.check(wrong), Ok(()));
}

/// What threads of all stripes tell is summed up, and once.
#[test]
fn what_all_threads_told_counts_once() {
    let ledger = Ledger::default();
    ledger.check(FIRST).expect("nothing is known yet");
    let alloc = Record::Alloc {
        space: Space::Pages,
        run: run(50, 3),
    };
    std::thread::scope(|scope| {
        (0..STRIPES).for_each(|_| drop(scope.spawn(|| ledger.told(std::slice::from_ref(&alloc)))));
    });
    let expected = Totals {
        pages: FIRST.pages + 3 * STRIPES as u64,
        ..FIRST
    };
    assert_eq!(ledger.check(expected), Ok(()));
    assert_eq!(ledger.check(expected), Ok(()));
}
