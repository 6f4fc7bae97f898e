//! The copies of a metablock on the device: reading them, what is wrong with a bad one, and what becomes of it
//! (SPEC S-3.2, S-4.3).
//!
//! A bad copy is read around and the next checkpoint writes the metablock to other pages, which frees the bad one's. If a
//! map entry names a page that is another metablock's home, that would free the home of the other: the checkpoint that
//! would do so is refused instead (S-4.6).

use crate::error::Error;
use crate::{Store, arena};
use core::fmt;
use core::sync::atomic::Ordering;
use keepfs_codes::crc64;
use keepfs_format::map::{LIVE, MapEntry};
use keepfs_format::{FromBytes, Header, MetaId, PAGE, metablock};
use keepfs_media::{Device, PageNo};

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
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Unreadable => f.write_str("cannot be read"),
            Flaw::Checksum => f.write_str("has a wrong checksum"),
            Flaw::Header => f.write_str("has the header of another life or pool"),
            Flaw::Holds(id) => write!(f, "holds {id}"),
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

impl Store {
    /// Reads a live metablock, from its second copy if the first is bad. Errors: every copy is bad, and why.
    pub(crate) fn read_copies(&self, id: MetaId, entry: &MapEntry) -> Result<arena::Copy, Error> {
        let mut bytes: arena::Copy = Box::new([0; PAGE]);
        let mut bad: Vec<BadCopy> = Vec::new();
        let pages = [entry.first.get(), entry.second.get()];
        for page in pages.into_iter().filter(|page| *page != 0) {
            match self.read_copy(id, entry, page, &mut bytes) {
                Ok(()) => {
                    self.rewrite_later(&bad);
                    return Ok(bytes);
                }
                Err(flaw) => bad.push(self.tell_bad(BadCopy { id, page, flaw })),
            }
        }
        let why: Vec<String> = bad.iter().map(|c| format!("page {} {}", c.page, c.flaw)).collect();
        Err(Error::Damaged(format!("{id} is bad in every copy: {}", why.join(", "))))
    }

    fn read_copy(&self, id: MetaId, entry: &MapEntry, page: u64, bytes: &mut [u8; PAGE]) -> Result<(), Flaw> {
        let read = self.device.read(PageNo(page), bytes);
        self.stats.fetched.fetch_add(1, Ordering::Relaxed);
        match read {
            Ok(()) => self.judge_copy(id, entry, bytes),
            Err(_) => Err(Flaw::Unreadable),
        }
    }

    /// The copies of a live metablock that are bad, read from the device itself (scrub, S-19.3). Tells nobody.
    pub(crate) fn flaws_at_rest(&self, id: MetaId, entry: &MapEntry) -> Vec<BadCopy> {
        let mut bytes: arena::Copy = Box::new([0; PAGE]);
        let pages = [entry.first.get(), entry.second.get()];
        let look = |page: u64| {
            let read = self.device.read_fresh(PageNo(page), &mut *bytes);
            let read = read.map_err(|_| Flaw::Unreadable);
            let flaw = read.and_then(|()| self.judge_copy(id, entry, &bytes)).err()?;
            Some(BadCopy { id, page, flaw })
        };
        pages.into_iter().filter(|page| *page != 0).filter_map(look).collect()
    }

    /// What is wrong with the bytes of a copy.
    fn judge_copy(&self, id: MetaId, entry: &MapEntry, bytes: &[u8; PAGE]) -> Result<(), Flaw> {
        let whole = crc64::full(bytes) == entry.crc.get();
        if whole && self.names_itself(id, entry, bytes) {
            return Ok(());
        }
        Err(match self.metablock_in(bytes) {
            Some(other) if other != id => Flaw::Holds(other),
            _ if whole => Flaw::Header,
            _ => Flaw::Checksum,
        })
    }

    /// Which metablock of this pool a page holds, as its header says; nobody vouches for the rest of it.
    fn metablock_in(&self, bytes: &[u8; PAGE]) -> Option<MetaId> {
        let (header, _) = Header::read_from_prefix(bytes).ok()?;
        let ours = header.magic.get() == metablock::MAGIC && header.pool.get() == self.pool.tag;
        ours.then(|| MetaId(header.id.get()))
    }

    /// The header is that of `id` in the life that the map entry tells (S-3.2).
    pub(crate) fn names_itself(&self, id: MetaId, entry: &MapEntry, bytes: &[u8; PAGE]) -> bool {
        Header::read_from_prefix(bytes).is_ok_and(|(h, _)| {
            h.magic.get() == metablock::MAGIC
                && h.id.get() == id.0
                && h.generation == entry.generation
                && h.kind == entry.kind
                && h.pool.get() == self.pool.tag
        })
    }

    pub(crate) fn tell_bad(&self, copy: BadCopy) -> BadCopy {
        self.count_bad_checksum(copy.flaw != Flaw::Unreadable);
        self.stats.bad_copies.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(metablock = %copy.id, page = copy.page, "a copy of metadata is bad: its page {}", copy.flaw);
        copy
    }

    /// Bad copies were read around; the next checkpoint writes the metablock anew (never in place).
    pub(crate) fn rewrite_later(&self, bad: &[BadCopy]) {
        if !bad.is_empty() {
            self.bad_copies.lock().extend_from_slice(bad);
        }
    }

    /// A page that a bad copy was read from may be freed: no other metablock lives there (S-4.6). Errors: one does, so the
    /// map is damaged, and nothing may be written that follows from it.
    pub(crate) fn check_not_crossed(&self, copy: &BadCopy) -> Result<(), Error> {
        let Flaw::Holds(other) = copy.flaw else { return Ok(()) };
        let lives_there = |e: MapEntry| e.state == LIVE && [e.first.get(), e.second.get()].contains(&copy.page);
        match self.locate(other)?.is_some_and(lives_there) {
            false => Ok(()),
            true => Err(Error::Damaged(format!(
                "the map entry of {} names page {}, which is the home of {other}; run `keepfs check` on the pool",
                copy.id, copy.page
            ))),
        }
    }
}
