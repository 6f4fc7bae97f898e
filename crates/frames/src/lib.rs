//! The frames of metadata as those above use them: which metablock lies in which, when one is replaced, and what becomes of one that
//! is not right (SPEC section 15).
//!
//! The bytes are the vault's. What a frame that is not right should hold tells a witness, which the caller brings: nothing here
//! knows where metablocks lie or what transactions have changed.
//!
//! Read [`frames`], [`cache`], then [`repair`] with [`evidence`] and [`fence`].

pub mod age;
pub mod cache;
pub mod evidence;
pub mod fence;
mod fill;
pub mod frames;
pub mod heat;
pub mod ids;
pub mod known;
mod looks;
pub mod named;
pub mod newborn;
pub mod repair;
pub mod scratch;

pub use cache::{Cache, Pin};
pub use frames::{ARENA_MIN, FRAMES_MAX, Frames};
pub use known::Totals;
pub use looks::Looked;
pub use named::Ref;
