//! Tests of stops.

use super::*;
use keepfs_media::Device;
use std::thread::scope;

/// A stop that is let go counts as one; one that is held until its patience ends is told.
#[test]
fn a_stop_that_ends_by_patience_is_told() {
    let device = PauseDevice::new(Arc::new(SimDevice::new(4)), Stops::default());
    let stopped = device.hooks.stop_after(0);
    scope(|scope| {
        let flush = scope.spawn(|| device.flush());
        stopped.reached.recv().expect("a stop");
        drop(stopped.go);
        flush.join().expect("a thread").expect("a flush");
    });
    assert_eq!(device.hooks.take_counts(), (1, 0));
    let stopped = device.hooks.stop_after(0);
    device.flush().expect("flushed when patience ended");
    drop(stopped);
    assert_eq!(device.hooks.take_counts(), (1, 1));
}
