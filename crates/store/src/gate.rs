//! The gate between transactions and the barrier of a checkpoint (PROTOCOLS section 6).
//!
//! Invariants:
//! G-1 Whoever is inside has begun before the barrier or after it, never across it.
//! G-2 Nobody who wants in waits for an open transaction longer than [`FINISH`] + [`RETREAT`]: a transaction that is
//!     still open after `FINISH` is told to abort and runs again behind the barrier; one that cannot hear that (its
//!     thread does not run) makes the barrier withdraw, and the checkpoint tries again later. Whoever waits opens the
//!     gate itself when the time is over: the thread that shut it may not run either.
//! G-3 Transactions are told to abort only while the gate is being shut.

use crate::stats::Times;
use core::sync::atomic::{AtomicBool, Ordering};
use parking_lot::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long open transactions may take to finish by themselves.
const FINISH: Duration = Duration::from_millis(3);
/// How long those still open may take to abort.
const RETREAT: Duration = Duration::from_millis(3);

/// Whether transactions may enter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    #[default]
    Open,
    /// Those inside are waited for until then.
    Closing(Instant),
    Closed,
}

#[derive(Default)]
struct State {
    inside: usize,
    phase: Phase,
}

/// Open transactions are inside; a barrier closes it.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    /// The phase became open.
    opened: Condvar,
    /// The last one left, or the phase became open.
    emptied: Condvar,
    /// Whoever is inside shall leave (G-3).
    hurry: AtomicBool,
}

/// The right to be inside.
pub struct Inside<'g>(&'g Gate);

/// Nobody is inside while this lives. How long the gate was shut is counted when it opens.
pub struct Closed<'g> {
    gate: &'g Gate,
    started: Instant,
    times: &'g Times,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.inside -= 1;
        if state.inside == 0 && state.phase != Phase::Open {
            self.0.emptied.notify_all();
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.gate.open(&mut self.gate.state.lock());
        self.times.count(self.started.elapsed());
    }
}

impl Gate {
    /// Enters; waits while the gate is shut, which is counted in `waits`.
    pub fn enter(&self, waits: &Times) -> Inside<'_> {
        let mut state = self.state.lock();
        if state.phase != Phase::Open {
            let started = Instant::now();
            loop {
                match state.phase {
                    Phase::Open => break,
                    Phase::Closed => self.opened.wait(&mut state),
                    Phase::Closing(until) => {
                        if self.opened.wait_until(&mut state, until).timed_out() && state.phase == Phase::Closing(until)
                        {
                            self.open(&mut state);
                        }
                    }
                }
            }
            waits.count(started.elapsed());
        }
        state.inside += 1;
        Inside(self)
    }

    fn open(&self, state: &mut State) {
        state.phase = Phase::Open;
        self.hurry.store(false, Ordering::Relaxed);
        self.opened.notify_all();
        self.emptied.notify_all();
    }

    /// Whether whoever is inside shall abort and run again.
    #[inline]
    pub fn hurries(&self) -> bool {
        self.hurry.load(Ordering::Relaxed)
    }

    /// Shuts the gate; only one thread at a time does. `None`: somebody inside could not be had to leave in time, and
    /// the gate is open again (G-2).
    pub fn close<'g>(&'g self, times: &'g Times) -> Option<Closed<'g>> {
        let started = Instant::now();
        let mut state = self.state.lock();
        state.phase = Phase::Closing(started + FINISH + RETREAT);
        for until in [started + FINISH, started + FINISH + RETREAT] {
            while state.inside > 0
                && state.phase != Phase::Open
                && !self.emptied.wait_until(&mut state, until).timed_out()
            {}
            let closing = state.phase != Phase::Open;
            self.hurry.store(closing && state.inside > 0, Ordering::Relaxed);
        }
        if state.inside > 0 || state.phase == Phase::Open {
            self.open(&mut state);
            times.count(started.elapsed().min(FINISH + RETREAT));
            return None;
        }
        state.phase = Phase::Closed;
        drop(state);
        Some(Closed {
            gate: self,
            started,
            times,
        })
    }
}
