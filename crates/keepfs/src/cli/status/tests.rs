//! What a server says of a pool that was shut down, of one that is being unmounted, and of a device that fails.

use crate::cli::print;
use keepfs::{CreateOptions, OpenOptions, Pool};
use keepfs_format::history::Lasting;
use keepfs_format::{MetaId, PAGE, Space, inode};
use keepfs_fs::{FormatOptions, Volume, VolumeOptions};
use keepfs_media::{Class, PageNo};
use keepfs_server::figures::Status;
use keepfs_server::health::ended;
use keepfs_server::health::{damaged, lost};
use keepfs_server::live::Live;
use keepfs_server::logging::Ring;
use keepfs_server::options::MountOptions;
use keepfs_server::registry::Record;
use keepfs_testkit::sim::{Faults, Operation, SimDevice, When};
use keepfs_vfs::{Direct, FileKind, Ino, NewInode, Vfs, WriteHow};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A regular file of root's.
const NEW: NewInode = NewInode::by_root(FileKind::File.type_bits() | 0o644);

fn live(pool: &Pool) -> Live {
    live_of(pool.path(), pool.volume())
}

fn live_of(path: &Path, volume: &Arc<Volume>) -> Live {
    let record = Record {
        pid: 1,
        kept: false,
        pool: path.to_owned(),
        identities: Vec::new(),
        births: Default::default(),
        dir: "/nowhere".into(),
        device: "0:0".into(),
        since_ns: 0,
        options: Vec::new(),
    };
    let volume = Arc::downgrade(volume);
    Live::new(
        record,
        MountOptions::default(),
        (false, "dev", Arc::default()),
        Ring::default(),
        volume,
    )
}

fn pool(dir: &tempfile::TempDir) -> Pool {
    let path = dir.path().join("pool");
    let options = CreateOptions {
        size: Some(64 << 20),
        // It may be shut down (S-20.9).
        test: true,
        ..CreateOptions::default()
    };
    Pool::create(&path, &options).expect("a pool");
    Pool::open(&path, &OpenOptions::default()).expect("an open pool")
}

#[test]
fn a_pool_that_was_shut_down_is_faulted() {
    let dir = tempfile::tempdir().expect("a directory");
    let pool = pool(&dir);
    let live = live(&pool);
    assert_eq!(live.status().state, "ONLINE");
    pool.volume().shutdown(false).expect("shut down");
    let status = live.status();
    assert_eq!(status.state, "FAULTED");
    assert!(status.status.is_some_and(|text| text.contains("shut down")));
    assert_eq!(status.errors.len(), 1);
}

#[test]
fn a_pool_that_is_closed_is_offline() {
    let dir = tempfile::tempdir().expect("a directory");
    let pool = pool(&dir);
    let live = live(&pool);
    pool.close().expect("closed");
    let status = live.status();
    assert_eq!(status.state, "OFFLINE");
    assert!(status.status.is_some_and(|text| text.contains("being unmounted")));
}

/// The lines of a status by name.
fn line(live: &Live, name: &str) -> String {
    let text = print::text(&live.status());
    let head = format!("{name:>9}: ");
    let found = text.lines().find_map(|l| l.strip_prefix(&head)).map(str::to_owned);
    found.unwrap_or_default()
}

/// A file with a page on the device, on a pool whose device fails when told.
fn failing() -> (Arc<SimDevice>, Arc<Volume>, Ino) {
    let device = Arc::new(SimDevice::new(4096));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = VolumeOptions {
        background: false,
        ..VolumeOptions::default()
    };
    let volume = Volume::open(device.clone(), &options).expect("open");
    let file = volume.mknod(Ino::ROOT, b"file", &NEW).expect("mknod").attr.ino;
    assert_eq!(volume.write(file, 0, &[1; 4096], WriteHow::default()), Ok(4096));
    volume.syncfs().expect("sync");
    (device, volume, file)
}

#[test]
fn failed_operations_are_counted_by_class() {
    let (device, volume, file) = failing();
    let live = live_of(Path::new("/sim"), &volume);
    assert_eq!(line(&live, "state"), "ONLINE");
    assert_eq!(line(&live, "failed"), "");
    assert_eq!(line(&live, "errors"), "no known errors");
    // A page that goes elsewhere.
    device.set_faults(Faults::none().fail_writes_of(Class::Data, When::Nth(1)));
    assert_eq!(volume.write(file, 4096, &[2; 4096], WriteHow::default()), Ok(4096));
    let status = live.status();
    assert_eq!((status.device_errors.unwrap().write, status.files_lost), (1, Some(0)));
    assert_eq!(line(&live, "state"), "DEGRADED");
    assert_eq!(line(&live, "failed"), "0 reads, 1 writes, 0 flushes, 0 checksums");
    assert!(line(&live, "errors").contains("1 writes"), "{}", line(&live, "errors"));
    assert!(line(&live, "action").contains("see to the device"));
    // It is news until somebody takes note of it, and so is the next one.
    volume.store().take_note();
    assert_eq!(line(&live, "state"), "ONLINE");
    assert_eq!(
        live.status().device_errors.unwrap().write,
        1,
        "it is counted all the same"
    );
    device.set_faults(Faults::none().fail_writes_of(Class::Data, When::Nth(1)));
    assert_eq!(volume.write(file, 8192, &[2; 4096], WriteHow::default()), Ok(4096));
    assert_eq!(line(&live, "state"), "DEGRADED");
    assert!(
        line(&live, "errors").contains("0 reads, 1 writes"),
        "{}",
        line(&live, "errors")
    );
    // A read that fails.
    device.set_faults(Faults::none().fail(Operation::Read, When::From(1)));
    let mut buf = [0; 4096];
    assert!(volume.read(file, 0, &mut buf).is_err());
    assert_ne!(live.status().device_errors.unwrap().read, 0);
    // What cannot be read is told with its file.
    assert!(line(&live, "errors").contains("lost data"));
}

#[test]
fn files_with_lost_data_are_counted_until_they_are_written_anew() {
    let (device, volume, file) = failing();
    let live = live_of(Path::new("/sim"), &volume);
    device.set_faults(Faults::none().fail_writes_of(Class::Data, When::From(1)));
    let back = WriteHow {
        writeback: true,
        ..WriteHow::default()
    };
    assert!(volume.write(file, 0, &[2; 4096], back).is_err());
    device.set_faults(Faults::none());
    assert_eq!(live.status().files_lost, Some(1));
    assert_eq!(line(&live, "state"), "DEGRADED");
    assert!(line(&live, "errors").contains("1 file with lost data"));
    assert!(line(&live, "status").contains("data is lost"));
    assert!(line(&live, "action").contains("restore them"));
    assert_eq!(volume.write(file, 0, &[3; 4096], WriteHow::default()), Ok(4096));
    assert_eq!(live.status().files_lost, Some(0));
    assert!(!line(&live, "errors").contains("lost data"));
}

#[test]
fn a_wrong_checksum_is_counted_and_names_a_file() {
    let (device, volume, file) = failing();
    let data = device.recording();
    let page = data.log.iter().rev().find_map(|entry| match &entry.event {
        keepfs_testkit::sim::Event::Write {
            at, class: Class::Data, ..
        } => Some(*at),
        _ => None,
    });
    // Whoever owns the device writes over the page.
    let page = page.expect("a page of data");
    keepfs_media::Device::write(&*device, page, &[0; 4096], Class::Data).expect("write");
    let live = live_of(Path::new("/sim"), &volume);
    let mut buf = [0; 4096];
    assert!(volume.read(file, 0, &mut buf).is_err());
    let status = live.status();
    assert_eq!(
        (status.device_errors.unwrap().checksum, status.files_lost),
        (1, Some(1))
    );
    assert_ne!(page, PageNo(0));
    assert_eq!(status.state, "DEGRADED");
    // No operation of the device failed.
    let said = print::text(&status);
    assert!(
        said.contains("lost data") && !said.contains("failed operations"),
        "{said}"
    );
    // What is damaged is told whoever took note of it; what is whole again is not.
    volume.store().take_note();
    assert_eq!(line(&live, "state"), "DEGRADED");
    assert_eq!(volume.write(file, 0, &[3; 4096], WriteHow::default()), Ok(4096));
    let status = live.status();
    assert_eq!(
        (&status.state[..], &status.status, &status.errors[..]),
        ("ONLINE", &None, &[][..])
    );
    assert_eq!(status.device_errors.unwrap().checksum, 1);
}

#[test]
fn a_pool_that_stopped_writing_is_not_mounted_read_write() {
    let (device, volume, _) = failing();
    let live = live_of(Path::new("/sim"), &volume);
    assert!(line(&live, "mount").contains("read-write"), "{}", line(&live, "mount"));
    device.set_faults(Faults::none().fail(Operation::Flush, When::From(1)));
    volume.mknod(Ino::ROOT, b"late", &NEW).expect("mknod");
    assert!(volume.syncfs().is_err());
    let status = live.status();
    assert_eq!(status.state, "FAULTED");
    assert!(status.mount.is_some_and(|m| m.writing_ended && !m.read_only));
    assert!(line(&live, "mount").contains("read-only since writing ended"));
    assert!(line(&live, "failed").contains("1 flushes"), "{}", line(&live, "failed"));
}

/// A clean frame that something else changed is told when it is dropped (FAULTS.md), and nothing is lost by it.
#[test]
fn scribbled_clean_frames_degrade_the_pool() {
    let device = Arc::new(SimDevice::new(4096));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let mut options = VolumeOptions {
        background: false,
        ..VolumeOptions::default()
    };
    options.store.background = false;
    let volume = Volume::open(device, &options).expect("open");
    volume.store().checkpoint().expect("checkpoint");
    let live = live_of(Path::new("/sim"), &volume);
    assert_eq!(line(&live, "state"), "ONLINE");
    assert_eq!(line(&live, "scribbled"), "");
    let (store, inodes) = (volume.store(), MetaId::new(Space::Inodes, 0));
    let frames = 0..store.arena_figures().0 as usize;
    let is_inodes = |frame: &usize| store.strays().load_u64(frame * PAGE + 8, Ordering::Relaxed) == inodes.0;
    let frame = frames
        .into_iter()
        .find(is_inodes)
        .expect("the frame of the root's inode");
    store.strays().xor_u64(frame * PAGE + 2048, 1 << 63);
    store.drop_clean_frames();
    assert_eq!(live.status().scribbles_dropped, Some(1));
    assert_eq!(line(&live, "state"), "DEGRADED");
    assert_eq!(line(&live, "scribbled"), "1 clean frames, dropped");
    assert!(line(&live, "errors").contains("1 block of metadata changed in memory"));
    assert!(line(&live, "status").contains("damaged in memory"));
    assert!(line(&live, "action").contains("test the memory"));
    assert!(volume.getattr(Ino::ROOT).is_ok(), "the device has it whole");
    volume.store().take_note();
    assert_eq!(line(&live, "state"), "ONLINE");
}

/// Each sentence about what is damaged is there when it is true, and its false twin is not (S-18.6, S-18.8).
#[test]
fn what_is_said_of_damage_is_true() {
    let entry = |id: u64, inode: u64, from: u64, done: u8| Lasting {
        place: 2,
        id,
        inode,
        from,
        length: 4096,
        done,
        ..Lasting::default()
    };
    let root = inode::block_of(1).0;
    let other = inode::block_of(1000).0;
    let bitmap = keepfs_format::bitmap::TOTALS.0;
    let said = |list: &[Lasting]| {
        let mut status = Status::unknown(Path::new("/pool"));
        status.state = "ONLINE".into();
        damaged(list, &mut status);
        let Status {
            state, status, errors, ..
        } = status;
        (state, status.unwrap_or_default(), errors.join("; "))
    };
    let table = [
        (vec![], "ONLINE", "", "all else works"),
        // Mended is not damaged.
        (vec![entry(other, 1000, 0, 1)], "ONLINE", "", "damaged"),
        (
            vec![entry(other, 1000, 0, 8)],
            "DEGRADED",
            "all else works",
            "root directory",
        ),
        (
            vec![entry(0, 1000, 0, 10)],
            "DEGRADED",
            "the other pages of the same files can be read, and all else works",
            "cannot be used",
        ),
        (
            vec![entry(root, 0, 0, 10)],
            "DEGRADED",
            "root directory",
            "all else works",
        ),
        (vec![entry(0, 1, 0, 10)], "DEGRADED", "root directory", "all else works"),
        (
            vec![entry(root, 9, inode::offset_of(9) as u64, 10)],
            "DEGRADED",
            "all else works",
            "root directory",
        ),
        (
            vec![entry(bitmap, 0, 0, 10)],
            "DEGRADED",
            "all files share",
            "all else works",
        ),
    ];
    for (mut list, state, is_said, is_not) in table {
        for entry in list.iter_mut().filter(|entry| entry.from != 0) {
            entry.length = inode::SIZE as u64;
        }
        let told = said(&list);
        assert_eq!(told.0, state, "{list:?}");
        assert!(
            told.1.contains(is_said) && !told.1.contains(is_not),
            "{list:?}: {told:?}"
        );
        assert_eq!(
            told.2.contains("not repaired") || told.2.contains("all files share"),
            state == "DEGRADED",
            "{told:?}"
        );
    }
}

/// The mount is read-write only where changes are taken.
#[test]
fn a_mount_that_refuses_changes_is_not_read_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let pool = pool(&dir);
    let mut status = live(&pool).status();
    let cases = [
        ((false, false, false), "(read-write,"),
        ((false, false, true), "(read-only,"),
        (
            (false, true, false),
            "(changes are refused since servers died too often,",
        ),
        ((true, true, false), "(read-only since writing ended,"),
    ];
    for ((ended, refused, read_only), said) in cases {
        let mount = status.mount.as_mut().expect("mounted");
        (mount.writing_ended, mount.changes_refused, mount.read_only) = (ended, refused, read_only);
        let text = print::text(&status);
        assert!(text.contains(said), "{text}");
        assert_eq!(text.contains("read-write"), said == "(read-write,", "{text}");
    }
}

/// Changes that are lost are told with what took them, and each sentence only where it is true (S-18.12).
#[test]
fn what_is_said_of_lost_changes_is_true() {
    let entry = |place: u8, verdict: u8, length: u64, done: u8| Lasting {
        place,
        verdict,
        length,
        done,
        from: 90,
        ..Lasting::default()
    };
    let memory = "memory that held them was damaged";
    let table = [
        (vec![], "ONLINE", "", memory),
        // A checkpoint had them.
        (vec![entry(4, 10, 3, 6)], "ONLINE", "", memory),
        (vec![entry(4, 10, 3, 10)], "DEGRADED", memory, "synced ones"),
        (vec![entry(4, 11, 3, 10)], "DEGRADED", "synced ones perhaps", memory),
        (
            vec![entry(6, 10, 1, 10)],
            "DEGRADED",
            "that were synced are lost",
            "may be",
        ),
        (
            vec![entry(6, 8, 0, 10)],
            "DEGRADED",
            "may be lost",
            "that were synced are lost",
        ),
    ];
    for (list, state, is_said, is_not) in table {
        let mut status = Status::unknown(Path::new("/pool"));
        lost(&list, None, &mut status);
        damaged(&list, &mut status);
        let said = status.status.unwrap_or_default();
        assert_eq!(status.state, state, "{list:?}");
        assert!(said.contains(is_said) && !said.contains(is_not), "{list:?}: {said}");
        assert_eq!(status.errors.is_empty(), state == "ONLINE");
        assert!(!status.errors.join(" ").contains("object"), "{:?}", status.errors);
    }
    let many = [entry(4, 10, 3, 10), entry(4, 10, 4, 10)];
    let mut status = Status::unknown(Path::new("/pool"));
    lost(&many, None, &mut status);
    assert!(status.errors[0].starts_with("7 transactions"), "{:?}", status.errors);
}

/// What helps depends on what ended writing.
#[test]
fn what_helps_where_writing_ended_is_true() {
    use keepfs_store::Error;
    let said = |fault: &Error| {
        let mut status = Status::unknown(Path::new("/pool"));
        ended::by(fault, &mut status);
        assert_eq!(status.state, "FAULTED");
        (status.status.unwrap_or_default(), status.action.unwrap_or_default())
    };
    let table = [
        (
            Error::ReadOnly("the device failed in the life before".into()),
            "the device failed",
            "see to the device",
        ),
        (
            Error::Damaged("Pages:0 is bad in every copy".into()),
            "metadata",
            "-o ro",
        ),
        (Error::Heap { address: 4096 }, "memory", "memtest86+"),
        (Error::Logic("impossible".into()), "a failure", "mount it again"),
    ];
    for (row, (fault, what, action)) in table.iter().enumerate() {
        let (is_said, helps) = said(fault);
        for (other, (_, what, action)) in table.iter().enumerate() {
            assert_eq!(is_said.contains(what), row == other, "{fault}: {is_said}");
            assert!(
                row == other || *action == "mount it again" || !helps.contains(action),
                "{fault}: {helps}"
            );
        }
        assert!(is_said.contains(what) && helps.contains(action), "{fault}: {helps}");
    }
}
