//! `keepfs check --repair` and `--undo`: carries out what the watcher plans (S-21.3 to S-21.6), and takes it back.

mod undo;

use super::args::Check;
use super::json;
use super::progress::watched;
use super::tell::say;
use keepfs_check::mend::{Plan, Refusal, plan};
use keepfs_check::read::superblock_of;
use keepfs_check::{Image, Options, walk};
use keepfs_server::history::{self, Damaged};
use keepfs_server::image::DeviceImage;
use keepfs_server::visible::Shown;
use keepfs_server::waiting::patiently;
use keepfs_server::{Failure, Outcome, mmp, told_path};
use keepfs_store::Pool;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use undo::Undo;

/// Nothing was wrong.
const CLEAN: u8 = 0;
/// Errors were corrected.
const CORRECTED: u8 = 1;
/// Errors were corrected, and what was there may be lost or older, nobody knows of which files: the sum of [`CORRECTED`] and
/// [`ERRORS`], as fsck(8) has it.
const PERHAPS_LOST: u8 = 5;
/// Errors are left.
const ERRORS: u8 = 4;
/// It was not looked for errors: another machine may have it.
const IN_USE: u8 = 8;

/// The answer for programs.
#[derive(Serialize)]
struct Answer<'a> {
    version: u32,
    #[serde(flatten, with = "told_path::pool")]
    pool: &'a Path,
    dry_run: bool,
    repaired: bool,
    actions: &'a [String],
    /// What cannot be brought back (S-21.11).
    given_up: Vec<Damaged>,
    /// Files may be missing, or older than they were, and nothing tells which.
    may_be_older: bool,
    pages: u64,
    #[serde(flatten, with = "told_path::undo_file::maybe")]
    undo_file: Option<&'a Path>,
    errors_before: u64,
    errors_after: u64,
    /// Why nothing can be done.
    refused: Option<String>,
}

/// Plans, tells, keeps what was there, and writes.
pub fn run(args: &Check) -> Outcome {
    let image = patiently(&args.pool, || match args.dry_run {
        true => DeviceImage::open(&args.pool),
        false => DeviceImage::open_for_writing(&args.pool),
    })?;
    let mut plan = match watched(&image, "planning the repair", args.json, || plan(&image)) {
        Ok(plan) => plan,
        Err(refusal) => return refused(args, &refusal),
    };
    if plan.is_made
        && let Some(format) = image.foreign()?
    {
        return Err(Failure::Other(format!(
            "{} begins as {format} does, and has no superblock of a pool: what is found of one is older; nothing was changed",
            args.pool.shown()
        )));
    }
    // What of a pool in use changes meanwhile, no walk can tell.
    if plan.writes.is_empty()
        && let Some(host) = superblock_of(&image).and_then(|sb| mmp::host(&image, &Pool::of(&sb)))
    {
        return refused(args, &Refusal::Claimed { host });
    }
    plan.tell(&image, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    if !args.json {
        tell(args, &plan);
    }
    if plan.writes.is_empty() || args.dry_run {
        let errors = plan.before.error_count();
        answer(args, &plan, None, errors)?;
        return Ok(if plan.writes.is_empty() { CLEAN } else { ERRORS });
    }
    let file = args.undo_file.clone().unwrap_or_else(|| undo_name(&plan));
    Undo::of(&image, &plan).keep(&file)?;
    if !args.json {
        say!("what was there is kept in {}", file.shown());
    }
    write(&image, &plan)?;
    let after = watched(&image, "checking what was written", args.json, || {
        walk(&image, &Options::default())
    });
    let errors = after.error_count();
    answer(args, &plan, Some(&file), errors)?;
    if !args.json {
        match errors {
            0 if plan.is_carried_lost => say!(
                "{}: repaired, no errors are left; but small writes that were synced before the last checkpoint are lost, and of which files \
                 is not known: these have older bytes, or zeros",
                args.pool.shown()
            ),
            0 if plan.may_be_older => say!(
                "{}: repaired, no errors are left; but files may be missing, or older than they were: metadata are lost, and nothing tells whose",
                args.pool.shown()
            ),
            0 => say!("{}: repaired, no errors are left", args.pool.shown()),
            n => say!(
                "{}: {n} errors are left: the device did not keep what was written",
                args.pool.shown()
            ),
        }
        say!(
            "to take it back: keepfs check --undo {} {}",
            file.shown(),
            args.pool.shown()
        );
    }
    Ok(match (errors, plan.may_be_older) {
        (0, false) => CORRECTED,
        (0, true) => PERHAPS_LOST,
        _ => ERRORS,
    })
}

fn refused(args: &Check, refusal: &Refusal) -> Outcome {
    if args.json {
        let answer = Answer {
            version: 1,
            pool: &args.pool,
            dry_run: args.dry_run,
            repaired: false,
            actions: &[],
            given_up: Vec::new(),
            may_be_older: false,
            pages: 0,
            undo_file: None,
            errors_before: 1,
            errors_after: 1,
            refused: Some(refusal.to_string()),
        };
        print(&answer)?;
    } else {
        say!("{}: nothing was changed: {refusal}", args.pool.shown());
    }
    Ok(match refusal {
        Refusal::Claimed { .. } => IN_USE,
        _ => ERRORS,
    })
}

fn tell(args: &Check, plan: &Plan) {
    let verb = if args.dry_run { "would be done" } else { "is done" };
    if plan.writes.is_empty() {
        say!("{}: nothing is to be repaired", args.pool.shown());
        return;
    }
    for finding in plan.before.errors() {
        say!("{}", plan.before.line(finding));
    }
    say!("{}: this {verb}:", args.pool.shown());
    plan.actions.iter().for_each(|action| say!("  {action}"));
    say!("  {} pages are written, as a new checkpoint", plan.writes.len());
}

fn answer(args: &Check, plan: &Plan, undo_file: Option<&Path>, errors_after: u64) -> Result<(), Failure> {
    if !args.json {
        return Ok(());
    }
    print(&Answer {
        version: 1,
        pool: &args.pool,
        dry_run: args.dry_run,
        repaired: undo_file.is_some(),
        actions: &plan.actions,
        given_up: history::given_up(&plan.given_up),
        may_be_older: plan.may_be_older,
        pages: plan.writes.len() as u64,
        undo_file,
        errors_before: plan.before.error_count(),
        errors_after,
        refused: None,
    })
}

fn print(answer: &Answer<'_>) -> Result<(), Failure> {
    let text = json::text(answer)?;
    println!("{text}");
    Ok(())
}

fn undo_name(plan: &Plan) -> PathBuf {
    let id = plan.pool.to_string();
    PathBuf::from(format!(
        "keepfs-{}-{}.undo",
        id.get(..8).unwrap_or("pool"),
        plan.generation
    ))
}

/// Everything but superblocks, a flush, then each superblock with a flush of its own (S-21.5).
fn write(image: &DeviceImage, plan: &Plan) -> Result<(), Failure> {
    let (superblocks, others): (Vec<_>, Vec<_>) = plan.writes.iter().partition(|write| write.is_superblock);
    for write in others {
        image.write(write.page, &write.bytes, false)?;
    }
    image.flush()?;
    for write in superblocks {
        image.write(write.page, &write.bytes, true)?;
        image.flush()?;
    }
    Ok(())
}

/// `--undo`: puts back what a repair has kept.
pub fn undo(args: &Check, file: &Path) -> Outcome {
    let undo = Undo::read(file)?;
    let image = patiently(&args.pool, || DeviceImage::open_for_writing(&args.pool))?;
    undo.fits(&image, &args.pool, file)?;
    undo.put_back(&image)?;
    if args.json {
        print(&Answer {
            version: 1,
            pool: &args.pool,
            dry_run: false,
            repaired: false,
            actions: &[format!("the pool is what it was before the repair of {}", file.shown())],
            given_up: Vec::new(),
            may_be_older: false,
            pages: undo.pages(),
            undo_file: Some(file),
            errors_before: 0,
            errors_after: 0,
            refused: None,
        })?;
    } else {
        say!(
            "{}: {} pages are what they were before the repair",
            args.pool.shown(),
            undo.pages()
        );
    }
    debug_assert!(image.pages() > 0);
    Ok(CLEAN)
}
