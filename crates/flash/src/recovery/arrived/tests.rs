//! Which data pages must have arrived (S-9.3).

use super::*;

fn run() -> Run {
    Run { start: 7, count: 1 }
}

fn names(crc: u32) -> Record {
    Record::MapEntry {
        ino: 4,
        index: 0,
        page: 7,
        count: 1,
        version: 1,
        last_len: 1,
        crcs: vec![crc],
    }
}

fn free() -> Record {
    Record::Free {
        space: Space::Pages,
        run: run(),
    }
}

fn share() -> Record {
    Record::Ref { run: run(), delta: 1 }
}

fn pages(records: &[Record]) -> Vec<(u64, u32)> {
    wanted(records).into_iter().collect()
}

#[test]
fn named_and_not_freed() {
    assert_eq!(pages(&[names(1)]), [(7, 1)]);
    assert_eq!(pages(&[names(1), names(2)]), [(7, 2)]);
    assert_eq!(pages(&[names(1), free()]), []);
}

#[test]
fn a_page_that_only_got_references_was_there_before() {
    assert_eq!(pages(&[share(), names(1)]), []);
    assert_eq!(pages(&[names(1), share(), names(1)]), [(7, 1)]);
}

/// S-11.2: what a page was before the group freed it says nothing about what it is now.
#[test]
fn counted_from_the_last_free_on() {
    assert_eq!(pages(&[names(1), share(), names(1), free(), names(2)]), [(7, 2)]);
    assert_eq!(pages(&[share(), names(1), free(), names(2)]), [(7, 2)]);
    assert_eq!(pages(&[names(1), free(), share(), names(2)]), []);
}
