//! What this life of a store goes on with.

use crate::error::Error;
use crate::remains::Remains;
use crate::requests::Requests;
use keepfs_pool::StoreOptions;
use keepfs_pool::mmp;
use std::sync::Arc;

/// A life of a store.
pub struct Life {
    /// Requests under way, if they outlive the server.
    pub requests: Option<Requests>,
    /// What a dead server left, as long as this one, which may not write, owes what is in it.
    pub inherited: Option<Remains>,
    /// That this machine has the pool, where the pool tells (S-2.12).
    pub mmp: Option<Arc<mmp::Guard>>,
}

impl Life {
    /// It begins; `incarnation` tells it from others. Errors: there is no memory.
    pub fn begin(o: &StoreOptions, incarnation: u64) -> Result<Life, Error> {
        let requests = o.lasting.then(|| Requests::new(o.guard, o.seal, incarnation));
        Ok(Life {
            requests: requests.transpose()?,
            inherited: None,
            mmp: None,
        })
    }
}
