//! Whether a page tells truly of a superblock that is lost: no wrong bit does (S-9.28, S-9.29).

use super::end::stored;
use super::far;
use super::{Before, MAGIC, PAYLOAD_OFFSET, PageHead, Region};
use crate::error::Error;
use keepfs_codes::burst::Burst;
use keepfs_format::{FromBytes, PAGE};
use keepfs_media::{Device, PageNo};

/// Incarnations of the log that are tried, from the superblock's on.
const LIVES: u64 = 8;

/// The base generation of a lost superblock, if `page` with `head` tells of one: it is whole, or of a group behind `group`.
pub(super) fn told(
    device: &dyn Device,
    region: &Region,
    before: &Before,
    group: u64,
    head: &PageHead,
    page: &[u8],
) -> Result<Option<u64>, Error> {
    if head.base.get() < before.bases.end {
        return Ok(None);
    }
    if head.group.get() > group {
        return Ok(Some(head.base.get()));
    }
    let mut last = [0; PAGE];
    let place = PageNo(region.page(head.sequence.get() + region.pages - 1));
    let last = match device.read(place, &mut last).map_err(Error::from) {
        Err(error) if error.is_device_io() => None,
        read => read.map(|()| stored(&last))?,
    };
    for chain in last.into_iter().chain([0, far::CHAIN]) {
        for incarnation in before.incarnation..before.incarnation.saturating_add(LIVES) {
            let wrong = stored(page).map(|stored| stored ^ region.crc(incarnation, chain, page));
            let right = match wrong {
                Some(0) => Some(*head),
                wrong => wrong.and_then(|wrong| undone(wrong, page)),
            };
            let is_it = |right: &PageHead| right.magic.get() == MAGIC && right.sequence == head.sequence;
            if let Some(right) = right.filter(is_it) {
                let base = right.base.get();
                return Ok((base >= before.bases.end).then_some(base));
            }
        }
    }
    Ok(None)
}

/// The head of the page without the run of bits that makes its CRC wrong by so much (S-9.24).
fn undone(wrong: u64, page: &[u8]) -> Option<PageHead> {
    let burst = Burst::find(wrong, PAGE)?;
    let mut page = Box::new(<[u8; PAGE]>::try_from(page).ok()?);
    burst.flip(&mut page[..]);
    PageHead::read_from_bytes(&page[..PAYLOAD_OFFSET]).ok()
}
