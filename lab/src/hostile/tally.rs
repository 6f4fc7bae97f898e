//! The table of a run: structure by field, how many images and what became of them.

use super::exercise::Outcome;
use core::fmt;
use std::collections::BTreeMap;

/// Name of the row of the sound images.
pub const CONTROL: &str = "(control)";

/// One row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// Images made.
    pub images: u64,
    /// Not mounted.
    pub refused: u64,
    /// Mounted, with errors.
    pub errors: u64,
    /// Mounted, all worked.
    pub served: u64,
    /// Panics, hangs, deaths, wrong writes.
    pub violations: u64,
}

/// All rows.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// By structure and field.
    pub rows: BTreeMap<(String, String), Row>,
}

impl Row {
    fn count(&mut self, outcome: &Outcome) {
        self.images += 1;
        match outcome {
            Outcome::Refused(_) => self.refused += 1,
            Outcome::Errors(_) => self.errors += 1,
            Outcome::Served => self.served += 1,
            Outcome::Violation(_) => self.violations += 1,
        }
    }
}

impl Tally {
    /// Counts one image.
    pub fn count(&mut self, row: (String, String), outcome: &Outcome) {
        self.rows.entry(row).or_default().count(outcome);
    }

    /// The row of the sound images.
    pub fn control(&self) -> Row {
        let row = self.rows.iter().find(|((structure, _), _)| structure == CONTROL);
        row.map(|(_, row)| *row).unwrap_or_default()
    }

    /// The sum of all rows.
    pub fn sum(&self) -> Row {
        self.rows.values().fold(Row::default(), |a, b| Row {
            images: a.images + b.images,
            refused: a.refused + b.refused,
            errors: a.errors + b.errors,
            served: a.served + b.served,
            violations: a.violations + b.violations,
        })
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, row: &Row| {
            writeln!(
                f,
                "{name:<58} {:>7} {:>8} {:>7} {:>7} {:>5}",
                row.images, row.refused, row.errors, row.served, row.violations
            )
        };
        let sum = self.sum();
        for ((structure, field), row) in &self.rows {
            line(&format!("{structure}: {field}"), row)?;
        }
        line("sum", &sum)
    }
}

/// The head of the table.
pub fn heading() -> String {
    format!(
        "{:<58} {:>7} {:>8} {:>7} {:>7} {:>5}",
        "structure: field", "images", "refused", "errors", "served", "wrong"
    )
}
