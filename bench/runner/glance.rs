//! The bars at a glance: one table of all that the figures are held against.

use std::fmt::Write;

use super::bars::{self, Verdict};
use super::results::Results;
use super::sample::rounds;

/// The table of all bars that any of the results tell.
pub fn table(all: &[Results]) -> String {
    let mut verdicts: Vec<Verdict> = all
        .iter()
        .flat_map(|results| bars::verdicts(results.figure.name, &rounds(&results.samples)))
        .collect();
    verdicts.sort_by_key(|verdict| order(verdict.id));
    if verdicts.is_empty() {
        return String::new();
    }
    let met = verdicts.iter().filter(|verdict| verdict.met).count();
    let beyond = verdicts.iter().filter(|verdict| out_of_reach(verdict)).count();
    let mut text = format!(
        "## Bars at a glance\n\n{met} of {} are met; {beyond} are out of reach of any file system behind this transport on this device. \
         Of a bar that is missed, \"floor\" is what would be measured if the file system cost nothing: the speed of the \
         empty file system in memory behind the same transport in the same run and, on the modelled device with one \
         thread, one flush for each fsync and each byte written once; for two threads what two programs reach at once \
         that share nothing but the machine.\n\n\
         | bar | figure | workload | asked | measured | met | floor |\n|---|---|---|---|---|---|---|\n",
        verdicts.len()
    );
    for verdict in &verdicts {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "{}", row(verdict));
    }
    text
}

fn out_of_reach(verdict: &Verdict) -> bool {
    verdict.floor.as_ref().is_some_and(|floor| !floor.reaches)
}

fn row(verdict: &Verdict) -> String {
    let met = match (verdict.met, out_of_reach(verdict)) {
        (true, _) => "yes",
        (false, true) => "no: out of reach",
        (false, false) => "**no**",
    };
    let floor = verdict.floor.as_ref().map_or("", |floor| &floor.ratio);
    format!(
        "| {} | [{1}](#{1}) | {2} | {3} | {4} | {met} | {floor} |",
        verdict.id, verdict.figure, verdict.workload, verdict.asked, verdict.measured
    )
}

/// The mission's bars first, then by number.
fn order(id: &str) -> (bool, u32) {
    let number = id.split_once('-').and_then(|(_, number)| number.parse().ok());
    (!id.starts_with('M'), number.unwrap_or_default())
}

#[cfg(test)]
mod tests;
