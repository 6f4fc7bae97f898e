//! `onebad [--long]`: every page of a pool after a crash is made bad, one at a time, and spots of 8 KiB, 64 KiB and 1 MiB of it
//! (SPEC S-4.9, S-7.6, S-9.3, S-9.7, S-9.24); exit code 1 if more than what lies there is lost, or something is not told. Of each spot some kinds and
//! moments are tried, which take turns, with `--long` all of them.

use keepfs_lab::onebad::{Bad, Before, Subject, Tally};
use std::process::ExitCode;

/// Pages of the pool in which single pages turn bad.
const SMALL: u64 = 1024;
/// Pages of the one for spots: of an eighth of it the largest is half.
const LARGE: u64 = 4096;
/// Pages of the spots.
const SPOTS: [u64; 3] = [2, 16, 256];
/// Bits of a page that are flipped, one at a time.
const FLIPS: usize = 10;
/// Of the kinds and moments one of so many is tried, of the smallest spots, of which there are most; of the others all are.
const TURNS: usize = 5;

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(why) => {
            eprintln!("onebad: {why}");
            ExitCode::from(2)
        }
    }
}

/// How many promises were broken.
fn run() -> Result<usize, String> {
    let long = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--long") => true,
        Some(word) => return Err(format!("{word} is not known; there is --long")),
    };
    let mut all = Vec::new();
    for copies in [1, 2] {
        let mut tally = Tally::default();
        let subject = Subject::new(copies, SMALL)?;
        for spot in subject.spots(1) {
            for (before, bad) in ways() {
                subject.attempt(spot, bad, before, &mut tally);
            }
        }
        all.append(&mut show(&format!("single pages, copies {copies}"), tally));
        let mut tally = Tally::default();
        for (at, spot) in subject.spots(1).into_iter().enumerate() {
            for nth in 0..FLIPS {
                let before = Before::ALL[(at + nth) % Before::ALL.len()];
                subject.attempt(spot, Bad::Flipped(nth as u64), before, &mut tally);
            }
        }
        all.append(&mut show(&format!("flipped bits, copies {copies}"), tally));
    }
    let subject = Subject::new(2, LARGE)?;
    for count in SPOTS {
        let mut tally = Tally::default();
        let turns = if long || count > SPOTS[0] { 1 } else { TURNS };
        for (nth, spot) in subject.spots(count).into_iter().enumerate() {
            for (before, bad) in ways().skip(nth % turns).step_by(turns) {
                subject.attempt(spot, bad, before, &mut tally);
            }
        }
        all.append(&mut show(&format!("spots of {} KiB", count * 4), tally));
    }
    println!("{} violations", all.len());
    Ok(all.len())
}

/// Every moment with every kind.
fn ways() -> impl Iterator<Item = (Before, Bad)> {
    Before::ALL
        .into_iter()
        .flat_map(|before| Bad::ALL.map(|bad| (before, bad)))
}

/// Prints what came of it; the violations.
fn show(what: &str, tally: Tally) -> Vec<String> {
    println!("{what}: {} tried", tally.tried);
    for ((what, outcome), count) in &tally.outcomes {
        println!("  {what:32} {outcome:20} {count:6}");
    }
    for violation in tally.violations.iter().take(20) {
        println!("VIOLATION {violation}");
    }
    tally.violations
}
