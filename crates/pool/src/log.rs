//! Where the log of a pool lies, and what its pages are chained to (S-8.1, S-8.3).

use keepfs_codes::crc64;
use keepfs_format::PoolId;
use keepfs_format::plog::CRC_OFFSET;

/// Where log pages are numbered from in pools whose numbers no other pool has (S-8.13).
pub const OWN_NUMBERS: u64 = 1 << 40;

/// Where the log region lies and what its pages are chained to.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// First page.
    pub start: u64,
    /// Pages.
    pub pages: u64,
    /// Identity of the pool.
    pub pool: PoolId,
}

impl Region {
    /// The device page of sequence number `q` (S-8.1).
    pub fn page(&self, q: u64) -> u64 {
        self.start + q % self.pages
    }

    /// The first sequence number of a new pool's log: no other pool's pages have it or those behind it (S-8.13).
    pub fn first(&self) -> u64 {
        let own = OWN_NUMBERS + crc64::full(&self.pool.0) % (1 << 46);
        own.next_multiple_of(self.pages)
    }

    /// The CRC of a log page (S-8.3).
    pub fn crc(&self, incarnation: u64, before: u64, page: &[u8]) -> u64 {
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(&self.pool.0);
        seed[16..24].copy_from_slice(&incarnation.to_le_bytes());
        seed[24..].copy_from_slice(&before.to_le_bytes());
        crc64::more(crc64::full(&seed), &page[..CRC_OFFSET])
    }
}
