//! How this store lives: how it was opened, whether it may write, what ended that, what it goes on with.

use crate::ending::Ending;
use crate::error::Error;
use crate::mmp;
use crate::options::StoreOptions;
use crate::remains::Remains;
use crate::requests::Requests;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// A life of a store.
pub struct Life {
    /// As it was opened.
    pub options: StoreOptions,
    /// Nothing is written (yet: [`crate::Store::begin_writing`]).
    pub read_only: AtomicBool,
    /// It was written, and is closed until it is written again ([`crate::Store::rest`]).
    pub rests: AtomicBool,
    /// What ended writing, or ends the process.
    pub ending: Ending,
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
            options: o.clone(),
            read_only: AtomicBool::new(o.read_only),
            rests: AtomicBool::new(false),
            ending: Ending::default(),
            requests: requests.transpose()?,
            inherited: None,
            mmp: None,
        })
    }

    /// It rests, or is written again.
    pub fn set_resting(&self, rests: bool) {
        self.rests.store(rests, Ordering::Release);
        self.read_only.store(rests, Ordering::Release);
    }

    /// Errors: [`Error::ReadOnly`].
    pub fn unless_read_only(&self) -> Result<(), Error> {
        match self.is_read_only() {
            true => Err(Error::ReadOnly("it is mounted read-only".into())),
            false => Ok(()),
        }
    }

    /// Whether nothing is written: the pool was opened so or rests, and [`crate::Store::begin_writing`] was not called since.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }
}
