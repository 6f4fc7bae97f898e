//! When servers die too often.

use super::{Begin, Death, Lives, Mode};
use std::time::Duration;

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn deaths_that_are_far_apart_are_borne_for_ever() {
    let mut lives = Lives::new(5);
    for n in 0..1000 {
        assert_eq!(lives.died(at(n * 12)), Some(Mode::Normal), "{n}");
    }
}

#[test]
fn one_too_many_within_a_minute_ends_changes_then_everything() {
    let mut lives = Lives::new(5);
    let modes: Vec<_> = (0..18).map(|n| lives.died(at(n))).collect();
    assert_eq!(modes[..5], [Some(Mode::Normal); 5]);
    assert_eq!(modes[5..11], [Some(Mode::ReadOnly); 6]);
    assert_eq!(modes[11..17], [Some(Mode::Failing); 6]);
    assert_eq!(modes[17], None);
}

#[test]
fn what_was_more_than_a_minute_ago_does_not_count() {
    let mut lives = Lives::new(2);
    assert_eq!(lives.died(at(0)), Some(Mode::Normal));
    assert_eq!(lives.died(at(1)), Some(Mode::Normal));
    assert_eq!(lives.died(at(60)), Some(Mode::Normal));
    assert_eq!(lives.died(at(60)), Some(Mode::ReadOnly));
}

#[test]
fn a_server_that_made_room_is_no_death() {
    let mut begin = Begin::first(7);
    begin.next(Some(Death::now("signal 9".into())));
    assert_eq!((begin.lives, begin.deaths, begin.after_death), (2, 1, true));
    begin.next(None);
    assert_eq!((begin.lives, begin.deaths, begin.after_death), (3, 1, false));
    assert_eq!(begin.last_death.unwrap().how, "signal 9");
}
