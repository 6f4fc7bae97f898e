//! A server that is killed: what it wrote is there for the next one, and not durable. Recovery makes it so before it
//! writes anything itself (S-9.5).

use super::setting::{LabClock, Setting};
use keepfs_testkit::ops::{Op, Outcome, Session};
use keepfs_testkit::sim::{Event, SimDevice};
use keepfs_vfs::Vfs;
use std::sync::Arc;

/// What a server does before it is killed: its log has groups.
const LIFE: [&str; 5] = [
    "create path=a mode=644 who=22:0:0",
    "write path=a offset=0 len=9000 seed=1 kill=no",
    "syncfs",
    "unlink path=a",
    "syncfs",
];

/// Kills a server with a log, or behind a checkpoint that left none, and opens its pool again on the same device. Errors: the
/// next server writes, or has finished opening, before it flushes, or something else goes wrong.
pub fn flushes_first(setting: &Setting, has_log: bool) -> Result<(), String> {
    let device = Arc::new(SimDevice::over(setting.fresh()?));
    let clock = LabClock::default();
    let volume = setting.open(device.clone(), &clock).map_err(|e| format!("open: {e}"))?;
    let mut session = Session::new(&*volume);
    for op in LIFE {
        let op: Op = op.parse().map_err(|e| format!("{op}: {e}"))?;
        if let Outcome::Err(errno) = session.run(&op) {
            return Err(format!("{op}: {errno}"));
        }
    }
    drop(session);
    if !has_log {
        let done = volume.store().checkpoint();
        done.map_err(|e| format!("checkpoint: {e}"))?;
    }
    volume.store().kill();
    drop(volume);
    let before = device.log_len();
    let volume = setting
        .open(device.clone(), &clock)
        .map_err(|e| format!("open again: {e}"))?;
    let log = device.recording().log;
    let own = &log[before..];
    volume.unmount().map_err(|e| format!("unmount: {e}"))?;
    match own.first().map(|entry| &entry.event) {
        None => Err("a server that took over had flushed nothing when it was ready".into()),
        Some(Event::Flush) => Ok(()),
        Some(other) => Err(format!("recovery begins with {other:?}")),
    }
}
