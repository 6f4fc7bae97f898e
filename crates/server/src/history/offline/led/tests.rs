//! A look is short, and each directory is looked at once.

use super::Led;
use keepfs_check::read::DirEntry;
use std::time::{Duration, Instant};

/// Longer than it may take on a machine with forty times the work it can do.
const LONG: Duration = Duration::from_secs(60);

fn entry(name: &str, ino: u64) -> DirEntry {
    DirEntry {
        cookie: 1,
        ino,
        kind: 4,
        name: name.into(),
        name_bytes: None,
        raw: name.into(),
    }
}

/// S-18.15: hundreds of paths in one directory are one look at it, and a directory that leads to itself is one, too.
#[test]
fn a_directory_is_read_once() {
    let mut led = Led::default();
    let mut read = Vec::new();
    let mut to = |path: &str| {
        led.to(path.as_bytes(), |ino| {
            read.push(ino);
            match ino {
                1 => vec![entry("self", 1), entry("dir", 2), entry("dir", 3)],
                2 => (0..1000).map(|n| entry(&n.to_string(), 10 + n)).collect(),
                _ => Vec::new(),
            }
        })
    };
    assert_eq!(to("/"), Some(1));
    assert_eq!(to(&"/self".repeat(800)), Some(1));
    for n in 0..1000 {
        assert_eq!(to(&format!("/dir/{n}")), Some(10 + n));
    }
    assert_eq!(to("/dir/none"), None);
    assert_eq!(to("/none/0"), None);
    assert_eq!(to("/dir/0/below"), None);
    assert_eq!(read, [1, 2, 10]);
}

/// S-18.15: whoever waits does so for a second, however slow the device and however deep the paths.
#[test]
fn the_look_ends_by_itself() {
    let begun = Instant::now();
    let mut led = Led::default();
    let mut next = 1;
    let mut reads = 0;
    for _ in 0..100 {
        let found = led.to("/a".repeat(2048).as_bytes(), |_| {
            reads += 1;
            next += 1;
            std::thread::park_timeout(Duration::from_millis(20));
            vec![entry("a", next)]
        });
        assert_eq!(found, None);
    }
    assert!(reads <= 60, "{reads}");
    assert!(begun.elapsed() < LONG, "{:?}", begun.elapsed());
    // What was read is known.
    assert!(led.to(b"/a", |_| Vec::new()).is_some());
}
