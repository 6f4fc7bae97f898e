//! A workload run once on a recording device: what was written when, what the tree was after each step, and what was
//! acknowledged as durable.

mod failed_flush;
mod second_life;

use super::death::{Deaths, MortalDevice};
use super::fence;
use super::judge;
use super::pause::{PauseDevice, Stops};
use super::setting::{LEVELS, LabClock, Setting};
use super::step::Step;
use keepfs_fs::Volume;
use keepfs_store::{Protection, Settings};
use keepfs_testkit::crash::CrashPlan;
use keepfs_testkit::image::Image;
use keepfs_testkit::ops::{Outcome, Session, Slots};
use keepfs_testkit::sim::{Event, Recording, SimDevice};
use keepfs_testkit::tree::{self, Times};
use keepfs_vfs::Vfs;
use std::sync::Arc;

/// What happened since the last power cut of the workload. Steps of this life count from 1; 0 is the opening of the pool.
pub struct History {
    /// Steps of earlier lives.
    pub before: usize,
    /// The device's log; each entry is tagged with the step that wrote it.
    pub recording: Recording,
    /// Hash of the tree after opening and after each step.
    pub hashes: Vec<u64>,
    /// (entries of the log when it was acknowledged, last step that is then durable), ascending.
    pub acks: Vec<(usize, usize)>,
    /// Entries of the log at the begin of each step.
    pub begins: Vec<usize>,
    /// Whether each step was done (not refused).
    pub worked: Vec<bool>,
    /// Whether frames were evicted during each step.
    pub evicted: Vec<bool>,
    /// Resumes by the step that the server died in, or behind.
    pub resumes: Vec<usize>,
    /// Stops of checkpoints, and how many of them ended by patience.
    pub stops: (u64, u64),
    /// Operations that failed for want of space.
    pub no_space: u64,
    /// Frames evicted.
    pub evictions: u64,
    /// Checkpoints.
    pub checkpoints: u64,
}

/// A run that could not go on.
#[derive(Clone, Debug)]
pub struct Broken {
    /// In which step.
    pub step: usize,
    /// What was wrong.
    pub what: String,
}

/// So many steps behind a resume are told apart.
const BEHIND: usize = 5;

/// States drawn at a power cut of a workload, of which its number picks one.
const CUTS: u64 = 64;

/// Runs `steps` on the pool that `base` holds. The history is that of the last life.
pub fn run(setting: &Setting, base: &Image, steps: &[Step]) -> Result<History, Broken> {
    let mut history = Life::open(setting, base, 0, is_mortal(steps))?.run(steps)?;
    let mut rest = steps;
    while let Some(at) = rest.iter().position(|s| matches!(s, Step::Crash { .. })) {
        let Step::Crash { draw, inside } = rest[at] else { break };
        rest = &rest[at + 1..];
        let before = steps.len() - rest.len();
        let log = &history.recording.log;
        let flush = log.iter().rposition(|entry| entry.event == Event::Flush);
        let position = flush.filter(|_| inside).unwrap_or(log.len());
        let plan = CrashPlan::new(log, position, draw);
        let pick = draw % plan.count().clamp(1, CUTS);
        let durable = plan.durable(&history.recording.base);
        let image = plan
            .sample(CUTS)
            .nth(pick as usize)
            .map(|state| state.content(&durable));
        let mut life = Life::open(setting, &image.unwrap_or(durable), before, is_mortal(rest))?;
        judge::prefix_of(&history, position, life.history.hashes[0]).map_err(|what| Broken { step: before, what })?;
        life.history.stops = history.stops;
        history = life.run(rest)?;
    }
    Ok(history)
}

/// Whether a server dies before the next power cut.
fn is_mortal(steps: &[Step]) -> bool {
    let life = steps.split(|step| matches!(step, Step::Crash { .. })).next();
    life.is_some_and(|life| life.iter().any(|step| matches!(step, Step::Die { .. })))
}

/// A death that is coming.
#[derive(Clone, Copy)]
struct Doom {
    /// Number of the step that says so.
    number: usize,
    part: u32,
    again: u32,
}

/// One life of the pool: from a power cut or the beginning to the next power cut or the end.
struct Life<'a> {
    setting: &'a Setting,
    device: Arc<SimDevice>,
    /// The same as servers see it.
    below: Arc<MortalDevice<PauseDevice>>,
    /// Whether servers leave their memory behind.
    mortal: bool,
    doom: Option<Doom>,
    /// What the session holds open: at the begin of each step, and now.
    held: Vec<Slots>,
    holds: Slots,
    clock: LabClock,
    volume: Arc<Volume>,
    history: History,
    /// Last transaction when the tree was hashed last: until the next one it is the same tree.
    hashed: u64,
    /// Evictions of this mount so far.
    evictions: u64,
    /// Something is fenced: nobody can read the whole tree, and nothing changes it.
    fenced: bool,
}

/// A device on which servers can be stopped and die.
fn below(device: &Arc<SimDevice>) -> Arc<MortalDevice<PauseDevice>> {
    let pause = PauseDevice::new(device.clone(), Stops::default());
    Arc::new(MortalDevice::new(pause, Deaths::over(device.clone())))
}

impl<'a> Life<'a> {
    fn open(setting: &'a Setting, base: &Image, before: usize, mortal: bool) -> Result<Life<'a>, Broken> {
        let device = Arc::new(SimDevice::over(base.clone()));
        device.set_faults(setting.faults());
        let below = below(&device);
        let clock = LabClock::default();
        clock.set(before as u64);
        let broken = |what: String| Broken { step: before, what };
        let volume = first_server(setting, &below, &clock, mortal).map_err(broken)?;
        let history = History {
            before,
            recording: Recording {
                base: base.clone(),
                log: Vec::new(),
            },
            hashes: vec![hash(&volume).map_err(broken)?],
            acks: vec![(0, 0)],
            begins: vec![0],
            worked: vec![true],
            evicted: vec![false],
            resumes: Vec::new(),
            stops: (0, 0),
            no_space: 0,
            evictions: 0,
            checkpoints: 0,
        };
        Ok(Life {
            setting,
            device,
            below,
            mortal,
            doom: None,
            held: vec![Slots::default()],
            holds: Slots::default(),
            clock,
            hashed: volume.store().last_seq(),
            volume,
            history,
            evictions: 0,
            fenced: false,
        })
    }

    /// Runs steps until the next power cut.
    fn run(mut self, steps: &[Step]) -> Result<History, Broken> {
        let end = steps
            .iter()
            .position(|s| matches!(s, Step::Crash { .. }))
            .unwrap_or(steps.len());
        let steps = &steps[..end];
        loop {
            let begun = self.history.begins.len() - 1;
            match &steps[begun..] {
                rest if self.is_doomed(begun, rest) => self.second_life(steps)?,
                [] => break,
                [Step::Remount, ..] => self.remount(steps)?,
                rest => self.mounted(rest)?,
            }
        }
        self.count();
        self.history.recording.log = self.device.recording().log;
        Ok(self.history)
    }

    /// Whether the server dies now at the latest: the step that it was to die in is over.
    fn is_doomed(&self, begun: usize, rest: &[Step]) -> bool {
        let unmounts = matches!(rest, [Step::Remount, ..]);
        self.doom.is_some_and(|doom| doom.number < begun || !unmounts)
    }

    /// Adds up what a server did that is there no more.
    fn count(&mut self) {
        self.history.evictions += self.volume.store().arena_figures().2;
        self.history.checkpoints += self.volume.store().stats().checkpoints;
        let (stops, ran_out) = self.below.device.hooks.take_counts();
        self.history.stops.0 += stops;
        self.history.stops.1 += ran_out;
    }

    fn broken(&self, what: String) -> Broken {
        Broken {
            step: self.history.before + self.history.begins.len() - 1,
            what,
        }
    }

    /// The next step begins.
    fn begin(&mut self) {
        let number = self.history.begins.len();
        self.device.set_tag(number as u64);
        self.clock.set((self.history.before + number) as u64);
        self.history.begins.push(self.device.log_len());
        self.held.push(self.holds);
        self.below.hooks.set_at_step(true);
    }

    /// The step is over.
    fn end(&mut self, done: Done) -> Result<(), Broken> {
        self.below.hooks.set_at_step(false);
        self.history.worked.push(done != Done::Refused);
        if matches!(done, Done::Durable | Done::Moved) {
            self.history
                .acks
                .push((self.device.log_len(), self.history.begins.len() - 1));
        }
        let evictions = self.volume.store().arena_figures().2;
        self.history.evicted.push(evictions != self.evictions);
        let now = self.tree(done).map_err(|what| self.broken(what))?;
        self.history.hashes.push(now);
        self.evictions = self.volume.store().arena_figures().2;
        match self.volume.store().fault() {
            Some(fault) => Err(self.broken(format!("the store gave up: {fault}"))),
            None => Ok(()),
        }
    }

    /// The hash of the tree now. It is read unless only transactions could change it and there was none.
    fn tree(&mut self, done: Done) -> Result<u64, String> {
        let last = self.history.hashes.last().copied();
        if self.fenced
            && let Some(same) = last
        {
            return Ok(same);
        }
        match last.filter(|_| done != Done::Moved && self.volume.store().last_seq() == self.hashed) {
            Some(same) => Ok(same),
            None => {
                let now = hash(&self.volume)?;
                // Reading may stamp access times, which are no part of the tree.
                self.hashed = self.volume.store().last_seq();
                Ok(now)
            }
        }
    }

    fn remount(&mut self, steps: &[Step]) -> Result<(), Broken> {
        self.begin();
        self.volume
            .unmount()
            .map_err(|e| self.broken(format!("unmount: {e}")))?;
        if self.below.hooks.has_died() {
            return self.second_life(steps);
        }
        self.count();
        self.doom = None;
        self.evictions = 0;
        self.below.hooks.forget();
        let server = first_server(self.setting, &self.below, &self.clock, self.mortal);
        self.volume = server.map_err(|what| self.broken(what))?;
        let before = self.history.hashes.last().copied();
        self.fenced = false;
        self.end(Done::Moved)?;
        match self.history.hashes.last().copied() == before {
            true => Ok(()),
            false => Err(self.broken("another tree after a remount".into())),
        }
    }

    /// Runs steps until a remount, or until a server is to be dead.
    fn mounted(&mut self, steps: &[Step]) -> Result<(), Broken> {
        let volume = self.volume.clone();
        let mut session = Session::holding(&*volume, self.holds);
        let mut rest = steps;
        while let [step, behind @ ..] = rest {
            let was_doomed = self.doom.is_some();
            match step {
                Step::Remount => break,
                Step::Die { .. } if was_doomed => break,
                Step::Die { after, part, again } => self.be_doomed(*after, *part, *again),
                Step::FlushFails { after } if !was_doomed && self.is_flushed_by(behind) => {
                    if self.without_flush(&mut session, *after, &behind[0])? {
                        rest = &behind[1..];
                        break;
                    }
                    rest = behind;
                }
                Step::During { after, steps: count } => {
                    let inner = &behind[..(*count as usize).min(behind.len())];
                    let ops = inner.iter().take_while(|s| matches!(s, Step::Op(_)));
                    let done = self.during(&mut session, *after, ops)?;
                    rest = &rest[done..];
                }
                _ => self.one(&mut session, step)?,
            }
            rest = &rest[1..];
            if was_doomed {
                break;
            }
        }
        self.leave(session, rest);
        Ok(())
    }

    /// A checkpoint that stops before its write number `after`, with `ops` run meanwhile; returns how many there were.
    fn during<'s>(
        &mut self,
        session: &mut Session<'_>,
        after: u32,
        ops: impl Iterator<Item = &'s Step>,
    ) -> Result<usize, Broken> {
        self.begin();
        let own = self.history.begins.len() - 1;
        let stopped = self.below.device.hooks.stop_after(after);
        let store = self.volume.store().clone();
        std::thread::scope(|scope| {
            let below = self.below.clone();
            let checkpoint = scope.spawn(move || {
                let ended = store.checkpoint();
                below.device.hooks.forget_stop();
                ended
            });
            let mut count = 0;
            // Cut off: the checkpoint ended without coming so far; then it is simply over.
            let _ = stopped.reached.recv();
            self.end(Done::Yes)?;
            for step in ops {
                self.one(session, step)?;
                count += 1;
            }
            drop(stopped.go);
            let ended = checkpoint.join().unwrap_or(Err(keepfs_store::Error::Dead));
            match ended {
                Ok(()) => self.history.acks.push((self.device.log_len(), own)),
                Err(keepfs_store::Error::NoSpace) => {}
                Err(other) => return Err(self.broken(format!("checkpoint: {other}"))),
            }
            Ok(count)
        })
    }

    /// A step from its begin to its end.
    fn one(&mut self, session: &mut Session<'_>, step: &Step) -> Result<(), Broken> {
        self.begin();
        let done = self.perform(session, step).map_err(|what| self.broken(what))?;
        self.holds = session.held();
        self.end(done)
    }

    /// Performs a step.
    fn perform(&mut self, session: &mut Session<'_>, step: &Step) -> Result<Done, String> {
        let store = self.volume.store().clone();
        match step {
            Step::Op(op) if self.fenced && !op.is_sync() => Ok(Done::Refused),
            Step::Op(op) => {
                let outcome = session.run(op);
                if self.fenced && matches!(outcome, Outcome::Err(_)) {
                    return Ok(Done::Refused);
                }
                match &outcome {
                    Outcome::Err(keepfs_vfs::Errno::EIO) => return Err(format!("{op}: EIO")),
                    Outcome::Err(keepfs_vfs::Errno::ENOSPC) => self.history.no_space += 1,
                    Outcome::Contradiction(what) => return Err(format!("{op}: {what}")),
                    _ => {}
                }
                Ok(match outcome {
                    Outcome::Err(_) | Outcome::WrongKind => Done::Refused,
                    Outcome::Done if op.is_sync() => Done::Durable,
                    _ => Done::Yes,
                })
            }
            Step::Checkpoint => {
                let discarded = |()| store.discard_released();
                store
                    .checkpoint()
                    .and_then(discarded)
                    .map(|()| Done::Moved)
                    .or_else(full)
            }
            Step::Trim => match store.trim(0..self.setting.pages, 1) {
                Ok(_) => Ok(Done::Durable),
                Err(e) => Err(format!("trim: {e}")),
            },
            Step::Protect(level) => {
                let settings = Settings {
                    protect: Some(*level),
                    ..Settings::default()
                };
                // What is as it was asked for already makes no checkpoint.
                let done = |changed| if changed { Done::Moved } else { Done::Yes };
                store.set(&settings).map(done).or_else(full)
            }
            Step::SwitchZone => {
                store.want_other_zones();
                store.checkpoint().map(|()| Done::Moved).or_else(full)
            }
            Step::Evict => {
                store.drop_clean_frames();
                // What comes next reads it all again.
                self.hashed = u64::MAX;
                Ok(Done::Yes)
            }
            Step::Idle => match store.write_durable() {
                Ok(()) => Ok(Done::Yes),
                Err(e) => Err(format!("writing `durable`: {e}")),
            },
            // Without sums nobody would notice.
            Step::Fence { .. } if self.setting.protect == Protection::Off => Ok(Done::Refused),
            Step::Fence { path } => {
                let put_up = fence::put_up(&self.volume, path)?;
                self.fenced |= put_up;
                Ok(if put_up { Done::Yes } else { Done::Refused })
            }
            Step::Remount | Step::Crash { .. } | Step::During { .. } | Step::Die { .. } | Step::FlushFails { .. } => {
                Ok(Done::Yes)
            }
        }
    }
}

/// A server of a pool whose last one ended in order, or of power.
fn first_server(
    setting: &Setting,
    below: &Arc<MortalDevice<PauseDevice>>,
    clock: &LabClock,
    mortal: bool,
) -> Result<Arc<Volume>, String> {
    let told = |e| format!("the pool cannot be opened: {e}");
    if !mortal {
        return setting.open(below.clone(), clock).map_err(told);
    }
    let volume = setting.open_mortal(below.clone(), clock).map_err(told)?;
    let memory = volume.remains().map_err(|e| format!("its memory: {e}"))?;
    below.hooks.keep(memory);
    Ok(volume)
}

/// What came of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Done {
    /// It was refused; nothing changed.
    Refused,
    /// It was done.
    Yes,
    /// It was done, and everything up to it is acknowledged as durable.
    Durable,
    /// The same, and metadata moved: the tree must be the same wherever it lies now.
    Moved,
}

/// A checkpoint that finds no space is told so and changes nothing.
fn full(error: keepfs_store::Error) -> Result<Done, String> {
    match error {
        keepfs_store::Error::NoSpace => Ok(Done::Refused),
        other => Err(format!("checkpoint: {other}")),
    }
}

/// The hash of everything a user can see, times included, and of the level that the pool keeps (S-2.9): both are those of
/// one moment, or neither is right.
pub fn hash(volume: &Volume) -> Result<u64, String> {
    let tree = tree::hash_tree(volume, Times::Keep).map_err(|e| format!("the tree cannot be read: {e}"))?;
    let level = volume.store().pool_in_force().protect;
    let number = LEVELS.iter().position(|known| *known == level).unwrap_or(LEVELS.len());
    // The one that most pools have leaves the hash as it is.
    Ok(tree ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

impl History {
    /// The steps whose trees may be found after a crash at `position`: from the last acknowledged one to the last one
    /// that had begun.
    pub fn allowed(&self, position: usize) -> core::ops::RangeInclusive<usize> {
        let low = self
            .acks
            .iter()
            .filter(|(at, _)| *at <= position)
            .map(|(_, step)| *step);
        let low = low.max().unwrap_or(0);
        // A step that begins at this very position has written nothing; nothing of it can be found.
        let begun = self.begins.partition_point(|at| *at < position).max(1) - 1;
        low..=begun.max(low).min(self.hashes.len() - 1)
    }

    /// Whether one of the first steps behind a resume was under way at `position`.
    pub fn is_behind_a_resume(&self, position: usize) -> bool {
        let at = self.running(position);
        self.resumes.iter().any(|step| (*step..=step + BEHIND).contains(&at))
    }

    /// The step that was under way at `position`.
    pub fn running(&self, position: usize) -> usize {
        match position {
            0 => 0,
            _ => self.recording.log[position - 1].tag as usize,
        }
    }
}
