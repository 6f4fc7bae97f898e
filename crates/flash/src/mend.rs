//! The ladder: what is tried, in order, when a frame does not verify (S-15.14, S-15.16, S-15.24; promise C-6).
//!
//! 1. the code's repair (S-15.21);
//! 2. the witness: the last durable page, the log since, committed redo, and the records of open transactions;
//! 3. a copy on the device, for a frame that nobody has changed since.
//!
//! What no rung mends is fenced ([`keepfs_frames::fence`]).
//!
//! Invariants:
//! L-1 Behind each rung the frame is verified again; only then is it mended.
//! L-2 The witness takes nothing from the frame that it judges, nor from anything that was copied out of it.

use crate::error::{Error, Pressure, Stop};
use crate::home::Flash;
use keepfs_codes::identity::Binding;
use keepfs_format::{Header, MetaId, PAGE};
use keepfs_frames::evidence::{Untold, told};
use keepfs_frames::fence::living;
use keepfs_frames::named::kind_in;
use keepfs_frames::repair::TRIES;
use keepfs_frames::scratch::with_page;
use keepfs_frames::{Frames, Looked, Pin};
use keepfs_pool::events::{Damage, Done};
use keepfs_pool::may_be_fenced;
use keepfs_pool::options::Rungs;
use keepfs_vault::arena::{self, Damaged, FrameNo, Held};
use keepfs_vault::undo::UndoSlot;

impl Flash {
    /// Mends a frame until `look` finds what it looks for right (V-1).
    #[cold]
    #[inline(never)]
    pub fn mended<T>(
        &self,
        frames: &Frames,
        pin: &Pin<'_>,
        mut look: impl FnMut() -> Result<T, Damaged>,
    ) -> Result<T, Error> {
        let id = pin.slot().id();
        for tried in 1.. {
            if frames.fences.has(id) {
                return Err(Error::Fenced { id }); // N-1
            }
            let is_mended = self.mend(frames, pin, id);
            if let Ok(right) = look() {
                return Ok(right);
            }
            if is_mended && tried < TRIES {
                continue;
            }
            if let Some(error) = self.beyond_repair(frames, pin, id) {
                return Err(error);
            }
            if tried >= TRIES {
                break;
            }
        }
        Err(Error::Damaged(format!("{id} is another metablock than it was read as")))
    }

    /// Copies bytes out of a frame of `binding`. Errors: `Fenced`, `Scribble`: they are not right, and nothing mends them.
    pub(crate) fn read(
        &self,
        frames: &Frames,
        pin: &Pin<'_>,
        binding: Binding,
        offset: usize,
        buf: &mut [u8],
    ) -> Result<(), Error> {
        match frames.arena.load(pin.frame, binding, offset, buf) {
            Ok(()) => Ok(()),
            Err(_) => self.mended(frames, pin, || frames.arena.load(pin.frame, binding, offset, buf)),
        }
    }

    /// One attempt to mend a frame. Whether it may verify now (L-1).
    pub fn mend(&self, frames: &Frames, pin: &Pin<'_>, id: MetaId) -> bool {
        let rungs = frames.ground.options.rungs;
        // Where writing has ended over what all share, nobody waits for the log to be read once more for each request.
        let asks_log = rungs.has(Rungs::LOG) && (frames.ground.ending.fault().is_none() || may_be_fenced(id));
        rungs.has(Rungs::CODE) && frames.mend_by_code(pin.frame, id)
            || asks_log && told(|| self.mend_by_witness(frames, pin, id)).unwrap_or(false)
            || rungs.has(Rungs::DEVICE) && self.read_again(frames, pin, id)
    }

    /// What the home tells of a frame that is held.
    pub(crate) fn mend_by_witness(&self, frames: &Frames, pin: &Pin<'_>, id: MetaId) -> Result<bool, Untold> {
        let past = self.past(frames, id)?;
        let evidence = |held: &Held<'_>| self.evidence(frames, id, pin.frame, past, held.bytes());
        frames.mend_by_witness(pin, id, evidence)
    }

    /// What the home has of a frame that nobody has changed.
    pub(crate) fn read_again(&self, frames: &Frames, pin: &Pin<'_>, id: MetaId) -> bool {
        let content = || {
            let entry = self.locate(frames, id).ok()?;
            self.content_at_home(frames, id, entry).ok()?
        };
        frames.read_again(pin, id, content)
    }

    /// What a frame that nothing mends is told as. `None`: somebody else has mended it meanwhile.
    #[cold]
    pub(crate) fn beyond_repair(&self, frames: &Frames, pin: &Pin<'_>, id: MetaId) -> Option<Error> {
        let tell = |damage: &Damage| self.tell_fenced(frames, damage);
        frames.beyond_repair(pin, id, tell)
    }

    /// A private verified copy of a frame, with parity and keyed sum, as it goes to the device. What is wrong with it is
    /// mended if it can be; if not, it is fenced or ends writing to the pool. Errors: `Scribble`, `Fenced`.
    pub fn verified_copy(&self, frames: &Frames, pin: &Pin<'_>, copy: &mut [u8; PAGE]) -> Result<(), Error> {
        let (mend, beyond) = (
            |id| self.mend(frames, pin, id),
            |id| self.beyond_repair(frames, pin, id),
        );
        frames.verified_copy(pin, copy, mend, beyond)
    }

    /// A transaction's changes of a frame are taken back but for some whose undo records do not read back, and which have
    /// folded `delta` into its CRC-64: the witness, which has none of them, tells the content (S-13.13). If it does not, the
    /// metablock is fenced, or writing ends.
    pub fn bring_back(&self, frames: &Frames, pin: &Pin<'_>, delta: u64, undo: &UndoSlot<'_>) {
        let id = pin.slot().id();
        let asks_log = frames.ground.options.rungs.has(Rungs::LOG);
        let is_brought_back = asks_log && told(|| self.bring_back_by_witness(frames, pin, delta)).unwrap_or(false);
        let held = frames.arena.hold(pin.frame);
        let damage = frames.damage(pin.frame, id, &held, &held.locate(frames.binding_of(&held, id)));
        let fenced = (!is_brought_back).then(|| frames.condemn(id)).flatten();
        drop(held);
        let done = match is_brought_back {
            true => Done::Rebuilt,
            false => frames.give_up(
                pin,
                &damage,
                fenced,
                || Error::NotBrought { id },
                |damage| self.tell_fenced(frames, damage),
            ),
        };
        let what = format!("a transaction was taken back that had changed {id}");
        frames.ground.events.tell_undo(undo, done, damage.owner, what);
    }

    pub(crate) fn bring_back_by_witness(&self, frames: &Frames, pin: &Pin<'_>, delta: u64) -> Result<bool, Untold> {
        let id = pin.slot().id();
        let past = self.past(frames, id)?;
        let evidence = |held: &Held<'_>| self.evidence(frames, id, pin.frame, past, held.bytes());
        frames.bring_back_by_witness(pin, delta, evidence)
    }

    /// A recovery would change a metablock that cannot be read: it is lost alone (N-4). Errors: `why`, if it is none of one owner
    /// (N-3), or the map above it is bad, and the pool is to be written.
    pub fn lose_at_rest(&self, frames: &Frames, id: MetaId, why: Error) -> Result<(), Error> {
        if !may_be_fenced(id) || self.locate(frames, id).is_err() {
            frames.or_without(Err(why)).map(|_: Option<()>| ())?;
        }
        if frames.fences.lose_at_rest(id) {
            self.map_changes(frames, id);
        }
        Ok(())
    }

    /// All of a fenced metablock as it was behind transaction `seq`, for a checkpoint (N-2). `None`: nobody tells it.
    pub fn fenced_content(&self, frames: &Frames, id: MetaId, seq: u64) -> Option<arena::Copy> {
        let (content, last) = self.told_content(frames, id, seq)?;
        (last >= seq).then_some(content)
    }

    /// Tells that a metablock was fenced: of inodes each that lives, and what is lost (S-15.26).
    pub fn tell_fenced(&self, frames: &Frames, damage: &Damage) {
        let now = self.log.redo.lock().last;
        let lost = "it is lost with the next checkpoint, and stays EIO";
        let mut damage = damage.clone();
        let (more, inodes) = match self.told_content(frames, damage.id, u64::MAX) {
            Some((content, last)) => {
                damage = damage.owned(&content);
                let more = match last >= now {
                    true => {
                        format!("device and log tell all that was committed up to {now}: it is right at the next mount")
                    }
                    false => format!("of what was committed up to {now}, device and log tell all up to {last}: {lost}"),
                };
                (more, living(damage.id, &content))
            }
            None => (
                format!("neither device nor log tell what was in it: {lost}"),
                Vec::new(),
            ),
        };
        frames.ground.events.tell_with(&damage, Done::Fenced, more, &inodes);
    }

    /// The header of a metablock. Errors: it does not exist; as [`Flash::mended`].
    pub fn header(&self, frames: &Frames, id: MetaId) -> Result<Header, Error> {
        let pin = self.fetch_named(frames, id)?;
        match frames.header(&pin)? {
            Ok(header) => Ok(header),
            Err(_) => self.mended(frames, &pin, || frames.header_now(&pin)),
        }
    }

    /// Puts a metablock born in a transaction into a frame.
    pub fn place_new<'s>(&self, frames: &'s Frames, id: MetaId, header: &Header) -> Result<Pin<'s>, Stop> {
        let placed = frames.place_new(id, header)?;
        placed.ok_or(Stop::Pressure(Pressure::Frames))
    }

    /// Looks at a frame: its bytes are held against parity and sum, and what is wrong is mended if it can be (S-15.14).
    /// Nothing if it holds no metablock. Bad and not mended: it does not verify after all that can be done.
    pub fn scrub_frame(&self, frames: &Frames, frame: FrameNo) -> Looked {
        let mut looked = Looked::default();
        if frame >= frames.arena.count() {
            return looked;
        }
        let id = frames.cache.slot(frame).id();
        let Some(pin) = frames.cache.peek(id).filter(|pin| pin.frame == frame) else {
            return looked;
        };
        looked.pages = 1;
        with_page(|copy| {
            if frames.arena.verified_copy(frame, copy).is_ok() && frames.is_bound(frame, id, kind_in(copy)) {
                pin.slot().seen_right(&frames.clock);
                return;
            }
            looked.bad = 1;
            looked.mended = u64::from(self.verified_copy(frames, &pin, copy).is_ok());
        });
        looked
    }
}
