//! Bitmaps, reference counts and totals (SPEC S-7.3, S-7.5).

use crate::id::{MetaId, Space};
use crate::metablock::HEADER;

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

/// The one TOTALS metablock.
pub const TOTALS: MetaId = MetaId::new(Space::Totals, 0);
/// Offset of the counter: pages in use.
pub const TOTAL_PAGES: usize = 32;
/// Offset of the counter: inodes in use.
pub const TOTAL_INODES: usize = 40;
/// Offset of the counter: NODES metablocks in use.
pub const TOTAL_NODES: usize = 48;
/// Offset of the counter: sum of SHARES.
pub const TOTAL_SHARES: usize = 56;
