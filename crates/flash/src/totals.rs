//! TOTALS: a stripe for each undo slot (SPEC S-7.5, S-13.4, S-15.23), and what they are known to be (S-17.6).
//!
//! Invariants:
//! O-1 A stripe is changed in its metablock by the transaction that has its slot, and here when that one commits, under the
//!     lock of redo: whoever has that lock sees the records of an open transaction, or what they came to.
//! O-2 What is known here is compared with the metablocks while no transaction is open: a stray write here, or a stripe that
//!     another transaction changed there, shows at the next checkpoint, which is refused.

use crate::error::Error;
use crate::gate::Closed;
use crate::home::Flash;
use keepfs_format::bitmap::{self, TOTALS, TOTALS_BLOCKS};
use keepfs_format::{MetaId, PAGE};
use keepfs_frames::scratch::with_page;
use keepfs_frames::{Frames, Pin, Totals};
use keepfs_pool::events::Done;

impl Flash {
    /// Pins a metablock, verified, of which nobody needs a copy.
    pub fn pin_right<'s>(&'s self, frames: &'s Frames, id: MetaId) -> Result<Pin<'s>, Error> {
        let pin = self.fetch_named(frames, id)?;
        with_page(|copy| self.verified_copy(frames, &pin, copy))?;
        Ok(pin)
    }

    /// Pins the metablocks of TOTALS that may be changed, and right: what a checkpoint changes there is in no redo.
    pub fn pin_totals<'s>(&'s self, frames: &'s Frames) -> Result<Vec<Pin<'s>>, Error> {
        let numbers = 0..frames.ground.pool.totals_blocks();
        numbers
            .map(|number| self.pin_right(frames, bitmap::totals(number)))
            .collect()
    }

    /// Learns what all TOTALS are; nobody else is there.
    pub fn load_totals(&self, frames: &Frames) -> Result<(), Error> {
        for id in (0..TOTALS_BLOCKS).map(bitmap::totals) {
            let pin = self.fetch_named(frames, id)?;
            with_page(|copy| {
                self.verified_copy(frames, &pin, copy)
                    .map(|()| frames.known.set(id, copy))
            })?;
        }
        frames.known.add_up();
        Ok(())
    }

    /// The metablocks of TOTALS are what they are known to be, and their sum is what all transactions since the last
    /// checkpoint told (S-17.6); `told` says what, if it is another one. Errors: `Damaged`, and nothing is written any more.
    pub fn check_totals(
        &self,
        frames: &Frames,
        _shut: &Closed<'_>,
        pins: &[Pin<'_>],
        told: impl FnOnce(Totals) -> Option<Totals>,
    ) -> Result<(), Error> {
        for pin in pins {
            let (id, differs) = (pin.slot().id(), |bytes: &[u8; PAGE]| {
                let known = frames.known.content(pin.slot().id());
                (0..PAGE).find(|at| bytes[*at] != known[*at])
            });
            if let Some(at) = with_page(|copy| self.verified_copy(frames, pin, copy).map(|()| differs(copy)))? {
                let stripe = at / bitmap::STRIPE;
                return wrong_totals(
                    frames,
                    id,
                    format!("stripe {stripe} of {id} is not what its transactions made it (S-17.6)"),
                );
            }
        }
        let (sums, added_up) = (frames.known.sums(), frames.known.added_up());
        if sums != added_up {
            return wrong_totals(
                frames,
                TOTALS,
                format!("the pool's totals were kept as {sums:?}, but its stripes come to {added_up:?} (S-17.6)"),
            );
        }
        let found = frames.known.totals();
        match told(found) {
            Some(expected) => wrong_totals(
                frames,
                TOTALS,
                format!("the pool's totals are {found:?}, but transactions told {expected:?} (S-17.6)"),
            ),
            None => Ok(()),
        }
    }
}

fn wrong_totals(frames: &Frames, id: MetaId, what: String) -> Result<(), Error> {
    frames.ground.events.tell_logic((id.0, 0), Done::Ended, what.clone());
    Err(frames.ground.fail(Error::Damaged(what)))
}
