//! The operation log and the state table (SPEC section 12; Greenan and Miller 2006, section 4).
//!
//! Two guarded regions of two halves each: the live halves, to which commits append, and the previous ones, which
//! a checker reads. [`OpLog::swap`] exchanges them; a commit that finds no room does so itself.
//!
//! Invariants:
//! O-1 Entries are appended under the redo lock, so their order is the order of commit (S-12.1).
//! O-2 An entry is complete before its transaction's state word is stored and counts only after it: the half's head
//!     is moved on by [`Appended::publish`] (S-12.1).
//! O-3 Every object with an operation in a half has a state in it, taken before the first of them (S-12.4).

mod draft;
mod read;

pub(crate) use draft::Draft;
pub use read::{EarlierState, Half, LoggedTxn};

use crate::error::Error;
use crate::locks::{Mutex, MutexGuard};
use keepfs_codes::crc64;
use keepfs_format::IntoBytes;
use keepfs_format::oplog::{HALF_HEAD, HalfHead, STATE, StateEntry};
use keepfs_frames::ids::IdMap;
use keepfs_memory::{Guard, Region};
use std::sync::Arc;

/// Bytes of a half of the operation log.
const LOG_HALF: usize = 2 << 20;
/// Entries of a half of the state table.
const STATES_HALF: usize = 4096;

/// What the heap knows of a half: all of it follows from the regions (S-12.2).
#[derive(Default)]
struct Ends {
    incarnation: u64,
    /// Bytes used, the head's among them.
    end: usize,
    /// CRC of the last transaction's entry, or the incarnation.
    chain: u64,
    /// Objects in the state table.
    objects: IdMap<u64, ()>,
}

struct Inner {
    halves: [Ends; 2],
    live: usize,
    /// Swaps because there was no room.
    forced: u64,
}

/// Both logs.
pub(crate) struct OpLog {
    log: Region,
    states: Region,
    inner: Mutex<Inner>,
}

/// A transaction whose entries stand in the log but do not count yet (O-2).
pub(crate) struct Appended<'o> {
    oplog: &'o OpLog,
    inner: MutexGuard<'o, Inner>,
    end: usize,
    chain: u64,
    /// Something else changed what was to be appended: it was left out.
    stray: bool,
}

impl OpLog {
    /// Empty logs with a new incarnation.
    pub fn new(guard: Guard, seal: bool) -> Result<OpLog, Error> {
        let region = |name: &str, bytes: usize| {
            Region::new(name, bytes, guard, seal).map_err(|source| Error::Memory {
                bytes,
                source: Arc::new(source),
            })
        };
        let mut first = [0; 8];
        getrandom::fill(&mut first).map_err(|e| Error::Logic(format!("no random numbers: {e}")))?;
        let oplog = OpLog {
            log: region("keepfs-oplog", 2 * LOG_HALF)?,
            states: region("keepfs-states", 2 * STATES_HALF * STATE)?,
            inner: Mutex::new(Inner {
                halves: Default::default(),
                live: 0,
                forced: 0,
            }),
        };
        // Room for as many swaps as there will ever be before the number would wrap.
        let incarnation = u64::from_le_bytes(first) >> 1;
        let mut inner = oplog.inner.lock();
        oplog.start(&mut inner, 1, incarnation);
        oplog.start(&mut inner, 0, incarnation + 1);
        drop(inner);
        Ok(oplog)
    }

    /// Makes a half empty and live.
    fn start(&self, inner: &mut Inner, half: usize, incarnation: u64) {
        let ends = &mut inner.halves[half];
        ends.incarnation = incarnation;
        ends.end = HALF_HEAD;
        ends.chain = incarnation;
        ends.objects.clear();
        let head = HalfHead {
            incarnation: incarnation.into(),
            end: (HALF_HEAD as u64).into(),
            ..HalfHead::default()
        };
        self.log.store(half * LOG_HALF, head.as_bytes());
        inner.live = half;
    }

    fn swap_locked(&self, inner: &mut Inner) {
        let next = inner.halves[inner.live].incarnation + 1;
        let other = 1 - inner.live;
        self.start(inner, other, next);
    }

    /// The live halves become the previous ones, and empty ones live (S-12.6).
    pub fn swap(&self) {
        self.swap_locked(&mut self.inner.lock());
    }

    /// Swaps that a full half forced.
    pub fn forced_swaps(&self) -> u64 {
        self.inner.lock().forced
    }

    /// Appends a transaction's operations, and the states of objects that have none in the half. Called under the
    /// redo lock (O-1); the transaction is about to commit as number `seq`.
    pub fn append(&self, seq: u64, draft: &mut Draft) -> Appended<'_> {
        let mut inner = self.inner.lock();
        if !has_room(&inner.halves[inner.live], draft) {
            inner.forced += 1;
            self.swap_locked(&mut inner);
        }
        if !has_room(&inner.halves[inner.live], draft) {
            // Longer than a whole half.
            return self.leave_out(inner, false);
        }
        let live = inner.live;
        let ends = &mut inner.halves[live];
        self.append_states(live, ends, seq, draft);
        let bytes = draft.finish(seq, ends.chain);
        self.log.store(live * LOG_HALF + ends.end, bytes);
        let (end, chain) = (ends.end + bytes.len(), draft.crc());
        if !draft.is_right() {
            return self.leave_out(inner, true);
        }
        Appended {
            oplog: self,
            inner,
            end,
            chain,
            stray: false,
        }
    }

    /// A transaction is left out, and both halves are emptied (S-12.6).
    fn leave_out<'o>(&'o self, mut inner: MutexGuard<'o, Inner>, stray: bool) -> Appended<'o> {
        self.swap_locked(&mut inner);
        self.swap_locked(&mut inner);
        let ends = &inner.halves[inner.live];
        let (end, chain) = (ends.end, ends.chain);
        Appended {
            oplog: self,
            inner,
            end,
            chain,
            stray,
        }
    }

    fn append_states(&self, half: usize, ends: &mut Ends, seq: u64, draft: &Draft) {
        for (object, inode, _) in draft.earlier() {
            if ends.objects.contains_key(object) {
                continue;
            }
            let mut entry = StateEntry {
                crc: 0.into(),
                object: (*object).into(),
                seq: seq.into(),
                reserved: 0.into(),
                inode: *inode,
            };
            entry.crc = crc64::seeded(ends.incarnation, &entry.as_bytes()[8..]).into();
            let at = half * STATES_HALF + ends.objects.len();
            self.states.store(at * STATE, entry.as_bytes());
            ends.objects.insert(*object, ());
        }
    }
}

/// Whether everything of a draft fits.
fn has_room(ends: &Ends, draft: &Draft) -> bool {
    ends.end + draft.len() <= LOG_HALF && ends.objects.len() + draft.earlier().len() <= STATES_HALF
}

impl Appended<'_> {
    /// The transaction is committed: its entries count from here on (O-2). Whether something else changed what was to be
    /// appended, so that it was left out (S-13.16).
    pub fn publish(mut self) -> bool {
        let live = self.inner.live;
        let ends = &mut self.inner.halves[live];
        ends.end = self.end;
        ends.chain = self.chain;
        let base = live * LOG_HALF;
        let states = ends.objects.len() as u64;
        let at = |field| base + field;
        let log = &self.oplog.log;
        log.store_u64(at(core::mem::offset_of!(HalfHead, states)), states);
        log.store_u64(at(core::mem::offset_of!(HalfHead, end)), self.end as u64);
        self.stray
    }
}

#[cfg(test)]
mod tests;
