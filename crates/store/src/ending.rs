//! What ends writing to the pool, or this server (S-15.17, S-16.8).

use crate::Store;
use crate::error::Error;
use crate::events::Done;
use std::sync::OnceLock;

/// Ends the process because of this damage.
pub type End = Box<dyn Fn(&Error) + Send + Sync>;

/// Whether writing has ended, and what is done in its place.
#[derive(Default)]
pub(crate) struct Ending {
    /// The failure that ended writing.
    fault: OnceLock<Error>,
    /// What ends this process, if another one goes on with what it leaves.
    pub successor: OnceLock<End>,
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

impl Store {
    /// Fails if the pool was shut down or a failure ended writing.
    pub(crate) fn alive(&self) -> Result<(), Error> {
        if self.device.is_off() {
            return Err(Error::Dead);
        }
        match self.life.ending.fault.get() {
            Some(told @ Error::ReadOnly(_)) => Err(told.clone()),
            Some(e) => Err(Error::ReadOnly(e.to_string())),
            None => Ok(()),
        }
    }

    /// A failure after which nothing may be written until the pool is opened again.
    pub(crate) fn fail(&self, error: Error) -> Error {
        if !self.device.is_off() {
            self.life.ending.fault.get_or_init(|| {
                if let Error::Heap { address } = &error {
                    self.watch.events.tell_heap(
                        *address,
                        self.life.ending.done_at_the_end(),
                        "it tells where metadata lies",
                    );
                }
                if let Some(end) = self.life.ending.successor.get().filter(|_| error.is_of_this_memory()) {
                    end(&error);
                }
                tracing::error!(%error, "the pool is read-only from here on");
                if matches!(error, Error::Device(_)) {
                    self.home.memory().note_device_failed();
                }
                error.clone()
            });
        }
        error
    }

    /// The pool is not written from here on, because of damage that its mount cannot do without (S-16.6).
    pub fn end_writing(&self, why: Error) {
        self.fail(why);
    }
}
