//! What blkid(8) knows on a device. It knows more formats than we do, and new ones first.

use keepfs_server::Failure;
use keepfs_server::visible::Shown;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where it may be, beside `PATH`.
const PLACES: [&str; 3] = ["blkid", "/usr/sbin/blkid", "/sbin/blkid"];
/// Exit codes of `blkid -p`: something is there; nothing is; too much is.
const FOUND: i32 = 0;
const AMBIVALENT: i32 = 8;

/// Errors: a block device has something on it. Without blkid(8) nothing is known.
pub fn refuse_what_blkid_knows(path: &Path) -> Result<(), Failure> {
    if !fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device()) {
        return Ok(());
    }
    let ask = |program: &&str| {
        let mut command = Command::new(program);
        command
            .args(["-p", "-o", "value", "-s", "TYPE", "-s", "PTTYPE"])
            .arg(path);
        command.stdin(Stdio::null()).output().ok()
    };
    let Some(answer) = PLACES.iter().find_map(ask) else {
        return Ok(());
    };
    let held = match answer.status.code() {
        Some(FOUND) => String::from_utf8_lossy(&answer.stdout)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" and "),
        Some(AMBIVALENT) => "signatures of several formats".into(),
        _ => return Ok(()),
    };
    Err(Failure::Other(format!(
        "{} holds {held}, as blkid(8) tells; use another device, or --force to overwrite it",
        path.shown()
    )))
}
