//! Which numbers are handed out beside transactions that are open (S-11.1).

use super::Numbers;
use crate::error::Abort;
use crate::{Equations, Error, FormatOptions, Ref, Store, StoreOptions, Txn};
use keepfs_format::Kind;
use keepfs_media::ram::RamDevice;
use std::sync::Arc;

const NODES: u64 = 4;

/// Numbers of a metablock, in tests.
const GROUP: u64 = 5;

/// Takes up to `count` numbers for a stripe of threads.
fn by(numbers: &Numbers, stripe: usize, count: usize) -> Vec<u64> {
    (0..count).map_while(|_| numbers.take_by(stripe).ok()).collect()
}

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

/// Decision 0667: what two threads take lies in different metablocks, and none is taken twice, whatever the bitmap shows.
#[test]
fn threads_take_of_different_metablocks() {
    let numbers = Numbers::new(2, GROUP);
    assert_eq!(numbers.take(), Err(2));
    let clear = || Some(((2..42).collect(), 42));
    numbers.look(clear);
    assert_eq!(by(&numbers, 1, 1), [2]);
    assert_eq!(by(&numbers, 7, 3), [5, 6, 7]);
    assert_eq!(
        by(&numbers, 1, 3),
        [3, 4, 10],
        "the rest of its own, then the next metablock"
    );
    assert_eq!(by(&numbers, 7, 3), [8, 9, 15]);
    assert_eq!(by(&numbers, 1, 100).len(), 4 + 22);
    // The bits of what is taken are not set: busy numbers and those in a hand are left out all the same.
    numbers.look(clear);
    assert!(numbers.take_by(1).is_err());
    assert_eq!(by(&numbers, 7, 100), [16, 17, 18, 19]);
    numbers.look(clear);
    assert!(by(&numbers, 7, 1).is_empty() && by(&numbers, 1, 1).is_empty());
}

/// A number that is put back is the next one of the same thread.
#[test]
fn what_is_put_back_comes_first() {
    let numbers = Numbers::new(2, GROUP);
    numbers.look(|| Some(((2..12).collect(), 12)));
    let taken: Vec<u64> = (0..4).map_while(|_| numbers.take().ok()).collect();
    numbers.put_back(taken[3]);
    numbers.put_back(taken[2]);
    assert_eq!((0..3).map_while(|_| numbers.take().ok()).collect::<Vec<_>>(), [4, 5, 6]);
}

/// Nobody is given a number of a metablock that is avoided: neither from the stock, nor from a hand, nor one that was put back. S-15.17
#[test]
fn numbers_of_an_avoided_metablock_stay() {
    let numbers = Numbers::new(1, GROUP);
    let all = || Some(((1..4 * GROUP).collect(), 4 * GROUP));
    assert!(numbers.look(all));
    assert_eq!(by(&numbers, 0, 2), [1, 2]);
    assert_eq!(by(&numbers, 1, 1), [GROUP]);
    numbers.avoid(0);
    numbers.avoid(2);
    numbers.put_back(2);
    let given = || [0, 1].map(|stripe| by(&numbers, stripe, 100)).concat();
    let right = |n: &u64| [1, 3].contains(&(n / GROUP));
    let first = given();
    assert!(
        first.len() == 2 * GROUP as usize - 1 && first.iter().all(right),
        "{first:?}"
    );
    assert!(numbers.look(all));
    assert_eq!(given(), [], "what is out stays out");
}
