//! The ladder: what is tried, in order, when a frame does not verify (S-15.14, S-15.16, S-15.24; promise C-6).
//!
//! 1. the code's repair (S-15.21);
//! 2. the witness: the last durable page, the log since, committed redo, and the records of open transactions;
//! 3. a copy on the device, for a frame that nobody has changed since.
//!
//! What no rung mends is fenced ([`crate::fence`]).
//!
//! Invariants:
//! L-1 Behind each rung the frame is verified again; only then is it mended.
//! L-2 The witness takes nothing from the frame that it judges, nor from anything that was copied out of it.

mod past;
mod witness;

pub(crate) use past::{LogStart, Past, Untold, told};
pub(crate) use witness::Evidence;

use crate::Store;
use crate::cache::Pin;
use crate::error::{Error, may_be_fenced};
use crate::events::Done;
use crate::fence::unless_fenced;
use crate::repair::kind_in;
use core::sync::atomic::Ordering;
use keepfs_codes::Protection;
use keepfs_flash::scratch::with_page;
use keepfs_format::MetaId;
use keepfs_vault::undo::UndoSlot;

/// Rungs that are tried. All of them, but for tests of one alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rungs(u8);

impl Rungs {
    /// None: what does not verify ends writing, or is fenced.
    pub const NONE: Rungs = Rungs(0);
    /// The code's repair.
    pub const CODE: Rungs = Rungs(1);
    /// The witness.
    pub const LOG: Rungs = Rungs(2);
    /// A copy on the device.
    pub const DEVICE: Rungs = Rungs(4);
    /// All.
    pub const ALL: Rungs = Rungs(7);

    /// These and others.
    #[must_use]
    pub const fn with(self, other: Rungs) -> Rungs {
        Rungs(self.0 | other.0)
    }

    /// Whether those of `other` are among them.
    pub const fn has(self, other: Rungs) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Store {
    /// One attempt to mend a frame. Whether it may verify now (L-1).
    pub(crate) fn mend(&self, pin: &Pin<'_>, id: MetaId) -> bool {
        let rungs = self.life.options.rungs;
        // Where writing has ended over what all share, nobody waits for the log to be read once more for each request.
        let asks_log = rungs.has(Rungs::LOG) && (self.life.ending.fault().is_none() || may_be_fenced(id));
        rungs.has(Rungs::CODE) && self.mend_by_code(pin.frame, id)
            || asks_log && told(|| self.mend_by_witness(pin, id)).unwrap_or(false)
            || rungs.has(Rungs::DEVICE) && self.read_again(pin, id)
    }

    /// The rung of the witness. `Ok(false)`: it tells nothing that is right.
    fn mend_by_witness(&self, pin: &Pin<'_>, id: MetaId) -> Result<bool, Untold> {
        let past = self.home.past(self, id)?;
        let mut held = self.frames.arena.hold(pin.frame);
        let binding = self.binding_of(&held, id);
        let evidence = self.home.evidence(self, id, pin.frame, past, held.bytes())?;
        let Some(right) = evidence.judge(held.bytes(), &held.sums(binding), |bytes| held.is_keyed(bytes)) else {
            return Ok(false);
        };
        let verdict = held.locate(binding);
        let damage = self.damage(pin.frame, id, &held, &verdict);
        let (damage, done) = match *right == *held.bytes() {
            true => (damage.of_sums(&right), Done::SumsRebuilt),
            false => (
                damage.against(held.bytes(), &right, self.address(pin.frame)),
                Done::Rebuilt,
            ),
        };
        let binding = self.pool.binding(id, kind_in(&right));
        let verified = held.replace_as(&right, keepfs_codes::crc64::full(&*right), binding);
        drop(held);
        if verified {
            self.watch.stats.rebuilt.fetch_add(1, Ordering::Relaxed);
            self.watch.events.tell(&damage, done);
        }
        Ok(verified)
    }

    /// A transaction's changes of a frame are taken back but for some whose undo records do not read back, and which have
    /// folded `delta` into its CRC-64: the witness, which has none of them, tells the content (S-13.13). If it does not, the
    /// metablock is fenced, or writing ends.
    pub(crate) fn bring_back(&self, pin: &Pin<'_>, delta: u64, undo: &UndoSlot<'_>) {
        let id = pin.slot().id();
        let asks_log = self.life.options.rungs.has(Rungs::LOG);
        let is_brought_back = asks_log && told(|| self.bring_back_by_witness(pin, delta)).unwrap_or(false);
        let held = self.frames.arena.hold(pin.frame);
        let damage = self.damage(pin.frame, id, &held, &held.locate(self.binding_of(&held, id)));
        let fenced = (!is_brought_back).then(|| self.condemn(id)).flatten();
        drop(held);
        let done = match is_brought_back {
            true => Done::Rebuilt,
            false => self.give_up(pin, &damage, fenced, || Error::NotBrought { id }),
        };
        let what = format!("a transaction was taken back that had changed {id}");
        self.watch.events.tell_undo(undo, done, damage.owner, what);
    }

    /// The content of a frame is that of the witness whose CRC-64 is `delta` away from what its sums make. `Ok(false)`: it tells
    /// none.
    fn bring_back_by_witness(&self, pin: &Pin<'_>, delta: u64) -> Result<bool, Untold> {
        let id = pin.slot().id();
        let past = self.home.past(self, id)?;
        let mut held = self.frames.arena.hold(pin.frame);
        let evidence = self.home.evidence(self, id, pin.frame, past, held.bytes())?;
        let right = match self.frames.arena.code() {
            Protection::Off => evidence.only(),
            _ => evidence.with_sum(held.expected(self.binding_of(&held, id)) ^ delta),
        };
        if let Some(right) = &right {
            held.replace(right, keepfs_codes::crc64::full(&**right));
        }
        Ok(right.is_some())
    }

    /// Verifies frame `frame`, for a sweep of the arena; what is wrong is mended, told or fenced as at any other time.
    /// `None`: no metablock is in it. Else whether it is right now. Errors: `Scribble`: writing to the pool has ended.
    pub fn sweep_frame(&self, frame: u32) -> Result<Option<bool>, Error> {
        let slot_id = (frame < self.frames.arena.count()).then(|| self.frames.cache.slot(frame).id());
        let Some(pin) = slot_id.filter(|id| id.0 != 0).and_then(|id| self.frames.cache.pin(id)) else {
            return Ok(None);
        };
        let verified = with_page(|copy| self.verified_copy(&pin, copy));
        unless_fenced(verified).map(Some)
    }
}

#[cfg(test)]
mod tests;
