//! `keepfs check`: the walk of the whole pool, exit codes as fsck(8).

use super::Outcome;
use super::args::Check;
use super::failure::Failure;
use super::image::DeviceImage;
use super::unmount::patiently;
use super::visible::say;
use indicatif::{ProgressBar, ProgressStyle};
use keepfs_audit::{Counts, Finding, Image, Options, Report, walk};
use keepfs_media::DeviceError;
use serde::Serialize;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// No errors.
const CLEAN: u8 = 0;
/// Errors are left.
const ERRORS: u8 = 4;
/// How often progress is shown on a terminal, and in lines.
const TICK: Duration = Duration::from_millis(100);
const LINE: Duration = Duration::from_secs(5);

/// The answer for programs.
#[derive(Serialize)]
struct Answer<'a> {
    version: u32,
    pool: &'a Path,
    sound: bool,
    live: bool,
    #[serde(flatten)]
    report: &'a Report,
}

/// Checks and tells.
pub fn run(args: &Check) -> Outcome {
    let image = open(args)?;
    let options = Options {
        data: args.data,
        ..Options::default()
    };
    let report = watched(&image, &options, args.json);
    let sound = report.is_sound();
    if args.json {
        let answer = Answer {
            version: 1,
            pool: &args.pool,
            sound,
            live: args.live,
            report: &report,
        };
        let text = serde_json::to_string_pretty(&answer).map_err(|e| Failure::Other(e.to_string()))?;
        println!("{text}");
    } else {
        tell(args, &report);
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

/// Walks while another thread shows how far it is.
fn watched(image: &DeviceImage, options: &Options, quiet: bool) -> Report {
    if quiet {
        return walk(image, options);
    }
    let (done, over) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || match std::io::stderr().is_terminal() {
            true => show_bar(image, &over),
            false => show_lines(image, &over),
        });
        let report = walk(image, options);
        drop(done);
        report
    })
}

fn show_bar(image: &DeviceImage, over: &mpsc::Receiver<()>) {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) =
        ProgressStyle::with_template("{spinner} checking: {pos} pages read (the device has {msg}), {elapsed}")
    {
        bar.set_style(style);
    }
    bar.set_message(image.pages().to_string());
    while over.recv_timeout(TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
        bar.set_position(image.pages_read());
        bar.tick();
    }
    bar.finish_and_clear();
}

fn show_lines(image: &DeviceImage, over: &mpsc::Receiver<()>) {
    while over.recv_timeout(LINE) == Err(mpsc::RecvTimeoutError::Timeout) {
        eprintln!(
            "checking: {} pages read (the device has {})",
            image.pages_read(),
            image.pages()
        );
    }
}

fn tell(args: &Check, report: &Report) {
    if args.live {
        println!("note: looked at without keeping writers out; what changed meanwhile may show as findings");
    }
    for finding in &report.findings {
        say!("{}: {finding} [{}]", severity(finding), finding.code());
    }
    if report.dropped > 0 {
        println!("and {} findings more", report.dropped);
    }
    if report.findings.iter().any(|f| matches!(f, Finding::NoSuperblock {})) {
        say!("{}: no pool can be found", args.pool.display());
        return;
    }
    say!("{}: {}", args.pool.display(), verdict(report));
    println!("{}", counted(&report.counts));
}

fn severity(finding: &Finding) -> &'static str {
    match finding.severity() {
        keepfs_audit::Severity::Note => "note",
        keepfs_audit::Severity::Warning => "warning",
        keepfs_audit::Severity::Error => "error",
    }
}

fn verdict(report: &Report) -> String {
    let errors = report.errors().count() as u64 + report.dropped;
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
