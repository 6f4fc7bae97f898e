//! `keepfs check`: the walk of the whole pool, exit codes as fsck(8).

use super::args::Check;
use super::failure::Failure;
use super::history::{self, Damaged};
use super::image::DeviceImage;
use super::progress::watched;
use super::repair;
use super::unmount::patiently;
use super::visible::say;
use super::{Outcome, damage};
use keepfs_audit::{Counts, Finding, Options, Report, walk};
use keepfs_media::DeviceError;
use serde::Serialize;
use std::path::Path;

/// No errors.
const CLEAN: u8 = 0;
/// Errors are left.
const ERRORS: u8 = 4;

/// The answer for programs.
#[derive(Serialize)]
struct Answer<'a> {
    version: u32,
    pool: &'a Path,
    sound: bool,
    live: bool,
    known_damage: &'a [Damaged],
    #[serde(flatten)]
    report: &'a Report,
}

/// Checks and tells.
pub fn run(args: &Check) -> Outcome {
    match &args.undo {
        Some(file) => return repair::undo(args, file),
        None if args.repair => return repair::run(args),
        None => {}
    }
    let image = open(args)?;
    let options = Options {
        data: args.data,
        ..Options::default()
    };
    let report = watched(&image, "checking", args.json, || walk(&image, &options));
    let sound = report.is_sound();
    let known = history::known_lost(&image);
    if args.json {
        let answer = Answer {
            version: 1,
            pool: &args.pool,
            sound,
            live: args.live,
            known_damage: &known,
            report: &report,
        };
        let text = serde_json::to_string_pretty(&answer).map_err(|e| Failure::Other(e.to_string()))?;
        println!("{text}");
    } else {
        tell(args, &report, &known);
    }
    Ok(if sound { CLEAN } else { ERRORS })
}

fn open(args: &Check) -> Result<DeviceImage, Failure> {
    if args.live {
        return DeviceImage::open_live(&args.pool);
    }
    match patiently(&args.pool, || DeviceImage::open(&args.pool)) {
        Err(Failure::Device(DeviceError::Busy { path, by })) => Err(Failure::Other(format!(
            "{} is in use ({by}); unmount it first, or look at it as it changes with --live (-n)",
            path.display()
        ))),
        other => other,
    }
}

fn tell(args: &Check, report: &Report, known: &[Damaged]) {
    if args.live {
        println!("note: looked at without keeping writers out; what changed meanwhile may show as findings");
    }
    for finding in &report.findings {
        say!("{}", report.line(finding));
    }
    if let Some(rest) = report.rest() {
        println!("{rest}");
    }
    for entry in known {
        say!(
            "warning: the pool knows of damage: {} [known-damage]",
            damage::line(entry)
        );
    }
    if report.findings.iter().any(|f| matches!(f, Finding::NoSuperblock {})) {
        say!("{}: no pool can be found", args.pool.display());
        return;
    }
    say!("{}: {}", args.pool.display(), verdict(report));
    println!("{}", counted(&report.counts));
    if report.counts.close_copies > 0 {
        println!(
            "the two copies of {} metablocks lie close to each other: with free space, writing and `keepfs scrub` move them apart",
            report.counts.close_copies
        );
    }
}

fn verdict(report: &Report) -> String {
    let errors = report.error_count();
    let state = match (report.clean, report.log_groups) {
        (true, 0) => "closed properly".to_owned(),
        (_, groups) => format!("not closed; the next mount replays {groups} groups of the log"),
    };
    match errors {
        0 => format!("no errors ({state})"),
        n => format!("{n} errors left uncorrected ({state})"),
    }
}

fn counted(c: &Counts) -> String {
    format!(
        "{} files, {} directories, {} inodes in all ({} unlinked), {} xattrs; {} data pages ({} shared), {} metablocks",
        c.files, c.directories, c.inodes, c.orphans, c.xattrs, c.data_pages, c.shares, c.metablocks
    )
}
