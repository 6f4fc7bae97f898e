//! A workload run once on a recording device: what was written when, what the tree was after each step, and what was
//! acknowledged as durable.

use super::setting::{LabClock, Setting};
use super::step::Step;
use keepfs_fs::Volume;
use keepfs_media::image::Image;
use keepfs_media::sim::{Recording, SimDevice};
use keepfs_vfs::Vfs;
use keepfs_vfs::ops::{Outcome, Session};
use keepfs_vfs::tree::{self, Times};
use std::sync::Arc;

/// What happened. Step numbers count from 1; 0 is the opening of the pool.
pub struct History {
    /// The device's log; each entry is tagged with the step that wrote it.
    pub recording: Recording,
    /// Hash of the tree after opening and after each step.
    pub hashes: Vec<u64>,
    /// (entries of the log when it was acknowledged, last step that is then durable), ascending.
    pub acks: Vec<(usize, usize)>,
    /// Whether each step was done (not refused).
    pub worked: Vec<bool>,
    /// Entries of the log at the begin of each step.
    pub begins: Vec<usize>,
    /// Operations that failed for want of space.
    pub no_space: usize,
    /// Frames evicted, checkpoints and groups written.
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

/// Runs `steps` on the pool that `base` holds.
pub fn run(setting: &Setting, base: &Image, steps: &[Step]) -> Result<History, Broken> {
    let device = Arc::new(SimDevice::over(base.clone()));
    let clock = LabClock::default();
    let broken = |step: usize, what: String| Broken { step, what };
    let open = |step| {
        setting
            .open(device.clone(), &clock)
            .map_err(|e| broken(step, format!("the pool cannot be opened: {e}")))
    };
    let mut volume = open(0)?;
    let mut history = History {
        recording: Recording {
            base: base.clone(),
            log: Vec::new(),
        },
        hashes: vec![hash(&volume).map_err(|e| broken(0, e))?],
        acks: vec![(0, 0)],
        begins: vec![0],
        worked: vec![true],
        no_space: 0,
        evictions: 0,
        checkpoints: 0,
    };
    let mut rest = steps;
    while !rest.is_empty() {
        let ended = run_mount(&device, &volume, &clock, rest, steps.len() - rest.len(), &mut history)?;
        count(&volume, &mut history);
        rest = &rest[ended..];
        if !rest.is_empty() {
            volume = open(history.hashes.len())?;
            rest = &rest[1..];
            let now = hash(&volume).map_err(|e| broken(history.hashes.len(), e))?;
            if history.hashes.last() != Some(&now) {
                return Err(broken(history.hashes.len(), "another tree after a remount".into()));
            }
            history.hashes.push(now);
        }
    }
    history.recording.log = device.recording().log;
    Ok(history)
}

fn count(volume: &Volume, history: &mut History) {
    history.evictions += volume.store().arena_figures().2;
    history.checkpoints += volume.store().stats().checkpoints;
}

/// Runs steps until a remount, which is unmounted here; returns how many were run before it.
fn run_mount(
    device: &SimDevice,
    volume: &Arc<Volume>,
    clock: &LabClock,
    steps: &[Step],
    first: usize,
    history: &mut History,
) -> Result<usize, Broken> {
    let mut session = Session::new(&**volume);
    for (at, step) in steps.iter().enumerate() {
        let number = first + at + 1;
        device.set_tag(number as u64);
        clock.set(number as u64);
        history.begins.push(device.log_len());
        if *step == Step::Remount {
            drop(session);
            volume.unmount().map_err(|e| Broken {
                step: number,
                what: format!("unmount: {e}"),
            })?;
            history.acks.push((device.log_len(), number));
            history.worked.push(true);
            return Ok(at);
        }
        let done = perform(volume, &mut session, step, history).map_err(|what| Broken { step: number, what })?;
        history.worked.push(done != Done::Refused);
        if done == Done::Durable {
            history.acks.push((device.log_len(), number));
        }
        let now = hash(volume).map_err(|what| Broken { step: number, what })?;
        history.hashes.push(now);
        if let Some(fault) = volume.store().fault() {
            return Err(Broken {
                step: number,
                what: format!("the store gave up: {fault}"),
            });
        }
    }
    Ok(steps.len())
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
}

fn perform(
    volume: &Arc<Volume>,
    session: &mut Session<'_>,
    step: &Step,
    history: &mut History,
) -> Result<Done, String> {
    let store = volume.store();
    match step {
        Step::Op(op) => {
            let outcome = session.run(op);
            match &outcome {
                Outcome::Err(keepfs_vfs::Errno::EIO) => return Err(format!("{op}: EIO")),
                Outcome::Err(keepfs_vfs::Errno::ENOSPC) => history.no_space += 1,
                Outcome::Contradiction(what) => return Err(format!("{op}: {what}")),
                _ => {}
            }
            Ok(match outcome {
                Outcome::Err(_) | Outcome::WrongKind => Done::Refused,
                Outcome::Done if op.is_sync() => Done::Durable,
                _ => Done::Yes,
            })
        }
        Step::Checkpoint => Ok(store.checkpoint().map(|()| Done::Durable).or_else(full)?),
        Step::SwitchZone => {
            store.want_other_zones();
            Ok(store.checkpoint().map(|()| Done::Durable).or_else(full)?)
        }
        Step::Evict => {
            store.drop_clean_frames();
            Ok(Done::Yes)
        }
        Step::Remount => Ok(Done::Yes),
    }
}

/// A checkpoint that finds no space is told so and changes nothing.
fn full(error: keepfs_store::Error) -> Result<Done, String> {
    match error {
        keepfs_store::Error::NoSpace => Ok(Done::Refused),
        other => Err(format!("checkpoint: {other}")),
    }
}

/// The hash of everything a user can see, times included.
pub fn hash(volume: &Volume) -> Result<u64, String> {
    tree::hash_tree(volume, Times::Keep).map_err(|e| format!("the tree cannot be read: {e}"))
}

impl History {
    /// The steps whose trees may be found after a crash at `position`: from the last acknowledged one to the last one
    /// that had begun.
    pub fn allowed(&self, position: usize) -> core::ops::RangeInclusive<usize> {
        let acked = self.acks.partition_point(|(at, _)| *at <= position) - 1;
        let begun = self.begins.partition_point(|at| *at < position).max(1) - 1;
        let low = self.acks[acked].1;
        low..=begun.max(low).min(self.hashes.len() - 1)
    }

    /// The step that was under way at `position`.
    pub fn running(&self, position: usize) -> usize {
        match position {
            0 => 0,
            _ => self.recording.log[position - 1].tag as usize,
        }
    }
}
