//! What the kernel lets root set only after the mount: read-ahead, and how much may be dirty.
//!
//! A FUSE mount starts with 128 KiB of read-ahead, `max_ratio` 1 and `strict_limit` 1, which costs 1.5 times in
//! sequential reads and 3 to 4 times in writes with the writeback cache.

use crate::config::MountConfig;
use crate::mountpoint::Mounted;
use std::fs;
use std::path::PathBuf;

/// Sets the limits; what cannot be set stays at its slow default and is logged.
pub(crate) fn tune(mounted: &Mounted, config: &MountConfig) {
    let suffix = if mounted.on_block_device { "-fuseblk" } else { "" };
    let bdi = PathBuf::from(format!("/sys/class/bdi/{}{suffix}", mounted.device));
    let values = [
        ("read_ahead_kb", config.read_ahead_kib.to_string()),
        ("strict_limit", "0".to_owned()),
        ("max_ratio", "100".to_owned()),
    ];
    for (name, value) in values {
        let file = bdi.join(name);
        if let Err(error) = fs::write(&file, &value) {
            tracing::warn!(file = %file.display(), value, %error, "mount not tuned; it works, but slower");
        }
    }
}
