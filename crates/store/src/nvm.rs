//! The home in persistent memory: there is none yet, and a pool that asks for one is refused.

use crate::error::Error;
use keepfs_pool::Pool;

/// A home in persistent memory. No value of it exists, since [`Nvm::refused`] is all that opening and creating one do.
pub enum Nvm {}

impl Nvm {
    /// The home of a pool. Errors: there is none.
    pub fn of(_: &Pool) -> Result<Nvm, Error> {
        Err(Nvm::refused())
    }

    /// Why no pool is created or opened with it.
    pub fn refused() -> Error {
        Error::BadPool(
            "its metadata would stay in persistent memory, which this version cannot use; create it on a block device or in a file"
                .into(),
        )
    }
}
