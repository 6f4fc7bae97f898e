//! Dates and durations as people write them.

use super::*;

#[test]
fn dates_go_both_ways() {
    assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
    assert_eq!(date(951_827_696), "2000-02-29 12:34:56 UTC");
    assert_eq!(date(1_795_312_800), "2026-11-22 02:00:00 UTC");
    for day in ["1970-01-01", "2000-02-29", "2026-11-22", "2100-03-01"] {
        let seconds = seconds(day).expect("a date").parse().expect("a number");
        assert!(date(seconds).starts_with(&format!("{day} 00:00:00")), "{day}");
    }
    assert_eq!(seconds("@77").expect("seconds"), "77");
    for wrong in ["", "yesterday", "2026-13-01", "2026-02-30", "@x"] {
        assert!(seconds(wrong).is_err(), "{wrong}");
    }
}
