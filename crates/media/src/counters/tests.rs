//! Tests of the counters.

use super::*;

#[test]
fn classes_are_counted_apart_and_differences_hold() {
    let meter = Meter::default();
    for (i, class) in Class::ALL.into_iter().enumerate() {
        meter.write(class, 4096 * (i + 1));
    }
    let before = meter.snapshot();
    meter.write(Class::Plog, 8192);
    meter.read(4096);
    meter.flush();
    meter.discard(40960);
    let after = meter.snapshot() - before;
    let one = |bytes| Traffic { operations: 1, bytes };
    assert_eq!(
        before.all_written(),
        Traffic {
            operations: 6,
            bytes: 21 * 4096
        }
    );
    assert_eq!(after.of(Class::Plog), one(8192));
    assert_eq!(after.of(Class::Data), Traffic::default());
    assert_eq!((after.read, after.flushes), (one(4096), 1));
    assert_eq!(after.discarded, one(40960));
}
