//! Lists by hand: what their bytes are, which are valid, what a mode makes of them.

use super::*;

/// A list of tag, permission bits and id.
fn list(entries: &[(u16, u16, u32)]) -> Acl {
    let entry = |&(tag, perm, id)| AclEntry { tag, perm, id };
    Acl::new(entries.iter().map(entry).collect())
}

/// A list that has an entry of every tag.
fn full() -> Acl {
    list(&[
        (USER_OBJ, 7, NOBODY),
        (USER, 6, 1000),
        (GROUP_OBJ, 5, NOBODY),
        (GROUP, 4, 50),
        (MASK, 6, NOBODY),
        (OTHER, 1, NOBODY),
    ])
}

#[test]
fn bytes_are_a_list_and_a_list_is_bytes() {
    let bytes = full().to_bytes();
    assert_eq!(bytes.len(), 4 + 6 * 8);
    assert_eq!(bytes[..12], [2, 0, 0, 0, 1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(Acl::parse(&bytes), Ok(Some(full())));
}

#[test]
fn what_has_no_entries_is_none() {
    assert_eq!(Acl::parse(&[]), Ok(None));
    assert_eq!(Acl::parse(&[2, 0, 0, 0]), Ok(None));
}

#[test]
fn what_is_no_list_is_refused() {
    let parsed = |entries| Acl::parse(&list(entries).to_bytes());
    assert_eq!(Acl::parse(&[2, 0, 0]), Err(Errno::EINVAL));
    assert_eq!(Acl::parse(&[2, 0, 0, 0, 1]), Err(Errno::EINVAL));
    assert_eq!(Acl::parse(&[1, 0, 0, 0]), Err(Errno::EOPNOTSUPP));
    assert_eq!(parsed(&[(3, 7, NOBODY)]), Err(Errno::EINVAL), "no tag");
    assert_eq!(
        parsed(&[(USER, 7, NOBODY)]),
        Err(Errno::EINVAL),
        "a user that is nobody"
    );
}

#[test]
fn order_and_number_make_it_valid() {
    let three = [(USER_OBJ, 7, NOBODY), (GROUP_OBJ, 5, NOBODY), (OTHER, 1, NOBODY)];
    assert!(full().is_valid() && list(&three).is_valid());
    let [user, group, other] = three;
    let wrong: &[&[(u16, u16, u32)]] = &[
        &[user, group],
        &[group, user, other],
        &[user, user, group, other],
        &[user, (USER, 7, 1000), group, other],
        &[(USER_OBJ, 8, NOBODY), group, other],
    ];
    for entries in wrong {
        assert!(!list(entries).is_valid(), "{entries:?}");
    }
}

#[test]
fn the_mask_stands_for_the_group() {
    assert_eq!(full().mode_bits(), 0o761);
    assert!(!full().is_minimal());
    let mut changed = full();
    changed.chmod(0o640);
    assert_eq!(changed.mode_bits(), 0o640);
    assert_eq!(changed.to_bytes()[4 + 2 * 8 + 2], 5, "the group itself stays");
    let mut inherited = full();
    inherited.restrict(0o644);
    assert_eq!(inherited.mode_bits(), 0o640);
}
