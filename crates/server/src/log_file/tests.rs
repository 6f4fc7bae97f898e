//! What is no log is refused before a byte is written, and nothing is waited for. S-18.17

use super::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::io::Write;
use std::os::unix::fs::FileExt;

#[test]
fn a_log_is_a_file_that_is_no_pool() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut begun = MAGIC.to_vec();
    begun.resize(4096, 0);
    for name in ["pool", "another"] {
        fs::write(at(name), &begun).unwrap();
    }
    // The pool's file is known also where its first page is not.
    fs::write(at("bad"), [0; 4096]).unwrap();
    mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    std::os::unix::fs::symlink("fifo", at("link")).unwrap();
    fs::create_dir(at("dir")).unwrap();
    // Another pool is known by any of its superblocks.
    let device = FileDevice::create(&at("torn"), 1024, FileOptions::default()).unwrap();
    keepfs_store::Store::format(std::sync::Arc::new(device), &Default::default()).unwrap();
    let torn = File::options().write(true).open(at("torn")).unwrap();
    torn.write_all_at(&[0; 4096], 0).unwrap();
    for (log, pool, what) in [
        ("fifo", "pool", "is a FIFO"),
        ("link", "pool", "is a FIFO"),
        ("dir", "pool", "is a directory"),
        ("pool", "pool", "is the pool itself"),
        ("bad", "bad", "is the pool itself"),
        ("another", "pool", "begins as a Keepfs pool does"),
        ("torn", "pool", "has a Keepfs pool in it"),
    ] {
        for said in [
            check(&at(log), &at(pool)).unwrap_err(),
            open(&at(log), &at(pool)).unwrap_err(),
        ] {
            assert!(said.to_string().contains(what), "{log}: {said}");
        }
    }
    assert_eq!(fs::read(at("another")).unwrap(), begun);
    for log in ["new", "new", "short"] {
        if log == "short" {
            fs::write(at(log), "K").unwrap();
        }
        check(&at(log), &at("pool")).unwrap();
        open(&at(log), &at("pool")).unwrap().write_all(b"line\n").unwrap();
    }
    assert_eq!(fs::read(at("new")).unwrap(), b"line\nline\n");
    assert_eq!(fs::metadata(at("new")).unwrap().mode() & 0o777, 0o600);
    open(Path::new("/dev/null"), &at("pool"))
        .unwrap()
        .write_all(b"line\n")
        .unwrap();
    assert!(check(&at("there/is/none"), &at("pool")).is_ok());
    assert!(open(&at("there/is/none"), &at("pool")).is_err());
}
