//! Audits: `audits matrix` plants every logic bug and prints which equation found it (needs `--features planted`); `audits
//! cost [ROUNDS]` compares a volume with audits to one without; `audits run TURNS [EQUATION|all|off]` only runs, for a
//! profiler: all equations but the one named.

use keepfs_audit::digest::{Equation, Equations};
use keepfs_lab::audits::cost;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["matrix"] => matrix(),
        ["cost"] => costs(21),
        ["cost", rounds] => rounds.parse().map_err(|e| format!("{rounds}: {e}")).and_then(costs),
        ["run", turns] => run(turns, "all"),
        ["run", turns, which] => run(turns, which),
        _ => Err("audits matrix | cost [ROUNDS] | run TURNS [EQUATION|all|off]".into()),
    };
    if let Err(error) = result {
        eprintln!("audits: {error}");
        std::process::exit(1);
    }
}

fn costs(rounds: usize) -> Result<(), String> {
    let say = |name: &str, (with, without): (u64, u64)| {
        let percent = (with as f64 / without.max(1) as f64 - 1.0) * 100.0;
        println!("{name:<20}{with:>12}{without:>12}{percent:>9.2} %");
    };
    println!("{:<20}{:>12}{:>12}{:>11}", "equations", "with ns", "without ns", "more");
    let cost = |with, without| cost::compare(with, without, rounds).map_err(|e| format!("{e:?}"));
    say("all", cost(Equations::ALL, Equations::NONE)?);
    Ok(())
}

fn run(turns: &str, which: &str) -> Result<(), String> {
    let turns: usize = turns.parse().map_err(|e| format!("{turns}: {e}"))?;
    let equations = match which {
        "all" => Equations::ALL,
        "off" => Equations::NONE,
        word => {
            let found = Equation::ALL.iter().find(|e| e.word() == word);
            Equations::ALL.without(*found.ok_or(format!("no equation {word}"))?)
        }
    };
    let mut runner = cost::Runner::new(equations).map_err(|e| format!("{e:?}"))?;
    (0..turns).try_for_each(|_| runner.turn()).map_err(|e| format!("{e:?}"))
}

#[cfg(feature = "planted")]
fn matrix() -> Result<(), String> {
    use keepfs_lab::audits::matrix::try_bug;
    use keepfs_store::planted::Logic;

    let tried = |bug| try_bug(bug, Equations::ALL);
    let clean = tried(None)?;
    if !clean.by.is_empty() || !clean.refused.is_empty() || !clean.findings.is_empty() {
        return Err(format!(
            "nothing is planted, and: {:?} {:?} {:?}",
            clean.refused, clean.told, clean.findings
        ));
    }
    let mut wrong = 0;
    println!("{:<55}found by (rows of bugs, numbers of equations)", "planted bug");
    for bug in Logic::ALL {
        let caught = tried(Some(*bug))?;
        let row: String = Equation::ALL
            .iter()
            .map(|e| if caught.by.contains(e) { '#' } else { '.' })
            .collect();
        let alone = caught
            .alone()
            .filter(|e| bug.word().starts_with(&format!("E-{}:", *e as u8)));
        let good = alone.is_some() && caught.findings.is_empty() && !caught.refused.is_empty();
        wrong += usize::from(!good);
        println!("{:<55}{row} {}", bug.word(), if good { "" } else { "WRONG" });
        if !good {
            println!(
                "    {:?} {:?} {:?} {:?}",
                caught.by, caught.refused, caught.told, caught.findings
            );
        }
    }
    match wrong {
        0 => Ok(()),
        n => Err(format!("{n} bugs are not found by their equation alone")),
    }
}

#[cfg(not(feature = "planted"))]
fn matrix() -> Result<(), String> {
    Err("this build has no planted bugs; add --features planted".into())
}
