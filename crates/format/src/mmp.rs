//! The block of multi-mount protection: who has the pool, when more than one machine can reach it (S-2.12).

use crate::le::{I64, U32, U64};
use crate::superblock::{SLOTS, Superblock};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// `KEEPMMP` and the layout's number.
pub const MAGIC: [u8; 8] = *b"KEEPMMP\x01";
/// State: the pool is not protected.
pub const OFF: u32 = 0x0FF1_5A3C;
/// State: nobody has the pool.
pub const FREE: u32 = 0xA3C5_0E96;
/// State: somebody has the pool.
pub const USED: u32 = 0x5C2E_F369;
/// Seconds of an interval, least and most.
pub const INTERVAL_S: core::ops::RangeInclusive<u32> = 1..=20;
/// Seconds of an interval that nobody chose.
pub const INTERVAL_S_DEFAULT: u32 = 5;
/// Bytes of the block that its CRC covers.
pub const COVERED: usize = 504;

/// The block: the first sector of its page, so that no write of it is torn. The rest of the page is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs)] // S-2.12 is the text; the names are its names.
pub struct Block {
    pub magic: [u8; 8],
    pub pool: [u8; 16],
    pub state: U32,
    pub interval_s: U32,
    pub sequence: U64,
    pub nonce: [u8; 16],
    pub boot: [u8; 16],
    pub time_s: I64,
    pub beat_ns: U64,
    pub lock: [U64; 2],
    pub host: [u8; 64],
    pub dir: [u8; 336],
    pub crc: U64,
}

const _: () = assert!(core::mem::offset_of!(Block, host) == 104);
const _: () = assert!(core::mem::offset_of!(Block, crc) == COVERED);
const _: () = assert!(size_of::<Block>() == 512);

impl Block {
    /// All zeros but the magic.
    pub fn blank() -> Block {
        let mut block = Block::new_zeroed();
        block.magic = MAGIC;
        block
    }
}

/// Where the block lies in a pool that has one: behind the history. `None`: no page there can be it.
pub fn page_of(sb: &Superblock) -> Option<u64> {
    let count = u64::from(sb.history_pages.get());
    let page = sb.history_start.get().checked_add(count).filter(|_| count != 0)?;
    let log_end = sb.log_start.get().saturating_add(sb.log_pages.get());
    let taken = (sb.log_start.get()..log_end).contains(&page) || (0..SLOTS).any(|slot| sb.slot_page(slot) == page);
    (page < sb.pages.get() && !taken).then_some(page)
}
