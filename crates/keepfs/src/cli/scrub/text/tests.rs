//! What `--since` is given.

use super::*;

#[test]
fn since_is_a_day_seconds_or_the_last_scrub() {
    assert_eq!(seconds("@77").unwrap(), "77");
    assert_eq!(seconds("last").unwrap(), "last");
    let day: i64 = seconds("2026-11-22").unwrap().parse().unwrap();
    assert!(times::moment(day).starts_with("2026-11-22 00:00:00 "));
    for wrong in ["", "yesterday", "2026-13-01", "2026-02-30", "@x"] {
        assert!(seconds(wrong).is_err(), "{wrong}");
    }
}
