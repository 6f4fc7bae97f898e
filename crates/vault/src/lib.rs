//! The vault: the frames of metadata in memory, and the only code that can write to them (SPEC sections 13 and 15).
//!
//! A frame changes in four ways, and each makes sums and parity with it: through the door ([`update`]), which records what
//! it replaces ([`undo`]); as a whole, before others see it or from bytes that were verified ([`arena::Arena::fill_as`],
//! [`arena::Arena::refill`]); by a repair that holds it ([`arena::Held`]); and when what a killed server left half done is
//! taken back ([`restart`]). Whoever uses the vault has no other, as [`walls`] proves.
//!
//! What stands beside the frames is what they cannot do without: the locks through which tests search orders of threads, and
//! the bugs that the lab plants.

pub mod arena;
mod error;
pub mod locks;
#[cfg(feature = "measure")]
pub mod measure;
mod padded;
pub mod planted;
pub mod restart;
pub mod undo;
pub mod update;
pub mod walls;

pub use error::Error;
pub use padded::{Padded, STRIPES, stripe};
