//! `keepfs upgrade`.

use super::args::Upgrade;
use super::tell::say;
use keepfs_server::Outcome;
use keepfs_server::upgrade::{Upgraded, upgrade};

/// Replaces the server of the mount.
pub fn run(args: &Upgrade) -> Outcome {
    let Upgraded { dir, pid, program } = upgrade(&args.dir, args.program.as_deref())?;
    say!("{}: server {pid} runs {}", dir.display(), program.display());
    Ok(0)
}
