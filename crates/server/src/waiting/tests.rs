//! Who waits for a pool that is in use.

use super::*;
use std::cell::Cell;

fn busy() -> Failure {
    Failure::Device(DeviceError::Busy {
        path: "pool".into(),
        by: "a keeper that is about to end".into(),
    })
}

#[test]
fn a_pool_that_is_about_to_be_left_is_tried_again() {
    let tries = Cell::new(0);
    let opened = patiently(Path::new("/no/such/pool"), || {
        tries.set(tries.get() + 1);
        if tries.get() < 4 { Err(busy()) } else { Ok(tries.get()) }
    });
    assert_eq!(opened.ok(), Some(4));
}

#[test]
fn another_failure_is_told_at_once() {
    let tries = Cell::new(0);
    let opened: Result<(), _> = patiently(Path::new("/no/such/pool"), || {
        tries.set(tries.get() + 1);
        Err(Failure::Other("no pool".into()))
    });
    assert!(opened.is_err_and(|failure| !failure.is_busy()));
    assert_eq!(tries.get(), 1);
}
