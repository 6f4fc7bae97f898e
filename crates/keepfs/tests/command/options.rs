//! Mount options do what they say.

use super::bed::{self, Bed, copy_program, done, done_when_free, fails, possible, run};
use rustix::fs::{CWD, FileType, Mode};
use rustix::mount::UnmountFlags;
use rustix::process::{Signal, kill_process};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

fn accessed(path: &std::path::Path) -> (i64, i64) {
    let meta = fs::metadata(path).unwrap();
    (meta.atime(), meta.atime_nsec())
}

/// A file whose access time is long past, on a fresh mount (what the kernel caches it knows for sure).
fn old_file(bed: &Bed, options: &str) -> std::path::PathBuf {
    let file = bed.on("file");
    fs::write(&file, "text").unwrap();
    done(Command::new("touch").args(["-a", "-d", "2001-01-01"]).arg(&file));
    bed.unmount();
    bed.mount(options);
    file
}

#[test]
fn access_times_move_or_not() {
    let Some(bed) = Bed::mounted("") else { return };
    let file = old_file(&bed, "relatime");
    let before = accessed(&file);
    fs::read(&file).unwrap();
    bed.unmount();
    bed.mount("noatime");
    let read = accessed(&file);
    assert!(read > before, "relatime: {before:?} {read:?}");
    let file = old_file(&bed, "noatime");
    let before = accessed(&file);
    fs::read(&file).unwrap();
    bed.unmount();
    bed.mount("");
    assert_eq!(accessed(&file), before);
}

#[test]
fn strictatime_moves_at_every_reading() {
    let Some(bed) = Bed::mounted("strictatime") else { return };
    let file = bed.on("file");
    fs::write(&file, "text").unwrap();
    let mut last = accessed(&file);
    for _ in 0..3 {
        fs::read(&file).unwrap();
        let now = accessed(&file);
        assert!(now > last, "{last:?} {now:?}");
        last = now;
    }
}

#[test]
fn remount_changes_access_times_and_flags() {
    let Some(bed) = Bed::mounted("cache=writeback,noatime") else {
        return;
    };
    let program = bed.on("program");
    fs::write(&program, "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(done(&mut Command::new(&program)), "ran\n");
    done(&mut bed.mounting("remount,noexec,relatime"));
    assert!(bed.line(&bed.dir(), "mount").contains("relatime"));
    assert!(Command::new(&program).output().is_err());
    // Listing a directory always reaches the server; what the kernel caches of a file it reads by itself.
    let dir = bed.on("dir");
    fs::create_dir(&dir).unwrap();
    let reading_moves_it = || {
        done(Command::new("touch").args(["-a", "-d", "2001-01-01"]).arg(&dir));
        let before = accessed(&dir);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        accessed(&dir) > before
    };
    assert!(reading_moves_it());
    done(&mut bed.mounting("remount,exec,noatime"));
    assert!(!reading_moves_it());
    assert_eq!(done(&mut Command::new(&program)), "ran\n");
}

/// S-20.17: what the table of mounts does not show is not what the pool was mounted with, either.
#[test]
fn a_remount_keeps_what_the_one_before_made() {
    let Some(bed) = Bed::mounted("user") else { return };
    done(&mut bed.mounting("remount,exec"));
    assert_eq!(bed.flags(), ["rw", "nosuid", "nodev", "relatime"]);
    done(&mut bed.mounting("remount,noatime"));
    assert_eq!(bed.flags(), ["rw", "nosuid", "nodev", "noatime"]);
}

/// S-20.17.
#[test]
fn nodiratime_is_about_directories() {
    let Some(bed) = Bed::mounted("strictatime,nodiratime") else {
        return;
    };
    let (dir, file) = (bed.on("dir"), bed.on("file"));
    fs::create_dir(&dir).unwrap();
    fs::write(&file, "text").unwrap();
    let reading_moves = || {
        let before = (accessed(&dir), accessed(&file));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        fs::read(&file).unwrap();
        (accessed(&dir) > before.0, accessed(&file) > before.1)
    };
    assert_eq!(reading_moves(), (false, true));
    assert!(bed.line(&bed.dir(), "mount").contains("strictatime, nodiratime"));
    done(&mut bed.mounting("remount,diratime"));
    assert_eq!(reading_moves(), (true, true));
    done(&mut bed.mounting("remount,nodiratime"));
    assert_eq!(reading_moves(), (false, true));
    assert_eq!(bed.status()["mount"]["nodiratime"], true);
}

/// S-20.17.
#[test]
fn nosymfollow_and_symfollow() {
    let Some(bed) = Bed::mounted("nosymfollow") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    std::os::unix::fs::symlink("file", bed.on("link")).unwrap();
    let refused = fs::read(bed.on("link")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
    done(&mut bed.mounting("remount,symfollow"));
    assert_eq!(fs::read(bed.on("link")).unwrap(), b"text");
    done(&mut bed.mounting("remount,nosymfollow"));
    assert!(fs::read(bed.on("link")).is_err());
}

#[test]
fn remount_ro_closes_the_pool_and_rw_opens_it() {
    let Some(bed) = Bed::mounted("keeper=off,commit=3600") else {
        return;
    };
    let mut open = fs::File::create(bed.on("open")).unwrap();
    let (code, said) = fails(&mut bed.mounting("remount,ro"));
    assert_eq!(code, 1);
    assert!(said.contains("open for writing"), "{said}");
    std::io::Write::write_all(&mut open, b"text").unwrap();
    drop(open);
    done_when_free(&mut bed.mounting("remount,ro"), "open for writing");
    assert!(bed.line(&bed.dir(), "mount").contains("read-only"));
    let written = fs::write(bed.on("open"), "other").unwrap_err();
    assert_eq!(written.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    // What lies on the device is closed: looked at past the server.
    let live = run(super::bed::keepfs(["check", "--live"]).arg(bed.pool()));
    let live = String::from_utf8(live.stdout).unwrap();
    assert!(live.contains("closed properly"), "{live}");
    done(&mut bed.mounting("remount,rw"));
    fs::write(bed.on("open"), "other").unwrap();
    assert!(bed.line(&bed.dir(), "mount").contains("read-write"));
    bed.unmount();
    bed.mount("ro");
    assert_eq!(fs::read(bed.on("open")).unwrap(), b"other");
    let (code, said) = fails(&mut bed.mounting("remount,cache=direct"));
    assert_eq!(code, 2);
    assert!(said.contains("'cache' cannot change"), "{said}");
}

/// Writes and syncs a file, and kills the server: the log has something to replay.
fn cut_off(bed: &Bed) {
    fs::write(bed.on("synced"), "text").unwrap();
    fs::File::open(bed.on("synced")).unwrap().sync_all().unwrap();
    bed.end_server(Signal::KILL);
    bed.unmount_dead();
}

/// S-9.5: what was applied in memory is recovered on the device before the first write.
#[test]
fn a_pool_mounted_ro_becomes_rw() {
    let Some(bed) = Bed::mounted("keeper=off,commit=3600") else {
        return;
    };
    cut_off(&bed);
    let before = fs::read(bed.pool()).unwrap();
    bed.mount("keeper=off,ro,commit=3600");
    assert_eq!(fs::read(bed.on("synced")).unwrap(), b"text");
    let refused = fs::write(bed.on("new"), "1").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert!(
        fs::read(bed.pool()).unwrap() == before,
        "mounted ro, yet the pool was written"
    );
    done(&mut bed.mounting("remount,rw"));
    assert!(bed.line(&bed.dir(), "mount").contains("read-write"));
    assert_eq!(fs::read(bed.on("synced")).unwrap(), b"text");
    fs::write(bed.on("new"), "1").unwrap();
    fs::remove_file(bed.on("synced")).unwrap();
    fs::File::open(bed.on("new")).unwrap().sync_all().unwrap();
    // As durable as any: once more without unmounting properly.
    bed.end_server(Signal::KILL);
    bed.unmount_dead();
    bed.mount("ro");
    assert_eq!(fs::read(bed.on("new")).unwrap(), b"1");
    assert!(!bed.on("synced").exists());
    // And by mount(2) without this program.
    done(Command::new("mount").args(["-i", "-o", "remount,rw"]).arg(bed.dir()));
    assert!((0..1000).any(|_| bed.line(&bed.dir(), "mount").contains("read-write")));
    fs::write(bed.on("new"), "2").unwrap();
    done_when_free(&mut bed.mounting("remount,ro"), "open for writing");
    done(&mut bed.mounting("remount,rw"));
    fs::write(bed.on("new"), "3").unwrap();
    bed.unmount();
    bed.check();
}

/// File systems of somebody else, unmounted when a test ends.
struct Others(Vec<std::path::PathBuf>);

impl Drop for Others {
    fn drop(&mut self) {
        for dir in &self.0 {
            // Gone is as good.
            let _ = rustix::mount::unmount(dir, UnmountFlags::DETACH);
        }
    }
}

/// Mounts file systems until one has the device number `wanted`; none if somebody was faster.
fn mount_with_number(bed: &Bed, wanted: u64) -> (Others, bool) {
    let mut others = Others(Vec::new());
    for number in 0..32 {
        let dir = bed.path(&format!("other-{number}"));
        fs::create_dir_all(&dir).unwrap();
        done(Command::new("mount").args(["-t", "tmpfs", "other"]).arg(&dir));
        let found = fs::metadata(&dir).unwrap().dev();
        others.0.push(dir);
        if found == wanted {
            return (others, true);
        }
    }
    (others, false)
}

/// S-20.23: the device number of a mount is another's as soon as it is unmounted, and that one is mounted read-write.
#[test]
fn a_pool_mounted_ro_is_not_written_at_its_end() {
    let Some(bed) = Bed::mounted("keeper=off,commit=3600") else {
        return;
    };
    cut_off(&bed);
    let before = fs::read(bed.pool()).unwrap();
    let mut met = 0;
    for _ in 0..100 {
        bed.mount("keeper=off,ro,anchor=none");
        let number = fs::metadata(bed.dir()).unwrap().dev();
        let server = bed.server();
        kill_process(server, Signal::STOP).unwrap();
        rustix::mount::unmount(bed.dir(), UnmountFlags::empty()).unwrap();
        let (others, is_met) = mount_with_number(&bed, number);
        met += u32::from(is_met);
        bed::end(server, Signal::CONT);
        drop(others);
        assert!(
            fs::read(bed.pool()).unwrap() == before,
            "mounted ro, yet written at its end"
        );
        if met == 30 {
            return;
        }
    }
    panic!("others were faster: {met} of 100");
}

#[test]
fn a_pool_that_somebody_else_reads_stays_ro() {
    let Some(bed) = Bed::mounted("") else { return };
    bed.unmount();
    bed.mount("ro");
    let other = fs::File::open(bed.pool()).unwrap();
    other.try_lock_shared().unwrap();
    let (code, said) = fails(&mut bed.mounting("remount,rw"));
    assert_eq!(code, 1);
    assert!(said.contains("another process has it open"), "{said}");
    assert!(bed.line(&bed.dir(), "mount").contains("read-only"));
    assert!(fs::write(bed.on("file"), "text").is_err());
    drop(other);
    done(&mut bed.mounting("remount,rw"));
    fs::write(bed.on("file"), "text").unwrap();
    bed.unmount();
    bed.check();
}

/// mount(8) that finds no helper for the type calls mount(2) by itself.
#[test]
fn a_remount_without_us_is_followed() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    let remount =
        |options: &str| done_when_free(Command::new("mount").args(["-i", "-o", options]).arg(bed.dir()), "busy");
    // The server hears of it when the table changes, so it is asked until it has.
    let becomes = |words: &str| (0..1000).any(|_| bed.line(&bed.dir(), "mount").contains(words));
    remount("remount,ro,noatime");
    assert!(becomes("read-only, noatime"));
    remount("remount,rw,strictatime");
    assert!(becomes("read-write, strictatime"));
    fs::write(bed.on("file"), "other").unwrap();
}

#[test]
fn free_space_is_given_back_by_fstrim() {
    use std::os::unix::fs::MetadataExt;
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("large"), vec![5; 16 << 20]).unwrap();
    fs::write(bed.on("kept"), vec![6; 1 << 20]).unwrap();
    done(Command::new("sync").arg("-f").arg(bed.dir()));
    let blocks = || fs::metadata(bed.pool()).unwrap().blocks() * 512;
    let before = blocks();
    fs::remove_file(bed.on("large")).unwrap();
    let said = done(Command::new("fstrim").arg("-v").arg(bed.dir()));
    assert!(said.contains("trimmed"), "{said}");
    let discarded = bed.status()["written"]["discarded_bytes"].as_u64().unwrap();
    assert!(discarded >= 16 << 20, "{discarded}");
    assert!(blocks() + (15 << 20) < before, "{before} {}", blocks());
    assert_eq!(fs::read(bed.on("kept")).unwrap(), vec![6; 1 << 20]);
    let mut other = super::users::nobody();
    let (_, said) = fails(other.arg("fstrim").arg(bed.dir()));
    assert!(said.contains("not permitted") || said.contains("denied"), "{said}");
    bed.unmount();
    bed.check();
}

#[test]
fn noexec_and_exec() {
    let Some(bed) = Bed::mounted("noexec") else { return };
    let program = bed.on("program");
    fs::write(&program, "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        Command::new(&program).output().unwrap_err().kind(),
        std::io::ErrorKind::PermissionDenied
    );
    bed.unmount();
    bed.mount("exec");
    assert_eq!(done(&mut Command::new(&program)), "ran\n");
}

#[test]
fn nodev_and_dev() {
    let Some(bed) = Bed::mounted("dev") else { return };
    let zero = bed.on("zero");
    done(Command::new("mknod").arg(&zero).args(["c", "1", "5"]));
    let read = |path: &std::path::Path| Command::new("head").args(["-c", "4"]).arg(path).output().unwrap();
    assert_eq!(read(&zero).stdout, [0; 4]);
    bed.unmount();
    bed.mount("nodev");
    assert!(!read(&zero).status.success());
}

#[test]
fn nosuid_and_suid() {
    let Some(bed) = Bed::mounted("suid") else { return };
    // id(1) under its own name says whose rights it has.
    let id = bed.on("id");
    copy_program("/usr/bin/id", &id);
    fs::set_permissions(&id, fs::Permissions::from_mode(0o4755)).unwrap();
    let effective = || done(super::users::nobody().arg(&id).arg("-u")).trim().to_owned();
    assert_eq!(effective(), "0");
    bed.unmount();
    bed.mount("nosuid");
    assert_eq!(effective(), "65534");
}

#[test]
fn a_log_is_written_where_it_shall_be() {
    let Some(bed) = Bed::mounted("") else { return };
    bed.unmount();
    let log = bed.path("log");
    let mut mount = bed.mounting(&format!("log={}", log.display()));
    done(mount.env("KEEPFS_LOG", "info"));
    let text = fs::read_to_string(&log).unwrap();
    assert!(text.contains("FUSE connection is up"), "{text}");
    bed.unmount();
    let (_, said) = fails(&mut bed.mounting("log=/nowhere/log"));
    assert!(said.contains("/nowhere/log"), "{said}");
    // S-18.17: in the directory of who mounts, not of its servers.
    fs::create_dir(bed.path("sub")).unwrap();
    done(bed.mounting("log=sub/log").current_dir(bed.path("")));
    assert!(bed.path("sub/log").is_file());
}

/// A line of text would be written over a pool, or waits for who never reads. S-18.17
#[test]
fn a_log_is_nothing_that_it_would_ruin() {
    let Some(bed) = Bed::mounted("") else { return };
    bed.unmount();
    let another = bed.path("another");
    fs::copy(bed.pool(), &another).unwrap();
    let before = fs::read(&another).unwrap();
    let fifo = bed.path("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let pool = bed.pool();
    for (log, what) in [
        (&fifo, "is a FIFO"),
        (&pool, "is the pool itself"),
        (&another, "begins as a Keepfs pool does"),
    ] {
        for keeper in ["on", "off"] {
            let (code, said) = fails(&mut bed.mounting(&format!("keeper={keeper},log={}", log.display())));
            assert!(code == 1 && said.contains(what) && said.lines().count() == 1, "{said}");
            assert!(!bed.is_mounted());
        }
    }
    assert!(fs::read(&pool).unwrap() == before && fs::read(&another).unwrap() == before);
    bed.mount("log=/dev/null");
    bed.unmount();
    bed.check();
}

/// S-16.32.
#[test]
fn an_arena_is_no_larger_than_memory() {
    let Some(bed) = Bed::mounted("") else { return };
    bed.unmount();
    let (code, said) = fails(&mut bed.mounting("arena=1T"));
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("arena=1.00T is more than the"), "{said}");
    assert!(!bed.is_mounted());
    bed.check();
}

/// Where addresses are few, a mount is one whose next server has enough of them, too. S-16.32
#[test]
fn a_mount_fits_in_its_limit_of_addresses() {
    let Some(bed) = Bed::mounted("") else { return };
    bed.unmount();
    let below = |mib: u64, options: &str| {
        let mount = bed.mounting(options);
        let mut limited = Command::new("prlimit");
        limited.arg(format!("--as={}", mib << 20)).arg("--");
        limited.arg(mount.get_program()).args(mount.get_args());
        limited
    };
    let (code, said) = fails(&mut below(300, "threads=2"));
    assert!(
        code == 1 && said.contains("too little memory for a mount"),
        "{code} {said}"
    );
    let (code, said) = fails(&mut below(400, "threads=2,arena=64M"));
    assert!(
        code == 2 && said.contains("arena=64.0M is more than the 22.0M"),
        "{code} {said}"
    );
    let mounted = run(&mut below(400, "threads=2"));
    let said = String::from_utf8(mounted.stderr).unwrap();
    assert!(
        mounted.status.success() && said.contains("the arena has 22.0M"),
        "{said}"
    );
    fs::write(bed.on("file"), "answered").unwrap();
    bed.end_server(Signal::KILL);
    assert_eq!(fs::read_to_string(bed.on("file")).unwrap(), "answered");
    bed.unmount();
    bed.check();
}

#[test]
fn every_cache_mode_keeps_what_is_written() {
    for cache in ["writethrough", "writeback", "direct"] {
        let Some(bed) = Bed::mounted(&format!("cache={cache},threads=1")) else {
            return;
        };
        let bytes: Vec<u8> = (0..300_000u32).map(|n| (n * 7) as u8).collect();
        fs::write(bed.on("file"), &bytes).unwrap();
        assert_eq!(bed.status()["mount"]["cache"], cache);
        bed.unmount();
        bed.mount("");
        assert!(fs::read(bed.on("file")).unwrap() == bytes, "{cache}");
    }
}

/// The first mount of a pool may be a read-only one.
#[test]
fn a_new_pool_can_be_mounted_ro() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    bed.mount("ro");
    assert_eq!(fs::read_dir(bed.dir()).unwrap().count(), 0);
    assert!(fs::write(bed.on("file"), "text").is_err());
    done(&mut bed.mounting("remount,rw"));
    fs::write(bed.on("file"), "text").unwrap();
    bed.unmount();
    bed.check();
}

/// Whatever way to the device, the files are the same.
#[test]
fn a_pool_can_be_used_past_the_page_cache() {
    let Some(bed) = Bed::mounted("io=direct,cache=direct,log-free=50") else {
        return;
    };
    let data: Vec<u8> = (0..3_000_001_u32).map(|i| (i * 7 / 5) as u8).collect();
    fs::write(bed.on("large"), &data).unwrap();
    fs::write(bed.on("small"), "text").unwrap();
    fs::File::open(bed.on("small")).unwrap().sync_all().unwrap();
    assert!(fs::read(bed.on("large")).unwrap() == data);
    bed.unmount();
    bed.mount("io=buffered");
    assert!(fs::read(bed.on("large")).unwrap() == data);
    let (code, said) = fails(&mut bed.mounting("remount,io=direct"));
    assert_eq!(code, 2);
    assert!(said.contains("'io' cannot change"), "{said}");
    bed.unmount();
    bed.check();
}
