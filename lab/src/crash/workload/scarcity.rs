//! Workloads that seek scarcity: few free pages, data that no sync has made durable, and beside a checkpoint that stands still
//! what frees pages, a sync, and whoever needs them next; then power cuts, deaths, and resumes that die (S-9.3, S-11.1).

use super::cut;
use super::directed::parse;
use crate::crash::setting::{BIG, Setting};
use crate::crash::step::Step;
use keepfs_testkit::ops::Rng;

/// Files that are changed, of those that fill the pool.
const FILES: u64 = 24;
/// Of those, the ones that are written before and freed beside a checkpoint.
const HOT: u64 = 6;
const PAGE: u64 = 4096;
/// Pages of a pool, and how many of them are left for new data: nearly full pools, where most dangers are, then one that is half
/// full, and one that has the files that are changed and little else.
const PAGES: u64 = 512;
const NEARLY_FULL: [u32; 4] = [24, 32, 48, 64];
const HALF_FULL: u32 = 112;
const MOSTLY_FREE: u32 = 192;

/// A generator at work.
struct Scarce<'r> {
    rng: &'r mut Rng,
    steps: Vec<Step>,
    /// The next content.
    seed: u64,
}

/// One of them: name, pool and steps.
pub fn workload(rng: &mut Rng) -> (String, Setting, Vec<Step>) {
    let setting = Setting {
        pages: PAGES,
        log_pages: rng.pick(&[32, 32, 64]),
        zone_pages: rng.pick(&[16, 32, 64, 128]),
        staged: rng.pick(&[1, 4, 8]),
        copies: rng.pick(&[1, 2]),
        free: match rng.below(10) {
            0 => HALF_FULL,
            1 => MOSTLY_FREE,
            _ => rng.pick(&NEARLY_FULL),
        },
        discard: rng.chance(30),
        ..Setting::default()
    };
    let mut scarce = Scarce {
        rng,
        steps: Vec::new(),
        seed: 1000,
    };
    for _ in 0..1 + scarce.rng.below(3) {
        scarce.round();
    }
    ("scarcity".into(), setting, scarce.steps)
}

impl Scarce<'_> {
    fn round(&mut self) {
        if self.rng.chance(50) {
            self.sync();
        }
        for _ in 0..2 + self.rng.below(5) {
            self.write(HOT);
        }
        if self.rng.chance(15) {
            self.die();
        }
        let beside = core::mem::take(&mut self.steps);
        self.beside();
        let beside = core::mem::replace(&mut self.steps, beside);
        self.steps.push(Step::During {
            after: self.rng.below(5) as u32,
            steps: beside.len() as u32,
        });
        self.steps.extend(beside);
        self.behind();
    }

    /// What runs beside a checkpoint: pages are freed, a sync makes them free, they are used again.
    fn beside(&mut self) {
        for _ in 0..1 + self.rng.below(4) {
            self.free();
        }
        self.sync();
        for _ in 0..6 + self.rng.below(15) {
            match self.rng.below(40) {
                0 => self.sync(),
                1..4 => self.free(),
                _ => self.write(FILES),
            }
        }
    }

    fn behind(&mut self) {
        match self.rng.below(10) {
            0 | 1 => self.sync(),
            2 => self.steps.push(cut(self.rng)),
            3 | 4 => {
                self.die();
                self.sync();
            }
            5 => self.steps.push(Step::Checkpoint),
            6 => self.steps.push(Step::Trim),
            7 => self.steps.push(Step::Idle),
            _ => {}
        }
    }

    fn sync(&mut self) {
        let text = self.rng.pick(&["syncfs", "syncfs", "fsync path=/ data_only=no"]);
        self.steps.extend(parse(text));
    }

    /// Overwrites pages of a file.
    fn write(&mut self, files: u64) {
        let pages = self.rng.pick(&[1, 4, 4, 4]);
        let file = self.rng.below(files);
        let page = self.rng.below(BIG / PAGE + 1 - pages);
        let (offset, len, seed) = (page * PAGE, pages * PAGE, self.seed);
        // A tail is staged, and takes a page later.
        let len = if self.rng.chance(10) { len - 100 } else { len };
        let text = format!("write path=big{file} offset={offset} len={len} seed={seed} kill=no");
        self.steps.extend(parse(&text));
        self.seed += 1;
    }

    /// Frees pages of a file; a name that is gone comes back as an empty file.
    fn free(&mut self) {
        let file = self.rng.below(HOT);
        let text = match self.rng.below(4) {
            0 => format!("truncate path=big{file} size=0 kill=no"),
            1 => format!("fallocate path=big{file} mode=punch_hole offset=0 len={BIG}"),
            2 => format!("unlink path=big{file}\ncreate path=big{file} mode=644 who=22:0:0"),
            _ => return self.write(HOT),
        };
        self.steps.extend(parse(&text));
    }

    fn die(&mut self) {
        let calls = self.rng.pick(&[1, 8, 60]);
        self.steps.push(Step::Die {
            after: self.rng.below(calls) as u32,
            part: self.rng.below(6) as u32,
            again: if self.rng.chance(40) {
                1 + self.rng.below(40) as u32
            } else {
                0
            },
        });
    }
}

#[cfg(test)]
mod tests;
