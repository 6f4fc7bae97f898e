//! What can go wrong in the vault: one enum; who uses it says what that means and what to do.

use std::sync::Arc;

/// A failure of the vault.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Guarded memory cannot be had.
    #[error("cannot have {bytes} bytes of guarded memory: {source}")]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// What the kernel said.
        source: Arc<std::io::Error>,
    },
    /// Frames cannot be guarded by this code.
    #[error("{0}")]
    Code(String),
    /// Memory is not what its sums say, or not what a server of this version leaves.
    #[error("{0}")]
    Damaged(String),
    /// The caller asked for something impossible.
    #[error("{0}")]
    Logic(String),
}
