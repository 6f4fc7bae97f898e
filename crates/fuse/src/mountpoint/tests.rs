//! Lines of mountinfo as kernels write them, and the options we give.

use super::*;

const FUSE: &[u8] = b"99 30 0:52 / /mnt/my\\040pool rw,nosuid shared:1 - fuse.keepfs pool rw,user_id=0";
const BLOCK: &[u8] = b"100 30 7:3 / /mnt/b rw - fuseblk.keepfs /dev/loop3 rw";

#[test]
fn mountinfo_is_understood() {
    let found = parse(FUSE, Path::new("/mnt/my pool")).unwrap();
    assert_eq!(
        found,
        Mounted {
            id: 99,
            device: "0:52".into(),
            on_block_device: false
        }
    );
    let found = parse(BLOCK, Path::new("/mnt/b")).unwrap();
    assert_eq!(
        found,
        Mounted {
            id: 100,
            device: "7:3".into(),
            on_block_device: true
        }
    );
    assert_eq!(parse(FUSE, Path::new("/mnt/my")), None);
    for cut in 0..BLOCK.len() {
        let _ = parse(&BLOCK[..cut], Path::new("/mnt/b"));
    }
}

#[test]
fn escapes_are_undone() {
    assert_eq!(unescape(b"a\\040b\\134c\\011"), b"a b\\c\t");
    assert_eq!(unescape(b"\\04"), b"\\04");
    assert_eq!(unescape(b"\\999"), b"\\999");
}

#[test]
fn flags_follow_the_configuration() {
    let base = MountConfig::default();
    assert_eq!(flags(&base), MountFlags::RELATIME);
    let strict = MountConfig {
        read_only: true,
        noexec: true,
        strictatime: true,
        ..base.clone()
    };
    assert_eq!(
        flags(&strict),
        MountFlags::RDONLY | MountFlags::NOEXEC | MountFlags::STRICTATIME
    );
    let never = MountConfig {
        noatime: true,
        strictatime: true,
        nosuid: true,
        nodev: true,
        ..base
    };
    assert_eq!(
        flags(&never),
        MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV
    );
}

#[test]
fn paths_with_nul_are_refused() {
    assert!(matches!(
        unmount(Path::new("a\0b"), How::Gentle),
        Err(FuseError::BadPath { .. })
    ));
}
