//! Multi-mount protection: of the machines that can reach a pool one has it, and shows that it is alive (S-2.12, decision 0850).
//!
//! * [`block`]: what stands on the device.
//! * [`claim`]: who may have the pool, as a machine of states without device or clock, so that all orders of events can be tried.

pub mod block;
pub mod claim;

use std::time::{SystemTime, UNIX_EPOCH};

/// Who claims a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Who {
    /// This claim, and those of the servers that take its place: random, never zero.
    pub nonce: [u8; 16],
    /// The run of this machine, from its start to its end.
    pub boot: [u8; 16],
    /// The machine's name.
    pub host: String,
    /// Where the pool is mounted, or nothing.
    pub dir: Vec<u8>,
    /// Device and inode number of a file that is locked for as long as the pool is in use, or zeros. Whoever has that lock on the
    /// same run of the machine knows that nobody else who had it lives.
    pub lock: [u64; 2],
}

fn since_1970() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}
