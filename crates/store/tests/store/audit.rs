//! A transaction that contradicts itself is rolled back, and only that (SPEC section 17).

use keepfs_digest::Equation;
use keepfs_format::plog::Run;
use keepfs_media::ram::RamDevice;
use keepfs_store::{Equations, Error, FormatOptions, Purpose, Store, StoreOptions};
use std::sync::Arc;

fn open(audit: Equations) -> Arc<Store> {
    let device = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = StoreOptions {
        background: false,
        audit,
        ..StoreOptions::default()
    };
    Store::open(device, &options).expect("open")
}

/// Pages that no file names.
fn leak(store: &Store) -> (Run, Result<(), Error>) {
    let reservation = store
        .reserve(3, Purpose::New, keepfs_store::Near::Current)
        .expect("reserve");
    let run = reservation.runs()[0];
    (run, store.transact(|txn| Ok(txn.use_pages(run)?)))
}

/// S-17.1: the caller gets an error that names the equation and the items; nothing of it stays; the next one commits.
#[test]
fn an_unbalanced_transaction_leaves_nothing() {
    let store = open(Equations::ALL);
    let (before, seq) = (store.figures(), store.last_seq());
    let totals = store.totals();
    let (run, result) = leak(&store);
    let Err(Error::Unbalanced(unbalanced)) = result else {
        panic!("it was not refused: {result:?}");
    };
    let found = unbalanced.imbalances();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].equation, Equation::PagesGained);
    let pages: Vec<u64> = found[0].items.iter().map(|item| item.object).collect();
    assert_eq!(pages, (run.start..run.start + u64::from(run.count)).collect::<Vec<_>>());
    assert_eq!(store.last_seq(), seq);
    assert_eq!(store.figures(), before);
    assert_eq!(store.totals(), totals);
    assert_eq!(store.unbalanced().len(), 1);
    // S-18.5: the history has the equation as a number; of an operation nothing is known here.
    let event = store.history().events(0).pop().expect("told");
    assert_eq!((event.place, event.verdict, event.done), (5, 9, 7));
    assert_eq!((event.id, event.at), (0, Equation::PagesGained as u64));
    assert!(
        event.text.contains("operations: unknown; E-1 pages-gained"),
        "{}",
        event.text
    );
    store.transact::<_, Error>(|_| Ok(())).expect("an empty one");
    store.close().expect("close");
}

/// S-17.4: without the equation the same transaction commits, and nothing is told.
#[test]
fn an_equation_that_is_off_finds_nothing() {
    let store = open(Equations::ALL.without(Equation::PagesGained));
    leak(&store).1.expect("it commits");
    assert!(store.unbalanced().is_empty());
}
