//! Broad workloads: short, many, each group of the log a tree that no other workload has. A model tells beforehand
//! which operations will be done, so that few steps are refused.

use super::death;
use crate::crash::kinds::{self, Kind};
use crate::crash::setting::Setting;
use crate::crash::step::{Step, StepKind};
use keepfs_testkit::model::Model;
use keepfs_testkit::ops::{Generator, Mode, Op, Outcome, Profile, Rng, Session, Who};
use keepfs_vfs::Time;
use std::sync::Arc;

/// Groups of the log that a workload makes, about.
const GROUPS: u64 = 30;
/// How often an operation of a kind is drawn until one will be done.
const TRIES: u32 = 160;
/// How many of those are tried on the model.
const TRIES_ON_MODEL: u32 = 24;
/// How many kinds are drawn until there is an operation.
const KINDS_TRIED: u32 = 4;

/// Draws operations that a model does.
struct Guide<'m> {
    rng: Rng,
    generator: Generator,
    session: Session<'m>,
}

impl Guide<'_> {
    /// An operation of a kind of this list that will be done; it is done on the model.
    fn draw(&mut self, kinds: &[Kind]) -> Option<Op> {
        (0..KINDS_TRIED).find_map(|_| self.draw_once(kinds))
    }

    fn draw_once(&mut self, kinds: &[Kind]) -> Option<Op> {
        let (verb, kind) = kinds::draw(&mut self.rng, kinds);
        let mut left = TRIES_ON_MODEL;
        for _ in 0..TRIES {
            let op = self.generator.op(verb);
            if StepKind::of(&op) != kind {
                continue;
            }
            let outcome = self.session.run(&op);
            if !matches!(
                outcome,
                Outcome::Err(_) | Outcome::WrongKind | Outcome::Contradiction(_)
            ) {
                return Some(op);
            }
            left -= 1;
            if left == 0 {
                break;
            }
        }
        None
    }
}

/// What names, sizes and offsets are drawn from: few and small, so that recovery is quick.
fn profile() -> Profile {
    let mut profile = Profile::everything();
    profile.offsets = vec![0, 100, 4095, 4096, 8192];
    profile.len_max = 5000;
    profile
}

/// The steps of a broad workload.
pub fn steps(rng: &mut Rng) -> Vec<Step> {
    let clock = Arc::new(|| Time {
        sec: 1_000_000_000,
        nsec: 7,
    });
    let model = Model::with_clock(clock);
    let mut guide = Guide {
        rng: Rng::new(rng.next_u64()),
        generator: Generator::new(rng.next_u64(), profile()),
        session: Session::new(&model),
    };
    let mut steps = Vec::new();
    for path in ["a", "b", "a/c"] {
        let op = Op::Mkdir {
            path: path.into(),
            mode: Mode(0o755),
            who: Who {
                umask: 0o022,
                uid: 0,
                gid: 0,
            },
        };
        guide.session.run(&op);
        steps.push(Step::Op(op));
    }
    for _ in 0..GROUPS {
        group(&mut guide, rng, &mut steps);
    }
    steps
}

/// Some operations and what makes them durable.
fn group(guide: &mut Guide<'_>, rng: &mut Rng, steps: &mut Vec<Step>) {
    let changes = if rng.chance(80) { 1 } else { 2 + rng.below(3) };
    for _ in 0..changes {
        steps.extend(guide.draw(kinds::CHANGES).map(Step::Op));
        if rng.chance(45) {
            steps.extend(guide.draw(kinds::LOOKS).map(Step::Op));
        }
    }
    match rng.below(100) {
        0..2 => steps.push(Step::Evict),
        2 => {
            steps.push(Step::During {
                after: rng.below(8) as u32,
                steps: 1 + rng.below(3) as u32,
            });
            steps.extend(guide.draw(kinds::CHANGES).map(Step::Op));
        }
        3 => steps.push(death(rng)),
        _ => {}
    }
    match rng.below(100) {
        0..2 => steps.push(Step::Checkpoint),
        2..4 => steps.push(Step::SwitchZone),
        4 => steps.push(Step::Remount),
        5..7 => steps.push(Step::Trim),
        _ => steps.push(Step::Op(sync(rng))),
    }
    if rng.chance(2) {
        steps.push(Step::Idle);
    }
}

fn sync(rng: &mut Rng) -> Op {
    match rng.below(3) {
        0 => Op::SyncFs {},
        which => Op::Fsync {
            path: "/".into(),
            data_only: which == 1,
        },
    }
}

/// The settings that take turns.
pub fn setting(turn: u64) -> Setting {
    let usual = Setting {
        pages: 768,
        log_pages: 48,
        zone_pages: 64,
        frames: 0,
        copies: 1,
        staged: 4,
        ..Setting::default()
    };
    match turn % 5 {
        0 => usual,
        1 => Setting { copies: 2, ..usual },
        2 => Setting { each: true, ..usual },
        3 => Setting {
            atime: true,
            staged: 1,
            ..usual
        },
        _ => Setting {
            pages: 1024,
            log_pages: 64,
            zone_pages: 128,
            staged: 8,
            ..usual
        },
    }
}
