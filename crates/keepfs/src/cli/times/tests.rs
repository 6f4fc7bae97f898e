//! Times as people read them.

use super::{ago, begin, date};
use jiff::tz::{TimeZone, offset};

#[test]
fn a_time_has_its_offset() {
    assert_eq!(date(0, TimeZone::UTC), "1970-01-01 00:00:00 +00:00");
    let east = TimeZone::fixed(offset(5).saturating_add(jiff::SignedDuration::from_mins(30)));
    assert_eq!(date(1_800_000_000, east), "2027-01-15 13:30:00 +05:30");
    assert_eq!(date(i64::MAX, TimeZone::UTC), "9223372036854775807 s since 1970");
}

#[test]
fn a_day_begins_at_local_midnight() {
    assert_eq!(begin("1970-01-02", TimeZone::UTC), Some(86_400));
    assert_eq!(begin("2027-01-15", TimeZone::fixed(offset(5))), Some(1_799_953_200));
    for wrong in ["", "yesterday", "2026-13-01", "2026-02-30", "2026-11-20 10:00"] {
        assert_eq!(begin(wrong, TimeZone::UTC), None, "{wrong}");
    }
}

#[test]
fn what_passed_is_told_in_the_largest_unit() {
    let table = [
        (-1, "in the future"),
        (0, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (7200, "2 hours ago"),
        (86_400, "1 day ago"),
        (40_000_000, "1 year ago"),
    ];
    for (seconds, said) in table {
        assert_eq!(ago(seconds), said);
    }
}
