//! The gate between transactions and the barrier of a checkpoint (PROTOCOLS section 6).
//!
//! Invariants:
//! G-1 Whoever is inside has begun before the barrier or after it, never across it.
//! G-2 Nobody who wants in waits for an open transaction longer than [`FINISH`] + [`RETREAT`]: a transaction that is
//!     still open after `FINISH` is told to abort and runs again behind the barrier; one that cannot hear that (its
//!     thread does not run) makes the barrier withdraw, and the checkpoint tries again later.

use crate::stats::Times;
use core::sync::atomic::{AtomicBool, Ordering};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

/// How long open transactions may take to finish by themselves.
const FINISH: Duration = Duration::from_millis(3);
/// How long those still open may take to abort.
const RETREAT: Duration = Duration::from_millis(3);

/// Open transactions are inside; a barrier closes it.
#[derive(Default)]
pub struct Gate {
    lock: RwLock<()>,
    /// Whoever is inside shall leave.
    hurry: AtomicBool,
}

/// The right to be inside.
pub type Inside<'g> = RwLockReadGuard<'g, ()>;

/// Nobody is inside while this lives. How long the gate was shut is counted when it opens.
pub struct Closed<'g> {
    lock: Option<RwLockWriteGuard<'g, ()>>,
    started: Instant,
    times: &'g Times,
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.lock = None;
        self.times.count(self.started.elapsed());
    }
}

impl Gate {
    /// Enters; waits while the gate is shut, which is counted in `waits`.
    pub fn enter(&self, waits: &Times) -> Inside<'_> {
        if let Some(inside) = self.lock.try_read() {
            return inside;
        }
        let started = Instant::now();
        let inside = self.lock.read();
        waits.count(started.elapsed());
        inside
    }

    /// Whether whoever is inside shall abort and run again.
    #[inline]
    pub fn hurries(&self) -> bool {
        self.hurry.load(Ordering::Relaxed)
    }

    /// Shuts the gate. `None`: somebody inside could not be had to leave in time, and the gate is open again (G-2).
    pub fn close<'g>(&'g self, times: &'g Times) -> Option<Closed<'g>> {
        let started = Instant::now();
        let lock = self.lock.try_write_for(FINISH).or_else(|| {
            self.hurry.store(true, Ordering::Relaxed);
            let lock = self.lock.try_write_for(RETREAT);
            self.hurry.store(false, Ordering::Relaxed);
            lock
        });
        if lock.is_none() {
            times.count(started.elapsed());
        }
        lock.map(|lock| Closed {
            lock: Some(lock),
            started,
            times,
        })
    }
}
