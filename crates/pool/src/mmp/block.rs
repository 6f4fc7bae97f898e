//! The block of multi-mount protection, from bytes and to bytes (S-2.12).

use super::Who;
use core::time::Duration;
use keepfs_codes::crc64;
use keepfs_format::mmp::{Block, COVERED, FREE, INTERVAL_S, MAGIC, OFF, USED};
use keepfs_format::{FromBytes, IntoBytes, PAGE, PoolId};

/// A page as it stands on the device.
pub type Page = [u8; PAGE];

/// What a page says of the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It is not protected.
    Off(Block),
    /// Nobody has it.
    Free(Block),
    /// Somebody has it.
    Used(Block),
    /// Nothing that makes sense; somebody may have it all the same.
    Damaged,
}

/// What `page` says of the pool `pool`.
pub fn read(page: &Page, pool: PoolId) -> Seen {
    let Ok((block, rest)) = Block::read_from_prefix(page) else {
        return Seen::Damaged;
    };
    let whole = block.magic == MAGIC
        && block.pool == pool.0
        && block.crc.get() == crc64::full(&page[..COVERED])
        && INTERVAL_S.contains(&block.interval_s.get())
        && rest.iter().all(|byte| *byte == 0);
    match block.state.get() {
        OFF if whole => Seen::Off(block),
        FREE if whole => Seen::Free(block),
        USED if whole => Seen::Used(block),
        _ => Seen::Damaged,
    }
}

/// The page of a block, with its CRC.
pub fn page(block: &Block) -> Page {
    let mut page = [0; PAGE];
    page[..size_of::<Block>()].copy_from_slice(block.as_bytes());
    let crc = crc64::full(&page[..COVERED]);
    page[COVERED..size_of::<Block>()].copy_from_slice(&crc.to_le_bytes());
    page
}

/// A block that says that nobody has the pool, or with [`OFF`] that nobody is asked.
pub fn unowned(pool: PoolId, state: u32, interval_s: u32, sequence: u64) -> Block {
    let mut block = Block::blank();
    block.pool = pool.0;
    block.state = state.into();
    block.interval_s = interval_s.into();
    block.sequence = sequence.into();
    block
}

/// A block that says that `who` has the pool. `began`: when its write began, since this machine was started.
pub fn owned(pool: PoolId, who: &Who, interval_s: u32, sequence: u64, began: Duration) -> Block {
    let mut block = unowned(pool, USED, interval_s, sequence);
    block.nonce = who.nonce;
    block.boot = who.boot;
    block.time_s = super::since_1970().into();
    block.beat_ns = (began.as_nanos() as u64).into();
    block.lock = who.lock.map(Into::into);
    put(&mut block.host, who.host.as_bytes());
    put(&mut block.dir, &who.dir);
    block
}

/// As much of `text` as there is room for; the last byte stays zero.
fn put(field: &mut [u8], text: &[u8]) {
    let room = field.len() - 1;
    field
        .iter_mut()
        .zip(text.iter().take(room))
        .for_each(|(to, from)| *to = *from);
}

/// The text in a field that ends with zeros.
pub fn text(field: &[u8]) -> String {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}
