//! `-o remount`: a pool at rest, and remounts that are refused.

use super::bed::{Bed, KEEPFS, done, done_when_free, fails, keepfs, possible, soon};
use super::damage::{pages_of, ruin};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Child, Command, Stdio};

/// S-20.15: behind a remount to ro a damaged copy is found and stays, and nothing else is written; one to rw lets it be mended.
#[test]
fn a_pool_remounted_ro_is_not_written() {
    let Some(bed) = Bed::mounted("commit=3600,scrub=off") else {
        return;
    };
    for n in 0..20 {
        fs::write(bed.on(&format!("file{n}")), vec![n; 20_000]).unwrap();
    }
    bed.unmount();
    bed.mount("commit=3600,scrub=off");
    done_when_free(&mut bed.mounting("remount,ro"), "open for writing");
    bed.unmount();
    let copies = pages_of(&bed, "Inodes:0");
    bed.mount("commit=3600,scrub=off");
    done_when_free(&mut bed.mounting("remount,ro"), "open for writing");
    ruin(&bed, &copies[..1]);
    let before = fs::read(bed.pool()).unwrap();
    let is_as_before = || fs::read(bed.pool()).unwrap() == before;
    let scrub = || keepfs(["scrub", "start", "--wait"]).arg(bed.dir()).output().unwrap();
    scrub();
    assert!(is_as_before(), "a scrub wrote");
    bed.end_server(Signal::KILL);
    assert_eq!(fs::read(bed.on("file7")).unwrap(), vec![7; 20_000]);
    assert!(is_as_before(), "a server that took over wrote");
    done(&mut bed.mounting("remount,rw"));
    scrub();
    done_when_free(&mut bed.mounting("remount,ro"), "open for writing");
    let mended = fs::read(bed.pool()).unwrap();
    bed.unmount();
    assert!(fs::read(bed.pool()).unwrap() == mended, "the end wrote");
    bed.check();
}

/// S-20.21: who makes a mount read-only is told that its pool is not closed, though the server saw it in the table before and met the
/// error then; each time, and by the server behind it, too.
#[test]
fn a_remount_ro_tells_what_is_not_durable() {
    for (op, count) in [("flush", "1"), ("write", "100")] {
        let Some(bed) = Bed::with_a_file() else { return };
        fs::write(bed.on("late"), "text").unwrap();
        let mut inject = keepfs(["inject"]);
        inject.arg(bed.dir());
        done(inject.args(["device", "--error", "eio", "--op", op, "--count", count]));
        done_when_free(
            Command::new("mount").args(["-i", "-o", "remount,ro"]).arg(bed.dir()),
            "busy",
        );
        soon("its server has followed", || {
            (bed.status()["mount"]["read_only"] == true).then_some(())
        });
        let is_told = || {
            let (code, said) = fails(&mut bed.mounting("remount,ro"));
            assert!(
                code == 1 && said.contains("read-only now, but not everything could be made durable"),
                "{op}: {said}"
            );
        };
        is_told();
        is_told();
        bed.end_server(Signal::KILL);
        is_told();
    }
}

/// S-20.25: a remount on the way to which the device fails is no success, whatever was asked for, and by whom.
#[test]
fn a_remount_beside_a_failing_device_is_told() {
    for options in ["remount,rw", "remount,noexec"] {
        let Some(bed) = Bed::with_a_file() else { return };
        fs::write(bed.on("late"), "text").unwrap();
        let fault = ["device", "--error", "eio", "--op", "write", "--count", "100"];
        done(keepfs(["inject"]).arg(bed.dir()).args(fault));
        let (code, said) = fails(&mut bed.mounting(options));
        assert_eq!(code, 1);
        let why = "nothing of it can be changed any more";
        assert!(
            said.contains(why) && said.contains("unmount it and mount it again"),
            "{options}: {said}"
        );
        let (code, said) = fails(&mut bed.mounting(options));
        assert!(code == 1 && said.contains(why), "{options}: {said}");
    }
}

/// A mount that takes no changes any more says so to who wants it rw.
#[test]
fn a_remount_rw_that_changes_nothing_is_refused() {
    let Some(bed) = Bed::mounted("keeper=on,restarts=1") else {
        return;
    };
    let kill = |times: usize| (0..times).for_each(|_| bed.end_server(Signal::KILL));
    for (why, advice) in [
        ("nothing of it can be changed any more", "unmount it and mount it again"),
        ("every access fails", "unmount it, check it, and mount it again"),
    ] {
        kill(2);
        let (code, said) = fails(&mut bed.mounting("remount,rw"));
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(why) && said.contains(advice), "{said}");
    }
}

/// S-20.25: a place that was made read-only alone stays read-only.
#[test]
fn a_place_that_is_ro_alone_stays_ro() {
    let Some(bed) = Bed::mounted("") else { return };
    let bind = ["-i", "-o", "remount,bind,ro,nosuid"];
    done(Command::new("mount").args(bind).arg(bed.dir()));
    done_when_free(&mut bed.mounting("remount,noexec"), "open for writing");
    assert_eq!(bed.flags().join(","), "ro,nosuid,noexec,relatime");
    assert!(fs::write(bed.on("file"), "text").is_err());
    done(&mut bed.mounting("remount,rw"));
    fs::write(bed.on("file"), "text").unwrap();
}

/// S-20.17: what the kernel has cached of a file goes when it is opened, also where a remount alone said strictatime.
#[test]
fn each_read_moves_the_access_time_behind_a_remount() {
    for first in ["noatime", "relatime"] {
        let Some(bed) = Bed::mounted(first) else { return };
        let file = bed.on("file");
        fs::write(&file, "text").unwrap();
        done(&mut bed.mounting("remount,strictatime"));
        let accessed = || fs::metadata(&file).unwrap().accessed().unwrap();
        let mut last = accessed();
        for n in 0..3 {
            fs::read(&file).unwrap();
            let now = accessed();
            assert!(now > last, "{first}: read {n} moved nothing: {last:?}");
            last = now;
        }
    }
}

/// The kernel makes no mount read-only while a file without a name is open, for reading too.
#[test]
fn a_deleted_file_that_is_open_is_told() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    done_when_free(&mut bed.mounting("remount,ro"), "in use");
    done(&mut bed.mounting("remount,rw"));
    let open = fs::File::open(bed.on("file")).unwrap();
    fs::remove_file(bed.on("file")).unwrap();
    let (_, said) = fails(&mut bed.mounting("remount,ro"));
    assert!(
        said.contains("open for writing, or was deleted and is open still"),
        "{said}"
    );
    drop(open);
    done_when_free(&mut bed.mounting("remount,ro"), "in use");
}

/// What a sloppy mount has passed over is no option of a remount.
#[test]
fn a_remount_knows_no_options_that_were_passed_over() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let helper = bed.path("mount.keepfs");
    symlink(KEEPFS, &helper).unwrap();
    done(
        Command::new(&helper)
            .arg(bed.pool())
            .arg(bed.dir())
            .args(["-s", "-o", "foo=1,noatime"]),
    );
    done_when_free(&mut bed.mounting("remount,ro"), "open for writing");
    assert!(bed.flags().contains(&"noatime".to_owned()), "{:?}", bed.flags());
    let (_, said) = fails(&mut bed.mounting("remount,rw,bar=1"));
    assert!(said.contains("unknown mount option 'bar=1'"), "{said}");
}

/// The process that mounts is killed as soon as there is a mount: either it is usable, or it is gone.
#[test]
fn a_mount_whose_maker_is_killed_is_taken_away() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let makes = |process: &fs::DirEntry| {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let mut words = words.split(|byte| *byte == 0).skip(1);
        words.next() == Some(b"attach") && words.any(|word| word == bed.pool().as_os_str().as_encoded_bytes())
    };
    let maker = || {
        let found = fs::read_dir("/proc").unwrap().flatten().find(makes)?;
        Pid::from_raw(found.file_name().to_str()?.parse().ok()?)
    };
    for _ in 0..30 {
        let mut mount = bed.mounting("").stderr(Stdio::null()).spawn().unwrap();
        let is_over = |mount: &mut Child| mount.try_wait().unwrap().is_some();
        // It is a matter of less than a millisecond.
        let maker = loop {
            match maker() {
                None if !is_over(&mut mount) => {}
                found => break found,
            }
        };
        while !bed.is_mounted() && !is_over(&mut mount) {}
        // Gone is as good.
        let _ = maker.map(|maker| kill_process(maker, Signal::KILL));
        let is_usable = mount.wait().unwrap().success();
        assert_eq!(bed.is_mounted(), is_usable);
        if is_usable {
            fs::write(bed.on("file"), "text").unwrap();
            bed.unmount();
        }
    }
    bed.check();
}
