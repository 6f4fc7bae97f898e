//! What Linux programs use beyond POSIX: flags of rename, O_TMPFILE, handles, ioctl(2), xattrs, ACLs, holes, mappings.

use super::TRANSPORT;
use super::support::{Mount, mount_here, possible};
use crate::caches::caches;
use crate::probe::Probe;
use crate::sys;
use keepfs_fuse::{CacheMode, MountConfig, TransportKind};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, IFlags, Mode, OFlags, RenameFlags, SeekFrom, StatxFlags, Timespec, Timestamps,
    UTIME_NOW, XattrFlags, copy_file_range, fallocate, fcntl_setfl, futimens, getxattr, ioctl_getflags, ioctl_setflags,
    linkat, listxattr, openat, removexattr, renameat_with, seek, setxattr, statx,
};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::sync::Arc;

const FSGETXATTR: u32 = 0x801c_581f;
const FSSETXATTR: u32 = 0x401c_5820;
const GETVERSION: u32 = 0x8008_7601;
const SHUTDOWN: u32 = 0x8004_587d;
const FITRIM_LIKE: u32 = 0x8008_7699;

fn probe_mount(config: MountConfig) -> Option<(Mount, Arc<std::sync::Mutex<Vec<String>>>)> {
    let probe = Probe::default();
    let log = probe.log.clone();
    Some((Mount::with(Arc::new(probe), config)?, log))
}

fn logged(log: &std::sync::Mutex<Vec<String>>, what: &str) -> Vec<String> {
    log.lock()
        .unwrap()
        .iter()
        .filter(|line| line.starts_with(what))
        .cloned()
        .collect()
}

#[test]
fn rename_flags() {
    let Some(m) = Mount::model() else { return };
    fs::write(m.path("a"), b"A").unwrap();
    fs::write(m.path("b"), b"B").unwrap();
    let rename = |flags| renameat_with(CWD, m.path("a"), CWD, m.path("b"), flags);
    assert_eq!(rename(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    rename(RenameFlags::EXCHANGE).unwrap();
    assert_eq!(
        (fs::read(m.path("a")).unwrap(), fs::read(m.path("b")).unwrap()),
        (b"B".to_vec(), b"A".to_vec())
    );
    rename(RenameFlags::WHITEOUT).unwrap();
    let whiteout = fs::metadata(m.path("a")).unwrap();
    assert_eq!((whiteout.mode() & 0o170000, whiteout.rdev()), (0o020000, 0));
}

#[test]
fn tmpfile_gets_a_name() {
    let Some(m) = Mount::model() else { return };
    let flags = OFlags::TMPFILE | OFlags::RDWR;
    let file = File::from(openat(CWD, m.root(), flags, Mode::from_raw_mode(0o644)).unwrap());
    file.write_all_at(b"now you see me", 0).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    assert_eq!(fs::read_dir(m.root()).unwrap().count(), 0);
    linkat(&file, "", CWD, m.path("named"), AtFlags::EMPTY_PATH).unwrap();
    assert_eq!(fs::read(m.path("named")).unwrap(), b"now you see me");
}

/// The names in `dir`, sorted.
fn listed(dir: &std::path::Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// S-20.28.
#[test]
fn a_listing_is_remembered_until_the_directory_changes() {
    let _held = caches();
    let Some((m, log)) = probe_mount(MountConfig::default()) else {
        return;
    };
    let dir = m.path("dir");
    fs::create_dir(&dir).unwrap();
    let mut names: Vec<String> = (0..300).map(|n| format!("name{n:03}")).collect();
    names.iter().for_each(|name| fs::write(dir.join(name), b"").unwrap());
    // The first may be told in pieces, of which the kernel remembers each.
    assert_eq!(listed(&dir), names);
    // The end of one may be told by another thread than the next one's beginning, and behind that: it is not the one then.
    let remembered = (0..100).any(|_| {
        let asked = logged(&log, "readdir").len();
        assert_eq!(listed(&dir), names);
        logged(&log, "readdir").len() == asked
    });
    assert!(remembered, "the kernel asked each time");
    for (n, change) in ["made", "renamed", "linked", "removed", "made again"]
        .into_iter()
        .enumerate()
    {
        let own = format!("own{n}");
        match change {
            "renamed" => {
                fs::rename(dir.join(names.remove(9)), dir.join(&own)).unwrap();
                names.push(own);
            }
            "linked" => {
                fs::hard_link(dir.join("own0"), dir.join(&own)).unwrap();
                names.push(own);
            }
            "removed" => fs::remove_file(dir.join(names.remove(7))).unwrap(),
            _ => {
                fs::write(dir.join(&own), b"").unwrap();
                names.push(own);
            }
        }
        names.sort();
        for again in 0..2 {
            assert_eq!(listed(&dir), names, "{change}, look {again}");
        }
    }
    // One that is open since before goes on without those that went, and a rewound one has what there is.
    let mut open = fs::read_dir(&dir).unwrap();
    open.next().unwrap().unwrap();
    names.iter().for_each(|name| fs::remove_file(dir.join(name)).unwrap());
    assert_eq!(listed(&dir), Vec::<String>::new());
    drop(open);
    fs::remove_dir(&dir).unwrap();
}

/// The names that one getdents64(2) of this handle tells.
fn piece(dir: &File) -> Vec<String> {
    let mut room = Vec::with_capacity(4096);
    let mut told = Vec::new();
    let mut entries = rustix::fs::RawDir::new(dir, room.spare_capacity_mut());
    loop {
        match entries.next() {
            Some(entry) => told.push(entry.unwrap().file_name().to_str().unwrap().to_owned()),
            None => return told,
        }
        if entries.is_buffer_empty() {
            return told;
        }
    }
}

/// All names that this handle has still to tell, sorted, without `.` and `..`.
fn rest(dir: &File, mut told: Vec<String>) -> Vec<String> {
    loop {
        let more = piece(dir);
        if more.is_empty() {
            told.retain(|name| name != "." && name != "..");
            told.sort();
            return told;
        }
        told.extend(more);
    }
}

/// S-20.28: one began before the change and completes what the kernel remembers while the other one, begun behind the change,
/// is on its way.
#[test]
fn a_listing_that_began_before_a_change_tells_nobody_else() {
    let _held = caches();
    let Some(m) = Mount::model() else { return };
    let dir = m.path("dir");
    fs::create_dir(&dir).unwrap();
    let mut names: Vec<String> = (0..600).map(|n| format!("name{n:03}")).collect();
    names.iter().for_each(|name| fs::write(dir.join(name), b"").unwrap());
    let open = || {
        OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(&dir)
            .unwrap()
    };
    for round in 0..20 {
        let before = open();
        // All but the end.
        let mut early = Vec::new();
        while early.len() < names.len() {
            early.extend(piece(&before));
        }
        // Anywhere among the others: some are made in what the first has told, behind what the second tells at once.
        for n in 0..30 {
            let name = format!("more{round:02}-{n:02}");
            fs::write(dir.join(&name), b"").unwrap();
            names.push(name);
            fs::remove_file(dir.join(names.remove(n * 7))).unwrap();
        }
        names.sort();
        let behind = open();
        let first = piece(&behind);
        rest(&before, early);
        assert_eq!(rest(&behind, first), names, "round {round}");
        assert_eq!(listed(&dir), names, "round {round}, opened later");
    }
}

/// S-20.28: which handles a server before this one gave nobody tells.
#[test]
fn behind_another_server_no_listing_is_remembered() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let config = MountConfig {
        mountpoint: dir.path().to_owned(),
        ..MountConfig::default()
    };
    let probe = Probe::default();
    let log = probe.log.clone();
    let vfs = Arc::new(probe);
    // It answers nothing, and unmounts in the end.
    let first = mount_here(vfs.clone(), &config).unwrap();
    // Over io_uring there is no other server.
    let Some(connection) = first.connection().unwrap() else {
        return;
    };
    let second = keepfs_fuse::resume(vfs, &config, connection).unwrap();
    let server = std::thread::spawn(move || second.run());
    fs::write(dir.path().join("name"), b"").unwrap();
    let mut asked = 0;
    for look in 0..3 {
        assert_eq!(listed(dir.path()), ["name"]);
        let now = logged(&log, "readdir").len();
        assert!(now > asked, "look {look} was answered by the kernel");
        asked = now;
    }
    drop(first);
    server.join().unwrap().unwrap();
}

#[test]
fn handles_survive_a_dropped_cache() {
    let _held = caches();
    let Some((m, log)) = probe_mount(MountConfig::default()) else {
        return;
    };
    fs::create_dir(m.path("dir")).unwrap();
    fs::write(m.path("dir/file"), b"by handle").unwrap();
    let handle = sys::handle_of(&m.path("dir/file")).unwrap();
    let root = File::open(m.root()).unwrap();
    fs::write("/proc/sys/vm/drop_caches", b"2").unwrap();
    let file = sys::open_handle(&root, &handle).unwrap();
    assert_eq!(std::io::read_to_string(file).unwrap(), "by handle");
    assert!(
        !logged(&log, "lookup_ino").is_empty(),
        "the cache was not dropped, so nothing was tested"
    );
    fs::remove_file(m.path("dir/file")).unwrap();
    // The kernel keeps an inode as long as something of its own holds it, so it may take more than one attempt.
    let gone = loop {
        fs::write("/proc/sys/vm/drop_caches", b"2").unwrap();
        if let Err(error) = sys::open_handle(&root, &handle) {
            break error;
        }
    };
    assert_eq!(gone.raw_os_error(), Some(libc::ESTALE));
}

#[test]
fn chattr_flags_on_files_and_directories() {
    let Some(m) = Mount::model() else { return };
    fs::write(m.path("f"), b"x").unwrap();
    fs::create_dir(m.path("d")).unwrap();
    for name in ["f", "d"] {
        let file = File::open(m.path(name)).unwrap();
        assert_eq!(ioctl_getflags(&file).unwrap(), IFlags::empty());
        ioctl_setflags(&file, IFlags::IMMUTABLE | IFlags::NODUMP).unwrap();
        assert_eq!(ioctl_getflags(&file).unwrap(), IFlags::IMMUTABLE | IFlags::NODUMP);
        let mut fsx = [0; 7];
        sys::ioctl_fsxattr(&file, FSGETXATTR, &mut fsx).unwrap();
        assert_eq!(fsx[0], 0x8 | 0x80);
        let denied = fs::set_permissions(m.path(name), fs::Permissions::from_mode(0o600)).unwrap_err();
        assert_eq!(denied.raw_os_error(), Some(libc::EPERM));
        fsx[0] = 0x40;
        sys::ioctl_fsxattr(&file, FSSETXATTR, &mut fsx).unwrap();
        assert_eq!(ioctl_getflags(&file).unwrap(), IFlags::NOATIME);
        let refused = ioctl_setflags(&file, IFlags::COMPRESSED).unwrap_err();
        assert_eq!(refused, Errno::OPNOTSUPP);
    }
    assert!(OpenOptions::new().write(true).open(m.path("f")).is_ok());
}

#[test]
fn chattr_is_seen_in_ctime() {
    let Some(m) = Mount::model() else { return };
    fs::write(m.path("f"), b"x").unwrap();
    let ctime = || {
        fs::metadata(m.path("f"))
            .map(|meta| (meta.ctime(), meta.ctime_nsec()))
            .unwrap()
    };
    let before = ctime();
    ioctl_setflags(File::open(m.path("f")).unwrap(), IFlags::NODUMP).unwrap();
    // The kernel is told by a thread of its own; without it the old time would stay for a day.
    while ctime() == before {
        std::thread::yield_now();
    }
}

/// A mount whose files the kernel caches so.
fn cached(cache: CacheMode) -> Option<Mount> {
    let config = MountConfig {
        cache,
        ..MountConfig::default()
    };
    Mount::with(Arc::new(Probe::default()), config)
}

#[test]
fn append_only_files_take_appends() {
    for cache in [CacheMode::Writethrough, CacheMode::Writeback, CacheMode::Direct] {
        let Some(m) = cached(cache) else { return };
        fs::write(m.path("log"), b"one ").unwrap();
        ioctl_setflags(File::open(m.path("log")).unwrap(), IFlags::APPEND).unwrap();
        let denied = OpenOptions::new().write(true).open(m.path("log")).unwrap_err();
        assert_eq!(denied.raw_os_error(), Some(libc::EPERM));
        let file = OpenOptions::new().append(true).open(m.path("log")).unwrap();
        std::io::Write::write_all(&mut &file, b"two").unwrap();
        file.sync_all().unwrap();
        assert_eq!(fs::read(m.path("log")).unwrap(), b"one two", "{cache:?}");
    }
}

/// Who may only append may do nothing else by another way: a shared mapping, a descriptor without `O_APPEND` any more, a copy.
/// S-20.13
#[test]
fn what_stands_in_an_append_only_file_stays() {
    for cache in [CacheMode::Writethrough, CacheMode::Writeback, CacheMode::Direct] {
        let Some(m) = cached(cache) else { return };
        fs::write(m.path("log"), b"one two").unwrap();
        fs::write(m.path("source"), b"three").unwrap();
        ioctl_setflags(File::open(m.path("log")).unwrap(), IFlags::APPEND).unwrap();
        let file = OpenOptions::new().read(true).append(true).open(m.path("log")).unwrap();
        let stored = sys::with_mapping(&file, 7, true, |bytes| bytes[0] = b'X');
        assert!(stored.is_err(), "{cache:?}: {stored:?}");
        fcntl_setfl(&file, OFlags::empty()).unwrap();
        let written = file.write_at(b"X", 2).unwrap_err();
        assert_eq!(written.raw_os_error(), Some(libc::EPERM), "{cache:?}");
        let source = File::open(m.path("source")).unwrap();
        let copied = copy_file_range(&source, Some(&mut 0), &file, Some(&mut 1), 5);
        assert_eq!(copied, Err(Errno::PERM), "{cache:?}");
        file.write_at(b" three", 7).unwrap();
        file.sync_all().unwrap();
        drop(file);
        assert_eq!(fs::read(m.path("log")).unwrap(), b"one two three", "{cache:?}");
    }
}

/// touch(1), with and without a time, in every mode of the kernel's cache. S-20.13
#[test]
fn times_of_an_immutable_file_are_not_set() {
    for cache in [CacheMode::Writethrough, CacheMode::Writeback, CacheMode::Direct] {
        let Some(m) = cached(cache) else { return };
        fs::write(m.path("f"), b"x").unwrap();
        let file = File::open(m.path("f")).unwrap();
        file.sync_all().unwrap();
        let set = |tv_sec, tv_nsec| {
            let time = Timespec { tv_sec, tv_nsec };
            futimens(
                &file,
                &Timestamps {
                    last_access: time,
                    last_modification: time,
                },
            )
        };
        ioctl_setflags(&file, IFlags::IMMUTABLE).unwrap();
        let before = fs::metadata(m.path("f")).unwrap().mtime();
        assert_eq!(set(0, UTIME_NOW), Err(Errno::PERM), "{cache:?}");
        assert_eq!(set(5, 0), Err(Errno::PERM), "{cache:?}");
        assert_eq!(fs::metadata(m.path("f")).unwrap().mtime(), before, "{cache:?}");
        ioctl_setflags(&file, IFlags::APPEND).unwrap();
        set(0, UTIME_NOW).unwrap();
        assert_eq!(set(5, 0), Err(Errno::PERM), "{cache:?}");
        ioctl_setflags(&file, IFlags::empty()).unwrap();
        set(5, 0).unwrap();
        assert_eq!(fs::metadata(m.path("f")).unwrap().mtime(), 5, "{cache:?}");
    }
}

#[test]
fn other_ioctls() {
    let Some((m, log)) = probe_mount(MountConfig::default()) else {
        return;
    };
    fs::write(m.path("f"), b"x").unwrap();
    let file = File::open(m.path("f")).unwrap();
    sys::ioctl_u32(&file, GETVERSION, &mut 0).unwrap();
    let unknown = sys::ioctl_u32(&file, FITRIM_LIKE, &mut 0).unwrap_err();
    assert_eq!(unknown.raw_os_error(), Some(libc::ENOTTY));
    let mut how = 2;
    sys::ioctl_u32(&file, SHUTDOWN, &mut how).unwrap();
    assert_eq!((logged(&log, "shutdown"), how), (vec!["shutdown false".to_owned()], 2));
    assert_eq!(
        fs::write(m.path("g"), b"x").unwrap_err().raw_os_error(),
        Some(libc::EIO)
    );
}

#[test]
fn xattrs_of_every_size() {
    let Some(m) = Mount::model() else { return };
    let path = m.path("f");
    fs::write(&path, b"x").unwrap();
    for size in [0, 1, 100, 4096, 30_000] {
        let value: Vec<u8> = (0..size).map(|i| i as u8).collect();
        setxattr(&path, "user.k", &value, XattrFlags::empty()).unwrap();
        let mut back = vec![0; 65_536];
        let len = getxattr(&path, "user.k", &mut back[..]).unwrap();
        assert_eq!(&back[..len], value);
    }
    let mut small = [0; 10];
    assert_eq!(getxattr(&path, "user.k", &mut small[..]), Err(Errno::RANGE));
    assert_eq!(setxattr(&path, "user.k", b"", XattrFlags::CREATE), Err(Errno::EXIST));
    assert_eq!(
        setxattr(&path, "user.other", b"", XattrFlags::REPLACE),
        Err(Errno::NODATA)
    );
    setxattr(&path, "trusted.t", b"1", XattrFlags::empty()).unwrap();
    let mut names = vec![0; 1024];
    let len = listxattr(&path, &mut names[..]).unwrap();
    let mut names: Vec<_> = names[..len].split(|b| *b == 0).filter(|n| !n.is_empty()).collect();
    names.sort();
    assert_eq!(names, [&b"trusted.t"[..], b"user.k"]);
    removexattr(&path, "user.k").unwrap();
    assert_eq!(getxattr(&path, "user.k", &mut small[..]), Err(Errno::NODATA));
}

#[test]
fn default_acl_decides_instead_of_umask() {
    let Some((m, log)) = probe_mount(MountConfig::default()) else {
        return;
    };
    let dir = m.path("d");
    fs::create_dir(&dir).unwrap();
    // version 2; user:: rwx, group:: r-x, mask:: rwx, other:: r-x, and user 1000: rwx
    let mut acl = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in [(1u16, 7u16, !0u32), (2, 7, 1000), (4, 5, !0), (16, 7, !0), (32, 5, !0)] {
        acl.extend_from_slice(&tag.to_le_bytes());
        acl.extend_from_slice(&perm.to_le_bytes());
        acl.extend_from_slice(&id.to_le_bytes());
    }
    setxattr(&dir, "system.posix_acl_default", &acl, XattrFlags::empty()).unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    assert_eq!(
        fs::metadata(dir.join("sub")).unwrap().mode() & 0o777,
        0o775,
        "the umask was applied"
    );
    fs::create_dir(m.path("plain")).unwrap();
    let umask = rustix::process::umask(Mode::from_raw_mode(0o022));
    rustix::process::umask(umask);
    assert!(
        logged(&log, "mknod")
            .iter()
            .all(|l| l.starts_with(&format!("mknod umask {:o}", umask.as_raw_mode())))
    );
    assert_eq!(
        fs::metadata(m.path("plain")).unwrap().mode() & 0o777,
        0o777 & !umask.as_raw_mode()
    );
}

#[test]
fn holes_and_allocation() {
    let Some(m) = Mount::model() else { return };
    let file = File::create(m.path("sparse")).unwrap();
    let reader = File::open(m.path("sparse")).unwrap();
    file.write_all_at(b"end", 1 << 40).unwrap();
    assert_eq!(seek(&reader, SeekFrom::Data(0)).unwrap(), 1 << 40);
    assert_eq!(seek(&reader, SeekFrom::Hole(0)).unwrap(), 0);
    assert_eq!(seek(&reader, SeekFrom::Data(1 << 41)), Err(Errno::NXIO));
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 8192).unwrap();
    fallocate(&file, FallocateFlags::ZERO_RANGE, 1 << 40, 1).unwrap();
    fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 8192).unwrap();
    assert_eq!(
        fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 0, 4096),
        Err(Errno::OPNOTSUPP)
    );
    let mut end = [0; 3];
    reader.read_exact_at(&mut end, 1 << 40).unwrap();
    assert_eq!(&end, b"\0nd");
    assert_eq!(file.metadata().unwrap().len(), (1 << 40) + 3);
}

#[test]
fn copies_stay_inside_the_server() {
    let Some((m, log)) = probe_mount(MountConfig::default()) else {
        return;
    };
    let data = vec![7u8; 300_000];
    fs::write(m.path("a"), &data).unwrap();
    let (from, to) = (File::open(m.path("a")).unwrap(), File::create(m.path("b")).unwrap());
    let mut done = 0;
    while done < data.len() {
        let (mut in_at, mut out_at) = (done as u64, done as u64);
        done += copy_file_range(&from, Some(&mut in_at), &to, Some(&mut out_at), data.len() - done).unwrap();
    }
    assert!(fs::read(m.path("b")).unwrap() == data);
    assert!(!logged(&log, "copy").is_empty(), "the kernel copied by itself");
}

#[test]
fn mappings_in_every_cache_mode() {
    for cache in [CacheMode::Writethrough, CacheMode::Writeback, CacheMode::Direct] {
        let config = MountConfig {
            cache,
            ..MountConfig::default()
        };
        let Some((m, _)) = probe_mount(config) else { return };
        fs::write(m.path("f"), vec![b'.'; 10_000]).unwrap();
        let file = OpenOptions::new().read(true).write(true).open(m.path("f")).unwrap();
        sys::with_mapping(&file, 10_000, true, |bytes| {
            bytes[4_090..4_100].copy_from_slice(b"0123456789")
        })
        .unwrap();
        let mut back = [0; 12];
        file.read_exact_at(&mut back, 4_089).unwrap();
        assert_eq!(&back, b".0123456789.", "{cache:?}");
        sys::with_mapping(&file, 10_000, false, |bytes| bytes.fill(b'!')).unwrap();
        file.read_exact_at(&mut back, 4_089).unwrap();
        assert_eq!(&back, b".0123456789.", "{cache:?}");
        drop(file);
        assert_eq!(fs::read(m.path("f")).unwrap().len(), 10_000);
    }
}

/// open(2): a program that is being executed is not truncated, whatever the access mode says.
#[test]
fn a_running_program_is_not_truncated() {
    for cache in [CacheMode::Writethrough, CacheMode::Writeback] {
        let config = MountConfig {
            cache,
            ..MountConfig::default()
        };
        let Some((mount, _)) = probe_mount(config) else { return };
        let path = mount.path("program");
        fs::copy("/bin/sleep", &path).unwrap();
        let size = fs::metadata(&path).unwrap().len();
        let mut program = loop {
            // Another test's child may still have the file open for writing, from before its exec.
            match std::process::Command::new(&path).arg("1000").spawn() {
                Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => std::thread::yield_now(),
                spawned => break spawned.unwrap(),
            }
        };
        for flags in [OFlags::WRONLY, OFlags::RDWR, OFlags::RDONLY | OFlags::TRUNC] {
            let opened = openat(CWD, &path, flags, Mode::empty());
            assert_eq!(opened.err(), Some(Errno::TXTBSY), "{flags:?}");
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), size);
        assert_eq!(program.try_wait().unwrap(), None, "it runs on");
        program.kill().unwrap();
        program.wait().unwrap();
        openat(CWD, &path, OFlags::RDONLY | OFlags::TRUNC, Mode::empty()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 0);
    }
}

#[test]
fn direct_mode_and_o_direct_bypass_the_cache() {
    let config = MountConfig {
        cache: CacheMode::Direct,
        ..MountConfig::default()
    };
    let Some((m, log)) = probe_mount(config) else { return };
    fs::write(m.path("f"), vec![1; 8192]).unwrap();
    let file = File::open(m.path("f")).unwrap();
    let mut buf = vec![0; 1000];
    for _ in 0..3 {
        file.read_exact_at(&mut buf, 100).unwrap();
    }
    assert_eq!(logged(&log, "read 1000").len(), 3);
    let o_direct = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(m.path("f"));
    assert!(o_direct.is_ok());
}

#[test]
fn writeback_merges_and_writethrough_does_not() {
    for (cache, merged) in [(CacheMode::Writeback, true), (CacheMode::Writethrough, false)] {
        let config = MountConfig {
            cache,
            ..MountConfig::default()
        };
        let Some((m, log)) = probe_mount(config) else { return };
        let file = File::create(m.path("f")).unwrap();
        for i in 0..64 {
            file.write_all_at(&[i as u8; 512], i * 512).unwrap();
        }
        file.sync_all().unwrap();
        let writes = logged(&log, "write");
        assert_eq!(writes.len() < 64, merged, "{cache:?}: {} writes", writes.len());
        assert!(
            writes.iter().all(|w| w.contains("writeback: true") == merged),
            "{writes:?}"
        );
        drop(file);
        assert_eq!(fs::read(m.path("f")).unwrap().len(), 64 * 512);
    }
}

#[test]
fn big_transfers_use_all_that_a_request_can_carry() {
    let most = match TRANSPORT {
        TransportKind::Uring => 128 << 10,
        _ => 1 << 20,
    };
    let _held = caches();
    let Some((m, log)) = probe_mount(MountConfig::default()) else {
        return;
    };
    fs::write(m.path("f"), vec![5; 4 << 20]).unwrap();
    assert!(!logged(&log, &format!("write {most}")).is_empty());
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(m.path("f"))
        .unwrap();
    drop(file);
    fs::write("/proc/sys/vm/drop_caches", b"1").unwrap();
    assert_eq!(fs::read(m.path("f")).unwrap().len(), 4 << 20);
    let largest = logged(&log, "read")
        .iter()
        .map(|l| l[5..].parse::<usize>().unwrap())
        .max()
        .unwrap();
    assert!(largest >= most / 2, "read-ahead is not tuned: largest read {largest}");
}

#[test]
fn birth_time_is_shown() {
    let Some(m) = Mount::model() else { return };
    fs::write(m.path("f"), b"x").unwrap();
    let shown = statx(CWD, m.path("f"), AtFlags::empty(), StatxFlags::ALL).unwrap();
    assert!(shown.stx_mask & StatxFlags::BTIME.bits() != 0);
    assert!(shown.stx_btime.tv_sec > 1_600_000_000);
}

#[test]
fn statfs_is_passed_on() {
    let Some(m) = Mount::model() else { return };
    let figures = rustix::fs::statfs(m.root()).unwrap();
    assert_eq!((figures.f_namelen, figures.f_type as u64), (255, 0x6573_5546));
}
