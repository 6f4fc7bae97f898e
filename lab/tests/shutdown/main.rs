//! FS_IOC_SHUTDOWN on a real mount is a power cut (promise C-1): whatever was acknowledged by fsync before it is there
//! after the next mount, nothing is acknowledged after it, and the pool is sound.

mod sys;

use keepfs::{CreateOptions, OpenOptions, Pool};
use keepfs_check::{Image, Options, walk};
use keepfs_fuse::{How, MountConfig};
use keepfs_media::file::{FileDevice, FileOptions, OpenMode};
use keepfs_media::{Device, PageNo};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Programs that write at the same time.
const WRITERS: u64 = 3;

struct Seen(FileDevice);

impl Image for Seen {
    fn pages(&self) -> u64 {
        self.0.pages()
    }
    fn read(&self, page: u64, buf: &mut [u8; 4096]) -> Result<(), String> {
        self.0.read(PageNo(page), buf).map_err(|e| e.to_string())
    }
}

fn possible() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
    let found = root && Path::new("/dev/fuse").exists();
    if !found {
        // Past what the harness keeps of a test that passes: `cargo xtask test` counts it.
        let _ = writeln!(std::io::stderr(), "skipped: needs root and /dev/fuse");
    }
    found
}

/// What stands in file `number` of a writer.
fn content(writer: u64, number: u64) -> Vec<u8> {
    let len = (number * 977 % 20_000) as usize;
    (0..len).map(|i| (i as u64 * 31 + writer + number) as u8).collect()
}

fn name(writer: u64, number: u64) -> String {
    format!("{writer}-{number}")
}

/// Writes and syncs files until one fails; how many were acknowledged.
fn write_on(dir: &Path, writer: u64, acknowledged: &AtomicU64) -> u64 {
    let write = |number| -> io::Result<()> {
        let mut file = File::create(dir.join(name(writer, number)))?;
        file.write_all(&content(writer, number))?;
        file.sync_all()
    };
    let mut number = 0;
    while write(number).is_ok() {
        number += 1;
        acknowledged.fetch_add(1, Ordering::Release);
    }
    number
}

/// Cuts after `files` acknowledged files; how many each writer had acknowledged.
fn cut(pool: &Path, dir: &Path, files: u64) -> Vec<u64> {
    let pool = Pool::open(pool, &OpenOptions::default()).expect("an open pool");
    let config = MountConfig {
        mountpoint: dir.to_owned(),
        fsname: "keepfs-shutdown".into(),
        ..MountConfig::default()
    };
    let session = keepfs_fuse::mount(pool.volume().clone(), &config).expect("a mount");
    let unmounter = session.unmounter();
    let acknowledged = &AtomicU64::new(0);
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || session.run());
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| scope.spawn(move || write_on(dir, writer, acknowledged)))
            .collect();
        let ended = || writers.iter().all(|w| w.is_finished());
        while acknowledged.load(Ordering::Acquire) < files && !ended() {
            std::thread::yield_now();
        }
        let root = File::open(dir).expect("the root");
        sys::shut_down(&root).expect("the ioctl");
        drop(root);
        let counts = writers.into_iter().map(|w| w.join().expect("a writer ends")).collect();
        let after = File::create(dir.join("after")).expect_err("created after the cut");
        assert_eq!(after.raw_os_error(), Some(libc::EIO));
        assert!(fs::read_dir(dir).is_err(), "listed after the cut");
        unmounter.unmount(How::Gentle).expect("unmount");
        // It says that not everything was kept; that is the point.
        let _ = serving.join().expect("the server ends");
        counts
    })
}

#[test]
fn what_was_acknowledged_survives_the_shutdown() {
    if !possible() {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let (path, dir) = (place.path().join("pool"), place.path().join("mount"));
    fs::create_dir(&dir).expect("a mount point");
    for files in [0, 1, 2, 10, 50, 200] {
        let options = CreateOptions {
            size: Some(64 << 20),
            force: true,
            test: true,
            ..CreateOptions::default()
        };
        Pool::create(&path, &options).expect("a pool");
        let counts = cut(&path, &dir, files);
        assert!(counts.iter().sum::<u64>() >= files, "{counts:?}");
        let pool = Pool::open(&path, &OpenOptions::default()).expect("recovery");
        assert!(pool.read("after").is_err(), "a file of after the cut");
        for (writer, count) in counts.iter().enumerate() {
            for number in 0..*count {
                let kept = pool.read(name(writer as u64, number)).expect("an acknowledged file");
                assert!(
                    kept == content(writer as u64, number),
                    "file {number} of writer {writer}"
                );
            }
        }
        pool.close().expect("close");
        let device = FileDevice::open(&path, OpenMode::ReadOnly, FileOptions::default()).expect("open");
        let report = walk(&Seen(device), &Options::default());
        assert!(report.is_sound(), "after {files} files: {report:?}");
    }
}
