//! What a campaign did: the table at its end.

use super::step::StepKind;
use std::collections::BTreeMap;
use std::fmt;

/// One kind of step.
#[derive(Clone, Copy, Default, Debug)]
pub struct Row {
    /// Distinct images in which such a step was in flight (begun, not acknowledged) or under way.
    pub images: u64,
    /// Distinct states among them.
    pub states: u64,
    /// Violations.
    pub violations: u64,
}

/// All counts.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    rows: BTreeMap<StepKind, Row>,
    /// Workloads run.
    pub histories: u64,
    /// Entries of all device logs: positions enumerated.
    pub log_entries: u64,
    /// Distinct crash images, each recovered and judged.
    pub images: u64,
    /// States that differ after recovery.
    pub states: u64,
    /// Images recovered after a crash inside a recovery.
    pub again: u64,
    /// Recovered pools that were emptied.
    pub emptied: u64,
    /// Images of a device that lied about its flushes.
    pub lies: u64,
    /// Frames evicted while workloads ran.
    pub evictions: u64,
    /// Checkpoints while workloads ran.
    pub checkpoints: u64,
    /// Operations that were refused for want of space.
    pub no_space: u64,
    /// Violations.
    pub violations: u64,
}

impl Tally {
    /// The row of a kind.
    pub fn row(&mut self, kind: StepKind) -> &mut Row {
        self.rows.entry(kind).or_default()
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = (&StepKind, &Row)> {
        self.rows.iter()
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        for (kind, row) in &other.rows {
            let mine = self.row(*kind);
            mine.images += row.images;
            mine.states += row.states;
            mine.violations += row.violations;
        }
        self.histories += other.histories;
        self.log_entries += other.log_entries;
        self.images += other.images;
        self.states += other.states;
        self.again += other.again;
        self.emptied += other.emptied;
        self.lies += other.lies;
        self.evictions += other.evictions;
        self.checkpoints += other.checkpoints;
        self.no_space += other.no_space;
        self.violations += other.violations;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<16}{:>12}{:>12}{:>12}",
            "in flight", "images", "states", "violations"
        )?;
        for (kind, row) in &self.rows {
            writeln!(
                f,
                "{kind:<16}{:>12}{:>12}{:>12}",
                row.images, row.states, row.violations
            )?;
        }
        write!(
            f,
            "{} workloads, {} log positions, {} evictions, {} checkpoints, {} times ENOSPC\n\
             {} distinct images recovered and judged, {} states that differ after recovery\n\
             {} images of crashes inside recovery, {} pools emptied, {} images of lying devices contained\n{} violations",
            self.histories,
            self.log_entries,
            self.evictions,
            self.checkpoints,
            self.no_space,
            self.images,
            self.states,
            self.again,
            self.emptied,
            self.lies,
            self.violations
        )
    }
}

impl Tally {
    /// The same as one line of JSON.
    pub fn json(&self) -> String {
        let rows: Vec<String> = self
            .rows
            .iter()
            .map(|(kind, row)| {
                format!(
                    "{{\"in_flight\":\"{kind}\",\"images\":{},\"states\":{},\"violations\":{}}}",
                    row.images, row.states, row.violations
                )
            })
            .collect();
        format!(
            "{{\"version\":1,\"workloads\":{},\"positions\":{},\"images\":{},\"states\":{},\"again\":{},\"emptied\":{},\"lies\":{},\"evictions\":{},\"checkpoints\":{},\"violations\":{},\"rows\":[{}]}}",
            self.histories,
            self.log_entries,
            self.images,
            self.states,
            self.again,
            self.emptied,
            self.lies,
            self.evictions,
            self.checkpoints,
            self.violations,
            rows.join(",")
        )
    }
}
