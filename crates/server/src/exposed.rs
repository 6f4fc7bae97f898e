//! Whether a pool is others' to read, past all modes in it, or to lock, so that nobody can mount it.

use crate::visible::path;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Who has more than root needs of a file; of a block device, which belongs to a group of the machine, only all others.
const OF_FILE: u32 = 0o066;
const OF_DEVICE: u32 = 0o006;

/// That others can read, write or lock the pool, and what to do about it, in one sentence. `None`: they cannot, or it is not there.
/// Folders above it may still keep them out.
pub fn of(pool: &Path) -> Option<String> {
    let found = pool.metadata().ok()?;
    let too_much = match found.file_type() {
        kind if kind.is_file() => OF_FILE,
        kind if kind.is_block_device() => OF_DEVICE,
        _ => return None,
    };
    let (mode, owner) = (found.mode() & 0o7777, found.uid());
    let is_open = mode & too_much != 0;
    let is_theirs = owner != 0 && owner != rustix::process::geteuid().as_raw();
    let pool = path(pool);
    let chown = format!("chown root {pool}");
    let chmod = format!("chmod {:o} {pool}", mode & !too_much & 0o7777);
    let fix = match (is_theirs, is_open) {
        (false, false) => return None,
        (true, false) => chown,
        (false, true) => chmod,
        (true, true) => format!("{chown} && {chmod}"),
    };
    Some(format!(
        "others than root can read or lock {pool} (mode {mode:04o}, user {owner}), and with it all that it holds; fix with: {fix}"
    ))
}
