//! `crash`: crash enumeration from the command line; exit code 1 if a promise was broken.

use keepfs_lab::crash::sweep::{Depth, Violation};
use keepfs_lab::crash::{Campaign, Goal, Limits, Seed, Tally, schedule};
use keepfs_store::{Protection, Reuse};
use mimalloc::MiMalloc;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Pools are opened and dropped without pause, and what they have on the heap with them: a sixth of the time with glibc's.
#[global_allocator]
static HEAP: MiMalloc = MiMalloc;

const USAGE: &str = "usage: crash [--budget SECONDS] [--protect CODE] [--goal STATES] [--each STATES] [--seed S] [--replay FILE] [--threads N] [--only NAME] \
                     [--violations N] [--bugs DIR] [--save DIR] [--planted all|NAME] [--blind] [--schedules N] [--json]";

struct Arguments {
    limits: Limits,
    seed: u64,
    replay: Option<PathBuf>,
    bugs: PathBuf,
    save: Option<PathBuf>,
    planted: Option<String>,
    json: bool,
    schedules: u64,
    protect: Option<Protection>,
}

fn arguments() -> Result<Arguments, String> {
    let mut given = Arguments {
        limits: Limits {
            time: None,
            goal: None,
            violations: 1,
            threads: threads(),
            only: "",
            blind: false,
        },
        seed: 1,
        replay: None,
        bugs: Path::new(env!("CARGO_MANIFEST_DIR")).join("bugs"),
        save: None,
        planted: None,
        json: false,
        schedules: 1000,
        protect: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value\n{USAGE}"));
        let number = |text: String| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
        match word.as_str() {
            "--budget" => given.limits.time = Some(Duration::from_secs(number(value()?)?)),
            "--goal" => given.limits.goal.get_or_insert_default().states = number(value()?)?,
            "--each" => given.limits.goal.get_or_insert_default().each = number(value()?)?,
            "--seed" => given.seed = number(value()?)?,
            "--threads" => given.limits.threads = number(value()?)? as usize,
            "--violations" => given.limits.violations = number(value()?)?,
            "--replay" => given.replay = Some(value()?.into()),
            "--bugs" => given.bugs = value()?.into(),
            "--save" => given.save = Some(value()?.into()),
            "--only" => given.limits.only = value()?.leak(),
            "--schedules" => given.schedules = number(value()?)?,
            "--protect" => given.protect = Some(value()?.parse().map_err(|e| format!("--protect: {e}"))?),
            "--json" => given.json = true,
            "--blind" => given.limits.blind = true,
            "--planted" => given.planted = Some(value()?),
            _ => return Err(USAGE.into()),
        }
    }
    if given.limits.time.is_none() && given.limits.goal.is_none() {
        given.limits.time = Some(if given.planted.is_some() { HUNT } else { BUDGET });
    }
    if given.planted.is_none() {
        given.limits.time = given.limits.time.map(|time| time.min(left().unwrap_or(time)));
    }
    Ok(given)
}

/// Half as many again as processors: one in twelve of a thread's time it waits, for operations beside a stopped checkpoint.
fn threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
    processors + processors.div_ceil(2)
}

/// How long states are made, and one planted bug is looked for, unless it is told.
const BUDGET: Duration = Duration::from_secs(60);
const HUNT: Duration = Duration::from_secs(300);
/// When the whole run of tests shall have ended that this is a part of, seconds since 1970; it is given what is left.
const UNTIL: &str = "KEEPFS_TEST_UNTIL";

/// What is left of the run of tests that this is a part of, if it is one; at least the shortest budget that is worth it.
fn left() -> Option<Duration> {
    let until: u64 = std::env::var(UNTIL).ok()?.parse().ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(Duration::from_secs(until).saturating_sub(now).max(BUDGET))
}

fn main() -> ExitCode {
    match arguments().and_then(|given| run(&given)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("crash: {what}");
            ExitCode::from(2)
        }
    }
}

/// Runs everything asked for; how many violations there were.
fn run(given: &Arguments) -> Result<usize, String> {
    if let Some(which) = &given.planted {
        return planted(which, given);
    }
    schedule::campaign(given.seed, given.schedules, given.limits.threads as u64)?;
    println!(
        "{} schedules of overlapping transactions, no violation",
        given.schedules
    );
    let campaign = Campaign::new(given.seed, Depth::USUAL, given.limits);
    let campaign = Arc::new(match given.protect {
        Some(level) => campaign.protected(level),
        None => campaign,
    });
    watch(&campaign);
    let mut violations = Vec::new();
    let seeds = match &given.replay {
        Some(file) => vec![read_seed(file)?],
        None => known_bugs(&given.bugs)?,
    };
    let reuse = Reuse::begin();
    for seed in &seeds {
        violations.extend(campaign.replay(seed, Depth::USUAL));
    }
    drop(reuse);
    println!("{} seeds replayed, {} violations", seeds.len(), violations.len());
    if given.replay.is_none() {
        let found = campaign.run(&|tally, elapsed| {
            println!(
                "{:>5} s: {} workloads, {} images, {} covered, {} states, {:.0} states/s",
                elapsed.as_secs(),
                tally.histories,
                tally.images,
                tally.covered,
                tally.states,
                tally.states as f64 / elapsed.as_secs_f64()
            );
        });
        violations.extend(found);
    }
    match given.json {
        true => println!("{}", campaign.tally().json()),
        false => println!("{}", campaign.tally()),
    }
    if let Some(goal) = given.limits.goal {
        told_goal(&campaign.tally(), goal);
    }
    let idle = usize::from(campaign.idles());
    if idle > 0 {
        println!("VIOLATION stopped checkpoints: too many stops ended by patience, so little ran beside them");
    }
    for (number, violation) in violations.iter().enumerate() {
        tell(&campaign, violation, number, given)?;
    }
    Ok(violations.len() + idle)
}

/// Says plainly whether the goal was reached. That it was not is no violation: a slow machine runs out of time.
fn told_goal(tally: &Tally, goal: Goal) {
    if tally.reaches(goal) {
        println!("goal reached: {} states, {} of each kind", goal.states, goal.each);
        return;
    }
    if tally.states < goal.states {
        println!("GOAL NOT REACHED: {} states instead of {}", tally.states, goal.states);
    }
    for (kind, states) in tally.short_of(goal) {
        println!("GOAL NOT REACHED: {states} states of {kind} instead of {}", goal.each);
    }
}

/// Ends the process with the workload's text if one hangs.
fn watch(campaign: &Arc<Campaign>) {
    const PATIENCE: Duration = Duration::from_secs(240);
    let campaign = Arc::downgrade(campaign);
    std::thread::spawn(move || {
        while let Some(campaign) = campaign.upgrade() {
            if let Some(seed) = campaign.hanging(PATIENCE) {
                println!("VIOLATION a workload hangs ({}):\n{}", seed.name, seed.print("hangs"));
                std::process::exit(1);
            }
            drop(campaign);
            // Nobody unparks it: this is a look at the clock once a second.
            std::thread::park_timeout(Duration::from_secs(1));
        }
    });
}

fn read_seed(file: &Path) -> Result<Seed, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    Seed::parse(&name, &text)
}

fn known_bugs(dir: &Path) -> Result<Vec<Seed>, String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Ok(Vec::new());
    };
    let mut files: Vec<PathBuf> = entries.filter_map(|e| e.ok().map(|e| e.path())).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "txt"));
    files.sort();
    files.iter().map(|f| read_seed(f)).collect()
}

fn tell(campaign: &Campaign, violation: &Violation, number: usize, given: &Arguments) -> Result<(), String> {
    let shown = |v: &Violation| format!("{} (from {}): {}\n{}", v.check, v.seed.name, v.state, v.what);
    println!("\nVIOLATION {}", shown(violation));
    let small = campaign.shrink(violation, Duration::from_secs(20));
    let text = small.seed.print(&shown(&small));
    println!("shrunk to {} steps:\n{text}", small.seed.steps.len());
    if let Some(dir) = &given.save {
        let file = dir.join(format!("found-{}-{number}.txt", given.seed));
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
        println!("written to {}", file.display());
    }
    Ok(())
}

/// Plants bugs; how many were not found.
#[cfg(feature = "planted")]
fn planted(which: &str, given: &Arguments) -> Result<usize, String> {
    use keepfs_lab::crash::planted::{hunt, hunt_blind};
    use keepfs_store::planted::Bug;
    let budget = given.limits.time.unwrap_or(HUNT);
    let chosen: Vec<Bug> = Bug::ALL
        .iter()
        .copied()
        .filter(|b| which == "all" || b.word() == which)
        .collect();
    if chosen.is_empty() {
        return Err(format!("no bug is called {which}"));
    }
    println!(
        "{:<45}{:>8}{:>9}{:>9}  caught by",
        "planted bug", "seconds", "images", "states"
    );
    let mut missed = 0;
    for bug in chosen {
        let limits = Limits {
            time: Some(budget),
            goal: None,
            violations: 1,
            ..given.limits
        };
        let caught = match limits.blind {
            true => hunt_blind(bug, given.seed, limits),
            false => hunt(bug, given.seed, limits),
        };
        let by = caught
            .by
            .map_or("NOTHING".into(), |(check, what)| format!("{check} ({what})"));
        missed += usize::from(by == "NOTHING");
        println!(
            "{:<45}{:>8.1}{:>9}{:>9}  {by}",
            bug.word(),
            caught.time.as_secs_f64(),
            caught.images,
            caught.states
        );
        println!("    {}", bug.source().unwrap_or("of our own making"));
    }
    Ok(missed)
}

/// Plants nothing: this build cannot.
#[cfg(not(feature = "planted"))]
fn planted(_which: &str, _given: &Arguments) -> Result<usize, String> {
    Err("this build has no planted bugs; add --features planted".into())
}
