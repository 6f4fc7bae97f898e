//! Making pools, and refusing to.

use super::bed::{Bed, KEEPFS, done, done_when_free, fails, keepfs, possible, run};
use super::twice::Loop;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

#[test]
fn a_pool_says_what_it_is() {
    let bed = Bed::empty();
    let mut create = keepfs([
        "create",
        "--size",
        "64M",
        "--label",
        "photos",
        "--meta-copies",
        "1",
        "--log-size",
        "6M",
        "--json",
    ]);
    let made: Value = serde_json::from_str(&done(create.arg(bed.pool()))).unwrap();
    assert_eq!(made["version"], 1);
    assert_eq!(made["label"], "photos");
    assert_eq!(made["meta_copies"], 1);
    assert_eq!(made["log_bytes"], 6 << 20);
    assert_eq!(made["size_bytes"], 64 << 20);
    assert_eq!(fs::metadata(bed.pool()).unwrap().len(), 64 << 20);
    bed.check();
}

/// What is no whole page is left out, of a new file, of one that is there and of a pool that grows.
#[test]
fn sizes_may_have_a_decimal_point() {
    let bed = Bed::empty();
    let size = |command: &str, size: &str| {
        let text = done(keepfs([command, "--json", "--size", size]).arg(bed.pool()));
        let told: Value = serde_json::from_str(&text).unwrap();
        let told = told["size_bytes"].as_u64().unwrap();
        assert_eq!(fs::metadata(bed.pool()).unwrap().len(), told, "{command}");
        told
    };
    assert_eq!(size("create", "32.51M"), 8322 * 4096);
    assert_eq!(size("grow", "0.0625G"), 64 << 20);
    assert_eq!(size("grow", "64.01M"), 16386 * 4096);
    bed.check();
    fs::File::create(bed.pool()).unwrap();
    assert_eq!(size("create", "32.51M"), 8322 * 4096);
}

#[test]
fn every_pool_has_its_own_id() {
    let id = || {
        let bed = Bed::empty();
        let text = done(keepfs(["create", "--size", "64M", "--json"]).arg(bed.pool()));
        serde_json::from_str::<Value>(&text).unwrap()["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_ne!(id(), id());
}

#[test]
fn data_of_others_is_refused_unless_forced() {
    let bed = Bed::empty();
    let pool = bed.pool();
    fs::File::create(&pool).unwrap().set_len(64 << 20).unwrap();
    done(Command::new("mkfs.ext4").arg("-q").arg(&pool));
    let before = fs::read(&pool).unwrap();
    let (code, said) = fails(keepfs(["create"]).arg(&pool));
    assert_eq!(code, 1);
    assert!(said.contains("ext4") && said.contains("--force"), "{said}");
    assert!(fs::read(&pool).unwrap() == before, "a refused device was written to");
    done(keepfs(["create", "--force"]).arg(&pool));
    bed.check();
}

#[test]
fn a_pool_and_a_text_are_refused_too() {
    let bed = Bed::new();
    let (_, said) = fails(keepfs(["create"]).arg(bed.pool()));
    assert!(said.contains("holds keepfs"), "{said}");
    let text = bed.path("letter");
    fs::write(&text, "Dear reader, ".repeat(1000)).unwrap();
    for size in [&["--size", "64M"][..], &[]] {
        let (_, said) = fails(keepfs(["create"]).args(size).arg(&text));
        assert!(said.contains("not empty"), "{said}");
    }
    assert_eq!(fs::metadata(&text).unwrap().len(), 13_000);
}

#[test]
fn an_empty_file_gets_its_size() {
    let bed = Bed::empty();
    fs::File::create(bed.pool()).unwrap();
    done(keepfs(["create", "--size", "64M"]).arg(bed.pool()));
    bed.check();
}

#[test]
fn a_mounted_pool_is_refused_even_by_force() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    for args in [&["--force"][..], &["--force", "--size", "128M"]] {
        let (code, said) = fails(keepfs(["create"]).args(args).arg(bed.pool()));
        assert_eq!(code, 1);
        assert!(said.contains("in use"), "{said}");
    }
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
    bed.unmount();
    bed.check();
}

#[test]
fn a_file_behind_a_mounted_loop_device_is_refused_even_by_force() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    fs::File::create(bed.pool()).unwrap().set_len(64 << 20).unwrap();
    done(Command::new("mkfs.ext4").arg("-q").arg(bed.pool()));
    done(
        Command::new("mount")
            .args(["-o", "loop"])
            .arg(bed.pool())
            .arg(bed.dir()),
    );
    let refused = fails(keepfs(["create", "--force"]).arg(bed.pool()));
    done_when_free(Command::new("umount").arg(bed.dir()), "busy");
    assert!(refused.1.contains("in use (mounted at"), "{refused:?}");
}

#[test]
fn what_cannot_be_made_is_told() {
    let bed = Bed::empty();
    let long = "x".repeat(65);
    let cases = [
        (vec![], 1, "--size"),
        (vec!["--size", "4K"], 1, "pool"),
        (vec!["--size", "huge"], 2, "'huge' is not a size"),
        (vec!["--size", "1.5"], 2, "'1.5' is not a size"),
        (vec!["--size", "64M", "--meta-copies", "3"], 2, "1..=2"),
        (vec!["--size", "64M", "--label", &long], 1, "65 bytes"),
        (vec!["--size", "64M", "--log-size", "64K"], 1, "131072 to"),
        (vec!["--size", "64M", "--log-size", "16M"], 1, "to 16773120 bytes"),
    ];
    for (args, expected, text) in cases {
        let (code, said) = fails(keepfs(["create"]).args(&args).arg(bed.pool()));
        assert_eq!(code, expected, "{args:?}: {said}");
        assert!(said.contains(text), "{args:?}: {said}");
        assert!(!bed.pool().exists(), "{args:?}");
    }
    assert!(!run(&mut keepfs(["create"])).status.success());
}

#[test]
fn a_block_device_is_a_pool_too() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let backing = bed.path("backing");
    fs::File::create(&backing).unwrap().set_len(64 << 20).unwrap();
    let device = done(Command::new("losetup").args(["--find", "--show"]).arg(&backing));
    let device = device.trim();
    let used = use_device(&bed, device);
    done(Command::new("losetup").args(["-d", device]));
    used.unwrap();
}

/// A format that only blkid(8) knows here.
#[test]
fn what_blkid_knows_is_not_overwritten() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let backing = bed.path("backing");
    let mut content = vec![0; 64 << 20];
    content[..12].copy_from_slice(b"-rom1fs-\0\0\x02\0");
    fs::write(&backing, &content).unwrap();
    let device = done(Command::new("losetup").args(["--find", "--show"]).arg(&backing));
    let device = device.trim();
    let refused = run(keepfs(["create"]).arg(device));
    let kept = fs::read(&backing).unwrap() == content;
    let forced = run(keepfs(["create", "--force"]).arg(device));
    done(Command::new("losetup").args(["-d", device]));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && said.contains("romfs") && said.contains("--force"),
        "{said}"
    );
    assert!(kept);
    assert!(forced.status.success(), "{forced:?}");
}

/// Errors instead of panics: the device must be given back.
fn use_device(bed: &Bed, device: &str) -> Result<(), String> {
    let dir = bed.dir();
    let dir = dir.to_str().ok_or("path")?;
    let steps: [&[&str]; 5] = [
        &["create", device],
        &["mount", device, dir],
        &["status", device],
        &["unmount", dir],
        &["check", device],
    ];
    for step in steps {
        let output = run(&mut keepfs(step));
        if !output.status.success() {
            return Err(format!("{step:?}: {output:?}"));
        }
        if step[0] == "mount" {
            fs::write(bed.on("file"), "text").map_err(|e| e.to_string())?;
            let forced = run(&mut keepfs(["create", "--force", device]));
            if forced.status.success() {
                return Err("a mounted device was overwritten".into());
            }
        }
    }
    let sized = run(&mut keepfs(["create", "--force", "--size", "65M", device]));
    let said = String::from_utf8_lossy(&sized.stderr).into_owned();
    if !said.contains("has only 67108864 bytes") {
        return Err(said);
    }
    // Less than the device has: the rest stays unused, and is found again.
    let part = done(&mut keepfs(["create", "--force", "--size", "32M", "--json", device]));
    let part: Value = serde_json::from_str(&part).map_err(|e| e.to_string())?;
    if part["size_bytes"] != 32 << 20 {
        return Err(part.to_string());
    }
    for step in [&["mount", device, dir][..], &["unmount", dir], &["check", device]] {
        done(&mut keepfs(step));
    }
    Ok(())
}

/// S-2.16: what lies behind the pool is somebody else's.
#[test]
fn what_lies_behind_a_part_of_a_device_is_left_alone() {
    if !possible() {
        return;
    }
    const SIZE: usize = 48 << 20;
    let bed = Bed::empty();
    let backing = bed.path("backing");
    let foreign: Vec<u8> = (0..SIZE as u64).map(|at| (at / 4096 * 7 + at % 251) as u8).collect();
    fs::write(&backing, &foreign).unwrap();
    let device = Loop::over(&backing);
    let create = |args: &[&str]| done(keepfs(["create", "--force"]).args(args).arg(&device.0));
    // What stands in the file is what the device shows once it was flushed.
    let behind = |size: usize| {
        done(Command::new("blockdev").arg("--flushbufs").arg(&device.0));
        fs::read(&backing).unwrap().split_off(size << 20)
    };
    for size in [24, 13, 40, 4] {
        for discard in [&[][..], &["--no-discard"]] {
            fs::write(&backing, &foreign).unwrap();
            done(Command::new("blockdev").arg("--flushbufs").arg(&device.0));
            create(&[&["--size", &format!("{size}M")], discard].concat());
            assert!(behind(size) == foreign[size << 20..], "{size}M {discard:?}");
            done(keepfs(["check"]).arg(&device.0));
        }
    }
    // But for superblocks of a pool that had it all: its own slots.
    create(&[]);
    let whole = behind(20);
    create(&["--size", "20M"]);
    let part = behind(20);
    let changed: Vec<usize> = (0..part.len() / 4096)
        .filter(|page| whole[page * 4096..][..4096] != part[page * 4096..][..4096])
        .collect();
    assert_eq!(changed, [1024, 4096], "24M and 36M of the device");
    assert!(
        changed
            .iter()
            .all(|page| part[page * 4096..][..4096].iter().all(|byte| *byte == 0))
    );
    // Nobody finds it, with page 0 gone: a search finds the one of 20 MiB (S-2.25), a mount none.
    fs::File::options()
        .write(true)
        .open(&backing)
        .unwrap()
        .write_all_at(&[0; 4096], 0)
        .unwrap();
    done(Command::new("blockdev").arg("--flushbufs").arg(&device.0));
    let found = done(keepfs(["get", "size"]).arg(&device.0));
    assert!(found.contains("20.0M"), "{found}");
    fs::create_dir(bed.path("there")).unwrap();
    let mounted = fails(keepfs(["mount"]).arg(&device.0).arg(bed.path("there")));
    assert!(mounted.1.contains("superblock"), "{mounted:?}");
}

/// Decision 0817: who can read the file reads past all rights in the pool, and who can open it can lock it.
#[test]
fn a_pool_is_its_owners_alone() {
    let bed = Bed::empty();
    let log = bed.path("log");
    let without_umask = |command: &str| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("umask 0; exec \"$0\" {command}")])
            .arg(KEEPFS);
        shell
    };
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let create = format!("create --size 64M {}", bed.pool().display());
    let made = run(&mut without_umask(&create));
    assert!(made.status.success() && made.stderr.is_empty(), "{made:?}");
    assert_eq!(mode(&bed.pool()), 0o600);
    if !possible() {
        return;
    }
    let mount = format!(
        "mount -o log={} {} {}",
        log.display(),
        bed.pool().display(),
        bed.dir().display()
    );
    let mounted = run(&mut without_umask(&mount));
    assert!(mounted.status.success() && mounted.stderr.is_empty(), "{mounted:?}");
    assert_eq!(mode(&log), 0o600);
    assert!(bed.status()["exposed"].is_null());
    assert!(!done(keepfs(["status"]).arg(bed.dir())).contains("access:"));
    bed.unmount();
}

/// As mkswap(8) does: the file is whose it was, and what to do is said at each step.
#[test]
fn a_pool_that_others_can_read_is_told_of() {
    let bed = Bed::empty();
    let pool = bed.pool();
    fs::File::create(&pool).unwrap().set_len(64 << 20).unwrap();
    let fix = format!("fix with: chmod 600 {}", pool.display());
    let access = |mode| fs::set_permissions(&pool, fs::Permissions::from_mode(mode)).unwrap();
    access(0o644);
    let warned = |command: &mut Command| {
        let output = run(command);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = warned(keepfs(["create"]).arg(&pool));
    assert!(said.contains("can read or lock") && said.contains(&fix), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(bed.line(&pool, "access").contains(&fix));
    if !possible() {
        return;
    }
    for options in ["keeper=on", "keeper=off"] {
        access(0o640);
        let said = warned(&mut bed.mounting(options));
        assert!(said.contains("mode 0640") && said.contains(&fix), "{said}");
        assert!(bed.line(&bed.dir(), "access").contains(&fix));
        assert!(bed.status()["exposed"].as_str().unwrap().contains(&fix));
        assert!(done(keepfs(["events"]).arg(bed.dir())).contains(&fix));
        // At once, and no event is told of what is no more at the next mount.
        access(0o600);
        assert!(bed.status()["exposed"].is_null());
        bed.unmount();
        assert_eq!(warned(&mut bed.mounting(options)), "");
        bed.unmount();
    }
    std::os::unix::fs::chown(&pool, Some(1), None).unwrap();
    let said = warned(&mut bed.mounting(""));
    assert!(said.contains("user 1") && said.contains("chown root"), "{said}");
    bed.unmount();
}
