//! What changes of a pool that nobody has open.

use crate::error::{Error, Result};
use crate::pool::Pool;
use keepfs_server::{Claim, OpenOptions};
use std::path::Path;

impl Pool {
    /// Gives a pool an identity of its own, such as a copy that shall be told from what it was copied from; recovers it first if it
    /// was not closed. Returns the identity, as UUIDs are written.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let path = place.path().join("pool");
    /// # use keepfs::{CreateOptions, Pool};
    /// # Pool::create(&path, &CreateOptions { size: Some(64 << 20), ..CreateOptions::default() })?;
    /// let id = Pool::renew_id(&path)?;
    /// assert_ne!(Pool::renew_id(&path)?, id);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Pool::open`] and [`Pool::close`]; [`Error::Pool`] if it cannot be written.
    pub fn renew_id(path: impl AsRef<Path>) -> Result<String> {
        let path = path.as_ref();
        let options = OpenOptions::default();
        let claim = Claim::new(path, &options)?;
        // The lock is ours until the end.
        let device = claim.device();
        Pool::of(claim.open(&options)?).close()?;
        let id = keepfs_store::renew_id(device).map_err(|source| Error::Pool {
            pool: path.to_owned(),
            source: source.into(),
        })?;
        Ok(id.to_string())
    }
}
