//! What ends writing to the pool, or this server (S-15.17, S-16.8).

use crate::error::Error;
use crate::events::Done;
use std::sync::OnceLock;

/// Ends the process because of this damage.
pub type End = Box<dyn Fn(&Error) + Send + Sync>;

/// Whether writing has ended, and what is done in its place.
#[derive(Default)]
pub struct Ending {
    /// The failure that ended writing.
    pub(super) fault: OnceLock<Error>,
    /// What ends this process, if another one goes on with what it leaves.
    pub successor: OnceLock<End>,
    /// Notes for the next life that the device failed, where anything outlives this one.
    pub device_failed: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Ending {
    /// What is done about damage in memory that ends this server's writing.
    pub fn done_at_the_end(&self) -> Done {
        match self.successor.get() {
            Some(_) => Done::HandedOn,
            None => Done::Ended,
        }
    }

    /// The failure that ended writing, if any.
    pub fn fault(&self) -> Option<Error> {
        self.fault.get().cloned()
    }

    /// Writing had ended in the life before already, which told why (S-16.6).
    pub fn writes_no_more(&self, why: Error) {
        self.fault.get_or_init(|| why);
    }
}
