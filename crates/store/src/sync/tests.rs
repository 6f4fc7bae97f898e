//! What is cut behind a failure.

use super::*;
use crate::checkpoint::tests::world;
use keepfs_format::Kind;

/// A thread that waited to lead while another one failed with what it had cut. S-15.27
#[test]
fn no_group_is_cut_behind_a_failure() {
    let (store, _) = world();
    store.sync().expect("durable");
    let change = || {
        store
            .transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?))
            .expect("node")
    };
    change();
    let taken = store.home.flash().cut(&store, &mut store.home.flash().log.redo.lock());
    change();
    store
        .ground
        .fail(Error::Logic("what was taken could not be written".into()));
    drop(taken);
    let before = store.home.flash().log.end.lock().head.sequence;
    assert!(store.home.flash().cut_and_flush(&store).is_err());
    assert_eq!(
        store.home.flash().log.end.lock().head.sequence,
        before,
        "a group without what was taken"
    );
}
