//! What happens when a frame does not verify (S-15.14): the rungs of the code and of the device, and what is left when
//! none helps. The order of the rungs is its caller's.
//!
//! Invariants:
//! P-1 A correction of the code counts only if the sum of each line that it changes and the keyed sum confirm it (S-15.21).
//! P-2 Bytes change only while the frame is held; the device is read before that.
//! P-3 A frame is read again from the device only if it was clean before and is still the same behind the reading.
//! P-4 A frame is given up only as it was while it was held: whoever else met the damage may have mended it.

use crate::cache::{Pin, State};
use crate::evidence::{Evidence, Untold};
use crate::frames::Frames;
use crate::named::{id_in, kind_in, kinds};
use crate::scratch::with_page;
use core::sync::atomic::Ordering;
use keepfs_codes::identity::Binding;
use keepfs_codes::{Protection, Verdict};
use keepfs_format::{Kind, MetaId, PAGE};
use keepfs_pool::Error;
use keepfs_pool::events::{Damage, Done, Seen, owner_of};
use keepfs_vault::arena::{self, FrameNo, Held};
use keepfs_vault::planted::{self, Bug, Rung};

/// How often a frame is mended that is damaged anew each time before it is read (S-15.22).
pub const TRIES: u32 = 16;

impl Frames {
    /// A private verified copy of a frame, with parity and keyed sum, as it goes to the device. What is wrong with it is
    /// mended if it can be; if not, what is `beyond_repair` tells what becomes of it. Errors: `Scribble`, `Fenced`.
    #[inline]
    pub fn verified_copy(
        &self,

        pin: &Pin<'_>,
        copy: &mut [u8; PAGE],
        mend: impl Fn(MetaId) -> bool,
        beyond_repair: impl Fn(MetaId) -> Option<Error>,
    ) -> Result<(), Error> {
        let id = pin.slot().id();
        if self.fences.has(id) {
            return Err(Error::Fenced { id }); // N-1
        }
        let mut tries = 0;
        loop {
            match self.arena.verified_copy(pin.frame, copy) {
                Ok(_) if self.is_bound(pin.frame, id, kind_in(copy)) => {
                    pin.slot().seen_right(&self.clock);
                    if planted::is(Bug::VerifyThenRead) {
                        planted::between(id);
                        self.arena.load_raw(pin.frame, 0, copy);
                    }
                    return Ok(());
                }
                _ if planted::is(Bug::VerifyOff) => return Ok(()),
                _ if tries < TRIES && !planted::is(Bug::VerifyAfter) && mend(id) => tries += 1,
                _ => match beyond_repair(id) {
                    None => tries = 0,
                    Some(_) if planted::is(Bug::VerifyAfter) => return Ok(()),
                    Some(error) => return Err(error),
                },
            }
        }
    }

    /// What a frame that nothing mends is told as. `None`: somebody else has mended it meanwhile (P-4).
    #[cold]
    pub fn beyond_repair(&self, pin: &Pin<'_>, id: MetaId, tell_fenced: impl FnOnce(&Damage)) -> Option<Error> {
        let held = self.arena.hold(pin.frame);
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
        Some(
            match self.give_up(pin, &damage, fenced, || error.clone(), tell_fenced) {
                Done::Fenced => Error::Fenced { id },
                _ => error,
            },
        )
    }

    /// The rung of the witness. `Ok(false)`: it tells nothing that is right.
    pub fn mend_by_witness(
        &self,

        pin: &Pin<'_>,
        id: MetaId,
        evidence: impl FnOnce(&Held<'_>) -> Result<Evidence, Untold>,
    ) -> Result<bool, Untold> {
        let mut held = self.arena.hold(pin.frame);
        let binding = self.binding_of(&held, id);
        let evidence = evidence(&held)?;
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
        let binding = self.ground.pool.binding(id, kind_in(&right));
        let verified = held.replace_as(&right, keepfs_codes::crc64::full(&*right), binding);
        drop(held);
        if verified {
            self.ground.stats.rebuilt.fetch_add(1, Ordering::Relaxed);
            self.ground.events.tell(&damage, done);
        }
        Ok(verified)
    }

    /// The content of a frame is that of the witness whose CRC-64 is `delta` away from what its sums make. `Ok(false)`: it tells
    /// none.
    pub fn bring_back_by_witness(
        &self,

        pin: &Pin<'_>,
        delta: u64,
        evidence: impl FnOnce(&Held<'_>) -> Result<Evidence, Untold>,
    ) -> Result<bool, Untold> {
        let id = pin.slot().id();
        let mut held = self.arena.hold(pin.frame);
        let evidence = evidence(&held)?;
        let right = match self.arena.code() {
            Protection::Off => evidence.only(),
            _ => evidence.with_sum(held.expected(self.binding_of(&held, id)) ^ delta),
        };
        if let Some(right) = &right {
            held.replace(right, keepfs_codes::crc64::full(&**right));
        }
        Ok(right.is_some())
    }

    /// Fences a metablock, while its frame is held (P-4). `None`: it is none that may be; else whether it was not before.
    pub fn condemn(&self, id: MetaId) -> Option<bool> {
        (!planted::is(Bug::VerifyAfter))
            .then(|| self.fences.fence(id))
            .flatten()
    }

    /// Nothing mends this frame: its metablock is `fenced`, or writing ends with this error (S-15.17). Which of the two is told
    /// and returned.
    pub fn give_up(
        &self,

        pin: &Pin<'_>,
        damage: &Damage,
        fenced: Option<bool>,
        error: impl FnOnce() -> Error,
        tell_fenced: impl FnOnce(&Damage),
    ) -> Done {
        if let Some(is_new) = fenced {
            if is_new {
                pin.slot().seen.clear();
                tell_fenced(damage);
            }
            return Done::Fenced;
        }
        let done = self.ground.ending.done_at_the_end();
        self.ground.events.tell(damage, done);
        self.ground.fail(error());
        done
    }

    /// Whether the control words name the metablock `id` (S-15.4), whose header says this kind.
    #[inline]
    pub fn is_bound(&self, frame: FrameNo, id: MetaId, kind: u8) -> bool {
        self.arena.binding(frame) == self.ground.pool.binding(id, kind)
    }

    /// Whose frame it is: the kind is the one that the control words agree with, else what the header says.
    pub fn binding_of(&self, held: &Held<'_>, id: MetaId) -> Binding {
        let kept = held.binding();
        let mut possible = kinds(id).iter().map(|kind| self.ground.pool.binding(id, *kind as u8));
        let only = kinds(id).len() == 1;
        let said = self.ground.pool.binding(id, kind_in(held.bytes()));
        match possible.find(|binding| *binding == kept || only) {
            Some(binding) => binding,
            None => said,
        }
    }

    /// The kind of the metablock in a frame that is not believed: the one that the control words agree with.
    pub fn kind_of_frame(&self, frame: FrameNo, id: MetaId) -> u8 {
        let kept = self.arena.binding(frame);
        let of = |kind: &&Kind| self.ground.pool.binding(id, **kind as u8) == kept;
        let kind = kinds(id).iter().find(of).or(kinds(id).first());
        kind.map_or(0, |kind| *kind as u8)
    }

    /// The code's rung.
    pub fn mend_by_code(&self, frame: FrameNo, id: MetaId) -> bool {
        let mut held = self.arena.hold(frame);
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
        if id_in(&right) != id || self.ground.pool.binding(id, kind_in(&right)) != binding {
            // Another metablock's, whole.
            return false;
        }
        let right = held.mend(&verdict, binding);
        drop(held);
        if right {
            self.ground.stats.repaired.fetch_add(1, Ordering::Relaxed);
            self.ground.events.tell(&damage, Done::Repaired);
        }
        right
    }

    /// The rung of the device: a frame that nobody has changed gets its content from home (P-2, P-3).
    pub fn read_again(&self, pin: &Pin<'_>, id: MetaId, content: impl FnOnce() -> Option<(arena::Copy, u64)>) -> bool {
        let Some(version) = self.clean_version(pin) else {
            return false;
        };
        let Some((bytes, crc)) = content() else {
            return false;
        };
        let Some(state) = pin.slot().state.try_lock() else {
            return false;
        };
        let mut held = self.arena.hold(pin.frame);
        if !is_clean(*state) || held.version() != version {
            return false;
        }
        let verdict = held.locate(self.binding_of(&held, id));
        let damage = self.damage(pin.frame, id, &held, &verdict);
        let damage = damage.against(held.bytes(), &bytes, self.address(pin.frame));
        let right = held.replace_as(&bytes, crc, self.ground.pool.binding(id, kind_in(&bytes)));
        drop(held);
        drop(state);
        if right {
            self.ground.stats.read_again.fetch_add(1, Ordering::Relaxed);
            self.ground.events.tell(&damage, Done::ReadAgain);
        }
        right
    }

    /// The version of a frame that is clean and that nobody writes to.
    fn clean_version(&self, pin: &Pin<'_>) -> Option<u64> {
        let version = self.arena.quiet_version(pin.frame)?;
        let clean = pin.slot().state.try_lock().is_some_and(|state| is_clean(*state));
        clean.then_some(version)
    }

    /// Verifies a clean frame that is being dropped. A scribble is told and goes with the frame: the next fetch finds the
    /// metablock at home.
    pub fn look_at_evicted(&self, frame: FrameNo, id: MetaId) {
        if self.fences.has(id) {
            return; // N-1, and it was told.
        }
        let right = with_page(|copy| self.arena.verified_to_fill(frame, copy).is_ok());
        if right {
            return;
        }
        let held = self.arena.hold(frame);
        let verdict = held.locate(self.binding_of(&held, id));
        let damage = self.damage(frame, id, &held, &verdict);
        drop(held);
        self.ground.stats.scribbles_dropped.fetch_add(1, Ordering::Relaxed);
        self.ground.events.tell(&damage, Done::Dropped);
    }

    /// What is told of a frame that is held and of which the code has this verdict.
    pub fn damage(&self, frame: FrameNo, id: MetaId, held: &Held<'_>, verdict: &Verdict) -> Damage {
        let (mut seen, right) = Seen::of(verdict, held.bytes(), self.address(frame));
        // A repair of the code says more than the header does.
        let other = self.ground.pool.metablock_in(held.bytes()).filter(|other| *other != id);
        if let (Seen::Unknown | Seen::Words | Seen::Sum, Some(other)) = (&seen, other)
            && self.is_as_framed(other, held.bytes())
        {
            seen = Seen::Misdirected(other);
        }
        if seen == Seen::Unknown && held.expected(held.binding()) == keepfs_codes::crc64::full(held.bytes()) {
            seen = Seen::Hidden;
        }
        Damage {
            id,
            frame,
            seen,
            // What is damaged tells nobody's name (S-15.15).
            owner: owner_of(id, right.as_ref()),
            window_ms: self.cache.slot(frame).seen.ago(self.clock.now()),
        }
    }

    /// Whether these bytes are what the frame of `other` holds by its sum: a header alone proves nothing, for a stray write
    /// may have hit it.
    pub fn is_as_framed(&self, other: MetaId, bytes: &[u8; PAGE]) -> bool {
        let pin = self.cache.peek(other);
        pin.is_some_and(|pin| self.arena.sum(pin.frame) == keepfs_codes::crc64::full(bytes))
    }

    /// Where everybody reads the frame.
    pub fn address(&self, frame: FrameNo) -> usize {
        self.arena.shown_address() + frame as usize * PAGE
    }
}

/// Whether the device has what the frame should hold.
fn is_clean(state: State) -> bool {
    state.dirty == 0 && !state.in_flight || planted::ignores(Rung::DirtyReadAgain)
}
