//! What fault injection asks a pool for tests (S-2.8): where a structure lies in memory and at rest, and faults of its
//! device. Nothing here changes a byte; whoever injects does that from outside.

use keepfs_format::MetaId;

/// Where a metablock lies now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Structure {
    /// Which.
    pub id: MetaId,
    /// Its frame; it was fetched if need be, and may move from here on.
    pub frame: u32,
    /// Where in this process everybody reads the first frame.
    pub arena: usize,
    /// Pages of its copies on the device, 0: none (yet).
    pub pages: [u64; 2],
}

#[cfg(test)]
mod tests;
