//! Times for people: of their clock, with its offset, and how long ago.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::time::{SystemTime, UNIX_EPOCH};

/// Units of a time that has passed, the largest first, seconds each.
const UNITS: [(&str, i64); 5] = [
    ("year", 31_557_600),
    ("month", 2_629_800),
    ("day", 86_400),
    ("hour", 3600),
    ("minute", 60),
];

/// Seconds since 1970 as `2026-11-25 20:12:10 +01:00 (2 hours ago)`.
pub fn told(at_s: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    format!("{} ({})", moment(at_s), ago(now_s.saturating_sub(at_s)))
}

/// The same without how long ago, for what is to come.
pub fn moment(at_s: i64) -> String {
    date(at_s, TimeZone::system())
}

/// When a day such as 2026-11-20 begins, seconds since 1970. `None`: it is none.
pub fn day(text: &str) -> Option<i64> {
    begin(text, TimeZone::system())
}

fn begin(text: &str, zone: TimeZone) -> Option<i64> {
    let date = Date::strptime("%Y-%m-%d", text).ok()?;
    Some(date.to_zoned(zone).ok()?.timestamp().as_second())
}

/// The moment in a time zone; one that no calendar has is told as it is.
fn date(at_s: i64, zone: TimeZone) -> String {
    Timestamp::from_second(at_s).map_or_else(
        |_| format!("{at_s} s since 1970"),
        |at| at.to_zoned(zone).strftime("%Y-%m-%d %H:%M:%S %:z").to_string(),
    )
}

fn ago(seconds: i64) -> String {
    if seconds < 0 {
        return "in the future".into();
    }
    let unit = UNITS.iter().find(|(_, length)| seconds >= *length);
    let Some((name, length)) = unit else {
        return "just now".into();
    };
    let count = seconds / length;
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {name}{plural} ago")
}

#[cfg(test)]
mod tests;
