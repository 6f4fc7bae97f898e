//! What may be written to a pool: superblocks to their slots, the log to its region, data and metadata to neither,
//! nothing behind the pool's end, data to no page that a live map entry names (promise C-8).

use keepfs_format::superblock::{SLOTS, slot_page};
use keepfs_media::Class;
use keepfs_media::sim::{Event, Recording};
use keepfs_store::Pool;

/// Tells the first write of a recording that was not legal for `pool`.
pub fn check(pool: &Pool, recording: &Recording, metadata: &dyn Fn(u64) -> bool) -> Result<(), String> {
    let slot = |page: u64| (0..SLOTS).any(|s| slot_page(s, pool.pages) == page);
    let log = |page: u64| (pool.log.start..pool.log.start + pool.log.pages).contains(&page);
    for entry in &recording.log {
        let (at, count, class) = match &entry.event {
            Event::Write { at, pages, class } => (at.0, pages.len() as u64, Some(*class)),
            Event::Discard { at, pages } => (at.0, *pages, None),
            Event::Flush => continue,
        };
        for page in at..at + count {
            let legal = match class {
                _ if page >= pool.pages => false,
                Some(Class::Superblock) => slot(page),
                Some(Class::Plog) => log(page) && !slot(page),
                Some(Class::Data) => !slot(page) && !log(page) && !metadata(page),
                _ => !slot(page) && !log(page),
            };
            if !legal {
                return Err(format!("{class:?} was written to page {page}, which it must not touch"));
            }
        }
    }
    Ok(())
}
