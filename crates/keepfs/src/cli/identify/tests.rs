//! What udev is told of a pool, and what is taken for one.

use super::*;
use keepfs::CreateOptions;
use std::io::Write;
use std::os::unix::fs::FileExt;

fn pool(label: &str) -> (tempfile::NamedTempFile, Pool) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let options = CreateOptions {
        size: Some(8 << 20),
        label: label.into(),
        force: true,
        ..CreateOptions::default()
    };
    file.flush().unwrap();
    keepfs::Pool::create(file.path(), &options).unwrap();
    let pool = at(file.path()).unwrap().unwrap();
    (file, pool)
}

#[test]
fn udev_is_told_what_blkid_would_tell() {
    let (_file, pool) = pool("Fotos 1/2");
    let id = pool.id.to_string();
    for text in [id.clone(), id.replace('-', ""), id.to_uppercase()] {
        assert!(is_id(&pool.id, &text), "{text}");
    }
    assert!(!is_id(&pool.id, &id[1..]));
    assert_eq!(
        id.match_indices('-').map(|(at, _)| at).collect::<Vec<_>>(),
        [8, 13, 18, 23]
    );
    let told = format!(
        "ID_FS_USAGE=filesystem\nID_FS_TYPE=keepfs\nID_FS_VERSION=1\nID_FS_UUID={id}\nID_FS_UUID_ENC={id}\n\
         ID_FS_LABEL=Fotos_1_2\nID_FS_LABEL_ENC=Fotos\\x201\\x2f2\n"
    );
    assert_eq!(for_udev(&pool), told);
}

/// Who makes an image chooses no property but those.
#[test]
fn a_hostile_label_is_one_word() {
    let (_file, pool) = pool("a\nSYSTEMD_WANTS=evil.service\u{85}\u{2028}ü\"\\");
    let told = for_udev(&pool);
    assert_eq!(told.lines().count(), 7, "{told}");
    assert!(told.contains("ID_FS_LABEL=a_SYSTEMD_WANTS=evil.service_"), "{told}");
    assert!(
        told.contains("LABEL_ENC=a\\x0aSYSTEMD_WANTS=evil.service\\xc2\\x85"),
        "{told}"
    );
    assert!(told.chars().all(|c| c == '\n' || !c.is_control()), "{told}");
}

/// S-2.1: the other slots outlive whatever is written over a pool's beginning, and then say nothing.
#[test]
fn what_begins_as_something_else_is_no_pool() {
    let (file, _) = pool("x");
    file.as_file().write_all_at(b"\xebX\x90mkfs.fat", 0).unwrap();
    assert!(at(file.path()).unwrap().is_none());
    file.as_file().write_all_at(&MAGIC, 0).unwrap();
    assert!(at(file.path()).unwrap().is_some(), "a torn one: the others tell");
    let empty = tempfile::NamedTempFile::new().unwrap();
    assert!(at(empty.path()).unwrap().is_none());
}
