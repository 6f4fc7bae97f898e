//! What watches transactions: audits, the operation log, and what somebody took note of.

use crate::audit::Audits;
use crate::error::Error;
use crate::locks::Mutex;
use crate::noted::Noted;
use crate::oplog::OpLog;
use keepfs_pool::Pool;
use keepfs_pool::StoreOptions;

/// What watches.
pub struct Watch {
    /// Equations that each transaction must satisfy (SPEC section 17).
    pub audits: Audits,
    /// What transactions were asked to do, if it is kept (SPEC section 12).
    pub oplog: Option<OpLog>,
    /// What who asks was told last.
    pub noted: Mutex<Noted>,
}

impl Watch {
    /// Over a pool of which nothing is told yet. Errors: there is no memory.
    pub fn new(o: &StoreOptions, pool: &Pool) -> Result<Watch, Error> {
        Ok(Watch {
            audits: Audits::new(o.audit, pool)?,
            oplog: o.oplog.then(|| OpLog::new(o.guard, o.seal)).transpose()?,
            noted: Mutex::default(),
        })
    }
}
