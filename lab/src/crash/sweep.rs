//! All crash states of one history, judged.

use super::history::{self, Broken, History};
use super::judge::{self, Failed};
use super::memo::Memo;
use super::seed::Seed;
use super::setting::Setting;
use super::states::{Count, States};
use super::step::StepKind;
use super::tally::Tally;
use keepfs_testkit::crash::{CrashPlan, CrashPoint, CrashState, Sweep};
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::{Event, PersistOrder};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

/// How much is done with one history.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// States drawn at each position at most (all, if there are no more).
    pub states: u64,
    /// States drawn from one history, about: long ones have fewer a position.
    pub history: u64,
    /// One of so many recovered images is crashed again inside its recovery; 0 = none.
    pub again: u64,
    /// One of so many recovered images is emptied and walked; 0 = none.
    pub empty: u64,
    /// One of so many recovered images is walked as it is, before recovery; 0 = none.
    pub raw: u64,
    /// One of so many recovered images is shown read-only, and resumed by another server; 0 = none.
    pub shown: u64,
    /// States of a device that lied about its flushes, drawn from one history.
    pub lies: u64,
    /// One of so many images that an equal recovery covers is recovered all the same, and compared; 0 = none.
    pub prove: u64,
    /// When to stop, whatever is left.
    pub until: Option<Instant>,
}

impl Depth {
    /// What a run of minutes does.
    pub const USUAL: Depth = Depth {
        states: 2000,
        history: 8000,
        again: 1500,
        empty: 61,
        raw: 13,
        shown: 89,
        lies: 12,
        prove: 499,
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

struct Judge<'a> {
    seed: &'a Seed,
    history: &'a History,
    depth: Depth,
    /// Trees of images judged, by digest.
    known: HashMap<u64, u64>,
    /// Trees by what their recovery read.
    memo: Memo<u64>,
    /// Trees counted.
    trees: HashSet<u64>,
    /// Images and trees counted for a kind.
    counted: HashSet<(u64, StepKind)>,
    states: &'a States,
    tally: &'a mut Tally,
}

/// Runs a workload and judges crash states of it. The first violation ends it.
pub fn sweep(
    seed: &Seed,
    base: &Image,
    depth: Depth,
    states: &States,
    tally: &mut Tally,
) -> Result<(), Box<Violation>> {
    let history = match history::run(&seed.setting, base, &seed.steps) {
        Ok(history) => history,
        Err(broken) => return Err(Box::new(broken_run(seed, &broken))),
    };
    tally.histories += 1;
    tally.log_entries += history.recording.log.len() as u64;
    tally.evictions += history.evictions;
    tally.checkpoints += history.checkpoints;
    tally.no_space += history.no_space;
    tally.resumes += history.resumes.len() as u64;
    if !seed.is_scarce() {
        tally.stops += history.stops.0;
        tally.stops_run_out += history.stops.1;
    }
    let mut judge = Judge {
        seed,
        history: &history,
        depth,
        known: HashMap::new(),
        memo: Memo::default(),
        trees: HashSet::new(),
        counted: HashSet::new(),
        states,
        tally,
    };
    if seed.is_broad() {
        judge.broad()?;
    } else {
        judge.deep()?;
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
    fn is_over(&self) -> bool {
        self.depth.until.is_some_and(|until| Instant::now() >= until)
    }

    /// As many states of every position as the depth allows.
    fn deep(&mut self) -> Result<(), Box<Violation>> {
        let positions = self.history.recording.log.len() as u64 + 1;
        let drawn = match self.seed {
            // A crowd makes each state ten times as dear.
            seed if seed.setting.crowd > 0 => self.depth.history / 10,
            seed if seed.is_scarce() => self.depth.history / 16,
            _ => self.depth.history,
        };
        let each = (drawn / positions).clamp(2, self.depth.states);
        for point in Sweep::new(&self.history.recording, self.seed.number) {
            if self.is_over() {
                break;
            }
            let kinds = self.kinds_at(point.plan.position());
            for state in point.plan.sample(each) {
                self.state(&point, &state, &kinds)?;
            }
            // The device of fault model 6: what was written last arrives first.
            let units = point.plan.in_flight();
            for kept in (1..units).step_by(units.div_ceil(4).max(1)).take(each as usize) {
                self.state(&point, &point.plan.cut(PersistOrder::NewestFirst, kept), &kinds)?;
            }
        }
        Ok(())
    }

    /// At every position what is there when everything written has arrived; at some of those where the log or a
    /// superblock was written, one more state by draw.
    fn broad(&mut self) -> Result<(), Box<Violation>> {
        let recording = &self.history.recording;
        let mut all = recording.base.clone();
        let decides = |at: usize| match recording.log.get(at) {
            Some(entry) => is_decisive(&entry.event),
            None => false,
        };
        for point in Sweep::new(recording, self.seed.number) {
            if self.is_over() {
                break;
            }
            let position = point.plan.position();
            if let Some(before) = position.checked_sub(1) {
                recording.log[before].event.apply(&mut all);
            }
            let kinds = self.kinds_at(position);
            let everything = point.plan.cut(PersistOrder::OldestFirst, point.plan.in_flight());
            self.image(position, &all, &everything, &kinds)?;
            let drawn = position.checked_sub(1).is_some_and(decides) && chosen(&all, DRAWN);
            if let Some(state) = drawn.then(|| point.plan.sample(3).nth(2)).flatten() {
                self.state(&point, &state, &kinds)?;
            }
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
        let begun = allowed.start() + 1..=*allowed.end();
        let mut kinds: BTreeSet<StepKind> = begun
            .clone()
            .filter(|step| self.history.worked[*step])
            .map(kind)
            .collect();
        kinds.insert(kind(self.history.running(position)));
        if begun.into_iter().any(|step| self.history.evicted[step]) {
            kinds.insert(StepKind::Evict);
        }
        if self.history.is_behind_a_resume(position) {
            kinds.insert(StepKind::Behind);
        }
        kinds
    }

    fn state(
        &mut self,
        point: &CrashPoint,
        state: &CrashState,
        kinds: &BTreeSet<StepKind>,
    ) -> Result<(), Box<Violation>> {
        self.image(point.plan.position(), &point.content(state), state, kinds)
    }

    /// Judges the content of a state, if it is not known, and whether its tree may be found at this position.
    fn image(
        &mut self,
        position: usize,
        image: &Image,
        state: &CrashState,
        kinds: &BTreeSet<StepKind>,
    ) -> Result<(), Box<Violation>> {
        let digest = image.digest();
        let tree = match self.known.get(&digest) {
            Some(tree) => *tree,
            None => {
                let judged = self.judge(image);
                let tree = judged.map_err(|(check, what)| self.violation(check, state, what))?;
                self.known.insert(digest, tree);
                tree
            }
        };
        let prefix = judge::prefix_of(self.history, position, tree);
        prefix.map_err(|what| self.violation("prefix", state, what))?;
        self.count(digest, tree, kinds);
        Ok(())
    }

    fn count(&mut self, digest: u64, tree: u64, kinds: &BTreeSet<StepKind>) {
        if self.trees.insert(tree) {
            self.tally.states += u64::from(self.states.is_new(Count::Run, tree));
            self.count_at(&self.seed.setting, tree);
        }
        for kind in kinds {
            let is_image = self.counted.insert((digest ^ IMAGE, *kind));
            let is_tree = self.counted.insert((tree, *kind)) && self.states.is_new(Count::Kind(*kind), tree);
            let row = self.tally.row(*kind);
            row.images += u64::from(is_image);
            row.states += u64::from(is_tree);
        }
    }

    fn count_at(&mut self, setting: &Setting, tree: u64) {
        if self.states.is_new(Count::At(setting.guard, setting.protect), tree) {
            self.tally.count_at(setting.guard, setting.protect);
        }
    }

    /// The tree of an image, by an equal recovery or by its own.
    fn judge(&mut self, image: &Image) -> Result<u64, Failed> {
        if let Some(tree) = self.memo.find(image).copied() {
            self.tally.covered += 1;
            if chosen(image, self.depth.prove) {
                self.prove(image, tree)?;
            }
            return Ok(tree);
        }
        self.tally.images += 1;
        let recovered = self.recover(image)?;
        let setting = &self.seed.setting;
        if !self.trees.contains(&recovered.tree) {
            judge::recover_otherwise(setting, image, &recovered)?;
            self.tally.otherwise += 1;
            self.count_at(&setting.other(), recovered.tree);
        }
        if chosen(image, self.depth.raw) {
            judge::sound(&judge::Walked(image), true).map_err(|e| ("walk before recovery", e))?;
        }
        // The broad class has many images of much the same kind.
        let one_of = self.depth.empty * if self.seed.is_broad() { 4 } else { 1 };
        if chosen(image, one_of) {
            judge::usable(setting, &recovered.image).map_err(|e| ("usability", e))?;
            self.tally.emptied += 1;
        }
        if chosen(image, self.depth.shown) {
            judge::resume_what_was_shown(setting, image, recovered.tree)?;
        }
        if chosen(image, self.depth.again) {
            self.crash_again(image, recovered.tree)
                .map_err(|e| ("crash inside recovery", e))?;
        }
        Ok(recovered.tree)
    }

    /// Recovers an image and keeps what it read.
    fn recover(&mut self, image: &Image) -> Result<judge::Recovered, Failed> {
        let recovered = judge::recover(&self.seed.setting, image)?;
        let kept = self.memo.keep(&recovered.reads, recovered.tree);
        // Then nothing is covered by it; the figure is told, and a test asks that it is 0.
        self.tally.contradictions += u64::from(kept.is_err());
        Ok(recovered)
    }

    /// An image that is covered by an equal recovery gives the same tree by its own.
    fn prove(&mut self, image: &Image, tree: u64) -> Result<(), Failed> {
        let own = judge::recover(&self.seed.setting, image)?;
        self.tally.proved += 1;
        match own.tree == tree {
            true => Ok(()),
            false => Err(("cover", "a recovery that read the same gave another tree".into())),
        }
    }

    /// A crash inside the recovery: every state of it must be recovered to the same tree.
    fn crash_again(&mut self, image: &Image, tree: u64) -> Result<(), String> {
        const STATES: u64 = 6;
        let setting = &self.seed.setting;
        let history = history::run(setting, image, &[]).map_err(|b| format!("second recovery: {}", b.what))?;
        if history.hashes[0] != tree {
            return Err("recovering twice gives two different trees".into());
        }
        for point in Sweep::new(&history.recording, self.seed.number) {
            for state in point.plan.sample(STATES) {
                let content = point.content(&state);
                self.tally.again += 1;
                self.tally.row(StepKind::Recovery).images += 1;
                let again = match self.memo.find(&content) {
                    Some(tree) => *tree,
                    None => {
                        let recovered = self.recover(&content);
                        recovered
                            .map_err(|(check, what)| format!("{check} ({state}): {what}"))?
                            .tree
                    }
                };
                if again != tree {
                    return Err(format!("({state}): another tree"));
                }
            }
        }
        Ok(())
    }

    /// A device that lied about every flush: anything may be lost, but the pool is opened or refused in good order,
    /// and what is opened can be read, walked and written without a panic (the campaign catches it).
    fn lies(&mut self) -> Result<(), Box<Violation>> {
        let mut log = self.history.recording.log.clone();
        log.retain(|entry| entry.event != Event::Flush);
        let plan = CrashPlan::new(&log, log.len(), self.seed.number);
        let drawn = if self.seed.is_broad() { 1 } else { self.depth.lies };
        // The first two of a sample are nothing and everything.
        for state in plan.sample(drawn + 2).skip(2) {
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

/// One of so many decisive positions of a broad workload has a drawn state, too.
const DRAWN: u64 = 5;

/// Tells images from trees among what was counted.
const IMAGE: u64 = 0x5bd1_e995_9d1c_8f2b;

/// Whether an image is one of so many.
fn chosen(image: &Image, one_of: u64) -> bool {
    one_of != 0 && image.digest().is_multiple_of(one_of)
}

/// Whether recovery may come to another end by this entry of the log alone.
fn is_decisive(event: &Event) -> bool {
    use keepfs_media::Class::{Plog, Superblock};
    matches!(
        event,
        Event::Write {
            class: Plog | Superblock,
            ..
        }
    )
}
