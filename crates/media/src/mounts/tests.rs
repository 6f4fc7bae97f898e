//! Tests of the parser and of the search for loop devices.

use super::*;

const MOUNTINFO: &str = "\
22 28 0:21 / /proc rw,nosuid - proc proc rw
28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw
91 28 7:3 / /mnt/with\\040blank rw - ext4 /dev/loop3 rw
broken line
92 28 7:3 /sub /other rw - ext4 /dev/loop3 rw
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

#[test]
fn loops_are_found_by_backing_file() {
    let block = tempfile::tempdir().unwrap();
    for (name, file, number) in [("loop0", "/a/pool", "7:0\n"), ("loop1", "/b", "7:1\n")] {
        let folder = block.path().join(name);
        fs::create_dir_all(folder.join("loop")).unwrap();
        fs::write(folder.join("loop/backing_file"), format!("{file}\n")).unwrap();
        fs::write(folder.join("dev"), number).unwrap();
    }
    fs::create_dir(block.path().join("sda")).unwrap();
    let found = loops_over(block.path(), Path::new("/a/pool"));
    assert_eq!(found.first(), Some(&device(7, 0)));
    assert_eq!(loops_over(block.path(), Path::new("/c")), []);
}

#[test]
fn a_plain_file_has_no_users() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(users_of(file.path()).unwrap(), []);
    assert!(users_of(Path::new("/does/not/exist")).is_err());
}
