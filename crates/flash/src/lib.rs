//! The flash home: metadata in pages of a device, the log before it, staged data, checkpoints (SPEC sections 4, 8 to 11, 13 and 14).
//!
//! Read [`segment`] (memory that outlives a server), [`redo`] (what is committed and not in the log), [`log`] (groups on the
//! device), [`staged`] (file pages that only the log has), [`homes`] (chunks), [`map`] (where metablocks lie) and [`checkpoint`];
//! then [`Flash`], which has them all, and what it does with frames. Nothing here runs a transaction or hands out a page: the store
//! does, between the steps of a checkpoint.

pub mod adopted;
pub mod bad;
mod carry;
pub mod checkpoint;
mod copies;
pub mod cutter;
mod error;
mod fetch;
mod first;
pub mod gate;
mod group;
mod home;
pub mod homes;
pub mod log;
pub mod map;
mod mend;
pub mod moment;
pub mod past;
pub mod plan;
pub mod recovery;
pub mod redo;
pub mod replay;
mod restage;
pub mod rewrites;
pub mod segment;
pub mod staged;
pub mod superblock;
pub mod sync;
mod told;
mod totals;
pub mod twice;
pub mod wanted;
pub mod watched;
mod weight;
mod witness;
mod write;

pub use error::{Error, Pressure, Room, Stop, stopped};
pub use group::Prepared;
pub use home::Flash;
