//! What else a change of a file's contents changes, as the kernel sees it: set-id bits (S-20.6, S-20.18), times (S-20.7), what is
//! cached (S-20.8), where data are (S-20.29, S-20.31).

use super::TRANSPORT;
use super::support::{BUSY_MAX, Mount};
use crate::caches::caches;
use crate::probe::{Probe, WAITS, gate};
use crate::sys;
use keepfs_fuse::{CacheMode, MountConfig, TransportKind};
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, seek};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// A user without rights.
const USER: u32 = 65_534;
/// The program that says as whom it runs.
const PROGRAM: &str = "/usr/bin/id";
const CACHES: [CacheMode; 3] = [CacheMode::Writethrough, CacheMode::Writeback, CacheMode::Direct];

fn mounted(cache: CacheMode) -> Option<Mount> {
    let config = MountConfig {
        cache,
        ..MountConfig::default()
    };
    Mount::with(Arc::new(Probe::default()), config)
}

/// Does it in a thread that is that user and has none of root's capabilities.
fn as_user<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let thread = || {
        let (user, group) = (Uid::from_raw(USER), Gid::from_raw(USER));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        work()
    };
    std::thread::scope(|scope| scope.spawn(thread).join().unwrap())
}

/// As whom the program runs: user and group.
fn runs_as(program: &Path) -> [String; 2] {
    ["-u", "-g"].map(|what| {
        let output = loop {
            // Another test's child may have the file open for writing still, from before its exec.
            match Command::new(program).arg(what).output() {
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                output => break output.unwrap(),
            }
        };
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    })
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn written(path: &Path, flags: i32) -> File {
    let mut how = OpenOptions::new();
    how.read(true).write(true).custom_flags(flags).open(path).unwrap()
}

/// A way to change the contents of the program at a path; the other path is a copy of the program on the same mount.
type Way = (&'static str, fn(&Path, &Path));

/// Each leaves the program as it is, so that it can be executed.
const WAYS: &[Way] = &[
    ("write", |path, program| {
        written(path, 0).write_all_at(&fs::read(program).unwrap(), 0).unwrap()
    }),
    ("write of nothing new behind the end", |path, _| {
        let file = written(path, 0);
        file.write_all_at(b"x", file.metadata().unwrap().len()).unwrap();
    }),
    ("direct write", |path, _| {
        let mut page = sys::Aligned([0; 4096]);
        let file = written(path, libc::O_DIRECT);
        file.read_exact_at(&mut page.0, 0).unwrap();
        file.write_all_at(&page.0, 0).unwrap();
    }),
    ("copy_file_range", |path, program| {
        let (from, to) = (File::open(program).unwrap(), written(path, 0));
        assert!(copy_file_range(&from, Some(&mut 0), &to, Some(&mut 0), 8192).unwrap() > 0);
    }),
    ("allocate", |path, _| {
        fallocate(written(path, 0), FallocateFlags::KEEP_SIZE, 1 << 20, 4096).unwrap()
    }),
    ("punch", |path, _| {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(written(path, 0), punch, 1 << 20, 4096).unwrap();
    }),
    ("zero", |path, _| {
        fallocate(written(path, 0), FallocateFlags::ZERO_RANGE, 1 << 20, 4096).unwrap()
    }),
    ("truncate", |path, _| written(path, 0).set_len(1 << 20).unwrap()),
];

fn through_a_mapping(path: &Path) {
    let file = written(path, 0);
    sys::with_mapping(&file, 4096, true, |bytes| {
        let first = std::hint::black_box(bytes[0]);
        bytes[0] = first;
    })
    .unwrap();
}

/// The program at `name` is root's, set-id, and everybody may write it; what a user has changed runs as that user.
fn is_harmless(mount: &Mount, what: &str, change: impl FnOnce(&Path) + Send) {
    let path = mount.path(what);
    fs::copy(PROGRAM, &path).unwrap();
    set_mode(&path, 0o6777);
    let root = ["0".to_owned(), "0".to_owned()];
    assert_eq!(
        as_user(|| runs_as(&path)),
        root,
        "{what}: set-id bits have no effect here"
    );
    let user = [USER.to_string(), USER.to_string()];
    assert_eq!(
        as_user(|| {
            change(&path);
            runs_as(&path)
        }),
        user,
        "{what}"
    );
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777, "{what}");
}

#[test]
fn what_a_user_writes_runs_as_the_user() {
    for cache in CACHES {
        let Some(mount) = mounted(cache) else { return };
        let program = mount.path("program");
        fs::copy(PROGRAM, &program).unwrap();
        for (what, change) in WAYS {
            is_harmless(&mount, &format!("{what}, {cache:?}"), |path| change(path, &program));
        }
        if cache != CacheMode::Writeback {
            is_harmless(&mount, "mapping", through_a_mapping);
        }
    }
}

#[test]
fn root_keeps_the_bits() {
    for cache in CACHES {
        let Some(mount) = mounted(cache) else { return };
        let (path, program) = (mount.path("path"), mount.path("program"));
        fs::copy(PROGRAM, &program).unwrap();
        fs::copy(PROGRAM, &path).unwrap();
        for (what, change) in WAYS {
            set_mode(&path, 0o6777);
            change(&path, &program);
            let mode = fs::metadata(&path).unwrap().mode() & 0o7777;
            assert_eq!(mode, 0o6777, "{what}, {cache:?}");
        }
    }
}

/// As rsync, make and git ask: by mtime.
#[test]
fn a_store_through_a_mapping_is_seen_in_the_times() {
    for cache in CACHES {
        let Some(mount) = mounted(cache) else { return };
        let path = mount.path("file");
        fs::write(&path, [b'.'; 4096]).unwrap();
        let file = written(&path, 0);
        file.sync_all().unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        let times = || {
            fs::metadata(&path)
                .map(|m| (m.mtime(), m.ctime(), m.ctime_nsec()))
                .unwrap()
        };
        let before = times();
        assert_eq!(before.0, 0);
        let store = || sys::with_mapping(&file, 4096, true, |bytes| bytes[9] = bytes[9].wrapping_add(1)).unwrap();
        store();
        assert!(times().0 > 0, "{cache:?}: mtime");
        // The kernel's clock has ticks.
        let moves = (0..10_000).any(|_| {
            store();
            (times().1, times().2) > (before.1, before.2)
        });
        assert!(moves, "{cache:?}: ctime");
    }
}

/// A page that another process reads while an asynchronous direct write is under way is not what is read behind it. Only
/// where another thread reads requests while the write waits: on the rings one of the same processor might wait behind it.
#[test]
fn reads_behind_asynchronous_direct_writes_are_not_stale() {
    let _held = caches();
    if TRANSPORT == TransportKind::Uring {
        return;
    }
    let (write_gate, lever) = gate();
    let probe = Probe {
        write_gate: Some(write_gate),
        ..Probe::default()
    };
    let config = MountConfig {
        threads: Some(3),
        ..MountConfig::default()
    };
    let Some(mount) = Mount::with(Arc::new(probe), config) else {
        return;
    };
    let path = mount.path("file");
    fs::write(&path, [b'.'; 8192]).unwrap();
    let (direct, cached) = (written(&path, libc::O_DIRECT), File::open(&path).unwrap());
    let read = || {
        let mut page = [0; 4096];
        cached.read_exact_at(&mut page, 0).unwrap();
        page[4095]
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| sys::write_asynchronously(&direct, &[WAITS; 4096]));
        lever.arrived.recv().unwrap();
        assert_eq!(read(), b'.', "the page is cached as it was");
        lever.go.send(()).unwrap();
        writer.join().unwrap();
    });
    assert_eq!(read(), WAITS);
}

/// Where the tests below store, in a file of this size.
const STORED_AT: u64 = 400 << 10;
const SPARSE: u64 = 1 << 20;

/// Each copies the first file to the second one when told. tar(1) goes by blocks before it asks for data (S-20.31).
const COPIES: [&str; 2] = [
    "read go && exec cp --reflink=never --sparse=auto \"$0\" \"$1\"",
    "read go && tar -C \"${0%/*}\" -S -c \"${0##*/}\" | tar -x -O >\"$1\"",
];

/// Who looks for data in a file, and a copy of it that waits. Both are there before the file is written: the kernel sends what it
/// keeps of a file when any descriptor of it is closed, such as those that a new program does not get, and those of another copy.
struct Copier {
    source: PathBuf,
    copy: PathBuf,
    looks: File,
    copies: Child,
}

impl Copier {
    fn of(source: &Path, how: &str) -> Copier {
        let copy = source.with_extension("copy");
        let mut copies = Command::new("sh");
        copies.args(["-c", how]).args([source, &copy]).stdin(Stdio::piped());
        Copier {
            copies: copies.spawn().unwrap(),
            looks: File::open(source).unwrap(),
            source: source.to_owned(),
            copy,
        }
    }

    /// `text`, somewhere in this file of `size` bytes, is found and copied.
    fn finds(mut self, size: u64, what: &str) {
        let at = |from| seek(&self.looks, from);
        assert!(at(SeekFrom::Data(STORED_AT - 1)).unwrap() <= STORED_AT, "{what}");
        assert!(at(SeekFrom::Hole(STORED_AT)).unwrap() >= STORED_AT + 4, "{what}");
        assert_eq!(at(SeekFrom::Hole(size - 1)), Ok(size), "{what}");
        assert_eq!(at(SeekFrom::Data(size)), Err(Errno::NXIO), "{what}");
        assert_eq!(at(SeekFrom::Hole(size)), Err(Errno::NXIO), "{what}");
        self.copies(what);
    }

    fn copies(&mut self, what: &str) {
        self.copies.stdin.take().unwrap().write_all(b"\n").unwrap();
        assert!(self.copies.wait().unwrap().success(), "{what}");
        let bytes = fs::read(&self.source).unwrap();
        assert_eq!(bytes[STORED_AT as usize..][..4], *b"text", "{what}");
        assert!(bytes == fs::read(&self.copy).unwrap(), "{what}: the copy differs");
    }
}

/// S-20.29, S-20.31: whether its blocks were told before it was opened for storing, or behind.
#[test]
fn a_copy_has_what_was_stored_through_a_mapping() {
    let _held = caches();
    for (cache, how) in CACHES.into_iter().flat_map(|cache| COPIES.map(|how| (cache, how))) {
        let Some(mount) = mounted(cache) else { return };
        let path = mount.path("mapped");
        File::create_new(&path).unwrap().set_len(SPARSE).unwrap();
        let copier = Copier::of(&path, how);
        let file = written(&path, 0);
        is_copied_while_mapped(&file, copier, &format!("{cache:?}, {how}"));
        drop(file);
        let created = mount.path("created");
        let file = written(&created, libc::O_CREAT);
        file.set_len(SPARSE).unwrap();
        is_copied_while_mapped(&file, Copier::of(&created, how), &format!("{cache:?}, created, {how}"));
        if cache == CacheMode::Writeback {
            continue;
        }
        // Behind the last such handle, which the kernel releases after close(2), holes are told again.
        let file = File::open(&path).unwrap();
        while seek(&file, SeekFrom::Data(0)).unwrap() != STORED_AT {
            std::thread::yield_now();
        }
        assert_eq!(
            seek(&file, SeekFrom::Data(STORED_AT + 4096)),
            Err(Errno::NXIO),
            "{cache:?}"
        );
    }
}

/// The copier finds what is stored through a mapping of the file, which stays while it copies.
fn is_copied_while_mapped(file: &File, copier: Copier, what: &str) {
    let (mut here, mut there) = UnixStream::pair().unwrap();
    // A test that fails is not waited for: the child that stores has this end open, too.
    there.set_read_timeout(Some(BUSY_MAX)).unwrap();
    std::thread::scope(|scope| {
        let storing = scope.spawn(|| {
            sys::with_unsynced_mapping(file, SPARSE as usize, |bytes| {
                bytes[STORED_AT as usize..][..4].copy_from_slice(b"text");
                let _ = there.write_all(b"s");
                let _ = there.read(&mut [0]);
            })
        });
        here.read_exact(&mut [0]).unwrap();
        copier.finds(SPARSE, what);
        here.write_all(b"e").unwrap();
        storing.join().unwrap().unwrap();
    });
}

/// S-20.29, S-20.31: also where the server knows a smaller file than the kernel, whoever has it open, and by whatever call.
#[test]
fn a_copy_has_what_the_kernel_holds_back() {
    let _held = caches();
    for (size, how) in [0, SPARSE].into_iter().flat_map(|size| COPIES.map(|how| (size, how))) {
        let Some(mount) = mounted(CacheMode::Writeback) else {
            return;
        };
        let (path, created) = (mount.path("open"), mount.path("created"));
        File::create(&path).unwrap().set_len(size).unwrap();
        let copier = Copier::of(&path, how);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(b"text", STORED_AT).unwrap();
        copier.finds(size.max(STORED_AT + 4), &format!("of {size} bytes, {how}"));
        let file = File::create_new(&created).unwrap();
        file.set_len(size).unwrap();
        let copier = Copier::of(&created, how);
        file.write_all_at(b"text", STORED_AT).unwrap();
        copier.finds(size.max(STORED_AT + 4), &format!("created, of {size} bytes, {how}"));
    }
}

/// S-20.31.
#[test]
fn a_file_without_data_has_no_blocks_when_it_is_closed() {
    let _held = caches();
    for cache in CACHES {
        let Some(mount) = mounted(cache) else { return };
        let path = mount.path("sparse");
        let file = written(&path, libc::O_CREAT);
        file.set_len(SPARSE).unwrap();
        let blocks = || fs::metadata(&path).unwrap().blocks();
        assert_eq!(blocks(), 8, "{cache:?}");
        drop(file);
        // A second later the kernel asks again.
        while blocks() > 0 {
            std::thread::yield_now();
        }
    }
}
