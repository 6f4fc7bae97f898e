//! Tests of the judge that need no mount.

use super::*;
use serde_json::json;

#[test]
fn a_pool_that_ended_writing_is_faulted() {
    assert!(faulted(&json!({"state": "FAULTED"})).is_some());
    assert!(faulted(&json!({"state": "DEGRADED", "mount": {"writing_ended": true}})).is_some());
    assert!(faulted(&json!({"state": "DEGRADED", "mount": {"writing_ended": false}})).is_none());
}

#[test]
fn forgotten_events_are_gaps() {
    let event = |number: u64| json!({"number": number, "text": "", "place": "memory", "at": 7, "time_s": 100});
    let mut told = Told::default();
    assert!(!told.has_gaps());
    told.take(&json!({"history": [event(1), event(3)]}));
    assert!(told.has_gaps());
    told.take(&json!({"history": [event(2)]}));
    assert!(!told.has_gaps());
    assert!(told.names(7, 101) && !told.names(8, 100) && !told.names(7, 102));
}
