//! Files of more pages and nodes than one transaction may change.

use super::super::during;
use super::parse;
use crate::crash::setting::Setting;
use crate::crash::step::Step;
use keepfs_testkit::ops::Rng;

/// A pool for files of more than 1,000 pages.
fn many_pages(rng: &mut Rng) -> Setting {
    Setting {
        pages: 6144,
        log_pages: 256,
        zone_pages: 512,
        copies: rng.pick(&[1, 2]),
        ..Setting::default()
    }
}

/// A file `s` with one page in each of so many nodes, more than one transaction visits; `step` makes a page of it.
fn scattered(nodes: u64, step: impl Fn(u64, u64) -> String) -> Vec<Step> {
    let mut steps = parse("create path=s mode=644 who=22:0:0");
    for page in 0..nodes {
        steps.extend(parse(&step(page << 21, page)));
    }
    steps
}

/// Cuts of files with more pages and nodes than one transaction may free, with a crash between any two of the
/// transactions (S-5.6).
pub fn long(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let setting = Setting {
        each: true,
        ..many_pages(rng)
    };
    let mut steps = parse("mkdir path=d mode=755 who=22:0:0");
    for (file, mode) in [("f", "allocate"), ("g", "keep_size"), ("h", "allocate")] {
        let bytes = (1050 + rng.below(400)) * 4096;
        steps.extend(parse(&format!(
            "create path={file} mode=644 who=22:0:0\nfallocate path={file} mode={mode} offset=0 len={bytes}"
        )));
        for write in 0..3 {
            let offset = rng.below(bytes);
            steps.extend(parse(&format!(
                "write path={file} offset={offset} len=5000 seed={write} kill=no"
            )));
        }
    }
    steps.extend(scattered(42, |offset, _| {
        format!("fallocate path=s mode=allocate offset={offset} len=4096")
    }));
    // Only the life after the last power cut is swept: that of the cuts.
    steps.extend(parse("!checkpoint\n!crash 0"));
    let cut = |file: &str, rng: &mut Rng| match rng.below(5) {
        0 => format!("truncate path={file} size={} kill=no", rng.below(3_000_000)),
        1 => format!("truncate path={file} size=0 kill=no"),
        2 => format!("open_truncate path={file}"),
        3 => format!("unlink path={file}"),
        _ => format!("create path=d/n mode=644 who=22:0:0\nrename from=d/n to={file} flags=none"),
    };
    for file in ["f", "s", "g", "h"] {
        steps.extend(parse(&cut(file, rng)));
        let behind = rng.pick(&[
            "",
            "syncfs",
            "!checkpoint",
            "create path=d/x mode=644 who=22:0:0\nunlink path=d/x",
        ]);
        steps.extend(parse(behind));
    }
    ("long", setting, steps)
}

/// Holes of more pages and nodes than one transaction may free, with a crash between any two of the transactions, and
/// checkpoints, evictions, and writes into them (S-5.8).
pub fn holes(rng: &mut Rng) -> (&'static str, Setting, Vec<Step>) {
    let mut setting = many_pages(rng);
    setting.each = rng.chance(75);
    let mut steps = Vec::new();
    let pages = [1050 + rng.below(400), 1050 + rng.below(400)];
    for (file, pages) in ["f", "g"].iter().zip(pages) {
        steps.extend(parse(&format!(
            "create path={file} mode=644 who=22:0:0\nfallocate path={file} mode=allocate offset=0 len={}",
            pages * 4096
        )));
        // Something to see in each transaction's part.
        for write in 0..14 {
            let offset = (write * pages / 14 + rng.below(40)) * 4096 + rng.below(4096);
            steps.extend(parse(&format!(
                "write path={file} offset={offset} len=5000 seed={write} kill=no"
            )));
        }
    }
    steps.extend(scattered(45, |offset, page| {
        format!("write path=s offset={offset} len=4096 seed={page} kill=no")
    }));
    // Shared pages lose a reference each.
    steps.extend(parse(
        "create path=c mode=644 who=22:0:0\ncopy_range from=f from_offset=0 to=c to_offset=0 len=1000000",
    ));
    // Only the life after the last power cut is swept.
    steps.extend(parse("!checkpoint\n!crash 0"));
    for file in ["f", "s", "g"] {
        let len = if file == "s" { 44 << 21 } else { 1030 * 4096 };
        let mode = rng.pick(&["punch_hole", "punch_hole", "zero_range"]);
        let (offset, len) = (rng.below(20_000), len - rng.below(9000));
        // On allocating again so many pages nothing new can be seen, but it takes its time.
        let mode = if file == "s" { "punch_hole" } else { mode };
        if rng.chance(30) {
            steps.push(during(rng));
        }
        if rng.chance(30) {
            steps.extend([Step::Checkpoint, Step::Evict]);
        }
        steps.extend(parse(&format!(
            "fallocate path={file} mode={mode} offset={offset} len={len}"
        )));
        let inside = offset + rng.below(len / 2);
        let behind = match rng.below(6) {
            0 => String::new(),
            1 => "syncfs".into(),
            2 => "!checkpoint".into(),
            3 => format!("write path={file} offset={inside} len=9000 seed=99 kill=no\nsyncfs"),
            4 => format!("truncate path={file} size={inside} kill=no"),
            _ => format!("unlink path={file}"),
        };
        steps.extend(parse(&behind));
    }
    ("holes", setting, steps)
}
