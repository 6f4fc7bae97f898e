//! The table of mounts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::is_in;

#[test]
fn a_mount_is_found_by_its_bytes() {
    let table = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        41 22 0:44 / /tmp/two\\040words rw,nosuid - fuse.keepfs /tmp/\xfe rw\n\
        45 22 0:46 / /tmp/\xff rw - fuse.keepfs /tmp/pool rw\n";
    let at = |dir: &[u8]| is_in(table, Path::new(OsStr::from_bytes(dir)));
    assert!(at(b"/") && at(b"/tmp/two words") && at(b"/tmp/\xff"));
    assert!(!at(b"/tmp/\xfe") && !at(b"/tmp/two") && !at("/tmp/\u{fffd}".as_bytes()));
}
