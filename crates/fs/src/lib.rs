//! Names and files: a [`Volume`] is a POSIX file system (the `Vfs` seam) kept in the metablocks and pages of a store.
//!
//! Every change is one store transaction, or several behind the persistent orphan mark where a transaction's bounds
//! would be exceeded. Nothing that cannot be recomputed from the store lives here: locks
//! and accelerators only; lookup counts lie in memory that outlives the server.

mod acl;
mod attr;
mod blockmap;
mod copy;
mod create;
mod data;
mod dir;
mod errors;
mod heal;
mod inject;
mod inode;
mod link;
mod locks;
mod lookups;
mod maintain;
pub mod names;
mod once;
mod orphan;
mod owners;
mod paths;
mod readdir;
mod rename;
mod resume;
mod scrub;
mod vfs;
mod volume;
mod whole;
mod xattr;

pub use errors::Error;
pub use inject::{Field, Part};
pub use keepfs_store::{Answered, Remains, Resumed};
pub use keepfs_store::{FormatOptions, StoreOptions};
pub use paths::Named;
pub use scrub::{DataPlace, Frames, Phase, Record as ScrubRecord, ScrubError, ScrubOptions, State as ScrubState, Wish};
pub use volume::{AccessTimes, Clock, Volume, VolumeOptions};
