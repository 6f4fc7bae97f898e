//! `keepfs unmount`.

use super::args::Unmount;
use super::tell::{say, warn_of};
use keepfs_fuse::How;
use keepfs_server::Outcome;
use keepfs_server::unmount::{Said, unmount};

/// Unmounts.
pub fn run(args: &Unmount) -> Outcome {
    let how = match (args.lazy, args.force) {
        (true, _) => How::Lazy,
        (_, true) => How::Force,
        _ => How::Gentle,
    };
    unmount(&args.dir, how, &mut |said| match said {
        Said::News(news) => say!("{news}"),
        Said::Warning(warning) => warn_of!("{warning}"),
    })?;
    Ok(0)
}
