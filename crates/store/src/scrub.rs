//! Scrub: looking at what nobody asked for, in memory and at rest, a slice at a time (SPEC section 19).
//!
//! What a slice is, and when the next one comes, the caller decides. What is found takes the same way as what is found by
//! accident: a frame is mended as S-15.14 says, a bad copy is written anew by the next checkpoint (S-4.6).
//!
//! Invariants:
//! U-1 Nothing is believed bad that was read while it changed: the map entry is the same before and after the reading.
//! U-2 A scrub is no use of a frame: it does not keep it from being replaced.

mod log;
mod rest;

pub use rest::RestPlace;

#[cfg(test)]
mod tests;
