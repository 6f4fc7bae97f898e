//! Whether the data pages of a group reached the device before the power went (S-9.3, S-9.13). One with a wrong bit counts as one
//! that did not: its sum is too short to mend it by (S-9.26).

use crate::error::Error;
use keepfs_codes::crc32c;
use keepfs_format::PAGE;
use keepfs_format::Space;
use keepfs_format::plog::{Record, Run};
use keepfs_media::{Device, PageNo};
use std::collections::BTreeMap;

/// Pages read at a time.
const BATCH: usize = 64;

/// A data page of a group that is taken, which cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable {
    /// Whose it is.
    pub ino: u64,
    /// Page of the file.
    pub index: u64,
    /// Page of the device.
    pub page: u64,
}

/// Whether every data page that a group brings, and still names at its end, is on the device, and which of them cannot be
/// read: an error is no sign that a page did not arrive. `None`: one did not.
pub fn data_is_there(
    device: &dyn Device,
    pages: u64,
    group: u64,
    records: &[Record],
) -> Result<Option<Vec<Unreadable>>, Error> {
    let wanted: Vec<(u64, u32)> = wanted(records).into_iter().collect();
    if let Some((beyond, _)) = wanted.last().filter(|(page, _)| *page >= pages) {
        return Err(Error::Damaged(format!(
            "log group {group} brings data page {beyond}, but the pool has only {pages}"
        )));
    }
    let mut buf = vec![0; BATCH.min(wanted.len()) * PAGE];
    let mut unreadable = Vec::new();
    for run in wanted.chunk_by(|a, b| a.0 + 1 == b.0).flat_map(|run| run.chunks(BATCH)) {
        let bytes = &mut buf[..run.len() * PAGE];
        let whole = device.read(PageNo(run[0].0), bytes).is_ok();
        for ((page, crc), bytes) in run.iter().zip(bytes.chunks_exact_mut(PAGE)) {
            let read = if whole {
                Ok(())
            } else {
                device.read(PageNo(*page), bytes)
            };
            match read.map_err(Error::from) {
                Ok(()) if crc32c::of(bytes) == *crc => {}
                Ok(()) => {
                    tracing::warn!(
                        "the log is taken up to group {group}, whose data page {page} is not what was written: it did not reach the \
                         device before the crash, and no sync that needs it was answered, or it was damaged since"
                    );
                    return Ok(None);
                }
                Err(error) if error.is_device_io() => unreadable.push(*page),
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Some(
        unreadable.into_iter().filter_map(|page| owner(records, page)).collect(),
    ))
}

/// Whose page it is at the end of the records.
fn owner(records: &[Record], page: u64) -> Option<Unreadable> {
    records.iter().rev().find_map(|record| match record {
        Record::MapEntry {
            ino,
            index,
            page: first,
            crcs,
            ..
        } if (*first..*first + crcs.len() as u64).contains(&page) => Some(Unreadable {
            ino: *ino,
            index: index + (page - first),
            page,
        }),
        _ => None,
    })
}

/// A page that map-entry records name.
struct Named {
    crc: u32,
    /// How often it was named, the references that it got taken off.
    brought: i64,
    /// The record that freed it last, before it was named.
    since: usize,
}

/// The pages that records bring and name at their end, and what CRC-32C they must have. A page that is named as often as
/// it got a reference was there before: if it is bad, that is one file's loss, not the log's end.
fn wanted(records: &[Record]) -> BTreeMap<u64, u32> {
    let mut named: BTreeMap<u64, Named> = BTreeMap::new();
    let mut freed: BTreeMap<u64, usize> = BTreeMap::new();
    let mut shared = Vec::new();
    let pages = |run: &Run| run.start..run.start + u64::from(run.count);
    for (at, record) in records.iter().enumerate() {
        match record {
            Record::MapEntry { page, crcs, .. } => {
                for (page, crc) in (*page..).zip(crcs) {
                    let first = || Named {
                        crc: *crc,
                        brought: 0,
                        since: freed.get(&page).copied().unwrap_or(0),
                    };
                    let found = named.entry(page).or_insert_with(first);
                    (found.crc, found.brought) = (*crc, found.brought + 1);
                }
            }
            Record::Ref { run, delta: 1.. } => shared.push((at, run)),
            Record::Free {
                space: Space::Pages,
                run,
            } => {
                let gone: Vec<u64> = named.range(pages(run)).map(|(page, _)| *page).collect();
                for page in gone {
                    named.remove(&page);
                    freed.insert(page, at);
                }
            }
            _ => {}
        }
    }
    for (at, run) in shared {
        let before = named.range_mut(pages(run)).filter(|(_, named)| named.since <= at);
        before.for_each(|(_, named)| named.brought -= 1);
    }
    let brought = named.into_iter().filter(|(_, named)| named.brought != 0);
    brought.map(|(page, named)| (page, named.crc)).collect()
}

#[cfg(test)]
mod tests;
