//! The device fails, and the pool goes on.

use super::super::{cut, death, during};
use super::parse;
use crate::crash::setting::Setting;
use crate::crash::step::Step;
use keepfs_testkit::ops::Rng;

/// Pages of the log.
const LOG: u64 = 32;
/// Pages of one in which there is room behind what was given up: where there is none, writing ends (S-8.12).
const ROOMY: u64 = 96;

/// A page of a log cannot be written (S-8.12), while files are written and synced, beside checkpoints too, around the log
/// and more; servers die and power is cut.
pub fn bad_log(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 512,
        log_pages: ROOMY,
        zone_pages: rng.pick(&[16, 64]),
        staged: rng.pick(&[1, 4]),
        copies: rng.pick(&[1, 2]),
        bad: 1 + rng.below(LOG) as u32,
        ..Setting::default()
    };
    let mut steps = parse("create path=f mode=644 who=22:0:0\ncreate path=g mode=644 who=22:0:0\nsyncfs");
    for round in 0..40u64 {
        steps.extend(written(rng, round));
        match rng.below(24) {
            0 => steps.push(cut(rng)),
            1 | 2 => steps.push(death(rng)),
            3..6 => steps.push(during(rng)),
            6 => steps.extend(parse("!idle")),
            7 => steps.push(Step::Checkpoint),
            _ => {}
        }
        steps.extend(parse(rng.pick(&["fsync path=f data_only=no", "syncfs", "syncfs", ""])));
    }
    ("bad log", setting, steps)
}

/// Flushes fail in syncs and in checkpoints, with data that nobody was answered for; then the pool is opened again, used, or power
/// is cut (S-9.8).
pub fn failed_flush(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        pages: 512,
        log_pages: LOG,
        zone_pages: rng.pick(&[16, 64]),
        staged: rng.pick(&[1, 8]),
        copies: rng.pick(&[1, 2]),
        free: rng.pick(&[0, 48]),
        ..Setting::default()
    };
    let mut steps = parse("create path=f mode=644 who=22:0:0\ncreate path=g mode=644 who=22:0:0\nsyncfs");
    for round in 0..12u64 {
        for part in 0..1 + rng.below(3) {
            steps.extend(written(rng, 3 * round + part));
        }
        if rng.chance(60) {
            let after = rng.pick(&[0, 0, 1, 2]);
            steps.push(Step::FlushFails { after });
        }
        steps.extend(parse(rng.pick(&["syncfs", "fsync path=f data_only=no", "!checkpoint"])));
        match rng.below(8) {
            0 => steps.push(cut(rng)),
            1 => steps.push(Step::Remount),
            2 => steps.extend(parse("!idle")),
            _ => {}
        }
    }
    ("failed flush", setting, steps)
}

/// One of two files is written, cut or emptied.
fn written(rng: &mut Rng, seed: u64) -> Vec<Step> {
    let file = rng.pick(&["f", "g"]);
    let offset = rng.below(8) * 4096;
    parse(&match rng.below(8) {
        0 => format!("truncate path={file} size={offset} kill=no"),
        1 => format!("fallocate path={file} mode=punch_hole offset={offset} len=8192"),
        2 | 3 => format!("write path={file} offset={offset} len=8192 seed={seed} kill=no"),
        _ => {
            let offset = offset + rng.below(3000);
            format!("write path={file} offset={offset} len=900 seed={seed} kill=no")
        }
    })
}
