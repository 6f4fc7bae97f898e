//! `keepfs unmount`: returns when everything is durable and the server is gone.

use super::Outcome;
use super::args::Unmount;
use super::control::{Ended, Silent, Wait};
use super::failure::Failure;
use super::registry::{self, Record};
use keepfs_fuse::How;
use std::path::Path;

/// How long a server whose mount is gone may take to end, for those who want its pool next.
const ENDING_S: i64 = 10;

/// Unmounts.
pub fn run(args: &Unmount) -> Outcome {
    let (mount, record) = registry::at_dir(&args.dir)?;
    let wait = record.as_ref().map(begin).transpose()?.flatten();
    let how = match (args.lazy, args.force) {
        (true, _) => How::Lazy,
        (_, true) => How::Force,
        _ => How::Gentle,
    };
    keepfs_fuse::unmount(&mount.dir, how)?;
    if let (None, Some(record)) = (&wait, record) {
        record.withdraw();
    }
    match wait.filter(|_| !args.lazy).map(Wait::end) {
        None | Some(Ended::Durable) => Ok(0),
        Some(Ended::Unclean(why)) => Err(Failure::Other(format!(
            "{}: {why}; the next mount recovers what was synced",
            mount.dir.display()
        ))),
        Some(Ended::Died) => Err(Failure::Other(format!(
            "{} is unmounted, but its server died before it had closed the pool; the next mount recovers what was synced",
            mount.dir.display()
        ))),
    }
}

/// A dead server needs no waiting for.
fn begin(record: &Record) -> Result<Option<Wait>, Failure> {
    match Wait::begin(record) {
        Ok(wait) => Ok(Some(wait)),
        Err(Silent::Dead) => Ok(None),
        Err(error) => Err(Failure::Other(format!("{}: {error}", record.dir.display()))),
    }
}

/// Opens a pool. A plain umount(8) may return a moment before the server has let go of the pool: if it is in use by a
/// server that is mounted nowhere any more, waits for that server's end and tries once more.
pub fn patiently<T>(pool: &Path, open: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
    match open() {
        Err(failure) if failure.is_busy() => {
            wait_for_ending_servers(pool);
            open()
        }
        other => other,
    }
}

fn wait_for_ending_servers(pool: &Path) {
    let servers = registry::of_pool(pool).into_iter();
    for record in servers.filter(|record| !record.is_mounted()) {
        match Wait::begin(&record) {
            Ok(wait) => drop(wait.end_within(ENDING_S)),
            Err(Silent::Dead) => record.withdraw(),
            Err(error) => tracing::debug!(%error, pid = record.pid, "cannot wait for a server"),
        }
    }
}
