//! An outsider: a program that knows nothing but the memfds of a server writes into them under real work on a real mount, and
//! judges from outside what came of it.
//!
//! Half of the runs are *near*: each stray is one that the pool's code repairs (S-15.1), in a frame that was not hit before in
//! this server's life, and none is in an undo slot. In the others strays are anything. Half of the runs kill servers.

pub mod judge;
pub mod memory;
mod often;
mod plants;
pub mod product;
pub mod striker;
pub mod tree;
pub mod work;

use crate::inject::Dice;
use judge::{Fate, Kind, Told, Violations};
use product::Product;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use striker::Struck;
use tree::Look;
use work::{Done, Place};

/// Codes, with the widest aligned stray that each repairs wherever it is (S-15.1). `off` notices nothing: it is left out.
pub const CODES: [(&str, Option<usize>); 5] = [
    ("pcrc", Some(64)),
    ("pq", Some(64)),
    ("evenodd64", Some(16)),
    ("evenodd256", Some(16)),
    ("crc", None),
];
/// Guards.
pub const GUARDS: [&str; 5] = ["alias", "sealed", "mprotect", "off", "pkey"];
/// How often events are gathered.
const GATHER: Duration = Duration::from_millis(400);
/// How long a server may wait for a frame before it ends (S-15.22), and its keeper for the next one.
const STUCK: Duration = Duration::from_secs(20);
/// What `keepfs create` is told.
const SIZE: &str = "256M";

/// What is done to the file system behind the judge's back, to see that it judges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plant {
    /// A byte of a file is another.
    Byte,
    /// A file is gone.
    Missing,
    /// Metadata of the image is wrong in all copies.
    Image,
    /// A stray that nobody can have told.
    Untold,
    /// Bytes of a stray in the image.
    Written,
    /// A program whose call nobody answers.
    Stopped,
}

impl Plant {
    /// All, with what the judge must say.
    pub const ALL: [(Plant, Kind); 6] = [
        (Plant::Byte, Kind::Wrong),
        (Plant::Missing, Kind::Wrong),
        (Plant::Image, Kind::Unsound),
        (Plant::Untold, Kind::Untold),
        (Plant::Written, Kind::Written),
        (Plant::Stopped, Kind::Hung),
    ];
}

/// A run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What all else follows from, but time.
    pub seed: u64,
    /// Code of the pool.
    pub code: &'static str,
    /// Guard of the mount.
    pub guard: &'static str,
    /// In a near run: how wide a stray may be.
    pub near: Option<usize>,
    /// Servers to kill.
    pub deaths: usize,
    /// Memory for metadata.
    pub arena: &'static str,
    /// Strays.
    pub strays: usize,
    /// A second.
    pub rate: usize,
    /// Each second one hits the frame of the one before it: more than a code is made for.
    pub pairs: bool,
    /// Behind the judge's back.
    pub plant: Option<Plant>,
}

impl Setting {
    /// What a seed means; the pairs of code and guard take turns, the guards are those that the machine has.
    pub fn of(seed: u64, strays: usize, rates: (usize, usize), guards: &[&'static str]) -> Setting {
        let mut dice = Dice::new(seed);
        let turn = seed as usize;
        let (code, width) = CODES[turn % CODES.len()];
        let guard = guards[turn / CODES.len() % guards.len()];
        let near = width.filter(|_| dice.once_in(2));
        // In turn as well, such that half of a few runs are half.
        let half = (turn + turn / CODES.len() + turn / (CODES.len() * guards.len())).is_multiple_of(2);
        Setting {
            seed,
            code,
            guard,
            near,
            deaths: if half { 1 + dice.below(2) } else { 0 },
            arena: if dice.once_in(2) { "16M" } else { "64M" },
            strays,
            rate: match turn % 4 {
                0 => rates.1,
                _ => rates.0 + dice.below(rates.1.saturating_sub(rates.0) + 1),
            },
            pairs: near.is_none() && turn % 2 == 1,
            plant: None,
        }
    }
}

/// What a run came to.
pub struct Outcome {
    /// Violations, whatever the rule for their kind.
    pub violations: Violations,
    /// All writing ended by strays beyond the code's distance: no violation, but told.
    pub beyond: Option<String>,
    /// What was done, with numbers.
    pub line: Value,
    /// The strays, a line each, and the violations.
    pub log: String,
}

/// Where runs are made, and what of.
pub struct Lab {
    /// The product.
    pub product: Product,
    /// This program, which compares trees in a process that can be ended.
    pub myself: PathBuf,
    /// A directory for all files.
    pub dir: PathBuf,
    /// Where images are kept that do not check.
    pub logs: Option<PathBuf>,
}

impl Lab {
    /// Makes what all runs copy from.
    pub fn furnish(&self) -> Result<(), String> {
        let source = self.dir.join("source");
        tree::make(&source, 16).map_err(|e| format!("{}: {e}", source.display()))?;
        let (from, archive) = (source.to_string_lossy().into_owned(), self.dir.join("source.tar"));
        let ran = product::call(&self.dir, &["tar", "-C", &from, "-cf", &archive.to_string_lossy(), "."]);
        if ran.ok { Ok(()) } else { Err(ran.said) }
    }

    /// The guards that this machine has: a pool can be mounted with them.
    pub fn guards(&self) -> Result<Vec<&'static str>, String> {
        let run = self.run_of("guards")?;
        run.create(CODES[0].0)?;
        let mut have = Vec::new();
        for guard in GUARDS {
            if self
                .product
                .run(&["mount", &run.pool(), &run.point(), "-o", &format!("guard={guard}")])
                .ok
            {
                have.push(guard);
                run.unmount()?;
            }
        }
        fs::remove_dir_all(&run.dir).map_err(|e| e.to_string())?;
        match have.is_empty() {
            true => Err("no pool can be mounted here".into()),
            false => Ok(have),
        }
    }

    fn run_of(&self, name: &str) -> Result<Run<'_>, String> {
        let dir = self.dir.join(name);
        fs::create_dir_all(dir.join("m")).map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(Run { lab: self, dir })
    }

    /// One run. Errors: what has nothing to do with strays.
    pub fn run(&self, setting: &Setting) -> Result<Outcome, String> {
        let run = self.run_of(&format!("s{}", setting.seed))?;
        let outcome = run.go(setting);
        if outcome.is_err() {
            let status = run.status().unwrap_or_default();
            self.product.abandon(&run.dir.join("m"), &status);
        }
        drop(fs::remove_dir_all(&run.dir));
        outcome
    }
}

struct Run<'a> {
    lab: &'a Lab,
    dir: PathBuf,
}

impl Run<'_> {
    fn pool(&self) -> String {
        self.dir.join("p").to_string_lossy().into_owned()
    }

    fn point(&self) -> String {
        self.dir.join("m").to_string_lossy().into_owned()
    }

    fn create(&self, code: &str) -> Result<(), String> {
        let ran = self
            .lab
            .product
            .run(&["create", &self.pool(), "--size", SIZE, "--protect", code]);
        if ran.ok { Ok(()) } else { Err(ran.said) }
    }

    fn mount(&self, setting: &Setting) -> Result<(), String> {
        // So many servers may die that none of those that strays end is one too many.
        let options = format!("guard={},arena={},restarts=1000", setting.guard, setting.arena);
        let ran = self
            .lab
            .product
            .run(&["mount", &self.pool(), &self.point(), "-o", &options]);
        if ran.ok { Ok(()) } else { Err(ran.said) }
    }

    fn unmount(&self) -> Result<(), String> {
        let ran = self.lab.product.run(&["unmount", &self.point()]);
        if ran.ok { Ok(()) } else { Err(ran.said) }
    }

    fn status(&self) -> Result<Value, String> {
        self.lab.product.json(&["status", &self.point(), "--json"])
    }

    fn gather(&self, told: &Mutex<Told>, of: &str) {
        if let Ok(answer) = self.lab.product.json(&["events", of, "--json"]) {
            told.lock().unwrap_or_else(|e| e.into_inner()).take(&answer);
        }
    }

    fn go(&self, setting: &Setting) -> Result<Outcome, String> {
        self.create(setting.code)?;
        self.mount(setting)?;
        let (point, source) = (self.dir.join("m"), self.lab.dir.join("source"));
        let archive = self.lab.dir.join("source.tar");
        let place = Place {
            mount: &point,
            source: &source,
            archive: &archive,
        };
        let mut found: Violations = Vec::new();
        let (told, over, quiet) = (
            Mutex::new(Told::default()),
            AtomicBool::new(false),
            AtomicBool::new(false),
        );
        let mut done = Done::default();
        let struck = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !quiet.load(Ordering::Acquire) {
                    self.gather(&told, &self.point());
                    std::thread::park_timeout(GATHER);
                }
            });
            scope.spawn(|| often::sync_often(&point, &quiet));
            let striker = scope.spawn(|| striker::strike(setting, &self.lab.product, &point, &over));
            let mut n = 0;
            // Once over when all were written, so that a second round meets what the first left.
            let goes_on =
                |done: &Done| done.hung.is_empty() && judge::faulted(&self.status().unwrap_or_default()).is_none();
            while n == 0 || (!over.load(Ordering::Acquire) && n < 20 && goes_on(&done)) {
                done.round(&place, n);
                n += 1;
            }
            quiet.store(true, Ordering::Release);
            striker.join().unwrap_or_else(|_| Err("the striker panicked".into()))
        });
        let mut struck = struck.unwrap_or_else(|wrong| {
            found.push((Kind::Gone, wrong));
            Struck::default()
        });
        if setting.plant == Some(Plant::Stopped) {
            done.step(&self.stopped()?, true);
        }
        found.extend(done.hung.iter().map(|said| (Kind::Hung, said.clone())));
        let status = self.status().unwrap_or_default();
        let alive = done.hung.is_empty() && struck.memory.is_some() && status["server_pid"].is_i64();
        if !alive {
            if found.is_empty() {
                found.push((Kind::Gone, format!("nobody serves the mount: {status}")));
            }
            self.lab.product.abandon(&point, &status);
            return Ok(self.outcome(setting, &struck, &done, &told, found, None));
        }
        self.plant_files(setting, &done)?;
        let fault = judge::faulted(&status);
        self.gather(&told, &self.point());
        // A program that finds its files gone names no error of damage; it was told before that they may be.
        let lost_at = told.lock().unwrap_or_else(|e| e.into_inner()).lost_at();
        let unclear = done
            .unclear
            .iter()
            .filter(|(ended, _)| lost_at.is_none_or(|at| *ended < at));
        found.extend(unclear.map(|(_, said)| (Kind::Unclear, said.clone())));
        let before = found.len();
        self.look(&done, &told, false, &mut found);
        found[before..].iter_mut().for_each(|one| one.1.push_str(" (mounted)"));
        // One may have taken over since.
        if let Ok(memory) = striker::next(&self.lab.product, &point, None) {
            self.scrub(&mut found);
            if setting.plant == Some(Plant::Untold) {
                struck.strays.push(plants::planted_stray(&memory)?);
            }
            self.gather(&told, &self.point());
            let told = told.lock().unwrap_or_else(|e| e.into_inner());
            if !told.has_gaps() {
                self.untold(&mut struck, &memory, &told, &mut found);
            }
        }
        // What the second look at all of memory found may have ended writing as well.
        let status = self.status().unwrap_or(status);
        let mut fault = judge::faulted(&status).or(fault);
        if let Err(said) = self.unmount() {
            // What the last checkpoint met may have ended writing as well.
            if said.contains("unmounted, but not everything could be made durable") {
                fault.get_or_insert(said);
            } else if fault.is_none() {
                found.push((Kind::Gone, said));
            }
            self.lab.product.abandon(&point, &status);
        }
        self.plant_image(setting, &mut struck)?;
        self.at_rest(setting, &done, &told, fault.is_some(), &struck, &mut found);
        let beyond = match (fault, setting.near) {
            (Some(why), Some(_)) => {
                found.push((Kind::Faulted, why));
                None
            }
            (why, _) => why,
        };
        Ok(self.outcome(setting, &struck, &done, &told, found, beyond))
    }

    /// Copies an image that does not check to where logs are kept: it says more than the check does.
    fn keep(&self, setting: &Setting) {
        if let Some(logs) = &self.lab.logs {
            let image = logs.join(format!("strays-{}.pool", setting.seed));
            drop(fs::create_dir_all(logs).and_then(|()| fs::copy(self.pool(), image)));
        }
    }

    /// The image, then the same trees by a server that has them from there.
    fn at_rest(
        &self,
        setting: &Setting,
        done: &Done,
        told: &Mutex<Told>,
        ended: bool,
        struck: &Struck,
        found: &mut Violations,
    ) {
        let check = |found: &mut Violations| {
            let ran = self.lab.product.run(&["check", "--data", &self.pool()]);
            if !ran.ok {
                let errors = ran.out.lines().filter(|line| line.starts_with("error"));
                let errors: Vec<_> = errors.chain([&*ran.said]).collect();
                found.push((if ran.hung { Kind::Hung } else { Kind::Unsound }, errors.join("\n")));
                self.keep(setting);
            }
            ran.ok
        };
        self.gather(told, &self.pool());
        match judge::written(&struck.strays, Path::new(&self.pool())) {
            Ok(written) => found.extend(written),
            Err(wrong) => found.push((Kind::Gone, wrong)),
        }
        if !check(found) {
            return;
        }
        if let Err(said) = self.mount(setting) {
            found.push((Kind::Unsound, said));
            return;
        }
        let before = found.len();
        self.look(done, told, ended, found);
        found[before..]
            .iter_mut()
            .for_each(|one| one.1.push_str(" (mounted again)"));
        self.gather(told, &self.point());
        let status = self.status().unwrap_or_default();
        if let Err(said) = self.unmount() {
            found.push((Kind::Gone, said));
            return self.lab.product.abandon(&self.dir.join("m"), &status);
        }
        check(found);
    }

    /// A look at all of memory. A server that waits for a frame whose control word a stray wrote looks at nothing until it ends for it,
    /// which is within [`STUCK`]; the next one looks anew.
    fn scrub(&self, found: &mut Violations) {
        let begun = Instant::now();
        loop {
            let words = ["scrub", "start", &self.point(), "--arena", "--wait"];
            let scrub = self.lab.product.run(&words);
            if scrub.hung {
                found.push((Kind::Hung, scrub.said));
                return;
            }
            if scrub.ok || begun.elapsed() > STUCK {
                return;
            }
            std::thread::park_timeout(GATHER);
        }
    }

    /// What became of the strays in frames; one that stands untold where the server says that all is right is a violation.
    fn untold(&self, struck: &mut Struck, memory: &memory::Memory, told: &Told, found: &mut Violations) {
        let mut look = |frame: u64| {
            let (from, to) = memory.addresses(frame)?;
            let (point, addresses) = (self.point(), format!("{from:#x}-{to:#x}"));
            let words = [
                "scrub",
                "start",
                &point,
                "--arena",
                "--wait",
                "--json",
                "--addresses",
                &addresses,
            ];
            let answer = self.lab.product.json(&words).ok()?;
            let count = |name: &str| answer["arena"][name].as_u64();
            Some(judge::Seen {
                pages: count("pages")?,
                bad: count("uncorrectable")?,
            })
        };
        let mut fates = judge::fates(&struck.strays, memory, told, &mut look);
        // One that ended meanwhile, by what a stray did to it, told nobody what it would have found.
        if self.lab.product.server(&self.dir.join("m")) != Ok(memory.server) {
            let untold = fates.iter_mut().filter(|fate| **fate == Fate::Untold);
            untold.for_each(|fate| *fate = Fate::Gone);
        }
        let frames = struck
            .strays
            .iter()
            .filter(|stray| stray.region == memory::Region::Arena);
        for (stray, fate) in frames.zip(&fates) {
            if *fate == Fate::Untold {
                let frame = stray.at / memory::PAGE as u64;
                found.push((Kind::Untold, format!("frame {frame}: {}", stray.line())));
            }
        }
        for fate in fates {
            *struck.fates.entry(fate.word()).or_default() += 1;
        }
    }

    /// All trees, repositories and databases. `ended`: writing had ended, and what was not durable went with its server.
    fn look(&self, done: &Done, told: &Mutex<Told>, ended: bool, found: &mut Violations) {
        let lost = told.lock().unwrap_or_else(|e| e.into_inner()).lost_at().is_some();
        let listed = self
            .lab
            .product
            .json(&["damage", "list", &self.point(), "--json"])
            .unwrap_or_default();
        let damaged: Vec<String> = listed["damage"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry["path"].as_str()?.to_owned()))
            .filter(|path| !path.is_empty())
            .collect();
        let myself = self.lab.myself.to_string_lossy().into_owned();
        let source = self.lab.dir.join("source").to_string_lossy().into_owned();
        let mut eio = 0;
        for made in &done.trees {
            let look = if lost || ended { Look::Part } else { made.look };
            let dir = made.dir.to_string_lossy();
            let ran = product::call(&self.lab.dir, &[&myself, "compare", &source, &dir, look.word()]);
            let Ok(answer) = serde_json::from_str::<Value>(&ran.out) else {
                found.push((Kind::Hung, ran.said));
                return;
            };
            eio += answer["eio"].as_u64().unwrap_or(0);
            for wrong in answer["wrong"].as_array().into_iter().flatten() {
                let (path, what) = (wrong[0].as_str().unwrap_or(""), wrong[1].as_str().unwrap_or(""));
                if !damaged.iter().any(|damaged| path.ends_with(damaged.as_str())) {
                    found.push((Kind::Wrong, format!("{path} {what}")));
                }
            }
        }
        let wrong = done.look_again(&self.dir.join("m"), lost || ended);
        found.extend(wrong.into_iter().map(|said| (Kind::Wrong, said)));
        if eio > 0 && told.lock().unwrap_or_else(|e| e.into_inner()).count() == 0 {
            found.push((Kind::Untold, format!("{eio} files give EIO, and there are no events")));
        }
    }

    fn outcome(
        &self,
        setting: &Setting,
        struck: &Struck,
        done: &Done,
        told: &Mutex<Told>,
        found: Violations,
        beyond: Option<String>,
    ) -> Outcome {
        let told = told.lock().unwrap_or_else(|e| e.into_inner());
        let mut regions: BTreeMap<&str, usize> = BTreeMap::new();
        for stray in &struck.strays {
            *regions.entry(stray.region.name()).or_default() += 1;
        }
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for (kind, _) in &found {
            *kinds.entry(kind.word()).or_default() += 1;
        }
        let line = json!({
            "seed": setting.seed, "code": setting.code, "guard": setting.guard, "near": setting.near.is_some(),
            "arena": setting.arena, "rate": setting.rate, "strays": struck.strays.len(), "regions": regions,
            "kills": struck.kills, "ended": struck.ended, "programs": done.ran, "programs_told": done.told,
            "events": told.count(), "gaps": told.has_gaps(), "deeds": told.deeds(), "pairs": setting.pairs, "fates": struck.fates, "beyond": beyond.is_some(),
            "violations": kinds,
        });
        let strays = struck.strays.iter().map(|stray| stray.line() + "\n");
        let violations = found.iter().map(|(kind, text)| format!("{}: {text}\n", kind.word()));
        let texts = told.texts().map(|text| format!("event: {text}\n"));
        let beyond_line = beyond.iter().map(|why| format!("beyond: {why}\n"));
        let log = std::iter::once(format!("{line}\n"))
            .chain(violations)
            .chain(beyond_line)
            .chain(texts)
            .chain(strays)
            .collect();
        Outcome {
            violations: found,
            beyond,
            line,
            log,
        }
    }
}
