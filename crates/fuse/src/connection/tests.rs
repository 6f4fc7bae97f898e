//! The description of a connection, there and back.

use super::{Connection, parse};
use crate::init::Granted;
use crate::mountpoint::Mounted;
use crate::session::Unmounter;

fn example() -> (Granted, Unmounter) {
    let granted = Granted {
        minor: 45,
        flags: 0x8000_0000_4000_0001,
        max_write: 1 << 20,
    };
    let mounted = Mounted {
        id: 87,
        device: "7:3".into(),
        on_block_device: true,
    };
    let path = "/a place with spaces".into();
    (granted, Unmounter { path, mounted })
}

#[test]
fn a_description_is_read_as_it_was_written() {
    let (granted, unmounter) = example();
    let written = Connection::of(granted, &unmounter, Vec::new()).description;
    let (again, place) = parse(&written).unwrap();
    assert_eq!(again, granted);
    assert_eq!((place.path, place.mounted), (unmounter.path, unmounter.mounted));
}

#[test]
fn what_is_no_description_is_refused() {
    let (granted, unmounter) = example();
    let written = Connection::of(granted, &unmounter, Vec::new()).description;
    for cut in [0, 5, 8, 20] {
        assert!(parse(&written[..cut]).is_none(), "{cut}");
    }
    assert!(parse(b"fuse2 45 1 4096 87 7:3 1 /a").is_none());
    // Described, but nothing is open.
    assert!(Connection::of(granted, &unmounter, Vec::new()).parts().is_err());
}
