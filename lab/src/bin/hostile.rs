//! Hostile images (promise C-8):
//! `hostile [--eight] [--every N] [--alien] [--budget SECONDS] [--jobs N] [--seed N] [--shapes] [--case "LINE"] [--list]`.
//!
//! First the sound images, the seeds of lab/hostile-seeds and with `--shapes` every structural mutation (lab/src/hostile/shapes.rs);
//! with `--eight` every field of every structure with the eight
//! mutations (with `--every N` one in N of these), with `--alien` every field with values that mean something elsewhere; then random ones for the budget (0
//! unless told). Exit code 1 if any image did what C-8 forbids. Run it with `--profile planted`, so that overflow is a
//! violation.

use keepfs_lab::hostile::base::{self, NAMES, WIDE};
use keepfs_lab::hostile::case::{Case, Deed, Mutation, Subject};
use keepfs_lab::hostile::change::{Change, Dice, EIGHT};
use keepfs_lab::hostile::exercise::Outcome;
use keepfs_lab::hostile::shapes;
use keepfs_lab::hostile::tally::{Tally, heading};
use keepfs_lab::hostile::worker::{self, Answer, Worker};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

struct Options {
    budget: Duration,
    seed: u64,
    case: Option<String>,
    list: bool,
    eight: bool,
    /// Of the eight mutations, in their order, one in so many.
    every: usize,
    alien: bool,
    shapes: bool,
    jobs: usize,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        budget: Duration::ZERO,
        seed: 1,
        case: None,
        list: false,
        eight: false,
        every: 1,
        alien: false,
        shapes: false,
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "--budget" => options.budget = Duration::from_secs(value()?.parse().map_err(|e| format!("{e}"))?),
            "--seed" => options.seed = value()?.parse().map_err(|e| format!("{e}"))?,
            "--case" => options.case = Some(value()?),
            "--jobs" => options.jobs = value()?.parse::<usize>().map_err(|e| format!("{e}"))?.max(1),
            "--list" => options.list = true,
            "--eight" => options.eight = true,
            "--every" => options.every = value()?.parse::<usize>().map_err(|e| format!("{e}"))?.max(1),
            "--alien" => options.alien = true,
            "--shapes" => options.shapes = true,
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

/// Every shape that a base has what it takes for, once each. Of the wide one those that take as long as it is large.
/// Errors: there is one that no base has what it takes for.
fn every_shape(subjects: &Subjects, wide: &Subject) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    let subjects = subjects.iter().map(|(base, subject)| (*base, subject));
    for (base, subject) in subjects.chain([(WIDE, wide)]) {
        for (name, count) in shapes::all().filter(|(name, _)| base != WIDE || name.starts_with("map")) {
            let made = (0..count).filter(|which| shapes::edits(&subject.anatomy, name, *which).is_ok());
            cases.extend(made.map(|which| Case {
                base: base.into(),
                deed: Deed::Shape {
                    name: name.into(),
                    which,
                },
            }));
        }
    }
    let is_made = |name: &str| {
        cases
            .iter()
            .any(|case| matches!(&case.deed, Deed::Shape { name: other, .. } if other == name))
    };
    match shapes::all().find(|(name, _)| !is_made(name)) {
        Some((name, _)) => Err(format!("no base has what it takes for the shape {name}")),
        None => Ok(cases),
    }
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
#[derive(Default)]
struct Told {
    tally: Tally,
    wrong: BTreeMap<String, (u64, String)>,
    /// Images that were the same as others.
    repeated: u64,
    longest: (Duration, String),
}

/// What a violation is told as: numbers differ from image to image, the place does not.
fn kind_of(what: &str) -> String {
    if what.starts_with("panic") {
        return what.to_owned();
    }
    what.chars().filter(|c| !c.is_ascii_digit()).take(160).collect()
}

impl Told {
    fn tell(&mut self, case: &Case, answer: &Answer, took: Duration) {
        self.tally.count(case.row(), &answer.outcome);
        self.repeated += u64::from(answer.repeated);
        if took > self.longest.0 {
            self.longest = (took, case.to_string());
        }
        let Outcome::Violation(what) = &answer.outcome else {
            return;
        };
        let first = self.wrong.entry(kind_of(what)).or_insert_with(|| {
            println!("WRONG: {what}\n  {case}");
            (0, case.to_string())
        });
        first.0 += 1;
    }
}

/// Runs cases in a worker until there are none; a worker that died is replaced.
fn work(cases: &Mutex<&mut (dyn Iterator<Item = Case> + Send)>, told: &Mutex<Told>) -> Result<(), String> {
    let mut worker: Option<Worker> = None;
    loop {
        let Some(case) = cases.lock().next() else { return Ok(()) };
        let mut now = match worker.take() {
            Some(worker) => worker,
            None => Worker::start()?,
        };
        let begin = Instant::now();
        let answer = match now.ask(&case) {
            Ok(answer) => {
                worker = Some(now);
                answer
            }
            Err(what) => Answer {
                outcome: Outcome::Violation(what),
                repeated: false,
            },
        };
        told.lock().tell(&case, &answer, begin.elapsed());
    }
}

/// Runs cases in as many workers as there are jobs.
fn run_all(cases: &mut (dyn Iterator<Item = Case> + Send), jobs: usize) -> Result<Told, String> {
    let told = Mutex::new(Told::default());
    let cases = Mutex::new(cases);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(|| work(&cases, &told))).collect();
        let mut ends = threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| Err("a thread died".into())));
        ends.try_for_each(|end| end)
    })?;
    Ok(told.into_inner())
}

/// The cases of a run in their order: controls, seeds, the lists asked for, then random ones.
fn cases<'s>(
    options: &Options,
    subjects: &'s Subjects,
    seeds: Vec<Case>,
    shapes: Vec<Case>,
) -> (Box<dyn Iterator<Item = Case> + Send + 's>, [usize; 2]) {
    let mut dice = Dice(options.seed);
    let (eight, aliens) = (every(subjects, &mut dice, false), every(subjects, &mut dice, true));
    let counts = [eight.len(), aliens.len()];
    let bases = NAMES.into_iter().chain(options.shapes.then_some(WIDE));
    let controls = bases.map(|name| Case {
        base: name.into(),
        deed: Deed::Nothing,
    });
    let eight: Vec<Case> = match options.eight {
        true => eight.into_iter().step_by(options.every).collect(),
        false => Vec::new(),
    };
    let aliens = if options.alien { aliens } else { Vec::new() };
    let budget = options.budget;
    let mut end: Option<Instant> = None;
    let random = std::iter::from_fn(move || {
        let end = *end.get_or_insert_with(|| Instant::now() + budget);
        (Instant::now() < end).then(|| random(subjects, &mut dice))
    });
    let lists = controls.chain(seeds).chain(shapes).chain(eight).chain(aliens);
    (Box::new(lists.chain(random)), counts)
}

fn run() -> Result<bool, String> {
    let options = options()?;
    if let Some(line) = &options.case {
        let case: Case = line.parse()?;
        let told = run_all(&mut std::iter::once(case), 1)?;
        println!("{}\n{}", heading(), told.tally);
        return Ok(told.wrong.is_empty());
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
    let seeds = seeds()?;
    let seed_count = seeds.len();
    let shapes = match options.shapes {
        true => every_shape(&subjects, &base::subject(WIDE)?)?,
        false => Vec::new(),
    };
    let shape_count = shapes.len();
    let (mut list, [eight, aliens]) = cases(&options, &subjects, seeds, shapes);
    let told = run_all(&mut *list, options.jobs)?;
    println!("{}\n{}", heading(), told.tally);
    let control = told.tally.control();
    if control.served != control.images || control.images < NAMES.len() as u64 {
        return Err(format!("a sound image is not served: {control:?}"));
    }
    let ran = |asked: bool, count: usize| if asked { count } else { 0 };
    let took = begin.elapsed().as_secs_f64();
    let images = told.tally.sum().images;
    println!(
        "{seed_count} seeds; {shape_count} shapes; eight mutations: {} of {eight} images; alien values: {} of {aliens}; {images} in all, {} of them \
         equal to another; {took:.1} s with {} workers, {:.0} images a second; the longest took {} ms: {}",
        ran(options.eight, eight.div_ceil(options.every)),
        ran(options.alien, aliens),
        told.repeated,
        options.jobs,
        images as f64 / took.max(0.001),
        told.longest.0.as_millis(),
        told.longest.1
    );
    for (what, (count, first)) in &told.wrong {
        println!("WRONG {count} times: {what}\n  first: {first}");
    }
    Ok(told.wrong.is_empty())
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
