//! What transactions that are open share: the gate that they are inside, where they can be taken back from, what each has to
//! itself.

use crate::error::Error;
use crate::gate::Gate;
use crate::locks::Mutex;
use crate::options::StoreOptions;
use crate::totals::Known;
use crate::txn::{self, Owned};
use keepfs_vault::Padded;
use keepfs_vault::undo::UndoLog;

/// Open transactions.
pub struct Transactions {
    /// They are inside; a barrier shuts it.
    pub gate: Padded<Gate>,
    /// What they replaced.
    pub undo: UndoLog,
    /// Pages whose counts one of them has to itself (S-13.4).
    pub owned: Padded<Mutex<Owned>>,
    /// What TOTALS says (S-17.6).
    pub known: Known,
    /// Most frames that one of them may touch.
    pub frames_max: usize,
}

impl Transactions {
    /// None is open, over an arena of `frames`. Errors: there is no memory.
    pub fn new(o: &StoreOptions, frames: u32) -> Result<Transactions, Error> {
        Ok(Transactions {
            gate: Padded::default(),
            undo: match o.lasting {
                true => UndoLog::lasting(o.guard, o.seal)?,
                false => UndoLog::new(o.guard, o.seal)?,
            },
            owned: Padded::default(),
            known: Known::default(),
            frames_max: txn::frames_max(frames),
        })
    }
}
