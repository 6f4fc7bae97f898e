//! A server that is killed: what it wrote is there for the next one, and not durable. Recovery makes it so before it
//! writes anything itself (S-9.5).

use super::setting::{LabClock, Setting};
use keepfs_media::sim::{Event, SimDevice};
use keepfs_vfs::Vfs;
use keepfs_vfs::ops::{Op, Outcome, Session};
use std::sync::Arc;

/// What a server does before it is killed: its log has groups.
const LIFE: [&str; 5] = [
    "create path=a mode=644 who=22:0:0",
    "write path=a offset=0 len=9000 seed=1 kill=no",
    "syncfs",
    "unlink path=a",
    "syncfs",
];

/// Kills a server with a log and opens its pool again on the same device. Errors: recovery writes before it flushes, or
/// something else goes wrong.
pub fn flushes_first(setting: &Setting) -> Result<(), String> {
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
        None => Err("recovery wrote nothing: there was no log".into()),
        Some(Event::Flush) => Ok(()),
        Some(other) => Err(format!("recovery begins with {other:?}")),
    }
}
