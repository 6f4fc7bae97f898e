//! A server takes another's place and the device does not take what it writes: the mount is read, and nothing is written any
//! more (S-16.33).

use super::{find, lasting, make, write};
use keepfs_fs::{FormatOptions, Volume, VolumeOptions};
use keepfs_media::{Class, PageNo};
use keepfs_store::{Pool, Remains};
use keepfs_testkit::sim::{Event, Faults, Operation, SimDevice, When};
use keepfs_vfs::{Errno, FileKind, Ino, Vfs};
use std::collections::BTreeMap;
use std::sync::Arc;

const FILES: u8 = 12;
/// Files whose last bytes were answered and not synced begin here.
const SYNCED: u8 = 6;

fn name(n: u8) -> String {
    format!("file-{n}")
}

fn fill(volume: &Arc<Volume>, files: core::ops::Range<u8>) {
    for n in files {
        let file = make(&**volume, Ino::ROOT, &name(n), FileKind::File).expect("made");
        write(&**volume, file, 0, &[n; 5000]);
    }
}

/// What a killed server left, half of its work synced.
struct Killed {
    device: Arc<SimDevice>,
    remains: Remains,
    /// With which the next one opens the pool.
    options: VolumeOptions,
}

/// A server is killed; `interval_s`: the pool is protected from other machines.
fn killed(interval_s: Option<u32>) -> Killed {
    let device = Arc::new(SimDevice::new(8192));
    let format = FormatOptions {
        mmp: interval_s.is_some(),
        mmp_interval_s: interval_s,
        ..FormatOptions::default()
    };
    Volume::format(device.clone(), &format).expect("format");
    let mut options = lasting();
    // Of who has this lock nobody waits to see whether it lives.
    options.store.who.lock = [1, 1];
    let volume = Volume::open(device.clone(), &options).expect("open");
    fill(&volume, 0..SYNCED);
    volume.syncfs().expect("synced");
    fill(&volume, SYNCED..FILES);
    let remains = volume.remains().expect("memory");
    options.store.who.nonce = volume.store().mmp_nonce().unwrap_or_default();
    volume.store().kill();
    Killed {
        device,
        remains,
        options,
    }
}

impl Killed {
    /// The page of the claim.
    fn block(&self) -> PageNo {
        let pool = Pool::on(&*self.device).expect("a pool");
        PageNo(pool.mmp.expect("it is protected"))
    }

    fn resume(self) -> Arc<Volume> {
        let (volume, resumed) = Volume::resume(self.device, &self.options, self.remains).expect("resumed");
        assert_eq!(resumed.lost, 0);
        volume
    }
}

fn is_whole(volume: &Volume, files: u8, case: &str) {
    for n in 0..files {
        let file = find(volume, Ino::ROOT, &name(n)).unwrap_or_else(|error| panic!("{case}: {}: {error:?}", name(n)));
        let mut bytes = [0; 5000];
        assert_eq!(volume.read(file, 0, &mut bytes), Ok(5000), "{case}: {}", name(n));
        assert_eq!(bytes, [n; 5000], "{case}: {}", name(n));
    }
}

/// A life that reads all and writes nothing.
fn reads_alone(volume: &Arc<Volume>, device: &SimDevice, case: &str) {
    let written = device.log_len();
    is_whole(volume, FILES, case);
    let refused = make(&**volume, Ino::ROOT, "one more", FileKind::File);
    assert_eq!(refused.err(), Some(Errno::EROFS), "{case}");
    assert!(volume.is_read_only() && volume.begin_writing().is_err(), "{case}");
    assert!(volume.syncfs().is_err(), "{case}: not everything is durable");
    assert_eq!(device.log_len(), written, "{case}");
}

/// The pages that a resume of [`killed`] writes, and what they are.
fn written() -> BTreeMap<u64, Class> {
    let killed = killed(None);
    let device = killed.device.clone();
    let before = device.log_len();
    drop(killed.resume());
    let log = device.recording().log.split_off(before);
    let mut written = BTreeMap::new();
    for entry in log {
        if let Event::Write { at, pages, class } = entry.event {
            written.extend((at.0..at.0 + pages.len() as u64).map(|page| (page, class)));
        }
    }
    written
}

/// A life under `faults` and one behind it, on a device that is right again; then a mount. Whether writing ended.
fn lives(killed: Killed, faults: Faults, told: &str, case: &str) -> bool {
    let (device, options) = (killed.device.clone(), killed.options.clone());
    device.set_faults(faults);
    let volume = killed.resume();
    let Some(fault) = volume.store().fault() else {
        device.set_faults(Faults::none());
        is_whole(&volume, FILES, case);
        volume.unmount().expect("unmounted");
        return false;
    };
    assert!(fault.to_string().contains(told), "{case}: {fault}");
    reads_alone(&volume, &device, case);
    let remains = volume.remains().expect("memory");
    volume.store().kill();
    drop(volume);
    device.set_faults(Faults::none());
    let next = Killed {
        device: device.clone(),
        remains,
        options: options.clone(),
    };
    let volume = next.resume();
    reads_alone(&volume, &device, case);
    drop(volume);
    let volume = Volume::open(device, &options).expect("mounted anew");
    is_whole(&volume, SYNCED, case);
    make(&*volume, Ino::ROOT, "one more", FileKind::File).expect("it is written again");
    volume.unmount().expect("unmounted");
    true
}

/// S-16.33: any one page that a resume writes fails, in every life behind it or in that one alone.
#[test]
fn a_page_that_cannot_be_written_ends_writing_alone() {
    let written = written();
    let mut ended = BTreeMap::new();
    for (page, class) in &written {
        let faults = Faults::none().fail(Operation::Write, When::Page(PageNo(*page)));
        let case = format!("page {page} ({class:?})");
        let is_over = lives(killed(None), faults, "cannot write page", &case);
        // A page of the log that is not taken has another behind it (S-8.12).
        assert!(is_over || *class == Class::Plog, "{case}");
        *ended.entry(format!("{class:?}")).or_insert(0) += usize::from(is_over);
    }
    assert_eq!(ended.get("Superblock"), Some(&2), "{ended:?}");
    assert!(ended.len() > 2, "{ended:?}");
}

/// The same of each flush.
#[test]
fn a_flush_that_fails_ends_writing_alone() {
    let mut flushes = 1;
    while lives(
        killed(None),
        Faults::none().fail(Operation::Flush, When::Nth(flushes)),
        match flushes {
            1 => "failed in the life before",
            _ => "cannot flush",
        },
        &format!("flush {flushes}"),
    ) {
        flushes += 1;
    }
    assert!(flushes > 3, "{flushes}");
}

/// S-16.33, S-2.12: the claim of the pool cannot be written. Who reads then has written nothing: the pool may be another's.
#[test]
fn a_claim_that_cannot_be_written_ends_writing_alone() {
    let killed = killed(Some(1));
    let (device, page) = (killed.device.clone(), killed.block());
    let before = device.log_len();
    let faults = Faults::none().fail(Operation::Write, When::Page(page));
    assert!(lives(killed, faults, &format!("cannot write page {page}"), "the claim"));
    let log = device.recording().log.split_off(before);
    let mut written = log.iter().filter_map(|entry| match entry.event {
        Event::Write { at, .. } => Some(at),
        _ => None,
    });
    assert_eq!(written.next(), Some(page), "the claim of the life behind it");
}
