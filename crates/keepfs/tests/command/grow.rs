//! Pools that get larger (S-2.15): files and devices, with what was in them.

use super::bed::{Bed, done, fails, keepfs, possible, run, skipped};
use super::shared::{look, protected, while_it_lives};
use super::twice::Loop;
use keepfs::{OpenOptions, Pool};
use keepfs_store::mmp::block::Seen;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

const MIB: u64 = 1 << 20;

fn grow(pool: &Path, size: &str) -> String {
    done(keepfs(["grow", "--size", size]).arg(pool))
}

fn size_of(pool: &Path) -> u64 {
    let said = done(keepfs(["get", "-H", "-p", "-o", "value", "size"]).arg(pool));
    said.trim().parse().unwrap()
}

fn content(number: usize) -> Vec<u8> {
    (0..MIB as usize).map(|at| (at / 4096 + number * 31) as u8).collect()
}

/// Writes files of 1 MiB from number `from` on until there is no room; the number of the first that had none.
fn fill(bed: &Bed, from: usize) -> usize {
    for number in from.. {
        let path = bed.on(&format!("file{number}"));
        let written = fs::File::create(&path).and_then(|mut file| {
            file.write_all(&content(number))?;
            file.sync_all()
        });
        if let Err(error) = written {
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
            fs::remove_file(path).unwrap();
            return number;
        }
    }
    unreachable!()
}

fn has_all(bed: &Bed, files: usize) {
    for number in 0..files {
        let path = bed.on(&format!("file{number}"));
        assert!(fs::read(path).unwrap() == content(number), "file{number}");
    }
}

/// What a full pool gets is used, and what it had is there; twice.
fn fills_what_it_gets(bed: &Bed, pool: &Path, mut more: impl FnMut(u64)) {
    let mount = || done(keepfs(["mount"]).arg(pool).arg(bed.dir()));
    let mut files = 0;
    for size in [64, 160, 200] {
        more(size * MIB);
        assert_eq!(size_of(pool), size * MIB);
        mount();
        has_all(bed, files);
        let before = files;
        files = fill(bed, files);
        assert!(files - before > if before == 0 { 30 } else { 25 }, "{size}: {files}");
        has_all(bed, files);
        assert_eq!(bed.status()["space"]["size_bytes"], size * MIB);
        bed.unmount();
        done(keepfs(["check", "--data"]).arg(pool));
    }
    mount();
    has_all(bed, files);
    (0..files).for_each(|number| fs::remove_file(bed.on(&format!("file{number}"))).unwrap());
    bed.unmount();
    done(keepfs(["check", "--data"]).arg(pool));
}

#[test]
fn a_pool_in_a_file_grows_with_it() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let pool = bed.pool();
    fills_what_it_gets(&bed, &pool, |bytes| match bytes / MIB {
        64 => drop(done(keepfs(["create", "--size", "64M"]).arg(&pool))),
        size => {
            let said = grow(&pool, &format!("{size}M"));
            assert!(said.contains(&format!("to {size}M")), "{said}");
            assert_eq!(fs::metadata(&pool).unwrap().len(), bytes);
        }
    });
}

/// What lies behind the pool is anything.
#[test]
fn a_pool_on_a_device_grows_with_it() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let backing = bed.path("backing");
    fs::File::create(&backing).unwrap().set_len(64 * MIB).unwrap();
    let device = Loop::over(&backing);
    fills_what_it_gets(&bed, &device.0, |bytes| {
        if bytes == 64 * MIB {
            done(keepfs(["create"]).arg(&device.0));
            return;
        }
        let file = fs::File::options().write(true).open(&backing).unwrap();
        let from = file.metadata().unwrap().len();
        (from..bytes)
            .step_by(MIB as usize)
            .for_each(|at| file.write_all_at(&[0xA5; MIB as usize], at).unwrap());
        let (code, said) = fails(keepfs(["grow"]).arg(&device.0));
        assert!(code == 1 && said.contains("make the device larger"), "{said}");
        assert!(said.contains("losetup -c"), "{said}");
        done(Command::new("losetup").arg("--set-capacity").arg(&device.0));
        let (code, said) = fails(keepfs(["grow", "--size", "1G"]).arg(&device.0));
        assert!(code == 1 && said.contains(&format!("only {bytes} bytes")), "{said}");
        done(keepfs(["grow"]).arg(&device.0));
    });
}

#[test]
fn what_cannot_grow_is_refused_and_stays() {
    let bed = Bed::new();
    let before = fs::read(bed.pool()).unwrap();
    for (words, said) in [
        (
            &["--size", "32M"][..],
            "has 67108864 bytes already, 33554432 were asked for, and a pool does not shrink",
        ),
        (&["--size", "64M"], "does not shrink"),
        (&["--size", "60P"], "no pool can have more than"),
        (&[], "say how large it shall be"),
    ] {
        for more in [&[][..], &["--dry-run"], &["--json"]] {
            let (code, says) = fails(keepfs(["grow"]).args(words).args(more).arg(bed.pool()));
            assert!(code == 1 && says.contains(said), "{words:?}: {code} {says}");
            assert_eq!(says.trim_end().lines().count(), 1, "one sentence: {says}");
        }
    }
    let told = done(keepfs(["grow", "--dry-run", "--json", "--size", "128M"]).arg(bed.pool()));
    let told: Value = serde_json::from_str(&told).unwrap();
    super::json::is_as_promised("grow", &told);
    assert_eq!(
        (&told["dry_run"], &told["size_bytes"]),
        (&true.into(), &(128 * MIB).into())
    );
    assert!(fs::read(bed.pool()).unwrap() == before, "it was changed");
    fs::write(bed.path("other"), vec![7; 1 << 20]).unwrap();
    let (_, said) = fails(keepfs(["grow", "--size", "64M"]).arg(bed.path("other")));
    assert!(said.contains("no Keepfs superblock"), "{said}");
    assert_eq!(fs::metadata(bed.path("other")).unwrap().len(), 1 << 20);
    // A file that somebody made longer.
    fs::File::options()
        .write(true)
        .open(bed.pool())
        .unwrap()
        .set_len(96 * MIB)
        .unwrap();
    let grown = done(keepfs(["grow", "--json"]).arg(bed.pool()));
    let grown: Value = serde_json::from_str(&grown).unwrap();
    super::json::is_as_promised("grow", &grown);
    assert_eq!(
        (&grown["before_bytes"], &grown["size_bytes"]),
        (&(64 * MIB).into(), &(96 * MIB).into())
    );
    bed.check();
}

#[test]
fn a_mounted_pool_does_not_grow() {
    let Some(bed) = Bed::mounted("") else { return };
    for of in [bed.pool(), bed.dir()] {
        for more in [&["--size", "128M"][..], &["--dry-run"]] {
            let (code, said) = fails(keepfs(["grow"]).args(more).arg(&of));
            let place = format!(
                "it is mounted at {}, and grows only while it is not",
                bed.dir().display()
            );
            assert!(code == 1 && said.contains(&place), "{said}");
        }
    }
    assert_eq!(fs::metadata(bed.pool()).unwrap().len(), 64 * MIB);
    let device = Loop::over(&bed.pool());
    let (_, said) = fails(keepfs(["grow"]).arg(&device.0));
    assert!(said.contains("it is mounted at"), "{said}");
}

/// S-2.14: what is kept of the host lies behind the end that the file has then.
#[test]
fn the_room_of_the_host_is_kept_behind_the_end() {
    let bed = Bed::new();
    let blocks = || fs::metadata(bed.pool()).unwrap().blocks() * 512;
    let before = blocks();
    grow(&bed.pool(), "1G");
    // 1 MiB of it was kept; of 1 GiB 16 MiB are.
    let kept = blocks() - before;
    assert!((15 * MIB..16 * MIB).contains(&kept), "{kept}");
    let end = fs::metadata(bed.pool()).unwrap().len();
    fs::File::options()
        .write(true)
        .open(bed.pool())
        .unwrap()
        .set_len(end)
        .unwrap();
    // A file system that gives back what is behind the end has given back all that was kept.
    assert!(before - blocks() <= MIB, "{} {before}", blocks());
}

/// S-2.12: no pool of another machine grows, and who grows one claims it.
#[test]
fn a_pool_that_another_machine_has_does_not_grow() {
    if !possible() {
        return;
    }
    let bed = protected();
    grow(&bed.pool(), "80M");
    assert!(matches!(look(&bed), Seen::Free(_)));
    while_it_lives(&bed, || {
        let grown = run(keepfs(["grow", "--size", "128M"]).arg(bed.pool()));
        let said = String::from_utf8(grown.stderr).unwrap();
        assert_eq!(grown.status.code(), Some(1));
        assert!(said.contains("in use by machine other"), "{said}");
    });
    assert_eq!(
        (size_of(&bed.pool()), fs::metadata(bed.pool()).unwrap().len()),
        (80 * MIB, 80 * MIB)
    );
}

/// Killed at any call that changes file or pool: it has the one size or the other, and all that was synced.
#[test]
fn whoever_is_killed_leaves_a_pool_of_one_size_or_the_other() {
    if !run(Command::new("strace").arg("-V")).status.success() {
        skipped("strace");
        return;
    }
    let bed = Bed::new();
    let before = bed.path("before");
    let pool = Pool::open(bed.pool(), &OpenOptions::default()).unwrap();
    pool.write("/file", content(1)).unwrap();
    pool.sync().unwrap();
    // As after a crash.
    drop(pool);
    fs::rename(bed.pool(), &before).unwrap();
    let copy = || done(Command::new("cp").arg("--sparse=always").arg(&before).arg(bed.pool()));
    let mut seen = [0; 2];
    for call in ["pwrite64", "pwritev", "fdatasync", "ftruncate", "fallocate", "fsync"] {
        let mut killed = true;
        for which in 1.. {
            if !killed {
                break;
            }
            copy();
            let inject = format!("inject={call}:signal=SIGKILL:when={which}");
            let mut traced = Command::new("strace");
            traced.args(["-f", "-qq", "-o", "/dev/null", "-e", &inject, super::bed::KEEPFS]);
            let ended = run(traced.args(["grow", "--size", "96M"]).arg(bed.pool()));
            killed = ended.status.signal() == Some(9);
            assert!(killed || ended.status.success(), "{inject}: {ended:?}");
            let size = size_of(&bed.pool());
            assert!(size == 64 * MIB || size == 96 * MIB, "{inject}: {size}");
            assert!(killed || size == 96 * MIB, "{inject}");
            seen[usize::from(size == 96 * MIB)] += usize::from(killed);
            bed.check();
            let pool = Pool::open(bed.pool(), &OpenOptions::default()).unwrap();
            assert!(pool.read("/file").unwrap() == content(1), "{inject}");
            pool.close().unwrap();
            if size == 64 * MIB {
                grow(&bed.pool(), "96M");
            }
            bed.check();
        }
    }
    assert!(seen[0] > 10 && seen[1] > 1, "{seen:?}");
}

/// S-2.25: the superblocks that are left when page 0 is gone are found where the first size put them, of a pool that has grown and of one
/// that is shorter than its file.
#[test]
fn a_pool_without_page_0_is_repaired() {
    for (size, grows) in [("100M", true), ("128M", true), ("131M", true), ("131M", false)] {
        let bed = Bed::empty();
        let pool = bed.path("pool");
        done(keepfs(["create", "--size", "64M"]).arg(&pool));
        if grows {
            grow(&pool, size);
        }
        let file = fs::File::options().read(true).write(true).open(&pool).unwrap();
        if !grows {
            file.set_len(131 << 20).unwrap();
        }
        let mut page = [0; 4096];
        file.read_exact_at(&mut page, 0).unwrap();
        let whole = fs::read(&pool).unwrap();
        file.write_all_at(&[0; 4096], 0).unwrap();
        let (code, said) = fails(
            keepfs(["check", "--repair", "--undo-file"])
                .arg(bed.path("undo"))
                .arg(&pool),
        );
        assert_eq!(code, 1, "{size}: {said}");
        done(keepfs(["check"]).arg(&pool));
        assert!(fs::read(&pool).unwrap()[..512] != [0; 512], "{size}");
        assert_eq!(whole.len(), fs::read(&pool).unwrap().len());
    }
}

/// A growth that is refused for want of room leaves the file as it was.
#[test]
fn a_growth_without_room_gives_back_what_it_took() {
    let bed = Bed::empty();
    if !possible() {
        return;
    }
    fs::create_dir(bed.path("host")).unwrap();
    let mounted = run(Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=80m", "keepfs-test"])
        .arg(bed.path("host")));
    if !mounted.status.success() {
        skipped("a tmpfs");
        return;
    }
    let pool = bed.path("host/pool");
    done(keepfs(["create", "--size", "64M", "--preallocate"]).arg(&pool));
    let (_, said) = fails(keepfs(["grow", "--size", "128M"]).arg(&pool));
    assert!(said.contains("No space left"), "{said}");
    let file = fs::metadata(&pool).unwrap();
    assert_eq!(file.len(), 64 << 20);
    assert!(file.blocks() * 512 <= 66 << 20, "{}", file.blocks());
    done(keepfs(["check"]).arg(&pool));
    done(Command::new("umount").arg(bed.path("host")));
}
