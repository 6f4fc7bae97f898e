//! Hostile images (promise C-8): `hostile [--budget SECONDS] [--seed N] [--case "LINE"] [--list]`.
//!
//! First the seeds of lab/hostile-seeds, then in turn every field of every structure with the eight mutations, with
//! alien values, and random ones, until the budget (of seconds) is used up. Exit code 1 if any image did what C-8 forbids.
//! Build it with CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true and CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true, so that
//! overflow is a violation.

use keepfs_lab::hostile::base::{self, NAMES};
use keepfs_lab::hostile::case::{Case, Deed, Mutation, Subject};
use keepfs_lab::hostile::change::{Change, Dice, EIGHT};
use keepfs_lab::hostile::exercise::Outcome;
use keepfs_lab::hostile::tally::{Tally, heading};
use keepfs_lab::hostile::worker::{self, Worker};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

struct Options {
    budget: Duration,
    seed: u64,
    case: Option<String>,
    list: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        budget: Duration::from_secs(120),
        seed: 1,
        case: None,
        list: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--budget" => options.budget = Duration::from_secs(value()?.parse().map_err(|e| format!("{e}"))?),
            "--seed" => options.seed = value()?.parse().map_err(|e| format!("{e}"))?,
            "--case" => options.case = Some(value()?),
            "--list" => options.list = true,
            _ => return Err(format!("{word}: unknown")),
        }
    }
    Ok(options)
}

/// The seeds: one case a line, `#` begins a comment.
fn seeds() -> Result<Vec<Case>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("hostile-seeds");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .map_err(|e| format!("{}: {e}", folder.display()))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "txt"))
        .collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        for line in text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with('#'))
        {
            cases.push(line.parse().map_err(|e| format!("{}: {e}", file.display()))?);
        }
    }
    Ok(cases)
}

type Subjects = BTreeMap<&'static str, Subject>;

fn one(base: &str, name: &(String, &'static str), which: usize, change: Change, salt: u64) -> Case {
    Case {
        base: base.into(),
        deed: Deed::Fields(vec![Mutation {
            structure: name.0.clone(),
            field: name.1.into(),
            which,
            change,
            salt,
        }]),
    }
}

/// Every field with the given changes, first in one place of each base, in the order of `dice`.
fn every(subjects: &Subjects, dice: &mut Dice, aliens: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for (base, subject) in subjects {
        for (name, sites) in &subject.sites.by_name {
            let changes: Vec<Change> = if aliens {
                let count = subject.sites.aliens.of(sites[0].field.sort).len();
                (0..count as u8).map(Change::Alien).collect()
            } else {
                EIGHT.to_vec()
            };
            cases.extend(
                changes
                    .into_iter()
                    .map(|c| one(base, name, dice.below(sites.len()), c, dice.roll())),
            );
        }
    }
    for i in (1..cases.len()).rev() {
        cases.swap(i, dice.below(i + 1));
    }
    cases
}

/// A random case: one field, several fields, or bits.
fn random(subjects: &Subjects, dice: &mut Dice) -> Case {
    let base = NAMES[dice.below(NAMES.len())];
    let subject = &subjects[base];
    let names: Vec<_> = subject.sites.by_name.keys().collect();
    let mutation = |dice: &mut Dice| {
        let name = names[dice.below(names.len())];
        let aliens = subject.sites.aliens.of(subject.sites.by_name[name][0].field.sort).len();
        let change = match dice.below(2) {
            0 => EIGHT[dice.below(8)],
            _ => Change::Alien(dice.below(aliens) as u8),
        };
        Mutation {
            structure: name.0.clone(),
            field: name.1.into(),
            which: dice.below(1 << 20),
            change,
            salt: dice.roll(),
        }
    };
    let deed = match dice.below(6) {
        0 | 1 => Deed::Fields(vec![mutation(dice)]),
        2 | 3 => {
            let count = 2 + dice.below(5);
            Deed::Fields((0..count).map(|_| mutation(dice)).collect())
        }
        way => Deed::Flips {
            fixed: way == 4,
            count: 1 + dice.below(30),
            salt: dice.roll(),
        },
    };
    Case {
        base: base.into(),
        deed,
    }
}

/// Cases run, what became of them, what was wrong.
struct Run {
    worker: Option<Worker>,
    tally: Tally,
    wrong: BTreeMap<String, (u64, String)>,
}

/// What a violation is told as: numbers differ from image to image, the place does not.
fn kind_of(what: &str) -> String {
    what.chars().filter(|c| !c.is_ascii_digit()).take(160).collect()
}

impl Run {
    fn ask(&mut self, case: &Case) -> Result<Outcome, String> {
        let mut worker = match self.worker.take() {
            Some(worker) => worker,
            None => Worker::start()?,
        };
        match worker.ask(case) {
            Ok(outcome) => {
                self.worker = Some(worker);
                Ok(outcome)
            }
            Err(what) => Ok(Outcome::Violation(what)),
        }
    }

    fn case(&mut self, case: &Case) -> Result<Outcome, String> {
        let outcome = self.ask(case)?;
        self.tally.count(case.row(), &outcome);
        if let Outcome::Violation(what) = &outcome {
            let first = self
                .wrong
                .entry(if what.starts_with("panic") {
                    what.clone()
                } else {
                    kind_of(what)
                })
                .or_insert_with(|| {
                    println!("WRONG: {what}\n  {case}");
                    (0, case.to_string())
                });
            first.0 += 1;
        }
        Ok(outcome)
    }
}

fn run() -> Result<bool, String> {
    let options = options()?;
    let mut run = Run {
        worker: None,
        tally: Tally::default(),
        wrong: BTreeMap::new(),
    };
    if let Some(line) = &options.case {
        let case: Case = line.parse()?;
        println!("{:?}", run.case(&case)?);
        return Ok(run.wrong.is_empty());
    }
    let subjects: Subjects = NAMES
        .into_iter()
        .map(|name| base::subject(name).map(|s| (name, s)))
        .collect::<Result<_, _>>()?;
    if options.list {
        for (base, subject) in &subjects {
            for (name, sites) in &subject.sites.by_name {
                println!("{base} | {} | {} ({} places)", name.0, name.1, sites.len());
            }
        }
        return Ok(true);
    }
    let begin = Instant::now();
    if !cfg!(debug_assertions) {
        println!("overflow is not checked: see the head of lab/src/bin/hostile.rs");
    }
    for name in NAMES {
        let control = Case {
            base: name.into(),
            deed: Deed::Nothing,
        };
        let outcome = run.case(&control)?;
        if outcome != Outcome::Served {
            return Err(format!("the sound image {name} is not served: {outcome:?}"));
        }
    }
    let seeds = seeds()?;
    for case in &seeds {
        run.case(case)?;
    }
    println!("{} seeds replayed, {} s", seeds.len(), begin.elapsed().as_secs());
    let mut dice = Dice(options.seed);
    // One of each kind in turn, so that a small budget sees some of all; most of the eight come first.
    let (eight, aliens) = (every(&subjects, &mut dice, false), every(&subjects, &mut dice, true));
    let (all_eight, all_aliens) = (eight.len(), aliens.len());
    let (mut eight, mut aliens) = (eight.into_iter(), aliens.into_iter());
    let mut turn = 0;
    while begin.elapsed() < options.budget {
        turn += 1;
        let next = match turn % 4 {
            0 | 1 => eight.next(),
            2 => aliens.next(),
            _ => None,
        };
        run.case(&next.unwrap_or_else(|| random(&subjects, &mut dice)))?;
    }
    println!(
        "eight mutations: {} of {all_eight} images; alien values: {} of {all_aliens}; {} s",
        all_eight - eight.len(),
        all_aliens - aliens.len(),
        begin.elapsed().as_secs()
    );
    println!("{}\n{}", heading(), run.tally);
    for (what, (count, first)) in &run.wrong {
        println!("WRONG {count} times: {what}\n  first: {first}");
    }
    Ok(run.wrong.is_empty())
}

fn main() -> ExitCode {
    let worker = std::env::args().any(|a| a == worker::ARGUMENT);
    let outcome = if worker { worker::serve().map(|()| true) } else { run() };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("hostile: {what}");
            ExitCode::from(2)
        }
    }
}
