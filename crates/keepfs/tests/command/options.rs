//! Mount options do what they say.

use super::bed::{Bed, done, fails};
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
    fs::copy("/usr/bin/id", &id).unwrap();
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
