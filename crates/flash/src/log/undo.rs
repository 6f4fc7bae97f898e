//! A page of the log of which a few bits side by side are wrong: its CRC tells which (S-9.24, S-9.25).

use super::{Before, CRC_OFFSET, Head, Mend, Region, accept};
use keepfs_codes::burst::Burst;
use keepfs_format::PAGE;

/// The page without its wrong bits, if that is the one expected. It is believed in no other case: zeros, an older page or another
/// log's have the number or the group of something else, and a right page that breaks a rule of S-8.2 was written so.
pub(super) fn wrong_bits(
    region: &Region,
    page: &[u8],
    expected: &Head,
    before: &Before,
    seq: u64,
) -> Option<(Box<[u8; PAGE]>, Mend)> {
    let mut page: Box<[u8; PAGE]> = Box::new(page.try_into().ok()?);
    let stored = u64::from_le_bytes(*page[CRC_OFFSET..].first_chunk()?);
    let burst = Burst::find(stored ^ region.crc(before.incarnation, expected.chain, &page[..]), PAGE)?;
    burst.flip(&mut page[..]);
    let is_it = matches!(accept(region, &page[..], expected, before, seq), Ok(Some(_)));
    is_it.then_some((page, Mend::Undone(burst)))
}

#[cfg(test)]
mod tests;
