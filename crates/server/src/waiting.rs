//! Waiting for servers that are about to end, by whoever wants their pool next.

use crate::control::{Silent, Wait};
use crate::failure::Failure;
use crate::lingering;
use crate::registry::{self, Record};
use crate::visible::Shown;
use keepfs_media::DeviceError;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a server whose mount is gone may take to end, for those who want its pool next, and another mount namespace to let
/// go of it.
pub const ENDING: Duration = Duration::from_secs(10);
/// How long its keeper may take then, and how often it is looked.
pub const LEAVING: Duration = Duration::from_secs(2);
/// See [`LEAVING`].
pub const LOOK: Duration = Duration::from_millis(5);

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
    let mounted = |record: Record| format!("mounted at {} by process {}", record.dir.shown(), record.pid);
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
