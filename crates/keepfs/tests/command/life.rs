//! Create, mount, work, unmount, mount again, check: what was written is there.

use super::bed::{Bed, done, done_when_free, fails, keepfs, possible};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

#[test]
fn files_survive_unmounting() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::create_dir(bed.on("dir")).unwrap();
    fs::write(bed.on("dir/small"), "inline").unwrap();
    let large: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
    fs::write(bed.on("large"), &large).unwrap();
    symlink("dir/small", bed.on("link")).unwrap();
    fs::rename(bed.on("large"), bed.on("dir/large")).unwrap();
    bed.unmount();
    assert!(!bed.is_mounted());
    assert!(!bed.on("dir").exists());
    bed.check();

    bed.mount("");
    assert_eq!(fs::read(bed.on("link")).unwrap(), b"inline");
    assert_eq!(fs::read(bed.on("dir/large")).unwrap(), large);
    assert!(!bed.on("large").exists());
    bed.unmount();
    bed.check();
}

#[test]
fn unmount_has_closed_the_pool_when_it_returns() {
    for options in ["anchor=none", "anchor=loop"] {
        let Some(bed) = Bed::mounted(options) else { return };
        for n in 0..5 {
            fs::write(bed.on(&format!("file{n}")), vec![n; 100_000]).unwrap();
            bed.unmount();
            // Neither the lock nor a log to replay is left.
            let text = done(keepfs(["check"]).arg(bed.pool()));
            assert!(text.contains("closed properly"), "{options}: {text}");
            bed.mount(options);
        }
    }
}

#[test]
fn plain_umount_is_enough() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    done_when_free(Command::new("umount").arg(bed.dir()), "busy");
    bed.check();
    bed.mount("");
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
}

/// As umount(8) takes it.
#[test]
fn the_pool_is_as_good_as_its_mount_point() {
    let Some(bed) = Bed::mounted("") else { return };
    done(keepfs(["unmount"]).arg(bed.pool()));
    assert!(!bed.is_mounted());
    let (code, said) = fails(keepfs(["unmount"]).arg(bed.pool()));
    assert!(code == 1 && said.contains("no pool is mounted at"), "{said}");
    bed.check();
}

#[test]
fn a_mount_in_use_stays() {
    let Some(bed) = Bed::mounted("") else { return };
    let open = fs::File::create(bed.on("open")).unwrap();
    let (code, said) = fails(keepfs(["unmount"]).arg(bed.dir()));
    assert_eq!(code, 1);
    assert!(said.contains("busy"), "{said}");
    assert!(bed.is_mounted());
    drop(open);
    bed.unmount();
}

#[test]
fn lazy_unmount_ends_with_the_last_user() {
    let Some(bed) = Bed::mounted("") else { return };
    let open = fs::File::create(bed.on("open")).unwrap();
    done(keepfs(["unmount", "--lazy"]).arg(bed.dir()));
    assert!(!bed.is_mounted());
    drop(open);
    // Waits for the server that is on its way out.
    bed.check();
}

#[test]
fn forced_unmount_keeps_what_was_committed() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    // Also while somebody uses it.
    let mut open = fs::File::open(bed.on("file")).unwrap();
    done(keepfs(["unmount", "--force"]).arg(bed.dir()));
    let mut bytes = Vec::new();
    let read = open.read_to_end(&mut bytes);
    assert!(read.is_err() || bytes == b"text", "{read:?}");
    drop(open);
    assert!(!bed.is_mounted());
    bed.mount("");
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
}

#[test]
fn sigterm_unmounts_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let Some(bed) = Bed::mounted("keeper=off") else { return };
        fs::write(bed.on("file"), "text").unwrap();
        bed.end_server(signal);
        assert!(!bed.is_mounted());
        let text = done(keepfs(["check"]).arg(bed.pool()));
        assert!(text.contains("closed properly"), "{text}");
    }
}

#[test]
fn the_foreground_server_stays() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let mut mount = bed.mounting("keeper=off");
    mount
        .arg("--foreground")
        .env("KEEPFS_LOG", "info")
        .stderr(Stdio::piped());
    let mut server = mount.spawn().unwrap();
    let mut status = keepfs(["status", "--json"]);
    status.arg(bed.dir());
    // It says nothing when it is ready, so it is asked until it answers.
    while !status.output().unwrap().status.success() {
        assert_eq!(server.try_wait().unwrap(), None, "the server ended");
        std::thread::yield_now();
    }
    assert_eq!(bed.status()["server_pid"], server.id());
    fs::write(bed.on("file"), "text").unwrap();
    bed.unmount();
    let ended = server.wait_with_output().unwrap();
    assert!(ended.status.success());
    // Nobody sees colours in a file.
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("INFO") && !said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn mount_errors_are_told_by_the_command() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let mount = |words: &[&std::path::Path]| keepfs([std::path::Path::new("mount")].iter().chain(words));
    let (pool, dir) = (bed.pool(), bed.dir());
    let cases = [
        (mount(&["/nowhere/pool".as_ref(), &dir]), 1, "/nowhere/pool"),
        (mount(&[&pool, &pool]), 1, "not a directory"),
        (mount(&[&dir, &dir]), 1, "neither a regular file nor a block device"),
        (bed.mounting("nonsense"), 2, "'nonsense'"),
        (bed.mounting("commit=x"), 2, "'commit=x'"),
        (mount(&[&pool]), 2, "DIR"),
    ];
    for (mut command, expected, text) in cases {
        let (code, said) = fails(&mut command);
        assert_eq!(code, expected, "{said}");
        assert!(said.contains(text), "{text}: {said}");
    }
    fs::write(bed.path("other"), vec![1; 1 << 20]).unwrap();
    let (code, said) = fails(keepfs(["mount"]).arg(bed.path("other")).arg(bed.dir()));
    assert_eq!(code, 1);
    assert!(
        said.contains("other") && said.contains("not a usable Keepfs pool"),
        "{said}"
    );
    assert!(!bed.is_mounted());
}

#[test]
fn a_pool_is_mounted_once() {
    let Some(bed) = Bed::mounted("") else { return };
    let (code, said) = fails(&mut bed.mounting(""));
    assert_eq!(code, 1);
    let place = format!("in use (mounted at {} by process", bed.dir().display());
    assert!(said.contains(&place), "{said}");
    fs::write(bed.on("still"), "here").unwrap();
}

#[test]
fn a_mount_that_is_bound_elsewhere_goes_on_there() {
    let Some(bed) = Bed::mounted("anchor=none,cache=writeback,commit=3600") else {
        return;
    };
    let bound = bed.path("bound");
    fs::create_dir(&bound).unwrap();
    done(Command::new("mount").arg("--bind").arg(bed.dir()).arg(&bound));
    fs::write(bed.on("file"), "text").unwrap();
    let first = done_when_free(keepfs(["unmount"]).arg(bed.dir()), "busy");
    let there = fs::read(bound.join("file"));
    let status: serde_json::Value = serde_json::from_str(&done(keepfs(["status", "--json"]).arg(&bound))).unwrap();
    let state = bed.line(&bound, "state");
    done_when_free(keepfs(["unmount"]).arg(&bound), "busy");
    assert!(first.contains("stays mounted at"), "{first}");
    assert_eq!(there.unwrap(), b"text");
    assert_eq!(state, "ONLINE");
    assert_eq!(status["log"]["durable_seq"], status["log"]["last_seq"]);
    bed.check();
}

/// S-20.14: whoever writes on and on into a full pool is told, though the kernel answers each write by itself.
#[test]
fn a_writer_that_never_syncs_is_told_that_a_pool_is_full() {
    let Some(bed) = Bed::mounted("cache=writeback") else {
        return;
    };
    let file = fs::File::create(bed.on("fill")).unwrap();
    let block = vec![7; 1 << 20];
    // Sixty-four times what the pool has.
    let refused = (0..4096).find_map(|_| (&file).write_all(&block).err());
    assert_eq!(refused.expect("told").raw_os_error(), Some(libc::ENOSPC));
    assert_eq!(
        fs::metadata(bed.on("fill")).unwrap().len() >> 20,
        file.metadata().unwrap().len() >> 20
    );
    drop(file);
    fs::remove_file(bed.on("fill")).unwrap();
    let file = fs::File::create(bed.on("after")).unwrap();
    (&file).write_all(&block).unwrap();
    file.sync_all().unwrap();
    (&file).write_all(&block).unwrap();
    file.sync_all().unwrap();
    assert_eq!(file.metadata().unwrap().len(), 2 << 20);
    drop(file);
    bed.unmount();
    bed.check();
}

#[test]
fn unmounting_what_is_not_mounted_says_so() {
    let bed = Bed::empty();
    let (code, said) = fails(keepfs(["unmount"]).arg(bed.dir()));
    assert_eq!(code, 1);
    assert!(said.contains("no pool is mounted at"), "{said}");
}

#[test]
fn version_and_help() {
    assert!(done(&mut keepfs(["version"])).starts_with("keepfs 0."));
    let help = done(&mut keepfs(["--help"]));
    for word in [
        "create",
        "mount",
        "unmount",
        "status",
        "check",
        "dump",
        "events",
        "Exit codes",
        "fsck(8)",
    ] {
        assert!(help.contains(word), "{word}: {help}");
    }
    assert!(!help.contains("  serve "), "{help}");
    assert!(done(&mut keepfs(["mount", "--help"])).contains("cache="));
}
