//! Requests under way, in memory that outlives the server: which of them have done what they shall, so that a restarted
//! server executes none twice (S-16.2, S-16.3).
//!
//! Whoever does requests does one at a time and has a seat: the number of his slot. He overwrites the slot with his next
//! request: the reply to the one before has been sent by then. What belongs to a request is told so by its [`Running`], an
//! argument on the whole way from the kernel's side to the transaction.
//!
//! Invariants:
//! Q-1 A slot's state word is stored after the words that it speaks of, and is free before they change.
//! Q-2 A request is done exactly if its slot says so, or names an undo slot that is COMMITTED in the generation named.

mod slots;

pub(crate) use slots::{Left, Met};

use crate::error::Error;
use crate::locks::Mutex;
use keepfs_memory::{Guard, Region};
use slots::{SLOTS, State};
use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Seats that have a slot, more than a server has threads. The slots behind are of requests of earlier lives: the newest so many
/// are carried on, as those that nobody sends again any more make room for others.
const SEATS: usize = SLOTS / 2;

/// What is known of a request that the kernel sends again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Again {
    /// It was executed before the server died; the inode that its reply names, if it names one. Its lookup is counted.
    Done(Option<u64>),
    /// It was begun, and did not come to its end, in so many lives that ended.
    Begun(u32),
}

/// A request of an earlier life.
#[derive(Clone, Copy, Debug)]
struct Carried {
    slot: usize,
    met: Met,
}

/// A request that is being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Running {
    slot: usize,
    unique: u64,
}

/// Requests under way.
pub struct Requests {
    region: Region,
    /// By number.
    carried: Mutex<HashMap<u64, Carried>>,
    carried_count: AtomicUsize,
}

impl Requests {
    /// Empty slots that belong to the redo ring of this incarnation. Errors: `Memory`.
    pub fn new(guard: Guard, seal: bool, incarnation: u64) -> Result<Requests, Error> {
        Ok(Requests {
            region: slots::make(guard, seal, incarnation)?,
            carried: Mutex::default(),
            carried_count: AtomicUsize::new(0),
        })
    }

    /// For who holds the memory beyond this process.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.region.descriptor()
    }

    /// Request `unique` is done from here on by who has this seat; `None`: of a seat without a slot nothing is kept.
    pub fn begin(&self, unique: u64, seat: u32) -> Option<Running> {
        let slot = slot_of(seat)?;
        let carried = self.take(unique);
        let lives = carried.map_or(0, |carried| carried.met.attempts);
        slots::begin(&self.region, slot, unique, lives + 1);
        // Both say the same until here.
        self.let_go(carried);
        Some(Running { slot, unique })
    }

    /// What is known of a request from earlier lives. One that is done stands in the slot of this seat from here on.
    pub fn again(&self, unique: u64, seat: u32) -> Option<Again> {
        if self.carried_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let known = self.carried.lock().get(&unique).map(|carried| carried.met)?;
        if !known.done {
            return Some(Again::Begun(known.attempts));
        }
        if let Some(slot) = slot_of(seat) {
            let carried = self.take(unique);
            slots::put(&self.region, slot, &known);
            self.let_go(carried);
        }
        Some(Again::Done((known.ino != 0).then_some(known.ino)))
    }

    /// The transaction in this undo slot and generation does what the request shall do; its reply names `ino`, or 0. Called
    /// before the state word is stored.
    pub fn name(&self, running: Running, (undo, generation): (u16, u32), ino: u64) {
        slots::name(&self.region, running.slot, running.unique, (undo, generation), ino);
    }

    /// That transaction is committed as number `seq`. Called before its undo slot is retired.
    pub fn done(&self, running: Running, seq: u64) {
        slots::done(&self.region, running.slot, seq);
    }

    /// The lookup that the reply to the request stands for is counted.
    pub fn raised(&self, running: Running) {
        slots::raised(&self.region, running.slot);
    }

    /// Carries on what earlier lives left, the newest first, before anybody begins one.
    pub fn carry(&self, mut met: Vec<Met>) {
        met.sort_unstable_by_key(|met| core::cmp::Reverse(met.unique));
        let mut carried = self.carried.lock();
        for (slot, met) in (SEATS..SLOTS).zip(met) {
            slots::put(&self.region, slot, &met);
            carried.insert(met.unique, Carried { slot, met });
        }
        self.carried_count.store(carried.len(), Ordering::Release);
    }

    /// Takes a request of an earlier life out of the index; its slot stays.
    fn take(&self, unique: u64) -> Option<Carried> {
        if self.carried_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut carried = self.carried.lock();
        let taken = carried.remove(&unique);
        self.carried_count.store(carried.len(), Ordering::Release);
        taken
    }

    /// Its slot says nothing any more.
    fn let_go(&self, carried: Option<Carried>) {
        if let Some(Carried { slot, .. }) = carried {
            slots::set_state(&self.region, slot, State::Free);
        }
    }
}

/// The slot of a seat, if it has one.
fn slot_of(seat: u32) -> Option<usize> {
    Some(seat as usize).filter(|slot| *slot < SEATS)
}

impl Left {
    /// The slots that an earlier life of the server left, which belong to the redo ring of `incarnation`, if that is known.
    /// Errors: `Memory`, `Damaged`.
    pub fn adopt(memory: OwnedFd, guard: Guard, incarnation: Option<u64>) -> Result<Left, Error> {
        slots::adopt(memory, guard, incarnation)
    }
}

#[cfg(test)]
mod tests;
