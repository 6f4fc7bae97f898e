//! Keepfs check: the watcher that is written from docs/SPEC.md alone. It shares with the engine it judges what bytes mean
//! (`keepfs-format`), and none of its logic: it reads the log with a decoder of its own.
//!
//! [`walk()`] is the offline check of a whole pool: the body of `keepfs check` and the judge of every crash test. It
//! takes the newest superblock, replays the log into memory and compares everything with everything else; it never
//! writes. [`read`] is a small read-only view on the same code, for `keepfs dump` and for tests.
//!
//! Any byte string may be given as an image: the walk ends with findings, and its work and memory are bounded by the
//! size of the image.
//!
//! ```
//! use keepfs_check::{Finding, Options, walk};
//!
//! let image = vec![0u8; 512 * 4096];
//! let report = walk(&image, &Options::default());
//! assert_eq!(report.findings, [Finding::NoSuperblock {}]);
//! assert!(!report.is_sound());
//! ```

mod adrift;
mod age;
mod bitmap;
mod body;
mod brought;
mod carried;
mod dir;
mod entry;
mod finding;
pub mod history;
mod image;
mod index;
mod inode;
mod links;
mod map;
pub mod mend;
mod missed;
mod node;
mod paths;
mod plog;
mod pool;
pub mod read;
mod records;
mod replay;
mod report;
mod scan;
mod sentence;
mod space;
mod staged;
mod superblock;
mod walk;
mod xattr;

pub use finding::{Finding, Metablock, Severity};
pub use image::Image;
pub use keepfs_format::shown::{escape, for_programs, from_programs, is_unseen, shown};
pub use report::{Counts, File, Report};
pub use sentence::{about, whose};
pub use walk::{Options, walk};

pub(crate) use keepfs_format::{Page, rules::is_zero};
