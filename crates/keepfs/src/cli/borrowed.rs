//! The names that mkfs(8), fsck(8) and mount(8) look for, with their ways of giving arguments.

use super::args::{Check, Create};
use super::failure::{self, Manners};
use super::remount::{self, Given};
use super::tell::say;
use super::{check, create, mount};
use clap::Parser;
use clap::builder::{OsStringValueParser, TypedValueParser};
use keepfs_server::options::MountOptions;
use keepfs_server::visible::Shown;
use keepfs_server::{Failure, Outcome, logging};
use std::ffi::OsString;
use std::path::PathBuf;

/// Makes a Keepfs pool; called by mkfs(8). Options are those of `keepfs create`.
#[derive(Parser, Debug)]
#[command(
    name = "mkfs.keepfs",
    version,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong usage."
)]
struct Mkfs {
    #[command(flatten)]
    create: Create,
    /// A label, as other mkfs programs take it
    #[arg(short = 'L', value_name = "L", conflicts_with = "label")]
    volume_label: Option<String>,
}

/// `mkfs.keepfs`.
pub fn mkfs(words: Vec<OsString>) -> Outcome {
    let mut args = match Mkfs::try_parse_from(words) {
        Ok(args) => args,
        Err(words) => return Ok(failure::of_words(&words, Manners::Keepfs)),
    };
    logging::to_stderr();
    if let Some(label) = args.volume_label {
        args.create.label = label;
    }
    create::run(&args.create)
}

/// Checks a Keepfs pool; called by fsck(8). Nothing is ever changed: mounting replays the log.
#[derive(Parser, Debug)]
#[command(
    name = "fsck.keepfs",
    version,
    after_help = "Exit codes as fsck(8): 0 clean, 4 errors left uncorrected, 8 could not be checked, 16 wrong usage."
)]
struct Fsck {
    /// The pool
    pool: PathBuf,
    /// Check at boot without questions: nothing is done, as every mount recovers by itself
    #[arg(short, short_alias = 'p')]
    automatic: bool,
    /// Only look, even if it is mounted
    #[arg(short = 'n')]
    no: bool,
    /// Answer yes to all questions (there are none)
    #[arg(short, conflicts_with = "no")]
    yes: bool,
    /// Check although -a says that it is not needed
    #[arg(short)]
    force: bool,
    /// Read all file data too
    #[arg(short = 'c')]
    data: bool,
    /// Show a bar (accepted; there is one on every terminal)
    #[arg(short = 'C', value_name = "FD", num_args = 0..=1)]
    bar: Option<Option<String>>,
    /// Say more (accepted)
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Leave out the title (accepted)
    #[arg(short = 'T')]
    no_title: bool,
}

/// `fsck.keepfs`.
pub fn fsck(words: Vec<OsString>) -> Outcome {
    let args = match Fsck::try_parse_from(words) {
        Ok(args) => args,
        Err(words) => return Ok(failure::of_words(&words, Manners::Fsck)),
    };
    logging::to_stderr();
    if args.automatic && !args.force {
        say!(
            "{}: nothing to do, mounting recovers it (-f checks all the same)",
            args.pool.shown()
        );
        return Ok(0);
    }
    check::run(&Check {
        pool: args.pool,
        json: false,
        data: args.data,
        live: args.no,
        repair: false,
        dry_run: false,
        undo_file: None,
        undo: None,
    })
}

/// Mounts a Keepfs pool; called by mount(8).
#[derive(Parser, Debug)]
#[command(name = "mount.keepfs", version, after_help = keepfs_server::options::HELP)]
struct MountHelper {
    /// The pool
    pool: PathBuf,
    /// Where
    dir: PathBuf,
    /// Options, separated by commas
    #[arg(short = 'o', value_name = "OPTIONS", value_parser = OsStringValueParser::new().try_map(MountOptions::list))]
    options: Vec<String>,
    /// Pass over unknown options
    #[arg(short)]
    sloppy: bool,
    /// Do everything but mount
    #[arg(short)]
    fake: bool,
    /// Write nothing to /etc/mtab (nothing ever is)
    #[arg(short)]
    no_mtab: bool,
    /// Say what is done
    #[arg(short)]
    verbose: bool,
    /// As -o ro
    #[arg(short, conflicts_with = "writable")]
    read_only: bool,
    /// As -o rw
    #[arg(short)]
    writable: bool,
    /// The type, as mount.fuse(8) is given it
    #[arg(short = 't', value_name = "TYPE")]
    kind: Option<String>,
    /// A namespace, as mount(8) gives it; not supported
    #[arg(short = 'N', value_name = "NS")]
    namespace: Option<String>,
}

/// `mount.keepfs` and `mount.fuse.keepfs`.
pub fn mount(words: Vec<OsString>) -> Outcome {
    let args = match MountHelper::try_parse_from(words) {
        Ok(args) => args,
        Err(words) => return Ok(failure::of_words(&words, Manners::Mount)),
    };
    logging::to_stderr();
    if args.namespace.is_some() {
        return Err(Failure::Usage("-N is not supported; use nsenter(1)".into()));
    }
    let mut options = args.options;
    options.extend(args.read_only.then(|| "ro".to_owned()));
    options.extend(args.writable.then(|| "rw".to_owned()));
    if args.verbose {
        say!(
            "mount.keepfs: {} on {} ({})",
            args.pool.shown(),
            args.dir.shown(),
            options.join(",")
        );
    }
    let parsed = MountOptions::parse(&options, args.sloppy)?;
    if args.fake {
        return Ok(0);
    }
    if parsed.remount {
        return remount::run(&args.dir, &options, Given::All, args.sloppy);
    }
    mount::mount(&args.pool, &args.dir, &options, args.sloppy, false)
}
