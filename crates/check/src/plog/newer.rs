//! What tells, where the log ends, that a superblock newer than the one taken is lost (SPEC S-9.12, S-9.20).

use super::{OWN_NUMBERS, head_of, page_crc, page_of, stored};
use crate::adrift;
use crate::pool::Pool;
use keepfs_codes::crc64;
use keepfs_format::PAGE;
use keepfs_format::plog::PageHead;

/// Rounds of the ring by which the numbers of lives behind a lost superblock are greater.
const ROUNDS: u64 = 8;

/// Where a log ends.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Number of the page that does not continue it.
    pub sequence: u64,
    /// The CRC of the page before.
    pub chain: u64,
    /// The number behind the last page that is looked at.
    pub stop: u64,
}

/// The greatest generation that pages of the log tell of, if one at its end proves that it is lost, though it does not continue the log.
pub(super) fn told(pool: &Pool<'_>, end: End) -> Option<u64> {
    let of_later_life = || (0..2).find_map(|behind| told_by_later_life(pool, end.sequence + behind, end.stop));
    let told = told_by_chain(pool, end).or_else(of_later_life);
    told.map(|base| base.max(adrift::newest(pool).unwrap_or(0)))
}

/// The generation of a page that is newer than the superblock.
fn newer(pool: &Pool<'_>, head: &PageHead) -> Option<u64> {
    Some(head.base.get()).filter(|base| *base > pool.sb.generation.get())
}

fn read(pool: &Pool<'_>, sequence: u64) -> Option<[u8; PAGE]> {
    let mut bytes = [0; PAGE];
    pool.image.read(page_of(pool, sequence), &mut bytes).ok()?;
    Some(bytes)
}

/// The log of the lost superblock begins here, in a chain of its own (S-10.7): with what its checkpoint carried over, which was written
/// before that superblock, and goes on with pages that tell of it.
fn told_by_chain(pool: &Pool<'_>, end: End) -> Option<u64> {
    let coming = pool.sb.generation.get() + 1;
    let mut chain = crc64::full(&[end.chain.to_le_bytes(), coming.to_le_bytes()].concat());
    for sequence in end.sequence..end.stop {
        let bytes = read(pool, sequence)?;
        let crc = stored(&bytes);
        let is_it = |head: &PageHead| head.sequence.get() == sequence && crc == page_crc(&pool.sb, chain, &bytes);
        let head = head_of(&bytes).filter(is_it)?;
        if let Some(base) = newer(pool, &head) {
            return Some(base);
        }
        chain = crc;
    }
    None
}

/// Pages from the place of number `first` on are of a later life of the pool, whose numbers are greater, in one run, to one that tells.
fn told_by_later_life(pool: &Pool<'_>, first: u64, stop: u64) -> Option<u64> {
    let round = pool.sb.log_pages.get();
    let mut before = None;
    for place in first..stop {
        let of_it = |head: &PageHead| {
            let number = head.sequence.get();
            number > place.max(OWN_NUMBERS)
                && number <= place + ROUNDS * round
                && number % round == place % round
                && before.is_none_or(|before: u64| number == before + 1)
        };
        let head = head_of(&read(pool, place)?).filter(of_it)?;
        if let Some(base) = newer(pool, &head) {
            return Some(base);
        }
        before = Some(head.sequence.get());
    }
    None
}
