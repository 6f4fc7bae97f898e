//! Which beginning of the redo has its data (S-16.19).

use super::*;
use keepfs_media::Class;
use keepfs_media::ram::RamDevice;

/// A device of sixteen pages that hold their numbers.
fn device() -> RamDevice {
    let device = RamDevice::new(16);
    (0..16).for_each(|page| {
        device
            .write(PageNo(page), &content(page as u8), Class::Data)
            .expect("written")
    });
    device
}

fn content(byte: u8) -> [u8; PAGE] {
    [byte; PAGE]
}

fn names(page: u64, byte: u8) -> Record {
    Record::MapEntry {
        ino: 4,
        index: 0,
        page,
        count: 1,
        version: 1,
        last_len: 1,
        crcs: vec![crc32c::of(&content(byte))],
    }
}

fn run(page: u64) -> Run {
    Run { start: page, count: 1 }
}

fn free(page: u64) -> Record {
    Record::Free {
        space: Space::Pages,
        run: run(page),
    }
}

fn share(page: u64) -> Record {
    Record::Ref {
        run: run(page),
        delta: 1,
    }
}

/// How many of these transactions are taken.
fn taken(transactions: &[&[Record]]) -> usize {
    let of = |(seq, records): (usize, &&[Record])| TxnRedo {
        seq: seq as u64 + 7,
        records: records.to_vec(),
    };
    let transactions: Vec<TxnRedo> = transactions.iter().enumerate().map(of).collect();
    there(&device(), &transactions)
}

#[test]
fn a_page_that_was_written_over_ends_what_is_taken() {
    assert_eq!(taken(&[]), 0);
    assert_eq!(taken(&[&[names(3, 3)], &[], &[names(4, 4)]]), 3);
    assert_eq!(taken(&[&[], &[names(3, 9)], &[], &[]]), 1);
}

/// S-11.2: what a page was before it was freed is of interest only to who is in between.
#[test]
fn the_longest_beginning_may_lie_behind_others_that_fail() {
    assert_eq!(taken(&[&[names(3, 9)], &[free(3)], &[]]), 3);
    assert_eq!(taken(&[&[names(3, 9)], &[free(3), names(3, 3)], &[names(4, 9)]]), 2);
    assert_eq!(
        taken(&[&[], &[names(3, 9)], &[free(3), names(3, 8)], &[names(5, 5)]]),
        1
    );
    // Within one transaction the last counts.
    assert_eq!(taken(&[&[names(3, 9), free(3), names(3, 3)]]), 1);
}

/// S-9.13: a page that is named as often as it got references was there before; that is one file's loss.
#[test]
fn a_page_that_was_there_before_is_not_asked_for() {
    assert_eq!(taken(&[&[names(3, 9), share(3)]]), 1);
    assert_eq!(taken(&[&[names(3, 9)], &[names(3, 9), share(3)]]), 0);
    assert_eq!(taken(&[&[share(3), names(3, 9)], &[free(3)], &[names(3, 9)]]), 2);
}

/// S-9.3: nor is one that the device does not give.
#[test]
fn a_page_that_cannot_be_read_is_not_asked_for() {
    assert_eq!(taken(&[&[names(99, 1)], &[names(3, 3)]]), 2);
}
