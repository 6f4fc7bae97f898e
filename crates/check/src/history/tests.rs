//! What a repair adds to a history (S-21.11).

use super::{newest, with};
use keepfs_format::history::{self, DAMAGE, EVENTS, Event, GIVEN_UP, Lasting, REPAIR};
use keepfs_format::superblock::Superblock;
use keepfs_format::{FromZeros, PAGE};
use std::ops::Range;

fn given(inodes: Range<u64>) -> Vec<Lasting> {
    let entry = |inode| Lasting {
        place: REPAIR,
        done: GIVEN_UP,
        inode,
        count: 1,
        path: b"/a".repeat(500),
        ..Lasting::default()
    };
    inodes.map(entry).collect()
}

/// A list without room for all has as many as half of it takes, and counts the others; all else stays.
#[test]
fn what_has_no_room_is_counted() {
    let mut sb = Superblock::new_zeroed();
    (sb.history_start, sb.history_pages) = (1.into(), 32.into());
    let mut image = vec![0; 40 * PAGE];
    let mut add = |given: &[Lasting]| {
        let pages = with(&image, &sb, Event::default(), given);
        for (page, bytes) in &pages {
            image[*page as usize * PAGE..][..PAGE].copy_from_slice(&bytes[..]);
        }
        newest(&image, &sb).unwrap()
    };
    let list = |records: &[history::Record], name: &str| records.iter().find(|(n, _)| n == name).unwrap().1.clone();
    add(&given(1..3));
    let (generation, records) = add(&given(10..200));
    assert_eq!(generation, 2);
    let events = Event::decode_all(&list(&records, EVENTS)).unwrap();
    assert_eq!(events.iter().map(|event| event.number).collect::<Vec<_>>(), [1, 2]);
    let damage = Lasting::decode_all(&list(&records, DAMAGE)).unwrap();
    assert_eq!(damage[..2], given(1..3)[..]);
    let (rest, named) = damage[2..].split_last().unwrap();
    assert_eq!(named, &given(10..10 + named.len() as u64)[..]);
    assert!(
        !named.is_empty() && named.len() as u64 + rest.length == 190 && rest.inode == 0,
        "{rest:?}"
    );
    assert!(list(&records, DAMAGE).len() <= 16 * PAGE / 4);
    // A pool without a history tells nothing.
    sb.history_pages = 0.into();
    assert!(with(&image, &sb, Event::default(), &given(1..2)).is_empty());
}
