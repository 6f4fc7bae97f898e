//! What tells, where the log ends, that a superblock newer than the one taken is lost (SPEC S-9.12, S-9.20, S-9.28, S-9.29).

use super::{FAR, OWN_NUMBERS, head_of, page_crc, page_of, stored};
use crate::pool::Pool;
use core::ops::Range;
use keepfs_codes::burst::Burst;
use keepfs_codes::crc64;
use keepfs_format::PAGE;
use keepfs_format::plog::{FLAG_DATA_FLUSHED, FLAG_LAST, MAGIC, PAYLOAD, PageHead};

/// Rounds of the ring by which the numbers of lives behind a lost superblock are greater.
const ROUNDS: u64 = 8;

/// Lives of the log whose pages are known by their CRC, from the superblock's on.
pub(crate) const LIVES: u64 = 8;

/// Where a log ends.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// Number of the page that does not continue it.
    pub sequence: u64,
    /// The CRC of the page before.
    pub chain: u64,
    /// The number behind the last page that is looked at.
    pub stop: u64,
    /// The log may go on behind that page (S-9.15).
    pub goes_on: bool,
}

/// The greatest generation that pages of the log tell of, if one at its end proves that it is lost, though it does not continue the log.
pub(super) fn told(pool: &Pool<'_>, end: End) -> Option<u64> {
    let of_later_life = || (0..2).find_map(|behind| told_by_later_life(pool, end.sequence + behind, end.stop));
    let anywhere = || end.goes_on.then(|| whole(pool, end.sequence..end.stop)).flatten();
    let told = told_by_chain(pool, end).or_else(of_later_life).or_else(anywhere);
    told.map(|base| base.max(newest(pool).unwrap_or(0)))
}

/// The greatest generation of a lost superblock that pages of the log tell of, wherever they stand (S-21.10).
pub(crate) fn newest(pool: &Pool<'_>) -> Option<u64> {
    let first = pool.sb.log_seq.get();
    anywhere(pool, first..first + pool.sb.log_pages.get(), pool.log_ends_in)
}

/// The same of the whole pages at these places (S-9.29).
fn whole(pool: &Pool<'_>, places: Range<u64>) -> Option<u64> {
    let has_own = places.start >= OWN_NUMBERS;
    has_own.then(|| anywhere(pool, places, u64::MAX)).flatten()
}

/// The greatest generation of which a page at one of these places tells.
fn anywhere(pool: &Pool<'_>, places: Range<u64>, group: u64) -> Option<u64> {
    let end = pool.sb.log_seq.get().saturating_add(ROUNDS * pool.sb.log_pages.get());
    let told = places.filter_map(|place| {
        let head = head_of(&read(pool, place)?)?;
        let may_tell = is_sound(&head) && (place..end).contains(&head.sequence.get());
        may_tell.then(|| told_by(pool, head.sequence.get(), group))?
    });
    told.max()
}

/// Whether a head is that of a log page (S-8.2).
pub(crate) fn is_sound(head: &PageHead) -> bool {
    let counts = [head.sequence, head.group, head.durable, head.base, head.seq];
    head.magic.get() == MAGIC
        && usize::from(head.used.get()) <= PAYLOAD
        && head.flags & !(FLAG_LAST | FLAG_DATA_FLUSHED) == 0
        && head.reserved == 0
        && head.durable < head.group
        && counts.iter().all(|count| count.get() < 1 << 62)
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
        if let Some(base) = told_by(pool, head.sequence.get(), pool.log_ends_in) {
            return Some(base);
        }
        before = Some(head.sequence.get());
    }
    None
}

/// The lost superblock of which page `sequence` tells, in its place, if that is no wrong bit (S-9.28): its group comes behind `group`, or
/// its CRC vouches for it.
fn told_by(pool: &Pool<'_>, sequence: u64, group: u64) -> Option<u64> {
    let bytes = read(pool, sequence)?;
    let is_it = |head: &PageHead| head.sequence.get() == sequence;
    let head = head_of(&bytes).filter(is_it)?;
    let base = newer(pool, &head)?;
    if head.group.get() > group {
        return Some(base);
    }
    let before = read(pool, sequence + pool.sb.log_pages.get() - 1);
    let chains = before.as_ref().map(stored).into_iter().chain([0, FAR]);
    let mut tried = chains.flat_map(|chain| (0..LIVES).map(move |life| (chain, life)));
    let vouched = tried.find_map(|(chain, life)| {
        let mut sb = *pool.sb;
        sb.incarnation = sb.incarnation.get().wrapping_add(life).into();
        let mut whole = bytes;
        match stored(&bytes) ^ page_crc(&sb, chain, &bytes) {
            0 => {}
            wrong => Burst::find(wrong, PAGE)?.flip(&mut whole),
        }
        head_of(&whole).filter(is_it)
    });
    newer(pool, &vouched?)
}
