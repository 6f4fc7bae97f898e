//! The library: files by path, in this process, without a mount.

use keepfs::{CreateOptions, Errno, Error, FileKind, OpenOptions, Pool};
use std::path::Path;

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let options = CreateOptions {
            size: Some(64 << 20),
            ..CreateOptions::default()
        };
        Pool::create(dir.path().join("pool"), &options).unwrap();
        Place { dir }
    }

    fn open(&self) -> Pool {
        Pool::open(self.dir.path().join("pool"), &OpenOptions::default()).unwrap()
    }
}

fn errno<T>(result: keepfs::Result<T>) -> Errno {
    match result {
        Ok(_) => panic!("it succeeded"),
        Err(error) => error.errno(),
    }
}

#[test]
fn what_is_closed_is_there_when_opened_again() {
    let place = Place::new();
    let pool = place.open();
    pool.create_dir_all("a/b/c").unwrap();
    pool.write("a/b/c/large", vec![5; 3_000_000]).unwrap();
    pool.write("/a/b/c/large", vec![6; 2_000_000]).unwrap();
    pool.symlink("b/c", "a/short").unwrap();
    pool.close().unwrap();
    let pool = place.open();
    assert_eq!(pool.read("a/short/large").unwrap(), vec![6; 2_000_000]);
    assert_eq!(pool.metadata("a/short").unwrap().kind(), FileKind::Dir);
    assert_eq!(pool.symlink_metadata("a/short").unwrap().kind(), FileKind::Symlink);
    assert_eq!(pool.read_link("a/short").unwrap(), Path::new("b/c"));
    assert_eq!(pool.metadata("a/b/c/large").unwrap().len(), 2_000_000);
}

#[test]
fn what_is_synced_survives_a_process_that_just_ends() {
    let place = Place::new();
    let pool = place.open();
    pool.write("kept", "text").unwrap();
    pool.sync().unwrap();
    drop(pool);
    assert_eq!(place.open().read("kept").unwrap(), b"text");
}

#[test]
fn errors_name_the_file_and_the_reason() {
    let place = Place::new();
    let pool = place.open();
    pool.write("file", "").unwrap();
    pool.create_dir("dir").unwrap();
    pool.symlink("loop", "loop").unwrap();
    assert_eq!(errno(pool.read("nothing")), Errno::ENOENT);
    assert_eq!(errno(pool.read("dir")), Errno::EISDIR);
    assert_eq!(errno(pool.read("loop")), Errno::ELOOP);
    assert_eq!(errno(pool.write("nothing/file", "")), Errno::ENOENT);
    assert_eq!(errno(pool.write("file/file", "")), Errno::ENOTDIR);
    assert_eq!(errno(pool.create_dir("dir")), Errno::EEXIST);
    assert_eq!(errno(pool.create_dir("/")), Errno::EINVAL);
    assert_eq!(errno(pool.create_dir_all("file/below")), Errno::ENOTDIR);
    assert_eq!(errno(pool.list("file")), Errno::ENOTDIR);
    assert_eq!(errno(pool.read_link("file")), Errno::EINVAL);
    assert_eq!(errno(pool.rename("nothing", "else")), Errno::ENOENT);
    pool.write("dir/child", "").unwrap();
    assert_eq!(errno(pool.remove("dir")), Errno::ENOTEMPTY);
    let Err(error) = pool.remove("nothing") else { panic!() };
    assert_eq!(
        error.to_string(),
        "cannot remove nothing: ENOENT: no such file or directory"
    );
}

#[test]
fn files_stay_open_without_a_name() {
    let place = Place::new();
    let pool = place.open();
    let file = pool.create_file("file").unwrap();
    pool.remove("file").unwrap();
    file.write_at(10, b"text").unwrap();
    assert_eq!(file.len().unwrap(), 14);
    let mut read = [1; 14];
    assert_eq!(file.read_at(0, &mut read).unwrap(), 14);
    assert_eq!(&read, b"\0\0\0\0\0\0\0\0\0\0text");
    file.set_len(0).unwrap();
    assert!(file.is_empty().unwrap());
    drop(file);
    assert_eq!(pool.list("").unwrap(), []);
}

#[test]
fn a_pool_is_open_once_for_writing_and_never_written_if_read_only() {
    let place = Place::new();
    let pool = place.open();
    let path = place.dir.path().join("pool");
    assert!(matches!(
        Pool::open(&path, &OpenOptions::default()),
        Err(Error::Device(keepfs_media::DeviceError::Busy { .. }))
    ));
    pool.write("file", "text").unwrap();
    pool.set_permissions("file", 0o640).unwrap();
    pool.sync().unwrap();
    drop(pool);
    let before = std::fs::read(&path).unwrap();
    let options = OpenOptions {
        read_only: true,
        ..OpenOptions::default()
    };
    let pool = Pool::open(&path, &options).unwrap();
    assert_eq!(pool.metadata("file").unwrap().permissions(), 0o640);
    assert_eq!(errno(pool.write("file", "more")), Errno::EROFS);
    pool.close().unwrap();
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn what_is_no_pool_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other");
    std::fs::write(&path, vec![0x5A; 1 << 20]).unwrap();
    let Err(error) = Pool::open(&path, &OpenOptions::default()) else {
        panic!()
    };
    assert!(matches!(error, Error::Pool { .. }));
    assert!(error.to_string().contains("not a usable Keepfs pool"), "{error}");
}
