//! What is staged, and how much may be.

use super::{Table, Weight};
use crate::segment::Segment;
use keepfs_vault::Padded;
use keepfs_vault::locks::Mutex;
use std::sync::Arc;

/// Staged pages that writers keep to, with a log that carries as many (S-10.3).
pub const STAGED_MAX: usize = 2048;
/// Most staged pages beyond that: writers look before they stage, and several may look at the same moment.
pub const STAGED_SPARE: usize = 256;

/// What is staged.
pub struct Staged {
    /// Which pages are, and where.
    pub table: Padded<Mutex<Table>>,
    /// How much it is, for who does not wait for the table.
    pub weight: Weight,
    /// Staged pages that writers keep to; what they stage at the same moment may pass it by a little.
    pub limit: usize,
}

impl Staged {
    /// Nothing yet.
    pub fn new(segment: Arc<Segment>, limit: usize) -> Staged {
        let table = Table::new(segment);
        Staged {
            weight: table.weight(),
            table: Padded::new(Mutex::new(table)),
            limit,
        }
    }
}
