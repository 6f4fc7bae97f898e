//! `strays --keepfs PROGRAM [--seeds N] [--first N] [--strays N] [--rates FROM-TO] [--jobs N] [--dir DIR] [--logs DIR]`: random
//! bytes into the memory of servers under real work, judged from outside; `--planted`: the judge is judged instead.

use keepfs_lab::strays::judge::Kind;
use keepfs_lab::strays::product::Product;
use keepfs_lab::strays::tree::{self, Look};
use keepfs_lab::strays::{CODES, GUARDS, Lab, Outcome, Plant, Setting};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Violations of a run that are printed.
const SHOWN: usize = 4;
/// Characters of one.
const WIDE: usize = 300;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.first().map(String::as_str) {
        Some("compare") => compare(&args[1..]),
        _ => run(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("strays: {why}");
            ExitCode::from(2)
        }
    }
}

/// `compare RIGHT FOUND LOOK`, in a process of its own: what is looked at may never answer.
fn compare(args: &[String]) -> Result<bool, String> {
    let [right, found, look] = args else {
        return Err("compare RIGHT FOUND LOOK".into());
    };
    let look = Look::named(look).ok_or("no such look")?;
    let all = tree::compare(Path::new(right), Path::new(found), look);
    let wrong: Vec<_> = all
        .wrong
        .iter()
        .map(|(path, what)| json!([path.to_string_lossy(), what]))
        .collect();
    println!("{}", json!({"wrong": wrong, "eio": all.eio.len()}));
    Ok(true)
}

struct Args {
    keepfs: PathBuf,
    seeds: u64,
    first: u64,
    strays: usize,
    rates: (usize, usize),
    jobs: usize,
    dir: PathBuf,
    logs: Option<PathBuf>,
    planted: bool,
}

fn parse(words: &[String]) -> Result<Args, String> {
    let mut args = Args {
        keepfs: PathBuf::new(),
        seeds: 20,
        first: 0,
        strays: 400,
        rates: (80, 100),
        jobs: 2,
        dir: std::env::temp_dir(),
        logs: None,
        planted: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--planted" {
            args.planted = true;
            continue;
        }
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|e| format!("{word} {value}: {e}"));
        match word.as_str() {
            "--keepfs" => args.keepfs = PathBuf::from(value),
            "--seeds" => args.seeds = number()?,
            "--first" => args.first = number()?,
            "--strays" => args.strays = number()? as usize,
            "--jobs" => args.jobs = number()?.max(1) as usize,
            "--dir" => args.dir = PathBuf::from(value),
            "--logs" => args.logs = Some(PathBuf::from(value)),
            "--rates" => {
                let pair = value
                    .split_once('-')
                    .and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                args.rates = pair
                    .filter(|(a, b)| *a > 0 && a <= b)
                    .ok_or("rates are such as 10-100")?;
            }
            _ => return Err(format!("{word} is not known")),
        }
    }
    match args.keepfs.is_file() {
        true => Ok(args),
        false => Err("--keepfs PROGRAM: which keepfs?".into()),
    }
}

fn run(words: &[String]) -> Result<bool, String> {
    let args = parse(words)?;
    let dir = args.dir.join(format!("strays-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let lab = Lab {
        product: Product {
            binary: args.keepfs.canonicalize().map_err(|e| e.to_string())?,
        },
        myself: std::env::current_exe().map_err(|e| e.to_string())?,
        dir: dir.clone(),
        logs: args.logs.clone(),
    };
    let done = lab.furnish().and_then(|()| match args.planted {
        true => planted(&lab, &args),
        false => all(&lab, &args),
    });
    drop(fs::remove_dir_all(&dir));
    done
}

/// Runs without strays, each with something planted: the judge names it, and nothing when nothing was planted.
fn planted(lab: &Lab, args: &Args) -> Result<bool, String> {
    let plants = Plant::ALL.map(|(plant, kind)| (Some(plant), Some(kind)));
    let mut missed = 0;
    for (n, (plant, kind)) in [(None, None)].into_iter().chain(plants).enumerate() {
        let setting = Setting {
            plant,
            near: None,
            deaths: 0,
            ..Setting::of(n as u64, 0, args.rates, &GUARDS[..2])
        };
        let outcome = lab.run(&setting)?;
        let found: Vec<Kind> = outcome.violations.iter().map(|(kind, _)| *kind).collect();
        let right = match kind {
            Some(kind) => found.contains(&kind),
            None => found.is_empty() && outcome.beyond.is_none(),
        };
        missed += usize::from(!right);
        println!(
            "planted {plant:?}: judged {found:?}{}",
            if right { "" } else { ": NOT RIGHT" }
        );
        if !right {
            print!("{}", outcome.log);
        }
    }
    println!("{} plants, {missed} judged wrongly", Plant::ALL.len());
    Ok(missed == 0)
}

fn all(lab: &Lab, args: &Args) -> Result<bool, String> {
    let guards = lab.guards()?;
    let next = AtomicU64::new(args.first);
    let outcomes: Mutex<BTreeMap<u64, (Setting, Outcome)>> = Mutex::new(BTreeMap::new());
    let work = || -> Result<(), String> {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= args.first + args.seeds {
                return Ok(());
            }
            let setting = Setting::of(seed, args.strays, args.rates, &guards);
            let outcome = lab.run(&setting).map_err(|why| format!("seed {seed}: {why}"))?;
            tell(&setting, &outcome, args)?;
            outcomes
                .lock()
                .map_err(|e| e.to_string())?
                .insert(seed, (setting, outcome));
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.jobs).map(|_| scope.spawn(work)).collect();
        let ends = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a run panicked".into())));
        ends.collect::<Result<Vec<()>, String>>()
    })?;
    let outcomes = outcomes.into_inner().map_err(|e| e.to_string())?;
    Ok(sum(&outcomes, &guards))
}

/// A run's line, its worst violations, and the log of one that has any.
fn tell(setting: &Setting, outcome: &Outcome, args: &Args) -> Result<(), String> {
    println!("{}", outcome.line);
    let cut = |text: &str| text.replace('\n', " ").chars().take(WIDE).collect::<String>();
    for (kind, text) in outcome.violations.iter().take(SHOWN) {
        println!("  seed {} {}: {}", setting.seed, kind.word(), cut(text));
    }
    if let Some(why) = &outcome.beyond {
        println!("  seed {} beyond the distance: {}", setting.seed, cut(why));
    }
    let Some(logs) = args
        .logs
        .as_ref()
        .filter(|_| !outcome.violations.is_empty() || outcome.beyond.is_some())
    else {
        return Ok(());
    };
    let path = logs.join(format!("strays-{}.txt", setting.seed));
    fs::create_dir_all(logs)
        .and_then(|()| fs::write(&path, &outcome.log))
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// The table, and whether what must hold held.
fn sum(outcomes: &BTreeMap<u64, (Setting, Outcome)>, guards: &[&'static str]) -> bool {
    print!(
        "{:<11} {:<8} {:>4} {:>6} {:>6}",
        "code", "guard", "runs", "strays", "beyond"
    );
    Kind::ALL.iter().for_each(|(_, word, _)| print!(" {word:>7}"));
    println!("   (runs with a violation)");
    for (code, _) in CODES {
        for guard in guards {
            let of = |row: &&(Setting, Outcome)| row.0.code == code && row.0.guard == *guard;
            let runs: Vec<_> = outcomes.values().filter(of).collect();
            if runs.is_empty() {
                continue;
            }
            let strays: u64 = runs
                .iter()
                .filter_map(|(_, outcome)| outcome.line["strays"].as_u64())
                .sum();
            let beyond = runs.iter().filter(|(_, outcome)| outcome.beyond.is_some()).count();
            print!("{code:<11} {guard:<8} {:>4} {strays:>6} {beyond:>6}", runs.len());
            for (kind, _, _) in Kind::ALL {
                print!(" {:>7}", runs.iter().filter(|(_, outcome)| has(outcome, kind)).count());
            }
            println!();
        }
    }
    let skipped: Vec<&str> = GUARDS.iter().copied().filter(|guard| !guards.contains(guard)).collect();
    println!("left out: protect=off, which notices nothing; guards that this machine has not: {skipped:?}");
    let strays: u64 = outcomes
        .values()
        .filter_map(|(_, outcome)| outcome.line["strays"].as_u64())
        .sum();
    let count = |kind| outcomes.values().filter(|(_, outcome)| has(outcome, kind)).count();
    let words = |holds: bool| {
        let kinds = Kind::ALL.iter().filter(|row| row.0.holds() == holds);
        kinds
            .map(|row| format!("{} {}", row.1, count(row.0)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let beyond = outcomes
        .values()
        .filter(|(_, outcome)| outcome.beyond.is_some())
        .count();
    println!(
        "strays: {} runs, {strays} strays; runs with what must not be: {}; told: {}; beyond the distance: faulted {beyond}",
        outcomes.len(),
        words(true),
        words(false)
    );
    Kind::ALL.iter().all(|row| !row.0.holds() || count(row.0) == 0)
}

fn has(outcome: &Outcome, kind: Kind) -> bool {
    outcome.violations.iter().any(|(found, _)| *found == kind)
}
