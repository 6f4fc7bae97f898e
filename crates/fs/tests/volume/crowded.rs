//! Many writers on a nearly full pool of small zones: no page is handed out twice (S-11.3), no call fails but for space (S-11.4).

use super::*;
use keepfs_media::{Class, DeviceError};
use keepfs_store::Purpose;
use keepfs_testkit::hook::{Hooked, Hooks};
use keepfs_vfs::{Direct, Errno, FallocMode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};

/// Threads, and what each does.
const THREADS: u64 = 8;
const ROUNDS: u64 = 250;
const PAGE: usize = 4096;

/// A file of one thread: its name, its length, and the byte that fills it.
type Own = (String, usize, u8);

/// A result but for the lack of space.
fn unless_full<T>(what: &str, result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Errno::ENOSPC) => None,
        Err(other) => panic!("{what}: {other}"),
    }
}

fn holds(vfs: &dyn Vfs, (name, len, byte): &Own) {
    let ino = find(vfs, Ino::ROOT, name).expect("find");
    let bytes = read(vfs, ino, 0, len + 1);
    assert!(
        bytes == vec![*byte; *len],
        "{name} has other bytes than its writer gave it"
    );
}

/// Three files at a time: written whole, read, sometimes removed; and space that is taken and given back without data.
fn crowd(vfs: &dyn Vfs, me: u64) -> Vec<Own> {
    let mut own: Vec<Own> = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("t{me}-{}", round % 3);
        if let Some(at) = own.iter().position(|(other, ..)| *other == name) {
            holds(vfs, &own.swap_remove(at));
            vfs.unlink(Ino::ROOT, name.as_bytes()).expect("unlink");
        }
        let Some(ino) = unless_full("create", make(vfs, Ino::ROOT, &name, FileKind::File)) else {
            continue;
        };
        let (pages, byte) = (1 + (round * 7 + me) % 40, (me * 16 + round % 13) as u8 + 1);
        let data = vec![byte; pages as usize * PAGE];
        let written = match round % 5 {
            0 => {
                unless_full(
                    "fallocate",
                    vfs.fallocate(ino, FallocMode::Allocate, 0, 4 * data.len() as u64),
                );
                None
            }
            _ => unless_full("write", vfs.write(ino, 0, &data, WriteHow::default())),
        };
        match written {
            Some(len) => own.push((name, len, byte)),
            None => vfs.unlink(Ino::ROOT, name.as_bytes()).expect("unlink"),
        }
        own.last().into_iter().for_each(|last| holds(vfs, last));
        if round % 9 == 0 {
            unless_full("sync", vfs.syncfs());
        }
    }
    own
}

fn crowded(zone: u64, filled: usize) {
    let format = FormatOptions {
        zone_pages: Some(zone),
        log_pages: Some(64),
        meta_copies: 1,
        ..FormatOptions::default()
    };
    let pool = Pool::made(2048, true, &format);
    let vfs: &dyn Vfs = &*pool.volume;
    let filler = make(vfs, Ino::ROOT, "filler", FileKind::File).expect("filler");
    (0..filled).for_each(|page| write(vfs, filler, (page * PAGE) as u64, &[7; PAGE]));
    vfs.syncfs().expect("sync");
    let (own, died): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|me| scope.spawn(move || crowd(vfs, me))).collect();
        let lived = threads.into_iter().map(|thread| thread.join());
        lived.partition(|lived| lived.is_ok())
    });
    let own: Vec<Own> = own.into_iter().flatten().flatten().collect();
    let store = pool.volume.store();
    let told: Vec<_> = store.history().events(0).into_iter().map(|event| event.text).collect();
    assert!(died.is_empty(), "{:?}, told: {told:?}", store.fault());
    assert!(told.is_empty(), "{told:?}");
    own.iter().for_each(|own| holds(vfs, own));
    holds(vfs, &("filler".into(), filled * PAGE, 7));
    pool.finish();
}

#[test]
fn writers_share_the_last_pages_of_tiny_zones() {
    crowded(16, 900);
}

#[test]
fn writers_share_the_last_pages_of_small_zones() {
    crowded(64, 1000);
}

#[test]
fn writers_share_the_last_pages_of_zones_as_they_are_made() {
    crowded(256, 600);
}

/// Writers that overwrite their own files on a full pool, and what each writes at a time: together more than is kept for it.
const OVERWRITERS: u64 = 8;
const OWN: usize = 300_000;

/// Overwrites the whole file again and again, as much at a time as a call takes.
fn overwrite(vfs: &dyn Vfs, me: u64) {
    let ino = find(vfs, Ino::ROOT, &format!("own{me}")).expect("find");
    for round in 0..60 {
        let data = vec![(me * 16 + round % 13) as u8 + 1; OWN];
        let mut done = 0;
        while done < OWN {
            let len = (OWN - done).min([200_000, 65_536, 4096, 5000][(round + me) as usize % 4]);
            let written = vfs.write(ino, done as u64, &data[done..done + len], WriteHow::default());
            done += written.unwrap_or_else(|error| panic!("writer {me}, round {round}, at {done}: {error}"));
        }
        assert!(read(vfs, ino, 0, OWN + 1) == data, "writer {me}, round {round}");
    }
}

/// S-20.5: however many overwrite at a time while others fill the pool and delete, none of them meets ENOSPC.
#[test]
fn overwriting_finds_space_however_many_do() {
    let pool = Pool::with(4096, true);
    let vfs: &dyn Vfs = &*pool.volume;
    for me in 0..OVERWRITERS {
        let ino = make(vfs, Ino::ROOT, &format!("own{me}"), FileKind::File).expect("make");
        write(vfs, ino, 0, &vec![1; OWN]);
    }
    super::space::fill_to_the_brim(vfs, "brim");
    std::thread::scope(|scope| {
        for me in 0..OVERWRITERS {
            scope.spawn(move || overwrite(vfs, me));
        }
        for me in 0..2 {
            scope.spawn(move || crowd(vfs, me));
        }
    });
    pool.finish();
}

/// Stops the write of file data that is the last of so many bytes until it is let go.
#[derive(Clone, Default)]
struct Stopping(Arc<Stop>);

#[derive(Default)]
struct Stop {
    bytes: OnceLock<usize>,
    written: AtomicUsize,
    /// Told that it has come; waited for.
    gate: OnceLock<(Sender<()>, Mutex<Receiver<()>>)>,
}

impl Hooks for Stopping {
    fn before_write(&self, _at: PageNo, bytes: usize, class: Class) -> core::result::Result<(), DeviceError> {
        let Some(all) = self.0.bytes.get().filter(|_| class == Class::Data) else {
            return Ok(());
        };
        let before = self.0.written.fetch_add(bytes, Ordering::SeqCst);
        if (before + 1..=before + bytes).contains(all) {
            let (come, go) = self.0.gate.get().expect("the gate");
            come.send(()).expect("the test");
            go.lock().expect("one write").recv().expect("the test");
        }
        Ok(())
    }
}

/// S-20.5: who overwrites while another one has all pages that are kept for it waits for that one, and is done.
#[test]
fn overwriting_waits_for_who_has_the_last_pages() {
    const SECOND: usize = 20 * PAGE;
    let stopping = Stopping::default();
    let device: Arc<dyn Device> = Arc::new(Hooked::new(RamDevice::new(4096), stopping.clone()));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    let pool = Pool { device, volume };
    let vfs: &dyn Vfs = &*pool.volume;
    let [first, second] = ["first", "second"].map(|name| make(vfs, Ino::ROOT, name, FileKind::File).expect("make"));
    write(vfs, first, 0, &vec![1; 3 * OWN]);
    write(vfs, second, 0, &[1; SECOND]);
    super::space::fill_to_the_brim(vfs, "brim");
    vfs.syncfs().expect("sync");

    let store = pool.volume.store();
    let all = vec![2; store.figures().available(Purpose::Claimed) as usize * PAGE];
    assert!((SECOND + PAGE..=3 * OWN).contains(&all.len()), "{} bytes", all.len());
    let ((come, has_come), (go, may_go)) = (channel(), channel());
    stopping.0.gate.set((come, Mutex::new(may_go))).expect("once");
    stopping.0.bytes.set(all.len()).expect("once");
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| vfs.write(first, 0, &all, WriteHow::default()));
        has_come.recv().expect("the first has all pages");
        let other = scope.spawn(|| vfs.write(second, 0, &[3; SECOND], WriteHow::default()));
        while !store.is_crowded() && !other.is_finished() {
            std::thread::yield_now();
        }
        go.send(()).expect("the first");
        (one.join(), other.join())
    });
    assert_eq!(one.expect("joined"), Ok(all.len()));
    assert_eq!(other.expect("joined"), Ok(SECOND));
    pool.finish();
}
