//! Audits of transactions in the store: which equations are on, and what they found (SPEC section 17).

mod totals;

use crate::error::Error;
use crate::locks::Mutex;
use keepfs_digest::{Auditor, Equations, Geometry, Imbalance, Key};
use keepfs_pool::{Pool, Unbalanced};
use std::collections::VecDeque;
use std::sync::Arc;

/// Transactions that did not balance and are remembered.
const REMEMBERED: usize = 64;

/// The auditor of a store and what it found.
pub(crate) struct Audits {
    auditor: Option<Auditor>,
    found: Mutex<VecDeque<Unbalanced>>,
    /// Totals against records.
    pub ledger: totals::Ledger,
}

impl Audits {
    /// An auditor with a key of its own. Errors: `Logic` if there are no random numbers.
    pub fn new(equations: Equations, pool: &Pool) -> Result<Audits, Error> {
        let auditor = match equations.is_empty() {
            true => None,
            false => {
                let mut random = [0; Key::RANDOM];
                getrandom::fill(&mut random).map_err(|e| Error::Logic(format!("no random numbers: {e}")))?;
                let runs = keepfs_pool::fixed_runs(pool).into_iter();
                let geometry = Geometry {
                    pages: pool.pages,
                    fixed: runs.map(|run| run.start..run.start + u64::from(run.count)).collect(),
                };
                Some(Auditor::new(Key::new(&random), pool.name_seed, geometry, equations))
            }
        };
        Ok(Audits {
            auditor,
            found: Mutex::default(),
            ledger: totals::Ledger::default(),
        })
    }

    /// The auditor, if any equation is on.
    #[inline]
    pub fn auditor(&self) -> Option<&Auditor> {
        self.auditor.as_ref()
    }

    /// A transaction did not balance: told, and remembered.
    pub fn found(&self, imbalances: &Arc<Vec<Imbalance>>) {
        let unbalanced = Unbalanced::from(imbalances.clone());
        tracing::error!(%unbalanced, "a logic bug: a transaction did not balance and was rolled back");
        let mut found = self.found.lock();
        if found.len() == REMEMBERED {
            found.pop_front();
        }
        found.push_back(unbalanced);
    }

    /// The transactions that did not balance, the oldest first.
    pub fn all(&self) -> Vec<Unbalanced> {
        self.found.lock().iter().cloned().collect()
    }
}
