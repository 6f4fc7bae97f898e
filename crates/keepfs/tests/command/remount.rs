//! `-o remount`: a pool at rest.

use super::bed::{Bed, done, done_when_free, keepfs};
use super::damage::{pages_of, ruin};
use rustix::process::Signal;
use std::fs;

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
