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

/// What stands in a frame that holds something and is right by the server's own word was not noticed; all else has a reason.
#[test]
fn a_stray_that_nobody_told_has_a_reason_or_is_untold() {
    let seen = |pages, bad| move || Some(Seen { pages, bad });
    let nothing = || panic!("nothing to look at");
    const SAME: (u64, u64) = (5, 5);
    assert_eq!(fate(|| true, SAME, false, 8, seen(1, 0)), Fate::Untold);
    assert_eq!(fate(|| true, SAME, true, 8, || None), Fate::Untold);
    assert_eq!(fate(|| false, SAME, false, 8, nothing), Fate::Covered);
    assert_eq!(fate(|| true, (5, 0), false, 8, nothing), Fate::Nobodys);
    assert_eq!(fate(|| true, (5, 6), false, 8, nothing), Fate::Anothers);
    assert_eq!(fate(|| true, (0, 6), false, 8, nothing), Fate::Anothers);
    assert_eq!(fate(|| true, SAME, false, 8, seen(0, 0)), Fate::Nobodys);
    assert_eq!(fate(|| true, SAME, true, 8, seen(1, 1)), Fate::Fenced);
    // Found by this look only.
    assert_eq!(fate(|| true, SAME, false, 8, seen(1, 1)), Fate::Untold);
    assert_eq!(fate(|| true, SAME, false, 3, seen(1, 0)), Fate::Few);
}

/// Redo that was dropped while its server lived is no loss: a checkpoint makes it durable.
#[test]
fn a_loss_is_what_a_dead_server_left() {
    let event =
        |number: u64, text: &str| json!({"number": number, "text": text, "place": "redo", "time_s": 100 + number});
    let mut told = Told::default();
    told.take(
        &json!({"history": [event(1, "redo of transaction 171: dropped; a checkpoint makes it durable instead")]}),
    );
    assert_eq!(told.lost_at(), None);
    let lost = "changes that were acknowledged and not synced are lost, 7 transactions";
    told.take(&json!({"history": [event(3, lost), event(2, lost)]}));
    assert_eq!(told.lost_at(), Some(102));
}
