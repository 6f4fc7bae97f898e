//! Holes of more pages than one transaction frees (S-5.8): whole at every write of the device, for whoever looks and
//! whatever comes next.

use super::*;
use keepfs_testkit::image::Image as Snapshot;
use keepfs_testkit::sim::{Event, Faults, Operation, SimDevice, When};
use keepfs_vfs::{Direct, Errno, FallocMode, SeekWhence, SetAttr};

const PAGE: u64 = 4096;
/// Pages of the file.
const PAGES: u64 = 1800;
/// What is punched: from and to the middle of a page.
const FROM: u64 = 3 * PAGE + 100;
const TO: u64 = 1700 * PAGE + 500;

/// Every transaction is durable before the next one begins.
fn each() -> VolumeOptions {
    let mut options = options(false);
    options.store.sync_each = true;
    options
}

fn open(image: &Snapshot, read_only: bool) -> (Arc<SimDevice>, Arc<Volume>) {
    let device = Arc::new(SimDevice::over(image.clone()));
    let mut options = each();
    options.store.read_only = read_only;
    let volume = Volume::open(device.clone(), &options).expect("open");
    (device, volume)
}

/// A pool on a recording device with the file `f`, all of it written.
fn pool() -> (Arc<SimDevice>, Arc<Volume>, Ino) {
    let device = Arc::new(SimDevice::new(12_288));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let volume = Volume::open(device.clone(), &each()).expect("open");
    let ino = make(&*volume, Ino::ROOT, "f", FileKind::File).expect("make");
    for at in (0..PAGES).step_by(200) {
        write(&*volume, ino, at * PAGE, &[7; 200 * PAGE as usize]);
    }
    // A part of a page is staged within the hole, and one at each end.
    for at in [FROM - 50, 900 * PAGE + 10, TO - 20] {
        write(&*volume, ino, at, &[9; 100]);
    }
    (device, volume, ino)
}

/// What `f` is: its bytes, where its holes and data begin, and its blocks.
fn state(volume: &Volume) -> (Vec<u8>, Vec<u64>, u64) {
    let ino = find(volume, Ino::ROOT, "f").expect("find");
    let attr = volume.getattr(ino).expect("getattr");
    let (mut edges, mut at) = (Vec::new(), 0);
    for whence in [SeekWhence::Hole, SeekWhence::Data].into_iter().cycle() {
        match volume.seek(ino, at, whence) {
            Ok(found) if found < attr.size => at = found,
            _ => break,
        }
        edges.push(at);
    }
    (read(volume, ino, 0, attr.size as usize), edges, attr.blocks)
}

fn expected() -> Vec<u8> {
    let mut bytes = vec![7; (PAGES * PAGE) as usize];
    bytes[FROM as usize - 50..FROM as usize].fill(9);
    bytes[TO as usize..TO as usize + 80].fill(9);
    bytes[FROM as usize..TO as usize].fill(0);
    bytes
}

/// C-1, S-5.8: at every flush the file is as before or as after, also for who may not write, and after recovery nothing
/// is left of the hole's pages.
#[test]
fn a_crash_shows_all_of_a_hole_or_nothing() {
    for mode in [FallocMode::PunchHole, FallocMode::ZeroRange { keep_size: true }] {
        let (device, volume, ino) = pool();
        let before = state(&volume);
        let start = device.log_len();
        volume.fallocate(ino, mode, FROM, TO - FROM).expect("fallocate");
        let after = state(&volume);
        assert!(after.0 == expected());
        let log = device.recording();
        let flushes = (start..log.log.len()).filter(|i| matches!(log.log[*i].event, Event::Flush));
        let (mut pending, mut seen_before) = (0, 0);
        for position in flushes {
            let image = log.replay_first(position + 1);
            let (_, reader) = open(&image, true);
            let seen = state(&reader);
            let has_hole = Pending::of(reader.store(), ino);
            reader.begin_writing().expect("remount,rw");
            assert_eq!(Pending::of(reader.store(), ino), None);
            assert!(state(&reader) == seen, "something else after remount,rw at {position}");
            reader.unmount().expect("unmount");
            pending += u64::from(has_hole.is_some());
            if seen.0 == before.0 {
                assert!(has_hole.is_none() && seen == before);
                seen_before += 1;
            } else {
                assert!(seen.0 == after.0, "half a hole at {position}");
                if mode == FallocMode::PunchHole {
                    assert_eq!((&seen.1, seen.2), (&after.1, after.2), "seek and blocks at {position}");
                }
            }
            let (device, writer) = open(&image, false);
            let again = state(&writer);
            assert!(
                again.0 == seen.0 && again.1 == seen.1,
                "recovery shows something else at {position}"
            );
            assert_eq!(Pending::of(writer.store(), ino), None);
            Pool { device, volume: writer }.finish();
        }
        assert!(
            pending > 2,
            "{mode:?}: {pending} states with a pending hole, {seen_before} before it"
        );
        volume.unmount().expect("unmount");
    }
}

/// The pending hole as it stands in the inode.
#[derive(Debug, PartialEq)]
struct Pending(u64, u64);

impl Pending {
    fn of(store: &keepfs_store::Store, ino: Ino) -> Option<Pending> {
        use keepfs_format::{FromZeros, IntoBytes, inode};
        use keepfs_store::{Ref, Source};
        let mut bytes = inode::Inode::new_zeroed();
        let mut view = store.view();
        view.read(Ref::inode_block(ino.0), inode::offset_of(ino.0), bytes.as_mut_bytes())
            .expect("inode");
        bytes.hole().map(|hole| Pending(hole.from.get(), hole.to.get()))
    }
}

/// Punches with nothing in memory on a device that reads so many times and then no more, until it is mended.
fn punch_with(reads: u64) -> (Arc<SimDevice>, Arc<Volume>, Ino, Result<()>) {
    let (device, volume, ino) = pool();
    volume.store().checkpoint().expect("checkpoint");
    volume.store().drop_clean_frames();
    device.set_faults(Faults::none().fail(Operation::Read, When::From(reads)));
    let answer = volume.fallocate(ino, FallocMode::PunchHole, FROM, TO - FROM);
    device.set_faults(Faults::none());
    (device, volume, ino, answer)
}

fn resize(volume: &Volume, ino: Ino, size: u64) {
    let change = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    volume.setattr(ino, &change).expect("resize");
}

/// A hole that a failing device left pending is finished by the next change, and shown whole until then.
#[test]
fn an_error_leaves_it_pending_and_the_next_change_ends_it() {
    type Change = fn(&Volume, Ino);
    let changes: [(&str, Change); 6] = [
        ("write", |v, ino| write(v, ino, 1000 * PAGE, &[5; 9000])),
        ("truncate", |v, ino| resize(v, ino, 500 * PAGE)),
        ("grow", |v, ino| resize(v, ino, 3000 * PAGE)),
        ("punch again", |v, ino| {
            v.fallocate(ino, FallocMode::PunchHole, 0, 10 * PAGE).expect("punch");
        }),
        ("unlink", |v, _| v.unlink(Ino::ROOT, b"f").expect("unlink")),
        ("copy into it", |v, ino| {
            let from = make(v, Ino::ROOT, "g", FileKind::File).expect("make");
            write(v, from, 0, &[3; 20_000]);
            let count = v.copy_file_range(from, 0, ino, 800 * PAGE, 20_000).expect("copy");
            assert_eq!(count, 20_000);
        }),
    ];
    let is_pending = |reads: &u64| {
        let (_, volume, ino, answer) = punch_with(*reads);
        answer.is_err() && Pending::of(volume.store(), ino).is_some()
    };
    let reads = (1..60).find(is_pending).expect("an error behind the first transaction");
    for (name, change) in changes {
        let (device, volume, ino, answer) = punch_with(reads);
        assert_eq!(answer, Err(Errno::EIO), "{name}");
        assert!(Pending::of(volume.store(), ino).is_some(), "{name}");
        let shown = state(&volume);
        assert!(shown.0 == expected(), "{name}");
        change(&volume, ino);
        Pool { device, volume }.finish();
    }
}

/// S-20.12: what a pending hole hides is counted once: the second time nothing can be read any more.
#[test]
fn what_a_hole_hides_is_counted_once() {
    let pending = (0..200)
        .map(punch_with)
        .find(|(_, volume, ino, answer)| answer.is_err() && Pending::of(volume.store(), *ino).is_some());
    let (device, volume, ino, _) = pending.expect("a hole that is left pending");
    let attr = volume.getattr(ino).expect("getattr");
    volume.store().drop_clean_frames();
    device.set_faults(Faults::none().fail(Operation::Read, When::From(0)));
    assert_eq!(volume.getattr(ino).map(|again| again.blocks), Ok(attr.blocks));
    device.set_faults(Faults::none());
}
