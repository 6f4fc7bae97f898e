//! The copies of a metablock on the device: reading them, what is wrong with a bad one, and what becomes of it
//! (SPEC S-3.2, S-4.3).
//!
//! A bad copy is read around and the next checkpoint writes the metablock to other pages, which frees the bad one's. If a
//! map entry names a page that is another metablock's home, that would free the home of the other: the checkpoint that
//! would do so is refused instead (S-4.6).

use crate::bad::{AtRest, BadCopy, CopiesSeen, Flaw, Found, is_torn, judge};
use crate::error::Error;
use crate::home::Flash;
use core::sync::atomic::Ordering;
use keepfs_codes::crc64;
use keepfs_format::map::{LIVE, MapEntry};
use keepfs_format::{MetaId, PAGE};
use keepfs_frames::Frames;
use keepfs_media::{Device, PageNo};
use keepfs_pool::events::{Done, Place, Seen, Told, owner_of};
use keepfs_vault::arena;

impl Flash {
    /// Reads a live metablock, from its second copy if the first is bad. Errors: every copy is bad, and why.
    pub fn read_copies(&self, frames: &Frames, id: MetaId, entry: &MapEntry) -> Result<arena::Copy, Error> {
        let mut bytes: arena::Copy = Box::new([0; PAGE]);
        self.read_copies_to(frames, id, entry, &mut bytes)?;
        Ok(bytes)
    }

    /// The same into a page of the caller's, which holds whatever was read if it fails.
    pub fn read_copies_to(
        &self,
        frames: &Frames,
        id: MetaId,
        entry: &MapEntry,
        bytes: &mut [u8; PAGE],
    ) -> Result<(), Error> {
        let mut bad: Vec<Found> = Vec::new();
        let pages = [entry.first.get(), entry.second.get()];
        for (copy, page) in (0..).zip(pages).filter(|(_, page)| *page != 0) {
            match self.read_copy(frames, id, entry, page, bytes) {
                Ok(()) => {
                    bad.iter().for_each(|found| self.tell_found(frames, found, Some(bytes)));
                    self.rewrite_found(&bad);
                    frames.ground.events.history.read_right(id.0);
                    return Ok(());
                }
                Err(flaw) => bad.push(Found {
                    what: BadCopy { id, page, flaw },
                    copy,
                    bytes: Box::new(*bytes),
                }),
            }
        }
        if entry.is_lost() {
            self.tell_lost_metablock(frames, id, &bad);
            let what =
                format!("{id} is lost: restore what is in it from a copy; `keepfs damage list` says whose it is");
            return Err(Error::damaged(id, what));
        }
        bad.iter().for_each(|found| self.tell_found(frames, found, None));
        let why: Vec<String> = bad
            .iter()
            .map(|c| format!("page {} {}", c.what.page, c.what.flaw))
            .collect();
        let what = format!("{id} is bad in every copy: {}", why.join(", "));
        Err(Error::damaged(id, what))
    }

    pub(crate) fn read_copy(
        &self,
        frames: &Frames,
        id: MetaId,
        entry: &MapEntry,
        page: u64,
        bytes: &mut [u8; PAGE],
    ) -> Result<(), Flaw> {
        let read = frames.ground.device.read(PageNo(page), bytes);
        frames.ground.stats.fetched.fetch_add(1, Ordering::Relaxed);
        match read {
            Ok(()) => judge(&frames.ground.pool, id, entry, bytes),
            Err(_) => Err(Flaw::Unreadable),
        }
    }

    /// The copies of a live metablock, read from the device itself (scrub, S-19.3). Tells nobody.
    pub fn copies_at_rest(&self, frames: &Frames, id: MetaId, entry: &MapEntry) -> AtRest {
        let mut seen = AtRest::default();
        let pages = [entry.first.get(), entry.second.get()];
        for (copy, page) in (0..).zip(pages).filter(|(_, page)| *page != 0) {
            let mut bytes: arena::Copy = Box::new([0; PAGE]);
            let read = frames.ground.device.read_fresh(PageNo(page), &mut *bytes);
            let read = read.map_err(|_| Flaw::Unreadable);
            match read.and_then(|()| judge(&frames.ground.pool, id, entry, &bytes)) {
                Ok(()) => {
                    seen.right = Some(bytes);
                    seen.good += 1;
                }
                Err(flaw) => seen.bad.push(Found {
                    what: BadCopy { id, page, flaw },
                    copy,
                    bytes,
                }),
            }
        }
        seen
    }

    /// A bad copy; `right` is what the other one has, if that is good.
    pub(crate) fn tell_found(&self, frames: &Frames, found: &Found, right: Option<&[u8; PAGE]>) {
        self.tell_copy(frames, found, right, right.map_or(Done::Nothing, |_| Done::OtherCopy));
    }

    /// A metablock that is lost is met: it is told if the list of damages does not have it (any more).
    pub(crate) fn tell_lost_metablock(&self, frames: &Frames, id: MetaId, bad: &[Found]) {
        let is_listed = frames
            .ground
            .events
            .history
            .damage()
            .iter()
            .any(|entry| entry.id == id.0);
        let untold = bad.first().filter(|_| !is_listed);
        untold
            .into_iter()
            .for_each(|found| self.tell_found(frames, found, None));
    }

    /// A bad copy, and what is done about it.
    pub fn tell_copy(&self, frames: &Frames, found: &Found, right: Option<&[u8; PAGE]>, done: Done) {
        let BadCopy { id, page, flaw } = found.what;
        frames.ground.count_bad_checksum(flaw != Flaw::Unreadable);
        frames.ground.stats.bad_copies.fetch_add(1, Ordering::Relaxed);
        let seen = match (flaw, right) {
            (Flaw::Unreadable, _) => Seen::Medium,
            // Where little differs it is the name in the header that was hit.
            (Flaw::Checksum | Flaw::Holds(_), Some(right)) if Seen::is_small(right, &found.bytes) => {
                Seen::between(right, &found.bytes, 0)
            }
            (Flaw::Holds(_), Some(right)) if is_torn(right, &found.bytes) => Seen::Torn,
            (Flaw::Holds(other), _) if self.is_all_of(frames, other, &found.bytes) => Seen::Misdirected(other),
            (Flaw::Checksum | Flaw::Header | Flaw::Holds(_) | Flaw::Lost, _) => Seen::Checksum,
        };
        frames.ground.events.tell_of(&Told {
            place: Place::Copy {
                id,
                copy: found.copy,
                page,
            },
            seen: &seen,
            done,
            owner: owner_of(id, right),
            inodes: &[],
            window_ms: None,
            more: format!("its page {flaw}"),
        });
    }

    /// A page holds all of `other`, as its frame or its home has it. A header alone proves nothing: a stray write may have
    /// brought it, with as much more as it likes. What is not in memory proves nothing either, and is not read for this.
    pub(crate) fn is_all_of(&self, frames: &Frames, other: MetaId, bytes: &[u8; PAGE]) -> bool {
        frames.is_as_framed(other, bytes) || self.crc_at_home(frames, other) == Some(crc64::full(bytes))
    }

    /// Bad copies were read around; the next checkpoint writes the metablock anew (never in place).
    pub fn rewrite_found(&self, bad: &[Found]) {
        if !bad.is_empty() {
            self.checkpoints
                .bad_copies
                .lock()
                .extend(bad.iter().map(|found| found.what));
        }
    }

    /// Reads every copy of a metablock or map page, for a scrub: what is bad is told and written anew by the next
    /// checkpoint (S-4.6). Errors: those of the map above it.
    pub fn check_copies(&self, frames: &Frames, id: MetaId) -> Result<CopiesSeen, Error> {
        let mut seen = CopiesSeen::default();
        let Some(entry) = self.live(id, self.locate(frames, id)?)? else {
            return Ok(seen);
        };
        let mut bytes: arena::Copy = Box::new([0; PAGE]);
        let (mut bad, mut right) = (Vec::new(), None);
        let pages = [entry.first.get(), entry.second.get()];
        for (copy, page) in (0..).zip(pages).filter(|(_, page)| *page != 0) {
            seen.read += 1;
            match self.read_copy(frames, id, &entry, page, &mut bytes) {
                Ok(()) => right = Some(bytes.clone()),
                Err(flaw) => bad.push(Found {
                    what: BadCopy { id, page, flaw },
                    copy,
                    bytes: bytes.clone(),
                }),
            }
        }
        // A checkpoint may have moved it meanwhile: then these pages are somebody else's.
        if bad.is_empty() || self.locate(frames, id)? != Some(entry) {
            return Ok(seen);
        }
        seen.bad = bad.len() as u32;
        bad.iter()
            .for_each(|found| self.tell_found(frames, found, right.as_deref()));
        if right.is_some() {
            self.rewrite_found(&bad);
        }
        Ok(seen)
    }

    /// Whether a metablock that was told as damaged is whole again, or does not live any more (S-18.8, S-18.14). Errors: the entry
    /// under which it is bad.
    pub fn is_whole_at_rest(&self, frames: &Frames, id: MetaId, known: Option<&MapEntry>) -> Result<bool, MapEntry> {
        if frames.ground.ending.fault().is_some() || frames.fences.has(id) {
            return Ok(false);
        }
        let entry = match self.locate(frames, id).and_then(|entry| self.live(id, entry)) {
            Ok(Some(entry)) => entry,
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        };
        if entry.is_lost() || known == Some(&entry) {
            return Ok(false);
        }
        let mut bytes: arena::Copy = Box::new([0; PAGE]);
        let mut pages = [entry.first.get(), entry.second.get()].into_iter();
        match pages.any(|page| page != 0 && self.read_copy(frames, id, &entry, page, &mut bytes).is_ok()) {
            true => Ok(true),
            false => Err(entry),
        }
    }

    /// A page that a bad copy was read from may be freed: no other metablock lives there (S-4.6). Errors: one does, so the
    /// map is damaged, and nothing may be written that follows from it.
    pub fn check_not_crossed(&self, frames: &Frames, copy: &BadCopy) -> Result<(), Error> {
        let Flaw::Holds(other) = copy.flaw else { return Ok(()) };
        let lives_there = |e: MapEntry| e.state == LIVE && [e.first.get(), e.second.get()].contains(&copy.page);
        match self.locate(frames, other)?.is_some_and(lives_there) {
            false => Ok(()),
            true => Err(Error::Damaged(format!(
                "the map entry of {} names page {}, which is the home of {other}; run `keepfs check` on the pool",
                copy.id, copy.page
            ))),
        }
    }
}
