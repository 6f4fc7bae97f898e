//! Real programs on the mount; each result is compared with the same run on an ordinary file system (BARS R-8).

pub mod cargo;
pub mod git;
pub mod postgres;
pub mod rsync;
pub mod sqlite;
pub mod tar;
