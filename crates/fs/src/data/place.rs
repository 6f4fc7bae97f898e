//! Where new data goes on the device, and the transaction step that names it there.

use super::note_entries;
use crate::Volume;
use crate::blockmap;
use crate::errors::{Error, Result, Step};
use crate::inode::Held;
use keepfs_format::blockmap::{LOST, PageEntry, WRITTEN};
use keepfs_format::inode::Inode;
use keepfs_format::plog::Run;
use keepfs_format::{Kind, PAGE, bitmap};
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Near, Purpose, Ref, Reservation, Source, Txn};

/// Data of neighbouring pages of a file that is on the device but not named yet.
pub(crate) struct Placed<'s> {
    /// First page of the file.
    first: u64,
    /// Device page of each.
    pages: Vec<u64>,
    /// CRC-32C of each.
    crcs: Vec<u32>,
    fresh: Fresh<'s>,
}

/// Pages reserved for data. Given back on drop unless kept.
#[derive(Default)]
pub(super) struct Fresh<'s>(Vec<Reservation<'s>>);

impl<'s> Fresh<'s> {
    /// Adds a reservation; its pages, in order.
    pub fn add(&mut self, reservation: Reservation<'s>) -> Vec<u64> {
        let pages = pages_of(reservation.runs());
        self.0.push(reservation);
        pages
    }

    /// The pages become allocated by this transaction.
    pub fn allocate(&self, txn: &mut Txn<'_>) -> Step<()> {
        for run in self.0.iter().flat_map(|r| r.runs()) {
            txn.use_pages(*run)?;
        }
        Ok(())
    }

    /// The transaction that has called [`Fresh::allocate`] committed: the pages are taken.
    pub fn keep(self) {
        self.0.into_iter().for_each(Reservation::allocated);
    }

    /// A page was not used; `true` if it was one of these.
    pub fn leave(&mut self, page: u64, refused: bool) -> bool {
        let has = |r: &&mut Reservation<'_>| pages_of(r.runs()).contains(&page);
        let found = self.0.iter_mut().find(has);
        found.map(|r| r.leave(page, refused)).is_some()
    }
}

fn pages_of(runs: &[Run]) -> Vec<u64> {
    let pages = runs.iter().flat_map(|run| run.start..run.start + u64::from(run.count));
    pages.collect()
}

impl Placed<'_> {
    /// Names the pages: entries, bitmap, log record; frees what was there. Run in the transaction, `size` set before.
    pub fn name(&self, txn: &mut Txn<'_>, file: &mut Held) -> Step<()> {
        self.fresh.allocate(txn)?;
        name_pages(txn, file, self.first, &self.pages, &self.crcs)
    }

    /// The transaction committed: the pages are taken.
    pub fn keep(self) {
        self.fresh.keep();
    }
}

/// Whether the file has the page of the entry to itself, so that who overwrites it gives one back (S-20.5). Unwritten pages are
/// nobody else's.
pub(super) fn is_own(source: &mut impl Source, entry: &PageEntry) -> Step<bool> {
    Ok(blockmap::is_unwritten(entry) || blockmap::has_page(entry) && !is_shared(source, entry.page())?)
}

/// Whether other entries name the page too.
fn is_shared(source: &mut impl Source, page: u64) -> Step<bool> {
    let (id, offset) = bitmap::share(page);
    let (kind, owner, mut count) = (Kind::Shares, 0, [0; 2]);
    source.read(Ref { id, kind, owner }, offset, &mut count)?;
    Ok(count != [0; 2])
}

/// Sets the entries of pages that are on the device and allocated, frees what was there, tells the log.
pub(super) fn name_pages(txn: &mut Txn<'_>, file: &mut Held, first: u64, pages: &[u64], crcs: &[u32]) -> Step<()> {
    let version = file.version() + u32::from(planted::has(Logic::VersionAhead));
    let entry = |(page, crc): (&u64, &u32)| PageEntry::new(*page, WRITTEN, *crc, version);
    let new: Vec<PageEntry> = pages.iter().zip(crcs).map(entry).collect();
    set_entries(txn, file, first, &new)
}

/// Sets the entries of pages whose data could not be written anywhere (S-7.6), frees what was there, tells the log.
pub(super) fn name_lost(txn: &mut Txn<'_>, file: &mut Held, first: u64, count: u64) -> Step<()> {
    let lost = PageEntry::new(0, LOST, 0, file.version());
    set_entries(txn, file, first, &vec![lost; count as usize])
}

fn set_entries(txn: &mut Txn<'_>, file: &mut Held, first: u64, new: &[PageEntry]) -> Step<()> {
    let mut old = vec![PageEntry::HOLE; new.len()];
    blockmap::set(txn, file, first, new, &mut old)?;
    for (was, is) in old.iter().zip(new) {
        if blockmap::has_page(was) && was.page() != is.page() {
            txn.free_page(was.page())?;
        }
    }
    note_entries(txn, file, first, new);
    Ok(())
}

impl Volume {
    /// Writes whole pages from page `first` on to the device. `parts` are pages one behind the other.
    pub(crate) fn put_on_device(&self, ino: u64, inode: &Inode, first: u64, parts: &[&[u8]]) -> Result<Placed<'_>> {
        let count: usize = parts.iter().map(|p| p.len() / PAGE).sum();
        // With the page before them: what follows it is put near it.
        let before = usize::from(first > 0);
        let mut old = vec![PageEntry::HOLE; before + count];
        let mut new = 0;
        self.see(|view| {
            blockmap::get(view, ino, inode, first - before as u64, &mut old)?;
            // What overwrites has a claim to a page: its old one becomes free (promise C-7), unless other files have it too.
            new = 0;
            let may_share = old[before..].iter().any(blockmap::has_page) && self.store.totals().shares > 0;
            for (index, entry) in (first..).zip(&old[before..]) {
                let gives_back = match may_share {
                    true => is_own(view, entry)?,
                    false => blockmap::has_page(entry),
                };
                new += usize::from(!gives_back && !self.is_staged(ino, index));
            }
            Ok(())
        })?;
        let near = old.iter().find(|e| blockmap::has_page(e));
        let near = near.map_or(Near::Thread, |e| Near::Page(e.page()));
        let old = &old[before..];
        let in_place = |e: &PageEntry| blockmap::is_unwritten(e).then(|| e.page());
        let wanted = old.iter().filter(|e| in_place(e).is_none()).count();
        let mut fresh = Fresh::default();
        let mut free = Vec::new();
        for (count, purpose) in [(new, Purpose::New), (wanted - new, Purpose::Claimed)] {
            if count > 0 {
                free.extend(fresh.add(self.reserve(count as u32, purpose, near)?));
            }
        }
        let purpose = if new > 0 { Purpose::New } else { Purpose::Claimed };
        let mut free = free.into_iter();
        let pages: Option<Vec<u64>> = old.iter().map(|e| in_place(e).or_else(|| free.next())).collect();
        let mut pages = pages.ok_or(Error::Store(keepfs_store::Error::NoSpace))?;
        let crcs = self.write_to(&mut pages, parts, purpose, &mut fresh)?;
        Ok(Placed {
            first,
            pages,
            crcs,
            fresh,
        })
    }

    /// Free pages; when there are none, reclaims and makes frees durable first (promise C-7).
    pub(crate) fn reserve(&self, pages: u32, purpose: Purpose, near: Near) -> Result<Reservation<'_>> {
        match self.store.reserve(pages, purpose, near).map_err(Error::Store) {
            Err(error) if error.is_no_space() => {
                self.find_space(pages.into())?;
                Ok(self.store.reserve(pages, purpose, near)?)
            }
            other => other,
        }
    }
}
