//! The frames of metadata in memory: the arena, which frame has which metablock, and which metablocks nobody may use.

use crate::age::Clock;
use crate::cache::{Cache, Pin};
use crate::evidence::Part;
use crate::fence::{Fences, unwritable};
use crate::known::Known;
use crate::named::{Ref, header_in};
use keepfs_codes::identity::Binding;
use keepfs_codes::{Code, Protection};
use keepfs_format::metablock::HEADER;
use keepfs_format::{Header, PAGE};
use keepfs_pool::{Error, Ground, StoreOptions};
use keepfs_vault::arena::{Arena, Damaged, FrameNo};
use keepfs_vault::undo::UndoLog;
use std::sync::Arc;

/// Most frames one transaction may touch in a small arena.
pub const FRAMES_MAX: usize = 256;
/// Smallest arena of a mounted pool, bytes: room for the largest transactions beside a checkpoint.
pub const ARENA_MIN: usize = 16 << 20;
/// Least frames an arena needs to hold the largest transaction beside a checkpoint.
const FRAMES_LEAST: u32 = FRAMES_MAX as u32 * 3 / 2;

/// The frames.
pub struct Frames {
    /// What they stand on.
    pub ground: Arc<Ground>,
    /// Their bytes and sums, which only the vault writes.
    pub arena: Arena,
    /// Which metablock lies in which, and who uses it.
    pub cache: Cache,
    /// Tells when one was last seen to be right.
    pub clock: Clock,
    /// The metablocks that are fenced (S-15.17).
    pub fences: Fences,
    /// What open transactions replaced in them.
    pub undo: UndoLog,
    /// What TOTALS says (S-17.6).
    pub known: Known,
}

impl Frames {
    /// As many as the options ask for, and no fewer than `needed`, all empty. Errors: there is no memory, or no such guard.
    pub fn new(ground: Arc<Ground>, needed: u64) -> Result<Frames, Error> {
        let (o, code) = (&ground.options, ground.pool.protect);
        let wanted = (o.arena_bytes / PAGE) as u64;
        let frames = wanted.max(needed).clamp(u64::from(FRAMES_LEAST), 1 << 30) as u32;
        let cache = Cache::new(frames, o.given_up).ok_or_else(|| Error::Memory {
            bytes: o.arena_bytes,
            source: Arc::new(std::io::Error::other("who asked for it has gone")),
        })?;
        Ok(Frames {
            cache,
            arena: match o.lasting {
                true => Arena::lasting(frames, o.guard, o.seal, code)?,
                false => Arena::protected(frames, o.guard, o.seal, code)?,
            },
            clock: Clock::start(),
            fences: Fences::default(),
            undo: match o.lasting {
                true => UndoLog::lasting(o.guard, o.seal)?,
                false => UndoLog::new(o.guard, o.seal)?,
            },
            known: Known::default(),
            ground,
        })
    }

    /// Whose the frame of `r` is.
    #[inline]
    pub fn binding(&self, r: Ref) -> Binding {
        self.ground.pool.binding(r.id, r.kind as u8)
    }

    /// What open transactions have recorded for the frame. `None`: a slot is damaged.
    pub fn open_parts(&self, frame: FrameNo) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        for slot in self.undo.slots() {
            let (records, in_flight) = self.undo.open_records(slot, frame)?;
            if !records.is_empty() {
                parts.push(Part { records, in_flight });
            }
        }
        Some(parts)
    }

    /// What only writers need; `None`: it is damaged, and this pool is only read (S-9.22). Errors: it is damaged, and nothing can
    /// be written without it.
    pub fn or_without<T>(&self, needed: Result<T, Error>) -> Result<Option<T>, Error> {
        match needed {
            Err(Error::Damaged(what)) if self.ground.is_read_only() => {
                tracing::warn!(what, "the pool cannot be written, and is read without this");
                self.fences.is_missing(what);
                Ok(None)
            }
            Err(Error::Damaged(what)) => Err(unwritable(&what)),
            needed => needed.map(Some),
        }
    }

    /// The header of a frame of which only the metablock is known: its kind is what the control words confirm. Errors: `Fenced`.
    #[cfg_attr(feature = "planted", track_caller)]
    pub fn header(&self, pin: &Pin<'_>) -> Result<Result<Header, Damaged>, Error> {
        let id = pin.slot().id();
        match self.fences.has(id) {
            true => Err(Error::Fenced { id }), // N-1
            false => Ok(self.header_now(pin)),
        }
    }

    /// The same of one that is not fenced.
    #[cfg_attr(feature = "planted", track_caller)]
    pub fn header_now(&self, pin: &Pin<'_>) -> Result<Header, Damaged> {
        let kept = self.arena.binding(pin.frame);
        let mut bytes = [0; HEADER];
        self.arena.load(pin.frame, kept, 0, &mut bytes)?;
        let header = header_in(&bytes).map_err(|_| Damaged { line: 0 })?;
        match self.ground.pool.binding(pin.slot().id(), header.kind) == kept {
            true => Ok(header),
            false => Err(Damaged { line: 0 }),
        }
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

    /// Tries whether this process could have the memory that `code` needs more than the code that it has, and gives it back. Errors:
    /// `NoRoom`.
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
