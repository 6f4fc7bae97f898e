//! The shortest sequences that break what SPEC 8 to 11 asks if one rule of it is missing (docs/MODEL.md), each with much left to
//! chance around it.

use super::super::{cut, cut_inside};
use super::parse;
use crate::crash::setting::Setting;
use crate::crash::step::Step;
use keepfs_testkit::ops::Rng;

/// One of them by turn.
pub fn workload(turn: u64, rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    match turn % 5 {
        0 => one_group(rng),
        1 => half_a_history(rng),
        2 => full_log(rng),
        3 => spliced(rng),
        _ => repeated(rng),
    }
}

/// Rule 1 (S-8.11): data that no sync has made durable, a checkpoint that stands still, and beside it the same file changed, synced,
/// and written again on what that freed.
pub fn one_group(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 512,
        log_pages: 32,
        zone_pages: rng.pick(&[16, 32, 64]),
        staged: 1,
        copies: rng.pick(&[1, 2]),
        free: rng.pick(&[24, 32]),
        ..Setting::default()
    };
    let mut steps = Vec::new();
    for round in 0..3u64 {
        let write = |file: u64, seed: u64| format!("write path=big{file} offset=0 len=16384 seed={seed} kill=no");
        steps.extend(parse(&write(0, 10 * round)));
        let mut beside = parse(&match rng.below(3) {
            0 => write(0, 10 * round + 1),
            1 => "truncate path=big0 size=0 kill=no".to_owned(),
            _ => "fallocate path=big0 mode=punch_hole offset=0 len=16384".to_owned(),
        });
        beside.extend(parse("syncfs"));
        for file in 1..2 + rng.below(6) {
            beside.extend(parse(&write(file, 10 * round + 2)));
        }
        steps.push(Step::During {
            after: rng.below(4) as u32,
            steps: beside.len() as u32,
        });
        steps.extend(beside);
        if rng.chance(30) {
            steps.push(cut(rng));
        }
    }
    ("one group", setting, steps)
}

/// Rule 5 (S-10.7): staged data, then more transactions than the log has room for, then staged data again; the checkpoint is cut at
/// each of its writes, or its server is killed there and another one resumes.
pub fn half_a_history(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        // So many that no checkpoint comes before for what is changed (S-10.5).
        pages: 16384,
        log_pages: 20,
        zone_pages: 64,
        frames: 0,
        copies: 1,
        staged: 4,
        ..Setting::default()
    };
    let mut steps = parse(&staged(2, 1));
    steps.extend(parse("syncfs"));
    // A name takes as much of a group as of a directory.
    for file in 0..340 + rng.below(60) {
        steps.extend(parse(&format!(
            "create path=a-long-name-that-takes-many-bytes-in-the-directory-and-in-the-log-{file:04} mode=644 who=22:0:0"
        )));
    }
    steps.extend(parse(&staged(2, 7)));
    if rng.chance(50) {
        steps.push(Step::Die {
            after: rng.below(6) as u32,
            part: rng.below(6) as u32,
            again: 0,
        });
    }
    steps.extend(parse(rng.pick(&["syncfs", "!checkpoint"])));
    ("half a history", setting, steps)
}

/// Rule 6 (S-10.8): a log as full as it gets, with as much staged as it carries; the server dies in the checkpoint, behind its old
/// group and the carried one, and the recovery of the next one is cut.
pub fn full_log(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 1024,
        log_pages: 32,
        copies: 1,
        staged: 8,
        ..Setting::default()
    };
    let mut steps = parse(&staged(7, 1));
    steps.extend(parse("syncfs\n!checkpoint"));
    for round in 0..6 + rng.below(12) {
        steps.extend(parse(&format!("set_mode path=t0 mode=6{:02o}\nsyncfs", round % 8)));
    }
    steps.extend(parse("set_mode path=t1 mode=600"));
    steps.push(Step::Die {
        after: rng.below(4) as u32,
        part: rng.below(3) as u32,
        again: 0,
    });
    steps.extend(parse("!checkpoint\nset_mode path=t2 mode=600\nsyncfs"));
    ("full log", setting, steps)
}

/// Rule 11 (S-8.3, S-9.5): a life is done again, with the same bytes at the same places but for the last write; power goes while its
/// group is written, of which a cut leaves any pages. What one life lost is not found behind what the next one has.
pub fn spliced(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 512,
        log_pages: 32,
        zone_pages: 64,
        copies: rng.pick(&[1, 2]),
        staged: 16,
        ..Setting::default()
    };
    // Nothing is staged behind the checkpoint: the log is empty, and only the groups of these lives may be found in it.
    let mut steps = parse(&format!("{}\n!checkpoint", created(5)));
    // So long that three fill the group's first page, and so short that they are staged.
    let len = 1360 + rng.below(680);
    let life = |last: u64| {
        let of = |file, seed| format!("write path=t{file} offset=0 len={len} seed={seed} kill=no");
        let same: Vec<String> = (0..4).map(|file| of(file, file + 1)).collect();
        [same.join("\n"), of(4, last), "syncfs".to_owned()].join("\n")
    };
    for last in 0..1 + rng.below(2) {
        steps.extend(parse(&life(10 + last)));
        steps.push(cut_inside(rng));
    }
    steps.extend(parse(&life(20)));
    ("spliced", setting, steps)
}

/// The same of a file that is emptied and written anew, beside a checkpoint, with cuts inside the last flush and behind it.
fn repeated(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 512,
        log_pages: 32,
        zone_pages: 64,
        staged: rng.pick(&[1, 8]),
        ..Setting::default()
    };
    let mut steps = parse("create path=f mode=644 who=22:0:0\nwrite path=f offset=0 len=8192 seed=1 kill=no\nsyncfs");
    let after = rng.below(4);
    let again = format!(
        "truncate path=f size=0 kill=no\n!during {after} 2\nwrite path=f offset=0 len=8192 seed=2 kill=no\nsyncfs"
    );
    for _ in 0..3 {
        steps.extend(parse(&again));
        let is_inside = rng.chance(50);
        steps.push(if is_inside { cut_inside(rng) } else { cut(rng) });
    }
    steps.extend(parse(&again));
    ("repeated", setting, steps)
}

/// So many files without content.
fn created(files: u64) -> String {
    let of = |file: u64| format!("create path=t{file} mode=644 who=22:0:0");
    (0..files).map(of).collect::<Vec<_>>().join("\n")
}

/// So many files with a staged page each.
fn staged(files: u64, seed: u64) -> String {
    let of = |file: u64| {
        let create = if seed == 1 {
            format!("create path=t{file} mode=644 who=22:0:0\n")
        } else {
            String::new()
        };
        format!(
            "{create}write path=t{file} offset=3000 len=900 seed={} kill=no",
            seed + file
        )
    };
    (0..files).map(of).collect::<Vec<_>>().join("\n")
}
