//! The page far from the log's end that tells what is durable: damage of the end leaves it (S-8.15, S-9.27).

use super::{Before, Head, MAGIC, PAYLOAD_OFFSET, PageHead, Pages, Region, Stamp, end};
use crate::error::Error;
use keepfs_format::plog::CRC_OFFSET;
use keepfs_format::{IntoBytes, PAGE};
use keepfs_media::{Class, Device, PageNo};

/// What its CRC covers in place of the CRC stored in the page before: nothing continues the log there.
pub(super) const CHAIN: u64 = u64::from_le_bytes(*b"KEEPFAR\x01");
/// Places of the ring that it may have.
const PLACES: u64 = 4;
/// Pages that it is at least behind the log's end; an eighth of a shorter log than of 64.
const LEAST: u64 = 8;

/// The numbers of `first..end`, at most a round of the ring, that stand at one of the places.
fn numbers(region: &Region, first: u64, end: u64) -> impl Iterator<Item = u64> {
    let (round, step) = (region.pages, region.pages / PLACES);
    let places = (0..PLACES).map(move |place| first + (place * step + round - first % round) % round);
    places.filter(move |number| *number < end)
}

/// Where it goes, for a log that ends before `head` and of which all pages from `tail` on are needed: away from both; `None`: nowhere.
pub fn place(region: &Region, head: u64, tail: u64) -> Option<u64> {
    let end = tail + region.pages;
    let least = LEAST.min(region.pages / 8);
    numbers(region, head + least, end).max_by_key(|number| (number - head).min(end - number))
}

/// Writes it as page `number`, of the group that is next, without flush.
pub fn write(device: &dyn Device, region: &Region, number: u64, group: u64, stamp: &Stamp) -> Result<(), Error> {
    let head = PageHead {
        magic: MAGIC.into(),
        used: 0.into(),
        flags: 0,
        reserved: 0,
        sequence: number.into(),
        group: group.into(),
        durable: stamp.durable.into(),
        base: stamp.base.into(),
        seq: stamp.seq.into(),
    };
    let mut page = [0; PAGE];
    page[..PAYLOAD_OFFSET].copy_from_slice(head.as_bytes());
    let crc = region.crc(stamp.incarnation, CHAIN, &page);
    page[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
    Ok(device.write(PageNo(region.page(number)), &page, Class::Plog)?)
}

/// The greatest group that one of them tells as durable, 0 without one; the log ends at `expected`, the ring before `ring_end`.
pub(super) fn told(
    device: &dyn Device,
    region: &Region,
    expected: &Head,
    before: &Before,
    ring_end: u64,
) -> Result<u64, Error> {
    let mut pages = Pages::new(device, region);
    pages.ahead = 1;
    let mut told = 0;
    for number in numbers(region, expected.sequence + 1, ring_end) {
        let page = match pages.get(number, ring_end) {
            Err(error) if error.is_device_io() => continue,
            page => page?,
        };
        let is_ours = || end::stored(page) == Some(region.crc(before.incarnation, CHAIN, page));
        let durable = end::head(page, number).and_then(|head| end::durable(&head, before));
        told = told.max(durable.filter(|_| is_ours()).unwrap_or(0));
    }
    Ok(told)
}
