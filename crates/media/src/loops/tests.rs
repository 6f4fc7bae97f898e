//! Tests of what is read from /sys and /proc; real loop devices are tried by the command's tests.

use super::*;

const NUMBER: DeviceNumber = DeviceNumber { major: 7, minor: 0 };
const LOCKS: &str = "\
1: FLOCK  ADVISORY  WRITE 714 fe:00:262146 0 EOF
2: POSIX  ADVISORY  READ  714 fe:00:262147 0 EOF
3: FLOCK  ADVISORY  READ  715 103:02:5 0 EOF
3: -> FLOCK  ADVISORY  WRITE 716 00:19:77 0 EOF
";

#[test]
fn loops_without_a_node_are_found_by_the_name_of_their_file() {
    let block = tempfile::tempdir().unwrap();
    let loops: [(&str, &[u8], &str); 3] = [
        ("loop-a", b"/a/pool", "7:0\n"),
        ("loop-b", b"/b", "7:1\n"),
        ("loop-c", b"/c\xff\n", "7:2\n"),
    ];
    for (name, file, number) in loops {
        let folder = block.path().join(name);
        fs::create_dir_all(folder.join("loop")).unwrap();
        fs::write(folder.join("loop/backing_file"), [file, b"\n"].concat()).unwrap();
        fs::write(folder.join("dev"), number).unwrap();
    }
    fs::create_dir(block.path().join("sda")).unwrap();
    let file = Identity::File {
        device: NUMBER,
        inode: 5,
    };
    let found = |path: &[u8]| over(block.path(), file, Path::new(OsStr::from_bytes(path)), (0, u64::MAX));
    assert_eq!(found(b"/a/pool"), [NUMBER]);
    assert_eq!(found(b"/c"), []);
    assert_eq!(found(b"/c\xff\n"), [DeviceNumber { major: 7, minor: 2 }]);
}

#[test]
fn locks_are_found_by_device_and_inode() {
    let file = |major, minor, inode| Identity::File {
        device: DeviceNumber { major, minor },
        inode,
    };
    assert!(is_locked(LOCKS, file(0xfe, 0, 262_146)));
    assert!(is_locked(LOCKS, file(0x103, 2, 5)));
    assert!(!is_locked(LOCKS, file(0xfe, 0, 262_147)), "no lock of ours");
    assert!(!is_locked(LOCKS, file(0, 0x19, 77)), "somebody who waits for it");
    assert!(!is_locked(LOCKS, file(0xfe, 1, 262_146)));
    assert!(!is_locked(LOCKS, Identity::Block(NUMBER)));
}

#[test]
fn numbers_of_the_kernel_are_read() {
    let of = DeviceNumber::of_kernel;
    assert_eq!(of(0xfe00), DeviceNumber { major: 254, minor: 0 });
    assert_eq!(of(259 << 8 | 2), DeviceNumber { major: 259, minor: 2 });
    assert_eq!(of(0x0010_0703), DeviceNumber { major: 7, minor: 0x103 });
}

#[test]
fn parts_of_a_file_overlap_or_not() {
    let part = Backing {
        of: Identity::Block(NUMBER),
        from: 4096,
        to: 8192,
    };
    assert!(part.overlaps(0, u64::MAX) && part.overlaps(8191, 9000) && part.overlaps(0, 4097));
    assert!(!part.overlaps(8192, u64::MAX) && !part.overlaps(0, 4096));
    assert!(!part.is_whole());
}
