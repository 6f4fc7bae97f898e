//! Tests of the parser and of identities.

use super::*;

const MOUNTINFO: &[u8] = b"\
22 28 0:21 / /proc rw,nosuid - proc proc rw
28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
91 28 7:3 / /mnt/with\\040blank rw - ext4 /dev/loop3 rw
broken line
92 28 7:3 /sub /other rw - ext4 /dev/loop3 rw
93 28 7:5 / /mnt/\xff\x1b\\012 rw - ext4 /dev/loop5 rw
";

fn device(major: u32, minor: u32) -> DeviceNumber {
    DeviceNumber { major, minor }
}

#[test]
fn mounts_are_found_by_number() {
    let at = |path: &str| User::Mount(PathBuf::from(path));
    let found = mounted_at(MOUNTINFO, &[device(7, 3)]);
    assert_eq!(found, [at("/mnt/with blank"), at("/other")]);
    assert_eq!(mounted_at(MOUNTINFO, &[device(259, 2)]), [at("/")]);
    assert_eq!(mounted_at(MOUNTINFO, &[device(7, 4)]), []);
}

/// S-18.10.
#[test]
fn users_are_told_by_their_bytes() {
    let found = mounted_at(MOUNTINFO, &[device(7, 5)]);
    let found: Vec<String> = found.iter().map(User::to_string).collect();
    assert_eq!(found, ["mounted at $'/mnt/\\xff\\e\\n'"]);
    let node = User::Loop(PathBuf::from("/dev/\u{1b}"));
    assert_eq!(node.to_string(), "another process has it open as $'/dev/\\e'");
}

#[test]
fn a_plain_file_has_no_users() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(users_of(file.path()).unwrap(), []);
    assert!(users_of(Path::new("/does/not/exist")).is_err());
}

#[test]
fn links_have_the_identity_of_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("file"), "").unwrap();
    fs::write(at("other"), "").unwrap();
    fs::hard_link(at("file"), at("hard")).unwrap();
    std::os::unix::fs::symlink("file", at("soft")).unwrap();
    let of = |name: &str| {
        identities(&at(name))
            .unwrap()
            .into_iter()
            .map(|named| named.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(of("file").len(), 1);
    assert_eq!((of("hard"), of("soft")), (of("file"), of("file")));
    assert_ne!(of("other"), of("file"));
}
