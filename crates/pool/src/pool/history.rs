//! Where a pool's history lies, as the superblock tells it (S-2.7).

use keepfs_format::history::PAGES;
use keepfs_format::plog::Run;
use keepfs_format::superblock::{INCOMPAT_HISTORY, SLOTS, Superblock, slot_page};

/// The region, if the pool has one.
pub fn of(sb: &Superblock) -> Option<Run> {
    let count = sb.history_pages.get();
    (count != 0).then(|| Run {
        start: sb.history_start.get(),
        count,
    })
}

/// Gives a new pool a history behind the second slot: of `pages` pages, or as its size allows. With 0 it has none.
pub fn place(sb: &mut Superblock, pages: Option<u32>) {
    let by_size = (sb.pages.get() / 256).clamp((*PAGES.start()).into(), (*PAGES.end()).into()) as u32;
    let count = pages.unwrap_or(by_size) & !1;
    if count == 0 {
        return;
    }
    sb.history_start = (slot_page(1, sb.pages.get()) + 1).into();
    sb.history_pages = count.clamp(*PAGES.start(), *PAGES.end()).into();
    sb.incompat = (sb.incompat.get() | INCOMPAT_HISTORY).into();
}

/// The fields and their feature bit belong together; the region lies in the pool, over no slot and not over the log.
pub fn is_right(sb: &Superblock) -> bool {
    let told = sb.incompat.get() & INCOMPAT_HISTORY != 0;
    let (start, count) = (sb.history_start.get(), sb.history_pages.get());
    if count == 0 || !told {
        return start == 0 && count == 0 && !told;
    }
    let Some(end) = start.checked_add(count.into()) else {
        return false;
    };
    let log_end = sb.log_start.get().saturating_add(sb.log_pages.get());
    let over_slot = (0..SLOTS).any(|slot| (start..end).contains(&sb.slot_page(slot)));
    PAGES.contains(&count)
        && count.is_multiple_of(2)
        && end <= sb.pages.get()
        && !over_slot
        && (end <= sb.log_start.get() || start >= log_end)
}
