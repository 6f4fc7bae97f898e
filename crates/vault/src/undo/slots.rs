//! The words of a slot and its records, as a restarted server finds them (S-13.2, S-13.3).

use super::{HEAD, Kept, SLOT, SLOT_HEAD, SLOTS, Told, UndoLog, len_in, size_of};
use core::sync::atomic::Ordering;
use keepfs_format::PAGE;

/// Slot head: state and generation.
pub(super) const STATE: usize = 0;
/// Slot head: number of the committed transaction.
pub(super) const SEQ: usize = 8;
/// Slot head: records that count.
pub(super) const COUNT: usize = 16;
/// Slot head: 0, or 1 + the records not taken back yet by the transaction itself.
pub(super) const LEFT: usize = 24;
/// Slot head: 0, or the first stray write that a restart found inside a range of this slot.
const NOTE: usize = 48;
/// After the last slot: nonzero while all slots are being retired.
const RETIRING: usize = SLOTS * SLOT;
/// Behind that, and half a page further: how slots and records are laid out. A stray write hits one of them.
pub(super) const LAYOUT: [usize; 2] = [RETIRING + 8, RETIRING + 8 + PAGE / 2];
/// Value of these words.
pub(super) const LAYOUT_NOW: u64 = 2;
/// Value of that word.
const RETIRING_NOW: u64 = 0x6B5A_94D3_1E87_C2F1;
/// Bit of [`NOTE`] that a restart has begun to write (frame numbers are below 2^30).
const RESTARTED: u64 = 1 << 63;

/// What a slot's state word says. The constants are far apart (S-1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nobody uses it, or its transaction is retired.
    Free,
    /// Records count and must be undone.
    Open,
    /// The transaction is committed; its records are void.
    Committed,
}

impl State {
    const fn constant(self) -> u32 {
        match self {
            State::Free => 0x35C9_6A0F,
            State::Open => 0x9A63_D1C5,
            State::Committed => 0x659C_2E3A,
        }
    }

    pub(super) const fn word(self, generation: u32) -> u64 {
        (self.constant() as u64) << 32 | generation as u64
    }

    fn of(word: u64) -> Option<State> {
        let states = [State::Free, State::Open, State::Committed];
        let found = states.into_iter().find(|s| u64::from(s.constant()) == word >> 32);
        found.or((word == 0).then_some(State::Free))
    }
}

/// The head of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// `None`: damaged.
    pub state: Option<State>,
    /// Which life of the slot it is.
    pub generation: u32,
    /// Records that count.
    pub count: u32,
    /// The transaction was being rolled back by its own server: so many records are left.
    pub left: Option<u32>,
    /// First stray write found by an earlier restart: frame, offset, length.
    pub note: Option<(u32, usize, usize)>,
    /// A restart has begun to write frames.
    pub restarted: bool,
}

impl UndoLog {
    /// Number of slots.
    pub fn slots(&self) -> core::ops::Range<usize> {
        0..SLOTS
    }

    /// The number that slot `slot` committed in its generation `generation`, if it did (S-14.3).
    pub fn committed(&self, slot: u16, generation: u32) -> Option<u64> {
        let slot = usize::from(slot);
        let is_committed = slot < SLOTS && self.get(slot, STATE) == State::Committed.word(generation);
        is_committed.then(|| self.get(slot, SEQ))
    }

    #[inline]
    fn get(&self, slot: usize, word: usize) -> u64 {
        self.region.load_u64(slot * SLOT + word, Ordering::Acquire)
    }

    #[inline]
    pub(super) fn set(&self, slot: usize, word: usize, value: u64) {
        self.region.store_u64(slot * SLOT + word, value);
    }

    /// A stray write into a slot.
    #[cfg(any(test, feature = "schedules"))]
    pub fn scribble(&self, slot: usize, word: usize, xor: u64) {
        self.region.xor_u64(slot * SLOT + word, xor);
    }

    /// A new life of a slot.
    pub(super) fn begin(&self, slot: usize, generation: u32) {
        for word in [COUNT, LEFT, NOTE] {
            self.set(slot, word, 0);
        }
        self.set(slot, STATE, State::Open.word(generation));
    }

    /// The head of a slot.
    pub fn head(&self, slot: usize) -> Head {
        let state = self.get(slot, STATE);
        let note = self.get(slot, NOTE);
        let place = note & !RESTARTED;
        Head {
            state: State::of(state),
            generation: state as u32,
            count: u32::try_from(self.get(slot, COUNT)).unwrap_or(u32::MAX),
            left: less_one(self.get(slot, LEFT)),
            note: (place != 0).then(|| {
                let (frame, range) = ((place >> 32) as u32, place as u32);
                (frame, (range >> 16) as usize, (range & 0xffff) as usize)
            }),
            restarted: note & RESTARTED != 0,
        }
    }

    /// Restart: frames are going to be written; `found` is a stray write that will not be seen after that.
    pub(crate) fn restarting(&self, slot: usize, found: Option<(u32, usize, usize)>) {
        let place = found.map_or(0, |(frame, offset, len)| {
            u64::from(frame) << 32 | (offset as u64) << 16 | len as u64
        });
        self.set(slot, NOTE, RESTARTED | place);
    }

    /// What the open transaction of a slot, if there is one, has changed in a frame that nobody writes to now, and whether
    /// the last of these changes may be in flight. Nobody commits meanwhile. `None`: the slot is damaged.
    pub fn open_records(&self, slot: usize, frame: u32) -> Option<(Vec<Kept>, bool)> {
        loop {
            let head = self.head(slot);
            if head.state? != State::Open {
                return Some((Vec::new(), false));
            }
            // What was taken back already need not read back.
            let count = head.count.min(head.left.unwrap_or(u32::MAX));
            let records = self.counted(slot, &Head { count, ..head }).map(|(records, _)| records);
            let now = self.head(slot);
            if (now.state, now.generation) != (head.state, head.generation) {
                continue;
            }
            let mut records = records?;
            let in_flight = records.last().is_some_and(|last| last.frame == frame);
            records.retain(|kept| kept.frame == frame);
            return Some((records, in_flight));
        }
    }

    /// The records that count, and where they end.
    fn counted(&self, slot: usize, head: &Head) -> Option<(Vec<Kept>, usize)> {
        let mut records = Vec::new();
        let mut at = SLOT_HEAD;
        for number in 0..head.count {
            let kept = self.read(slot, at, head.generation)?;
            if kept.number != number {
                return None;
            }
            at += size_of(kept.old.len());
            records.push(kept);
        }
        Some((records, at))
    }

    /// The records of a slot that count, in order; `None` if one of them is damaged.
    pub fn records(&self, slot: usize, head: &Head) -> Option<Vec<Kept>> {
        let (records, mut at) = self.counted(slot, head)?;
        // One record may be complete before it counts (U-1); two mean that the count is damaged.
        let mut beyond = 0;
        while let Some(kept) = self.read(slot, at, head.generation) {
            if kept.number != head.count + beyond {
                break;
            }
            beyond += 1;
            at += size_of(kept.old.len());
        }
        (beyond <= 1).then_some(records)
    }

    /// One record, if it is whole and of this life of the slot.
    pub(super) fn read(&self, slot: usize, at: usize, generation: u32) -> Option<Kept> {
        let mut head = [0; HEAD];
        if at + HEAD > SLOT {
            return None;
        }
        self.region.load(slot * SLOT + at, &mut head);
        let size = size_of(len_in(&head));
        if at + size > SLOT {
            return None;
        }
        let mut bytes = vec![0; size];
        self.region.load(slot * SLOT + at, &mut bytes);
        Told::of(&bytes, generation).map(|told| told.kept())
    }

    /// Whether a retirement of all slots was begun.
    pub(crate) fn is_retiring(&self) -> bool {
        self.region.load_u64(RETIRING, Ordering::Acquire) == RETIRING_NOW
    }

    /// Retires all slots: one store decides, the rest is repeated from it.
    pub(crate) fn retire(&self) {
        self.region.store_u64(RETIRING, RETIRING_NOW);
        for slot in self.slots() {
            let generation = self.head(slot).generation;
            self.set(slot, STATE, State::Free.word(generation));
            let known = &self.uses[slot];
            known
                .generation
                .store(u64::from(generation.wrapping_add(1)), Ordering::Relaxed);
            known.taken.store(false, Ordering::Release);
        }
        self.region.store_u64(RETIRING, 0);
    }
}

fn less_one(word: u64) -> Option<u32> {
    word.checked_sub(1).and_then(|n| u32::try_from(n).ok())
}
