//! Where new data goes on the device, and the transaction step that names it there.

use super::note_entries;
use crate::blockmap;
use crate::errors::{Error, Result, Step};
use crate::inode::Held;
use crate::volume::Volume;
use keepfs_codes::crc32c;
use keepfs_format::PAGE;
use keepfs_format::blockmap::{PageEntry, WRITTEN};
use keepfs_format::inode::Inode;
use keepfs_store::{Purpose, Reservation, Txn};

/// Data of neighbouring pages of a file that is on the device but not named yet.
pub(crate) struct Placed<'s> {
    /// First page of the file.
    first: u64,
    /// Device page of each.
    pages: Vec<u64>,
    /// CRC-32C of each.
    crcs: Vec<u32>,
    fresh: Option<Reservation<'s>>,
}

impl Placed<'_> {
    /// Names the pages: entries, bitmap, log record; frees what was there. Run in the transaction, `size` set before.
    pub fn name(&self, txn: &mut Txn<'_>, file: &mut Held) -> Step<()> {
        for run in self.fresh.iter().flat_map(|r| r.runs()) {
            txn.use_pages(*run)?;
        }
        name_pages(txn, file, self.first, &self.pages, &self.crcs)
    }

    /// The transaction committed: the pages are taken.
    pub fn keep(self) {
        if let Some(fresh) = self.fresh {
            fresh.keep();
        }
    }
}

/// Sets the entries of pages that are on the device and allocated, frees what was there, tells the log.
pub(super) fn name_pages(txn: &mut Txn<'_>, file: &mut Held, first: u64, pages: &[u64], crcs: &[u32]) -> Step<()> {
    let version = file.version();
    let entry = |(page, crc): (&u64, &u32)| PageEntry::new(*page, WRITTEN, *crc, version);
    let new: Vec<PageEntry> = pages.iter().zip(crcs).map(entry).collect();
    let mut old = vec![PageEntry::HOLE; new.len()];
    blockmap::set(txn, file, first, &new, &mut old)?;
    for (was, is) in old.iter().zip(&new) {
        if blockmap::has_page(was) && was.page() != is.page() {
            txn.free_page(was.page())?;
        }
    }
    note_entries(txn, file, first, &new);
    Ok(())
}

impl Volume {
    /// Writes whole pages from page `first` on to the device. `parts` are pages one behind the other.
    pub(crate) fn put_on_device(&self, ino: u64, inode: &Inode, first: u64, parts: &[&[u8]]) -> Result<Placed<'_>> {
        let count = parts.iter().map(|p| p.len() / PAGE).sum();
        let mut old = vec![PageEntry::HOLE; count];
        self.see(|view| blockmap::get(view, ino, inode, first, &mut old))?;
        let in_place = |e: &PageEntry| blockmap::is_unwritten(e).then(|| e.page());
        let wanted = old.iter().filter(|e| in_place(e).is_none()).count();
        // What overwrites has a claim to a page: its old one becomes free (promise C-7).
        let is_new = |(i, e): (usize, &PageEntry)| e.is_hole() && !self.is_staged(ino, first + i as u64);
        let purpose = if old.iter().enumerate().any(is_new) {
            Purpose::New
        } else {
            Purpose::Claimed
        };
        let fresh = if wanted > 0 {
            Some(self.reserve(wanted as u32, purpose)?)
        } else {
            None
        };
        let mut free = fresh
            .iter()
            .flat_map(|r| r.runs())
            .flat_map(|run| run.start..run.start + u64::from(run.count));
        let pages: Option<Vec<u64>> = old.iter().map(|e| in_place(e).or_else(|| free.next())).collect();
        let pages = pages.ok_or(Error::Store(keepfs_store::Error::NoSpace))?;
        let mut crcs = Vec::with_capacity(count);
        let mut at = 0;
        for part in parts {
            self.write_part(&pages[at..at + part.len() / PAGE], part, &mut crcs)?;
            at += part.len() / PAGE;
        }
        Ok(Placed {
            first,
            pages,
            crcs,
            fresh,
        })
    }

    /// Writes one part in as few runs as its device pages make.
    pub(super) fn write_part(&self, pages: &[u64], part: &[u8], crcs: &mut Vec<u32>) -> Result<()> {
        crcs.extend(part.chunks_exact(PAGE).map(crc32c::of));
        let mut at = 0;
        while at < pages.len() {
            let run = pages[at..]
                .iter()
                .enumerate()
                .take_while(|(i, p)| **p == pages[at] + *i as u64)
                .count();
            self.store.write_data(pages[at], &part[at * PAGE..(at + run) * PAGE])?;
            at += run;
        }
        Ok(())
    }

    /// Free pages; when there are none, reclaims and makes frees durable first (promise C-7).
    pub(crate) fn reserve(&self, pages: u32, purpose: Purpose) -> Result<Reservation<'_>> {
        match self.store.reserve(pages, purpose).map_err(Error::Store) {
            Err(error) if error.is_no_space() => {
                self.find_space()?;
                Ok(self.store.reserve(pages, purpose)?)
            }
            other => other,
        }
    }
}
