//! The judge: sees the lines that a pool told, nothing else, and says of each number what it was and what became of it.

use super::lines::{Change, Judged, bytes};
use std::collections::BTreeMap;

/// Verdicts, in the order of columns.
pub const VERDICTS: [&str; 12] = [
    "flip",
    "stray",
    "misdirected",
    "parity",
    "sum",
    "words",
    "rotten",
    "torn",
    "media",
    "logic",
    "unknown",
    "none",
];
/// Outcomes, in the order of columns.
pub const OUTCOMES: [&str; 10] = [
    "by the code",
    "sums anew",
    "by the witness",
    "read again",
    "other copy",
    "dropped",
    "taken back",
    "EIO",
    "writing ended",
    "nothing told",
];

/// The numbers of S-18.5. At rest nobody can tell a rotten copy from a torn one or from one that was written over: what
/// differs from its checksum there is rotten.
fn verdict(place: &str, number: &str) -> &'static str {
    let at_rest = matches!(place, "2" | "3" | "6");
    match number {
        "1" | "2" | "10" if at_rest => "rotten",
        "1" => "flip",
        "2" => "stray",
        "3" => "parity",
        "4" => "sum",
        "5" => "words",
        "6" => "misdirected",
        "7" => "torn",
        "8" => "media",
        "9" => "logic",
        _ => "unknown",
    }
}

fn outcome(done: &str) -> &'static str {
    match done {
        "10" => "EIO",
        _ => {
            let at = done.parse().unwrap_or(0usize).wrapping_sub(1);
            OUTCOMES.get(at).copied().unwrap_or("nothing told")
        }
    }
}

/// One line that a pool told.
fn judged(line: &str) -> Option<Judged> {
    let parts: Vec<&str> = line.splitn(9, '\t').collect();
    let [number, place, verdict_number, done, start, end, old, new, _] = parts[..] else {
        return None;
    };
    Some(Judged {
        number: number.parse().ok()?,
        verdict: verdict(place, verdict_number).to_owned(),
        outcome: outcome(done).to_owned(),
        change: Change {
            range: start.parse().ok()?..end.parse().ok()?,
            old: bytes(old)?,
            new: bytes(new)?,
            bits: 0,
        },
    })
}

/// Of two things told about one number the first one that says what it was counts, and what was done last.
fn joined(first: Judged, then: Judged) -> Judged {
    let (outcome, number) = (then.outcome.clone(), first.number);
    let says = if first.verdict == "unknown" { then } else { first };
    Judged {
        number,
        outcome,
        ..says
    }
}

/// The verdicts, one line each, on what a pool told.
pub fn judge(told: &str) -> String {
    let mut all: BTreeMap<u64, Judged> = BTreeMap::new();
    for one in told.lines().filter_map(judged) {
        let one = match all.remove(&one.number) {
            Some(first) => joined(first, one),
            None => one,
        };
        all.insert(one.number, one);
    }
    all.values().map(|one| format!("{one}\n")).collect()
}
