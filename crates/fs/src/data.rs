//! Contents of regular files and long symlinks: reading, writing, truncating, allocating, seeking (SPEC sections 5, 7, S-8.8).
//!
//! Invariants: (1) a page's bytes are, in this order: its staged page, its written entry's device page, zeros;
//! (2) bytes beyond size in the page that size cuts are zero (S-5.7), so extending needs no care; (3) a written device
//! page is never overwritten in place; an unwritten one is written in place once, by the transaction that names it.

mod fallocate;
mod hole;
mod lost;
mod page;
mod place;
mod read;
mod refused;
mod seek;
mod settle;
mod splice;
mod truncate;
mod write;
mod write_out;

pub(crate) use hole::Hidden;
pub(crate) use lost::LostPages;
pub(crate) use page::place;
pub(crate) use splice::{Act, keep, splice};
pub(crate) use truncate::{Cut, free_pages};
pub(crate) use write_out::log_write_out;

use crate::errors::Step;
use crate::inode::{self, Held};
use crate::xattr;
use keepfs_format::PAGE;
use keepfs_format::blockmap::PageEntry;
use keepfs_format::oplog::Action;
use keepfs_format::plog::Record;
use keepfs_store::Txn;
use keepfs_vfs::{Errno, FileKind, Time};

/// Bytes of a page, as files count.
pub(crate) const PAGE_BYTES: u64 = PAGE as u64;
/// Most pages one transaction of the data path sets.
pub(crate) const PAGES_A_STEP: u64 = 256;

/// Errors: `EISDIR`, `EINVAL` for what is neither file nor directory.
pub(crate) fn regular(inode: &keepfs_format::inode::Inode) -> Step<()> {
    match inode::kind(inode) {
        FileKind::File => Ok(()),
        FileKind::Dir => crate::errors::refuse(Errno::EISDIR),
        _ => crate::errors::refuse(Errno::EINVAL),
    }
}

/// What every change of contents does besides: a new version, times, privileges lost.
pub(crate) fn contents_changed(txn: &mut Txn<'_>, file: &mut Held, kill_set_id: bool, now: Time) -> Step<()> {
    let (kill, time) = (u8::from(kill_set_id), inode::moment(now));
    txn.op(file.ino, Action::Contents { kill, time })?;
    file.modified(now);
    if kill_set_id {
        file.now.mode.set(inode::kill_set_id(file.now.mode.get()));
    }
    xattr::drop_capability(txn, file)
}

/// Valid bytes of page `index` of a file of `size` bytes.
fn valid_len(index: u64, size: u64) -> u32 {
    size.saturating_sub(index.saturating_mul(PAGE_BYTES)).min(PAGE_BYTES) as u32
}

/// Tells the log that entries were set: one record a run of pages that follow each other (S-8.5 map-entry). Holes and
/// lost pages have none.
pub(crate) fn note_entries(txn: &mut Txn<'_>, file: &Held, first: u64, entries: &[PageEntry]) {
    let mut at = 0;
    while at < entries.len() {
        let head = entries[at];
        let run = entries[at..].iter().enumerate().take_while(|(i, e)| {
            e.flags() == head.flags() && (head.page() == 0 || e.page() == head.page() + *i as u64)
        });
        let count = run.count();
        let index = first + at as u64;
        let crcs = if crate::blockmap::is_written(&head) {
            entries[at..at + count].iter().map(|e| e.crc.get()).collect()
        } else {
            Vec::new()
        };
        txn.note(Record::MapEntry {
            ino: file.ino,
            index,
            page: head.page(),
            count: count as u32,
            version: file.version(),
            last_len: valid_len(index + count as u64 - 1, file.now.size.get()),
            crcs,
        });
        at += count;
    }
}

/// Tells the log that `count` pages became holes, whether they were mapped or staged.
pub(crate) fn note_holes(txn: &mut Txn<'_>, file: &Held, first: u64, count: u64) {
    let (mut index, mut left) = (first, count);
    while left > 0 {
        let now = left.min(1 << 30);
        txn.note(Record::MapEntry {
            ino: file.ino,
            index,
            page: 0,
            count: now as u32,
            version: file.version(),
            last_len: 0,
            crcs: Vec::new(),
        });
        index += now;
        left -= now;
    }
}
