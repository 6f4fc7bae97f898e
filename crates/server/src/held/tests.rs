//! A keeper holds what its table has room for (decision 0530).

use super::{Held, Item, Room};
use std::os::fd::OwnedFd;

const ROOMS: [Room; 2] = [
    Room {
        name: "text",
        bytes: 4,
        descriptors: 0,
    },
    Room {
        name: "file",
        bytes: 0,
        descriptors: 2,
    },
];

fn item(bytes: usize, descriptors: usize) -> Item {
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
    Item {
        bytes: vec![b'x'; bytes],
        descriptors: (0..descriptors).map(|_| null()).collect(),
    }
}

#[test]
fn what_has_no_room_is_refused_and_what_was_there_stays() {
    let mut held = Held::default();
    held.put_within(&ROOMS, "text", item(4, 0)).unwrap();
    held.put_within(&ROOMS, "file", item(0, 2)).unwrap();
    let refused = [
        ("other", item(0, 0), "nothing is kept under the name \"other\""),
        (
            "text",
            item(5, 0),
            "the text has 5 bytes and 0 descriptors; 4 and 0 are kept",
        ),
        (
            "text",
            item(1, 1),
            "the text has 1 bytes and 1 descriptors; 4 and 0 are kept",
        ),
        (
            "file",
            item(0, 3),
            "the file has 0 bytes and 3 descriptors; 0 and 2 are kept",
        ),
    ];
    for (name, item, why) in refused {
        assert_eq!(held.put_within(&ROOMS, name, item).unwrap_err(), why);
    }
    assert_eq!(held.items().count(), 2);
    assert_eq!(held.get("text").unwrap().bytes, b"xxxx");
    assert_eq!(held.get("file").unwrap().descriptors.len(), 2);
    // Again and again is no more than once.
    held.put_within(&ROOMS, "text", item(1, 0)).unwrap();
    assert_eq!(held.get("text").unwrap().bytes, b"x");
}

/// A name of 64 KiB is not said back.
#[test]
fn a_sentence_is_short() {
    let name = "long".repeat(10_000);
    let said = Held::default().put_within(&ROOMS, &name, item(0, 0)).unwrap_err();
    assert!(said.len() < 200, "{said}");
}
