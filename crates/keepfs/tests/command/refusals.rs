//! What is said of files that hold no pool, or a damaged one: one sentence each that tells what is wrong, where, and what
//! to do (promise C-8).

use super::bed::{Bed, done, fails, keepfs, possible, run};
use keepfs_codes::crc64;
use keepfs_format::superblock::{CRC_OFFSET, SLOTS, Superblock, slot_page};
use keepfs_format::{FromBytes, IntoBytes};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Pages of the bed's pool.
const PAGES: u64 = 16_384;
/// A device's name, how it is made of a sound pool, and what `check`, `status` and opening it must say.
type Case = (&'static str, fn(&Path), [&'static [&'static str]; 3]);

fn edit(pool: &Path, page: u64, change: impl FnOnce(&mut [u8; 4096])) {
    let file = File::options().read(true).write(true).open(pool).unwrap();
    let mut bytes = [0; 4096];
    file.read_exact_at(&mut bytes, page * 4096).unwrap();
    change(&mut bytes);
    file.write_all_at(&bytes, page * 4096).unwrap();
}

fn resize(pool: &Path, bytes: u64) {
    File::options().write(true).open(pool).unwrap().set_len(bytes).unwrap();
}

/// Changes every superblock there is and makes its checksum right.
fn superblocks(pool: &Path, change: fn(&mut Superblock)) {
    for slot in 0..SLOTS {
        edit(pool, slot_page(slot, PAGES), |bytes| {
            let mut sb = Superblock::read_from_bytes(&bytes[..]).unwrap();
            if sb.generation.get() > 0 {
                change(&mut sb);
                bytes.copy_from_slice(sb.as_bytes());
                let crc = crc64::full(&bytes[..CRC_OFFSET]);
                bytes[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
            }
        });
    }
}

fn every_slot(pool: &Path, change: fn(&mut [u8; 4096])) {
    (0..SLOTS).for_each(|slot| edit(pool, slot_page(slot, PAGES), change));
}

const NONE: &[&str] = &["none of the four superblock slots is valid", "check the path"];
const SMALL: &[&str] = &["cannot hold a pool", "smaller than one page"];
const CUT: &[&str] = &["16384 pages", "it was cut", "length back"];

const CASES: &[Case] = &[
    ("an empty file", |p| resize(p, 0), [SMALL; 3]),
    ("a line of text", |p| fs::write(p, "hello\n").unwrap(), [SMALL; 3]),
    (
        "zeros",
        |p| fs::write(p, vec![0; 1 << 20]).unwrap(),
        [NONE, NONE, &["1024 KiB", "no Keepfs superblock", "keepfs create"]],
    ),
    (
        "another file system",
        |p| {
            fs::write(p, vec![0; 8 << 20]).unwrap();
            edit(p, 0, |bytes| bytes[0x438..0x43a].copy_from_slice(&[0x53, 0xEF]));
        },
        [NONE, NONE, &["it holds ext2/ext3/ext4", "check the path"]],
    ),
    ("a pool cut to half", |p| resize(p, 32 << 20), [CUT; 3]),
    ("a pool cut to three pages", |p| resize(p, 3 * 4096), [CUT; 3]),
    (
        "all superblocks overwritten",
        |p| every_slot(p, |bytes| bytes.fill(0x55)),
        [NONE, NONE, &["no Keepfs superblock (pages 0, 4096, 8192, 12288)"]],
    ),
    (
        "all superblocks damaged",
        |p| every_slot(p, |bytes| bytes[300] ^= 3),
        [
            NONE,
            NONE,
            &[
                "every superblock is damaged",
                "pages 0, 4096, 8192, 12288",
                "check --repair",
            ],
        ],
    ),
    (
        "a later version",
        |p| superblocks(p, |sb| sb.version = 2.into()),
        [
            &["superblock slot 0 (page 0)", "its version"],
            &["superblock slot 0 (page 0)", "its version"],
            &[
                "superblock slot 0 (page 0)",
                "format version 2",
                "use the Keepfs that made it",
            ],
        ],
    ),
    (
        "unknown features",
        |p| superblocks(p, |sb| sb.incompat = (1 << 40).into()),
        [
            &["superblock slot 0 (page 0)", "its features"],
            &["superblock slot 0 (page 0)", "its features"],
            &[
                "superblock slot 0 (page 0)",
                "incompat 0x10000000000",
                "use a newer Keepfs",
            ],
        ],
    ),
    (
        "an impossible field",
        |p| superblocks(p, |sb| sb.zone_pages = 7.into()),
        [
            &["superblock slot 0 (page 0)", "its zone_pages"],
            &["superblock slot 0 (page 0)", "its zone_pages"],
            &["superblock slot 0 (page 0)", "zone_pages (7)", "keepfs check"],
        ],
    ),
    (
        "a map that is lost",
        |p| {
            superblocks(p, |sb| {
                sb.roots[8].entry.first = 5.into();
                sb.roots[8].entry.second = 6.into();
            });
        },
        [&["Totals"], &["Totals", "keepfs check"], &["Totals"]],
    ),
];

/// The file of a case.
fn device(bed: &Bed, number: usize, make: fn(&Path)) -> PathBuf {
    let path = bed.path(&format!("device-{number}"));
    fs::copy(bed.pool(), &path).unwrap();
    make(&path);
    path
}

fn all_in(said: &str, parts: &[&str], what: &str) {
    for part in parts {
        assert!(said.contains(part), "{what}: no \"{part}\" in: {said}");
    }
}

/// Each command tells what is wrong with each device; none of them panics or says it is all right.
#[test]
fn each_device_is_told_apart() {
    let bed = Bed::new();
    for (number, (name, make, [check, status, open])) in CASES.iter().enumerate() {
        let path = device(&bed, number, *make);
        let output = run(keepfs(["check"]).arg(&path));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(matches!(output.status.code(), Some(4 | 8)), "{name}: {output:?}");
        all_in(&said, check, &format!("check of {name}"));
        let output = run(keepfs(["status"]).arg(&path));
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {output:?}");
        all_in(&said, status, &format!("status of {name}"));
        let error = keepfs::Pool::open(&path, &keepfs::OpenOptions::default()).err();
        let said = error.unwrap_or_else(|| panic!("{name} was opened")).to_string();
        all_in(&said, open, &format!("opening {name}"));
        assert!(said.contains(&path.display().to_string()), "{name}: {said}");
        assert_eq!(said.lines().count(), 1, "{name}: {said}");
    }
}

/// Mounting says the same as opening, on standard error, and mounts nothing.
#[test]
fn mounting_tells_the_reason() {
    let bed = Bed::empty();
    fs::write(bed.pool(), vec![0; 1 << 20]).unwrap();
    let (code, said) = fails(&mut bed.mounting(""));
    assert_eq!(code, 1);
    all_in(&said, &["no Keepfs superblock", "keepfs create"], "mount");
    assert!(!bed.is_mounted());
}

/// A pool on a device that grew is as before (S-2.1).
#[test]
fn a_grown_device_is_no_damage() {
    let bed = Bed::new();
    resize(&bed.pool(), 100 << 20);
    done(keepfs(["check"]).arg(bed.pool()));
    let pool = keepfs::Pool::open(bed.pool(), &keepfs::OpenOptions::default()).unwrap();
    pool.write("file", "text").unwrap();
    pool.close().unwrap();
    done(keepfs(["check", "--data"]).arg(bed.pool()));
}

/// S-2.5: a pool with features that only a writer must know can be read, and is as it was afterwards.
#[test]
fn features_that_only_writers_must_know_leave_reading() {
    let bed = Bed::new();
    let pool = keepfs::Pool::open(bed.pool(), &keepfs::OpenOptions::default()).unwrap();
    pool.write("file", "text").unwrap();
    pool.close().unwrap();
    superblocks(&bed.pool(), |sb| sb.ro_compat = (sb.ro_compat.get() | 0x20).into());
    let before = fs::read(bed.pool()).unwrap();
    let said = keepfs::Pool::open(bed.pool(), &keepfs::OpenOptions::default())
        .err()
        .expect("opened for writing")
        .to_string();
    all_in(&said, &["ro_compat 0x20", "-o ro", "newer Keepfs"], "opening");
    let options = keepfs::OpenOptions {
        read_only: true,
        ..keepfs::OpenOptions::default()
    };
    let pool = keepfs::Pool::open(bed.pool(), &options).unwrap();
    assert_eq!(pool.read("file").unwrap(), b"text");
    pool.close().unwrap();
    let said = done(keepfs(["check"]).arg(bed.pool()));
    all_in(&said, &["ro_compat 0x20", "read-only"], "check");
    if possible() {
        assert_eq!(fails(&mut bed.mounting("")).0, 1);
        bed.mount("ro");
        assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
        assert!(fs::write(bed.on("file"), "other").is_err());
        bed.unmount();
    }
    assert!(fs::read(bed.pool()).unwrap() == before, "the pool was written");
}

/// The kernel lets a write-protected device be opened for writing and fails each write.
#[test]
fn a_write_protected_device_can_only_be_read() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let device = done(Command::new("losetup").args(["-r", "--find", "--show"]).arg(bed.pool()));
    let device = device.trim();
    let told = std::panic::catch_unwind(|| {
        let mount = |options: &str| run(keepfs(["mount", "-o", options, device]).arg(bed.dir()));
        let refused = mount("rw");
        let opened = mount("ro");
        let become_rw = mount("remount,rw");
        let read = fs::read_dir(bed.dir()).map(Iterator::count);
        drop(run(keepfs(["unmount"]).arg(bed.dir())));
        (refused, opened, become_rw, read)
    });
    done(Command::new("losetup").args(["-d", device]));
    let (refused, opened, become_rw, read) = told.unwrap();
    for output in [refused, become_rw] {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            !output.status.success() && said.contains("write-protected"),
            "{output:?}"
        );
    }
    assert!(opened.status.success(), "{opened:?}");
    assert_eq!(read.unwrap(), 0);
    bed.check();
}

/// A mount that hid its own pool, or the log of its servers, would wait for itself.
#[test]
fn a_mount_point_above_the_pool_is_refused() {
    let bed = Bed::new();
    let above = bed.pool().parent().unwrap().to_owned();
    let (code, said) = fails(keepfs(["mount"]).arg(bed.pool()).arg(&above));
    assert_eq!(code, 1);
    assert!(
        said.contains("lies below the mount point") && said.contains("the pool"),
        "{said}"
    );
    let log = format!("log={}", bed.on("log").display());
    let (code, said) = fails(&mut bed.mounting(&log));
    assert_eq!(code, 1);
    assert!(
        said.contains("lies below the mount point") && said.contains("the log"),
        "{said}"
    );
    if possible() {
        bed.mount(&format!("log={}", bed.path("log").display()));
        bed.unmount();
    }
}
