//! Requests under way, in memory that outlives the server: which of them have done what they shall, so that a restarted
//! server executes none twice (S-16.2, S-16.3).
//!
//! A thread works on one request at a time and has a slot of its own. It overwrites the slot with its next request: the
//! reply to the one before has been sent by then.
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
use std::cell::RefCell;
use std::collections::HashMap;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Most requests of earlier lives that are carried on: those that nobody sends again any more make room for others.
const CARRIED_MAX: usize = SLOTS / 2;

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

/// All slots.
struct Table {
    region: Region,
    /// Slots that no thread has.
    free: Mutex<Vec<usize>>,
    /// By number.
    carried: Mutex<HashMap<u64, Carried>>,
    carried_count: AtomicUsize,
}

/// The slot of a thread, given back when the thread ends.
struct Mine {
    table: Weak<Table>,
    slot: usize,
    unique: u64,
    /// Whether the request has done what it shall.
    done: bool,
}

impl Drop for Mine {
    fn drop(&mut self) {
        if let Some(table) = self.table.upgrade() {
            table.free.lock().push(self.slot);
        }
    }
}

thread_local! {
    static MINE: RefCell<Option<Mine>> = const { RefCell::new(None) };
}

/// Requests under way.
pub struct Requests(Arc<Table>);

impl Requests {
    /// Empty slots that belong to the redo ring of this incarnation. Errors: `Memory`.
    pub fn new(guard: Guard, seal: bool, incarnation: u64) -> Result<Requests, Error> {
        Ok(Requests(Arc::new(Table {
            region: slots::make(guard, seal, incarnation)?,
            free: Mutex::new((0..SLOTS).rev().collect()),
            carried: Mutex::default(),
            carried_count: AtomicUsize::new(0),
        })))
    }

    /// For who holds the memory beyond this process.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.region.descriptor()
    }

    /// This thread works on request `unique` from here on. The same once more changes nothing: one request may be several
    /// operations.
    pub fn begin(&self, unique: u64) {
        MINE.with_borrow_mut(|mine| {
            let mine = self.0.mine(mine);
            if let Some(mine) = mine.filter(|mine| mine.unique != unique) {
                let carried = self.0.take(unique);
                let lives = carried.map_or(0, |carried| carried.met.attempts);
                slots::begin(&self.0.region, mine.slot, unique, lives + 1);
                (mine.unique, mine.done) = (unique, false);
                // Both say the same until here.
                self.0.let_go(carried);
            }
        });
    }

    /// What is known of a request from earlier lives. One that is done is this thread's from here on.
    pub fn again(&self, unique: u64) -> Option<Again> {
        if self.0.carried_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let known = self.0.carried.lock().get(&unique).map(|carried| carried.met)?;
        if !known.done {
            return Some(Again::Begun(known.attempts));
        }
        MINE.with_borrow_mut(|mine| {
            if let Some(mine) = self.0.mine(mine) {
                let carried = self.0.take(unique);
                slots::put(&self.0.region, mine.slot, &known);
                (mine.unique, mine.done) = (unique, true);
                self.0.let_go(carried);
            }
        });
        Some(Again::Done((known.ino != 0).then_some(known.ino)))
    }

    /// The transaction in this undo slot and generation does what this thread's request shall do; its reply names `ino`, or
    /// 0. Called before the state word is stored.
    pub fn name(&self, (undo, generation): (u16, u32), ino: u64) {
        self.with_mine(|mine| slots::name(&self.0.region, mine.slot, mine.unique, (undo, generation), ino));
    }

    /// That transaction is committed as number `seq`. Called before its undo slot is retired.
    pub fn done(&self, seq: u64) {
        self.with_mine(|mine| {
            slots::done(&self.0.region, mine.slot, seq);
            mine.done = true;
        });
    }

    /// The lookup that the reply to this thread's request stands for is counted.
    pub fn raised(&self) {
        self.with_mine(|mine| {
            if mine.done {
                slots::set_state(&self.0.region, mine.slot, State::Raised);
            }
        });
    }

    fn with_mine(&self, f: impl FnOnce(&mut Mine)) {
        MINE.with_borrow_mut(|mine| {
            let table = Arc::as_ptr(&self.0);
            mine.as_mut()
                .filter(|mine| std::ptr::eq(mine.table.as_ptr(), table))
                .map(f);
        });
    }

    /// Carries on what earlier lives left, the newest first, before anybody begins one.
    pub fn carry(&self, mut met: Vec<Met>) {
        met.sort_unstable_by_key(|met| core::cmp::Reverse(met.unique));
        let mut carried = self.0.carried.lock();
        for met in met.into_iter().take(CARRIED_MAX) {
            let Some(slot) = self.0.free.lock().pop() else { return };
            slots::put(&self.0.region, slot, &met);
            carried.insert(met.unique, Carried { slot, met });
        }
        self.0.carried_count.store(carried.len(), Ordering::Release);
    }
}

impl Table {
    /// The slot of this thread; `None` if all are in use, by more threads than a server has.
    fn mine<'m>(self: &Arc<Table>, mine: &'m mut Option<Mine>) -> Option<&'m mut Mine> {
        let is_ours = |mine: &Mine| std::ptr::eq(mine.table.as_ptr(), Arc::as_ptr(self));
        if !mine.as_ref().is_some_and(is_ours) {
            *mine = self.free.lock().pop().map(|slot| Mine {
                table: Arc::downgrade(self),
                slot,
                unique: 0,
                done: false,
            });
        }
        mine.as_mut()
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

    /// Its slot is free.
    fn let_go(&self, carried: Option<Carried>) {
        if let Some(Carried { slot, .. }) = carried {
            slots::set_state(&self.region, slot, State::Free);
            self.free.lock().push(slot);
        }
    }
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
