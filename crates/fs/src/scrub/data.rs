//! File data at rest: each page that a block map names, held against its CRC-32C (S-19.5).

use crate::Volume;
use crate::blockmap::{self, Passed, Want};
use crate::errors::{Error, Result};
use crate::inode;
use crate::readdir::Much;
use keepfs_codes::crc32c;
use keepfs_format::PAGE;
use keepfs_format::blockmap::PageEntry;
use keepfs_format::inode::{BODY_DIRECT, BODY_TREE};
use keepfs_store::{BadData, Looked};
use keepfs_vfs::Errno;
use std::collections::HashSet;

/// Pages that are read at a time.
const RUN: usize = 64;
/// Pages of a file: more than any has.
const FILE_END: u64 = 1 << 52;

/// A page of a file, the next to look at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct DataPlace {
    /// The file's inode.
    pub ino: u64,
    /// The page.
    pub index: u64,
}

impl Volume {
    /// Looks at up to 64 pages of one file from `index` on. Where the file goes on; `None`: that was its end.
    pub(crate) fn scrub_file(&self, at: DataPlace, since_s: Option<i64>) -> Result<(Looked, Option<u64>)> {
        let mut looked = Looked::default();
        let _lock = self.locks.shared(at.ino);
        let inode = match self.see(|view| inode::live(view, at.ino)) {
            Ok(inode) => inode,
            Err(Error::Posix(Errno::ESTALE)) => return Ok((looked, None)),
            Err(error) => return Err(error),
        };
        let is_old = since_s.is_some_and(|since| inode.ctime.get().max(inode.mtime.get()) < since);
        if is_old || !matches!(inode.body, BODY_DIRECT | BODY_TREE) {
            return Ok((looked, None));
        }
        let range = (at.index, FILE_END);
        let mut passed = Passed::default();
        let next = self.see(|v| blockmap::next_at_once(v, at.ino, &inode, range, Want::Entry, &mut passed))?;
        let Some(first) = next else {
            return Ok((looked, None));
        };
        let mut entries = [PageEntry::HOLE; RUN];
        self.see(|view| blockmap::get(view, at.ino, &inode, first, &mut entries))?;
        for (index, entry) in (first..).zip(&entries) {
            looked += self.look_at_page(at.ino, index, entry);
        }
        Ok((looked, Some(first + RUN as u64)))
    }

    /// One page, read from the device itself; read once more before it is believed to be bad. It is remembered then, and
    /// whoever reads it gets EIO (S-7.6).
    fn look_at_page(&self, ino: u64, index: u64, entry: &PageEntry) -> Looked {
        let mut looked = Looked::default();
        // What is staged over it is what counts.
        match self.store.staged(ino, index, &mut [0; PAGE]) {
            Ok(false) if blockmap::is_written(entry) => {}
            Err(_) => {
                looked.bad = 1;
                return looked;
            }
            Ok(_) => return looked,
        }
        looked.pages = 1;
        let mut bad = BadData::Checksum;
        let mut right = |entry: &PageEntry| {
            let mut page = [0; PAGE];
            (0..2).any(|_| {
                let read = self.store.read_data_fresh(entry.page(), &mut page);
                bad = if read.is_ok() {
                    BadData::Checksum
                } else {
                    BadData::Unreadable
                };
                read.is_ok() && crc32c::of(&page) == entry.crc.get()
            })
        };
        if right(entry) {
            return looked;
        }
        let other = self.other_entry(ino, index, entry).ok().flatten();
        if !other.is_some_and(|now| !blockmap::is_written(&now) || right(&now)) {
            looked.bad = 1;
            let error = self.bad_page(ino, index, other.as_ref().unwrap_or(entry), bad);
            tracing::debug!(%error, "found by scrub");
        }
        looked
    }

    /// The regular files at and below an inode, with their directories, each once (an image may lead anywhere); those that vanish
    /// meanwhile are left out.
    pub(crate) fn subtree(&self, top: u64) -> Result<Vec<u64>> {
        let mut found = vec![top];
        let mut seen = HashSet::from([top]);
        let mut at = 0;
        while let Some(ino) = found.get(at).copied() {
            at += 1;
            let mut below = Vec::new();
            match self.do_readdir(ino, 0, Much::All, &mut |entry| {
                if !matches!(entry.name, b"." | b"..") && seen.insert(entry.ino.0) {
                    below.push(entry.ino.0);
                }
                true
            }) {
                Ok(()) => found.extend(below),
                Err(Error::Posix(Errno::ENOTDIR | Errno::ESTALE | Errno::ENOENT)) => {}
                Err(error) => return Err(error),
            }
        }
        found.sort_unstable();
        Ok(found)
    }
}
