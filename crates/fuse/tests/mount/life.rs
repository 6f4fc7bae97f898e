//! The life of a mount: panics, notifications, aborts, options, other users, errors.

use super::support::{Mount, mount_here, possible};
use crate::caches::caches;
use crate::probe::{Probe, WAITS, gate};
use keepfs_fuse::{CacheMode, FuseError, How, MountConfig};
use keepfs_testkit::model::Model;
use keepfs_vfs::{Direct, Ino, Vfs};
use rustix::process::{Gid, Uid};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_panic_is_eio_and_the_mount_lives_on() {
    let Some(m) = Mount::with(Arc::new(Probe::default()), MountConfig::default()) else {
        return;
    };
    for i in 0..20 {
        let error = fs::metadata(m.path(format!("panic-{i}"))).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }
    fs::write(m.path("f"), b"alive").unwrap();
    assert_eq!(fs::read(m.path("f")).unwrap(), b"alive");
    m.unmount().unwrap();
}

#[test]
fn notifications_make_the_kernel_look_again() {
    let model = Arc::new(Model::default());
    let _held = caches();
    let Some(m) = Mount::with(model.clone(), MountConfig::default()) else {
        return;
    };
    fs::write(m.path("f"), b"old").unwrap();
    assert_eq!(fs::read(m.path("f")).unwrap(), b"old");
    assert!(!m.path("late").exists());
    let ino = Ino(fs::metadata(m.path("f")).unwrap().ino());
    model.write(ino, 0, b"newer", Default::default()).unwrap();
    let new = keepfs_vfs::NewInode::by_root(0o100644);
    model.mknod(Ino::ROOT, b"late", &new).unwrap();
    assert_eq!(
        fs::read(m.path("f")).unwrap(),
        b"old",
        "the kernel does not cache, so nothing is tested"
    );
    assert!(
        !m.path("late").exists(),
        "the kernel does not cache, so nothing is tested"
    );
    m.notifier.inval_inode(ino, 0, 0);
    m.notifier.inval_entry(Ino::ROOT, b"late");
    while fs::read(m.path("f")).unwrap() != b"newer" || !m.path("late").exists() {
        std::thread::yield_now();
    }
}

/// S-16.20: the sweep waits for a page of one file, for which a read is under way; whoever opens another one reads what is there
/// now, and its attributes are those of now for who holds it open. When the sweep has ended the kernel's cache counts again.
#[test]
fn who_opens_a_file_while_the_kernel_is_told_of_a_loss_reads_from_the_server() {
    for cache in [CacheMode::Writethrough, CacheMode::Writeback] {
        let (read_gate, lever) = gate();
        let probe = Arc::new(Probe {
            read_gate: Some(read_gate),
            ..Probe::default()
        });
        let config = MountConfig {
            cache,
            // No reader of requests waits at the gate.
            offload_bytes: 0,
            ..MountConfig::default()
        };
        let _held = caches();
        let Some(m) = Mount::with(probe.clone(), config) else {
            return;
        };
        let new = keepfs_vfs::NewInode::by_root(0o100_644);
        let slow = probe.model.mknod(Ino::ROOT, b"slow", &new).unwrap().attr.ino;
        probe.model.write(slow, 0, &[WAITS], Default::default()).unwrap();
        fs::write(m.path("f"), b"lost").unwrap();
        let held = File::open(m.path("f")).unwrap();
        held.sync_all().unwrap();
        assert_eq!(fs::read(m.path("f")).unwrap(), b"lost");
        let ino = Ino(held.metadata().unwrap().ino());
        probe.model.write(ino, 0, b"now!", Default::default()).unwrap();
        let mode = keepfs_vfs::SetAttr {
            mode: Some(0o600),
            ..Default::default()
        };
        probe.model.setattr(ino, &mode).unwrap();
        assert_eq!(
            fs::read(m.path("f")).unwrap(),
            b"lost",
            "the kernel does not cache, so nothing is tested"
        );
        let path = m.path("slow");
        let reader = std::thread::spawn(move || fs::read(path).unwrap());
        lever.arrived.recv().unwrap();

        // who tells waits for no reply. Nobody may wait for the reader when the test fails.
        let told = m
            .notifier
            .disbelieve(&[slow, ino])
            .recv_timeout(Duration::from_secs(10));
        let mode = held.metadata().unwrap().permissions().mode() & 0o777;
        let seen = fs::read(m.path("f")).unwrap();
        drop(lever);
        reader.join().unwrap();
        told.expect("attributes wait for no reply");
        assert_eq!((mode, &seen[..]), (0o600, &b"now!"[..]), "{cache:?}");
        let reads = || {
            probe
                .log
                .lock()
                .unwrap()
                .iter()
                .filter(|line| line.starts_with("read "))
                .count()
        };
        loop {
            let before = reads();
            assert_eq!(fs::read(m.path("f")).unwrap(), b"now!");
            if reads() == before {
                break;
            }
        }
        drop(held);
        m.unmount().unwrap();
    }
}

#[test]
fn abort_ends_the_server_and_calls_unmount() {
    let probe = Probe::default();
    let log = probe.log.clone();
    let Some(mut m) = Mount::with(Arc::new(probe), MountConfig::default()) else {
        return;
    };
    fs::write(m.path("f"), b"x").unwrap();
    let held = File::open(m.path("f")).unwrap();
    assert!(matches!(m.unmounter.unmount(How::Gentle), Err(FuseError::Busy { .. })));
    let _ = m.unmounter.unmount(How::Force);
    assert!(matches!(m.join(), Err(FuseError::Aborted) | Ok(())));
    assert!(log.lock().unwrap().iter().any(|line| line == "unmount done"));
    drop(held);
    let _ = m.unmounter.unmount(How::Lazy);
}

/// What is lost is told, whatever ended the serving.
#[test]
fn an_unclean_end_is_told_after_an_abort_too() {
    for how in [How::Gentle, How::Force] {
        let probe = Probe {
            unmount_errno: Some(keepfs_vfs::Errno::EIO),
            ..Probe::default()
        };
        let Some(mut m) = Mount::with(Arc::new(probe), MountConfig::default()) else {
            return;
        };
        fs::write(m.path("f"), b"x").unwrap();
        let held = (how == How::Force).then(|| File::open(m.path("f")).unwrap());
        let _ = m.unmounter.unmount(how);
        let error = m.join().unwrap_err();
        assert!(
            matches!(
                error,
                FuseError::Unclean {
                    errno: keepfs_vfs::Errno::EIO,
                    ..
                }
            ),
            "{error}"
        );
        assert!(
            error.to_string().starts_with("unmounted, but not everything"),
            "{error}"
        );
        drop(held);
        let _ = m.unmounter.unmount(How::Lazy);
    }
}

#[test]
fn a_session_that_is_not_run_is_unmounted() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let config = MountConfig {
        mountpoint: dir.path().to_owned(),
        ..MountConfig::default()
    };
    let session = mount_here(Arc::new(Model::default()), &config).unwrap();
    let unmounter = session.unmounter();
    drop(session);
    assert!(matches!(
        unmounter.unmount(How::Gentle),
        Err(FuseError::NotMounted { .. })
    ));
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
}

#[test]
fn unmounter_leaves_other_mounts_alone() {
    let Some(m) = Mount::model() else { return };
    let first = m.unmounter.clone();
    let config = MountConfig {
        mountpoint: m.root().to_owned(),
        ..MountConfig::default()
    };
    let session = mount_here(Arc::new(Model::default()), &config).unwrap();
    let second = session.unmounter();
    let server = std::thread::spawn(move || session.run());
    assert!(matches!(first.unmount(How::Gentle), Err(FuseError::NotMounted { .. })));
    second.unmount(How::Gentle).unwrap();
    server.join().unwrap().unwrap();
    m.unmount().unwrap();
}

#[test]
fn options_do_what_they_say() {
    let config = MountConfig {
        read_only: true,
        nosuid: true,
        nodev: true,
        noexec: true,
        noatime: true,
        fsname: "some pool".into(),
        ..MountConfig::default()
    };
    let Some(m) = Mount::with(Arc::new(Model::default()), config) else {
        return;
    };
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = mounts
        .lines()
        .find(|line| line.contains(m.root().to_str().unwrap()))
        .unwrap();
    let fields: Vec<_> = line.split(' ').collect();
    assert_eq!((fields[0], fields[2]), ("some\\040pool", "fuse.keepfs"));
    let options: Vec<_> = fields[3].split(',').collect();
    for wanted in [
        "ro",
        "nosuid",
        "nodev",
        "noexec",
        "noatime",
        "default_permissions",
        "allow_other",
    ] {
        assert!(options.contains(&wanted), "{wanted} is missing: {line}");
    }
    assert_eq!(
        fs::write(m.path("f"), b"").unwrap_err().raw_os_error(),
        Some(libc::EROFS)
    );
}

/// Runs a shell command as an ordinary user; says whether it succeeded.
fn as_user(command: &str) -> bool {
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(command)
        .uid(12_345)
        .gid(12_345)
        .stderr(std::process::Stdio::null());
    shell.status().unwrap().success()
}

/// Lets everyone pass the directory the mount lies on.
fn open_up(m: &Mount) -> String {
    fs::set_permissions(m.root(), fs::Permissions::from_mode(0o1777)).unwrap();
    m.root().to_str().unwrap().to_owned()
}

#[test]
fn permissions_hold_against_other_users() {
    let Some(m) = Mount::model() else { return };
    let root = open_up(&m);
    fs::write(m.path("secret"), b"s").unwrap();
    fs::set_permissions(m.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(!as_user(&format!("cat {root}/secret")));
    assert!(!as_user(&format!("rm -f {root}/secret")), "sticky directory");
    assert!(as_user(&format!("umask 027; echo hi > {root}/mine && cat {root}/mine")));
    let mine = fs::metadata(m.path("mine")).unwrap();
    assert_eq!((mine.uid(), mine.gid(), mine.mode() & 0o777), (12_345, 12_345, 0o640));
}

#[test]
fn without_allow_other_others_stay_out() {
    let config = MountConfig {
        allow_other: false,
        ..MountConfig::default()
    };
    let Some(m) = Mount::with(Arc::new(Model::default()), config) else {
        return;
    };
    let root = open_up(&m);
    assert!(!as_user(&format!("ls {root}")));
}

#[test]
fn set_id_bits_die_when_another_writes() {
    let Some(m) = Mount::model() else { return };
    let root = open_up(&m);
    let actions = [
        ("write", format!("echo more >> {root}/write")),
        ("truncate", format!("truncate -s 1 {root}/truncate")),
        ("open", format!(": > {root}/open")),
    ];
    for (name, action) in actions {
        fs::write(m.path(name), b"program").unwrap();
        fs::set_permissions(m.path(name), fs::Permissions::from_mode(0o6777)).unwrap();
        assert_eq!(fs::metadata(m.path(name)).unwrap().mode() & 0o7777, 0o6777);
        assert!(as_user(&action));
        assert_eq!(fs::metadata(m.path(name)).unwrap().mode() & 0o7777, 0o777, "{name}");
    }
    let kept = m.path("kept");
    File::create(&kept).unwrap();
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o4755)).unwrap();
    fs::OpenOptions::new()
        .append(true)
        .open(&kept)
        .unwrap()
        .write_all(b"by root")
        .unwrap();
    assert_eq!(fs::metadata(&kept).unwrap().mode() & 0o7777, 0o4755, "root keeps them");
}

#[test]
fn a_member_by_a_supplementary_group_creates() {
    let probe = Probe::default();
    let log = probe.log.clone();
    let Some(m) = Mount::with(Arc::new(probe), MountConfig::default()) else {
        return;
    };
    let dir = m.path("team");
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::chown(&dir, Some(0), Some(777)).unwrap();
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o2775)).unwrap();
    open_up(&m);
    let script = format!(
        "setpriv --reuid 12345 --regid 12345 --groups 777 touch {}/f",
        dir.display()
    );
    assert!(Command::new("sh").arg("-c").arg(script).status().unwrap().success());
    assert_eq!(fs::metadata(dir.join("f")).unwrap().gid(), 777);
    let log = log.lock().unwrap();
    assert!(log.iter().any(|line| line.contains("by 12345:12345")), "{log:?}");
}

/// Group and mode of a file that this user of these groups makes with set-group-ID in `dir`.
fn made_by(id: u32, groups: &[u32], dir: &Path) -> (u32, u32) {
    let path = dir.join(format!("{id} {groups:?}"));
    let make = || {
        let groups: Vec<Gid> = groups.iter().map(|group| Gid::from_raw(*group)).collect();
        let (user, group) = (Uid::from_raw(id), Gid::from_raw(id));
        rustix::thread::set_thread_groups(&groups).unwrap();
        rustix::thread::set_thread_res_gid(group, group, group).unwrap();
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        let how = fs::OpenOptions::new().write(true).create_new(true).mode(0o2775).clone();
        how.open(&path).unwrap();
    };
    std::thread::scope(|scope| scope.spawn(make).join().unwrap());
    let made = fs::metadata(&path).unwrap();
    (made.gid(), made.mode())
}

/// S-20.27: by all groups of who makes it, as any file system of the kernel.
#[test]
fn a_new_file_keeps_set_group_id_by_who_makes_it() {
    let Some(m) = Mount::model() else { return };
    let kernels = tempfile::tempdir().unwrap();
    fs::set_permissions(kernels.path(), fs::Permissions::from_mode(0o755)).unwrap();
    open_up(&m);
    let teams = [m.path("team"), kernels.path().join("team")];
    for team in &teams {
        fs::create_dir(team).unwrap();
        std::os::unix::fs::chown(team, Some(0), Some(777)).unwrap();
        fs::set_permissions(team, fs::Permissions::from_mode(0o2777)).unwrap();
    }
    let cases: [(u32, &[u32], bool); 4] = [
        (12_345, &[], false),
        (12_345, &[776], false),
        (12_345, &[776, 777], true),
        (777, &[], true),
    ];
    for (id, groups, keeps) in cases {
        let [ours, theirs] = teams.each_ref().map(|team| made_by(id, groups, team));
        assert_eq!(ours, theirs, "{id} {groups:?}");
        assert_eq!((ours.0, ours.1 & 0o2000 != 0), (777, keeps), "{id} {groups:?}");
    }
}

#[test]
fn errors_are_sentences() {
    let with = |path: &Path| MountConfig {
        mountpoint: path.to_owned(),
        ..MountConfig::default()
    };
    let error = mount_here(Arc::new(Model::default()), &with(Path::new("/nonexistent/x")))
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "mount point /nonexistent/x: No such file or directory (os error 2)"
    );
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = mount_here(Arc::new(Model::default()), &with(file.path()))
        .err()
        .unwrap();
    assert!(error.to_string().ends_with("is not a directory"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let error = keepfs_fuse::unmount(dir.path(), How::Gentle).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("nothing of this file system is mounted on"),
        "{error}"
    );
}

#[test]
fn the_file_system_is_free_when_run_returns() {
    let model = Arc::new(Model::default());
    let Some(m) = Mount::with(
        model.clone(),
        MountConfig {
            offload_bytes: 0,
            ..MountConfig::default()
        },
    ) else {
        return;
    };
    for i in 0..20 {
        let file = File::create(m.path(format!("f{i}"))).unwrap();
        (&file).write_all(b"x").unwrap();
        file.sync_all().unwrap();
    }
    m.unmount().unwrap();
    assert_eq!(Arc::strong_count(&model), 1);
}

#[test]
fn many_mounts_come_and_go() {
    for _ in 0..20 {
        let Some(m) = Mount::model() else { return };
        fs::write(m.path("f"), b"x").unwrap();
        m.unmount().unwrap();
    }
}

#[test]
fn odd_configurations_work() {
    let base = MountConfig::default;
    let zero = std::time::Duration::ZERO;
    let configs = [
        MountConfig {
            request_timeout: Some(std::time::Duration::from_secs(3600)),
            ..base()
        },
        MountConfig {
            threads: Some(5),
            ..base()
        },
        MountConfig {
            threads: Some(0),
            workers_max: 0,
            ..base()
        },
        MountConfig { max_write: 1, ..base() },
        MountConfig {
            offload_bytes: 0,
            ..base()
        },
        MountConfig {
            attr_timeout: zero,
            entry_timeout: zero,
            negative_timeout: zero,
            ..base()
        },
        MountConfig {
            subtype: String::new(),
            max_background: 1,
            strictatime: true,
            ..base()
        },
    ];
    for config in configs {
        let shown = format!("{config:?}");
        let Some(m) = Mount::with(Arc::new(Model::default()), config) else {
            return;
        };
        let data: Vec<u8> = (0..300_000).map(|i| (i / 7) as u8).collect();
        fs::write(m.path("f"), &data).unwrap();
        File::open(m.path("f")).unwrap().sync_all().unwrap();
        assert!(fs::read(m.path("f")).unwrap() == data, "{shown}");
        assert_eq!(fs::read_dir(m.root()).unwrap().count(), 1, "{shown}");
        m.unmount().unwrap();
    }
}
