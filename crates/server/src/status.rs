//! How pools are, from their servers if they are mounted, else from their devices.

mod unheard;

use crate::control::{self, Silent};
use crate::failure::Failure;
use crate::figures::Status;
use crate::question::Question;
use crate::registry::{self, Record};
use crate::unserved::Unserved;
use crate::visible::Shown;
use crate::{exposed, history, lingering, offline, serving, table};
use keepfs_media::DeviceError;
use std::path::Path;

/// All mounted pools, or the one that is at a mount point or in a pool; others than root who may read or lock it are told, too.
/// Errors: it is no pool, or nothing can be known of it.
pub fn of(one: Option<&Path>) -> Result<Vec<Status>, Failure> {
    control::forget_unfinished();
    let found = match one {
        Some(one) => vec![of_path(one)?],
        None => mounted(),
    };
    Ok(found.into_iter().map(with_access).collect())
}

/// The mounted pools, dead ones too.
fn mounted() -> Vec<Status> {
    let (mut found, mut known) = (Vec::new(), Vec::new());
    for record in registry::all() {
        match live(&record) {
            Ok(status) => found.push(status),
            Err(_) if !record.is_mounted() => {
                // What a server left that died and is mounted no more.
                record.withdraw();
                continue;
            }
            Err(failure) => found.push(unheard::silent(&record, &failure)),
        }
        known.push(record.device);
    }
    let mounts = table::mounts().into_iter();
    let others = mounts.filter(|mount| mount.is_keepfs() && !known.contains(&mount.device));
    found.extend(others.map(|mount| unheard::unasked(&mount, Unserved::at(&mount.dir))));
    found
}

/// A mount point or a pool.
fn of_path(of: &Path) -> Result<Status, Failure> {
    if let Ok((mount, None)) = registry::at_dir(of) {
        return Ok(unheard::unasked(&mount, Unserved::at(&mount.dir)));
    }
    match history::server_of(of)? {
        Some(record) => live(&record),
        None => match lingering::of_pool(of) {
            Some(lingering) => live(&lingering.record),
            None => match offline::status(of) {
                Err(Failure::Device(DeviceError::Busy { by, .. })) => Ok(unheard::in_use(of, &by)),
                found => found,
            },
        },
    }
}

/// What the server says; if it is dead or hangs, that.
pub fn live(record: &Record) -> Result<Status, Failure> {
    match control::ask_soon(record, &Question::Status) {
        Ok(status) => Ok(with_pool(with_place(with_threads(status), record), record)),
        Err(Silent::Dead) if record.is_mounted() => Ok(unheard::dead(record)),
        Err(error @ Silent::Hung { .. }) => Ok(unheard::hung(record, &error)),
        Err(error) => Err(Failure::Other(format!("{}: {error}", record.dir.shown()))),
    }
}

/// Whose the pool is besides.
fn with_access(mut status: Status) -> Status {
    if status.pool.is_absolute() {
        status.exposed = exposed::of(&status.pool);
    }
    status
}

/// Which pool it is by the name that it has today: its server looks at no names.
fn with_pool(mut status: Status, record: &Record) -> Status {
    if status.pool == record.pool {
        status.pool = record.pool_today();
    }
    status
}

/// Where it goes on, if it is not mounted where its server says.
fn with_place(mut status: Status, record: &Record) -> Status {
    if let Some(lingering) = lingering::of(record.clone()) {
        lingering.tell(&mut status);
    }
    status
}

/// What its server told, and what it may not look at itself.
fn with_threads(status: Status) -> Status {
    let mut status = status.as_told();
    if let (Some(serving), Some(server)) = (&mut status.serving, status.server_pid) {
        serving.threads = serving::threads_of(server);
    }
    status
}
