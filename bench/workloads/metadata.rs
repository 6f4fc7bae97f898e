//! The metadata workload of Greenan & Miller (2006, section 5.3) on a mounted file system, with 10 directories instead of the
//! paper's 100.

use crate::figures::Done;
use keepfs_bench::greenan::metadata;
use keepfs_bench::inproc::kernel::Kernel;
use std::io::{Error, Result};
use std::path::Path;
use std::time::Instant;

/// Directories at full size.
const DIRS: usize = 10;

/// All of it with `files` files in each directory; an operation is one of the workload's.
pub fn run(dir: &Path, files: &str, percent: Option<usize>) -> Result<Done> {
    let files = files
        .parse()
        .map_err(|e| Error::other(format!("metadata-{files}: {e}")))?;
    let dirs = (DIRS * percent.unwrap_or(100) / 100).max(1);
    let start = Instant::now();
    let (_, operations) = metadata::run(&Kernel::unasked(dir), dirs, files)?;
    Ok(Done {
        operations,
        seconds: start.elapsed().as_secs_f64(),
        ..Done::default()
    })
}
