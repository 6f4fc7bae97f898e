//! The copies of a metablock on the device: reading them, what is wrong with a bad one, and what becomes of it
//! (SPEC S-3.2, S-4.3).
//!
//! A bad copy is read around and the next checkpoint writes the metablock to other pages, which frees the bad one's. If a
//! map entry names a page that is another metablock's home, that would free the home of the other: the checkpoint that
//! would do so is refused instead (S-4.6).

use crate::error::Error;
use crate::events::{Done, Place, Seen, Told, owner_of};
use crate::{Flash, Store};
use core::fmt;
use core::sync::atomic::Ordering;
use keepfs_codes::crc64;
use keepfs_format::map::{LIVE, MapEntry};
use keepfs_format::{MetaId, PAGE};
use keepfs_media::{Device, PageNo};
use keepfs_vault::arena;

/// Bytes of a sector, the unit that a device does not tear.
const SECTOR: usize = 512;

/// What is wrong with a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flaw {
    /// The device cannot read it.
    Unreadable,
    /// Its bytes do not have the checksum of the map entry.
    Checksum,
    /// They do, but the header is not that of this metablock in this life.
    Header,
    /// There stands another metablock of this pool.
    Holds(MetaId),
    /// No page has what was committed (S-4.8).
    Lost,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Unreadable => f.write_str("cannot be read"),
            Flaw::Checksum => f.write_str("has a wrong checksum"),
            Flaw::Header => f.write_str("has the header of another life or pool"),
            Flaw::Holds(id) => write!(f, "holds {id}"),
            Flaw::Lost => f.write_str("does not have what was committed, which is lost"),
        }
    }
}

/// A copy that was read around.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BadCopy {
    /// Whose copy it is according to the map.
    pub id: MetaId,
    /// The page that the map names.
    page: u64,
    flaw: Flaw,
}

/// The copies of a metablock as they were found.
#[derive(Default)]
pub(crate) struct AtRest {
    /// What stands in one that is good.
    pub right: Option<arena::Copy>,
    /// How many are good.
    pub good: u32,
    /// The bad ones.
    pub bad: Vec<Found>,
}

/// A bad copy with what was read.
pub(crate) struct Found {
    what: BadCopy,
    /// The first or the second.
    copy: u8,
    bytes: arena::Copy,
}

/// Copies of a metablock that were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopiesSeen {
    /// How many.
    pub read: u32,
    /// How many of them were bad.
    pub bad: u32,
}

impl Flash {
    /// Reads a live metablock, from its second copy if the first is bad. Errors: every copy is bad, and why.
    pub(crate) fn read_copies(&self, store: &Store, id: MetaId, entry: &MapEntry) -> Result<arena::Copy, Error> {
        let mut bytes: arena::Copy = Box::new([0; PAGE]);
        self.read_copies_to(store, id, entry, &mut bytes)?;
        Ok(bytes)
    }

    /// The same into a page of the caller's, which holds whatever was read if it fails.
    pub(crate) fn read_copies_to(
        &self,
        store: &Store,
        id: MetaId,
        entry: &MapEntry,
        bytes: &mut [u8; PAGE],
    ) -> Result<(), Error> {
        let mut bad: Vec<Found> = Vec::new();
        let pages = [entry.first.get(), entry.second.get()];
        for (copy, page) in (0..).zip(pages).filter(|(_, page)| *page != 0) {
            match self.read_copy(store, id, entry, page, bytes) {
                Ok(()) => {
                    bad.iter().for_each(|found| self.tell_found(store, found, Some(bytes)));
                    self.rewrite_found(&bad);
                    store.watch.events.history.read_right(id.0);
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
            self.tell_lost_metablock(store, id, &bad);
            let what =
                format!("{id} is lost: restore what is in it from a copy; `keepfs damage list` says whose it is");
            return Err(Error::damaged(id, what));
        }
        bad.iter().for_each(|found| self.tell_found(store, found, None));
        let why: Vec<String> = bad
            .iter()
            .map(|c| format!("page {} {}", c.what.page, c.what.flaw))
            .collect();
        let what = format!("{id} is bad in every copy: {}", why.join(", "));
        Err(Error::damaged(id, what))
    }

    fn read_copy(
        &self,
        store: &Store,
        id: MetaId,
        entry: &MapEntry,
        page: u64,
        bytes: &mut [u8; PAGE],
    ) -> Result<(), Flaw> {
        let read = store.device.read(PageNo(page), bytes);
        store.watch.stats.fetched.fetch_add(1, Ordering::Relaxed);
        match read {
            Ok(()) => self.judge_copy(store, id, entry, bytes),
            Err(_) => Err(Flaw::Unreadable),
        }
    }

    /// The copies of a live metablock, read from the device itself (scrub, S-19.3). Tells nobody.
    pub(crate) fn copies_at_rest(&self, store: &Store, id: MetaId, entry: &MapEntry) -> AtRest {
        let mut seen = AtRest::default();
        let pages = [entry.first.get(), entry.second.get()];
        for (copy, page) in (0..).zip(pages).filter(|(_, page)| *page != 0) {
            let mut bytes: arena::Copy = Box::new([0; PAGE]);
            let read = store.device.read_fresh(PageNo(page), &mut *bytes);
            let read = read.map_err(|_| Flaw::Unreadable);
            match read.and_then(|()| self.judge_copy(store, id, entry, &bytes)) {
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

    /// What is wrong with the bytes of a copy.
    fn judge_copy(&self, store: &Store, id: MetaId, entry: &MapEntry, bytes: &[u8; PAGE]) -> Result<(), Flaw> {
        let whole = crc64::full(bytes) == entry.crc.get();
        if whole && store.pool.names_itself(id, entry, bytes) {
            return Ok(());
        }
        Err(match store.pool.metablock_in(bytes) {
            _ if entry.is_lost() => Flaw::Lost,
            Some(other) if other != id => Flaw::Holds(other),
            _ if whole => Flaw::Header,
            _ => Flaw::Checksum,
        })
    }

    /// A bad copy; `right` is what the other one has, if that is good.
    fn tell_found(&self, store: &Store, found: &Found, right: Option<&[u8; PAGE]>) {
        self.tell_copy(store, found, right, right.map_or(Done::Nothing, |_| Done::OtherCopy));
    }

    /// A metablock that is lost is met: it is told if the list of damages does not have it (any more).
    fn tell_lost_metablock(&self, store: &Store, id: MetaId, bad: &[Found]) {
        let is_listed = store.history().damage().iter().any(|entry| entry.id == id.0);
        let untold = bad.first().filter(|_| !is_listed);
        untold.into_iter().for_each(|found| self.tell_found(store, found, None));
    }

    /// A bad copy, and what is done about it.
    pub(crate) fn tell_copy(&self, store: &Store, found: &Found, right: Option<&[u8; PAGE]>, done: Done) {
        let BadCopy { id, page, flaw } = found.what;
        store.count_bad_checksum(flaw != Flaw::Unreadable);
        store.watch.stats.bad_copies.fetch_add(1, Ordering::Relaxed);
        let seen = match (flaw, right) {
            (Flaw::Unreadable, _) => Seen::Medium,
            // Where little differs it is the name in the header that was hit.
            (Flaw::Checksum | Flaw::Holds(_), Some(right)) if Seen::is_small(right, &found.bytes) => {
                Seen::between(right, &found.bytes, 0)
            }
            (Flaw::Holds(_), Some(right)) if is_torn(right, &found.bytes) => Seen::Torn,
            (Flaw::Holds(other), _) if self.is_all_of(store, other, &found.bytes) => Seen::Misdirected(other),
            (Flaw::Checksum | Flaw::Header | Flaw::Holds(_) | Flaw::Lost, _) => Seen::Checksum,
        };
        store.watch.events.tell_of(&Told {
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
    fn is_all_of(&self, store: &Store, other: MetaId, bytes: &[u8; PAGE]) -> bool {
        store.is_as_framed(other, bytes) || self.crc_at_home(store, other) == Some(crc64::full(bytes))
    }

    /// Bad copies were read around; the next checkpoint writes the metablock anew (never in place).
    pub(crate) fn rewrite_found(&self, bad: &[Found]) {
        if !bad.is_empty() {
            self.checkpoints
                .bad_copies
                .lock()
                .extend(bad.iter().map(|found| found.what));
        }
    }

    /// See [`Store::check_copies`].
    pub(crate) fn check_copies(&self, store: &Store, id: MetaId) -> Result<CopiesSeen, Error> {
        let mut seen = CopiesSeen::default();
        let Some(entry) = self.live(id, self.locate(store, id)?)? else {
            return Ok(seen);
        };
        let mut bytes: arena::Copy = Box::new([0; PAGE]);
        let (mut bad, mut right) = (Vec::new(), None);
        let pages = [entry.first.get(), entry.second.get()];
        for (copy, page) in (0..).zip(pages).filter(|(_, page)| *page != 0) {
            seen.read += 1;
            match self.read_copy(store, id, &entry, page, &mut bytes) {
                Ok(()) => right = Some(bytes.clone()),
                Err(flaw) => bad.push(Found {
                    what: BadCopy { id, page, flaw },
                    copy,
                    bytes: bytes.clone(),
                }),
            }
        }
        // A checkpoint may have moved it meanwhile: then these pages are somebody else's.
        if bad.is_empty() || self.locate(store, id)? != Some(entry) {
            return Ok(seen);
        }
        seen.bad = bad.len() as u32;
        bad.iter()
            .for_each(|found| self.tell_found(store, found, right.as_deref()));
        if right.is_some() {
            self.rewrite_found(&bad);
        }
        Ok(seen)
    }

    /// See [`Store::is_whole_at_rest`].
    pub(crate) fn is_whole_at_rest(
        &self,
        store: &Store,
        id: MetaId,
        known: Option<&MapEntry>,
    ) -> Result<bool, MapEntry> {
        if store.life.ending.fault().is_some() || store.frames.fences.has(id) {
            return Ok(false);
        }
        let entry = match self.locate(store, id).and_then(|entry| self.live(id, entry)) {
            Ok(Some(entry)) => entry,
            Ok(None) => return Ok(true),
            Err(_) => return Ok(false),
        };
        if entry.is_lost() || known == Some(&entry) {
            return Ok(false);
        }
        let mut bytes: arena::Copy = Box::new([0; PAGE]);
        let mut pages = [entry.first.get(), entry.second.get()].into_iter();
        match pages.any(|page| page != 0 && self.read_copy(store, id, &entry, page, &mut bytes).is_ok()) {
            true => Ok(true),
            false => Err(entry),
        }
    }

    /// A page that a bad copy was read from may be freed: no other metablock lives there (S-4.6). Errors: one does, so the
    /// map is damaged, and nothing may be written that follows from it.
    pub(crate) fn check_not_crossed(&self, store: &Store, copy: &BadCopy) -> Result<(), Error> {
        let Flaw::Holds(other) = copy.flaw else { return Ok(()) };
        let lives_there = |e: MapEntry| e.state == LIVE && [e.first.get(), e.second.get()].contains(&copy.page);
        match self.locate(store, other)?.is_some_and(lives_there) {
            false => Ok(()),
            true => Err(Error::Damaged(format!(
                "the map entry of {} names page {}, which is the home of {other}; run `keepfs check` on the pool",
                copy.id, copy.page
            ))),
        }
    }
}

/// Whether a page that begins with another metablock's header has parts of two writes: sectors behind it that are those of
/// the right copy, zeros aside, which whoever has the page before may have left, too (S-18.5).
fn is_torn(right: &[u8; PAGE], found: &[u8; PAGE]) -> bool {
    let sectors = right.as_chunks::<SECTOR>().0.iter().zip(found.as_chunks::<SECTOR>().0);
    sectors
        .skip(1)
        .any(|(right, found)| right == found && right != &[0; SECTOR])
}
