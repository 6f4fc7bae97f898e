//! Which numbers are handed out beside transactions that are open (S-11.1; PROTOCOLS section 5).

use crate::error::Abort;
use crate::{Equations, Error, FormatOptions, Ref, Store, StoreOptions, Txn};
use keepfs_format::Kind;
use keepfs_media::ram::RamDevice;
use std::sync::Arc;

const NODES: u64 = 4;

/// A store that was opened anew, with a few nodes: it has not looked for free numbers yet.
fn store() -> (Arc<Store>, Vec<Ref>) {
    let device = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = StoreOptions {
        arena_bytes: 4 << 20,
        tiny_arena: true,
        background: false,
        audit: Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device.clone(), &options).expect("open");
    let nodes = (0..NODES).map(|_| new_node(&store)).collect();
    store.close().expect("close");
    drop(store);
    (Store::open(device, &options).expect("open again"), nodes)
}

fn new_node(store: &Store) -> Ref {
    store
        .transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?))
        .expect("node")
}

/// What has to be in memory is, for a transaction that is not run again.
fn warm(store: &Store, node: Ref) {
    let touched = store.transact::<(), Error>(|t| {
        t.free_node(node)?;
        Err(Abort::Fail(Error::NoSpace))
    });
    assert!(matches!(touched, Err(Error::NoSpace)));
}

#[test]
fn a_number_that_an_open_transaction_frees_is_nobodys() {
    for commits in [false, true] {
        let (store, nodes) = store();
        warm(&store, nodes[1]);
        let mut open = Txn::begin(&store);
        open.free_node(nodes[1]).expect("in memory");
        let beside = new_node(&store);
        assert_ne!(beside.id, nodes[1].id, "commits: {commits}");
        match commits {
            true => drop(open.seal().expect("sealed").commit()),
            false => drop(open),
        }
        // Not durably free, or not free at all.
        let later = new_node(&store);
        assert_ne!(later.id, nodes[1].id, "commits: {commits}");
        store.checkpoint().expect("checkpoint");
    }
}
