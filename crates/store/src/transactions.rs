//! What transactions that are open share: the gate that they are inside, what each has to itself.

use crate::locks::Mutex;
use crate::txn::{self, Owned};
use keepfs_flash::gate::Gate;
use keepfs_vault::Padded;

/// Open transactions.
pub struct Transactions {
    /// They are inside; a barrier shuts it.
    pub gate: Padded<Gate>,
    /// Pages whose counts one of them has to itself (S-13.4).
    pub owned: Padded<Mutex<Owned>>,
    /// Most frames that one of them may touch.
    pub frames_max: usize,
}

impl Transactions {
    /// None is open, over an arena of `frames`.
    pub fn new(frames: u32) -> Transactions {
        Transactions {
            gate: Padded::default(),
            owned: Padded::default(),
            frames_max: txn::frames_max(frames),
        }
    }
}
