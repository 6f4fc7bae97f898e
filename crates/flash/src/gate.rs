//! The gate between transactions and the barrier of a checkpoint (S-10.1).
//!
//! Invariants:
//! G-1 Whoever is inside has begun before the barrier or after it, never across it.
//! G-2 Nobody who wants in waits for an open transaction longer than `FINISH` + `RETREAT`: a transaction that is
//!     still open after `FINISH` is told to abort and runs again behind the barrier; one that cannot hear that (its
//!     thread does not run) makes the barrier withdraw, and the checkpoint tries again later. Whoever waits opens the
//!     gate itself when the time is over: the thread that shut it may not run either.
//! G-3 Transactions are told to abort only while the gate is being shut.
//! G-4 One thread at a time shuts it: shutting takes the [`Owner`], of which there is one (S-10.1, S-11.3).

use crate::error::Error;
use core::sync::atomic::{AtomicBool, Ordering};
use keepfs_pool::Ground;
use keepfs_pool::stats::Times;
use keepfs_vault::locks::{self, Condvar, Mutex, MutexGuard, Rule, Word};
use std::time::{Duration, Instant};

/// How long open transactions may take to finish by themselves.
const FINISH: Duration = Duration::from_millis(3);
/// How long those still open may take to abort.
const RETREAT: Duration = Duration::from_millis(3);

/// How long a checkpoint waits before it tries the gate again after it withdrew, at first and at most.
const PAUSE: [Duration; 2] = [Duration::from_millis(8), Duration::from_millis(128)];

/// Whether transactions may enter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    #[default]
    Open,
    /// Those inside are waited for until then.
    Closing(Instant),
    Closed,
}

/// Bit of [`Gate::inside`]: the phase is not open.
const SHUT: u64 = 1 << 63;

/// Open transactions are inside; a barrier closes it.
#[derive(Default)]
pub struct Gate {
    /// Who is inside, or has found the gate shut and is about to go again; [`SHUT`]. While the gate is open nothing else is
    /// looked at.
    inside: Word,
    /// Changes together with [`SHUT`].
    phase: Mutex<Phase>,
    /// The phase became open.
    opened: Condvar,
    /// The last one left, or the phase became open.
    emptied: Condvar,
    /// Whoever is inside shall leave (G-3).
    hurry: AtomicBool,
    /// Whoever has it may shut the gate (G-4).
    owner: Mutex<()>,
}

/// The right to be inside.
pub struct Inside<'g>(&'g Gate);

/// The right to shut the gate. While it lives nobody else does: no bitmap is read to hand out pages by what it says.
pub struct Owner<'g> {
    gate: &'g Gate,
    /// `None`: a search of tests breaks the rule that it keeps.
    _only: Option<MutexGuard<'g, ()>>,
}

/// Nobody is inside while this lives. How long the gate was shut is counted when it opens.
pub struct Closed<'g> {
    /// Behind the opening, the right goes, too.
    owner: Owner<'g>,
    started: Instant,
    times: &'g Times,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let gate = self.owner.gate;
        let mut phase = gate.phase.lock();
        let is_shut = *phase == Phase::Closed || locks::breaks(Rule::UsedWhileShut);
        debug_assert!(is_shut, "the gate was opened under who had it shut (G-4)");
        gate.open(&mut phase);
        drop(phase);
        self.times.count(self.started.elapsed());
    }
}

impl Gate {
    /// Enters; waits while the gate is shut, which is counted in `waits`.
    #[inline]
    pub fn enter(&self, waits: &Times) -> Inside<'_> {
        if !self.try_enter() {
            let started = Instant::now();
            while !self.try_enter() {
                self.wait_open();
            }
            waits.count(started.elapsed());
        }
        Inside(self)
    }

    /// One more inside, unless the gate is shut: one word tells both, so nobody comes in between (G-1).
    #[inline]
    fn try_enter(&self) -> bool {
        if self.inside.fetch_add(1, Ordering::AcqRel) & SHUT == 0 {
            return true;
        }
        self.leave();
        false
    }

    #[inline]
    fn leave(&self) {
        if self.inside.fetch_sub(1, Ordering::AcqRel) == SHUT + 1 {
            // Under the lock, so that who waits for it is not between its look and its sleep.
            let _phase = self.phase.lock();
            self.emptied.notify_all();
        }
    }

    /// Waits until nobody is inside or the gate is open again. Whether nobody was: while it is shut nobody comes, though who
    /// has just found that out counts for a moment.
    fn wait_empty(&self, phase: &mut MutexGuard<'_, Phase>, until: Instant) -> bool {
        let is_empty = || self.inside.load(Ordering::Acquire) & !SHUT == 0;
        while !is_empty() {
            if **phase == Phase::Open || self.emptied.wait_until(phase, until).timed_out() {
                return is_empty();
            }
        }
        true
    }

    fn wait_open(&self) {
        let mut phase = self.phase.lock();
        match *phase {
            Phase::Open => {}
            Phase::Closed => self.opened.wait(&mut phase),
            Phase::Closing(until) => {
                if self.opened.wait_until(&mut phase, until).timed_out() && *phase == Phase::Closing(until) {
                    self.open(&mut phase);
                }
            }
        }
    }

    fn open(&self, phase: &mut Phase) {
        *phase = Phase::Open;
        self.inside.fetch_and(!SHUT, Ordering::AcqRel);
        self.hurry.store(false, Ordering::Relaxed);
        self.opened.notify_all();
        self.emptied.notify_all();
    }

    /// Whether whoever is inside shall abort and run again.
    #[inline]
    pub fn hurries(&self) -> bool {
        self.hurry.load(Ordering::Relaxed)
    }

    /// The right to shut the gate; waits while another has it: as long as one reads a bitmap or fixes its moment.
    pub fn own(&self) -> Owner<'_> {
        Owner {
            gate: self,
            _only: (!locks::breaks(Rule::OneOwner)).then(|| self.owner.lock()),
        }
    }

    /// Shuts it, as often as it takes. Errors: the pool was shut down, or a failure ended writing.
    pub fn shut<'g>(&'g self, ground: &'g Ground) -> Result<Closed<'g>, Error> {
        let mut pause = PAUSE[0];
        loop {
            if let Some(closed) = self.own().close(&ground.stats.barrier) {
                return Ok(closed);
            }
            ground.stats.barriers_withdrawn.fetch_add(1, Ordering::Relaxed);
            ground.alive()?;
            locks::pause(pause);
            pause = (pause * 2).min(PAUSE[1]);
        }
    }
}

impl Closed<'_> {
    /// The bitmap was read: what it says is used only while the gate is shut.
    pub fn was_read(&self) {
        if locks::breaks(Rule::UsedWhileShut) {
            let gate = self.owner.gate;
            gate.open(&mut gate.phase.lock());
        }
    }
}

impl<'g> Owner<'g> {
    /// Shuts the gate. `None`: somebody inside could not be had to leave in time, and the gate is open again (G-2).
    pub fn close(self, times: &'g Times) -> Option<Closed<'g>> {
        let gate = self.gate;
        let started = Instant::now();
        let mut phase = gate.phase.lock();
        *phase = Phase::Closing(started + FINISH + RETREAT);
        gate.inside.fetch_or(SHUT, Ordering::AcqRel);
        let mut empty = false;
        for until in [started + FINISH, started + FINISH + RETREAT] {
            empty = gate.wait_empty(&mut phase, until);
            if empty || *phase == Phase::Open {
                break;
            }
            gate.hurry.store(true, Ordering::Relaxed);
        }
        if !empty || *phase == Phase::Open {
            gate.open(&mut phase);
            times.count(started.elapsed().min(FINISH + RETREAT));
            return None;
        }
        gate.hurry.store(false, Ordering::Relaxed);
        *phase = Phase::Closed;
        drop(phase);
        Some(Closed {
            owner: self,
            started,
            times,
        })
    }
}

#[cfg(test)]
mod tests;
