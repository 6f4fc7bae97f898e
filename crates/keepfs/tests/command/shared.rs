//! A pool that several machines reach (S-2.12). The other machine is this test: it writes the pool's file past all locks, as a
//! machine does that shares a disk.

use super::bed::{Bed, done, fails, keepfs, possible, run, skipped, soon};
use super::twice::Loop;
use keepfs_format::mmp::{self, Block, USED};
use keepfs_format::superblock::{RO_COMPAT_MMP, RO_COMPAT_MMP_ON, SLOTS, Superblock, slot_page};
use keepfs_format::{FromBytes, PAGE, PoolId};
use keepfs_store::mmp::block::{self, Seen};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Where the block is, and whose.
fn place(bed: &Bed) -> (u64, PoolId) {
    let mut page = [0; PAGE];
    let pool = fs::File::open(bed.pool()).unwrap();
    pool.read_exact_at(&mut page, 0).unwrap();
    let sb = Superblock::read_from_bytes(&page).unwrap();
    assert_eq!(sb.ro_compat.get() & RO_COMPAT_MMP, RO_COMPAT_MMP);
    (mmp::page_of(&sb).unwrap() * PAGE as u64, PoolId(sb.pool))
}

pub fn look(bed: &Bed) -> Seen {
    let (at, pool) = place(bed);
    let mut page = [0; PAGE];
    fs::File::open(bed.pool())
        .unwrap()
        .read_exact_at(&mut page, at)
        .unwrap();
    block::read(&page, pool)
}

/// Another machine writes the block: it has the pool, and has shown it so often.
pub fn other(bed: &Bed, sequence: u64) {
    let (at, pool) = place(bed);
    let mut block = block::unowned(pool, USED, 1, sequence);
    block.nonce = [7; 16];
    block.boot = [7; 16];
    block.host[..5].copy_from_slice(b"other");
    block.dir[..6].copy_from_slice(b"/there");
    let pool = fs::File::options().write(true).open(bed.pool()).unwrap();
    pool.write_all_at(&block::page(&block), at).unwrap();
}

pub fn protected() -> Bed {
    let bed = Bed::new();
    done(keepfs(["set", "mmp=1"]).arg(bed.pool()));
    assert!(matches!(look(&bed), Seen::Free(block) if block.interval_s.get() == 1));
    bed
}

#[test]
fn a_pool_that_another_machine_shows_to_be_in_use_is_refused() {
    if !possible() {
        return;
    }
    let bed = protected();
    while_it_lives(&bed, || {
        let (code, said) = fails(&mut bed.mounting(""));
        let status = done(keepfs(["status"]).arg(bed.pool()));
        let reading = run(&mut bed.mounting("ro"));
        assert_eq!(code, 1);
        assert!(
            said.contains("in use by machine other, which has it mounted at /there"),
            "{said}"
        );
        assert!(status.contains("in use by machine other"), "{status}");
        assert!(reading.status.success(), "{reading:?}");
    });
    // It has lost power: its block stands still.
    bed.unmount();
    bed.mount("");
    fs::write(bed.on("file"), "ours").unwrap();
    assert_eq!(bed.status()["mmp_s"], 1);
    bed.unmount();
    assert!(matches!(look(&bed), Seen::Free(_)));
    bed.check();
}

#[test]
fn a_server_that_finds_another_machine_in_its_place_writes_no_more() {
    if !possible() {
        return;
    }
    let bed = protected();
    bed.mount("");
    fs::write(bed.on("file"), "ours").unwrap();
    other(&bed, 99);
    let status = soon("the server notices", || {
        let status = bed.status();
        (status["state"] == "FAULTED").then_some(status)
    });
    let said = status["errors"].to_string();
    assert!(said.contains("in use by machine other"), "{said}");
    assert!(
        status["status"]
            .as_str()
            .unwrap()
            .contains("another machine has the pool"),
        "{status}"
    );
    assert!(fs::write(bed.on("file"), "late").is_err());
    let _ = run(keepfs(["unmount"]).arg(bed.dir()));
    soon("it is unmounted", || (!bed.is_mounted()).then_some(()));
    assert!(
        matches!(look(&bed), Seen::Used(block) if block.sequence.get() == 99),
        "the block is the other's"
    );
}

#[test]
fn a_server_takes_the_place_of_a_dead_one_and_keeps_its_claim() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    bed.mount("");
    // While it is mounted it needs no other server.
    let first = bed.server();
    done(keepfs(["set", "mmp=on"]).arg(bed.dir()));
    assert_eq!(bed.server(), first);
    assert_eq!(
        done(keepfs(["get", "-H", "-o", "value", "mmp"]).arg(bed.dir())).trim(),
        "on"
    );
    fs::write(bed.on("file"), "kept").unwrap();
    for _ in 0..2 {
        bed.end_server(Signal::KILL);
        assert_eq!(fs::read(bed.on("file")).unwrap(), b"kept");
    }
    fs::write(bed.on("file"), "written").unwrap();
    assert_eq!(bed.status()["state"], "ONLINE");
    let Seen::Used(block) = look(&bed) else { panic!() };
    assert_ne!(block.lock[1].get(), 0);
    bed.unmount();
    assert!(matches!(look(&bed), Seen::Free(_)));
    done(keepfs(["set", "mmp=off"]).arg(bed.pool()));
    assert!(matches!(look(&bed), Seen::Off(_)));
    assert_eq!(
        done(keepfs(["get", "-H", "-o", "value", "mmp"]).arg(bed.pool())).trim(),
        "off"
    );
    bed.check();
}

/// Who waits for another machine says so; a pool that no other machine may have waits for none, whatever became of its block.
#[test]
fn who_waits_says_for_what() {
    if !possible() {
        return;
    }
    let bed = protected();
    let waits = "keepfs: waits 4 s to see whether another machine has this pool mounted\n";
    other(&bed, 1);
    let mounted = run(&mut bed.mounting(""));
    assert!(mounted.status.success(), "{mounted:?}");
    assert_eq!(String::from_utf8_lossy(&mounted.stderr), waits);
    bed.unmount();
    other(&bed, 1);
    let set = run(keepfs(["set", "mmp=off"]).arg(bed.pool()));
    assert!(set.status.success(), "{set:?}");
    assert_eq!(String::from_utf8_lossy(&set.stderr), waits);
    let (at, _) = place(&bed);
    let pool = fs::File::options().read(true).write(true).open(bed.pool()).unwrap();
    let damage = || {
        let mut byte = [0];
        pool.read_exact_at(&mut byte, at + 33).unwrap();
        pool.write_all_at(&[byte[0] ^ 1], at + 33).unwrap();
        assert!(matches!(look(&bed), Seen::Damaged));
    };
    damage();
    let quietly = |command: &mut std::process::Command| {
        let begun = std::time::Instant::now();
        let done = run(command);
        assert!(done.status.success(), "{done:?}");
        assert!(!String::from_utf8_lossy(&done.stderr).contains("waits"), "{done:?}");
        assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
        assert!(matches!(look(&bed), Seen::Off(_)));
    };
    quietly(&mut bed.mounting(""));
    bed.unmount();
    damage();
    quietly(keepfs(["grow", "--size", "128M"]).arg(bed.pool()));
    bed.check();
}

/// Another machine shows that it lives, as fast as it can, as long as `work` takes.
pub fn while_it_lives(bed: &Bed, work: impl FnOnce()) {
    let (is_done, lives) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            for sequence in 0.. {
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
                other(bed, sequence);
                lives.store(true, Ordering::Relaxed);
                thread::park_timeout(std::time::Duration::from_millis(100));
            }
        });
        soon("it lives", || lives.load(Ordering::Relaxed).then_some(()));
        // A panic would wait for ever for the other machine.
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_done.store(true, Ordering::Relaxed);
        worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// Without what the other machine writes.
fn without_block(bed: &Bed) -> Vec<u8> {
    let at = place(bed).0 as usize;
    let mut bytes = fs::read(bed.pool()).unwrap();
    bytes.drain(at..at + PAGE);
    bytes
}

/// S-2.24: it is claimed first.
#[test]
fn a_pool_that_another_machine_has_is_not_overwritten() {
    let bed = protected();
    let before = without_block(&bed);
    while_it_lives(&bed, || {
        for size in [&[][..], &["--size", "32M"]] {
            let (code, said) = fails(keepfs(["create", "--force"]).args(size).arg(bed.pool()));
            assert_eq!(code, 1);
            assert!(
                said.contains("in use by machine other, which has it mounted at /there"),
                "{said}"
            );
        }
        assert!(without_block(&bed) == before, "it was changed");
        // What cannot be made is told before anybody waits, and nothing is lost by it.
        let (_, said) = fails(keepfs(["create", "--force", "--log-size", "64M"]).arg(bed.pool()));
        assert!(said.contains("the log of"), "{said}");
    });
    assert!(without_block(&bed) == before, "it was changed");
    // It has lost power: its block stands still.
    done(keepfs(["create", "--force"]).arg(bed.pool()));
    assert!(matches!(look(&bed), Seen::Off(_)));
    bed.check();
}

#[test]
fn a_pool_that_another_machine_has_is_not_repaired() {
    let bed = protected();
    other(&bed, 0);
    let repair = |more: &[&str]| {
        let output = run(keepfs(["check", "--repair"]).args(more).arg(bed.pool()));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("other has the pool or had it when it failed"), "{said}");
        output.status.code()
    };
    // A healthy one, as far as that can be told.
    let before = fs::read(bed.pool()).unwrap();
    assert_eq!(
        (repair(&[]), repair(&["--dry-run"]), repair(&["--json"])),
        (Some(8), Some(8), Some(8))
    );
    assert!(fs::read(bed.pool()).unwrap() == before, "it was changed");
    // A metablock of which no copy is good.
    let mapped = done(keepfs(["dump", "--json"]).arg(bed.pool()).args(["map", "Inodes:0"]));
    let mapped: serde_json::Value = serde_json::from_str(&mapped).unwrap();
    let home = |which: &str| mapped["map"][0][which].as_u64().unwrap();
    let pages = [home("first"), home("second")];
    let pool = fs::File::options().write(true).open(bed.pool()).unwrap();
    pages
        .iter()
        .for_each(|page| pool.write_all_at(&[0; PAGE], page * PAGE as u64).unwrap());
    let before = fs::read(bed.pool()).unwrap();
    assert_eq!((repair(&[]), repair(&["--json"])), (Some(8), Some(8)));
    assert!(fs::read(bed.pool()).unwrap() == before, "it was changed");
}

/// A superblock that a repair makes says as the block does whether the pool is protected.
#[test]
fn a_repair_switches_no_protection() {
    for setting in ["mmp=1", "mmp=off"] {
        let bed = protected();
        done(keepfs(["set", setting]).arg(bed.pool()));
        let pages = fs::metadata(bed.pool()).unwrap().len() / PAGE as u64;
        let pool = fs::File::options().read(true).write(true).open(bed.pool()).unwrap();
        (0..SLOTS)
            .map(|slot| slot_page(slot, pages) * PAGE as u64)
            .for_each(|at| pool.write_all_at(&[0; PAGE], at).unwrap());
        run(keepfs(["check", "--repair", "--undo-file"])
            .arg(bed.path("undo"))
            .arg(bed.pool()));
        let mut page = [0; PAGE];
        pool.read_exact_at(&mut page, 0).unwrap();
        let sb = Superblock::read_from_bytes(&page).unwrap();
        assert_eq!(sb.ro_compat.get() & RO_COMPAT_MMP_ON != 0, setting == "mmp=1");
        assert_eq!(
            matches!(look(&bed), Seen::Off(_)),
            setting == "mmp=off",
            "{:?}",
            look(&bed)
        );
    }
}

#[test]
fn what_makes_no_interval_is_refused() {
    let bed = Bed::new();
    for wrong in ["mmp=0", "mmp=21", "mmp=yes"] {
        let (code, said) = fails(keepfs(["set", wrong]).arg(bed.pool()));
        assert!(code == 2 && said.contains("1 to 20 seconds"), "{said}");
    }
    let block: Block = match look(&bed) {
        Seen::Off(block) => block,
        other => panic!("{other:?}"),
    };
    assert_eq!(block.interval_s.get(), mmp::INTERVAL_S_DEFAULT);
}

/// S-2.20, decision 0850: whoever makes a pool says whether other machines may reach it; a file is this machine's alone.
#[test]
fn a_pool_is_made_with_protection() {
    for (mmp, interval) in [("on", Some(mmp::INTERVAL_S_DEFAULT)), ("2", Some(2)), ("off", None)] {
        let bed = Bed::empty();
        done(keepfs(["create", "--size", "16M", "--mmp", mmp]).arg(bed.pool()));
        let shown = match look(&bed) {
            Seen::Free(block) => Some(block.interval_s.get()),
            _ => None,
        };
        assert_eq!(shown, interval, "{mmp}");
        let told = done(keepfs(["get", "-H", "-o", "value", "mmp"]).arg(bed.pool()));
        assert_eq!(told.trim(), mmp);
    }
    assert!(matches!(look(&Bed::new()), Seen::Off(_)));
    let (code, said) = fails(keepfs(["create", "--size", "16M", "--mmp", "21"]).arg(Bed::empty().pool()));
    assert!(code == 2 && said.contains("1 to 20 seconds"), "{said}");
}

/// The same of a block device: loop devices are of this machine, others may be shared.
#[test]
fn a_block_device_is_taken_for_shared() {
    if !possible() {
        return;
    }
    let told = |device: &Path, more: &[&str]| {
        done(keepfs(["create", "--force", "--size", "16M"]).args(more).arg(device));
        done(keepfs(["get", "-H", "-o", "value", "mmp"]).arg(device))
            .trim()
            .to_owned()
    };
    let bed = Bed::new();
    let of_a_file = Loop::over(&bed.pool());
    assert_eq!(told(&of_a_file.0, &[]), "off");
    drop(of_a_file);
    let Some(memory) = Zram::new() else {
        return skipped("zram, a block device that is no loop device");
    };
    assert_eq!(told(&memory.node(), &[]), "on");
    done(keepfs(["mount"]).arg(memory.node()).arg(bed.dir()));
    assert_eq!(bed.status()["mmp_s"], mmp::INTERVAL_S_DEFAULT);
    bed.unmount();
    assert_eq!(told(&memory.node(), &["--mmp", "off"]), "off");
}

/// A block device of the kernel's own in memory.
struct Zram(String);

impl Zram {
    fn new() -> Option<Zram> {
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").ok()?;
        let zram = Zram(number.trim().to_owned());
        fs::write(format!("/sys/block/zram{}/disksize", zram.0), "32M").ok()?;
        Some(zram)
    }

    fn node(&self) -> PathBuf {
        format!("/dev/zram{}", self.0).into()
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        // One that is still open stays.
        let _ = fs::write(format!("/sys/block/zram{}/reset", self.0), "1");
        let _ = fs::write("/sys/class/zram-control/hot_remove", &self.0);
    }
}
