//! Other users: permissions, ACLs and the sticky bit hold against them, tried as one.

use super::bed::{Bed, done, fails, run};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

/// The user without rights.
const NOBODY: u32 = 65_534;

/// A command as that user; add the program and its arguments.
pub fn nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    command
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn sh(script: &str, at: &Path) -> Command {
    let mut command = nobody();
    command.args(["sh", "-c", script, "sh"]).arg(at);
    command
}

#[test]
fn permissions_hold() {
    let Some(bed) = Bed::mounted("") else { return };
    let (open, closed) = (bed.on("open"), bed.on("closed"));
    fs::write(&open, "all").unwrap();
    fs::write(&closed, "mine").unwrap();
    mode(&open, 0o644);
    mode(&closed, 0o600);
    assert_eq!(done(&mut sh("cat \"$1\"", &open)), "all");
    assert!(fails(&mut sh("cat \"$1\"", &closed)).1.contains("Permission denied"));
    assert!(
        fails(&mut sh("echo x >> \"$1\"", &open))
            .1
            .contains("Permission denied")
    );
    assert!(fails(&mut sh("rm -f \"$1\"", &open)).1.contains("Permission denied"));
    assert!(fails(&mut sh("chmod 777 \"$1\"", &open)).1.contains("not permitted"));
    chown(&closed, Some(NOBODY), None).unwrap();
    assert_eq!(done(&mut sh("cat \"$1\"", &closed)), "mine");
}

/// S-20.10: as on ext4, a user does not even see what root alone may read.
#[test]
fn names_of_trusted_attributes_are_root_s() {
    let Some(bed) = Bed::mounted("") else { return };
    let file = bed.on("file");
    fs::write(&file, "text").unwrap();
    for name in ["user.open", "trusted.secret"] {
        rustix::fs::setxattr(&file, name, b"value", rustix::fs::XattrFlags::empty()).unwrap();
    }
    let list = |command: &mut Command| {
        let told = done(command.args(["getfattr", "--absolute-names", "-m", "-"]).arg(&file));
        let names = told.lines().filter(|line| line.contains('.') && !line.starts_with('#'));
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(list(&mut nobody()), ["user.open"]);
    assert_eq!(list(&mut Command::new("env")), ["trusted.secret", "user.open"]);
}

/// S-20.26: as on ext4, chown(2) of neither owner nor group clears set-id bits, but not if it is somebody else's.
#[test]
fn a_chown_that_sets_nothing_clears_set_id_bits() {
    let Some(bed) = Bed::mounted("") else { return };
    let file = bed.on("file");
    fs::write(&file, "text").unwrap();
    let bits = || fs::metadata(&file).unwrap().permissions().mode() & 0o7777;
    for (set, left) in [(0o4755, 0o755), (0o6777, 0o777), (0o2644, 0o2644), (0o640, 0o640)] {
        for owner in [0, NOBODY] {
            chown(&file, Some(owner), None).unwrap();
            mode(&file, set);
            chown(&file, None, None).unwrap();
            assert_eq!(bits(), left);
            mode(&file, set);
            let mut chown = nobody();
            chown.args(["chown", ":"]).arg(&file);
            done(&mut chown);
            assert_eq!(bits(), if owner == NOBODY { left } else { set });
        }
    }
    let dir = bed.on("dir");
    fs::create_dir(&dir).unwrap();
    mode(&dir, 0o2755);
    chown(&dir, None, None).unwrap();
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o7777, 0o2755);
}

#[test]
fn acls_hold() {
    let Some(bed) = Bed::mounted("") else { return };
    let file = bed.on("file");
    fs::write(&file, "text").unwrap();
    mode(&file, 0o600);
    fails(&mut sh("cat \"$1\"", &file));
    done(Command::new("setfacl").args(["-m", "u:65534:r"]).arg(&file));
    assert_eq!(done(&mut sh("cat \"$1\"", &file)), "text");
    assert!(
        fails(&mut sh("echo x >> \"$1\"", &file))
            .1
            .contains("Permission denied")
    );
    // A default ACL is inherited, and survives a mount.
    let dir = bed.on("dir");
    fs::create_dir(&dir).unwrap();
    mode(&dir, 0o700);
    done(
        Command::new("setfacl")
            .args(["-m", "u:65534:rx,d:u:65534:rw"])
            .arg(&dir),
    );
    fs::write(dir.join("child"), "child").unwrap();
    bed.unmount();
    bed.mount("");
    assert_eq!(done(&mut sh("cat \"$1\"/child", &dir)), "child");
    done(Command::new("setfacl").arg("-b").arg(&file));
    fails(&mut sh("cat \"$1\"", &file));
}

#[test]
fn the_sticky_bit_holds() {
    let Some(bed) = Bed::mounted("") else { return };
    let dir = bed.on("tmp");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("theirs"), "").unwrap();
    mode(&dir, 0o1777);
    done(&mut sh(
        "echo mine > \"$1\"/mine && mv \"$1\"/mine \"$1\"/own && rm \"$1\"/own",
        &dir,
    ));
    assert!(fails(&mut sh("rm -f \"$1\"/theirs", &dir)).1.contains("not permitted"));
    mode(&dir, 0o777);
    done(&mut sh("rm -f \"$1\"/theirs", &dir));
}

#[test]
fn writing_by_others_clears_set_user_id() {
    let Some(bed) = Bed::mounted("") else { return };
    let file = bed.on("program");
    fs::write(&file, "#!/bin/sh\n").unwrap();
    mode(&file, 0o4777);
    done(&mut sh("echo : >> \"$1\"", &file));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o777);
}

/// RENAME_WHITEOUT leaves a whiteout of who renames, which he can remove, as on ext4.
#[test]
fn a_whiteout_is_its_maker_s() {
    let Some(bed) = Bed::mounted("") else { return };
    let dir = bed.on("all");
    fs::create_dir(&dir).unwrap();
    mode(&dir, 0o1777);
    let rename = format!(
        "cd \"$1\" && : >a && perl -e '($a, $b) = qw(a b); exit(syscall({}, -100, $a, -100, $b, 4) != 0)'",
        libc::SYS_renameat2
    );
    done(&mut sh(&rename, &dir));
    let whiteout = fs::metadata(dir.join("a")).unwrap();
    assert_eq!((whiteout.uid(), whiteout.gid(), whiteout.rdev()), (NOBODY, NOBODY, 0));
    done(&mut sh("rm \"$1\"/a", &dir));
}

#[test]
fn others_may_be_kept_out() {
    let Some(bed) = Bed::mounted("noallow_other") else {
        return;
    };
    mode(&bed.dir(), 0o777);
    let output = run(&mut sh("ls \"$1\"", &bed.dir()));
    assert!(!output.status.success(), "{output:?}");
}
