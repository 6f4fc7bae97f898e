//! A campaign: workloads by number on some threads until a budget is used up; violations shrunk.

use super::seed::Seed;
use super::setting::Setting;
use super::states::States;
use super::step::Step;
use super::sweep::{Depth, Violation, sweep};
use super::tally::Tally;
use super::workload::Workloads;
use keepfs_store::{Protection, Reuse};
use keepfs_testkit::image::Image;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When a campaign ends.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// After so long.
    pub time: Option<Duration>,
    /// When each of these is reached.
    pub goal: Option<Goal>,
    /// After so many violations.
    pub violations: u64,
    /// Threads.
    pub threads: usize,
    /// Only workloads whose names begin so.
    pub only: &'static str,
    /// No workload that was made for one danger.
    pub blind: bool,
}

/// What a run is to reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Goal {
    /// Distinct states.
    pub states: u64,
    /// Distinct states of each kind that a workload is made for.
    pub each: u64,
}

/// A running campaign.
pub struct Campaign {
    workloads: Workloads,
    depth: Depth,
    limits: Limits,
    started: Instant,
    next: AtomicU64,
    over: AtomicBool,
    tally: Mutex<Tally>,
    states: States,
    violations: Mutex<Vec<Violation>>,
    fresh: Mutex<HashMap<Setting, Image>>,
    /// What each thread is at, and since when.
    at: Mutex<Vec<Option<(Seed, Instant)>>>,
}

impl Campaign {
    /// A campaign that has not begun.
    pub fn new(seed: u64, depth: Depth, limits: Limits) -> Campaign {
        Campaign {
            workloads: Workloads::new(seed),
            depth,
            limits,
            started: Instant::now(),
            next: AtomicU64::new(0),
            over: AtomicBool::new(false),
            tally: Mutex::default(),
            states: States::default(),
            violations: Mutex::default(),
            fresh: Mutex::default(),
            at: Mutex::new(vec![None; limits.threads]),
        }
    }

    /// The same at one level of protection only.
    #[must_use]
    pub fn protected(mut self, level: Protection) -> Campaign {
        self.workloads = self.workloads.protected(level);
        self
    }

    /// The same with more of the workloads that are swept deeply.
    #[must_use]
    pub fn deep(mut self, seed: u64) -> Campaign {
        self.workloads = Workloads::deep(seed);
        self
    }

    /// Runs one workload and adds what it gave.
    pub fn replay(&self, seed: &Seed, depth: Depth) -> Option<Violation> {
        let mut tally = Tally::default();
        let violation = self.judged(seed, depth, &mut tally);
        if violation.is_some() {
            tally.violations += 1;
        }
        self.tally.lock().add(&tally);
        violation
    }

    /// Runs workloads until a limit is reached; `progress` is told now and then.
    pub fn run(&self, progress: &(dyn Fn(&Tally, Duration) + Sync)) -> Vec<Violation> {
        std::thread::scope(|scope| {
            for thread in 0..self.limits.threads {
                scope.spawn(move || self.work(thread, progress));
            }
        });
        std::mem::take(&mut self.violations.lock())
    }

    /// What was done so far.
    pub fn tally(&self) -> Tally {
        self.tally.lock().clone()
    }

    /// A workload that has not ended after `patience`: something hangs.
    pub fn hanging(&self, patience: Duration) -> Option<Seed> {
        let at = self.at.lock();
        let hangs = |(_, since): &&(Seed, Instant)| since.elapsed() > patience;
        at.iter().flatten().find(hangs).map(|(seed, _)| seed.clone())
    }

    fn work(&self, thread: usize, progress: &(dyn Fn(&Tally, Duration) + Sync)) {
        let _reuse = Reuse::begin();
        let mut told = Instant::now();
        while !self.is_over() {
            let seed = self.workloads.nth(self.next.fetch_add(1, Ordering::Relaxed));
            let depth = Depth {
                until: self.limits.time.map(|t| self.started + t),
                ..self.depth
            };
            if !seed.name.starts_with(self.limits.only) || (self.limits.blind && seed.is_directed()) {
                continue;
            }
            self.at.lock()[thread] = Some((seed.clone(), Instant::now()));
            let violation = self.replay(&seed, depth);
            self.at.lock()[thread] = None;
            if let Some(violation) = violation {
                let mut violations = self.violations.lock();
                violations.push(violation);
                if violations.len() as u64 >= self.limits.violations {
                    self.over.store(true, Ordering::Relaxed);
                }
            }
            if thread == 0 && told.elapsed() > Duration::from_secs(10) {
                told = Instant::now();
                progress(&self.tally(), self.started.elapsed());
            }
        }
    }

    /// Whether checkpoints are stopped in vain: too many of the stops end by patience. Chosen workloads may be of a kind that
    /// has to wait.
    pub fn idles(&self) -> bool {
        self.limits.only.is_empty() && self.tally.lock().stops_fail()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
            || self.idles()
            || self.limits.time.is_some_and(|t| self.started.elapsed() >= t)
            || self.limits.goal.is_some_and(|goal| self.tally.lock().reaches(goal))
    }

    fn fresh(&self, setting: &Setting) -> Result<Image, String> {
        if let Some(image) = self.fresh.lock().get(setting) {
            return Ok(image.clone());
        }
        let image = setting.fresh()?;
        self.fresh.lock().insert(*setting, image.clone());
        Ok(image)
    }

    /// One sweep; a panic is a violation.
    fn judged(&self, seed: &Seed, depth: Depth, tally: &mut Tally) -> Option<Violation> {
        let failed = |check: &'static str, what: String| Violation {
            seed: seed.clone(),
            check,
            state: "somewhere".into(),
            what,
        };
        let base = match self.fresh(&seed.setting) {
            Ok(base) => base,
            Err(what) => return Some(failed("format", what)),
        };
        match catch_unwind(AssertUnwindSafe(|| sweep(seed, &base, depth, &self.states, tally))) {
            Ok(Ok(())) => None,
            Ok(Err(violation)) => Some(*violation),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Some(failed("panic", text.unwrap_or("a panic without words").into()))
            }
        }
    }

    /// The same violation with as few steps as can be found in the time left.
    pub fn shrink(&self, violation: &Violation, time: Duration) -> Violation {
        let begun = Instant::now();
        let mut best = violation.clone();
        let mut piece = best.seed.steps.len().div_ceil(2);
        while piece > 0 && begun.elapsed() < time {
            let mut removed = false;
            let mut at = 0;
            while at < best.seed.steps.len() && begun.elapsed() < time {
                match self.without(&best, at, piece) {
                    Some(smaller) => (best, removed) = (smaller, true),
                    None => at += piece,
                }
            }
            if piece == 1 && !removed {
                break;
            }
            piece = if removed { piece } else { piece / 2 };
        }
        best
    }

    fn without(&self, violation: &Violation, at: usize, piece: usize) -> Option<Violation> {
        let steps = &violation.seed.steps;
        let end = (at + piece).min(steps.len());
        let kept: Vec<Step> = steps[..at].iter().chain(&steps[end..]).cloned().collect();
        let seed = Seed {
            steps: kept,
            ..violation.seed.clone()
        };
        let depth = Depth {
            until: None,
            ..self.depth
        };
        let again = self.judged(&seed, depth, &mut Tally::default())?;
        (again.check == violation.check).then_some(again)
    }
}
