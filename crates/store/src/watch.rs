//! What watches the pool: audits, the operation log, figures, and what is told and kept of what happened.

use crate::audit::Audits;
use crate::error::Error;
use crate::events::Events;
use crate::history::History;
use crate::locks::Mutex;
use crate::noted::Noted;
use crate::oplog::OpLog;
use crate::options::StoreOptions;
use crate::pool::Pool;
use crate::stats::Stats;
use crate::switch::Switch;
use keepfs_vault::Padded;
use std::sync::Arc;

/// What watches.
pub struct Watch {
    /// Equations that each transaction must satisfy (SPEC section 17).
    pub audits: Audits,
    /// What transactions were asked to do, if it is kept (SPEC section 12).
    pub oplog: Option<OpLog>,
    /// Counters.
    pub stats: Padded<Stats>,
    /// What happened, as it is told and kept.
    pub events: Events,
    /// What who asks was told last.
    pub noted: Mutex<Noted>,
}

impl Watch {
    /// Over a pool on a device, of which nothing is told yet. Errors: there is no memory.
    pub fn new(o: &StoreOptions, pool: &Pool, device: &Arc<Switch>) -> Result<Watch, Error> {
        Ok(Watch {
            audits: Audits::new(o.audit, pool)?,
            oplog: o.oplog.then(|| OpLog::new(o.guard, o.seal)).transpose()?,
            stats: Padded::default(),
            events: Events::of(History::new(device.clone(), pool.id, pool.history)),
            noted: Mutex::default(),
        })
    }
}
