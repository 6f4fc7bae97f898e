//! Tests of regular files as devices; block devices need a machine that grants one.

use super::*;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use tempfile::TempDir;

const PLAIN: FileOptions = FileOptions { direct: false };
const DIRECT: FileOptions = FileOptions { direct: true };

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    (folder, path)
}

fn pattern(pages: usize) -> Vec<u8> {
    (0..pages * PAGE).map(|i| (i / 7 % 253) as u8).collect()
}

/// Writes, reopens and reads; `None` if the file system has no direct transfers.
fn round_trip(options: FileOptions) -> Option<()> {
    let (_folder, path) = place();
    let device = match FileDevice::create(&path, 300, options) {
        Err(DeviceError::Open { source, .. }) if source.raw_os_error() == Some(libc::EINVAL) => {
            return None;
        }
        other => other.unwrap(),
    };
    let data = pattern(BOUNCE_PAGES * 2 + 3);
    device.write(PageNo(5), &data, Class::Data).unwrap();
    let parts: Vec<&[u8]> = data.chunks(2 * PAGE).collect();
    device.write_vectored(PageNo(150), &parts, Class::Metadata).unwrap();
    device.flush().unwrap();
    drop(device);
    let device = FileDevice::open(&path, OpenMode::ReadOnly, options).unwrap();
    assert_eq!(device.pages(), 300);
    let mut seen = vec![0; data.len()];
    device.read(PageNo(5), &mut seen).unwrap();
    assert_eq!(seen, data);
    assert_eq!(device.counters().read.bytes, data.len() as u64);
    device.read(PageNo(150), &mut seen).unwrap();
    assert_eq!(seen, data);
    Some(())
}

#[test]
fn what_is_written_is_read_after_reopening() {
    round_trip(PLAIN).unwrap();
}

#[test]
fn direct_transfers_are_equal() {
    if round_trip(DIRECT).is_none() {
        eprintln!("this file system has no O_DIRECT; nothing proved");
    }
}

#[test]
fn discarded_pages_read_as_zeros_and_give_space_back() {
    use std::os::unix::fs::MetadataExt;
    let (_folder, path) = place();
    let device = FileDevice::create(&path, 64, PLAIN).unwrap();
    device.write(PageNo(0), &pattern(64), Class::Data).unwrap();
    device.flush().unwrap();
    let before = std::fs::metadata(&path).unwrap().blocks();
    match device.discard(PageNo(8), 48) {
        Err(DeviceError::NoDiscard { .. }) => return, // the file system has no holes
        other => other.unwrap(),
    }
    device.flush().unwrap();
    let mut seen = vec![1; 64 * PAGE];
    device.read(PageNo(0), &mut seen).unwrap();
    let data = pattern(64);
    assert_eq!(seen[..8 * PAGE], data[..8 * PAGE]);
    assert!(seen[8 * PAGE..56 * PAGE].iter().all(|&byte| byte == 0));
    assert_eq!(seen[56 * PAGE..], data[56 * PAGE..]);
    assert!(std::fs::metadata(&path).unwrap().blocks() < before);
}

#[test]
fn a_second_user_is_refused() {
    let (_folder, path) = place();
    let first = FileDevice::create(&path, 4, PLAIN).unwrap();
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let second = FileDevice::open(&path, mode, PLAIN);
        assert!(matches!(second, Err(DeviceError::Busy { .. })));
    }
    drop(first);
    let reader = FileDevice::open(&path, OpenMode::ReadOnly, PLAIN).unwrap();
    FileDevice::open(&path, OpenMode::ReadOnly, PLAIN).unwrap();
    let writer = FileDevice::open(&path, OpenMode::ReadWrite, PLAIN);
    assert!(matches!(writer, Err(DeviceError::Busy { .. })));
    drop(reader);
}

/// A program that another thread starts has copies of all descriptors until it runs; they keep nobody out. Those that were
/// handed over do.
#[test]
fn the_lock_ends_with_the_device() {
    let (_folder, path) = place();
    drop(FileDevice::create(&path, 4, PLAIN).unwrap());
    let open = || FileDevice::open(&path, OpenMode::ReadWrite, PLAIN);
    let device = open().unwrap();
    let copy = device.file.try_clone().unwrap();
    drop(device);
    let device = open().unwrap();
    let (handed, again) = (device.hand().unwrap(), device.hand().unwrap());
    drop((copy, device));
    assert!(matches!(open(), Err(DeviceError::Busy { .. })));
    drop(FileDevice::adopt(&path, again, OpenMode::ReadWrite, PLAIN).unwrap());
    assert!(matches!(open(), Err(DeviceError::Busy { .. })));
    drop(handed);
    open().unwrap();
}

#[test]
fn read_only_devices_refuse_changes() {
    let (_folder, path) = place();
    drop(FileDevice::create(&path, 4, PLAIN).unwrap());
    let device = FileDevice::open(&path, OpenMode::ReadOnly, PLAIN).unwrap();
    let refused = |result| matches!(result, Err(DeviceError::ReadOnly { .. }));
    assert!(device.read_only());
    assert!(refused(device.write(PageNo(0), &[0; PAGE], Class::Data)));
    assert!(refused(device.flush()));
    assert!(refused(device.discard(PageNo(0), 1)));
}

#[test]
fn existing_missing_and_unsuitable_paths_are_refused() {
    let (folder, path) = place();
    let missing = FileDevice::open(&path, OpenMode::ReadOnly, PLAIN);
    assert!(matches!(missing, Err(DeviceError::Open { .. })));
    std::fs::write(&path, "short").unwrap();
    let again = FileDevice::create(&path, 4, PLAIN);
    assert!(matches!(again, Err(DeviceError::Open { .. })));
    let short = FileDevice::open(&path, OpenMode::ReadWrite, PLAIN);
    assert!(matches!(short, Err(DeviceError::Unsuitable { .. })));
    let is_folder = FileDevice::open(folder.path(), OpenMode::ReadOnly, PLAIN);
    assert!(matches!(is_folder, Err(DeviceError::Unsuitable { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"short");
}

/// Errors are lines on a terminal. S-18.10
#[test]
fn paths_in_errors_are_told_by_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(OsStr::from_bytes(b"p\xff\x1b[31m"));
    let told = format!("$'{}/p\\xff\\e[31m'", folder.path().display());
    let missing = FileDevice::open(&path, OpenMode::ReadOnly, PLAIN).err().unwrap();
    assert!(
        missing.to_string().starts_with(&format!("cannot open {told}: ")),
        "{missing}"
    );
    let device = FileDevice::create(&path, 4, PLAIN).unwrap();
    assert_eq!(device.describe(), told);
    let busy = FileDevice::open(&path, OpenMode::ReadWrite, PLAIN).err().unwrap();
    assert!(busy.to_string().starts_with(&format!("{told} is in use (")), "{busy}");
    drop(device);
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let unsuitable = FileDevice::open(&path, OpenMode::ReadOnly, PLAIN).err().unwrap();
    assert!(
        unsuitable
            .to_string()
            .starts_with(&format!("{told} cannot hold a pool")),
        "{unsuitable}"
    );
    let protected = protected(&path);
    assert!(
        protected.to_string().starts_with(&format!("{told} is write-protected")),
        "{protected}"
    );
}

#[test]
fn a_file_cut_behind_our_back_is_an_error() {
    let (_folder, path) = place();
    let device = FileDevice::create(&path, 4, PLAIN).unwrap();
    let cutter = File::options().write(true).open(&path).unwrap();
    cutter.set_len(2 * PAGE_BYTES).unwrap();
    let error = device.read(PageNo(1), &mut [0; 2 * PAGE]).unwrap_err();
    assert!(matches!(error, DeviceError::Cut { pages: 4, .. }), "{error}");
    // A write beyond the new end makes the file longer again, but no flush is answered as if nothing had happened.
    device.write(PageNo(2), &[1; PAGE], Class::Data).unwrap();
    assert!(matches!(device.flush().unwrap_err(), DeviceError::Cut { .. }));
}

/// What was opened for reading can become a writer's, once it is alone; then nobody else gets in.
#[test]
fn a_reader_becomes_a_writer_when_it_is_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    drop(FileDevice::create(&path, 16, FileOptions::default()).unwrap());
    let open = |mode| FileDevice::open(&path, mode, FileOptions::default());
    let device = open(OpenMode::ReadOnly).unwrap();
    let other = open(OpenMode::ReadOnly).unwrap();
    let page = [9; PAGE];
    assert!(matches!(device.begin_writing(), Err(DeviceError::Busy { .. })));
    assert!(device.read_only() && device.write(PageNo(1), &page, Class::Data).is_err());
    // The lock of a reader is still there.
    assert!(open(OpenMode::ReadWrite).is_err());
    drop(other);
    device.begin_writing().unwrap();
    device.begin_writing().unwrap();
    assert!(!device.read_only());
    device.write(PageNo(1), &page, Class::Data).unwrap();
    device.flush().unwrap();
    let mut read = [0; PAGE];
    device.read(PageNo(1), &mut read).unwrap();
    assert_eq!(read, page);
    assert!(open(OpenMode::ReadOnly).is_err() && open(OpenMode::ReadWrite).is_err());
    drop(device);
    open(OpenMode::ReadWrite).unwrap();
}

/// Opened before, it is the same file whatever stands at its path when it is wanted.
#[test]
fn what_is_prepared_needs_no_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    drop(FileDevice::create(&path, 16, FileOptions::default()).unwrap());
    let open = |mode| FileDevice::open(&path, mode, FileOptions::default());
    let device = open(OpenMode::ReadOnly).unwrap();
    device.prepare_writing();
    assert!(device.read_only());
    // Other readers are not disturbed, and whoever writes is still alone.
    let other = open(OpenMode::ReadOnly).unwrap();
    assert!(matches!(device.begin_writing(), Err(DeviceError::Busy { .. })));
    drop(other);
    let moved = dir.path().join("moved");
    std::fs::rename(&path, &moved).unwrap();
    device.begin_writing().unwrap();
    device.write(PageNo(1), &[9; PAGE], Class::Data).unwrap();
    device.flush().unwrap();
    drop(device);
    let device = FileDevice::open(&moved, OpenMode::ReadOnly, FileOptions::default()).unwrap();
    let mut read = [0; PAGE];
    device.read(PageNo(1), &mut read).unwrap();
    assert_eq!(read, [9; PAGE]);
}

#[test]
fn a_file_that_was_replaced_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    drop(FileDevice::create(&path, 16, FileOptions::default()).unwrap());
    let device = FileDevice::open(&path, OpenMode::ReadOnly, FileOptions::default()).unwrap();
    std::fs::rename(&path, dir.path().join("moved")).unwrap();
    drop(FileDevice::create(&path, 16, FileOptions::default()).unwrap());
    let said = device.begin_writing().unwrap_err().to_string();
    assert!(said.contains("another file"), "{said}");
    assert!(device.read_only());
}

#[test]
fn parts_are_more_than_one_call_takes_and_end_at_the_end() {
    let (_folder, path) = place();
    let pages = PARTS_MAX + 7;
    let device = FileDevice::create(&path, pages as u64, PLAIN).unwrap();
    let data = pattern(pages);
    let parts: Vec<&[u8]> = data.chunks(PAGE).collect();
    device.write_vectored(PageNo(0), &parts, Class::Metadata).unwrap();
    let mut seen = vec![0; data.len()];
    device.read(PageNo(0), &mut seen).unwrap();
    assert_eq!(seen, data);
    let error = device.write_vectored(PageNo(1), &parts, Class::Metadata).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfRange { .. }), "{error}");
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let (_folder, path) = place();
    let pages = (1 << 62) / PAGE_BYTES;
    assert!(matches!(
        FileDevice::create(&path, pages, PLAIN),
        Err(DeviceError::Open { .. })
    ));
    assert!(matches!(
        FileDevice::create(&path, 0, PLAIN),
        Err(DeviceError::Unsuitable { .. })
    ));
    assert!(!path.exists());
}

/// S-2.14, S-2.15: what was kept behind the end before is not kept in the middle, and the lock is one.
#[test]
fn a_file_gets_longer_under_its_lock() {
    use std::os::unix::fs::MetadataExt;
    let (_folder, path) = place();
    let device = FileDevice::create(&path, 64 << 8, PLAIN).unwrap();
    device.write(PageNo(7), &pattern(3), Class::Data).unwrap();
    device.flush().unwrap();
    let blocks = || std::fs::metadata(&path).unwrap().blocks() * 512;
    let before = blocks();
    let longer = device.lengthened(1 << 18).unwrap();
    assert_eq!(
        (longer.pages(), std::fs::metadata(&path).unwrap().len()),
        (1 << 18, 1 << 30)
    );
    assert_eq!(before - blocks(), 1 << 20);
    longer.write(PageNo((1 << 18) - 1), &pattern(1), Class::Data).unwrap();
    longer.flush().unwrap();
    assert_eq!(longer.room.as_ref().unwrap().kept(), 16 << 20);
    // As many as it has, or fewer: the same file.
    assert_eq!(longer.lengthened(5).unwrap().pages(), 5);
    let open = || FileDevice::open(&path, OpenMode::ReadWrite, PLAIN);
    assert!(matches!(open(), Err(DeviceError::Busy { .. })));
    drop(device);
    assert!(matches!(open(), Err(DeviceError::Busy { .. })));
    assert!(matches!(longer.lengthened(1 << 62), Err(DeviceError::Open { .. })));
    drop(longer);
    let mut seen = vec![0; 3 * PAGE];
    open().unwrap().read(PageNo(7), &mut seen).unwrap();
    assert_eq!(seen, pattern(3));
}

/// A file system of 32 MiB, mounted.
struct Small {
    folder: TempDir,
}

impl Small {
    /// An ext4 on a loop device; `None` if that cannot be had here.
    fn new() -> Option<Small> {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len(32 << 20).unwrap();
        let made = Small::ran("mkfs.ext4", &["-q", "-m", "0"], &image);
        Small::mounted(folder, &["-o", "loop", &image.to_string_lossy()]).filter(|_| made)
    }

    /// A tmpfs, where what is given back is free at once.
    fn in_memory() -> Option<Small> {
        Small::mounted(
            tempfile::tempdir().unwrap(),
            &["-t", "tmpfs", "-o", "size=32m", "keepfs-test"],
        )
    }

    fn mounted(folder: TempDir, words: &[&str]) -> Option<Small> {
        let on = folder.path().join("on");
        std::fs::create_dir(&on).unwrap();
        if !Small::ran("mount", words, &on) {
            eprintln!("skipped: needs root, a loop device and mkfs.ext4");
            return None;
        }
        Some(Small { folder })
    }

    fn ran(program: &str, words: &[&str], path: &Path) -> bool {
        let output = std::process::Command::new(program).args(words).arg(path).output();
        output.is_ok_and(|output| output.status.success())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg(self.folder.path().join("on"))
            .output();
    }
}

/// S-2.14: what is not data has room where data finds none, and has it again when there is.
#[test]
fn a_full_host_costs_data_alone() {
    let Some(small) = Small::new() else { return };
    let device = FileDevice::create(&small.folder.path().join("on/pool"), 64 << 8, PLAIN).unwrap();
    device.flush().unwrap();
    let data = pattern(64);
    let fill = |mut at| loop {
        match device.write(PageNo(at), &data, Class::Data) {
            Ok(()) => at += 64,
            Err(error) => break (at, error),
        }
    };
    let (at, error) = fill(0);
    assert!(matches!(error, DeviceError::HostFull { .. }), "{error}");
    let room = device.room.as_ref().unwrap();
    assert_eq!(room.kept(), 1 << 20);
    for more in 0..2 {
        device.write(PageNo(at + 100 * more), &data, Class::Metadata).unwrap();
    }
    assert!(room.kept() < 1 << 20);
    let (end, error) = fill(at + 200);
    assert!(matches!(error, DeviceError::HostFull { .. }), "{error}");
    // What is not needed any more makes room.
    device.discard(PageNo(0), at / 2).unwrap();
    device.flush().unwrap();
    device.write(PageNo(end), &data, Class::Data).unwrap();
    room.try_now(device.writable().unwrap());
    assert_eq!(room.kept(), 1 << 20);
}

/// S-2.14: what is given back for one write is not taken by file data of other writers.
#[test]
fn file_data_of_others_takes_nothing_of_the_room() {
    let Some(small) = Small::in_memory() else { return };
    let device = FileDevice::create(&small.folder.path().join("on/pool"), 64 << 8, PLAIN).unwrap();
    device.flush().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (full, is_full) = std::sync::mpsc::channel();
        for writer in 0..4 {
            let (device, done, full) = (&device, &done, full.clone());
            scope.spawn(move || {
                let (data, mut at) = (pattern(8), writer * (16 << 8));
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    match device.write(PageNo(at), &data, Class::Data) {
                        Ok(()) => at += 8,
                        Err(_) => drop(full.send(())),
                    }
                }
            });
        }
        is_full.recv().unwrap();
        // Less than the room has, at places that the file has nothing of.
        let written: Result<Vec<()>, _> = (0..200)
            .map(|more| device.write(PageNo((64 << 8) - 1 - more), &pattern(1), Class::Metadata))
            .collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        written.unwrap();
    });
}

/// S-2.14: what is provided can be written when the host is full, and more than there is is refused.
#[test]
fn provided_pages_have_room() {
    let Some(small) = Small::in_memory() else { return };
    let device = FileDevice::create(&small.folder.path().join("on/pool"), 64 << 8, PLAIN).unwrap();
    let refused = device.provide(PageNo(0), 64 << 8);
    assert!(matches!(refused, Err(DeviceError::HostFull { .. })), "{refused:?}");
    device.provide(PageNo(0), 256).unwrap();
    let full = (1..64).map(|at| device.write(PageNo(at * 256), &pattern(256), Class::Data));
    assert!(full.filter(Result::is_err).count() > 1);
    device.write(PageNo(0), &pattern(256), Class::Data).unwrap();
}
