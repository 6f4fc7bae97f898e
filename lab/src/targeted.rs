//! Stray writes at the very look: bytes of a frame are changed just before a reader copies them, at each look of each operation
//! of a script, and an oracle says what every operation must give all the same (SPEC S-15.19 to S-15.21, decision 0807).

#[cfg(feature = "planted")]
pub mod campaign;

use keepfs_check::{Options, walk};
use keepfs_codes::Protection;
use keepfs_format::PoolId;
use keepfs_fs::{FormatOptions, ScrubState, StoreOptions, Volume, VolumeOptions, Wish};
use keepfs_media::{Device, PageNo};
use keepfs_store::Guard;
use keepfs_testkit::image::Image;
use keepfs_testkit::model::Model;
use keepfs_testkit::ops::{Mode, Op, Outcome, Session, Who, parse_all};
use keepfs_testkit::sim::SimDevice;
use keepfs_testkit::tree::{Snapshot, diff, snapshot};
use keepfs_vfs::{Errno, Time, Vfs};
use std::sync::Arc;

const PAGE: usize = 4096;
/// Pages of the pool.
const PAGES: u64 = 8192;
/// Names in the directory that has many leaves.
const CROWD: usize = 200;
/// Turns of a scrub before it is given up.
const TURNS: u32 = 10_000;

/// One step of the script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// What a user does.
    Op(Op),
    /// A checkpoint.
    Checkpoint,
    /// A scrub of memory and of the pool.
    Scrub,
    /// All frames that are not changed are given up.
    Forget,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Step::Op(op) => op.fmt(f),
            Step::Checkpoint => f.write_str("checkpoint"),
            Step::Scrub => f.write_str("scrub"),
            Step::Forget => f.write_str("forgetful"),
        }
    }
}

/// The steps of a text. Errors: a line that is none.
pub fn steps(text: &str) -> Result<Vec<Step>, String> {
    let step = |line: &str| match line {
        "checkpoint" => Ok(Step::Checkpoint),
        "scrub" => Ok(Step::Scrub),
        "forgetful" => Ok(Step::Forget),
        _ => line.parse().map(Step::Op).map_err(|e| format!("{line}: {e}")),
    };
    text.lines().map(step).collect()
}

impl Step {
    /// Does it, or whatever of it a user of any file system would see.
    pub fn run(&self, volume: &Volume, session: &mut Session<'_>) -> Outcome {
        let done = |worked| match worked {
            true => Outcome::Done,
            false => Outcome::Err(Errno::EIO),
        };
        match self {
            Step::Op(op) => session.run(op),
            Step::Checkpoint => done(volume.store().checkpoint().is_ok()),
            Step::Scrub => done(scrub(volume)),
            Step::Forget => {
                volume.store().drop_clean_frames();
                Outcome::Done
            }
        }
    }

    fn expect(&self, session: &mut Session<'_>) -> Outcome {
        match self {
            Step::Op(op) => session.run(op),
            _ => Outcome::Done,
        }
    }

    /// Whether it is more than one transaction, so that a part of one that failed may be done.
    fn is_in_parts(&self) -> bool {
        use keepfs_testkit::ops::Verb;
        let parts = [
            Verb::Write,
            Verb::Append,
            Verb::Truncate,
            Verb::Fallocate,
            Verb::CopyRange,
            Verb::Unlink,
            Verb::Rename,
            Verb::Release,
        ];
        matches!(self, Step::Op(op) if parts.contains(&op.verb()))
    }
}

fn scrub(volume: &Volume) -> bool {
    let whole = Wish {
        arena: true,
        rest: true,
        ..Wish::default()
    };
    if volume.scrub_start(whole).is_err() {
        return false;
    }
    for _ in 0..TURNS {
        if volume.scrub_record().state == ScrubState::Finished {
            return true;
        }
        volume.scrub_turn();
    }
    false
}

/// Times are not compared.
fn standing() -> Arc<dyn Fn() -> Time + Send + Sync> {
    Arc::new(|| Time {
        sec: 1_000_000_000,
        nsec: 7,
    })
}

/// A pool before the script, and what an oracle says of each step and of the end.
pub struct Subject {
    /// Its code.
    pub code: Protection,
    /// What guards its frames.
    pub guard: Guard,
    /// What is done.
    pub script: Vec<Step>,
    image: Image,
    before: Model,
    outcomes: Vec<Outcome>,
    tree: Snapshot,
}

struct Seen<'d>(&'d dyn Device);

impl keepfs_check::Image for Seen<'_> {
    fn pages(&self) -> u64 {
        self.0.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8; PAGE]) -> Result<(), String> {
        self.0.read(PageNo(page), buf).map_err(|e| e.to_string())
    }
}

/// Walks an image. Errors: what it finds.
pub fn sound(device: &SimDevice) -> Result<(), String> {
    let options = Options { data: true, limit: 100 };
    let report = walk(&Seen(device), &options);
    match report.findings.first() {
        None => Ok(()),
        Some(first) => Err(format!("the walk: {first:?} and {} more", report.findings.len() - 1)),
    }
}

/// All that a user sees. Errors: as text.
pub fn tree_of(vfs: &dyn Vfs) -> Result<Snapshot, String> {
    snapshot(vfs).map_err(|e| format!("the tree cannot be walked: {e}"))
}

fn crowd() -> impl Iterator<Item = Op> {
    let (mode, who) = (
        Mode(0o755),
        Who {
            umask: 0o22,
            uid: 0,
            gid: 0,
        },
    );
    let dir = Op::Mkdir {
        path: "crowd".into(),
        mode,
        who,
    };
    let file = move |n| Op::Create {
        path: format!("crowd/a-name-of-some-length-{n:04}"),
        mode,
        who,
    };
    core::iter::once(dir).chain((0..CROWD).map(file))
}

impl Subject {
    /// A new one. Errors: as text.
    pub fn new(code: Protection, guard: Guard) -> Result<Subject, String> {
        let device = Arc::new(SimDevice::new(PAGES));
        let format = FormatOptions {
            protect: code,
            id: Some(PoolId([7; 16])),
            name_seed: Some([7, 9]),
            ..FormatOptions::default()
        };
        Volume::format(device.clone(), &format).map_err(|e| e.to_string())?;
        let volume = open(device.clone(), guard)?;
        let model = Model::with_clock(standing());
        let mut ops = parse_all(include_str!("targeted/before.txt")).map_err(|e| e.to_string())?;
        ops.extend(crowd());
        same(&ops, &volume, &model)?;
        volume.unmount().map_err(|e| format!("unmount: {e}"))?;
        drop(volume);
        let script = steps(include_str!("targeted/script.txt"))?;
        let after = model.fork();
        let outcomes = {
            let mut session = Session::new(&after);
            script.iter().map(|step| step.expect(&mut session)).collect()
        };
        Ok(Subject {
            code,
            guard,
            script,
            image: device.image(),
            before: model,
            outcomes,
            tree: tree_of(&after)?,
        })
    }

    /// A mount of it.
    pub fn mount(&self) -> Result<(Arc<SimDevice>, Arc<Volume>), String> {
        let device = Arc::new(SimDevice::over(self.image.clone()));
        let volume = open(device.clone(), self.guard)?;
        Ok((device, volume))
    }
}

fn same(ops: &[Op], volume: &Volume, model: &Model) -> Result<(), String> {
    let (mut ours, mut theirs) = (Session::new(volume), Session::new(model));
    for op in ops {
        let (is, should) = (ours.run(op), theirs.run(op));
        if is != should || is.is_err() {
            return Err(format!("before the script, {op}: {is:?}, the model says {should:?}"));
        }
    }
    Ok(())
}

/// Mounts a pool, without threads of its own.
pub fn open(device: Arc<SimDevice>, guard: Guard) -> Result<Arc<Volume>, String> {
    let options = VolumeOptions {
        background: false,
        clock: standing(),
        store: StoreOptions {
            background: false,
            tiny_arena: true,
            arena_bytes: 4 << 20,
            guard,
            ..StoreOptions::default()
        },
        ..VolumeOptions::default()
    };
    Volume::open(device, &options).map_err(|e| format!("open: {e}"))
}

/// What the oracle says while a pool may refuse things: what failed was not done.
pub struct Judge<'s> {
    subject: &'s Subject,
    /// May there be EIO: damage beyond the code's distance.
    lenient: bool,
    /// Steps that were not done.
    pub failed: Vec<usize>,
    /// A part of something may be done: nothing is known of the tree any more.
    lost: bool,
}

impl<'s> Judge<'s> {
    /// Of a run. `lenient`: there may be damage beyond the code's distance.
    pub fn new(subject: &'s Subject, lenient: bool) -> Judge<'s> {
        Judge {
            subject,
            lenient,
            failed: Vec::new(),
            lost: false,
        }
    }

    /// What a step gave, and whether any damage was told by then. Errors: it should not have.
    pub fn judge(&mut self, number: usize, is: &Outcome, told: bool) -> Result<(), String> {
        let step = &self.subject.script[number];
        let refused = matches!(is, Outcome::Err(Errno::EIO | Errno::EROFS));
        if refused && *is != self.subject.outcomes[number] {
            if !self.lenient || !told {
                let told = if told { "told" } else { "not told" };
                return Err(format!("step {number}, {step}: {is:?}, {told}"));
            }
            self.lost |= step.is_in_parts();
            self.failed.push(number);
            return Ok(());
        }
        let should = match self.failed.is_empty() {
            true => self.subject.outcomes[number].clone(),
            false => self.without(number),
        };
        match *is == should || self.lost {
            true => Ok(()),
            false => Err(format!("step {number}, {step}: {is:?}, the model says {should:?}")),
        }
    }

    /// What a step must give where others were not done.
    fn without(&self, number: usize) -> Outcome {
        let model = self.subject.before.fork();
        let mut session = Session::new(&model);
        for (at, step) in self.subject.script[..number].iter().enumerate() {
            if !self.failed.contains(&at) {
                step.expect(&mut session);
            }
        }
        self.subject.script[number].expect(&mut session)
    }

    /// The tree as the next mount finds it.
    pub fn tree(&self, found: &Snapshot) -> Result<(), String> {
        if *found == self.subject.tree || !self.failed.is_empty() {
            return Ok(());
        }
        Err(format!("the trees differ\n{}", diff(&self.subject.tree, found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_reads_and_every_step_of_it_works() {
        let subject = Subject::new(Protection::Pcrc, Guard::Alias).expect("a pool");
        for (step, outcome) in subject.script.iter().zip(&subject.outcomes) {
            assert!(
                !outcome.is_err() && *outcome != Outcome::WrongKind,
                "{step}: {outcome:?}"
            );
            assert_eq!(steps(&step.to_string()).as_deref(), Ok(&[step.clone()][..]));
        }
    }

    /// S-15.19: without damage a pool gives what the oracle says, to the end.
    #[test]
    fn a_pool_that_nobody_strikes_is_right() {
        let subject = Subject::new(Protection::Crc, Guard::Alias).expect("a pool");
        let (device, volume) = subject.mount().expect("mount");
        let mut judge = Judge::new(&subject, false);
        {
            let mut session = Session::new(&*volume);
            for (number, step) in subject.script.iter().enumerate() {
                let is = step.run(&volume, &mut session);
                judge.judge(number, &is, false).expect("right");
            }
        }
        volume.unmount().expect("unmount");
        drop(volume);
        sound(&device).expect("sound");
        judge
            .tree(&tree_of(&*open(device, Guard::Alias).expect("open")).expect("tree"))
            .expect("equal");
    }

    #[test]
    fn what_the_oracle_does_not_say_is_noticed() {
        let subject = Subject::new(Protection::Crc, Guard::Alias).expect("a pool");
        let eio = Outcome::Err(Errno::EIO);
        let mut strict = Judge::new(&subject, false);
        assert!(strict.judge(0, &eio, true).is_err(), "within the code's distance");
        assert!(strict.judge(0, &Outcome::Done, true).is_err(), "another answer");
        let mut lenient = Judge::new(&subject, true);
        assert!(lenient.judge(0, &eio, false).is_err(), "not told");
        lenient.judge(7, &eio, true).expect("told");
        assert!(
            lenient.judge(9, &subject.outcomes[9], true).is_err(),
            "of a file that was not made"
        );
        lenient
            .judge(9, &Outcome::Err(Errno::ENOENT), true)
            .expect("there is no such file");
    }
}
