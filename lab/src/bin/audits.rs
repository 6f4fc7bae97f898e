//! Audits: `audits matrix` plants every logic bug and prints which equation found it (needs `--features planted`;
//! `matrix-told` counts for `cargo xtask papers`); `audits
//! cost [ROUNDS [LOAD]]` compares each level of protection with none (BARS M-9, M-10, P-6); `audits run TURNS LOAD
//! [EQUATION|all|off]` only runs, for a profiler: all equations but the one named.

use keepfs_digest::{Equation, Equations};
use keepfs_lab::audits::cost::{self, LEVELS, Level};
use keepfs_lab::audits::load::{Kind, Load};

/// Rounds of a comparison, if nothing else is asked.
const ROUNDS: &str = "25";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["matrix"] => matrix(),
        ["matrix-told"] => matrix_told(),
        ["cost"] => costs(ROUNDS, None),
        ["cost", rounds] => costs(rounds, None),
        ["cost", rounds, load] => costs(rounds, Some(load)),
        ["run", turns, load] => run(turns, load, "all"),
        ["run", turns, load, which] => run(turns, load, which),
        _ => Err("audits matrix | cost [ROUNDS [LOAD]] | run TURNS LOAD [EQUATION|all|off]".into()),
    };
    if let Err(error) = result {
        eprintln!("audits: {error}");
        std::process::exit(1);
    }
}

fn number(text: &str) -> Result<usize, String> {
    text.parse().map_err(|e| format!("{text}: {e}"))
}

fn load(word: &str) -> Result<Kind, String> {
    let found = Kind::ALL.into_iter().find(|kind| kind.word().starts_with(word));
    found.ok_or_else(|| format!("no load {word}"))
}

/// One table a load, as RESULTS has them.
fn costs(rounds: &str, only: Option<&str>) -> Result<(), String> {
    let rounds = number(rounds)?;
    let only = only.map(load).transpose()?;
    for kind in Kind::ALL.into_iter().filter(|kind| only.is_none_or(|o| o == *kind)) {
        let (unit, count) = kind.unit();
        println!("{}: {rounds} alternating rounds, processor time\n", kind.word());
        println!("| level | ns a {unit} | more than off | 95 % |\n|---|---|---|---|");
        let costs = cost::compare(kind, &LEVELS, rounds).map_err(|e| format!("{e:?}"))?;
        for (level, cost) in LEVELS.iter().zip(costs) {
            let percent = |ratio: f64| (ratio - 1.0) * 100.0;
            println!(
                "| {} | {} | {:.1} % | {:.1} to {:.1} % |",
                level.name,
                cost.turn_ns / count,
                percent(cost.ratio),
                percent(cost.bounds.0),
                percent(cost.bounds.1),
            );
        }
        println!();
    }
    Ok(())
}

fn run(turns: &str, kind: &str, which: &str) -> Result<(), String> {
    let equations = match which {
        "all" => Equations::ALL,
        "off" => Equations::NONE,
        word => {
            let found = Equation::ALL.iter().find(|e| e.word() == word);
            Equations::ALL.without(*found.ok_or(format!("no equation {word}"))?)
        }
    };
    let (turns, kind) = (number(turns)?, load(kind)?);
    let run = || {
        let volume = Level::audited(equations).volume()?;
        let mut load = Load::new(&volume, kind)?;
        (0..turns).try_for_each(|_| load.prepare().and_then(|()| load.turn()))
    };
    run().map_err(|e: keepfs_vfs::Errno| format!("{e:?}"))
}

#[cfg(feature = "planted")]
fn matrix() -> Result<(), String> {
    use keepfs_lab::audits::matrix::try_bug;
    use keepfs_store::planted::Logic;

    let tried = |bug| try_bug(bug, Equations::ALL);
    let clean = tried(None)?;
    if !clean.is_right() {
        let told = (clean.refused, clean.told, clean.damages, clean.findings);
        return Err(format!("nothing is planted, and: {told:?}"));
    }
    let (mut wrong, mut cited) = (0, 0);
    println!("{:<55}found by (rows of bugs, numbers of equations)", "planted bug");
    for bug in Logic::ALL {
        let caught = tried(Some(*bug))?;
        let mark = |e| if caught.by.contains(e) { '#' } else { '.' };
        let row: String = Equation::ALL.iter().map(mark).collect();
        let sums = if caught.damages.is_empty() { "" } else { " sums" };
        let good = caught.is_right();
        wrong += usize::from(!good);
        cited += usize::from(bug.source().is_some());
        println!("{:<55}{row}{sums} {}", bug.word(), if good { "" } else { "WRONG" });
        println!("    {}", bug.source().unwrap_or("of our own making"));
        if !good {
            let (by, refused, told) = (&caught.by, &caught.refused, &caught.told);
            println!(
                "    {by:?} {refused:?} {told:?} {:?} {:?}",
                caught.damages, caught.findings
            );
        }
    }
    println!(
        "{} planted, {cited} of them modelled on published bugs",
        Logic::ALL.len()
    );
    wrong += callers()?;
    match wrong {
        0 => Ok(()),
        n => Err(format!("{n} bugs are not found as they should be")),
    }
}

/// A change by the wrong group, one bug a group: refused and told once, its transaction taken back, no sum wrong, and the pool
/// that is left sound. Returns how many were not.
#[cfg(feature = "planted")]
fn callers() -> Result<usize, String> {
    use keepfs_codes::identity::Group;
    use keepfs_lab::audits::matrix::try_caller;

    let mut wrong = 0;
    println!("\n{:<30}told", "a change by the wrong group");
    for caller in [None].into_iter().chain(Group::ALL.map(Some)) {
        let foreign = try_caller(caller)?;
        let asked = usize::from(caller.is_some());
        let good = foreign.told.len() == asked
            && foreign.refused.len() == asked
            && foreign.damages.is_empty()
            && foreign.findings.is_empty();
        wrong += usize::from(!good);
        let name = caller.map_or("none".into(), |group| format!("{group:?}"));
        println!(
            "{name:<30}{} {}",
            foreign.told.join("; "),
            if good { "" } else { "WRONG" }
        );
        if !good {
            println!("    {:?} {:?} {:?}", foreign.refused, foreign.damages, foreign.findings);
        }
    }
    Ok(wrong)
}

/// How many planted bugs are found by their own equation and no other, their transactions taken back and nothing wrong left;
/// and how many equations have found one so.
#[cfg(feature = "planted")]
fn matrix_told() -> Result<(), String> {
    use keepfs_lab::audits::matrix::try_bug;
    use keepfs_lab::told::Told;
    use keepfs_store::planted::Logic;

    let (mut found, mut equations) = (0.0, std::collections::BTreeSet::new());
    for bug in Logic::ALL {
        let caught = try_bug(Some(*bug), Equations::ALL)?;
        if let Some(equation) = caught
            .alone()
            .filter(|_| caught.findings.is_empty() && !caught.refused.is_empty())
        {
            found += 1.0;
            equations.insert(equation);
        }
    }
    let planted = Logic::ALL.len() as f64;
    let told = Told::new("planted logic bugs, found by one equation", "keepfs", found, "bugs");
    println!("{}", told.with("planted", planted).json());
    let told = Told::new(
        "equations that find one alone",
        "keepfs",
        equations.len() as f64,
        "equations",
    );
    println!("{}", told.with("equations", Equation::ALL.len() as f64).json());
    Ok(())
}

#[cfg(not(feature = "planted"))]
fn matrix_told() -> Result<(), String> {
    matrix()
}

#[cfg(not(feature = "planted"))]
fn matrix() -> Result<(), String> {
    Err("this build has no planted bugs; add --features planted".into())
}
