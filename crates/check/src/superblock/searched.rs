//! Where the slots of a pool lie whose page 0 is gone and that is not as large as its device (S-2.25).

use super::{Content, read_slot};
use crate::image::Image;
use crate::pool::header;
use keepfs_codes::crc64;
use keepfs_format::superblock::{CRC_OFFSET, MAGIC, SLOTS, Superblock};
use keepfs_format::{FromBytes, PAGE, metablock, plog};

/// A log that begins at page 1 has a page before this one, the shortest there is.
const LOG_SEEN: u64 = 33;

/// The number of pages that places the slots: it stands in each superblock. Only a device is searched on which a log begins where pools
/// have it.
pub(super) fn slots_by(image: &dyn Image) -> Option<u64> {
    let mut bytes = [0; PAGE];
    let mut is_log = |page| image.read(page, &mut bytes).is_ok() && bytes[..4] == plog::MAGIC.to_le_bytes();
    if !(1..image.pages().min(LOG_SEEN)).any(&mut is_log) {
        return None;
    }
    let found = (1..image.pages()).filter_map(|page| {
        image.read(page, &mut bytes).ok()?;
        let begins = bytes[..6] == MAGIC[..6];
        begins.then(|| of(image, page, &bytes)).flatten()
    });
    // What is left of a pool of before is older.
    found.max_by_key(|(made, _)| *made).map(|(_, pages)| pages)
}

/// The same by what stands at one page, if that is a superblock in its place, and its pool is what the device holds; with the time at
/// which that was made.
fn of(image: &dyn Image, page: u64, bytes: &[u8; PAGE]) -> Option<((i64, u32), u64)> {
    let sb = Superblock::read_from_bytes(bytes).ok()?;
    if crc64::full(&bytes[..CRC_OFFSET]) != sb.crc.get() {
        return None;
    }
    let pages = sb.slots_by();
    let slot = (0..SLOTS).find(|slot| sb.slot_page(*slot) == page)?;
    let is_valid = matches!(read_slot(image, image.pages(), slot, pages).content, Content::Valid(_));
    let is_held = is_valid && sb.roots.iter().any(|root| leads(image, &sb, root.entry.first.get()));
    is_held.then(|| ((sb.created_sec.get(), sb.created_nsec.get()), pages))
}

/// Whether a page holds metadata of this pool.
fn leads(image: &dyn Image, sb: &Superblock, page: u64) -> bool {
    let mut bytes = [0; PAGE];
    page != 0
        && image.read(page, &mut bytes).is_ok()
        && header(&bytes).magic.get() == metablock::MAGIC
        && header(&bytes).pool.get().to_le_bytes() == sb.pool[..4]
}
