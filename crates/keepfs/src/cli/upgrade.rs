//! `keepfs upgrade`.

use super::args::Upgrade;
use super::tell::{say, warn_of};
use keepfs_server::Outcome;
use keepfs_server::upgrade::{Upgraded, upgrade};
use keepfs_server::visible::Shown;

/// Replaces the server of the mount.
pub fn run(args: &Upgrade) -> Outcome {
    let Upgraded {
        dir,
        pid,
        program,
        ended,
    } = upgrade(&args.dir, args.program.as_deref())?;
    say!("{}: server {pid} runs {}", dir.shown(), program.shown());
    if let Some(why) = ended {
        warn_of!("keepfs: warning: {}: {why}", dir.shown());
    }
    Ok(0)
}
