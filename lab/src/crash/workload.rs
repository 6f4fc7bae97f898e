//! The workloads: short sequences after ACE, long random ones, directed ones, and many broad ones.

mod broad;
pub mod directed;
mod scarcity;

use super::seed::Seed;
use super::setting::{LEVELS, Setting};
use super::step::Step;
use keepfs_store::{Guard, Protection};
use keepfs_testkit::ops::{Generator, Profile, Rng, Verb, ace};

/// Makes workloads by number.
pub struct Workloads {
    seed: u64,
    turns: u64,
    ace: Vec<ace::Step>,
    /// The level of protection; `None`: all take turns.
    protect: Option<Protection>,
}

/// How many workloads take turns: one of each class, the others broad. One that is swept deeply takes as long as ten broad ones, so
/// that those of each turn have a sixth of the time (R-3 asks for states, which the broad ones find).
const TURNS: u64 = 144;
/// The same where dangers are looked for rather than states.
const TURNS_DEEP: u64 = 8;
/// One turn in so many goes through guards, levels of protection and fullness.
const SELDOM: u64 = 32;
/// Operations of a long random workload.
const LONG: usize = 60;

impl Workloads {
    /// Of this seed.
    pub fn new(seed: u64) -> Workloads {
        Workloads {
            seed,
            turns: TURNS,
            ace: ace::steps(),
            protect: None,
        }
    }

    /// The same, most of which are swept deeply.
    pub fn deep(seed: u64) -> Workloads {
        Workloads {
            turns: TURNS_DEEP,
            ..Workloads::new(seed)
        }
    }

    /// The same at one level of protection.
    #[must_use]
    pub fn protected(self, level: Protection) -> Workloads {
        Workloads {
            protect: Some(level),
            ..self
        }
    }

    /// Number `number`. The kinds take turns, and the pools they work on.
    pub fn nth(&self, number: u64) -> Seed {
        let mut rng = Rng::new(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let turn = number / self.turns;
        let (name, mut setting, steps) = match number % self.turns {
            0 => self.ace_one(2 * turn),
            1 => self.ace_one(2 * turn + 1),
            2 => self.ace_two(&mut rng),
            3 => random(turn, &mut rng),
            4 => directed::workload(turn, &mut rng),
            5 => scarcity::workload(&mut rng),
            _ => ("broad/".into(), broad::setting(number), broad::steps(&mut rng)),
        };
        // Each kind comes at each level: the numbers of kinds and of levels have no divisor in common.
        let level = LEVELS[((number / 2 + turn) % LEVELS.len() as u64) as usize];
        // Every other guard and fullness comes seldom, as a state costs many times as much there; where dangers are looked for
        // it does not come.
        setting = match self.turns == TURNS && turn % SELDOM == SELDOM - 1 {
            true => setting.at_turn(turn / SELDOM + number % self.turns),
            false => Setting {
                guard: if number % 4 == 3 { Guard::Off } else { Guard::Alias },
                protect: level,
                ..setting
            },
        };
        setting.protect = self.protect.unwrap_or(setting.protect);
        Seed {
            number,
            name,
            setting,
            steps,
        }
    }

    fn ace_one(&self, turn: u64) -> (String, Setting, Vec<Step>) {
        let count = ace::count(&self.ace, 1);
        let index = turn % count;
        // Once around, then again with other settings.
        let setting = variant(turn / count);
        let ops = ace::setup().into_iter().chain(ace::sequence(&self.ace, 1, index));
        (format!("ace-1/{index}"), setting, ops.map(Step::Op).collect())
    }

    fn ace_two(&self, rng: &mut Rng) -> (String, Setting, Vec<Step>) {
        let index = rng.below(ace::count(&self.ace, 2));
        let ops = ace::setup().into_iter().chain(ace::sequence(&self.ace, 2, index));
        (
            format!("ace-2/{index}"),
            variant(rng.below(8)),
            ops.map(Step::Op).collect(),
        )
    }
}

/// The settings that take turns.
fn variant(number: u64) -> Setting {
    let usual = Setting::default();
    match number % 8 {
        0 => usual,
        1 => Setting { copies: 1, ..usual },
        2 => Setting {
            pages: 512,
            log_pages: 32,
            zone_pages: 16,
            ..usual
        },
        3 => Setting { staged: 1, ..usual },
        4 => Setting { copies: 1, ..usual },
        5 => Setting {
            log_pages: 32,
            staged: 4,
            ..usual
        },
        6 => Setting {
            zone_pages: 32,
            staged: 2,
            ..usual
        },
        _ => Setting {
            pages: 2048,
            log_pages: 128,
            zone_pages: 256,
            staged: 32,
            ..usual
        },
    }
}

/// Long random sequences; one kind of operation takes part more often than the others.
fn random(turn: u64, rng: &mut Rng) -> (String, Setting, Vec<Step>) {
    let verb = Verb::ALL[(turn % Verb::ALL.len() as u64) as usize];
    let profile = Profile::everything()
        .with(verb, 40)
        .with(Verb::Fsync, 14)
        .with(Verb::SyncFs, 6);
    let mut steps = Vec::new();
    for op in Generator::new(rng.next_u64(), profile).take(LONG) {
        steps.push(Step::Op(op));
        match rng.below(60) {
            0 => steps.push(Step::Checkpoint),
            1 => steps.push(Step::Evict),
            2 => steps.push(Step::SwitchZone),
            3 => steps.push(Step::Remount),
            4 | 5 => steps.push(during(rng)),
            6 | 7 => steps.push(death(rng)),
            _ => {}
        }
    }
    if rng.chance(40) {
        let at = rng.below(steps.len() as u64) as usize;
        steps.insert(at, cut(rng));
    }
    (format!("random/{}", verb.word()), variant(rng.below(8)), steps)
}

/// A power cut in the middle of a workload.
fn cut(rng: &mut Rng) -> Step {
    Step::Crash {
        draw: rng.below(1 << 20),
        inside: false,
    }
}

/// One before the last flush has returned.
fn cut_inside(rng: &mut Rng) -> Step {
    Step::Crash {
        draw: rng.below(1 << 20),
        inside: true,
    }
}

/// A checkpoint with the next operations beside it.
fn during(rng: &mut Rng) -> Step {
    Step::During {
        after: rng.below(8) as u32,
        steps: 1 + rng.below(5) as u32,
    }
}

/// The death of a server in the next step.
fn death(rng: &mut Rng) -> Step {
    Step::Die {
        after: rng.below(12) as u32,
        part: rng.below(4) as u32,
        again: if rng.chance(40) { 1 + rng.below(14) as u32 } else { 0 },
    }
}
