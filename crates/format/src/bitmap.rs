//! Bitmaps, reference counts and totals (SPEC S-7.3, S-7.5).

use crate::id::{MetaId, Space};
use crate::metablock::HEADER;

/// Numbers that a bitmap of numbers may have.
pub const NUMBERS: u64 = 1 << 40;

/// Bits of a bitmap metablock.
pub const BITS: u64 = ((crate::PAGE - HEADER) * 8) as u64;
/// Counters of a SHARES metablock.
pub const COUNTS: u64 = ((crate::PAGE - HEADER) / 2) as u64;

const _: () = assert!(BITS == 32512);
const _: () = assert!(COUNTS == 2032);

/// The metablock, byte offset and mask of bit `number` of the bitmap `space`.
pub const fn bit(space: Space, number: u64) -> (MetaId, usize, u8) {
    let within = number % BITS;
    (
        MetaId::new(space, number / BITS),
        HEADER + (within / 8) as usize,
        1 << (within % 8),
    )
}

/// The metablock and offset of the extra reference count of `page`.
pub const fn share(page: u64) -> (MetaId, usize) {
    (
        MetaId::new(Space::Shares, page / COUNTS),
        HEADER + 2 * (page % COUNTS) as usize,
    )
}

/// Most TOTALS metablocks.
pub const TOTALS_BLOCKS: u64 = 8;
/// Stripes of one of them.
pub const STRIPES: usize = crate::PAGE / STRIPE;
/// Bytes from one stripe to the next.
pub const STRIPE: usize = 64;

/// The TOTALS metablock whose first stripe is the only one of an old pool (S-2.10).
pub const TOTALS: MetaId = totals(0);

/// TOTALS metablock `number`.
pub const fn totals(number: u64) -> MetaId {
    MetaId::new(Space::Totals, number)
}

/// Offset of a counter in stripe `stripe`, whose offset is `which` in the first one.
pub const fn in_stripe(stripe: usize, which: usize) -> usize {
    stripe * STRIPE + which
}

/// Offset of the counter in the first stripe: pages in use.
pub const TOTAL_PAGES: usize = 32;
/// The same: inodes in use.
pub const TOTAL_INODES: usize = 40;
/// The same: NODES metablocks in use.
pub const TOTAL_NODES: usize = 48;
/// The same: sum of SHARES.
pub const TOTAL_SHARES: usize = 56;
