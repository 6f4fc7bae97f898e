//! Reading metablocks in memory: each byte that is used was verified in the very copy that is used (S-15.19; promise C-3).
//!
//! Invariants:
//! V-1 A line that is not right is mended before anything is computed from it (S-15.14); what cannot be mended is an error,
//!     and its bytes are given to nobody.
//! V-2 Whoever reads here holds no lock that a repair waits for (redo, log, numbers): it may wait for
//!     all writers of the frame, and for the device.

use crate::Store;
use crate::cache::Pin;
use crate::error::{Error, Pressure, Stop};
use crate::newborn::newborn;
use crate::repair::kind_in;
use keepfs_codes::identity::Binding;
use keepfs_codes::{crc64, line};
use keepfs_format::metablock::{HEADER, MAGIC};
use keepfs_format::{FromBytes, Header, Kind, MetaId, PAGE, inode};
use keepfs_vault::arena::{Damaged, FrameNo, Line};
use keepfs_vault::planted::{self, Bug, Use};

/// How often a frame is mended that is damaged anew each time before it is read (S-15.22).
pub(crate) const TRIES: u32 = 16;

/// How often a frame is looked for while all are pinned for a moment.
const TAKE_TRIES: u32 = 1000;

/// What a caller expects of a metablock; the door refuses another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ref {
    /// Which.
    pub id: MetaId,
    /// Of what kind.
    pub kind: Kind,
    /// Of which inode, or 0.
    pub owner: u64,
}

impl Ref {
    /// The metablock that holds inode `ino`.
    pub const fn inode_block(ino: u64) -> Ref {
        Ref {
            id: inode::block_of(ino),
            kind: Kind::Inodes,
            owner: 0,
        }
    }

    /// A node of inode `owner`.
    pub const fn node(id: MetaId, kind: Kind, owner: u64) -> Ref {
        Ref { id, kind, owner }
    }

    /// A metablock of inodes.
    pub(crate) const fn inodes(id: MetaId) -> Ref {
        Ref::shared(id, Kind::Inodes)
    }

    pub(crate) const fn shared(id: MetaId, kind: Kind) -> Ref {
        Ref { id, kind, owner: 0 }
    }
}

impl Store {
    /// Whose the frame of `r` is.
    #[inline]
    pub(crate) fn binding(&self, r: Ref) -> Binding {
        self.pool.binding(r.id, r.kind as u8)
    }

    /// Pins the frame of a metablock, fetching it if need be. `None`: there is no such metablock.
    pub(crate) fn fetch_known(&self, id: MetaId) -> Result<Option<Pin<'_>>, Error> {
        let prefetch = |frame| self.frames.arena.prefetch(frame);
        match self.frames.cache.pin_and(id, prefetch) {
            Some(pin) => Ok(Some(pin)),
            None => self.home.fetch(self, id),
        }
    }

    /// Pins the frame of a metablock that must exist.
    pub(crate) fn fetch(&self, id: MetaId) -> Result<Pin<'_>, Error> {
        self.fetch_known(id)?
            .ok_or_else(|| Error::damaged(id, format!("{id} is named but does not exist")))
    }

    /// A clean frame. There is one: transactions are throttled long before all frames are dirty.
    pub(crate) fn take_frame(&self) -> Result<FrameNo, Error> {
        for _ in 0..TAKE_TRIES {
            if let Some(frame) = self.evict() {
                return Ok(frame);
            }
            crate::locks::yield_now();
        }
        Err(Error::Logic(format!(
            "no frame of the arena is free: {}",
            self.frames.cache.census()
        )))
    }

    /// A frame that nobody uses any more, if there is one.
    fn evict(&self) -> Option<FrameNo> {
        let (frame, held) = self.frames.cache.take()?;
        match held {
            Some(id) => self.look_at_evicted(frame, id),
            None => self.frames.arena.about_to_use(frame),
        }
        Some(frame)
    }

    /// Fills a frame with the content of `id`, bound to it (S-15.4, S-15.5).
    pub(crate) fn fill(&self, frame: FrameNo, id: MetaId, bytes: &[u8; PAGE], crc: u64) {
        let (kind, slot) = (kind_in(bytes), self.frames.cache.slot(frame));
        slot.heat.begin(kind);
        self.frames
            .arena
            .fill_as(frame, bytes, crc, self.pool.binding(id, kind));
        slot.seen_right(&self.frames.clock);
    }

    /// Puts a metablock born in a transaction into a frame.
    pub(crate) fn place_new(&self, id: MetaId, header: &Header) -> Result<Pin<'_>, Stop> {
        let frame = self.evict().ok_or(Stop::Pressure(Pressure::Frames))?;
        let bytes = newborn(header);
        self.fill(frame, id, &bytes, crc64::full(&*bytes));
        match self.frames.cache.insert(id, frame) {
            Some(pin) => Ok(pin),
            None => {
                self.frames.cache.give_back(frame);
                Err(Error::Logic(format!("{id} is born while it lives")).into())
            }
        }
    }

    /// Copies bytes out of a frame of `binding`. Errors: `Fenced`, `Scribble`: they are not right, and nothing mends them.
    #[inline]
    #[cfg_attr(feature = "planted", track_caller)]
    pub(crate) fn read(&self, pin: &Pin<'_>, binding: Binding, offset: usize, buf: &mut [u8]) -> Result<(), Error> {
        match self.frames.arena.load(pin.frame, binding, offset, buf) {
            Ok(()) => Ok(()),
            Err(_) => self.mended(pin, || self.frames.arena.load(pin.frame, binding, offset, buf)),
        }
    }

    /// The line of a frame of `binding` that has the byte at `offset`, into `line`. Errors: as [`Store::read`].
    #[inline]
    #[cfg_attr(feature = "planted", track_caller)]
    pub(crate) fn line(&self, pin: &Pin<'_>, binding: Binding, offset: usize, line: &mut Line) -> Result<(), Error> {
        let number = line::at(offset);
        match self.frames.arena.line(pin.frame, binding, number, line) {
            Ok(()) => Ok(()),
            Err(_) => self.mended(pin, || self.frames.arena.line(pin.frame, binding, number, line)),
        }
    }

    /// All bytes of a frame of `binding`. Errors: as [`Store::read`].
    #[inline]
    #[cfg_attr(feature = "planted", track_caller)]
    pub(crate) fn whole(&self, pin: &Pin<'_>, binding: Binding, copy: &mut [u8; PAGE]) -> Result<(), Error> {
        match self.frames.arena.whole(pin.frame, binding, copy) {
            Ok(()) => Ok(()),
            Err(_) => self.mended(pin, || self.frames.arena.whole(pin.frame, binding, copy)),
        }
    }

    /// Mends a frame until `look` finds what it looks for right (V-1).
    #[cold]
    #[inline(never)]
    fn mended<T>(&self, pin: &Pin<'_>, mut look: impl FnMut() -> Result<T, Damaged>) -> Result<T, Error> {
        let id = pin.slot().id();
        for tried in 1.. {
            if self.frames.fences.has(id) {
                return Err(Error::Fenced { id }); // N-1
            }
            let is_mended = self.mend(pin, id);
            if let Ok(right) = look() {
                return Ok(right);
            }
            if is_mended && tried < TRIES {
                continue;
            }
            if let Some(error) = self.beyond_repair(pin, id) {
                return Err(error);
            }
            if tried >= TRIES {
                break;
            }
        }
        Err(Error::Damaged(format!("{id} is another metablock than it was read as")))
    }

    /// The header of a frame that should be that of `r`, checked. Errors: `Damaged`: it is another metablock's, which its sums
    /// confirm; else as [`Store::read`].
    #[inline]
    #[cfg_attr(feature = "planted", track_caller)]
    pub(crate) fn header_of(&self, pin: &Pin<'_>, r: Ref, binding: Binding) -> Result<Header, Error> {
        if self.frames.fences.has(r.id) {
            return Err(Error::Fenced { id: r.id }); // N-1
        }
        let mut bytes = [0; HEADER];
        let _blind = planted::blind(Use::HeaderUnverified);
        if self.frames.arena.load(pin.frame, binding, 0, &mut bytes).is_err() {
            self.is_not_another(pin, r, binding)?;
            self.read(pin, binding, 0, &mut bytes)?;
        }
        let header = header_in(&bytes)?;
        check_header(&header, r, self.pool.tag)?;
        Ok(header)
    }

    /// Errors: `Damaged`: the frame is right, and of another kind than whoever asks believes (a pointer that lies, S-15.30).
    #[cold]
    fn is_not_another(&self, pin: &Pin<'_>, r: Ref, binding: Binding) -> Result<(), Error> {
        if self.frames.arena.binding(pin.frame) == binding {
            return Ok(());
        }
        let header = self.header_in_frame(pin)?;
        match header.kind == r.kind as u8 {
            true => Ok(()),
            false => check_header(&header, r, self.pool.tag),
        }
    }

    /// The header of a frame of which only the metablock is known: its kind is what the control words confirm. Errors: as
    /// [`Store::read`].
    #[cfg_attr(feature = "planted", track_caller)]
    pub(crate) fn header_in_frame(&self, pin: &Pin<'_>) -> Result<Header, Error> {
        let id = pin.slot().id();
        if self.frames.fences.has(id) {
            return Err(Error::Fenced { id }); // N-1
        }
        let look = || {
            let kept = self.frames.arena.binding(pin.frame);
            let mut bytes = [0; HEADER];
            self.frames.arena.load(pin.frame, kept, 0, &mut bytes)?;
            let header = header_in(&bytes).map_err(|_| Damaged { line: 0 })?;
            match self.pool.binding(id, header.kind) == kept {
                true => Ok(header),
                false => Err(Damaged { line: 0 }),
            }
        };
        match look() {
            Ok(header) => Ok(header),
            Err(_) => self.mended(pin, look),
        }
    }

    /// A private verified copy of a frame, with parity and keyed sum, as it goes to the device. What is wrong with it is
    /// mended if it can be; if not, it is fenced or ends writing to the pool. Errors: `Scribble`, `Fenced`.
    pub(crate) fn verified_copy(&self, pin: &Pin<'_>, copy: &mut [u8; PAGE]) -> Result<(), Error> {
        let id = pin.slot().id();
        if self.frames.fences.has(id) {
            return Err(Error::Fenced { id }); // N-1
        }
        let mut tries = 0;
        loop {
            match self.frames.arena.verified_copy(pin.frame, copy) {
                Ok(_) if self.is_bound(pin.frame, id, kind_in(copy)) => {
                    pin.slot().seen_right(&self.frames.clock);
                    if planted::is(Bug::VerifyThenRead) {
                        planted::between(id);
                        self.frames.arena.load_raw(pin.frame, 0, copy);
                    }
                    return Ok(());
                }
                _ if planted::is(Bug::VerifyOff) => return Ok(()),
                _ if tries < TRIES && !planted::is(Bug::VerifyAfter) && self.mend(pin, id) => tries += 1,
                _ => match self.beyond_repair(pin, id) {
                    None => tries = 0,
                    Some(_) if planted::is(Bug::VerifyAfter) => return Ok(()),
                    Some(error) => return Err(error),
                },
            }
        }
    }

    /// The same of a metablock of which nobody needs a copy.
    pub(crate) fn pin_right(&self, id: MetaId) -> Result<Pin<'_>, Error> {
        let pin = self.fetch(id)?;
        keepfs_flash::scratch::with_page(|copy| self.verified_copy(&pin, copy))?;
        Ok(pin)
    }
}

fn header_in(bytes: &[u8; HEADER]) -> Result<Header, Error> {
    Header::read_from_bytes(bytes).map_err(|e| Error::Logic(e.to_string()))
}

/// Checks that a header is the one expected. `what` is wrong otherwise.
pub(crate) fn check_header(header: &Header, r: Ref, pool_tag: u32) -> Result<(), Error> {
    let right = header.magic.get() == MAGIC
        && header.id.get() == r.id.0
        && header.kind == r.kind as u8
        && header.owner.get() == r.owner
        && header.pool.get() == pool_tag;
    if right {
        return Ok(());
    }
    let what = format!(
        "{} was expected as {:?} of inode {}, but its header says kind {} of inode {} (id {})",
        r.id,
        r.kind,
        r.owner,
        header.kind,
        header.owner.get(),
        MetaId(header.id.get())
    );
    Err(Error::damaged(r.id, what))
}

#[cfg(test)]
mod tests;
