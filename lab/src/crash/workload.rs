//! The workloads: short sequences after ACE, long random ones, and directed ones.

use super::seed::Seed;
use super::setting::Setting;
use super::step::Step;
use keepfs_vfs::ops::{Generator, Op, Profile, Rng, Verb, ace};

/// Makes workloads by number.
pub struct Workloads {
    seed: u64,
    ace: Vec<ace::Step>,
}

/// Operations of a long random workload.
const LONG: usize = 60;

impl Workloads {
    /// Of this seed.
    pub fn new(seed: u64) -> Workloads {
        Workloads {
            seed,
            ace: ace::steps(),
        }
    }

    /// Number `number`. The kinds take turns.
    pub fn nth(&self, number: u64) -> Seed {
        let mut rng = Rng::new(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let turn = number / 4;
        let (name, setting, steps) = match number % 4 {
            0 => self.ace_one(turn),
            1 => self.ace_two(&mut rng),
            2 => random(turn, &mut rng),
            _ => directed(turn, &mut rng),
        };
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
        1 => Setting {
            guard: false,
            copies: 1,
            ..usual
        },
        2 => Setting {
            pages: 512,
            log_pages: 32,
            zone_pages: 16,
            ..usual
        },
        3 => Setting { staged: 1, ..usual },
        4 => Setting { copies: 1, ..usual },
        5 => Setting {
            guard: false,
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
    }
}

/// A checkpoint with the next operations beside it.
fn during(rng: &mut Rng) -> Step {
    Step::During {
        after: rng.below(8) as u32,
        steps: 1 + rng.below(5) as u32,
    }
}

/// Sequences made for one danger each.
fn directed(turn: u64, rng: &mut Rng) -> (String, Setting, Vec<Step>) {
    let (name, setting, text) = match turn % 7 {
        0 => overtaken(rng),
        1 => reuse(rng),
        2 => wrap(rng),
        3 => beside(rng),
        // Dear: every other time.
        4 if (turn / 7).is_multiple_of(2) => crowd(rng),
        4 => wrap(rng),
        5 => checkpoints(rng),
        _ => full(rng),
    };
    (format!("directed/{name}"), setting, text)
}

fn parse(text: &str) -> Vec<Step> {
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty());
    // The texts are constants of this file; a test reads them all. A wrong one gives no steps at all.
    lines
        .map(str::parse)
        .collect::<Result<Vec<Step>, String>>()
        .unwrap_or_default()
}

/// A checkpoint, an eviction and a zone switch behind random operations, with little else between.
fn checkpoints(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let mut steps = Vec::new();
    for op in Generator::new(rng.next_u64(), Profile::everything()).take(30) {
        steps.push(Step::Op(op));
        match rng.below(8) {
            0 => steps.push(Step::Checkpoint),
            1 => steps.push(Step::SwitchZone),
            2 => steps.extend([Step::Checkpoint, Step::Evict]),
            3 => steps.push(Step::Op(Op::SyncFs {})),
            4 if rng.chance(30) => steps.push(cut(rng)),
            _ => {}
        }
    }
    ("checkpoints", variant(rng.below(8)), steps)
}

/// Names, inode numbers and pages that come again at once.
fn reuse(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let mut steps = parse("mkdir path=d mode=755 who=22:0:0\nsyncfs");
    let sizes = [40, 100, 4096, 9000, 30_000];
    for round in 0..12u64 {
        let len = rng.pick(&sizes);
        let text = format!(
            "create path=d/f mode=644 who=22:0:0\nwrite path=d/f offset=0 len={len} seed={round} kill=no\n{}\n{}\nunlink path=d/f\n{}",
            rng.pick(&["fsync path=d/f data_only=no", "syncfs", ""]),
            rng.pick(&[
                "",
                "truncate path=d/f size=0 kill=no",
                "rename from=d/f to=d/g flags=none",
                "fallocate path=d/f mode=punch_hole offset=0 len=8192",
                "link from=d/f to=d/h",
                "copy_range from=d/f from_offset=0 to=d/f to_offset=8192 len=8192",
            ]),
            rng.pick(&["", "syncfs", "!checkpoint", "unlink path=d/g", "unlink path=d/h"]),
        );
        steps.extend(parse(&text));
        if rng.chance(15) {
            steps.push(cut(rng));
        }
    }
    ("reuse", variant(rng.below(8)), steps)
}

/// Many small groups in a small log, so that it wraps and checkpoints start by themselves.
fn wrap(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 512,
        log_pages: 32,
        zone_pages: 16,
        staged: rng.pick(&[1, 4, 8]),
        copies: rng.pick(&[1, 2]),
        ..Setting::default()
    };
    let mut steps = parse("create path=f mode=644 who=22:0:0\nsyncfs");
    for round in 0..50u64 {
        let len = rng.pick(&[10, 300, 3000, 5000]);
        let offset = rng.below(30_000);
        let text = format!(
            "write path=f offset={offset} len={len} seed={round} kill=no\n{}",
            rng.pick(&["fsync path=f data_only=no", "fsync path=f data_only=yes", "syncfs", ""])
        );
        steps.extend(parse(&text));
        match rng.below(20) {
            0 => steps.push(cut(rng)),
            1 => steps.push(during(rng)),
            _ => {}
        }
    }
    ("wrap", setting, steps)
}

/// Files that fill the pool.
const FILES: u64 = 32;

/// A pool with few free pages (PROTOCOLS section 10, 3): overwrite, delete, fsync.
fn full(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 512,
        log_pages: 32,
        zone_pages: rng.pick(&[16, 64, 128]),
        staged: rng.pick(&[1, 8]),
        copies: rng.pick(&[1, 2]),
        ..Setting::default()
    };
    let mut steps = Vec::new();
    for file in 0..FILES {
        steps.extend(parse(&format!(
            "create path=big{file} mode=644 who=22:0:0\nwrite path=big{file} offset=0 len=65536 seed={file} kill=no"
        )));
    }
    steps.extend(parse("syncfs"));
    for round in 100..140u64 {
        let file = rng.below(FILES);
        let page = rng.below(16) * 4096;
        let what = match rng.below(6) {
            0 => format!("unlink path=big{file}"),
            1 => format!("truncate path=big{file} size={page} kill=no"),
            2 => format!(
                "create path=big{file} mode=644 who=22:0:0\nappend path=big{file} len=60000 seed={round} kill=no"
            ),
            _ => format!("write path=big{file} offset={page} len=8192 seed={round} kill=no"),
        };
        let sync = rng.pick(&["syncfs", "", "fsync path=/ data_only=no"]);
        steps.extend(parse(&format!("{what}\n{sync}")));
        if rng.chance(6) {
            steps.push(cut(rng));
        }
    }
    ("full", setting, steps)
}

/// Checkpoints with operations and syncs beside them, at every place of the checkpoint.
fn beside(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let mut steps = Vec::new();
    let profile = Profile::everything().with(Verb::Fsync, 25).with(Verb::SyncFs, 10);
    for (at, op) in Generator::new(rng.next_u64(), profile).take(40).enumerate() {
        steps.push(Step::Op(op));
        if at % 8 == 7 {
            steps.push(during(rng));
        }
    }
    ("beside a checkpoint", variant(rng.below(8)), steps)
}

/// More metablocks than the smallest arena holds: frames are evicted and fetched all the time.
fn crowd(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 4096,
        log_pages: 64,
        zone_pages: 512,
        frames: 0,
        crowd: 220,
        ..Setting::default()
    };
    let mut steps = Vec::new();
    for round in 0..12u64 {
        let file = rng.below(220);
        let path = format!("crowd{}/{file}", file / 40);
        let text = match rng.below(4) {
            0 => format!("write path={path} offset=2000000 len=5000 seed={round} kill=no"),
            1 => format!("truncate path={path} size=100 kill=no"),
            2 => format!("unlink path={path}"),
            _ => format!("write path={path} offset=40000 len=5000 seed={round} kill=no"),
        };
        steps.extend(parse(&text));
        match rng.below(4) {
            0 => steps.push(Step::Op(Op::SyncFs {})),
            1 => steps.push(Step::Checkpoint),
            2 => steps.push(during(rng)),
            _ => {}
        }
    }
    ("crowd", setting, steps)
}

/// A log that is nearly full, and a checkpoint that stops while so much is logged beside it that the log would wrap.
fn overtaken(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        log_pages: 32,
        copies: 1,
        ..Setting::default()
    };
    let mut steps = parse("create path=f mode=644 who=22:0:0\nsyncfs\n!checkpoint");
    let logged = |seed: u64| format!("write path=f offset=0 len=50 seed={seed} kill=no\nfsync path=f data_only=no");
    for seed in 0..12 + rng.below(6) {
        steps.extend(parse(&logged(seed)));
    }
    steps.push(Step::During {
        after: rng.below(5) as u32,
        steps: 60,
    });
    for seed in 100..130 {
        steps.extend(parse(&logged(seed)));
    }
    ("overtaken", setting, steps)
}
