//! Tests of stops.

use super::*;
use keepfs_media::Device;
use std::thread::scope;

/// A stop that is let go counts as one; one that is held until its patience ends is told.
#[test]
fn a_stop_that_ends_by_patience_is_told() {
    let device = PauseDevice::new(Arc::new(SimDevice::new(4)), Stops::default());
    let stopped = device.hooks.stop_after(0);
    let page = [0; keepfs_format::PAGE];
    scope(|scope| {
        device.flush().expect("no stop in a flush");
        let write = scope.spawn(|| device.write(PageNo(0), &page, Class::Metadata));
        stopped.reached.recv().expect("a stop");
        drop(stopped.go);
        write.join().expect("a thread").expect("a write");
    });
    assert_eq!(device.hooks.take_counts(), (1, 0));
    let stopped = device.hooks.stop_after(0);
    let written = device.write(PageNo(0), &page, Class::Metadata);
    written.expect("written when patience ended");
    drop(stopped);
    assert_eq!(device.hooks.take_counts(), (1, 1));
}
