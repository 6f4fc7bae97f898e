//! Tests of the packed list of attributes.

use super::list::{attrs, find, is_sound, put, remove};
use super::*;

/// S-7.4: what is put is found, replaced in place, removed; the list stays sound.
#[test]
fn put_find_replace_remove() {
    let mut packed = Vec::new();
    assert!(put(&mut packed, 0, b"a", b"one"));
    assert!(put(&mut packed, 1, b"a", b"two"));
    assert!(put(&mut packed, NS_ACL_ACCESS, b"", b"three"));
    assert!(put(&mut packed, 0, b"a", b"longer than one"));
    assert!(is_sound(&packed));
    assert_eq!(find(&packed, 0, b"a"), Some(&b"longer than one"[..]));
    assert_eq!(find(&packed, 1, b"a"), Some(&b"two"[..]));
    let names: Vec<Vec<u8>> = attrs(&packed).map(|attr| attr.full_name()).collect();
    assert_eq!(names, [&b"user.a"[..], b"trusted.a", b"system.posix_acl_access"]);
    assert!(remove(&mut packed, 0, b"a"));
    assert!(!remove(&mut packed, 0, b"a"));
    assert_eq!(find(&packed, 0, b"a"), None);
    assert!(is_sound(&packed));
}

/// S-7.4: at most 32 KiB of names and values.
#[test]
fn the_sum_is_bounded() {
    let mut packed = Vec::new();
    assert!(put(&mut packed, 0, b"big", &vec![1; TOTAL_MAX - 8]));
    assert!(!put(&mut packed, 0, b"b", b""));
    assert!(put(&mut packed, 0, b"big", b"small"));
    assert!(put(&mut packed, 0, b"b", b""));
}

/// C-8: bytes that are no list, or of an unknown namespace, are refused.
#[test]
fn broken_lists_are_not_sound() {
    let mut packed = Vec::new();
    put(&mut packed, 0, b"name", b"value");
    assert!(is_sound(&[]));
    for cut in 1..packed.len() {
        assert!(!is_sound(&packed[..cut]), "cut at {cut}");
    }
    packed[1] = 5;
    assert!(!is_sound(&packed));
}
