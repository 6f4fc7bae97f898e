//! Lines of mountinfo.

use super::parse;
use keepfs_fs::AccessTimes;
use std::path::Path;

#[test]
fn a_line_is_read() {
    let line = b"98 31 0:55 / /mnt/with\\040blank rw,nosuid,relatime shared:1 - fuse.keepfs data.pool rw,user_id=0";
    let mount = parse(line).expect("a mount");
    assert_eq!(mount.device, "0:55");
    assert_eq!(mount.dir, Path::new("/mnt/with blank"));
    assert_eq!(mount.options, "rw,nosuid,relatime");
    assert_eq!(mount.super_options, "rw,user_id=0");
    assert!(mount.is_keepfs());
    assert!(!mount.is_read_only());
}

#[test]
fn access_times_and_read_only_are_seen() {
    let seen = |options: &str, more: &str| {
        let line = format!("9 3 0:5 / /m {options} - fuseblk.keepfs /p {more}");
        let mount = parse(line.as_bytes()).expect("a mount");
        (mount.access_times(), mount.is_read_only())
    };
    assert_eq!(seen("rw,noatime", "rw"), (AccessTimes::Never, false));
    assert_eq!(seen("rw,relatime", "ro"), (AccessTimes::Relative, true));
    // Read-only at this place only.
    assert_eq!(seen("ro", "rw,user_id=0"), (AccessTimes::Strict, false));
}

#[test]
fn other_types_are_not_ours() {
    let mount = parse(b"98 31 8:1 / / rw - ext4 /dev/sda1 rw").expect("a mount");
    assert!(!mount.is_keepfs());
    assert_eq!(parse(b""), None);
    assert_eq!(parse(b"98 31 8:1 / /"), None);
}
