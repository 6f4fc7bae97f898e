//! What is cut is seen to be.

use super::{end_of, path_of};

/// S-18.6.
#[test]
fn a_path_that_is_too_long_has_its_end_told() {
    let names = || ["c", "bb", "a"].map(str::as_bytes);
    assert_eq!(path_of([b"x"; 0], 9), b"/");
    assert_eq!(path_of(names(), 7), b"/a/bb/c");
    assert_eq!(path_of(names(), 6), "…/bb/c".as_bytes());
    assert_eq!(end_of(b"/a/bb/c", 7), &b"/a/bb/c"[..]);
    assert_eq!(end_of(b"/a/bb/cc", 7), "…/cc".as_bytes());
    // One that was cut before is cut once.
    assert_eq!(end_of("…/a/bb/c".as_bytes(), 8), "…/bb/c".as_bytes());
}

/// S-18.11: an entry keeps the bytes of its path.
#[test]
fn an_entry_has_its_path_as_bytes() {
    use crate::history::Lasting;
    let entry = |path: &[u8]| Lasting {
        path: path.to_owned(),
        ..Lasting::default()
    };
    let (short, long) = (entry(b"/inv\xff"), entry(&b"/name".repeat(300)));
    let mut bytes = Vec::new();
    short.encode(&mut bytes);
    long.encode(&mut bytes);
    let list = Lasting::decode_all(&bytes).unwrap();
    assert_eq!(list[0], short);
    assert!(list[1].path.len() <= 1024 && list[1].path.starts_with("…/name/name".as_bytes()));
}
