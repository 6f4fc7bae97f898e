//! The calls every program makes.

use super::TRANSPORT;
use super::support::Mount;
use keepfs_fuse::protocol::Opcode;
use keepfs_fuse::{OpTimes, TransportKind};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};

#[test]
fn create_write_read_stat() {
    let Some(m) = Mount::model() else { return };
    let path = m.path("file");
    fs::write(&path, b"hello, kernel").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hello, kernel");
    let meta = fs::metadata(&path).unwrap();
    assert_eq!((meta.len(), meta.nlink(), meta.uid()), (13, 1, 0));
    assert!(meta.is_file());
    m.unmount().unwrap();
}

#[test]
fn large_file_keeps_every_byte() {
    let Some(m) = Mount::model() else { return };
    let data: Vec<u8> = (0..5_000_123u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    fs::write(m.path("big"), &data).unwrap();
    assert!(fs::read(m.path("big")).unwrap() == data);
    let file = OpenOptions::new().read(true).write(true).open(m.path("big")).unwrap();
    file.write_all_at(b"0123456789", 4_095).unwrap();
    let mut back = [0; 12];
    file.read_exact_at(&mut back, 4_094).unwrap();
    assert_eq!(&back[1..11], b"0123456789");
    assert_eq!((back[0], back[11]), (data[4_094], data[4_105]));
}

#[test]
fn ten_thousand_entries_are_listed_once_each() {
    let Some(m) = Mount::model() else { return };
    let dir = m.path("many");
    fs::create_dir(&dir).unwrap();
    for i in 0..10_000 {
        File::create(dir.join(format!("entry-{i:05}"))).unwrap();
    }
    for _ in 0..2 {
        let mut names: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names.len(), 10_000);
        assert!(
            names
                .iter()
                .enumerate()
                .all(|(i, name)| name.to_str() == Some(&format!("entry-{i:05}")))
        );
    }
    let sizes: u64 = fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().metadata().unwrap().len())
        .sum();
    assert_eq!(sizes, 0);
    fs::remove_dir_all(&dir).unwrap();
    assert_eq!(fs::read_dir(m.root()).unwrap().count(), 0);
}

#[test]
fn names_move_and_vanish() {
    let Some(m) = Mount::model() else { return };
    fs::write(m.path("a"), b"A").unwrap();
    fs::write(m.path("b"), b"B").unwrap();
    fs::hard_link(m.path("a"), m.path("a2")).unwrap();
    assert_eq!(fs::metadata(m.path("a")).unwrap().nlink(), 2);
    fs::rename(m.path("a"), m.path("b")).unwrap();
    assert_eq!(fs::read(m.path("b")).unwrap(), b"A");
    assert!(!m.path("a").exists());
    symlink("b", m.path("link")).unwrap();
    assert_eq!(fs::read_link(m.path("link")).unwrap().to_str(), Some("b"));
    assert_eq!(fs::read(m.path("link")).unwrap(), b"A");
    fs::remove_file(m.path("b")).unwrap();
    assert_eq!(fs::metadata(m.path("a2")).unwrap().nlink(), 1);
    assert!(fs::read(m.path("link")).is_err());
}

#[test]
fn unlinked_file_lives_while_open() {
    let Some(m) = Mount::model() else { return };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(m.path("gone"))
        .unwrap();
    file.write_all(b"still here").unwrap();
    fs::remove_file(m.path("gone")).unwrap();
    file.sync_all().unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "still here");
    assert_eq!(file.metadata().unwrap().nlink(), 0);
}

#[test]
fn attributes_change() {
    let Some(m) = Mount::model() else { return };
    let path = m.path("f");
    fs::write(&path, b"1234567890").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::chown(&path, Some(12), Some(34)).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(4).unwrap();
    let before_1970 = std::time::UNIX_EPOCH - std::time::Duration::new(86_400, 500);
    file.set_modified(before_1970).unwrap();
    let meta = fs::metadata(&path).unwrap();
    assert_eq!(
        (meta.mode() & 0o7777, meta.uid(), meta.gid(), meta.len()),
        (0o640, 12, 34, 4)
    );
    assert_eq!(meta.modified().unwrap(), before_1970);
    assert!(meta.created().is_ok(), "statx shows the time of birth");
    let truncated = OpenOptions::new().write(true).truncate(true).open(&path).unwrap();
    assert_eq!(truncated.metadata().unwrap().len(), 0);
}

#[test]
fn appends_from_many_threads_lose_nothing() {
    let Some(m) = Mount::model() else { return };
    let path = m.path("log");
    File::create(&path).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let path = &path;
            scope.spawn(move || {
                let mut file = OpenOptions::new().append(true).open(path).unwrap();
                for _ in 0..250 {
                    file.write_all(&[thread; 100]).unwrap();
                }
            });
        }
    });
    let log = fs::read(&path).unwrap();
    assert_eq!(log.len(), 100_000);
    assert!(log.chunks(100).all(|chunk| chunk.iter().all(|b| *b == chunk[0])));
}

#[test]
fn a_mount_tells_what_it_was_asked_for_and_where_the_time_went() {
    let Some(m) = Mount::model() else { return };
    let mut file = File::create(m.path("f")).unwrap();
    file.write_all(b"x").unwrap();
    file.sync_all().unwrap();
    drop(file);
    let tally = m.tally.clone();
    // Replies are counted after they are sent.
    m.unmount().unwrap();
    let all: Vec<OpTimes> = tally.all();
    let of = |op| *all.iter().find(|times| times.op == op).unwrap();
    for op in [Opcode::Create, Opcode::Write, Opcode::Fsync] {
        assert_eq!(of(op).requests, 1);
        assert!(!of(op).handled.is_zero());
    }
    let fsync = of(Opcode::Fsync);
    assert_eq!(fsync.handed_over, 1, "an fsync may sleep");
    assert!(!fsync.waited.is_zero() && !fsync.replied.is_zero());
    if TRANSPORT == TransportKind::Dev {
        assert!(!of(Opcode::Create).replied.is_zero());
    }
    assert!(
        !all.iter().any(|times| times.op == Opcode::Symlink),
        "nobody asked for that"
    );
}
