//! A pool that several machines reach (S-2.12). The other machine is this test: it writes the pool's file past all locks, as a
//! machine does that shares a disk.

use super::bed::{Bed, done, fails, keepfs, possible, run, soon};
use keepfs_format::mmp::{self, Block, USED};
use keepfs_format::superblock::{RO_COMPAT_MMP, Superblock};
use keepfs_format::{FromBytes, PAGE, PoolId};
use keepfs_store::mmp::block::{self, Seen};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::FileExt;
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
    let (is_done, sequence) = (AtomicBool::new(false), AtomicBool::new(false));
    other(&bed, 0);
    thread::scope(|scope| {
        // It shows that it lives, as fast as it can.
        let beats = || {
            for sequence_now in 1.. {
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
                other(&bed, sequence_now);
                sequence.store(true, Ordering::Relaxed);
                thread::park_timeout(std::time::Duration::from_millis(100));
            }
        };
        scope.spawn(beats);
        soon("it lives", || sequence.load(Ordering::Relaxed).then_some(()));
        let (code, said) = fails(&mut bed.mounting(""));
        let status = done(keepfs(["status"]).arg(bed.pool()));
        let reading = run(&mut bed.mounting("ro"));
        is_done.store(true, Ordering::Relaxed);
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
