//! When the background thread does what it is told.

use super::*;

#[test]
fn what_can_wait_is_gathered() {
    let now = Instant::now();
    let due = now + Duration::from_secs(5);
    let worker = Worker::default();
    worker.wake_soon();
    let soon = worker.signal.orders.lock().soon.expect("something waits");
    worker.wake_soon();
    let mut orders = worker.signal.orders.lock();
    assert_eq!(
        orders.soon,
        Some(soon),
        "what comes later waits no longer than the first"
    );
    assert_eq!(orders.take(soon - GATHER / 2, due), None);
    assert_eq!(orders.take(soon, due), Some(true));
    assert_eq!(orders.take(soon, due), None, "it is done once");
}

#[test]
fn what_is_urgent_waits_for_nothing() {
    let now = Instant::now();
    let due = now + Duration::from_secs(5);
    let worker = Worker::default();
    worker.wake_soon();
    worker.wake();
    let mut orders = worker.signal.orders.lock();
    assert_eq!(orders.take(now, due), Some(true));
    assert_eq!(orders.soon, None, "and the rest is done with it");
    assert_eq!(orders.take(due, due), Some(false), "the interval alone is no errand");
}
