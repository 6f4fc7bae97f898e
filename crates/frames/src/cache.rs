//! Which frame holds which metablock: index, pins, dirty states, replacement.
//!
//! All of it can be recomputed (frames name themselves in their headers); it therefore lies in the heap.
//!
//! Invariants:
//! K-1 A frame in the index keeps its id until it is taken out while nobody pins it.
//! K-2 Only frames that are clean in both senses (ReconFS section 4) are taken out for replacement:
//!     not checkpoint dirty, not in a checkpoint in flight, and their redo is in the plog.

use crate::age::{Clock, Seen};
use crate::heat::{self, Heat};
use crate::ids::IdMap;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use keepfs_format::MetaId;
use keepfs_vault::Padded;
use keepfs_vault::arena::FrameNo;
use keepfs_vault::locks::{Mutex, RwLock};

/// Shards of the index.
const SHARDS: usize = 64;
/// Slots that are made at a time.
const PIECE: usize = 1 << 16;

/// Checkpoint state of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Checkpoint dirty since this epoch; 0 = clean.
    pub dirty: u64,
    /// Its content is being written by a checkpoint whose superblock is not durable yet.
    pub in_flight: bool,
}

/// What the cache knows of one frame, on a cache line of its own.
#[repr(align(64))]
pub struct Slot {
    id: AtomicU64,
    pins: AtomicU32,
    /// How soon it is replaced, once nobody uses it.
    pub heat: Heat,
    /// Out of the index; free when the last pin goes.
    doomed: AtomicBool,
    /// When the frame was last seen to be right.
    pub seen: Seen,
    /// Checkpoint and persistence state.
    pub state: Mutex<State>,
}

const _: () = assert!(size_of::<Slot>() == 64, "one cache line");

impl Slot {
    fn new() -> Slot {
        Slot {
            id: AtomicU64::new(0),
            pins: AtomicU32::new(0),
            heat: Heat::default(),
            doomed: AtomicBool::new(false),
            seen: Seen::default(),
            state: Mutex::new(State {
                dirty: 0,
                in_flight: false,
            }),
        }
    }

    /// The metablock in the frame.
    #[inline]
    pub fn id(&self) -> MetaId {
        MetaId(self.id.load(Ordering::Acquire))
    }

    /// The frame was seen to be right as a whole just now.
    #[inline]
    pub fn seen_right(&self, clock: &Clock) {
        self.seen.set(clock.now());
    }
}

/// A part of the index.
type Shard = RwLock<IdMap<MetaId, FrameNo>>;

/// Index and replacement of frames.
pub struct Cache {
    slots: Vec<Slot>,
    index: Vec<Padded<Shard>>,
    free: Padded<Mutex<Vec<FrameNo>>>,
    hand: Padded<AtomicU32>,
    /// Frames that are checkpoint dirty.
    pub dirty: Padded<AtomicU64>,
    /// Frames taken for another metablock.
    pub evictions: AtomicU64,
}

/// Keeps a frame from being replaced while it lives.
pub struct Pin<'c> {
    cache: &'c Cache,
    /// The frame.
    pub frame: FrameNo,
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        let slot = &self.cache.slots[self.frame as usize];
        if slot.pins.fetch_sub(1, Ordering::AcqRel) == 1
            && slot.doomed.load(Ordering::Acquire)
            && slot.doomed.swap(false, Ordering::AcqRel)
        {
            self.cache.clean(self.frame);
            self.cache.give_back(self.frame);
        }
    }
}

impl Pin<'_> {
    /// What the cache knows of the frame.
    #[inline]
    pub fn slot(&self) -> &Slot {
        &self.cache.slots[self.frame as usize]
    }
}

impl Cache {
    /// A cache of `count` frames, all free. `None`: who asked for it has gone meanwhile (S-16.29).
    pub fn new(count: u32, is_given_up: Option<fn() -> bool>) -> Option<Cache> {
        let count_slots = count as usize;
        let mut slots = Vec::with_capacity(count_slots);
        // Memory is had where it is written first, which of a large cache takes long.
        while slots.len() < count_slots {
            if is_given_up.is_some_and(|is_given_up| is_given_up()) {
                return None;
            }
            let piece = PIECE.min(count_slots - slots.len());
            slots.extend((0..piece).map(|_| Slot::new()));
        }
        Some(Cache {
            slots,
            index: (0..SHARDS).map(|_| Padded::default()).collect(),
            free: Padded::new(Mutex::new((0..count).rev().collect())),
            hand: Padded::default(),
            dirty: Padded::default(),
            evictions: AtomicU64::new(0),
        })
    }

    #[inline]
    fn shard(&self, id: MetaId) -> &Shard {
        let h = id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58;
        &self.index[h as usize % SHARDS]
    }

    /// What the cache knows of `frame`.
    #[inline]
    pub fn slot(&self, frame: FrameNo) -> &Slot {
        &self.slots[frame as usize]
    }

    #[inline]
    fn pinned(&self, frame: FrameNo) -> Pin<'_> {
        self.slots[frame as usize].pins.fetch_add(1, Ordering::Acquire);
        Pin { cache: self, frame }
    }

    /// Pins the frame of `id`, if it is in the arena.
    #[inline]
    pub fn pin(&self, id: MetaId) -> Option<Pin<'_>> {
        self.pin_and(id, |_| ())
    }

    /// The same; `found` is told the frame as soon as it is known.
    #[inline]
    pub fn pin_and(&self, id: MetaId, found: impl FnOnce(FrameNo)) -> Option<Pin<'_>> {
        let index = self.shard(id).read();
        let frame = *index.get(&id)?;
        found(frame);
        let pin = self.pinned(frame);
        drop(index);
        pin.slot().heat.rise();
        Some(pin)
    }

    /// The same, and it counts as no use of the frame (a scrub).
    #[inline]
    pub fn peek(&self, id: MetaId) -> Option<Pin<'_>> {
        let index = self.shard(id).read();
        Some(self.pinned(*index.get(&id)?))
    }

    /// Puts a filled frame into the index and pins it. `None` if another one is there already.
    pub fn insert(&self, id: MetaId, frame: FrameNo) -> Option<Pin<'_>> {
        let mut index = self.shard(id).write();
        if index.contains_key(&id) {
            return None;
        }
        let slot = &self.slots[frame as usize];
        slot.id.store(id.0, Ordering::Release);
        index.insert(id, frame);
        Some(self.pinned(frame))
    }

    /// Takes a metablock out of the arena that nobody names any more. Its frame becomes free when the last pin goes.
    pub fn remove(&self, id: MetaId, pin: Pin<'_>) {
        self.shard(id).write().remove(&id);
        pin.slot().doomed.store(true, Ordering::Release);
        drop(pin);
    }

    /// Makes a frame clean in every sense.
    fn clean(&self, frame: FrameNo) {
        let mut state = self.slots[frame as usize].state.lock();
        if state.dirty != 0 {
            self.dirty.fetch_sub(1, Ordering::Relaxed);
        }
        *state = State {
            dirty: 0,
            in_flight: false,
        };
    }

    /// A frame that belongs to nobody: give it to [`Cache::insert`] or back.
    pub fn give_back(&self, frame: FrameNo) {
        let slot = &self.slots[frame as usize];
        slot.id.store(0, Ordering::Release);
        slot.seen.clear();
        self.free.lock().push(frame);
    }

    /// A frame to fill: a free one, or the next cold one (decision 0673) that is clean, as a checkpoint in force has all of it;
    /// then with the metablock that it held, whose bytes are still there.
    pub fn take(&self) -> Option<(FrameNo, Option<MetaId>)> {
        if let Some(frame) = self.free.lock().pop() {
            return Some((frame, None));
        }
        let count = self.slots.len() as u32;
        // A turn that meets no cold frame is followed by one that makes all of them cold: the third finds what there is.
        let steps = [1, heat::MOST, heat::MOST]
            .into_iter()
            .flat_map(|by| (0..count).map(move |_| by));
        for by in steps {
            let frame = self.hand.fetch_add(1, Ordering::Relaxed) % count;
            if self.slots[frame as usize].heat.lower(by) {
                continue;
            }
            if let Some(id) = self.try_evict(frame) {
                self.evictions.fetch_add(1, Ordering::Relaxed);
                return Some((frame, Some(id)));
            }
        }
        None
    }

    fn try_evict(&self, frame: FrameNo) -> Option<MetaId> {
        let slot = &self.slots[frame as usize];
        let id = slot.id();
        if id.0 == 0 || slot.pins.load(Ordering::Acquire) != 0 {
            return None;
        }
        let mut index = self.shard(id).write();
        if index.get(&id) != Some(&frame) || slot.pins.load(Ordering::Acquire) != 0 {
            return None;
        }
        let state = *slot.state.lock();
        if state.dirty != 0 || state.in_flight {
            return None;
        }
        index.remove(&id);
        slot.id.store(0, Ordering::Release);
        slot.seen.clear();
        Some(id)
    }

    /// Who holds the frames, for the message when there is none.
    pub fn census(&self) -> String {
        let mut count = [0usize; 5];
        for slot in &self.slots {
            let state = *slot.state.lock();
            let holds = [
                slot.id().0 == 0,
                slot.pins.load(Ordering::Relaxed) > 0,
                state.dirty != 0,
                state.in_flight,
                slot.doomed.load(Ordering::Relaxed),
            ];
            holds
                .iter()
                .enumerate()
                .filter(|(_, h)| **h)
                .for_each(|(i, _)| count[i] += 1);
        }
        let [unused, pinned, dirty, flying, doomed] = count;
        format!("{unused} unused, {pinned} pinned, {dirty} dirty, {flying} in a checkpoint, {doomed} leaving")
    }

    /// Drops everything that is not pinned or dirty, telling `dropped` of each before it is free; for tests of fetching.
    pub fn shrink(&self, dropped: impl Fn(FrameNo, MetaId)) {
        for frame in 0..self.slots.len() as u32 {
            if let Some(id) = self.try_evict(frame) {
                dropped(frame, id);
                self.free.lock().push(frame);
            }
        }
    }
}

#[cfg(test)]
mod tests;
