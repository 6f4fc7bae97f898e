//! `second`: servers that are killed and followed by others, beside a model.
//!
//! `second [--kills N] [--seed N] [--clients N]` kills at random instants. With the feature `planted`: `second points`
//! kills at every step of a commit and of a resume, `second mutants` shows that each thing forgotten is noticed.

use keepfs_lab::args::{pool_of, value};
use keepfs_lab::second::child;
use keepfs_lab::second::parent::{self, Outcome, Plan};
use keepfs_store::Guard;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.first().map(String::as_str) {
        Some("child") => live(&args[1..]),
        #[cfg(feature = "planted")]
        Some("points") => planted::points(&args),
        #[cfg(feature = "planted")]
        Some("mutants") => planted::mutants(&args),
        _ => random(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("second: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The server.
fn live(args: &[String]) -> Result<(), String> {
    let pool = PathBuf::from(args.first().ok_or("a server needs a pool")?);
    #[cfg(feature = "planted")]
    planted::arm(&args[1..])?;
    let control = child::control().map_err(|e| e.to_string())?;
    child::live(&pool, control, Guard::default()).map_err(|e| e.to_string())
}

/// A plan; the pool lies in memory if there is a place for that.
fn plan(args: &[String], kills: u64) -> Result<Plan, String> {
    Ok(Plan {
        pool: pool_of("second"),
        kills: value(args, "--kills", kills)?,
        clients: value(args, "--clients", 3)?,
        seed: value(args, "--seed", 1)?,
        more: Vec::new(),
    })
}

fn run(plan: &Plan) -> Result<Outcome, String> {
    let outcome = parent::run(plan);
    let _ = std::fs::remove_file(&plan.pool);
    outcome
}

fn random(args: &[String]) -> Result<(), String> {
    let plan = plan(args, 200)?;
    let outcome = run(&plan)?;
    println!(
        "{} servers killed ({} before they had resumed), {} operations, {} requests sent again, nothing lost or done twice",
        outcome.kills, outcome.early, outcome.operations, outcome.again
    );
    let parts = ["adopt", "roll back", "recover", "evidence", "requests", "volume"];
    for (i, part) in parts.iter().enumerate() {
        let mut times: Vec<u64> = outcome.pauses.iter().filter_map(|p| p.get(i).copied()).collect();
        times.sort_unstable();
        let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or(0);
        println!("{part:>10}: median {} us, 99 % {} us", at(50), at(99));
    }
    Ok(())
}

#[cfg(feature = "planted")]
mod planted {
    use super::{plan, run, value};
    use keepfs_store::planted::{Point, Second, kill_at, plant_second};

    /// Arms a server: `--kill STEP PASS`, `--forget MUTANT`.
    pub fn arm(args: &[String]) -> Result<(), String> {
        for words in args.windows(3).filter(|words| words[0] == "--kill") {
            let point = Point::ALL.iter().find(|point| point.word() == words[1]);
            kill_at(Some((
                *point.ok_or("no such step")?,
                words[2].parse().map_err(|_| "no pass")?,
            )));
        }
        for words in args.windows(2).filter(|words| words[0] == "--forget") {
            let bug = Second::ALL.iter().find(|bug| bug.word() == words[1]);
            plant_second(Some(*bug.ok_or("no such mutant")?));
        }
        Ok(())
    }

    /// Every server kills itself at a step, early and late.
    pub fn points(args: &[String]) -> Result<(), String> {
        for point in Point::ALL {
            for pass in [1, 2, 37] {
                let mut plan = plan(args, 8)?;
                plan.more = ["--kill", point.word(), &pass.to_string()].map(str::to_owned).to_vec();
                let outcome =
                    run(&plan).map_err(|why| format!("killed at \"{}\", pass {pass}: {why}", point.word()))?;
                println!("{}, pass {pass}: {} operations", point.word(), outcome.operations);
            }
        }
        Ok(())
    }

    /// Every mutant is noticed.
    pub fn mutants(args: &[String]) -> Result<(), String> {
        let mut missed = Vec::new();
        for bug in Second::ALL {
            let mut plan = plan(args, value(args, "--kills", 150)?)?;
            plan.more = ["--forget", bug.word()].map(str::to_owned).to_vec();
            if matches!(bug, Second::MarkOmitted | Second::CarryOmitted) {
                // The moment between commit and reply is short.
                plan.more
                    .extend(["--kill", Point::BeforeRaise.word(), "5"].map(str::to_owned));
            }
            match run(&plan) {
                Err(why) => println!("{}: noticed: {}", bug.word(), why.chars().take(120).collect::<String>()),
                Ok(_) => missed.push(bug.word()),
            }
        }
        match missed.is_empty() {
            true => Ok(()),
            false => Err(format!("not noticed: {}", missed.join(", "))),
        }
    }
}
