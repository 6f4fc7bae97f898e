//! `keepfs check`: the walk of the whole pool, exit codes as fsck(8).

use super::args::Check;
use super::json;
use super::progress::watched;
use super::tell::say;
use super::{damage, repair};
use keepfs_check::{Counts, File, Finding, Options, Report, walk, whose};
use keepfs_format::PAGE;
use keepfs_media::DeviceError;
use keepfs_server::history::{self, Damaged};
use keepfs_server::image::DeviceImage;
use keepfs_server::visible::Shown;
use keepfs_server::waiting::patiently;
use keepfs_server::{Failure, Outcome, told_path};
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
    #[serde(flatten, with = "told_path::pool")]
    pool: &'a Path,
    sound: bool,
    live: bool,
    known_damage: &'a [Damaged],
    #[serde(flatten)]
    report: &'a Report,
}

/// Checks and tells.
pub fn run(args: &Check) -> Outcome {
    let args = &Check {
        pool: history::pool_meant(&args.pool)?,
        ..args.clone()
    };
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
    let known = history::known_lost(&image, &report);
    if args.json {
        let answer = Answer {
            version: 1,
            pool: &args.pool,
            sound,
            live: args.live,
            known_damage: &known,
            report: &report,
        };
        let text = json::text(&answer)?;
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
            path.shown()
        ))),
        other => other,
    }
}

fn tell(args: &Check, report: &Report, known: &[Damaged]) {
    if args.live {
        println!("note: looked at without keeping writers out; what changed meanwhile may show as findings");
    }
    let mut findings = report.findings.as_slice();
    while let Some((finding, rest)) = findings.split_first() {
        let (line, behind) = pages(report, finding, rest).unwrap_or_else(|| (report.line(finding), rest));
        say!("{line}");
        findings = behind;
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
    // No superblock holds.
    if report.generation == 0 {
        say!("{}: no pool can be found", args.pool.shown());
        say!("{}", next(args, report));
        return;
    }
    say!("{}: {}", args.pool.shown(), verdict(report));
    if !report.is_sound() {
        say!("{}", next(args, report));
    }
    println!("{}", counted(&report.counts));
    if report.counts.close_copies > 0 {
        println!(
            "the two copies of {} metablocks lie close to each other: with free space, writing and `keepfs scrub` move them apart",
            report.counts.close_copies
        );
    }
}

/// The lost pages, or the bad ones, of one file that are told one behind the other, in a line, and what is told behind them.
fn pages<'f>(report: &Report, first: &Finding, rest: &'f [Finding]) -> Option<(String, &'f [Finding])> {
    let of = |finding: &Finding| match finding {
        Finding::DataLost { ino, index } | Finding::DataBad { ino, index, .. } => Some((*ino, *index)),
        _ => None,
    };
    let (ino, from) = of(first)?;
    let same = |finding: &Finding| of(finding).filter(|(other, _)| *other == ino && finding.code() == first.code());
    let more = rest.iter().map_while(same);
    let (last, count) = more.fold((from, 1), |(_, count), (_, index)| (index, count + 1));
    let what = match first {
        Finding::DataBad { .. } => {
            "cannot be read or have wrong CRCs: reading them gives EIO; --json has the pages of the device"
        }
        _ => "are lost: what was written to them is nowhere, and reading them gives EIO",
    };
    let file = report
        .files(first)
        .first()
        .map_or_else(|| whose(ino, ""), File::in_words);
    let text = format!(
        "{}: {count} pages of {file}, from page {from} to {last}, {what} [{}]",
        first.severity(),
        first.code()
    );
    (count > 1).then(|| (text, rest.get(count - 1..).unwrap_or_default()))
}

/// What to do where errors are left.
fn next(args: &Check, report: &Report) -> String {
    let pool = args.pool.shown();
    let first = match args.live {
        true => "unmount it first; ",
        false => "",
    };
    let is_of_an_end = |finding: &Finding| matches!(finding, Finding::DataTail { .. });
    let is_of_data = |finding: &Finding| matches!(finding, Finding::DataBad { .. }) || is_of_an_end(finding);
    // Where nothing but data is wrong the walk has met all names.
    let has_no_name = |finding: &Finding| report.files(finding).iter().all(|file| file.path.is_empty());
    let is_nameless = |finding: &Finding| is_of_data(finding) && report.counts.orphans > 0 && has_no_name(finding);
    let cut = report.findings.iter().find_map(|finding| match finding {
        Finding::SuperblockCut { pages, .. } => Some(pages.saturating_mul(PAGE as u64)),
        _ => None,
    });
    match cut {
        Some(bytes) => format!(
            "what to do: give it its length back (of a file: truncate -s {bytes} {pool}), then check it again; what lay behind the cut is lost"
        ),
        None if report.generation == 0 => format!(
            "what to do: check the path; if it was a pool, `keepfs check --repair --dry-run {pool}` says whether a superblock can be made, and \
             `keepfs salvage {pool} DIR` copies out what is found"
        ),
        None if report.errors().all(is_nameless) => {
            "what to do: nothing: these are files without a name, removed while they were open; their blocks are given back when who has \
             them open lets go of them, else by the next mount"
                .into()
        }
        None if report.errors().all(is_of_an_end) => {
            "what to do: mount it and write these files anew (`cp -p --reflink=never FILE NEW && mv NEW FILE`), which leaves nothing beyond \
             their ends; no repair changes pages of files"
                .into()
        }
        None if report.errors().all(is_of_data) => {
            let nameless = match report.errors().any(is_nameless) {
                true => "; those of which no path is told were removed while they were open, and a mount gives their blocks back",
                false => "",
            };
            format!(
                "what to do: mount it and restore these files from a backup (rsync needs --checksum or --ignore-times), or remove them; no \
                 repair brings back pages of files{nameless}"
            )
        }
        None => format!(
            "what to do: {first}`keepfs check --repair --dry-run {pool}` says what a repair would do, without --dry-run it is done"
        ),
    }
}

fn verdict(report: &Report) -> String {
    let errors = report.error_count();
    let state = match (report.clean, report.log_groups) {
        _ if report.lost_superblock().is_some() => {
            format!("as of generation {}, a newer one is lost", report.generation)
        }
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

#[cfg(test)]
mod tests;
