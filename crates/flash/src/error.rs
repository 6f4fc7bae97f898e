//! What can go wrong in a flash home beside what can with any pool.

use keepfs_format::MetaId;
pub use keepfs_pool::Error;

/// What a transaction needs of the staged pages until it is committed (S-14.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// Free whole slots.
    pub(crate) slots: usize,
    /// Quarters of pages by which what is staged may grow.
    pub(crate) quarters: usize,
}

/// Why a step inside a transaction or a view stopped. Pass it up with `?`; whoever runs the transaction handles it.
#[derive(Debug)]
pub enum Stop {
    /// This metablock is not in the arena.
    Miss(MetaId),
    /// Something must be freed first.
    Pressure(Pressure),
    /// It cannot be done.
    Error(Error),
}

/// What a transaction waits for outside itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pressure {
    /// A clean frame.
    Frames,
    /// Room in the redo ring (S-14.4).
    Redo,
    /// Room for staged pages (S-14.7).
    Staged(Room),
    /// The barrier of a checkpoint.
    Barrier,
    /// A checkpoint: no more may wait for it (S-10.5).
    Checkpoint,
    /// Another transaction, which owns a count (S-13.4).
    Owned,
    /// A metablock of inodes in which a new one would lie.
    Cradle(MetaId),
}

impl From<keepfs_vault::Error> for Stop {
    fn from(e: keepfs_vault::Error) -> Stop {
        Stop::Error(e.into())
    }
}

impl From<Error> for Stop {
    fn from(e: Error) -> Stop {
        Stop::Error(e)
    }
}

/// A stop where everything was fetched before: only errors can come.
pub fn stopped(stop: Stop) -> Error {
    match stop {
        Stop::Error(e) => e,
        Stop::Miss(id) => Error::Logic(format!("{id} left the arena while it was pinned")),
        Stop::Pressure(p) => Error::Logic(format!("no {p:?} where they were reserved")),
    }
}
