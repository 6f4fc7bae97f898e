//! A scrub as text, `Key: value`, with times of the local clock.

use super::super::times;
use keepfs_server::Failure;
use keepfs_server::scrub::{Found, Report, duration};
use keepfs_server::size::Size;
use keepfs_server::visible::one_line;

/// The lines of `keepfs scrub status`.
pub fn of(r: &Report, now_s: i64) -> String {
    let mut lines = vec![("UUID", r.id.clone())];
    if r.state == "none" {
        lines.push(("Status", "no scrub was started yet".into()));
    } else {
        lines.push(("Scrub started", times::told(r.started_s)));
        lines.push(("Status", status(r)));
        lines.push(("Duration", duration(r.active_ms / 1000)));
        if let Some(left) = r.left_s {
            lines.push(("Time left", duration(left)));
            lines.push((
                "ETA",
                times::moment(now_s.saturating_add(i64::try_from(left).unwrap_or(i64::MAX))),
            ));
        }
        let percent = (r.done_bytes * 100).checked_div(r.total_bytes).unwrap_or(100);
        lines.push(("Total to scrub", Size(r.total_bytes).to_string()));
        lines.push(("Bytes scrubbed", format!("{} ({percent}%)", Size(r.done_bytes))));
        lines.push(("Rate", rate(r)));
        lines.push(("Error summary", errors(r)));
    }
    let Found { pages, bad, .. } = r.rounds;
    lines.push((
        "Memory",
        format!("{pages} frames looked at by the way since it was mounted, {bad} were bad"),
    ));
    lines.push((
        "Last whole scrub",
        match r.rest_done_s {
            0 => "the whole device was not looked at yet".into(),
            done => times::told(done),
        },
    ));
    lines
        .iter()
        .map(|(name, text)| format!("{:<18}{}\n", format!("{name}:"), one_line(text)))
        .collect()
}

fn status(r: &Report) -> String {
    match r.state.as_str() {
        "running" => format!("running ({})", r.phase),
        "finished" | "canceled" => format!("{} on {}", r.state, times::told(r.ended_s)),
        other => other.into(),
    }
}

fn rate(r: &Report) -> String {
    let rate = (r.done_bytes * 1000).checked_div(r.active_ms).unwrap_or(r.done_bytes);
    let limit = match r.limit_bytes_per_s {
        0 => "no limit".into(),
        limit => format!("limit {}/s", Size(limit)),
    };
    format!("{}/s ({limit})", Size(rate))
}

fn errors(r: &Report) -> String {
    let parts = [("memory", r.arena), ("metadata", r.metadata), ("data", r.data)];
    let bad: Vec<(&str, Found)> = parts.into_iter().filter(|(_, found)| found.bad > 0).collect();
    if bad.is_empty() {
        return "no errors found".into();
    }
    let kinds: Vec<String> = bad
        .iter()
        .map(|(name, found)| format!("{name}={}", found.bad))
        .collect();
    let corrected: u64 = bad.iter().map(|(_, found)| found.corrected).sum();
    let lost: u64 = bad.iter().map(|(_, found)| found.uncorrectable).sum();
    format!("{}; corrected {corrected}, uncorrectable {lost}", kinds.join(" "))
}

/// The first second of a local date such as 2026-11-20, or @seconds; `last` stays as it is.
pub fn seconds(text: &str) -> Result<String, Failure> {
    let wrong = || {
        Failure::Usage(format!(
            "'{text}' is neither `last` nor a date such as 2026-11-20 nor @SECONDS"
        ))
    };
    if text == "last" {
        return Ok(text.into());
    }
    if let Some(seconds) = text.strip_prefix('@') {
        return seconds.parse::<i64>().map(|s| s.to_string()).map_err(|_| wrong());
    }
    times::day(text).map(|s| s.to_string()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
