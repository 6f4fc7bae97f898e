//! Unmounting: returns when everything is durable and the pool is free for others.

mod hung;

use crate::control::{self, Ended, Silent, Wait};
use crate::failure::Failure;
use crate::lingering::{self, Lingering};
use crate::namespaces::Holder;
use crate::offline;
use crate::question::{Durable, Question, Whereabouts};
use crate::registry::{self, Record};
use crate::table;
use crate::visible::Shown;
use crate::waiting::ENDING;
use keepfs_fuse::{FuseError, How};
use rustix::io::Errno;
use std::fmt::Display;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

/// What is told while somebody waits.
pub enum Said {
    /// How it went.
    News(String),
    /// What is not as it was asked for.
    Warning(String),
}

impl Said {
    /// The line.
    pub fn text(&self) -> &str {
        let (Said::News(text) | Said::Warning(text)) = self;
        text
    }
}

/// Who is told.
pub type Tell<'t> = dyn FnMut(Said) + 't;

/// Unmounts what is at a mount point, or a pool; lazily it does not wait. Errors: it stays mounted, or not everything is durable.
pub fn unmount(of: &Path, how: How, tell: &mut Tell<'_>) -> Result<(), Failure> {
    control::forget_unfinished();
    let (mount, record) = match registry::at_dir_or_of_pool(of) {
        Ok(found) => found,
        Err(failure) => {
            let lingering = lingering::of_pool(of);
            return lingering.map_or(Err(failure), |lingering| end_lingering(&lingering, how, tell));
        }
    };
    let wait = match record.as_ref().map(begin).transpose() {
        // Its server is put down below.
        Err(Silent::Hung { .. }) if how == How::Force => return hung::end(&mount.dir, record, tell),
        Err(error) => return Err(Failure::Other(format!("{}: {error}", mount.dir.shown()))),
        Ok(wait) => wait.flatten(),
    };
    // Looked at before: the number of the anchor may be another mount's a moment after this one is gone.
    let before = table::all_of_device(&mount.device);
    take_away(&mount.dir, how).map_err(in_use)?;
    let after = table::all_of_device(&mount.device);
    let same = |other: &&table::Mount| before.len() > 1 && before.iter().any(|was| was.dir == other.dir);
    match after.iter().find(same).map(|other| &other.dir) {
        Some(other) if how == How::Force => tell(Said::Warning(format!(
            "keepfs: what is mounted at {0} has ended with it, and every access there fails; `umount {0}` takes it away",
            other.shown()
        ))),
        Some(other) => {
            // Its server goes on, so only durability can be waited for.
            let opened = File::open(other).map_err(Failure::io("sync", other))?;
            let place = format!("at {}", other.shown());
            make_durable(&place, Some(opened), record.as_ref())?;
            tell(Said::News(format!(
                "the pool stays mounted {place}; everything is durable"
            )));
            return Ok(());
        }
        None => {}
    }
    match (wait, record) {
        (None, Some(record)) => return left_by_the_dead(&record, &mount.dir),
        (Some(wait), Some(record)) if how != How::Lazy => return ended(wait, &record, &mount.dir, tell),
        _ => {}
    }
    Ok(())
}

/// Unmounts a pool that is not mounted where its server says.
fn end_lingering(lingering: &Lingering, how: How, tell: &mut Tell<'_>) -> Result<(), Failure> {
    if let Some(elsewhere) = &lingering.elsewhere {
        return unmount(elsewhere, how, tell);
    }
    let pool = lingering.record.pool.shown();
    if how != How::Force {
        return Err(Failure::Other(format!(
            "{pool}: {}; {}",
            lingering.what(),
            lingering.action()
        )));
    }
    let wait = begin(&lingering.record).map_err(|error| Failure::Other(format!("{pool}: {error}")))?;
    lingering.abort()?;
    wait.map_or(Ok(()), |wait| {
        ended(wait, &lingering.record, &lingering.record.dir, tell)
    })
}

/// Unmounts; with force whether it is in use or not.
fn take_away(dir: &Path, how: How) -> Result<(), FuseError> {
    match keepfs_fuse::unmount(dir, how) {
        // Its connection is aborted by now, so those who use it get errors whether its name stays or goes.
        Err(FuseError::Busy { path }) if how == How::Force => keepfs_fuse::unmount(&path, How::Lazy),
        other => other,
    }
}

/// Who uses it cannot be seen from here; what helps can be said.
fn in_use(error: FuseError) -> Failure {
    match &error {
        FuseError::Busy { path } => Failure::Other(format!(
            "{error}; `fuser -vm {}` shows by whom; with --lazy it is unmounted when they are done, with --force they get errors",
            path.shown()
        )),
        _ => error.into(),
    }
}

/// Makes durable what is written at `place`, which may be open.
fn make_durable(place: &str, opened: Option<File>, record: Option<&Record>) -> Result<(), Failure> {
    let failed = |why: &dyn Display| {
        Failure::Other(format!(
            "the pool stays mounted {place}, and not everything is durable: {why}"
        ))
    };
    // First what the kernel holds, then what the server holds: without an anchor syncfs(2) does not reach it.
    if let Some(opened) = opened {
        match rustix::fs::syncfs(opened) {
            // All that there is, is durable: what is not there any more is in the list of damages (S-16.14).
            Ok(()) | Err(Errno::UCLEAN) => {}
            Err(error) => return Err(failed(&error)),
        }
    }
    if let Some(record) = record {
        let answer: Durable = control::ask(record, &Question::Sync).map_err(|error| failed(&error))?;
        if !answer.durable {
            return Err(failed(&answer.error.as_deref().unwrap_or("it did not say why")));
        }
    }
    Ok(())
}

/// Where another mount namespace has a mount that is unmounted here, and that mount, opened. `None`: its server does not serve.
fn elsewhere(record: &Record) -> Option<(String, Option<File>)> {
    let serves = || control::ask_soon(record, &Question::Where).is_ok_and(|place: Whereabouts| place.serves);
    if !serves() {
        return None;
    }
    let place = match Holder::of(&record.device) {
        Some(holder) => (format!("{holder} ({})", holder.action()), holder.open()),
        None => ("in a mount namespace of which no process is seen".into(), None),
    };
    // It served behind the look: the number was no other's.
    serves().then_some(place)
}

/// Waits for the server's end, but not for ever for another mount namespace that has the mount.
fn ended(wait: Wait, record: &Record, dir: &Path, tell: &mut Tell<'_>) -> Result<(), Failure> {
    let (begun, mut is_told) = (Instant::now(), false);
    while !wait.end_within(control::SOON) {
        let dir = dir.shown();
        if let Some(why) = wait.stopped() {
            return Err(Failure::Other(format!(
                "{dir} is unmounted, but its pool is not closed: {why}; nobody else can have the pool until then"
            )));
        }
        let is_late = begun.elapsed() >= ENDING;
        match elsewhere(record) {
            Some((place, opened)) if is_late => {
                make_durable(&place, opened, Some(record))?;
                return Err(Failure::Other(format!(
                    "{dir} is unmounted, but the pool stays mounted {place}; everything is durable, but the pool is not closed"
                )));
            }
            Some((place, _)) if !is_told => {
                is_told = true;
                tell(Said::Warning(format!(
                    "{dir} is unmounted, but its pool is mounted still {place}; waiting for that to end"
                )));
            }
            None if is_late && !is_told => {
                is_told = true;
                tell(Said::Warning(format!(
                    "{dir} is unmounted, waiting for its server to close the pool"
                )));
            }
            _ => {}
        }
    }
    match wait.end() {
        Ended::Durable => Ok(()),
        Ended::Unclean(why) => Err(Failure::Other(format!(
            "{}: {why}; the next mount recovers what was synced",
            dir.shown()
        ))),
        Ended::Died => Err(died(dir)),
    }
}

fn died(dir: &Path) -> Failure {
    Failure::Other(format!(
        "{} is unmounted, but its server died before it had closed the pool; the next mount recovers what was synced, what was not may be lost",
        dir.shown()
    ))
}

/// Looks at what a server left that was dead before anybody could wait for it. Errors: the pool is not closed. S-16.37
fn left_by_the_dead(record: &Record, dir: &Path) -> Result<(), Failure> {
    record.withdraw();
    let pool = record.pool_today();
    match offline::is_closed(&pool) {
        Ok(true) => Ok(()),
        Ok(false) => Err(died(dir)),
        // The next mount has recovered it.
        Err(failure) if failure.is_busy() && registry::of_pool(&pool).iter().any(Record::is_mounted) => Ok(()),
        Err(failure) => Err(Failure::Other(format!(
            "{} is unmounted, but its server had died, and whether the pool was closed is not known: {failure}",
            dir.shown()
        ))),
    }
}

/// A dead server needs no waiting for.
fn begin(record: &Record) -> Result<Option<Wait>, Silent> {
    match Wait::begin(record) {
        Ok(wait) => Ok(Some(wait)),
        Err(Silent::Dead) => Ok(None),
        Err(error) => Err(error),
    }
}
