//! Sets of memory files (S-16.1).

use super::*;

fn memory() -> OwnedFd {
    std::fs::File::open("/dev/null").expect("a descriptor").into()
}

#[test]
fn only_known_names_count_and_each_once() {
    let named = ["arena", "other", "lookups", "arena"].map(|name| (name.to_owned(), memory()));
    let mut remains = Remains::from_named(named.into());
    let mut names: Vec<_> = remains
        .duplicate()
        .expect("again")
        .named()
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    assert_eq!(names, [ARENA, LOOKUPS]);
    assert!(remains.take(SESSION).is_none());
    assert!(remains.take(ARENA).is_some() && remains.take(ARENA).is_none());
    assert_eq!(remains.into_named().len(), 1);
}
