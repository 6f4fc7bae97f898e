//! Audits of transactions in the store: which equations are on, and what they found (SPEC section 17).

mod totals;

use crate::error::Error;
use crate::locks::Mutex;
use crate::pool::{self, Pool};
use core::fmt;
use keepfs_digest::{Auditor, Equations, Geometry, Imbalance, Key};
use std::collections::VecDeque;
use std::sync::Arc;

/// Transactions that did not balance and are remembered.
const REMEMBERED: usize = 64;

/// What was wrong with a transaction that was rolled back.
#[derive(Clone, Debug)]
pub struct Unbalanced(Arc<Vec<Imbalance>>);

impl Unbalanced {
    /// Each equation that did not balance, with the items that one side has alone.
    pub fn imbalances(&self) -> &[Imbalance] {
        &self.0
    }
}

impl From<Arc<Vec<Imbalance>>> for Unbalanced {
    fn from(imbalances: Arc<Vec<Imbalance>>) -> Unbalanced {
        Unbalanced(imbalances)
    }
}

impl fmt::Display for Unbalanced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, imbalance) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { " | " };
            write!(f, "{comma}{imbalance}")?;
        }
        Ok(())
    }
}

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
                let runs = pool::fixed_runs(pool).into_iter();
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
        let unbalanced = Unbalanced(imbalances.clone());
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
