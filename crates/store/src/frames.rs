//! The frames of metadata in memory: the arena, which frame has which metablock, and which metablocks nobody may use.

use crate::age::Clock;
use crate::cache::Cache;
use crate::error::Error;
use crate::fence::Fences;
use crate::options::StoreOptions;
use crate::txn::FRAMES_MAX;
use keepfs_codes::{Code, Protection};
use keepfs_format::PAGE;
use keepfs_vault::arena::Arena;

/// Smallest arena of a mounted pool, bytes: room for the largest transactions beside a checkpoint.
pub const ARENA_MIN: usize = 16 << 20;
/// Least frames an arena needs to hold the largest transaction beside a checkpoint.
const FRAMES_LEAST: u32 = FRAMES_MAX as u32 * 3 / 2;

/// The frames.
pub struct Frames {
    /// Their bytes and sums, which only the vault writes.
    pub arena: Arena,
    /// Which metablock lies in which, and who uses it.
    pub cache: Cache,
    /// Tells when one was last seen to be right.
    pub clock: Clock,
    /// The metablocks that are fenced (S-15.17).
    pub fences: Fences,
}

impl Frames {
    /// As many as the options ask for, and no fewer than `needed`, all empty. Errors: there is no memory, or no such guard.
    pub fn new(o: &StoreOptions, code: Protection, needed: u64) -> Result<Frames, Error> {
        let wanted = (o.arena_bytes / PAGE) as u64;
        let frames = wanted.max(needed).clamp(u64::from(FRAMES_LEAST), 1 << 30) as u32;
        Ok(Frames {
            arena: match o.lasting {
                true => Arena::lasting(frames, o.guard, o.seal, code)?,
                false => Arena::protected(frames, o.guard, o.seal, code)?,
            },
            cache: Cache::new(frames),
            clock: Clock::new(),
            fences: Fences::default(),
        })
    }

    /// Errors: the options ask for an arena that is too small for the largest transactions.
    pub fn check_size(o: &StoreOptions) -> Result<(), Error> {
        match o.arena_bytes < ARENA_MIN && !o.tiny_arena {
            true => Err(Error::BadPool(format!(
                "the arena must have at least {} MiB",
                ARENA_MIN >> 20
            ))),
            false => Ok(()),
        }
    }

    /// Frames that may be dirty at most: all but what the largest transactions need beside them.
    pub fn dirty_most(&self) -> u64 {
        let frames = u64::from(self.arena.count());
        (frames / 2).max(frames.saturating_sub(4 * FRAMES_MAX as u64))
    }

    /// See [`crate::Store::try_room`].
    pub fn try_room(&self, code: Protection) -> Result<(), Error> {
        let more = code.parity_len().saturating_sub(self.arena.code().parity_len());
        let bytes = more * self.arena.count() as usize;
        let failed = |_| Error::NoRoom { bytes };
        let mut window = Vec::<u8>::new();
        window.try_reserve_exact(bytes).map_err(failed)?;
        let mut file = Vec::<u8>::new();
        file.try_reserve_exact(bytes).map_err(failed)?;
        // Every page is had, not only promised.
        file.resize(bytes, 1);
        core::hint::black_box((&file, &window));
        Ok(())
    }
}
