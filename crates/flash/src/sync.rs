//! Who makes transactions durable, up to where they are, and how much of the log that takes.

mod state;

pub use state::{Given, Log, LogState, SeenLog};

use crate::log;
use crate::redo::Spare;
use crate::segment::RING;
use keepfs_format::PAGE;
use keepfs_vault::locks::{Condvar, Mutex};
use keepfs_vault::planted::{self, Bug};

/// Most pages of a group that syncs write (S-8.10): the whole ring of redo, and compaction only makes it shorter.
pub const fn group_pages_max() -> u64 {
    log::pages_of(RING)
}

/// Log pages of staged data that weighs so many whole pages: four small ones with their heads take more than a whole one.
pub const fn carry_pages(weight: usize) -> u64 {
    log::pages_of_carried(weight * (PAGE + 4 * 48))
}

/// Log pages that are kept for what a recovery carries over, whatever is staged (S-10.8).
pub fn carry_room(staged_most: usize) -> u64 {
    match planted::is(Bug::RoomOnce) {
        true => 0,
        false => carry_pages(staged_most),
    }
}

/// Who is cutting a group, and up to which transaction everything is durable.
#[derive(Default)]
pub struct Sync {
    state: Mutex<SyncState>,
    turn: Condvar,
    /// For who has the lead.
    pub spare: Spare,
}

#[derive(Default)]
struct SyncState {
    running: bool,
    durable: u64,
}

/// The right to cut groups; only one thread has it.
pub struct Lead<'s>(&'s Sync);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running = false;
        self.0.turn.notify_all();
    }
}

impl Sync {
    /// The right to cut groups, if nobody has it.
    pub fn try_lead(&self) -> Option<Lead<'_>> {
        let mut state = self.state.lock();
        // Made only if it is given: a Lead that is dropped here would lock `state` again and end another's lead.
        (!core::mem::replace(&mut state.running, true)).then(|| Lead(self))
    }

    /// Waits for the right to cut groups.
    pub fn lead(&self) -> Lead<'_> {
        let mut state = self.state.lock();
        while state.running {
            self.turn.wait(&mut state);
        }
        state.running = true;
        Lead(self)
    }

    /// Everything up to transaction `seq` is durable.
    pub fn reached(&self, seq: u64) {
        let mut state = self.state.lock();
        state.durable = state.durable.max(seq);
    }

    /// Up to which transaction everything is durable.
    pub fn durable(&self) -> u64 {
        self.state.lock().durable
    }

    /// `None` when `target` is durable, else the right to make it so.
    pub fn wait_or_lead(&self, target: u64) -> Option<Lead<'_>> {
        let mut state = self.state.lock();
        while state.durable < target {
            if !state.running {
                state.running = true;
                return Some(Lead(self));
            }
            self.turn.wait(&mut state);
        }
        None
    }
}

#[cfg(test)]
mod tests;
