//! What happens when a frame does not verify (S-15.14): the rungs of the code and of the device, and what is left when
//! none helps. The order of the rungs is [`crate::ladder`]'s.
//!
//! Invariants:
//! P-1 A correction of the code counts only if the sum of each line that it changes and the keyed sum confirm it (S-15.21).
//! P-2 Bytes change only while the frame is held; the device is read before that.
//! P-3 A frame is read again from the device only if it was clean before and is still the same behind the reading.
//! P-4 A frame is given up only as it was while it was held: whoever else met the damage may have mended it.

use crate::Store;
use crate::cache::{Pin, State};
use crate::error::Error;
use crate::events::{Damage, Done, Seen, owner_of};
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use keepfs_codes::Verdict;
use keepfs_codes::identity::Binding;
use keepfs_flash::scratch::with_page;
use keepfs_format::{Header, Kind, MetaId, PAGE, Space};
use keepfs_vault::arena::{FrameNo, Held};
use keepfs_vault::planted::{self, Bug, Rung};

/// Kinds that a metablock of space NODES can have.
const NODE_KINDS: [Kind; 4] = [Kind::DirLeaf, Kind::DirIndex, Kind::BlockMap, Kind::Xattr];

/// The number of the kind in a metablock's header.
pub(crate) fn kind_in(bytes: &[u8; PAGE]) -> u8 {
    bytes[offset_of!(Header, kind)]
}

/// The metablock that a metablock's header names.
pub(crate) fn id_in(bytes: &[u8; PAGE]) -> MetaId {
    let word = bytes[offset_of!(Header, id)..].first_chunk();
    MetaId(word.map_or(0, |word| u64::from_le_bytes(*word)))
}

/// The kind that a header tells.
pub(crate) fn kind_of(id: MetaId, header: &Header) -> Result<Kind, Error> {
    let number = header.kind;
    Kind::of(number).ok_or_else(|| Error::Damaged(format!("{id} has the unknown kind {number} in its header")))
}

/// The kinds that metablock `id` can have.
fn kinds(id: MetaId) -> &'static [Kind] {
    match (id.as_map(), id.space()) {
        (Some(_), _) => &[Kind::Map],
        (_, Some(Space::Nodes)) => &NODE_KINDS,
        (_, Some(Space::Inodes)) => &[Kind::Inodes],
        (_, Some(Space::Shares)) => &[Kind::Shares],
        (_, Some(Space::Totals)) => &[Kind::Totals],
        (_, Some(Space::Homes)) => &[Kind::Homes],
        (_, Some(Space::Pages | Space::NodeNumbers | Space::InodeNumbers | Space::Orphans)) => &[Kind::Bitmap],
        (None, None) => &[],
    }
}

impl Store {
    /// What a frame that nothing mends is told as. `None`: somebody else has mended it meanwhile (P-4).
    #[cold]
    pub(crate) fn beyond_repair(&self, pin: &Pin<'_>, id: MetaId) -> Option<Error> {
        let held = self.frames.arena.hold(pin.frame);
        let binding = self.binding_of(&held, id);
        let (named, kind) = (id_in(held.bytes()), kind_in(held.bytes()));
        if named == id && self.is_bound(pin.frame, id, kind) && held.verifies() {
            return None;
        }
        let damage = self.damage(pin.frame, id, &held, &held.locate(binding));
        let (found, expected) = (keepfs_codes::crc64::full(held.bytes()), held.expected(binding));
        let fenced = self.condemn(id);
        drop(held);
        let error = Error::Scribble { id, found, expected };
        Some(match self.give_up(pin, &damage, fenced, || error.clone()) {
            Done::Fenced => Error::Fenced { id },
            _ => error,
        })
    }

    /// Fences a metablock, while its frame is held (P-4). `None`: it is none that may be; else whether it was not before.
    pub(crate) fn condemn(&self, id: MetaId) -> Option<bool> {
        (!planted::is(Bug::VerifyAfter))
            .then(|| self.frames.fences.fence(id))
            .flatten()
    }

    /// Nothing mends this frame: its metablock is `fenced`, or writing ends with this error (S-15.17). Which of the two is told
    /// and returned.
    pub(crate) fn give_up(
        &self,
        pin: &Pin<'_>,
        damage: &Damage,
        fenced: Option<bool>,
        error: impl FnOnce() -> Error,
    ) -> Done {
        if let Some(is_new) = fenced {
            if is_new {
                pin.slot().seen.clear();
                self.tell_fenced(damage);
            }
            return Done::Fenced;
        }
        let done = self.life.ending.done_at_the_end();
        self.watch.events.tell(damage, done);
        self.fail(error());
        done
    }

    /// Whether the control words name the metablock `id` (S-15.4), whose header says this kind.
    pub(crate) fn is_bound(&self, frame: FrameNo, id: MetaId, kind: u8) -> bool {
        self.frames.arena.binding(frame) == self.pool.binding(id, kind)
    }

    /// Whose frame it is: the kind is the one that the control words agree with, else what the header says.
    pub(crate) fn binding_of(&self, held: &Held<'_>, id: MetaId) -> Binding {
        let kept = held.binding();
        let mut possible = kinds(id).iter().map(|kind| self.pool.binding(id, *kind as u8));
        let only = kinds(id).len() == 1;
        let said = self.pool.binding(id, kind_in(held.bytes()));
        match possible.find(|binding| *binding == kept || only) {
            Some(binding) => binding,
            None => said,
        }
    }

    /// The kind of the metablock in a frame that is not believed: the one that the control words agree with.
    pub(crate) fn kind_of_frame(&self, frame: FrameNo, id: MetaId) -> u8 {
        let kept = self.frames.arena.binding(frame);
        let of = |kind: &&Kind| self.pool.binding(id, **kind as u8) == kept;
        let kind = kinds(id).iter().find(of).or(kinds(id).first());
        kind.map_or(0, |kind| *kind as u8)
    }

    /// The code's rung.
    pub(crate) fn mend_by_code(&self, frame: FrameNo, id: MetaId) -> bool {
        let mut held = self.frames.arena.hold(frame);
        let binding = self.binding_of(&held, id);
        let verdict = held.locate(binding);
        let damage = self.damage(frame, id, &held, &verdict);
        let is_bound = held.binding() == binding;
        let mut right = *held.bytes();
        match &verdict {
            // Somebody else mended it, or only the name was wrong.
            Verdict::Clean if is_bound => return true,
            Verdict::Clean | Verdict::ParityBad | Verdict::SumsBad => {}
            Verdict::Repair(repair) => repair.apply(&mut right),
            Verdict::Ambiguous | Verdict::Uncorrectable => return false,
        }
        if id_in(&right) != id || self.pool.binding(id, kind_in(&right)) != binding {
            // Another metablock's, whole.
            return false;
        }
        let right = held.mend(&verdict, binding);
        drop(held);
        if right {
            self.watch.stats.repaired.fetch_add(1, Ordering::Relaxed);
            self.watch.events.tell(&damage, Done::Repaired);
        }
        right
    }

    /// The rung of the device: a frame that nobody has changed gets its content from home (P-2, P-3).
    pub(crate) fn read_again(&self, pin: &Pin<'_>, id: MetaId) -> bool {
        let Some(version) = self.clean_version(pin) else {
            return false;
        };
        let content = self
            .home
            .locate(self, id)
            .and_then(|entry| self.home.content_at_home(self, id, entry));
        let Ok(Some((bytes, crc))) = content else {
            return false;
        };
        let Some(state) = pin.slot().state.try_lock() else {
            return false;
        };
        let mut held = self.frames.arena.hold(pin.frame);
        if !is_clean(*state) || held.version() != version {
            return false;
        }
        let verdict = held.locate(self.binding_of(&held, id));
        let damage = self.damage(pin.frame, id, &held, &verdict);
        let damage = damage.against(held.bytes(), &bytes, self.address(pin.frame));
        let right = held.replace_as(&bytes, crc, self.pool.binding(id, kind_in(&bytes)));
        drop(held);
        drop(state);
        if right {
            self.watch.stats.read_again.fetch_add(1, Ordering::Relaxed);
            self.watch.events.tell(&damage, Done::ReadAgain);
        }
        right
    }

    /// The version of a frame that is clean and that nobody writes to.
    fn clean_version(&self, pin: &Pin<'_>) -> Option<u64> {
        let version = self.frames.arena.quiet_version(pin.frame)?;
        let clean = pin.slot().state.try_lock().is_some_and(|state| is_clean(*state));
        clean.then_some(version)
    }

    /// Verifies a clean frame that is being dropped. A scribble is told and goes with the frame: the next fetch finds the
    /// metablock at home.
    pub(crate) fn look_at_evicted(&self, frame: FrameNo, id: MetaId) {
        if self.frames.fences.has(id) {
            return; // N-1, and it was told.
        }
        let right = with_page(|copy| self.frames.arena.verified_to_fill(frame, copy).is_ok());
        if right {
            return;
        }
        let held = self.frames.arena.hold(frame);
        let verdict = held.locate(self.binding_of(&held, id));
        let damage = self.damage(frame, id, &held, &verdict);
        drop(held);
        self.watch.stats.scribbles_dropped.fetch_add(1, Ordering::Relaxed);
        self.watch.events.tell(&damage, Done::Dropped);
    }

    pub(crate) fn damage(&self, frame: FrameNo, id: MetaId, held: &Held<'_>, verdict: &Verdict) -> Damage {
        let mut seen = Seen::of(verdict, held.bytes(), self.address(frame));
        // A repair of the code says more than the header does.
        let other = self.pool.metablock_in(held.bytes()).filter(|other| *other != id);
        if let (Seen::Unknown | Seen::Words | Seen::Sum, Some(other)) = (&seen, other)
            && self.is_as_framed(other, held.bytes())
        {
            seen = Seen::Misdirected(other);
        }
        if seen == Seen::Unknown && held.expected(held.binding()) == keepfs_codes::crc64::full(held.bytes()) {
            seen = Seen::Hidden;
        }
        // What is damaged tells nobody's name (S-15.15).
        let mut right = *held.bytes();
        let is_right = match verdict {
            Verdict::Clean | Verdict::ParityBad | Verdict::SumsBad => true,
            Verdict::Repair(repair) => {
                repair.apply(&mut right);
                true
            }
            Verdict::Ambiguous | Verdict::Uncorrectable => false,
        };
        Damage {
            id,
            frame,
            seen,
            owner: owner_of(id, is_right.then_some(&right)),
            window_ms: self.frames.cache.slot(frame).seen.ago(self.frames.clock.now()),
        }
    }

    /// Whether these bytes are what the frame of `other` holds by its sum: a header alone proves nothing, for a stray write
    /// may have hit it.
    pub(crate) fn is_as_framed(&self, other: MetaId, bytes: &[u8; PAGE]) -> bool {
        let pin = self.frames.cache.peek(other);
        pin.is_some_and(|pin| self.frames.arena.sum(pin.frame) == keepfs_codes::crc64::full(bytes))
    }

    /// Where everybody reads the frame.
    pub(crate) fn address(&self, frame: FrameNo) -> usize {
        self.frames.arena.shown_address() + frame as usize * PAGE
    }
}

/// Whether the device has what the frame should hold.
fn is_clean(state: State) -> bool {
    state.dirty == 0 && !state.in_flight || planted::ignores(Rung::DirtyReadAgain)
}

#[cfg(test)]
mod tests;
