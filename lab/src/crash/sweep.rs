//! All crash states of one history, judged.

use super::history::{self, Broken, History};
use super::judge;
use super::seed::Seed;
use super::step::StepKind;
use super::tally::Tally;
use keepfs_media::crash::{CrashPlan, CrashPoint, CrashState, Sweep};
use keepfs_media::image::Image;
use keepfs_media::sim::{Event, PersistOrder};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

/// How much is done with one history.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// States drawn at each position at most (all, if there are no more).
    pub states: u64,
    /// States drawn from one history, about: long ones have fewer a position.
    pub history: u64,
    /// One of so many images is crashed again inside its recovery; 0 = none.
    pub again: u64,
    /// One of so many images is emptied and walked; 0 = none.
    pub empty: u64,
    /// One of so many images is walked as it is, before recovery; 0 = none.
    pub raw: u64,
    /// States of a device that lied about its flushes, drawn from one history.
    pub lies: u64,
    /// When to stop, whatever is left.
    pub until: Option<Instant>,
}

impl Depth {
    /// What a run of minutes does.
    pub const USUAL: Depth = Depth {
        states: 400,
        history: 1200,
        again: 2000,
        empty: 61,
        raw: 13,
        lies: 12,
        until: None,
    };
}

/// A broken promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The workload.
    pub seed: Seed,
    /// Which check failed, in a word: what the shrinker keeps.
    pub check: &'static str,
    /// Which state, in words.
    pub state: String,
    /// What was wrong.
    pub what: String,
}

/// What is known of an image judged before.
#[derive(Clone, Copy)]
struct Known {
    tree: u64,
    class: u64,
}

struct Judge<'a> {
    seed: &'a Seed,
    history: &'a History,
    depth: Depth,
    known: HashMap<u64, Known>,
    walked: HashSet<u64>,
    states: HashSet<u64>,
    counted: HashSet<(u64, StepKind)>,
    tally: &'a mut Tally,
}

/// Runs a workload and judges every crash state of it. The first violation ends it.
pub fn sweep(seed: &Seed, base: &Image, depth: Depth, tally: &mut Tally) -> Result<(), Box<Violation>> {
    let history = match history::run(&seed.setting, base, &seed.steps) {
        Ok(history) => history,
        Err(broken) => return Err(Box::new(broken_run(seed, &broken))),
    };
    tally.histories += 1;
    tally.log_entries += history.recording.log.len() as u64;
    tally.evictions += history.evictions;
    tally.checkpoints += history.checkpoints;
    tally.no_space += history.no_space;
    let mut judge = Judge {
        seed,
        history: &history,
        depth,
        known: HashMap::new(),
        walked: HashSet::new(),
        states: HashSet::new(),
        counted: HashSet::new(),
        tally,
    };
    let positions = judge.history.recording.log.len() as u64 + 1;
    // A crowd makes each state ten times as dear.
    let drawn = if seed.setting.crowd > 0 {
        depth.history / 10
    } else {
        depth.history
    };
    judge.depth.states = (drawn / positions).clamp(2, depth.states);
    for point in Sweep::new(&history.recording, seed.number) {
        if depth.until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
        judge.position(&point)?;
    }
    judge.lies()
}

fn broken_run(seed: &Seed, broken: &Broken) -> Violation {
    Violation {
        seed: seed.clone(),
        check: "run",
        state: format!("no crash at all, step {}", broken.step),
        what: broken.what.clone(),
    }
}

impl Judge<'_> {
    fn position(&mut self, point: &CrashPoint) -> Result<(), Box<Violation>> {
        let kinds = self.kinds_at(point.plan.position());
        for state in point.plan.sample(self.depth.states) {
            self.state(point, &state, &kinds)?;
        }
        // The device of fault model 6: what was written last arrives first.
        let units = point.plan.in_flight();
        for kept in (1..units)
            .step_by(units.div_ceil(4).max(1))
            .take(self.depth.states as usize)
        {
            self.state(point, &point.plan.cut(PersistOrder::NewestFirst, kept), &kinds)?;
        }
        Ok(())
    }

    /// The kinds of the steps that are in flight at a position: begun, and not acknowledged as durable.
    fn kinds_at(&self, position: usize) -> BTreeSet<StepKind> {
        let kind = |step: usize| match step {
            0 => StepKind::Recovery,
            _ => self.seed.steps[self.history.before + step - 1].kind(),
        };
        let allowed = self.history.allowed(position);
        let mut kinds: BTreeSet<StepKind> = (allowed.start() + 1..=*allowed.end())
            .filter(|step| self.history.worked[*step])
            .map(kind)
            .collect();
        kinds.insert(kind(self.history.running(position)));
        kinds
    }

    fn state(
        &mut self,
        point: &CrashPoint,
        state: &CrashState,
        kinds: &BTreeSet<StepKind>,
    ) -> Result<(), Box<Violation>> {
        let position = point.plan.position();
        let image = point.content(state);
        let digest = image.digest();
        let known = match self.known.get(&digest) {
            Some(known) => *known,
            None => {
                let known = self
                    .judge(&image)
                    .map_err(|(check, what)| self.violation(check, state, what))?;
                self.known.insert(digest, known);
                self.tally.images += 1;
                known
            }
        };
        let prefix = judge::prefix_of(self.history, position, known.tree);
        let prefix = prefix.map_err(|what| self.violation("prefix", state, what))?;
        let mut hasher = DefaultHasher::new();
        (known.tree, known.class, prefix, self.history.running(position)).hash(&mut hasher);
        (position
            .checked_sub(1)
            .map(|at| class_of(&self.history.recording.log[at].event)))
        .hash(&mut hasher);
        let key = hasher.finish();
        let is_new = self.states.insert(key);
        self.tally.states += u64::from(is_new);
        for kind in kinds {
            let row = self.tally.row(*kind);
            row.images += u64::from(self.counted.insert((digest, *kind)));
            row.states += u64::from(is_new);
        }
        Ok(())
    }

    /// Everything that depends on the image alone.
    fn judge(&mut self, image: &Image) -> Result<Known, (&'static str, String)> {
        let setting = &self.seed.setting;
        let recovered = judge::recover(setting, image).map_err(|e| ("recovery", e))?;
        if self.walked.insert(recovered.image.digest()) {
            judge::sound(&recovered.image, true).map_err(|e| ("walk", e))?;
        }
        let chosen = |one_of: u64| one_of != 0 && image.digest().is_multiple_of(one_of);
        if chosen(self.depth.raw) {
            judge::sound(image, true).map_err(|e| ("walk before recovery", e))?;
        }
        if chosen(self.depth.empty) {
            judge::usable(setting, &recovered.image).map_err(|e| ("usability", e))?;
            self.tally.emptied += 1;
        }
        if chosen(self.depth.again) {
            let images = judge::crash_again(setting, image, recovered.tree, 6, self.seed.number);
            let images = images.map_err(|e| ("crash inside recovery", e))?;
            self.tally.again += images;
            let row = self.tally.row(StepKind::Recovery);
            row.images += images;
        }
        Ok(Known {
            tree: recovered.tree,
            class: recovered.class,
        })
    }

    /// A device that lied about every flush: anything may be lost, but the pool is opened or refused in good order,
    /// and what is opened can be read, walked and written without a panic (the campaign catches it).
    fn lies(&mut self) -> Result<(), Box<Violation>> {
        let mut log = self.history.recording.log.clone();
        log.retain(|entry| entry.event != Event::Flush);
        let plan = CrashPlan::new(&log, log.len(), self.seed.number);
        for state in plan.sample(self.depth.lies) {
            judge::contained(&self.seed.setting, &state.content(&self.history.recording.base));
            self.tally.lies += 1;
        }
        Ok(())
    }

    fn violation(&self, check: &'static str, state: &CrashState, what: String) -> Box<Violation> {
        Box::new(Violation {
            seed: self.seed.clone(),
            check,
            state: state.to_string(),
            what,
        })
    }
}

fn class_of(event: &Event) -> u64 {
    match event {
        Event::Write { class, .. } => *class as u64,
        Event::Flush => 100,
        Event::Discard { .. } => 101,
    }
}
