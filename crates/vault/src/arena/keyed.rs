//! The keyed sum of the frames (S-15.18): what tells a change that leaves the rolling sum as it is.
//!
//! Invariants:
//! Y-1 The keys never leave the process: an arena that was adopted has none, and is held against its rolling sums alone.
//! Y-2 It follows each change in the same order as the rolling sum, between [`Arena::enter`] and [`Arena::leave`], by one
//!     atomic XOR of words that depend on old and new bytes alone: writers beside each other merge as there (S-15.2).
//! Y-3 It is set absolutely only where the rolling sum is, from the same bytes.

use super::control::KEYED;
use super::{Arena, FrameNo};
use crate::error::Error;
use crate::planted::{self, Judging};
use core::sync::atomic::{AtomicBool, Ordering};
use keepfs_codes::keyed::Keys;
use keepfs_codes::{FRAME, Protection};
use keepfs_format::PAGE;

/// The keys of an arena.
pub(super) struct Keyed {
    keys: Keys,
    /// Something else has changed the keys, and that was told.
    is_told: AtomicBool,
}

impl Keyed {
    /// New ones; none with `off`. Errors: `Logic`: the system has no random numbers.
    pub fn drawn(code: Protection) -> Result<Option<Box<Keyed>>, Error> {
        if code == Protection::Off {
            return Ok(None);
        }
        let mut random = [0; FRAME];
        getrandom::fill(&mut random).map_err(|e| Error::Logic(format!("no random numbers: {e}")))?;
        Ok(Some(Box::new(Keyed {
            keys: Keys::of(&random),
            is_told: AtomicBool::new(false),
        })))
    }

    /// Whether the keys are no longer those that were drawn: nothing can be said with them.
    #[cold]
    fn is_lost(&self) -> bool {
        let is_lost = !self.keys.are_whole();
        if is_lost && !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "the keys of the frames' second sums were changed by something else; the first ones remain"
            );
        }
        is_lost
    }
}

impl Arena {
    /// The keyed sum as it is kept.
    #[inline]
    pub(super) fn keyed(&self, frame: FrameNo) -> u64 {
        self.control.load_u64(Self::at(frame, KEYED), Ordering::Acquire)
    }

    /// The keyed sum of these bytes, absolutely.
    pub(super) fn set_keyed(&self, frame: FrameNo, bytes: &[u8; PAGE]) {
        if let Some(keyed) = &self.keys {
            let sum = keyed.keys.sum(bytes);
            self.control.store_u64(Self::at(frame, KEYED), sum);
        }
    }

    /// A stray write into the keyed sum.
    #[cfg(any(test, feature = "schedules"))]
    pub fn damage_keyed(&self, frame: FrameNo, xor: u64) {
        self.control.xor_u64(Self::at(frame, KEYED), xor);
    }

    /// Door, with step 3: the keyed sum absorbs a change.
    #[inline]
    pub(super) fn fold_keyed(&self, frame: FrameNo, (offset, old, new): (usize, &[u8], &[u8])) {
        if let Some(keyed) = &self.keys {
            let delta = keyed.keys.delta(offset, old, new);
            self.control.xor_u64(Self::at(frame, KEYED), delta);
        }
    }

    /// Whether bytes agree with the keyed sum that was kept of them, as far as anybody can tell.
    pub(super) fn is_keyed(&self, bytes: &[u8; PAGE], kept: u64) -> bool {
        match &self.keys {
            Some(keyed) => keyed.keys.sum(bytes) == kept || keyed.is_lost() || planted::judges(Judging::KeyedIgnored),
            None => true,
        }
    }
}

#[cfg(test)]
mod tests;
