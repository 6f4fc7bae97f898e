//! A split: what moves cancels, and only that (S-6.5, S-17.3).

use super::*;
use crate::tests::{Made, auditor};
use crate::{Equation, Equations};
use keepfs_format::dir::{ENTRY_HEAD, LeafHead, entry_size};
use keepfs_format::{IntoBytes, MetaId, Space};

/// Inode of the directory.
const DIR: u64 = 7;
/// What a split must leave as it is.
const AMONG: Equations = Equations::NONE
    .with(Equation::DirEntries)
    .with(Equation::LeafLive)
    .with(Equation::LeafDead)
    .with(Equation::Links)
    .with(Equation::NamesTold);

fn entry(ino: u64, state: u8) -> Vec<u8> {
    let head = EntryHead {
        key: (ino * 8).into(),
        ino: ino.into(),
        name_len: 1 + (ino % 9) as u8,
        state,
        kind: 8,
        ..EntryHead::default()
    };
    let mut bytes = vec![b'n'; entry_size(usize::from(head.name_len))];
    bytes[..ENTRY_HEAD].copy_from_slice(head.as_bytes());
    bytes
}

/// A leaf of these entries.
fn leaf(made: &mut Made, index: u64, fate: Fate, entries: &[Vec<u8>]) {
    let block = made.block(MetaId::new(Space::Nodes, index), Kind::DirLeaf, DIR, fate);
    let (mut at, mut count) = (FIRST, More::default());
    for entry in entries {
        made.put(block, at, entry);
        at += entry.len();
        count += more(entry);
    }
    let head = LeafHead {
        tail: (at as u16).into(),
        live: (count.live as u16).into(),
        dead: (count.dead as u16).into(),
        ..LeafHead::default()
    };
    made.put(block, HEADER, head.as_bytes());
}

/// Equations that do not balance when a leaf of `was` is split into `halves`.
fn split(was: &[Vec<u8>], halves: [&[Vec<u8>]; 2]) -> Vec<Equation> {
    let mut made = Made::default();
    leaf(&mut made, 3, Fate::Dies, was);
    made.forget_changes();
    leaf(&mut made, 4, Fate::Born, halves[0]);
    leaf(&mut made, 5, Fate::Born, halves[1]);
    let found = made.judge(&auditor(AMONG), AMONG);
    found.into_iter().map(|(equation, _)| equation).collect()
}

#[test]
fn what_moves_cancels_once() {
    let lost_or_twice = [Equation::DirEntries, Equation::Links, Equation::NamesTold];
    for entries in [2, 3, 40] {
        let was: Vec<Vec<u8>> = (0..entries)
            .map(|i| entry(100 + i, if i % 5 == 4 { DEAD } else { LIVE }))
            .collect();
        let half = |bit: u64| -> Vec<Vec<u8>> {
            let live = was.iter().filter(|e| e[STATE] == LIVE);
            live.filter(|e| u64::from(e[8]) % 2 == bit).cloned().collect()
        };
        let (even, odd) = (half(0), half(1));
        assert_eq!(split(&was, [&even, &odd]), []);
        // Another order is told entry by entry, and balances, too.
        let backwards: Vec<Vec<u8>> = odd.iter().rev().cloned().collect();
        assert_eq!(split(&was, [&even, &backwards]), []);
        assert_eq!(split(&was, [&even[1..], &odd]), lost_or_twice);
        let twice = [&odd[..], &even[..1]].concat();
        assert_eq!(split(&was, [&even, &twice]), lost_or_twice);
        let again = [&even[..1], &even[..]].concat();
        assert_eq!(split(&was, [&again, &odd]), lost_or_twice);
        let mut other = odd.clone();
        other[0][8] += 100;
        assert_eq!(split(&was, [&even, &other]), [Equation::Links, Equation::NamesTold]);
    }
}
