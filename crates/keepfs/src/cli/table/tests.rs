//! Lines of mountinfo.

use super::parse;
use std::path::Path;

#[test]
fn a_line_is_read() {
    let line = b"98 31 0:55 / /mnt/with\\040blank rw,nosuid,relatime shared:1 - fuse.keepfs data.pool rw,user_id=0";
    let mount = parse(line).expect("a mount");
    assert_eq!(mount.device, "0:55");
    assert_eq!(mount.dir, Path::new("/mnt/with blank"));
    assert_eq!(mount.options, "rw,nosuid,relatime");
    assert!(mount.is_keepfs());
}

#[test]
fn other_types_are_not_ours() {
    let mount = parse(b"98 31 8:1 / / rw - ext4 /dev/sda1 rw").expect("a mount");
    assert!(!mount.is_keepfs());
    assert_eq!(parse(b""), None);
    assert_eq!(parse(b"98 31 8:1 / /"), None);
}
