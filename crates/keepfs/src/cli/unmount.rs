//! `keepfs unmount`: returns when everything is durable and the pool is free for others.

mod hung;

use super::args::Unmount;
use super::control::{self, Ended, Silent, Wait};
use super::failure::Failure;
use super::lingering::{self, Lingering};
use super::namespaces::Holder;
use super::registry::{self, Record};
use super::visible::{say, warn_of};
use super::{Outcome, table};
use keepfs_fuse::{FuseError, How};
use keepfs_media::DeviceError;
use rustix::io::Errno;
use std::fmt::Display;
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a server whose mount is gone may take to end, for those who want its pool next, and another mount namespace to let
/// go of it.
const ENDING: Duration = Duration::from_secs(10);
/// How long its keeper may take then, and how often it is looked.
pub const LEAVING: Duration = Duration::from_secs(2);
pub const LOOK: Duration = Duration::from_millis(5);

/// Unmounts.
pub fn run(args: &Unmount) -> Outcome {
    control::forget_unfinished();
    let (mount, record) = match registry::at_dir_or_of_pool(&args.dir) {
        Ok(found) => found,
        Err(failure) => {
            let lingering = lingering::of_pool(&args.dir);
            return lingering.map_or(Err(failure), |lingering| end_lingering(args, &lingering));
        }
    };
    let wait = match record.as_ref().map(begin).transpose() {
        // Its server is put down below.
        Err(Silent::Hung { .. }) if args.force => return hung::end(&mount.dir, record),
        Err(error) => return Err(Failure::Other(format!("{}: {error}", mount.dir.display()))),
        Ok(wait) => wait.flatten(),
    };
    // Looked at before: the number of the anchor may be another mount's a moment after this one is gone.
    let before = table::all_of_device(&mount.device);
    let how = match (args.lazy, args.force) {
        (true, _) => How::Lazy,
        (_, true) => How::Force,
        _ => How::Gentle,
    };
    take_away(&mount.dir, how).map_err(in_use)?;
    let after = table::all_of_device(&mount.device);
    let same = |other: &&table::Mount| before.len() > 1 && before.iter().any(|was| was.dir == other.dir);
    match after.iter().find(same).map(|other| &other.dir) {
        Some(other) if args.force => warn_of!(
            "keepfs: what is mounted at {0} has ended with it, and every access there fails; `umount {0}` takes it away",
            other.display()
        ),
        Some(other) => {
            let opened = File::open(other).map_err(Failure::io("sync", other))?;
            return still_mounted(&format!("at {}", other.display()), Some(opened), record.as_ref());
        }
        None => {}
    }
    match (wait, record) {
        (None, Some(record)) => record.withdraw(),
        (Some(wait), Some(record)) if !args.lazy => return ended(wait, &record, &mount.dir),
        _ => {}
    }
    Ok(0)
}

/// Unmounts a pool that is not mounted where its server says.
fn end_lingering(args: &Unmount, lingering: &Lingering) -> Outcome {
    if let Some(elsewhere) = &lingering.elsewhere {
        return run(&Unmount {
            dir: elsewhere.clone(),
            ..*args
        });
    }
    let pool = lingering.record.pool.display();
    if !args.force {
        return Err(Failure::Other(format!(
            "{pool}: {}; {}",
            lingering.what(),
            lingering.action()
        )));
    }
    let wait = begin(&lingering.record).map_err(|error| Failure::Other(format!("{pool}: {error}")))?;
    lingering.abort()?;
    wait.map_or(Ok(0), |wait| ended(wait, &lingering.record, &lingering.record.dir))
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
            path.display()
        )),
        _ => error.into(),
    }
}

/// The same mount is seen at another `place`: its server goes on, so only durability can be waited for.
fn still_mounted(place: &str, opened: Option<File>, record: Option<&Record>) -> Outcome {
    make_durable(place, opened, record)?;
    say!("the pool stays mounted {place}; everything is durable");
    Ok(0)
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
        let answer = control::ask(record, "sync").map_err(|error| failed(&error))?;
        if answer["durable"] != true {
            return Err(failed(&answer["error"].as_str().unwrap_or("it did not say why")));
        }
    }
    Ok(())
}

/// Where another mount namespace has a mount that is unmounted here, and that mount, opened. `None`: its server does not serve.
fn elsewhere(record: &Record) -> Option<(String, Option<File>)> {
    let serves = || control::ask_soon(record, "where").is_ok_and(|answer| answer["serves"] == true);
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
fn ended(wait: Wait, record: &Record, dir: &Path) -> Outcome {
    let (begun, mut is_told) = (Instant::now(), false);
    while !wait.end_within(control::SOON) {
        let dir = dir.display();
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
                warn_of!("{dir} is unmounted, but its pool is mounted still {place}; waiting for that to end");
            }
            None if is_late && !is_told => {
                is_told = true;
                warn_of!("{dir} is unmounted, waiting for its server to close the pool");
            }
            _ => {}
        }
    }
    match wait.end() {
        Ended::Durable => Ok(0),
        Ended::Unclean(why) => Err(Failure::Other(format!(
            "{}: {why}; the next mount recovers what was synced",
            dir.display()
        ))),
        Ended::Died => Err(Failure::Other(format!(
            "{} is unmounted, but its server died before it had closed the pool; the next mount recovers what was synced",
            dir.display()
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

/// Opens a pool. A plain umount(8) may return a moment before the server, and then its keeper, have let go of the pool: if
/// it is in use by a server that is mounted nowhere any more, waits for that server's end, and for the keeper, which tells
/// nobody when it ends, tries again for a moment. If a server of ours has it mounted, the failure says where.
pub fn patiently<T>(pool: &Path, open: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
    match open() {
        Err(failure) if failure.is_busy() => {
            wait_for_ending_servers(pool);
            open_left(pool, open).map_err(|failure| mounted_where(pool, failure))
        }
        other => other,
    }
}

/// Opens a pool that whoever has it open is about to leave, unless it is mounted.
fn open_left<T>(pool: &Path, open: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
    let until = Instant::now() + LEAVING;
    loop {
        let opened = open();
        let is_busy = opened.as_ref().is_err_and(Failure::is_busy);
        if !is_busy || Instant::now() > until || registry::of_pool(pool).iter().any(Record::is_mounted) {
            return opened;
        }
        thread::sleep(LOOK);
    }
}

fn mounted_where(pool: &Path, failure: Failure) -> Failure {
    if !failure.is_busy() {
        return failure;
    }
    let user = registry::of_pool(pool).into_iter().find(Record::is_mounted);
    let mounted = |record: Record| format!("mounted at {} by process {}", record.dir.display(), record.pid);
    let lingers = || lingering::of_pool(pool).map(|found| format!("{}; {}", found.what(), found.action()));
    match user.map(mounted).or_else(lingers) {
        Some(by) => Failure::Device(DeviceError::Busy {
            path: pool.to_owned(),
            by,
        }),
        None => failure,
    }
}

/// Waits for the end of those servers of a pool that are mounted nowhere any more.
pub fn wait_for_ending_servers(pool: &Path) {
    let servers = registry::of_pool(pool).into_iter();
    for record in servers.filter(|record| !record.is_mounted()) {
        match Wait::begin(&record) {
            Ok(wait) => drop(wait.end_within(ENDING)),
            Err(Silent::Dead) => record.withdraw(),
            Err(error) => tracing::debug!(%error, pid = record.pid, "cannot wait for a server"),
        }
    }
}

#[cfg(test)]
mod tests;
