//! The one binary: `keepfs`, which also answers as mkfs.keepfs, fsck.keepfs, mount.keepfs and mount.fuse.keepfs.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    keepfs::serve_if_asked();
    keepfs_server::limits::raise_stack();
    keepfs_fuse::forget_inherited_signals();
    cli::run(std::env::args_os().collect())
}
