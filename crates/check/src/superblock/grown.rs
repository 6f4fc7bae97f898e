//! Where the slots of a pool lie that has grown and whose page 0 is gone (S-2.25).

use super::{Content, read_slot};
use crate::image::Image;
use crate::pool::header;
use keepfs_codes::crc64;
use keepfs_format::superblock::{CRC_OFFSET, INCOMPAT_GROWN, MAGIC, SLOTS, Superblock};
use keepfs_format::{FromBytes, PAGE, metablock, plog};

/// A log that begins at page 1 has a page before this one, the shortest there is.
const LOG_SEEN: u64 = 33;

/// The number of pages that places the slots: it stands in each superblock, and the first that is whole lies within three quarters of
/// that. Only a device is searched on which a log begins where pools have it.
pub(super) fn slots_by(image: &dyn Image) -> Option<u64> {
    let mut bytes = [0; PAGE];
    let mut is_log = |page| image.read(page, &mut bytes).is_ok() && bytes[..4] == plog::MAGIC.to_le_bytes();
    if !(1..image.pages().min(LOG_SEEN)).any(&mut is_log) {
        return None;
    }
    (1..image.pages()).find_map(|page| {
        image.read(page, &mut bytes).ok()?;
        let begins = bytes[..6] == MAGIC[..6];
        begins.then(|| of(image, page, &bytes)).flatten()
    })
}

/// The same by what stands at one page, if that is a superblock in its place, and its pool is what the device holds.
fn of(image: &dyn Image, page: u64, bytes: &[u8; PAGE]) -> Option<u64> {
    let sb = Superblock::read_from_bytes(bytes).ok()?;
    if crc64::full(&bytes[..CRC_OFFSET]) != sb.crc.get() || sb.incompat.get() & INCOMPAT_GROWN == 0 {
        return None;
    }
    let pages = sb.slots_by();
    let slot = (0..SLOTS).find(|slot| sb.slot_page(*slot) == page)?;
    let is_valid = matches!(read_slot(image, image.pages(), slot, pages).content, Content::Valid(_));
    (is_valid && sb.roots.iter().any(|root| leads(image, &sb, root.entry.first.get()))).then_some(pages)
}

/// Whether a page holds metadata of this pool.
fn leads(image: &dyn Image, sb: &Superblock, page: u64) -> bool {
    let mut bytes = [0; PAGE];
    page != 0
        && image.read(page, &mut bytes).is_ok()
        && header(&bytes).magic.get() == metablock::MAGIC
        && header(&bytes).pool.get().to_le_bytes() == sb.pool[..4]
}
