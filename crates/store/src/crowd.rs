//! Overwriting on a full pool: what is kept for it (S-10.5) is one writer's at a time if it is not enough for all (S-20.5).
//!
//! Who takes pages with a claim gives as many back when its transaction is durable, so a lack of them ends by itself. Who found
//! none waits until all others have ended, and those that begin meanwhile wait behind it: what is kept is there then.

use crate::locks::{Condvar, Mutex, MutexGuard};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Nobody is waited for longer: a device that is slow makes one write short, and no two wait for each other for ever.
const LONGEST: Duration = Duration::from_secs(2);

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Crowd {
    /// Reservations with a claim that have not ended.
    taken: AtomicU64,
    /// Somebody writes alone, or waits until it does.
    is_alone: AtomicBool,
    turn: Mutex<()>,
    state: Mutex<()>,
    ended: Condvar,
}

/// A reservation with a claim; it ends when this is dropped.
pub(crate) struct Claiming<'s>(&'s Crowd);

/// The right to overwrite alone.
pub struct Alone<'s> {
    crowd: &'s Crowd,
    _turn: MutexGuard<'s, ()>,
}

impl Crowd {
    /// Whether somebody overwrites alone, or waits to.
    pub fn is_taken(&self) -> bool {
        self.is_alone.load(Ordering::SeqCst)
    }

    pub(crate) fn claiming(&self) -> Claiming<'_> {
        self.taken.fetch_add(1, Ordering::SeqCst);
        Claiming(self)
    }

    pub(crate) fn alone(&self) -> Alone<'_> {
        let turn = self.turn.lock();
        self.is_alone.store(true, Ordering::SeqCst);
        let alone = Alone {
            crowd: self,
            _turn: turn,
        };
        alone.wait();
        alone
    }
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        let was = self.0.taken.fetch_sub(1, Ordering::SeqCst);
        if was == 1 && self.0.is_alone.load(Ordering::SeqCst) {
            let _state = self.0.state.lock();
            self.0.ended.notify_all();
        }
    }
}

impl Alone<'_> {
    /// Waits until no other reservation with a claim is left: who came when this one did may have taken some.
    pub fn wait(&self) {
        let until = Instant::now() + LONGEST;
        let mut state = self.crowd.state.lock();
        while self.crowd.taken.load(Ordering::SeqCst) > 0 {
            if self.crowd.ended.wait_until(&mut state, until).timed_out() {
                return;
            }
        }
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.crowd.is_alone.store(false, Ordering::SeqCst);
    }
}
