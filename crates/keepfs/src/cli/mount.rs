//! `keepfs mount`: starts a server in the background and returns when the mount is usable, or with the reason why not.

use super::args::Mount;
use super::identify;
use super::remount::{self, Given};
use super::tell::warn_of;
use keepfs_server::Outcome;
use keepfs_server::mount::Mounting;
use keepfs_server::options::MountOptions;
use std::path::Path;

/// Mounts.
pub fn run(args: &Mount) -> Outcome {
    if MountOptions::parse(&args.options, false)?.remount {
        return remount::run(&args.dir, &args.options, Given::Changes, false);
    }
    mount(&args.pool, &args.dir, &args.options, false, args.foreground)
}

/// Mounts `pool` at `dir`; see [`MountOptions::parse`] for `options` and `sloppy`.
pub fn mount(pool: &Path, dir: &Path, options: &[String], sloppy: bool, foreground: bool) -> Outcome {
    let mounting = Mounting::of(&identify::resolve(pool)?, dir, options, sloppy)?;
    if foreground {
        return mounting.in_foreground();
    }
    mounting.in_background(&mut |line| warn_of!("keepfs: {line}"))?;
    Ok(0)
}
