//! What only the io_uring transport has: queues that can fill, a device that only brings FORGET, and kernels that refuse.

use crate::probe::{Probe, gate, until_in_fsync};
use crate::sys;
use crate::uring::support::{Mount, possible};
use keepfs_fuse::{MountConfig, TransportKind, mount};
use keepfs_testkit::model::{Model, Options};
use keepfs_vfs::Time;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Callers that wait in fsync on one CPU at once: three quarters of its slots.
fn waiting() -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    (96 / cpus).clamp(3, 48)
}

#[test]
fn waiting_fsyncs_leave_room_in_the_queue_of_their_cpu() {
    let (fsync_gate, lever) = gate();
    let probe = Probe {
        fsync_gate: Some(fsync_gate),
        ..Probe::default()
    };
    let Some(m) = Mount::with(Arc::new(probe), MountConfig::default()) else {
        return;
    };
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for client in 0..waiting() {
            // One file each: the kernel lets only one fsync of a file through at a time.
            let path = m.path(format!("f{client}"));
            let tell = tell.clone();
            scope.spawn(move || {
                sys::stay_on_cpu_0();
                let file = File::create(path).unwrap();
                tell.send(sys::thread_id()).unwrap();
                file.sync_all().unwrap();
            });
        }
        // One is under way; the others have to wait for its flush.
        (0..waiting()).for_each(|_| until_in_fsync(told.recv().unwrap()));
        lever.arrived.recv().unwrap();
        let (path, data) = (m.path("other"), vec![3; 200_000]);
        let other = scope.spawn(move || {
            sys::stay_on_cpu_0();
            fs::write(&path, &data).unwrap();
            assert!(fs::read(&path).unwrap() == data);
        });
        other.join().unwrap();
        drop(lever);
    });
    m.unmount().unwrap();
}

#[test]
fn more_callers_than_slots_wait_their_turn() {
    let config = MountConfig {
        offload_bytes: 0,
        ..MountConfig::default()
    };
    let Some(m) = Mount::with(Arc::new(Model::default()), config) else {
        return;
    };
    std::thread::scope(|scope| {
        for client in 0..100_u64 {
            let path = m.path(format!("f{client}"));
            scope.spawn(move || {
                sys::stay_on_cpu_0();
                let file = File::options()
                    .read(true)
                    .write(true)
                    .create_new(true)
                    .open(path)
                    .unwrap();
                for round in 0..20_u64 {
                    let data = (client << 32 | round).to_le_bytes();
                    file.write_all_at(&data, round * 5000).unwrap();
                    file.sync_all().unwrap();
                    let mut back = [0; 8];
                    file.read_exact_at(&mut back, round * 5000).unwrap();
                    assert_eq!(back, data);
                }
            });
        }
    });
    assert_eq!(fs::read_dir(m.root()).unwrap().count(), 100);
    m.unmount().unwrap();
}

#[test]
fn forgets_arrive_beside_the_ring() {
    let probe = Arc::new(Probe::default());
    let Some(m) = Mount::with(probe.clone(), MountConfig::default()) else {
        return;
    };
    for i in 0..100 {
        let path = m.path(format!("f{i}"));
        fs::write(&path, b"x").unwrap();
        fs::remove_file(&path).unwrap();
    }
    while probe.forgotten.load(Ordering::Relaxed) < 100 {
        std::thread::yield_now();
    }
    m.unmount().unwrap();
}

#[test]
fn the_largest_attribute_passes_in_both_directions() {
    let options = Options {
        xattr_total_max: 128 << 10,
        ..Options::default()
    };
    let model = Model::new(options, Arc::new(|| Time { sec: 1, nsec: 0 }));
    let Some(m) = Mount::with(Arc::new(model), MountConfig::default()) else {
        return;
    };
    File::create(m.path("f")).unwrap().write_all(b"x").unwrap();
    let name = format!("user.{}", "n".repeat(250));
    let value: Vec<u8> = (0..65_536).map(|i| (i % 251) as u8).collect();
    rustix::fs::setxattr(m.path("f"), &name, &value, rustix::fs::XattrFlags::empty()).unwrap();
    let mut back = vec![0; 65_536];
    let len = rustix::fs::getxattr(m.path("f"), &name, &mut back[..]).unwrap();
    assert!(back[..len] == value);
}

/// The mount point, in the environment of a server that may lock no memory.
const SERVE: &str = "KEEPFS_TEST_WITHOUT_MEMORY";

/// The server's side of the next test.
fn serve(dir: PathBuf) {
    let config = MountConfig {
        mountpoint: dir.clone(),
        transport: TransportKind::Uring,
        ..MountConfig::default()
    };
    let session = mount(Arc::new(Model::default()), &config).unwrap();
    assert_eq!(session.transport(), "dev");
    let server = std::thread::spawn({
        let unmounter = session.unmounter();
        move || {
            fs::write(dir.join("f"), b"x").unwrap();
            assert_eq!(fs::read(dir.join("f")).unwrap(), b"x");
            unmounter.unmount(keepfs_fuse::How::Gentle).unwrap();
        }
    });
    session.run().unwrap();
    server.join().unwrap();
}

#[test]
fn where_memory_cannot_be_locked_the_device_serves() {
    if let Some(dir) = std::env::var_os(SERVE) {
        return serve(dir.into());
    }
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -l 64; exec setpriv --bounding-set -ipc_lock \"$@\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "ring::where_memory_cannot_be_locked_the_device_serves"]);
    assert!(shell.env(SERVE, dir.path()).status().unwrap().success());
}
