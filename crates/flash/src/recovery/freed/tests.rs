//! What is taken again is not left, in whatever part.

use super::*;

fn run(start: u64, count: u32) -> Run {
    Run { start, count }
}

#[test]
fn what_is_taken_again_is_not_freed() {
    let mut freed = Freed::default();
    let space = Space::Pages;
    freed.see(
        7,
        &Record::Free {
            space,
            run: run(100, 10),
        },
    );
    freed.see(8, &Record::Free { space, run: run(50, 4) });
    freed.see(
        8,
        &Record::Free {
            space,
            run: run(110, 5),
        },
    );
    freed.see(
        9,
        &Record::Alloc {
            space,
            run: run(104, 2),
        },
    );
    freed.see(
        9,
        &Record::Alloc {
            space,
            run: run(108, 4),
        },
    );
    freed.see(9, &Record::Alloc { space, run: run(50, 4) });
    let left = [(7, run(100, 4)), (7, run(106, 2)), (8, run(112, 3))];
    assert_eq!(freed.into_runs(), left);
}

#[test]
fn other_numbers_are_no_pages() {
    let mut freed = Freed::default();
    let space = Space::NodeNumbers;
    freed.see(
        7,
        &Record::Free {
            space,
            run: run(100, 10),
        },
    );
    assert_eq!(freed.into_runs(), []);
}
