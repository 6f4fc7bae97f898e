//! What the operation log costs (SPEC section 12): the same calls with and without it, in process, on a RAM device.
//!
//! `cargo run --release -p keepfs-fs --example oplog_cost`. Rounds with and without take turns, so that what the
//! machine does meanwhile meets both; the median round of each is told, and the least.

use keepfs_fs::{FormatOptions, StoreOptions, Volume, VolumeOptions};
use keepfs_media::ram::RamDevice;
use keepfs_vfs::{Direct, FileKind, Ino, NewInode, SetAttr, Vfs, WriteHow};
use std::sync::Arc;
use std::time::Instant;

/// Calls of a round: short, so that most rounds are not interrupted.
const CALLS: u32 = 100;
/// Rounds with, and as many without; the first tenth warms up (the log's memory is touched for the first time).
const ROUNDS: usize = 300;

fn volume(oplog: bool) -> Arc<Volume> {
    let device = Arc::new(RamDevice::new(1 << 16));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = VolumeOptions {
        store: StoreOptions {
            oplog,
            background: false,
            ..StoreOptions::default()
        },
        background: false,
        ..VolumeOptions::default()
    };
    Volume::open(device, &options).expect("open")
}

fn file(volume: &Volume, name: &str) -> Ino {
    let new = NewInode::by_root(FileKind::File.type_bits() | 0o644);
    let entry = volume.mknod(Ino::ROOT, name.as_bytes(), &new).expect("mknod");
    entry.attr.ino
}

/// Nanoseconds a call.
/// Nanoseconds a call.
fn round(first: usize, mut call: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    (first..first + CALLS as usize).for_each(&mut call);
    start.elapsed().as_nanos() as f64 / f64::from(CALLS)
}

fn compare(what: &str, setup: impl Fn(&Volume) -> Ino, call: impl Fn(&Volume, Ino, usize)) {
    let volumes = [volume(true), volume(false)];
    let inodes = [setup(&volumes[0]), setup(&volumes[1])];
    let mut times = [Vec::new(), Vec::new()];
    for r in 0..ROUNDS {
        for n in 0..2 {
            let first = r * CALLS as usize;
            times[n].push(round(first, |i| call(&volumes[n], inodes[n], i)));
        }
    }
    let [mut with, mut without] = times.map(|t| t[ROUNDS / 10..].to_vec());
    let figures = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], times[0])
    };
    let ((with, with_least), (without, without_least)) = (figures(&mut with), figures(&mut without));
    println!(
        "{what:24} median {without:6.0} -> {with:6.0} ns (+{:4.0}), least {without_least:6.0} -> {with_least:6.0} ns (+{:4.0})",
        with - without,
        with_least - without_least
    );
}

fn main() {
    let modes = |i: usize| SetAttr {
        mode: Some(0o600 + (i as u32 & 1)),
        ..SetAttr::default()
    };
    compare(
        "chmod",
        |v| file(v, "f"),
        |v, ino, i| {
            v.setattr(ino, &modes(i)).expect("chmod");
        },
    );
    compare(
        "write 16 bytes inline",
        |v| file(v, "f"),
        |v, ino, i| {
            let bytes = [i as u8; 16];
            v.write(ino, 0, &bytes, WriteHow::default()).expect("write");
        },
    );
    compare(
        "create",
        |_| Ino::ROOT,
        |v, _, i| {
            file(v, &format!("file {i}"));
        },
    );
}
