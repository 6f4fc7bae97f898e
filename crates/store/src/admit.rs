//! Whether a transaction may begin: back-pressure while a checkpoint makes room (S-10.5, X-6.2).
//!
//! From the soft mark on a checkpoint is wanted: there is room for what changes while it is written. From half the way to
//! the hard mark on each transaction waits a little before it begins, the longer the nearer the hard mark is ([`SLOW_MAX`]
//! there), so that writers come down to the pace of the device instead of stopping dead. At the hard mark they wait for the
//! checkpoint.

use crate::error::{Error, Pressure};
use crate::{Flash, Store};
use core::sync::atomic::Ordering;
use keepfs_flash::checkpoint::Wish;
use keepfs_flash::segment;
use std::time::{Duration, Instant};

/// Redo kept above which everything is made durable in the background, if there is one, bytes (S-14.4).
const REDO_SOFT: usize = segment::RING / 8;
/// Redo kept above which a transaction does that itself before it begins.
const REDO_MAX: usize = segment::RING / 4;
/// Longest wait before a transaction below the hard mark.
const SLOW_MAX: Duration = Duration::from_millis(4);
/// Copies that may be kept for a checkpoint before transactions wait for it: they lie beside the arena (P-9).
pub const STASH_MAX: usize = 2048;

/// How full something is: `now` of `hard`, a checkpoint is wanted from `soft` on.
#[derive(Clone, Copy)]
struct Fill {
    now: u64,
    soft: u64,
    hard: u64,
}

impl Fill {
    fn is_hard(self) -> bool {
        self.now > self.hard
    }

    fn is_soft(self) -> bool {
        self.now > self.soft
    }

    /// How far on the second half of the way from the soft to the hard mark, in 1024ths.
    fn way(self) -> u64 {
        let slow = self.soft.midpoint(self.hard);
        let span = self.hard.saturating_sub(slow).max(1);
        (self.now.saturating_sub(slow) * 1024 / span).min(1024)
    }
}

impl Flash {
    /// Waits while there is no room for what a transaction changes.
    pub(crate) fn make_room(&self, store: &Store) -> Result<(), Error> {
        let fills = self.fills(store);
        if fills.iter().any(|f| f.is_hard()) {
            let started = Instant::now();
            let made = self.checkpoint_if(store, || self.fills(store).iter().any(|f| f.is_hard()));
            store.ground.stats.throttle.count(started.elapsed());
            made?;
        } else if fills.iter().any(|f| f.is_soft()) {
            self.checkpoints.wanted.set();
            self.slow_down(store, fills.iter().map(|f| f.way()).max().unwrap_or(0));
        }
        self.keep_redo_short(store)?;
        if !store.ground.options.background && self.checkpoints.wanted.is_set() {
            self.checkpoint(store)?;
        }
        Ok(())
    }

    /// The ring of redo never fills: what waits is made durable in the background, and here only if that does not keep up
    /// (S-14.4).
    fn keep_redo_short(&self, store: &Store) -> Result<(), Error> {
        let waiting = self.log.segment.ring_in_use();
        if store.ground.options.sync_each || waiting > REDO_MAX {
            return self.sync(store);
        }
        if waiting > REDO_SOFT && store.ground.options.background {
            self.log.cutter.ask();
        }
        Ok(())
    }

    /// Frees what a transaction, rolled back now, had not enough of.
    pub(crate) fn relieve(&self, store: &Store, what: Pressure) -> Result<(), Error> {
        match what {
            Pressure::Frames => self.checkpoint(store),
            Pressure::Checkpoint => self.checkpoint_if(store, || self.is_at_limit(&store.frames)),
            // It begins again behind the barrier.
            Pressure::Barrier => {
                store.ground.stats.told_to_abort.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Pressure::Redo => self.sync(store),
            Pressure::Owned => {
                crate::locks::yield_now();
                Ok(())
            }
            Pressure::Cradle(id) => store.cradle(id).map(drop),
            Pressure::Staged(room) => {
                self.checkpoint(store)?;
                let mut table = self.staged.table.lock();
                if !table.take_room(room) {
                    return Err(Error::NoSpace);
                }
                table.give_room(room);
                Ok(())
            }
        }
    }

    /// What waits for a checkpoint against the room kept for it (S-10.5); frames that cannot be evicted against the arena;
    /// copies.
    fn fills(&self, store: &Store) -> [Fill; 3] {
        let dirty = store.frames.cache.dirty.load(Ordering::Relaxed);
        let most = self.rewrite_most();
        let frames = u64::from(store.frames.arena.count());
        let held = dirty + self.checkpoints.in_flight.load(Ordering::Relaxed);
        let copies = self.checkpoints.stash.count() as u64;
        [
            Fill {
                now: self.weight(&store.frames),
                soft: most / 2,
                hard: most * 7 / 8,
            },
            Fill {
                now: held,
                soft: frames * 5 / 8,
                hard: frames * 3 / 4,
            },
            Fill {
                now: copies,
                soft: STASH_MAX as u64 / 2,
                hard: STASH_MAX as u64,
            },
        ]
    }

    /// Waits a part of [`SLOW_MAX`] that grows with the square of `way`, or until a checkpoint has ended.
    fn slow_down(&self, store: &Store, way: u64) {
        if !store.ground.options.background {
            return;
        }
        let wait = SLOW_MAX * (way * way / 1024) as u32 / 1024;
        if wait < Duration::from_micros(50) {
            return; // Less than a timer can do.
        }
        let started = Instant::now();
        self.checkpoints.wanted.wait_done(wait);
        store.ground.stats.throttle.count(started.elapsed());
    }

    /// A checkpoint, unless the one that this waited for was enough.
    fn checkpoint_if(&self, store: &Store, needed: impl Fn() -> bool) -> Result<(), Error> {
        let mut keeper = self.checkpoints.keeper.lock();
        if !needed() {
            return Ok(());
        }
        store.ground.alive()?;
        self.checkpoint_with(store, &mut keeper, Wish::default())
    }
}
