//! sync(2), syncfs(2) and umount(2) mean what they say on an anchored mount.

use super::support::{BUSY_MAX, Mount, possible};
use crate::probe::{Lever, Probe, gate, until_in_fsync};
use crate::sys;
use keepfs_fuse::anchor::LoopAnchor;
use keepfs_fuse::{CacheMode, How, MountConfig};
use keepfs_testkit::model::Model;
use keepfs_vfs::{Ino, Vfs};
use rustix::io::ReadWriteFlags;
use std::fs::{self, File};
use std::io::{IoSlice, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Log = Arc<Mutex<Vec<String>>>;

/// Mounts `probe` on a loop device of its own.
fn anchored(probe: Probe, config: MountConfig) -> Option<(Mount, Log)> {
    if !possible() {
        return None;
    }
    let anchor = LoopAnchor::attach("keepfs test").unwrap();
    let log = probe.log.clone();
    let config = MountConfig {
        anchor: Some(anchor.path().to_owned()),
        ..config
    };
    Some((Mount::with(Arc::new(probe), config)?, log))
}

/// A mount with one reader, on which each fsync waits for the lever.
fn with_held_fsync() -> Option<(Mount, Lever)> {
    let (fsync_gate, lever) = gate();
    let probe = Probe {
        fsync_gate: Some(fsync_gate),
        ..Probe::default()
    };
    let config = MountConfig {
        threads: Some(1),
        ..MountConfig::default()
    };
    Some((Mount::with(Arc::new(probe), config)?, lever))
}

/// An anchored mount whose end waits for the lever, and its log.
fn with_held_unmount() -> Option<(Mount, Log, Lever)> {
    let (unmount_gate, lever) = gate();
    let probe = Probe {
        unmount_gate: Some(unmount_gate),
        ..Probe::default()
    };
    let (m, log) = anchored(probe, MountConfig::default())?;
    Some((m, log, lever))
}

fn count(log: &Log, what: &str) -> usize {
    log.lock().unwrap().iter().filter(|line| line.starts_with(what)).count()
}

#[test]
fn sync_and_syncfs_reach_the_file_system() {
    let Some((m, log)) = anchored(Probe::default(), MountConfig::default()) else {
        return;
    };
    fs::write(m.path("f"), b"x").unwrap();
    let root = File::open(m.root()).unwrap();
    // Only a rise counts: other tests may call sync(2) at the same time.
    let before = count(&log, "syncfs");
    rustix::fs::syncfs(&root).unwrap();
    let after = count(&log, "syncfs");
    assert!(after > before, "syncfs(2) did not reach the server");
    rustix::fs::sync();
    assert!(count(&log, "syncfs") > after, "sync(2) did not reach the server");
    drop(root);
    m.unmount().unwrap();
    assert_eq!(count(&log, "unmount done"), 1, "unmount is called once, by DESTROY");
}

#[test]
fn umount_returns_after_the_file_system_is_durable() {
    let Some((mut m, log, lever)) = with_held_unmount() else {
        return;
    };
    fs::write(m.path("f"), b"x").unwrap();
    let unmounter = m.unmounter.clone();
    let events = log.clone();
    let caller = std::thread::spawn(move || {
        unmounter.unmount(How::Gentle).unwrap();
        events.lock().unwrap().push("umount returned".into());
    });
    lever.arrived.recv().unwrap();
    assert!(!caller.is_finished());
    lever.go.send(()).unwrap();
    caller.join().unwrap();
    m.join().unwrap();
    let log = log.lock().unwrap();
    let place = |what: &str| log.iter().position(|line| line == what).unwrap();
    assert!(place("unmount done") < place("umount returned"), "{log:?}");
    assert_eq!(log.iter().filter(|line| *line == "unmount begins").count(), 1);
}

#[test]
fn umount_program_waits_too_and_the_loop_device_goes_away() {
    let Some((mut m, log)) = anchored(Probe::default(), MountConfig::default()) else {
        return;
    };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let root = m.root().to_str().unwrap().to_owned();
    let line = mounts.lines().find(|line| line.contains(&root)).unwrap();
    assert!(line.contains(" fuseblk.keepfs "), "{line}");
    let device = line.split(' ').next().unwrap().to_owned();
    let name = device.trim_start_matches("/dev/").to_owned();
    // The kernel counts how often the device was attached: another test may do so at once.
    let attached = || {
        let folder = format!("/sys/block/{name}");
        let backing = fs::read_to_string(format!("{folder}/loop/backing_file")).ok()?;
        let attachment = fs::read_to_string(format!("{folder}/diskseq")).ok()?;
        backing.contains("keepfs-anchor").then_some(attachment)
    };
    let before = attached().expect("the anchor is attached");
    assert!(
        std::process::Command::new("umount")
            .arg(&root)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(count(&log, "unmount done"), 1);
    m.join().unwrap();
    // A child of another test may still hold the device, from before its exec.
    let deadline = Instant::now() + BUSY_MAX;
    while attached().as_ref() == Some(&before) {
        assert!(Instant::now() < deadline, "the loop device is still attached");
        std::thread::yield_now();
    }
}

#[test]
fn sync_is_answered_by_its_deadline() {
    let (sync_gate, lever) = gate();
    let probe = Probe {
        sync_gate: Some(sync_gate),
        ..Probe::default()
    };
    let config = MountConfig {
        sync_deadline: Duration::from_millis(20),
        ..MountConfig::default()
    };
    let Some((m, _)) = anchored(probe, config) else { return };
    let root = File::open(m.root()).unwrap();
    assert_eq!(rustix::fs::syncfs(&root), Err(rustix::io::Errno::IO));
    drop(lever);
    rustix::fs::syncfs(&root).unwrap();
    drop(root);
    m.unmount().unwrap();
}

#[test]
fn a_plain_mount_is_made_durable_at_the_end_of_run() {
    let probe = Probe::default();
    let log = probe.log.clone();
    let Some(m) = Mount::with(Arc::new(probe), MountConfig::default()) else {
        return;
    };
    fs::write(m.path("f"), b"x").unwrap();
    m.unmount().unwrap();
    assert_eq!(count(&log, "unmount done"), 1);
}

#[test]
fn fsync_waits_on_a_worker_while_others_go_on() {
    let Some((m, lever)) = with_held_fsync() else { return };
    let mut file = File::create(m.path("f")).unwrap();
    file.write_all(b"x").unwrap();
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| file.sync_all().unwrap());
        lever.arrived.recv().unwrap();
        // The only reader is free although an fsync is under way.
        fs::write(m.path("other"), b"y").unwrap();
        assert_eq!(fs::read(m.path("other")).unwrap(), b"y");
        lever.go.send(()).unwrap();
        syncing.join().unwrap();
    });
    drop(lever);
    drop(file);
    m.unmount().unwrap();
}

#[test]
fn fsyncs_that_come_during_a_flush_share_the_next_one() {
    const LATER: usize = 20;
    let (fsync_gate, lever) = gate();
    let probe = Probe {
        fsync_gate: Some(fsync_gate),
        ..Probe::default()
    };
    let log = probe.log.clone();
    let config = MountConfig {
        threads: Some(1),
        ..MountConfig::default()
    };
    let Some(m) = Mount::with(Arc::new(probe), config) else {
        return;
    };
    // By a ring each CPU has a queue of its own: those in the order of one queue are looked for below.
    sys::stay_on_cpu_0();
    let files: Vec<File> = (0..=LATER)
        .map(|n| File::create(m.path(format!("f{n}"))).unwrap())
        .collect();
    std::thread::scope(|scope| {
        scope.spawn(|| files[0].sync_all().unwrap());
        lever.arrived.recv().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        for file in &files[1..] {
            let tell = tell.clone();
            scope.spawn(move || {
                tell.send(sys::thread_id()).unwrap();
                file.sync_all().unwrap();
            });
        }
        (0..LATER).for_each(|_| until_in_fsync(told.recv().unwrap()));
        // The only reader takes the requests of this CPU in their order: when this one is answered, it has those before it.
        fs::write(m.path("other"), b"y").unwrap();
        drop(lever);
    });
    assert_eq!(
        (count(&log, "round of 1"), count(&log, &format!("round of {LATER}"))),
        (1, 1)
    );
    drop(files);
    m.unmount().unwrap();
}

/// How many fsyncs reached the file system during `change`.
fn synced(log: &Log, change: impl FnOnce()) -> usize {
    let before = count(log, "fsync");
    change();
    count(log, "fsync") - before
}

/// S-20.1, S-20.2: what is changed through a file opened with O_SYNC or O_DSYNC, or by a call that asks for it, was synced when
/// the call returns, whatever the kernel caches; through any other, nothing was.
#[test]
fn synchronous_files_are_synced() {
    const LARGE: usize = 300_000;
    for cache in [CacheMode::Writethrough, CacheMode::Writeback, CacheMode::Direct] {
        let probe = Probe::default();
        let log = probe.log.clone();
        let config = MountConfig {
            cache,
            ..MountConfig::default()
        };
        let Some(m) = Mount::with(Arc::new(probe), config) else {
            return;
        };
        let open = |flags| {
            let mut options = File::options();
            options.read(true).write(true).create(true).custom_flags(flags);
            options.open(m.path("f")).unwrap()
        };
        let plain = open(0);
        assert_eq!(
            synced(&log, || plain.write_all_at(&[1; LARGE], 0).unwrap()),
            0,
            "{cache:?}"
        );
        for flags in [libc::O_SYNC, libc::O_DSYNC, libc::O_DSYNC | libc::O_DIRECT] {
            let file = open(flags);
            let told = |what, times: usize| assert!(times > 0, "{cache:?}, {flags:#o}, {what}");
            told("write", synced(&log, || file.write_all_at(&[2; 4096], 0).unwrap()));
            told(
                "large write",
                synced(&log, || file.write_all_at(&[3; LARGE], 0).unwrap()),
            );
            told(
                "asynchronous",
                synced(&log, || sys::write_asynchronously(&file, &[4; 4096])),
            );
            let allocate = || rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 8192).unwrap();
            told("fallocate", synced(&log, allocate));
            let copy = || {
                let copied = rustix::fs::copy_file_range(&plain, Some(&mut 0), &file, Some(&mut 16_384), 4096);
                assert_eq!(copied, Ok(4096));
            };
            told("copy", synced(&log, copy));
        }
        let once = || {
            let wrote = rustix::io::pwritev2(&plain, &[IoSlice::new(b"once")], 0, ReadWriteFlags::DSYNC);
            assert_eq!(wrote, Ok(4));
        };
        assert!(synced(&log, once) > 0, "{cache:?}");
        drop(plain);
        m.unmount().unwrap();
    }
}

#[test]
fn directories_are_synced_too() {
    let probe = Probe::default();
    let log = probe.log.clone();
    let Some(m) = Mount::with(Arc::new(probe), MountConfig::default()) else {
        return;
    };
    File::open(m.root()).unwrap().sync_all().unwrap();
    let file = File::create(m.path("f")).unwrap();
    file.sync_data().unwrap();
    drop(file);
    assert_eq!((count(&log, "fsync false"), count(&log, "fsync true")), (1, 1));
}

#[test]
fn a_signal_does_not_make_fsync_fail() {
    let Some((m, lever)) = with_held_fsync() else { return };
    let file = File::create(m.path("f")).unwrap();
    sys::catch_usr1();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let file = &file;
        let syncing = scope.spawn(move || {
            tell.send(sys::thread_id()).unwrap();
            file.sync_all()
        });
        let thread = told.recv().unwrap();
        lever.arrived.recv().unwrap();
        for round in 0..50 {
            sys::send_usr1(thread);
            // Interrupts are read before other requests, so they are dealt with in between.
            fs::write(m.path(format!("other-{round}")), b"x").unwrap();
        }
        lever.go.send(()).unwrap();
        syncing.join().unwrap().unwrap();
    });
    drop(lever);
}

#[test]
fn a_lazy_umount_is_made_durable_when_the_last_file_is_closed() {
    let Some((mut m, _, lever)) = with_held_unmount() else {
        return;
    };
    let path = m.root().to_owned();
    let held = File::open(&path).unwrap();
    // With a file open only the name goes away now; DESTROY comes when the file is closed.
    m.unmounter.unmount(How::Lazy).unwrap();
    // close(2) of the last file waits for DESTROY.
    let closing = std::thread::spawn(move || drop(held));
    lever.arrived.recv().unwrap();
    assert!(fs::read_dir(&path).unwrap().next().is_none());
    lever.go.send(()).unwrap();
    closing.join().unwrap();
    m.join().unwrap();
}

#[test]
fn both_kinds_of_mounts_are_tuned() {
    for anchor in [false, true] {
        let mount = match anchor {
            true => anchored(Probe::default(), MountConfig::default()).map(|(m, _)| m),
            false => Mount::with(Arc::new(Probe::default()), MountConfig::default()),
        };
        let Some(m) = mount else { return };
        let device = fs::metadata(m.root()).unwrap().dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let suffix = if anchor { "-fuseblk" } else { "" };
        let bdi = format!("/sys/class/bdi/{major}:{minor}{suffix}");
        let value = |name: &str| fs::read_to_string(format!("{bdi}/{name}")).unwrap().trim().to_owned();
        assert_eq!(
            (value("read_ahead_kb"), value("max_ratio"), value("strict_limit")),
            ("1024".into(), "100".into(), "0".into())
        );
    }
}

#[test]
fn umount_loses_nothing_that_was_written() {
    for cache in [CacheMode::Writethrough, CacheMode::Writeback, CacheMode::Direct] {
        for anchor in [false, true] {
            let model = Arc::new(Model::default());
            let anchor = (anchor && possible()).then(|| LoopAnchor::attach("keepfs test").unwrap());
            let anchor_path = anchor.as_ref().map(|a| a.path().to_owned());
            let config = MountConfig {
                cache,
                anchor: anchor_path,
                ..MountConfig::default()
            };
            let Some(m) = Mount::with(model.clone(), config) else {
                return;
            };
            drop(anchor);
            fs::write(m.path("written"), vec![1; 1_000_000]).unwrap();
            fs::write(m.path("mapped"), vec![2; 100_000]).unwrap();
            let file = fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open(m.path("mapped"))
                .unwrap();
            sys::with_unsynced_mapping(&file, 100_000, |bytes| bytes[50_000..].fill(3)).unwrap();
            drop(file);
            m.unmount().unwrap();
            let content = |name: &[u8]| {
                let attr = model.lookup(Ino::ROOT, name).unwrap().attr;
                let mut bytes = vec![0; attr.size as usize];
                assert_eq!(model.read(attr.ino, 0, &mut bytes).unwrap(), bytes.len());
                bytes
            };
            assert!(content(b"written") == vec![1; 1_000_000], "{cache:?}");
            assert!(
                content(b"mapped") == [vec![2; 50_000], vec![3; 50_000]].concat(),
                "{cache:?}"
            );
        }
    }
}
