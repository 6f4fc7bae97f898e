//! Reading mountinfo; a scratch directory goes away.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Mount, Scratch, mounts_under};

#[test]
fn mounts_below_a_directory_are_found() {
    let mountinfo = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
        41 22 0:44 / /tmp/a/mnt rw,nosuid - fuse.keepfs /tmp/a/pool rw,user_id=0\n\
        42 22 7:0 / /tmp/a/two\\040words rw - ext4 /dev/loop0 rw\n\
        43 22 7:1 / /tmp/a/anchored rw - fuseblk.keepfs /dev/loop1 rw\n\
        44 22 0:45 / /tmp/ab rw - tmpfs tmpfs rw\n\
        45 22 0:46 / /tmp/a/\xff\\012odd rw - fuse.keepfs /tmp/a/\xfe rw,user_id=0\n";
    let mount = |device, point: &[u8], fuse| Mount {
        device,
        point: PathBuf::from(OsStr::from_bytes(point)),
        fuse,
    };
    let expected = [
        mount(44, b"/tmp/a/mnt", true),
        mount(7 << 20, b"/tmp/a/two words", false),
        mount(7 << 20 | 1, b"/tmp/a/anchored", true),
        mount(46, b"/tmp/a/\xff\nodd", true),
    ];
    assert_eq!(mounts_under(mountinfo, Path::new("/tmp/a")), expected);
}

#[test]
fn a_scratch_directory_goes_away_with_its_files() {
    let scratch = Scratch::new().expect("a temporary directory");
    let path = scratch.path().to_owned();
    std::fs::write(path.join("file"), "x").expect("a file in it");
    drop(scratch);
    assert!(!path.exists());
}

#[test]
fn a_process_left_behind_is_killed() {
    let scratch = Scratch::new().expect("a temporary directory");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "echo ready; read forever"])
        .env("TMPDIR", scratch.path());
    let mut child = shell
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh starts");
    // Its environment can be read for certain only once it runs.
    let mut ready = [0; 6];
    child
        .stdout
        .as_mut()
        .expect("a pipe")
        .read_exact(&mut ready)
        .expect("a line");
    scratch.kill_stragglers();
    assert_eq!(child.wait().expect("it ends").signal(), Some(9));
}

#[test]
fn a_mount_whose_path_is_no_utf8_goes_away() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let scratch = Scratch::new().expect("a temporary directory");
    let path = scratch.path().to_owned();
    let point = path.join(OsStr::from_bytes(b"\xff odd"));
    std::fs::create_dir(&point).expect("a directory");
    let mount = Command::new("mount")
        .args(["-t", "tmpfs", "tmpfs"])
        .arg(&point)
        .status();
    if !mount.expect("mount starts").success() {
        return;
    }
    drop(scratch);
    assert!(!path.exists());
}
