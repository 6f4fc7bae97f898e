//! The two files of an injector, a line each: what it did (truth), and what the pool told; and the judge's verdicts.

use super::fault::Class;
use core::fmt;
use keepfs_format::PAGE;
use keepfs_format::history::Event;
use std::ops::Range;

/// Bytes of a change that a line shows, as many as an event does.
const SHOWN: usize = keepfs_format::history::SHOWN;

/// What a reader got behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    /// The right bytes.
    Right,
    /// An error.
    Error,
    /// Wrong bytes.
    Wrong,
}

impl Served {
    const ALL: [(Served, &'static str); 3] = [
        (Served::Right, "right"),
        (Served::Error, "error"),
        (Served::Wrong, "wrong"),
    ];
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Served::ALL.iter().find(|(served, _)| served == self);
        f.write_str(found.map_or("", |(_, word)| word))
    }
}

/// Bytes that were changed: where, and the first of them before and after.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// From the first to the last that differ.
    pub range: Range<usize>,
    /// What should stand there.
    pub old: Vec<u8>,
    /// What stands there.
    pub new: Vec<u8>,
    /// Bits that differ.
    pub bits: u32,
}

impl Change {
    /// From one to the other; empty if they are equal.
    pub fn between(old: &[u8; PAGE], new: &[u8; PAGE]) -> Change {
        let differs = |at: &usize| old[*at] != new[*at];
        let start = (0..PAGE).find(differs).unwrap_or(0);
        let end = (0..PAGE).rev().find(differs).map_or(0, |last| last + 1);
        let first = |bytes: &[u8; PAGE]| bytes[start..end].iter().take(SHOWN).copied().collect();
        Change {
            range: start..end,
            old: first(old),
            new: first(new),
            bits: old.iter().zip(new).map(|(a, b)| (a ^ b).count_ones()).sum(),
        }
    }

    fn columns(&self) -> String {
        let Range { start, end } = self.range;
        format!("{start}\t{end}\t{}\t{}\t{}", self.bits, hex(&self.old), hex(&self.new))
    }

    fn of_columns(columns: &[&str]) -> Option<Change> {
        let [start, end, bits, old, new] = columns else {
            return None;
        };
        Some(Change {
            range: start.parse().ok()?..end.parse().ok()?,
            bits: bits.parse().ok()?,
            old: bytes(old)?,
            new: bytes(new)?,
        })
    }
}

/// What an injector did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Truth {
    /// Its number.
    pub number: u64,
    /// The pool's code.
    pub code: String,
    /// What it was.
    pub class: Class,
    /// What it left, before anybody looked.
    pub change: Change,
    /// What a reader got behind it.
    pub served: Served,
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Truth {
            number,
            code,
            class,
            change,
            served,
        } = self;
        write!(f, "{number}\t{code}\t{class}\t{served}\t{}", change.columns())
    }
}

impl Truth {
    /// A line; `None`: it is none.
    pub fn parse(line: &str) -> Option<Truth> {
        let parts: Vec<&str> = line.split('\t').collect();
        let [number, code, class, served, change @ ..] = &parts[..] else {
            return None;
        };
        Some(Truth {
            number: number.parse().ok()?,
            code: (*code).to_owned(),
            class: Class::of(class)?,
            served: Served::ALL.iter().find(|(_, word)| word == served)?.0,
            change: Change::of_columns(change)?,
        })
    }
}

/// What the pool told while the injector's `number` was looked for: `None` of the event's columns says nothing of truth.
pub fn told(number: u64, event: &Event) -> String {
    let range = event.offset..event.offset + event.length;
    format!(
        "{number}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
        event.place,
        event.verdict,
        event.done,
        range.start,
        range.end,
        hex(&event.old),
        hex(&event.new),
        event.text.replace(['\t', '\n'], " ")
    )
}

/// What a judge says of one injection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Judged {
    /// Whose.
    pub number: u64,
    /// What it was.
    pub verdict: String,
    /// What became of it.
    pub outcome: String,
    /// What was changed, if the pool told.
    pub change: Change,
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Judged {
            number,
            verdict,
            outcome,
            change,
        } = self;
        write!(f, "{number}\t{verdict}\t{outcome}\t{}", change.columns())
    }
}

impl Judged {
    /// A line; `None`: it is none.
    pub fn parse(line: &str) -> Option<Judged> {
        let parts: Vec<&str> = line.split('\t').collect();
        let [number, verdict, outcome, change @ ..] = &parts[..] else {
            return None;
        };
        Some(Judged {
            number: number.parse().ok()?,
            verdict: (*verdict).to_owned(),
            outcome: (*outcome).to_owned(),
            change: Change::of_columns(change)?,
        })
    }
}

/// Bytes in hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The same back.
pub fn bytes(text: &str) -> Option<Vec<u8>> {
    let pairs = (0..text.len()).step_by(2).map(|at| text.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}
