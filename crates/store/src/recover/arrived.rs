//! Whether the data pages of a group reached the device before the power went (S-9.3).

use crate::error::Error;
use keepfs_codes::crc32c;
use keepfs_format::PAGE;
use keepfs_format::Space;
use keepfs_format::plog::Record;
use keepfs_media::{Device, PageNo};
use std::collections::BTreeMap;

/// Pages read at a time.
const BATCH: usize = 64;

/// Whether every data page that a group brings, and still names at its end, is on the device.
pub fn data_is_there(device: &dyn Device, pages: u64, group: u64, records: &[Record]) -> Result<bool, Error> {
    let wanted: Vec<(u64, u32)> = wanted(records).into_iter().collect();
    if let Some((beyond, _)) = wanted.last().filter(|(page, _)| *page >= pages) {
        return Err(Error::Damaged(format!(
            "log group {group} brings data page {beyond}, but the pool has only {pages}"
        )));
    }
    let mut buf = vec![0; BATCH.min(wanted.len()) * PAGE];
    for run in wanted.chunk_by(|a, b| a.0 + 1 == b.0).flat_map(|run| run.chunks(BATCH)) {
        let bytes = &mut buf[..run.len() * PAGE];
        if let Some(page) = first_missing(device, run, bytes) {
            tracing::info!(group, page, "the log ends here: its data did not reach the device");
            return Ok(false);
        }
    }
    Ok(true)
}

/// The pages that records bring and name at their end, and what CRC-32C they must have. A page that is named as often as
/// it got a reference was there before: if it is bad, that is one file's loss, not the log's end.
fn wanted(records: &[Record]) -> BTreeMap<u64, u32> {
    let mut wanted = named(records);
    let mut own: BTreeMap<u64, usize> = BTreeMap::new();
    for record in records {
        if let Record::MapEntry { page, crcs, .. } = record {
            (*page..)
                .zip(crcs)
                .for_each(|(page, _)| *own.entry(page).or_default() += 1);
        }
    }
    for record in records {
        if let Record::Ref { run, delta: 1.. } = record {
            let pages = own.range_mut(run.start..run.start + u64::from(run.count));
            pages.for_each(|(_, n)| *n = n.saturating_sub(1));
        }
    }
    wanted.retain(|page, _| own.get(page) != Some(&0));
    wanted
}

/// The pages that map-entry records name and no later record frees.
fn named(records: &[Record]) -> BTreeMap<u64, u32> {
    let mut wanted: BTreeMap<u64, u32> = BTreeMap::new();
    for record in records {
        match record {
            Record::MapEntry { page, crcs, .. } if *page != 0 => wanted.extend((*page..).zip(crcs.iter().copied())),
            Record::Free {
                space: Space::Pages,
                run,
            } => {
                let freed = run.start..run.start + u64::from(run.count);
                let gone: Vec<u64> = wanted.range(freed).map(|(page, _)| *page).collect();
                gone.iter().for_each(|page| {
                    wanted.remove(page);
                });
            }
            _ => {}
        }
    }
    wanted
}

/// The first page of a run of neighbours that cannot be read or has another CRC.
fn first_missing(device: &dyn Device, run: &[(u64, u32)], bytes: &mut [u8]) -> Option<u64> {
    let whole = device.read(PageNo(run[0].0), bytes).is_ok();
    let pages = run.iter().zip(bytes.chunks_exact_mut(PAGE));
    for ((page, crc), bytes) in pages {
        let read = whole || device.read(PageNo(*page), bytes).is_ok();
        if !read || crc32c::of(bytes) != *crc {
            return Some(*page);
        }
    }
    None
}
