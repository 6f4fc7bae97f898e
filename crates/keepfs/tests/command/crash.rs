//! The server dies: nobody sees an empty directory, and what was synced is there after the next mount.

use super::bed::{Bed, done, fails, keepfs};
use rustix::process::Signal;
use std::fs;
use std::io::Write;

fn dead() -> Option<Bed> {
    let bed = Bed::mounted("keeper=off,commit=3600")?;
    let mut file = fs::File::create(bed.on("synced")).unwrap();
    file.write_all(b"kept").unwrap();
    file.sync_all().unwrap();
    drop(file);
    bed.end_server(Signal::KILL);
    Some(bed)
}

#[test]
fn a_dead_mount_gives_errors() {
    let Some(bed) = dead() else { return };
    let not_connected = Some(rustix::io::Errno::NOTCONN.raw_os_error());
    assert_eq!(fs::read_dir(bed.dir()).unwrap_err().raw_os_error(), not_connected);
    assert_eq!(fs::read(bed.on("synced")).unwrap_err().raw_os_error(), not_connected);
    let created = fs::write(bed.on("new"), "").unwrap_err();
    assert_eq!(created.raw_os_error(), not_connected);
}

#[test]
fn the_next_mount_recovers() {
    let Some(bed) = dead() else { return };
    bed.unmount_dead();
    let offline = bed.line(&bed.pool(), "status");
    assert!(offline.contains("to be replayed"), "{offline}");
    // A log to replay is no error.
    let text = done(keepfs(["check"]).arg(bed.pool()));
    assert!(text.contains("the next mount replays"), "{text}");
    bed.mount("");
    assert_eq!(fs::read(bed.on("synced")).unwrap(), b"kept");
    bed.unmount();
    bed.check();
}

#[test]
fn unmount_of_a_dead_mount_is_not_stuck() {
    let Some(bed) = dead() else { return };
    bed.unmount_dead();
    assert!(!bed.is_mounted());
    bed.mount("");
    assert_eq!(fs::read(bed.on("synced")).unwrap(), b"kept");
}

#[test]
fn status_tells_of_the_dead_server() {
    let Some(bed) = dead() else { return };
    let dir = bed.dir();
    assert_eq!(bed.line(&dir, "state"), "UNAVAIL");
    assert!(bed.line(&dir, "status").contains("has died"));
    assert!(bed.line(&dir, "action").contains("keepfs unmount"));
    assert!(bed.line(&dir, "errors").contains("every access"));
    assert_eq!(bed.line(&dir, "id"), "unknown");
    assert!(bed.line(&dir, "mount").ends_with("without a server that answers"));
    assert_eq!(bed.line(&dir, "space"), "unknown");
    // By the pool's name too, and in the list of all.
    assert_eq!(bed.line(&bed.pool(), "state"), "UNAVAIL");
    let all = done(&mut keepfs(["status"]));
    assert!(all.contains(bed.pool().to_str().unwrap()), "{all}");
    let said = done(keepfs(["events"]).arg(&dir));
    assert!(said.contains("has died without a word"), "{said}");
}

#[test]
fn another_pool_is_not_mounted_over_a_dead_mount() {
    let Some(bed) = dead() else { return };
    let other = bed.path("other");
    done(keepfs(["create", "--size", "64M"]).arg(&other));
    let (code, said) = fails(keepfs(["mount"]).arg(&other).arg(bed.dir()));
    let wanted = format!("keepfs unmount -f {}", bed.dir().display());
    assert!(
        code == 1 && said.contains("are gone") && said.contains(&wanted),
        "{said}"
    );
    // It is what helps.
    bed.unmount_dead();
    bed.mount("");
    assert_eq!(fs::read(bed.on("synced")).unwrap(), b"kept");
}

#[test]
fn a_mount_at_the_place_of_a_dead_one_is_the_one_that_answers() {
    let Some(bed) = dead() else { return };
    let died = bed.line(&bed.dir(), "status");
    done(std::process::Command::new("umount").arg("-l").arg(bed.dir()));
    bed.mount("");
    assert_eq!(bed.line(&bed.dir(), "state"), "ONLINE");
    assert!(!died.contains(&bed.status()["server_pid"].to_string()), "{died}");
}

#[test]
fn what_a_dying_server_wrote_is_shown() {
    let Some(bed) = Bed::mounted("keeper=off") else { return };
    let pid = bed.server().as_raw_nonzero();
    let stderr = fs::read_link(format!("/proc/{pid}/fd/2")).unwrap();
    assert_eq!(fs::metadata(&stderr).unwrap().len(), 0, "a healthy server says nothing");
    bed.end_server(Signal::KILL);
    // As a guard or a panic would have.
    fs::write(&stderr, "thread 'x' panicked\nsecond line\n").unwrap();
    assert!(bed.line(&bed.dir(), "errors").ends_with("thread 'x' panicked"));
    let events = done(keepfs(["events"]).arg(bed.dir()));
    assert!(events.ends_with("second line\n"), "{events}");
    bed.unmount_dead();
    assert!(!stderr.exists());
}
