//! `onebad`: every page of a pool after a crash is made bad, one at a time (SPEC S-7.6, S-9.3, S-9.7); exit code 1 if more than
//! what lies there is lost, or something is not told.

use keepfs_lab::onebad::{Bad, Before, Subject, Tally};
use std::process::ExitCode;

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
    if let Some(word) = std::env::args().nth(1) {
        return Err(format!("{word} is not known; it takes no arguments"));
    }
    let mut tally = Tally::default();
    for copies in [1, 2] {
        let subject = Subject::new(copies)?;
        for page in subject.pages() {
            for before in Before::ALL {
                for bad in Bad::ALL {
                    subject.attempt(page, bad, before, &mut tally);
                }
            }
        }
    }
    for ((what, outcome), count) in &tally.outcomes {
        println!("{what:24} {outcome:20} {count:6}");
    }
    for violation in tally.violations.iter().take(20) {
        println!("VIOLATION {violation}");
    }
    println!("{} bad pages, {} violations", tally.tried, tally.violations.len());
    Ok(tally.violations.len())
}
