//! Reading metablocks in memory: each byte that is used was verified in the very copy that is used (S-15.19; promise C-3).
//!
//! Invariants:
//! V-1 A line that is not right is mended before anything is computed from it (S-15.14); what cannot be mended is an error,
//!     and its bytes are given to nobody.
//! V-2 Whoever reads here holds no lock that a repair waits for (redo, log, numbers): it may wait for
//!     all writers of the frame, and for the device.

use crate::Store;
use crate::error::{Error, Pressure, Stop};
use keepfs_codes::identity::Binding;
use keepfs_codes::line;
use keepfs_format::metablock::HEADER;
use keepfs_format::{Header, MetaId, PAGE};
use keepfs_frames::fence::unless_fenced;
use keepfs_frames::named::{check_header, header_in};
use keepfs_frames::scratch::with_page;
use keepfs_frames::{Pin, Ref};
use keepfs_vault::arena::Line;
use keepfs_vault::planted::{self, Use};

impl Store {
    /// Whose the frame of `r` is.
    #[inline]
    pub(crate) fn binding(&self, r: Ref) -> Binding {
        self.ground.pool.binding(r.id, r.kind as u8)
    }

    /// Pins the frame of a metablock, fetching it if need be. `None`: there is no such metablock.
    pub(crate) fn fetch_known(&self, id: MetaId) -> Result<Option<Pin<'_>>, Error> {
        let prefetch = |frame| self.frames.arena.prefetch(frame);
        match self.frames.cache.pin_and(id, prefetch) {
            Some(pin) => Ok(Some(pin)),
            None => self.home.fetch(&self.frames, id),
        }
    }

    /// Pins the frame of a metablock that must exist.
    pub(crate) fn fetch(&self, id: MetaId) -> Result<Pin<'_>, Error> {
        self.fetch_known(id)?
            .ok_or_else(|| Error::damaged(id, format!("{id} is named but does not exist")))
    }

    /// Puts a metablock born in a transaction into a frame.
    pub(crate) fn place_new(&self, id: MetaId, header: &Header) -> Result<Pin<'_>, Stop> {
        let placed = self.frames.place_new(id, header)?;
        placed.ok_or(Stop::Pressure(Pressure::Frames))
    }

    /// A private verified copy of a frame, as it goes to the device. Errors: `Scribble`, `Fenced`.
    pub(crate) fn verified_copy(&self, pin: &Pin<'_>, copy: &mut [u8; PAGE]) -> Result<(), Error> {
        self.home.verified_copy(&self.frames, pin, copy)
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

    /// Copies bytes out of a frame of `binding`. Errors: `Fenced`, `Scribble`: they are not right, and nothing mends them.
    #[inline]
    #[cfg_attr(feature = "planted", track_caller)]
    pub(crate) fn read(&self, pin: &Pin<'_>, binding: Binding, offset: usize, buf: &mut [u8]) -> Result<(), Error> {
        match self.frames.arena.load(pin.frame, binding, offset, buf) {
            Ok(()) => Ok(()),
            Err(_) => self.home.mended(&self.frames, pin, || {
                self.frames.arena.load(pin.frame, binding, offset, buf)
            }),
        }
    }

    /// The line of a frame of `binding` that has the byte at `offset`, into `line`. Errors: as [`Store::read`].
    #[inline]
    #[cfg_attr(feature = "planted", track_caller)]
    pub(crate) fn line(&self, pin: &Pin<'_>, binding: Binding, offset: usize, line: &mut Line) -> Result<(), Error> {
        let number = line::at(offset);
        match self.frames.arena.line(pin.frame, binding, number, line) {
            Ok(()) => Ok(()),
            Err(_) => self.home.mended(&self.frames, pin, || {
                self.frames.arena.line(pin.frame, binding, number, line)
            }),
        }
    }

    /// All bytes of a frame of `binding`. Errors: as [`Store::read`].
    #[inline]
    #[cfg_attr(feature = "planted", track_caller)]
    pub(crate) fn whole(&self, pin: &Pin<'_>, binding: Binding, copy: &mut [u8; PAGE]) -> Result<(), Error> {
        match self.frames.arena.whole(pin.frame, binding, copy) {
            Ok(()) => Ok(()),
            Err(_) => self
                .home
                .mended(&self.frames, pin, || self.frames.arena.whole(pin.frame, binding, copy)),
        }
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
        check_header(&header, r, self.ground.pool.tag)?;
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
            false => check_header(&header, r, self.ground.pool.tag),
        }
    }

    /// The header of a frame of which only the metablock is known: its kind is what the control words confirm. Errors: as
    /// [`Store::read`].
    #[cfg_attr(feature = "planted", track_caller)]
    pub(crate) fn header_in_frame(&self, pin: &Pin<'_>) -> Result<Header, Error> {
        match self.frames.header(pin)? {
            Ok(header) => Ok(header),
            Err(_) => self.home.mended(&self.frames, pin, || self.frames.header_now(pin)),
        }
    }
}

#[cfg(test)]
mod tests;
