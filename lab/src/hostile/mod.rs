//! Hostile images (promise C-8, BARS R-6): every field of every structure in docs/SPEC.md is changed, the
//! checksums above it are made right again, and the image is mounted, walked, read, written, unmounted and mounted
//! again. Allowed are a clear error and correct behaviour; not a panic, a hang, an explosion of memory, an overflow,
//! or a write outside the pages that the pool may write.
//!
//! [`base`] makes the images to start from, [`anatomy`] takes one apart and puts a changed one together, [`fields`]
//! and [`sites`] list what can be changed, [`change`] says how, [`shapes`] puts whole nodes and records where they must
//! not be, [`case`] is one image in a line of text, [`exercise`] does everything with it, [`legal`] watches what is written, [`worker`] runs cases in a process of its own.

pub mod anatomy;
pub mod base;
pub mod case;
pub mod change;
pub mod exercise;
pub mod fields;
pub mod legal;
pub mod shapes;
pub mod sites;
pub mod tally;
pub mod worker;

pub use case::Case;
