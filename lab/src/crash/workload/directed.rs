//! Workloads made for one danger each.

mod faults;
mod large;
pub mod sequences;

use super::{cut, death, during, variant};
use crate::crash::setting::{LEVELS, Setting};
use crate::crash::step::Step;
use keepfs_testkit::ops::{Generator, Op, Profile, Rng, Verb};

/// How many take turns.
pub const KINDS: u64 = 17;

/// One of them by turn: name, pool and steps.
pub fn workload(turn: u64, rng: &mut Rng) -> (String, Setting, Vec<Step>) {
    let (name, setting, text) = match turn % KINDS {
        0 => overtaken(rng),
        1 => reuse(rng),
        2 => owed(rng),
        3 => given_back(rng),
        4 => beside(rng),
        // Dear: every other time.
        5 if (turn / KINDS).is_multiple_of(2) => crowd(rng),
        5 => wrap(rng),
        6 => checkpoints(rng),
        7 => scarce(rng),
        8 => large::long(rng),
        9 => large::holes(rng),
        10 => shrunk(rng),
        11 if (turn / KINDS).is_multiple_of(2) => wrap(rng),
        11 => levels(rng),
        12 => full(rng),
        13 => fenced(rng),
        14 => taken_over(rng),
        15 => sequences::workload(turn / KINDS, rng),
        _ if (turn / KINDS).is_multiple_of(2) => faults::bad_log(rng),
        _ => faults::failed_flush(rng),
    };
    (format!("directed/{name}"), setting, text)
}

/// A workload in which this planted bug shows, if there is a kind made for it.
#[cfg(feature = "planted")]
pub fn against(bug: keepfs_store::planted::Bug, rng: &mut Rng) -> Option<(&'static str, Setting, Vec<Step>)> {
    use keepfs_store::planted::Bug;
    match bug {
        Bug::LeadGivenEarly | Bug::RefusedBelieved => Some(sequences::one_group(rng)),
        Bug::CarriedBehindNothing => Some(sequences::half_a_history(rng)),
        Bug::OwedReusedTooEarly => Some(owed(rng)),
        Bug::LifeGoesOn => Some(sequences::spliced(rng)),
        Bug::RoomOnce => Some(sequences::full_log(rng)),
        Bug::GivenUpSteppedOver => Some(faults::bad_log(rng)),
        _ => None,
    }
}

pub(super) fn parse(text: &str) -> Vec<Step> {
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
            5 => steps.push(death(rng)),
            _ => {}
        }
    }
    ("checkpoints", variant(rng.below(8)), steps)
}

/// A file or directory that is fenced while some of its changes are in the log, in redo, or in a checkpoint only; then
/// checkpoints, and life after a remount.
fn fenced(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let mut steps = parse(
        "mkdir path=d mode=755 who=22:0:0\ncreate path=d/f mode=644 who=22:0:0\nwrite path=d/f offset=0 len=30000 seed=1 kill=no",
    );
    for round in 0..2 {
        steps.extend(parse(rng.pick(&["", "syncfs", "!checkpoint"])));
        let text = format!(
            "write path=d/f offset=9000 len=6000 seed={round} kill=no\n{}\n{}",
            rng.pick(&[
                "create path=d/g mode=644 who=22:0:0",
                "truncate path=d/f size=21000 kill=no",
                "rename from=d/f to=d/f flags=none",
                "set_mode path=d mode=700",
            ]),
            rng.pick(&["", "syncfs"]),
        );
        steps.extend(parse(&text));
        steps.extend(parse(rng.pick(&["!fence d", "!fence d/f"])));
        for _ in 0..2 {
            steps.extend(parse(rng.pick(&["!checkpoint", "syncfs", "!idle"])));
        }
        steps.extend(parse("!remount"));
    }
    let usual = variant(rng.below(8));
    let setting = Setting { fence: true, ..usual };
    ("fenced", setting, steps)
}

/// Servers that die in syncs, checkpoints and unmounts, on a pool where what one frees the next one needs.
fn taken_over(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 512,
        log_pages: 32,
        zone_pages: rng.pick(&[16, 64, 128]),
        staged: rng.pick(&[1, 4, 8]),
        copies: rng.pick(&[1, 2]),
        free: rng.pick(&[0, 64, 96]),
        each: rng.chance(25),
        ..Setting::default()
    };
    let mut steps = Vec::new();
    for round in 0..16 {
        // What is deleted without a sync, beside so much new metadata that a resume needs pages for it.
        if rng.chance(12) {
            steps.extend(parse("unlink path=big1\nunlink path=big2\nunlink path=big3"));
            for file in 0..10 + rng.below(30) {
                steps.extend(parse(&format!(
                    "create path=many{round}-{file} mode=644 who=22:0:0\nset_xattr path=many{round}-{file} name=user.x len=3000 seed={file} how=any"
                )));
            }
        }
        let (file, page) = (rng.below(20), rng.below(4) * 4096);
        let what = match rng.below(6) {
            0 => format!("unlink path=big{file}"),
            1 => format!("truncate path=big{file} size={page} kill=no"),
            2 => format!("create path=new{round} mode=644 who=22:0:0"),
            3 => format!("append path=new{} len=6000 seed={round} kill=no", rng.below(16)),
            4 => format!("rename from=big{file} to=big{} flags=none", rng.below(20)),
            _ => format!("write path=big{file} offset={page} len=9000 seed={round} kill=no"),
        };
        steps.extend(parse(&what));
        if rng.chance(40) {
            let calls = rng.pick(&[1, 8, 60]);
            steps.push(Step::Die {
                after: rng.below(calls) as u32,
                part: rng.below(6) as u32,
                again: if rng.chance(40) { 1 + rng.below(40) as u32 } else { 0 },
            });
        }
        let then = rng.pick(&["syncfs", "fsync path=/ data_only=no", "!checkpoint", "!remount", "", ""]);
        steps.extend(parse(then));
    }
    ("taken over", setting, steps)
}

/// A server dies with deletions and so much new metadata that only its redo has that the checkpoint of the resume outgrows its
/// chunks; the lowest free pages of the zone are those of the deleted files, which are there until it is durable (S-11.1,
/// S-16.5). In a small pool a checkpoint comes before that (S-10.5).
fn owed(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 8192,
        log_pages: 64,
        zone_pages: 1024,
        staged: rng.pick(&[1, 8]),
        copies: rng.pick(&[1, 2]),
        ..Setting::default()
    };
    let mut steps = Vec::new();
    for file in 0..OWED {
        steps.extend(parse(&format!(
            "create path=low{file} mode=644 who=22:0:0\nwrite path=low{file} offset=0 len=49152 seed={file} kill=no"
        )));
    }
    // Only the life after the last power cut is swept. Its chunks have room for as much as there is now.
    steps.extend(parse("syncfs\n!checkpoint\n!crash 0"));
    for file in 0..OWED {
        steps.extend(parse(&match rng.below(4) {
            0 => format!("truncate path=low{file} size=0 kill=no"),
            1 => format!("write path=low{file} offset=0 len=49152 seed=9 kill=no"),
            _ => format!("unlink path=low{file}"),
        }));
    }
    for new in 0..40 + rng.below(10) {
        steps.extend(parse(&format!(
            "create path=new{new} mode=644 who=22:0:0\nset_xattr path=new{new} name=user.x len=3000 seed={new} how=any"
        )));
    }
    steps.push(Step::Die {
        after: rng.below(2) as u32,
        part: rng.below(6) as u32,
        again: if rng.chance(40) { 1 + rng.below(60) as u32 } else { 0 },
    });
    steps.extend(parse(rng.pick(&[
        "syncfs",
        "!checkpoint",
        "set_mode path=new0 mode=600",
    ])));
    steps.extend(parse("append path=new1 len=9000 seed=1 kill=no\nsyncfs"));
    ("owed", setting, steps)
}

/// Files of [`owed`] that its server deletes.
const OWED: u64 = 3;

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

/// The level of protection changes between operations, some synced and some not, beside power cuts and remounts (S-2.9).
fn levels(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let mut steps = Vec::new();
    for op in Generator::new(rng.next_u64(), Profile::everything()).take(36) {
        steps.push(Step::Op(op));
        match rng.below(6) {
            0 | 1 => steps.push(Step::Protect(rng.pick(&LEVELS))),
            2 => steps.push(Step::Op(Op::SyncFs {})),
            3 if rng.chance(30) => steps.push(Step::Checkpoint),
            3 if rng.chance(30) => steps.push(Step::Remount),
            3 if rng.chance(20) => steps.push(cut(rng)),
            _ => {}
        }
    }
    ("levels", variant(rng.below(8)), steps)
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

/// A pool with few free pages (S-11.1): overwrite, delete, fsync.
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

/// Sixty-four pages are left for new data; overwrites, deletes and syncs, two power cuts in a row with a recovery
/// between (S-11.1).
fn scarce(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 512,
        log_pages: 32,
        zone_pages: rng.pick(&[16, 64, 128]),
        staged: rng.pick(&[1, 8]),
        copies: rng.pick(&[1, 2]),
        free: 64,
        ..Setting::default()
    };
    let mut steps = Vec::new();
    for life in 0..3u64 {
        for round in 0..14 {
            let (file, seed) = (rng.below(40), life * 100 + round);
            let page = rng.below(4) * 4096;
            let what = match rng.below(8) {
                0 | 1 => format!("unlink path=big{file}"),
                2 => format!("truncate path=big{file} size={page} kill=no"),
                3 => {
                    format!(
                        "create path=new{seed} mode=644 who=22:0:0\nwrite path=new{seed} offset=0 len=16384 seed={seed} kill=no"
                    )
                }
                _ => format!("write path=big{file} offset={page} len=8192 seed={seed} kill=no"),
            };
            let sync = rng.pick(&["syncfs", "", "fsync path=/ data_only=no", "syncfs\n!idle"]);
            steps.extend(parse(&format!("{what}\n{sync}")));
        }
        if life < 2 {
            steps.push(cut(rng));
        }
    }
    ("scarce", setting, steps)
}

/// Metadata grows and shrinks on a small pool: chunks go back to data, INODES metablocks die and are used again, and
/// data takes what metadata left (S-4.7, S-3.3).
fn shrunk(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 1024,
        log_pages: 32,
        zone_pages: rng.pick(&[64, 128]),
        staged: rng.pick(&[1, 8]),
        copies: rng.pick(&[1, 2]),
        ..Setting::default()
    };
    let mut steps = parse("mkdir path=d mode=755 who=22:0:0");
    let files = 40 + rng.below(40);
    for file in 0..files {
        steps.extend(parse(&format!(
            "create path=d/{file} mode=644 who=22:0:0\nset_xattr path=d/{file} name=user.x len=300 seed={file} how=any"
        )));
    }
    steps.extend(parse("!checkpoint"));
    for file in (0..files).filter(|file| file % 16 != 3) {
        steps.extend(parse(&format!("unlink path=d/{file}")));
    }
    for round in 0..12u64 {
        let text = match rng.below(6) {
            0 => format!(
                "create path=d/n{round} mode=644 who=22:0:0\nwrite path=d/n{round} offset=0 len=60 seed=1 kill=no"
            ),
            1 => format!("unlink path=d/{}", 3 + 16 * rng.below(5)),
            2 | 3 => format!(
                "create path=big{round} mode=644 who=22:0:0\nwrite path=big{round} offset=0 len=400000 seed={round} kill=no"
            ),
            4 => "!evict".to_owned(),
            _ => "syncfs".to_owned(),
        };
        steps.extend(parse(&text));
        match rng.below(5) {
            0 => steps.push(Step::Checkpoint),
            // What a checkpoint gives back must not be taken beside it.
            1 | 2 => {
                let after = rng.below(12);
                steps.extend(parse(&format!(
                    "!during {after} 3\ncreate path=b{round} mode=644 who=22:0:0\nwrite path=b{round} offset=0 len=300000 seed=2 kill=no\nsyncfs"
                )));
            }
            3 if rng.chance(30) => steps.push(cut(rng)),
            3 => steps.push(Step::Remount),
            _ => {}
        }
    }
    ("shrunk", setting, steps)
}

/// A checkpoint ends chunks of metadata, and beside it a file is written and synced that needs more pages than are free
/// without them, in zones so large that they lie in open ones (S-4.7).
fn given_back(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 2048,
        zone_pages: 512,
        copies: rng.pick(&[1, 2]),
        ..Setting::default()
    };
    let mut steps = parse("mkdir path=d mode=755 who=22:0:0");
    let files = 400;
    for file in 0..files {
        steps.extend(parse(&format!(
            "create path=d/{file} mode=644 who=22:0:0\nset_xattr path=d/{file} name=user.x len=300 seed={file} how=any"
        )));
    }
    steps.extend(parse("!checkpoint\ncreate path=full mode=644 who=22:0:0"));
    // What the kernel sends in one call; the last ones find the pool full.
    let write = |path: &str, mib: u64| {
        let offset = mib << 20;
        parse(&format!("write path={path} offset={offset} len=1048576 seed=1 kill=no"))
    };
    (0..8).for_each(|mib| steps.extend(write("full", mib)));
    for file in 0..files {
        steps.extend(parse(&format!("unlink path=d/{file}")));
    }
    // Only what comes after a power cut is swept. The checkpoint of the recovery frees the pages, that of the next step ends the
    // chunks; a sync comes at once, since later steps may wait for the checkpoint. It is of one file: a sync of all would make
    // checkpoints before the power cut (S-11.4).
    steps.extend(parse(
        "create path=b mode=644 who=22:0:0\nfsync path=b data_only=no\n!crash 0",
    ));
    for mib in 0..3 {
        let after = rng.below(9);
        steps.extend(parse(&format!("!during {after} 2")));
        steps.extend(write("b", mib));
        steps.extend(parse(
            "fsync path=b data_only=no\nunlink path=full\ncreate path=full mode=644 who=22:0:0",
        ));
    }
    ("given back", setting, steps)
}

/// Checkpoints with operations and syncs beside them, at every place of the checkpoint.
fn beside(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let mut steps = Vec::new();
    let profile = Profile::everything().with(Verb::Fsync, 25).with(Verb::SyncFs, 10);
    for (at, op) in Generator::new(rng.next_u64(), profile).take(40).enumerate() {
        steps.push(Step::Op(op));
        if at % 8 == 7 {
            if rng.chance(25) {
                steps.push(death(rng));
            }
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
