//! A real flush that fails, in the system's own page cache: a loop device over a file in a full tmpfs.

use super::bed::{Bed, done, fails, keepfs, possible, run};
use keepfs_media::file::{FileDevice, FileOptions, OpenMode};
use keepfs_media::{Class, Device, DeviceError, PAGE, PageNo};
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A block device whose backing has no room for pages that were never written, while `full`.
struct Small {
    on: PathBuf,
    device: String,
}

impl Small {
    fn new(bed: &Bed) -> Small {
        let on = bed.path("small");
        fs::create_dir(&on).unwrap();
        done(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", "size=64m", "none"])
                .arg(&on),
        );
        let backing = on.join("backing");
        fs::File::create(&backing).unwrap().set_len(256 << 20).unwrap();
        let device = done(Command::new("losetup").args(["--find", "--show"]).arg(&backing));
        let device = device.trim().to_owned();
        Small { on, device }
    }

    fn ballast(&self) -> PathBuf {
        self.on.join("ballast")
    }

    /// Takes all room that is left.
    fn fill(&self) {
        let zeros = vec![1; 1 << 16];
        let mut file = fs::File::create(self.ballast()).unwrap();
        while std::io::Write::write(&mut file, &zeros).is_ok_and(|n| n > 0) {}
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = run(Command::new("losetup").args(["-d", &self.device]));
        let _ = run(Command::new("umount").arg("-l").arg(&self.on));
    }
}

fn sync(file: &Path) -> std::io::Result<()> {
    fs::File::open(file)?.sync_all()
}

/// What the mount after a failed flush shows and syncs is still there when the system has forgotten everything. S-9.8
#[test]
fn what_a_failed_flush_left_in_the_cache_is_not_believed() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let small = Small::new(&bed);
    let mount = || done(keepfs(["mount", "-o", "keeper=off", &small.device]).arg(bed.dir()));
    done(&mut keepfs(["create", &small.device]));
    // The system forgets a block device when its last user closes it.
    let _user = fs::File::open(&small.device).unwrap();
    mount();
    fs::write(bed.on("kept"), vec![3; 1 << 20]).unwrap();
    sync(&bed.on("kept")).unwrap();
    small.fill();
    // Pages that were never written: the loop device has no room for them.
    let refused = fs::write(bed.on("refused"), vec![5; 16 << 20]).and_then(|()| sync(&bed.on("refused")));
    assert!(refused.is_err());
    let ended = run(Command::new("umount").arg(bed.dir()));
    assert!(ended.status.success() || !bed.is_mounted(), "{ended:?}");
    fs::remove_file(small.ballast()).unwrap();

    // On the same cache. The first attempt may be the one that is told of the failure.
    if !run(keepfs(["mount", "-o", "keeper=off", &small.device]).arg(bed.dir()))
        .status
        .success()
    {
        mount();
    }
    assert_eq!(fs::read(bed.on("kept")).unwrap(), vec![3; 1 << 20]);
    let seen = fs::read(bed.on("refused")).ok();
    fs::write(bed.on("later"), b"later").unwrap();
    sync(&bed.on("later")).unwrap();
    bed.unmount();
    done(Command::new("blockdev").args(["--flushbufs", &small.device]));
    let checked = run(&mut keepfs(["check", "--data", &small.device]));
    assert!(checked.status.success(), "{checked:?}");
    mount();
    assert_eq!(fs::read(bed.on("refused")).ok(), seen, "what was seen and synced");
    assert_eq!(fs::read(bed.on("later")).unwrap(), b"later");
    bed.unmount();
}

/// A server that the system told of a failed flush, and that dies before it notes it, takes the knowledge with it: by the same open
/// file the next flush succeeds. Whoever adopts the device hears it all the same, once. S-9.8
#[test]
fn a_failed_flush_that_nobody_noted_is_known_to_the_next_server() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let small = Small::new(&bed);
    let path = Path::new(&small.device);
    let options = FileOptions::default();
    let device = FileDevice::open(path, OpenMode::ReadWrite, options).unwrap();
    let handed = device.hand().unwrap();
    small.fill();
    device.write(PageNo(0), &vec![5; 16 << 20], Class::Data).unwrap();
    assert!(matches!(device.flush(), Err(DeviceError::Flush { .. })));
    assert!(device.flush().is_ok(), "it is told once");
    drop(device);
    fs::remove_file(small.ballast()).unwrap();
    let next = FileDevice::adopt(path, handed, OpenMode::ReadWrite, options).unwrap();
    let handed = next.hand().unwrap();
    assert!(matches!(next.flush(), Err(DeviceError::Flush { .. })));
    drop(next);
    let third = FileDevice::adopt(path, handed, OpenMode::ReadWrite, options).unwrap();
    third.write(PageNo(0), &[6; PAGE], Class::Data).unwrap();
    third.flush().unwrap();
    third.flush().unwrap();
}

/// The mount reads all that was answered, and says that it writes nothing.
fn reads_alone(bed: &Bed) {
    assert_eq!(fs::read(bed.on("kept")).unwrap(), vec![3; 1 << 20]);
    let refused = fs::write(bed.on("more"), b"").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
    let status = bed.status();
    assert_eq!(status["state"], "FAULTED", "{status}");
    assert_eq!(status["mount"]["writing_ended"], true, "{status}");
    let why = status["status"].as_str().unwrap();
    assert!(why.ends_with("which ended all writing"), "{status}");
}

/// A server that takes the place of one that died, and whose device takes nothing that it writes, serves all that can be read. One
/// that was to make room for another finds that out before, and goes on: so an upgrade says. S-16.33, S-16.38
#[test]
fn a_server_that_cannot_write_reads() {
    if !possible() {
        return;
    }
    for dies in [true, false] {
        let bed = Bed::empty();
        let small = Small::new(&bed);
        done(&mut keepfs(["create", &small.device]));
        // So a write fails, as well as flushes.
        done(keepfs(["mount", "-o", "commit=300,io=direct", &small.device]).arg(bed.dir()));
        fs::write(bed.on("kept"), vec![3; 1 << 20]).unwrap();
        sync(&bed.on("kept")).unwrap();
        // Until the page is written that tells how far the sync has come (S-9.16): no server is to find out before the next one.
        std::thread::park_timeout(Duration::from_secs(1));
        small.fill();
        // In redo alone. An upgrade syncs and makes a checkpoint first: that finds out.
        if dies {
            fs::create_dir(bed.on("not synced")).unwrap();
            bed.end_server(Signal::KILL);
        } else {
            let before = bed.server();
            let (_, said) = fails(keepfs(["upgrade"]).arg(bed.dir()));
            assert!(said.contains("no checkpoint could be made"), "{said}");
            assert_eq!(bed.server(), before);
        }
        reads_alone(&bed);
        assert_eq!(bed.on("not synced").is_dir(), dies);
        if dies {
            // The next one does not write either, though there is room.
            fs::remove_file(small.ballast()).unwrap();
            bed.end_server(Signal::KILL);
            // What is not synced is in memory alone, and is not handed to a program that may not know it.
            let (_, said) = fails(keepfs(["upgrade"]).arg(bed.dir()));
            assert!(said.contains("in this server's memory alone"), "{said}");
            reads_alone(&bed);
            assert!(bed.on("not synced").is_dir());
        }
        let (_, said) = fails(keepfs(["unmount"]).arg(bed.dir()));
        assert!(said.contains("not everything could be made durable"), "{said}");
    }
}
