//! What says that a namespace is used although no process is seen in it.

use super::{is_named, is_shared};

const PRIVATE: &str = "36 35 7:0 / /mnt/a rw,relatime - fuseblk.keepfs pool rw,user_id=0";

#[test]
fn a_mount_that_others_see_is_shared() {
    assert!(!is_shared(PRIVATE));
    assert!(is_shared(&PRIVATE.replace(" - ", " shared:7 - ")));
    assert!(!is_shared(&PRIVATE.replace(" - ", " master:7 - ")));
    // Another file system's mount says nothing of ours, nor does a directory of such a name.
    assert!(!is_shared("36 35 8:1 / /mnt/a rw shared:7 - ext4 /dev/sda rw"));
    assert!(!is_shared(&PRIVATE.replace("/mnt/a", "shared:7")));
}

#[test]
fn a_namespace_that_is_bound_has_a_name() {
    let bound = "90 24 0:4 mnt:[4026532700] /run/namespaces/one rw - nsfs nsfs rw";
    assert!(is_named(bound, "mnt:[4026532700]"));
    assert!(!is_named(bound, "mnt:[4026532701]"));
    assert!(!is_named(PRIVATE, "mnt:[4026532700]"));
}
