//! What a campaign did: the table at its end.

use super::campaign::Goal;
use super::kinds;
use super::setting::{GUARDS, LEVELS, guards};
use super::step::StepKind;
use keepfs_store::{Guard, Protection};
use std::collections::BTreeMap;
use std::fmt;

/// One stop in so many may end by patience: an operation beside it had to wait for the checkpoint, to get space, say. It is one
/// in 25 to 30 when nothing is wrong.
const STOPS_RUN_OUT_SHARE: u64 = 10;
/// So few never fail a run: they come together, in workloads on pools that are nearly full.
const STOPS_RUN_OUT_LEAST: u64 = 50;

/// One kind of step.
#[derive(Clone, Copy, Default, Debug)]
pub struct Row {
    /// Distinct images in which such a step was in flight (begun, not acknowledged) or under way.
    pub images: u64,
    /// Distinct trees among what they were recovered to.
    pub states: u64,
}

/// All counts.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    rows: BTreeMap<StepKind, Row>,
    /// Trees that differ after recovery, by guard and level of protection.
    pairs: BTreeMap<(usize, usize), u64>,
    /// Workloads run.
    pub histories: u64,
    /// Entries of all device logs: positions enumerated.
    pub log_entries: u64,
    /// Distinct crash images recovered and judged.
    pub images: u64,
    /// Distinct crash images that an equal recovery covers.
    pub covered: u64,
    /// Of those, how many were recovered all the same, and came to the same tree.
    pub proved: u64,
    /// Recoveries that read the same and then went different ways.
    pub contradictions: u64,
    /// Trees that differ after recovery, in the whole run.
    pub states: u64,
    /// Recoveries at the next guard: each new tree of a workload has one, with the same tree and the same writes.
    pub otherwise: u64,
    /// States inside a recovery that was cut.
    pub again: u64,
    /// Recovered pools that were emptied.
    pub emptied: u64,
    /// Images of a device that lied about its flushes.
    pub lies: u64,
    /// Frames evicted while workloads ran.
    pub evictions: u64,
    /// Checkpoints while workloads ran.
    pub checkpoints: u64,
    /// Servers that died and were followed by one that resumed.
    pub resumes: u64,
    /// Checkpoints that stopped for operations beside them.
    pub stops: u64,
    /// Of those, how many ended by patience, before the operations did: they tested less than they say.
    pub stops_run_out: u64,
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

    /// A tree that was not recovered at this guard and this level before.
    pub fn count_at(&mut self, guard: Guard, protect: Protection) {
        let guard = GUARDS.iter().position(|(_, known)| *known == guard);
        let level = LEVELS.iter().position(|known| *known == protect);
        if let Some(pair) = guard.zip(level) {
            *self.pairs.entry(pair).or_default() += 1;
        }
    }

    /// The states by guard and level of protection.
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<26}", "states at guard, and code")?;
        LEVELS.iter().try_for_each(|level| write!(f, "{level:>12}"))?;
        writeln!(f)?;
        for (at, (word, guard)) in GUARDS.iter().enumerate() {
            write!(f, "{word:<26}")?;
            if !guards().contains(guard) {
                writeln!(f, "    not on this machine")?;
                continue;
            }
            let states = |level| self.pairs.get(&(at, level)).copied().unwrap_or_default();
            (0..LEVELS.len()).try_for_each(|level| write!(f, "{:>12}", states(level)))?;
            writeln!(f)?;
        }
        Ok(())
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        for (kind, row) in &other.rows {
            let mine = self.row(*kind);
            mine.images += row.images;
            mine.states += row.states;
        }
        for (pair, states) in &other.pairs {
            *self.pairs.entry(*pair).or_default() += states;
        }
        for (mine, other) in self.sums().into_iter().zip(other.clone().sums()) {
            *mine += *other;
        }
    }

    /// Everything that is added up.
    fn sums(&mut self) -> [&mut u64; 18] {
        [
            &mut self.histories,
            &mut self.log_entries,
            &mut self.images,
            &mut self.covered,
            &mut self.proved,
            &mut self.contradictions,
            &mut self.states,
            &mut self.otherwise,
            &mut self.again,
            &mut self.emptied,
            &mut self.lies,
            &mut self.evictions,
            &mut self.checkpoints,
            &mut self.no_space,
            &mut self.resumes,
            &mut self.stops,
            &mut self.stops_run_out,
            &mut self.violations,
        ]
    }

    /// The kinds of which there are fewer states than the goal asks for, with their number.
    pub fn short_of(&self, goal: Goal) -> Vec<(StepKind, u64)> {
        let states = |kind: &StepKind| self.rows.get(kind).map_or(0, |row| row.states);
        let asked = kinds::asked().into_iter().map(|kind| (kind, states(&kind)));
        let is_short = |(kind, states): &(StepKind, u64)| *states < goal.each / kinds::share(*kind);
        asked.filter(is_short).collect()
    }

    /// Whether more stops ended by patience than a few that had to: then checkpoints are stopped, and hardly anything is
    /// tested beside them.
    pub fn stops_fail(&self) -> bool {
        self.stops_run_out > STOPS_RUN_OUT_LEAST && self.stops_run_out * STOPS_RUN_OUT_SHARE > self.stops
    }

    /// Whether a goal is reached.
    pub fn reaches(&self, goal: Goal) -> bool {
        self.states >= goal.states && self.short_of(goal).is_empty()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<26}{:>12}{:>12}", "in flight", "images", "states")?;
        for (kind, row) in &self.rows {
            writeln!(f, "{kind:<26}{:>12}{:>12}", row.images, row.states)?;
        }
        self.table(f)?;
        writeln!(
            f,
            "{} workloads, {} log positions, {} evictions, {} checkpoints, {} times ENOSPC, {} resumes",
            self.histories, self.log_entries, self.evictions, self.checkpoints, self.no_space, self.resumes
        )?;
        writeln!(
            f,
            "{} checkpoints stopped for operations beside them, {} of these stops ended by patience",
            self.stops, self.stops_run_out
        )?;
        writeln!(
            f,
            "{} states (trees that differ after recovery), each at two guards and two levels of protection ({} recoveries more)",
            self.states, self.otherwise
        )?;
        writeln!(
            f,
            "{} distinct images recovered and judged; {} more covered by an equal recovery ({} of them recovered to \
             prove it, {} contradictions)",
            self.images, self.covered, self.proved, self.contradictions
        )?;
        write!(
            f,
            "{} states of crashes inside recovery, {} pools emptied, {} images of lying devices contained\n{} violations",
            self.again, self.emptied, self.lies, self.violations
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
                    "{{\"in_flight\":\"{kind}\",\"images\":{},\"states\":{}}}",
                    row.images, row.states
                )
            })
            .collect();
        format!(
            "{{\"version\":2,\"workloads\":{},\"positions\":{},\"images\":{},\"covered\":{},\"states\":{},\"otherwise\":{},\"again\":{},\"emptied\":{},\"lies\":{},\"evictions\":{},\"checkpoints\":{},\"resumes\":{},\"stops\":{},\"stops_run_out\":{},\"violations\":{},\"rows\":[{}]}}",
            self.histories,
            self.log_entries,
            self.images,
            self.covered,
            self.states,
            self.otherwise,
            self.again,
            self.emptied,
            self.lies,
            self.evictions,
            self.checkpoints,
            self.resumes,
            self.stops,
            self.stops_run_out,
            self.violations,
            rows.join(",")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_stops_that_run_out_fail_a_run() {
        let tally = |stops, stops_run_out| Tally {
            stops,
            stops_run_out,
            ..Tally::default()
        };
        assert!(!tally(0, 0).stops_fail());
        assert!(!tally(626, 24).stops_fail());
        assert!(!tally(50, 50).stops_fail());
        assert!(tally(626, 63).stops_fail());
        assert!(tally(600, 600).stops_fail());
    }
}
