//! A reader frozen between the look into a map and the read of the device (X-5.1, S-11.1): what it finds
//! is what was there, however often the pool changed meanwhile.

use super::*;
use keepfs_media::{DeviceError, PageNo};
use keepfs_testkit::hook::{Hooked, Hooks};
use keepfs_vfs::Direct;
use parking_lot::{Condvar, Mutex};
use std::time::Duration;

/// Nothing moves any more when nothing has moved for so long: everybody waits for the frozen read, which is right too.
const STILL: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    /// So many reads pass, then one freezes.
    Armed(usize),
    Frozen,
}

/// A device on which one read can be stopped before it happens.
type Freezer = Hooked<RamDevice, Reads>;

/// What stops it.
struct Reads {
    gate: Mutex<Gate>,
    turned: Condvar,
}

impl Reads {
    fn turn(&self, gate: Gate) {
        *self.gate.lock() = gate;
        self.turned.notify_all();
    }

    /// Waits until a read is frozen, or all are done (`false`).
    fn wait_until_frozen(&self) -> bool {
        let mut gate = self.gate.lock();
        self.turned.wait_while(&mut gate, |g| matches!(g, Gate::Armed(_)));
        *gate == Gate::Frozen
    }
}

impl Hooks for Reads {
    fn before_read(&self, _: PageNo, _: usize) -> core::result::Result<(), DeviceError> {
        let mut gate = self.gate.lock();
        match *gate {
            Gate::Armed(0) => {
                *gate = Gate::Frozen;
                self.turned.notify_all();
                self.turned.wait_while(&mut gate, |g| *g == Gate::Frozen);
            }
            Gate::Armed(passing) => *gate = Gate::Armed(passing - 1),
            Gate::Open | Gate::Frozen => {}
        }
        Ok(())
    }
}

/// A volume of `pages` pages on such a device, with a file "file" of `data` that is at home, nothing in memory.
fn pool(pages: u64, data: &[u8]) -> (Arc<Freezer>, Pool, Ino) {
    let reads = Reads {
        gate: Mutex::new(Gate::Open),
        turned: Condvar::new(),
    };
    let freezer = Arc::new(Hooked::new(RamDevice::new(pages), reads));
    let device: Arc<dyn Device> = freezer.clone();
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    let file = make(&*volume, Ino::ROOT, "file", FileKind::File).expect("create");
    write(&*volume, file, 0, data);
    let pool = Pool { device, volume }.reopen();
    let file = find(&*pool.volume, Ino::ROOT, "file").expect("lookup");
    (freezer, pool, file)
}

/// Freezes the read of `reader` after the first `passing` and changes the pool with each of `others` meanwhile, until they are done or wait for
/// the reader; then lets it go. Returns what it read.
fn while_frozen(
    freezer: &Freezer,
    passing: usize,
    reader: impl FnOnce() -> Vec<u8> + Send,
    others: Vec<Box<dyn FnOnce() + Send + '_>>,
) -> Vec<u8> {
    freezer.hooks.turn(Gate::Armed(passing));
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let bytes = reader();
            freezer.hooks.turn(Gate::Open);
            bytes
        });
        if !freezer.hooks.wait_until_frozen() {
            return reading.join().expect("the reader returns");
        }
        let running: Vec<_> = others.into_iter().map(|other| scope.spawn(other)).collect();
        let moved = || {
            let now = freezer.device.counters();
            (now, running.iter().filter(|r| r.is_finished()).count())
        };
        let mut last = moved();
        let mut gate = freezer.hooks.gate.lock();
        while last.1 < running.len() {
            freezer.hooks.turned.wait_for(&mut gate, STILL);
            let now = moved();
            if now == last {
                break;
            }
            last = now;
        }
        drop(gate);
        freezer.hooks.turn(Gate::Open);
        reading.join().expect("the reader returns")
    })
}

/// Overwrites files of the filler until the pool has been written `times` times.
fn churn(vfs: &dyn Vfs, times: usize) {
    for round in 0..times {
        let name = format!("filler{}", round % 3);
        let ino = match find(vfs, Ino::ROOT, &name) {
            Ok(ino) => ino,
            Err(_) => make(vfs, Ino::ROOT, &name, FileKind::File).expect("create"),
        };
        let _ = vfs.write(ino, 0, &vec![0xCC; 1 << 20], WriteHow::default());
        vfs.syncfs().expect("sync");
    }
}

const OLD: u8 = 0x11;
const NEW: u8 = 0x22;

/// What a read of the whole file may give: old or new bytes or the end, nobody else's.
fn is_of_the_file(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| [OLD, NEW].contains(b))
}

#[test]
fn data_pages_are_not_reused_under_a_reader() {
    let old = vec![OLD; 256 << 10];
    for change in ["overwrite", "truncate", "unlink", "punch"] {
        let (freezer, pool, file) = pool(4096, &old);
        let vfs: &dyn Vfs = &*pool.volume;
        let changer = move || match change {
            "overwrite" => write(vfs, file, 0, &vec![NEW; 256 << 10]),
            "truncate" => {
                let none = keepfs_vfs::SetAttr {
                    size: Some(0),
                    ..Default::default()
                };
                vfs.setattr(file, &none).map(drop).expect("truncate");
            }
            "unlink" => vfs.unlink(Ino::ROOT, b"file").expect("unlink"),
            _ => vfs
                .fallocate(file, keepfs_vfs::FallocMode::PunchHole, 0, 256 << 10)
                .expect("punch"),
        };
        let others: Vec<Box<dyn FnOnce() + Send + '_>> = vec![Box::new(changer), Box::new(|| churn(vfs, 24))];
        read(vfs, file, 0, 1); // the metadata is in memory from here on
        let bytes = while_frozen(&freezer, 0, || read(vfs, file, 0, 256 << 10), others);
        let mine = bytes.iter().all(|b| [OLD, NEW, 0].contains(b)) && (change == "punch" || is_of_the_file(&bytes));
        assert!(mine, "{change}: the reader got another file's bytes");
        churn(vfs, 3);
        pool.finish();
    }
}

/// The same for a metadata page that is being fetched while checkpoints move it and reuse its home.
#[test]
fn metadata_is_not_reused_under_a_fetch() {
    // Of the superblock's tables, the map, the inode and the directory, each is the frozen one once.
    for passing in 0..6 {
        let (freezer, pool, file) = pool(4096, &[OLD; 9000]);
        let vfs: &dyn Vfs = &*pool.volume;
        let store = pool.volume.store();
        store.drop_clean_frames();
        let changes = || {
            for round in 0..40_u32 {
                let mode = keepfs_vfs::SetAttr {
                    mode: Some(0o600 + (round & 7)),
                    ..Default::default()
                };
                vfs.setattr(Ino::ROOT, &mode).expect("chmod");
                make(vfs, Ino::ROOT, &format!("made{round}"), FileKind::File).expect("create");
                store.checkpoint().expect("checkpoint");
            }
        };
        let bytes = while_frozen(&freezer, passing, || read(vfs, file, 0, 9000), vec![Box::new(changes)]);
        assert_eq!(bytes, [OLD; 9000]);
        let bad = store.stats().bad_copies;
        assert_eq!(
            bad, 0,
            "read {passing}: a page was taken for a metablock that is no longer there"
        );
        pool.finish();
    }
}
