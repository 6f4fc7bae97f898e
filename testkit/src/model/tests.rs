//! The corners of POSIX that are easily got wrong, one test each. Broad behaviour is checked against ext4.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use super::*;
use keepfs_vfs::{
    Direct, FileKind, LINK_MAX, NAME_MAX, NewInode, Owner, RenameFlags, S_ISGID, S_ISUID, SYMLINK_MAX, SetTime,
    XattrHow,
};

/// A model whose clock goes on by a second with every operation.
fn ticking() -> Model {
    let seconds = AtomicI64::new(1000);
    Model::with_clock(Arc::new(move || Time {
        sec: seconds.fetch_add(1, Ordering::Relaxed),
        nsec: 7,
    }))
}

fn new(kind: FileKind, permissions: u32) -> NewInode {
    NewInode {
        mode: kind.type_bits() | permissions,
        umask: 0o022,
        uid: 10,
        gid: 20,
        rdev: 0,
    }
}

fn file(vfs: &Model, parent: Ino, name: &str) -> Ino {
    vfs.mknod(parent, name.as_bytes(), &new(FileKind::File, 0o666))
        .unwrap()
        .attr
        .ino
}

fn dir(vfs: &Model, parent: Ino, name: &str) -> Ino {
    vfs.mknod(parent, name.as_bytes(), &new(FileKind::Dir, 0o777))
        .unwrap()
        .attr
        .ino
}

fn attr(vfs: &Model, ino: Ino) -> Attr {
    vfs.getattr(ino).unwrap()
}

fn read_all(vfs: &Model, ino: Ino) -> Vec<u8> {
    let mut buf = vec![0; attr(vfs, ino).size as usize];
    let n = vfs.read(ino, 0, &mut buf).unwrap();
    buf.truncate(n);
    buf
}

fn plain() -> RenameFlags {
    RenameFlags::default()
}

fn names(vfs: &Model, ino: Ino) -> Vec<String> {
    let mut names = Vec::new();
    vfs.readdir(ino, 0, &mut |e| {
        names.push(String::from_utf8_lossy(e.name).into_owned());
        true
    })
    .unwrap();
    names
}

#[test]
fn link_count_of_directories_is_two_and_subdirectories() {
    let fs = ticking();
    let a = dir(&fs, Ino::ROOT, "a");
    let b = dir(&fs, Ino::ROOT, "b");
    dir(&fs, a, "s");
    assert_eq!(
        [attr(&fs, Ino::ROOT).nlink, attr(&fs, a).nlink, attr(&fs, b).nlink],
        [4, 3, 2]
    );
    fs.rename(a, b"s", b, b"s", plain()).unwrap();
    assert_eq!([attr(&fs, a).nlink, attr(&fs, b).nlink], [2, 3]);
    file(&fs, a, "f");
    fs.rename(
        a,
        b"f",
        b,
        b"s",
        RenameFlags {
            exchange: true,
            ..plain()
        },
    )
    .unwrap();
    assert_eq!([attr(&fs, a).nlink, attr(&fs, b).nlink], [3, 2]);
    let s = fs.lookup(a, b"f").unwrap().attr.ino;
    assert_eq!(fs.lookup(s, b"..").unwrap().attr.ino, a);
    fs.rmdir(a, b"f").unwrap();
    assert_eq!(attr(&fs, s).nlink, 0);
    assert_eq!(fs.mknod(s, b"x", &new(FileKind::File, 0)).unwrap_err(), Errno::ENOENT);
}

#[test]
fn an_inode_without_names_lives_until_it_is_forgotten() {
    let fs = ticking();
    let f = file(&fs, Ino::ROOT, "f");
    fs.lookup(Ino::ROOT, b"f").unwrap();
    fs.unlink(Ino::ROOT, b"f").unwrap();
    fs.write(f, 0, b"still here", WriteHow::default()).unwrap();
    assert_eq!(fs.link(f, Ino::ROOT, b"g").unwrap_err(), Errno::ENOENT);
    fs.forget(f, 1);
    assert_eq!(read_all(&fs, f), b"still here");
    fs.forget(f, 1);
    assert_eq!(fs.getattr(f).unwrap_err(), Errno::ESTALE);
    assert_eq!(fs.inode_count(), 1);
}

#[test]
fn a_tmpfile_can_be_linked_once_it_has_no_name() {
    let fs = ticking();
    let t = fs.tmpfile(Ino::ROOT, &new(FileKind::File, 0o600)).unwrap().attr;
    assert_eq!(t.nlink, 0);
    assert_eq!(fs.link(t.ino, Ino::ROOT, b"t").unwrap().attr.nlink, 1);
    fs.unlink(Ino::ROOT, b"t").unwrap();
    assert_eq!(fs.link(t.ino, Ino::ROOT, b"t").unwrap_err(), Errno::ENOENT);
}

#[test]
fn rename_refuses_what_linux_refuses() {
    let fs = ticking();
    let a = dir(&fs, Ino::ROOT, "a");
    let b = dir(&fs, a, "b");
    file(&fs, Ino::ROOT, "f");
    let root = Ino::ROOT;
    let no = |old: (Ino, &str), new: (Ino, &str), flags| {
        fs.rename(old.0, old.1.as_bytes(), new.0, new.1.as_bytes(), flags)
            .unwrap_err()
    };
    let exchange = RenameFlags {
        exchange: true,
        ..plain()
    };
    assert_eq!(no((root, "a"), (b, "x"), plain()), Errno::EINVAL);
    assert_eq!(no((root, "a"), (a, "a"), plain()), Errno::EINVAL);
    assert_eq!(no((a, "b"), (root, "a"), plain()), Errno::ENOTEMPTY);
    assert_eq!(no((a, "b"), (root, "a"), exchange), Errno::EINVAL);
    assert_eq!(no((root, "f"), (root, "a"), plain()), Errno::EISDIR);
    assert_eq!(no((root, "a"), (root, "f"), plain()), Errno::ENOTDIR);
    assert_eq!(no((root, "f"), (root, "g"), exchange), Errno::ENOENT);
    assert_eq!(
        no(
            (root, "f"),
            (root, "a"),
            RenameFlags {
                no_replace: true,
                ..plain()
            }
        ),
        Errno::EEXIST
    );
    assert_eq!(
        no(
            (root, "f"),
            (root, "a"),
            RenameFlags {
                whiteout: Some(Owner::ROOT),
                ..exchange
            }
        ),
        Errno::EINVAL
    );
    assert_eq!(no((root, "."), (root, "x"), plain()), Errno::EBUSY);
    dir(&fs, root, "full");
    let full = fs.lookup(root, b"full").unwrap().attr.ino;
    file(&fs, full, "x");
    assert_eq!(no((a, "b"), (root, "full"), plain()), Errno::ENOTEMPTY);
}

#[test]
fn rename_of_two_names_of_one_inode_does_nothing() {
    let fs = ticking();
    let f = file(&fs, Ino::ROOT, "f");
    fs.link(f, Ino::ROOT, b"g").unwrap();
    let before = attr(&fs, f);
    fs.rename(Ino::ROOT, b"f", Ino::ROOT, b"g", plain()).unwrap();
    assert_eq!(names(&fs, Ino::ROOT), [".", "..", "f", "g"]);
    assert_eq!(attr(&fs, f), before);
}

#[test]
fn rename_leaves_a_whiteout_if_told() {
    let fs = ticking();
    file(&fs, Ino::ROOT, "f");
    let flags = RenameFlags {
        whiteout: Some(Owner { uid: 10, gid: 20 }),
        ..plain()
    };
    fs.rename(Ino::ROOT, b"f", Ino::ROOT, b"g", flags).unwrap();
    let whiteout = fs.lookup(Ino::ROOT, b"f").unwrap().attr;
    assert_eq!((whiteout.uid, whiteout.gid), (10, 20));
    assert_eq!((whiteout.kind(), whiteout.rdev, whiteout.nlink), (FileKind::Char, 0, 1));
}

#[test]
fn a_directory_that_is_set_group_id_gives_its_group_on() {
    let fs = ticking();
    let d = dir(&fs, Ino::ROOT, "d");
    fs.setattr(
        d,
        &SetAttr {
            gid: Some(77),
            ..SetAttr::default()
        },
    )
    .unwrap();
    fs.setattr(
        d,
        &SetAttr {
            mode: Some(0o2775),
            ..SetAttr::default()
        },
    )
    .unwrap();
    let sub = attr(&fs, dir(&fs, d, "s"));
    let f = attr(&fs, file(&fs, d, "f"));
    assert_eq!((sub.gid, sub.mode & 0o7777), (77, 0o2755));
    assert_eq!((f.gid, f.mode & 0o7777), (77, 0o644));
}

#[test]
fn set_id_bits_and_capabilities_are_lost() {
    let fs = ticking();
    let f = file(&fs, Ino::ROOT, "f");
    let arm = |mode| {
        fs.setattr(
            f,
            &SetAttr {
                mode: Some(mode),
                ..SetAttr::default()
            },
        )
        .unwrap();
        fs.setxattr(f, b"security.capability", b"x", XattrHow::default())
            .unwrap();
    };
    let armed = || {
        (
            attr(&fs, f).mode & (S_ISUID | S_ISGID),
            fs.getxattr(f, b"security.capability").is_ok(),
        )
    };
    arm(0o6755);
    fs.write(f, 0, b"x", WriteHow::default()).unwrap();
    assert_eq!(armed(), (S_ISUID | S_ISGID, false));
    arm(0o6755);
    fs.write(
        f,
        0,
        b"x",
        WriteHow {
            kill_suidgid: true,
            ..WriteHow::default()
        },
    )
    .unwrap();
    assert_eq!(armed(), (0, false));
    arm(0o6745);
    fs.setattr(
        f,
        &SetAttr {
            uid: Some(3),
            ..SetAttr::default()
        },
    )
    .unwrap();
    assert_eq!(
        armed(),
        (S_ISGID, false),
        "without group execution it means mandatory locking"
    );
    arm(0o6755);
    fs.open(
        f,
        OpenHow {
            write: true,
            truncate: true,
            kill_suidgid: true,
            append: false,
        },
    )
    .unwrap();
    assert_eq!(armed(), (0, false));
}

#[test]
fn acl_rules_mode_and_mode_rules_acl() {
    let fs = ticking();
    let f = file(&fs, Ino::ROOT, "f");
    let access = b"system.posix_acl_access";
    let set = |text: &str| fs.setxattr(f, access, &acl_xattr(text).unwrap(), XattrHow::default());
    set("u::6,u:9:7,g::5,m::4,o::1").unwrap();
    assert_eq!(attr(&fs, f).mode & 0o7777, 0o641, "the mask is the group class");
    fs.setattr(
        f,
        &SetAttr {
            mode: Some(0o753),
            ..SetAttr::default()
        },
    )
    .unwrap();
    assert_eq!(
        fs.getxattr(f, access).unwrap(),
        acl_xattr("u::7,u:9:7,g::5,m::5,o::3").unwrap()
    );
    set("u::7,g::0,o::0").unwrap();
    assert_eq!(
        fs.getxattr(f, access).unwrap_err(),
        Errno::ENODATA,
        "a minimal list is only a mode"
    );
    assert_eq!(attr(&fs, f).mode & 0o7777, 0o700);
    assert_eq!(set("u::7,u:9:7,g::0,o::0").unwrap_err(), Errno::EINVAL, "no mask");
    assert_eq!(set("u::7,o::0,g::0").unwrap_err(), Errno::EINVAL, "wrong order");
    assert_eq!(
        fs.setxattr(f, access, &[1, 0, 0, 0], XattrHow::default()).unwrap_err(),
        Errno::EOPNOTSUPP
    );
    let default = b"system.posix_acl_default";
    let value = acl_xattr("u::7,g::0,o::0").unwrap();
    assert_eq!(
        fs.setxattr(f, default, &value, XattrHow::default()).unwrap_err(),
        Errno::EACCES
    );
}

#[test]
fn a_default_acl_takes_the_place_of_the_umask() {
    let fs = ticking();
    let d = dir(&fs, Ino::ROOT, "d");
    let default = acl_xattr("u::7,u:9:7,g::5,m::7,o::2").unwrap();
    fs.setxattr(d, b"system.posix_acl_default", &default, XattrHow::default())
        .unwrap();
    let f = file(&fs, d, "f");
    assert_eq!(attr(&fs, f).mode & 0o7777, 0o662);
    let expected = acl_xattr("u::6,u:9:7,g::5,m::6,o::2").unwrap();
    assert_eq!(fs.getxattr(f, b"system.posix_acl_access").unwrap(), expected);
    let s = dir(&fs, d, "s");
    assert_eq!(fs.getxattr(s, b"system.posix_acl_default").unwrap(), default);
    let link = fs.symlink(d, b"l", b"t", &new(FileKind::Symlink, 0)).unwrap().attr.ino;
    assert!(fs.listxattr(link).unwrap().is_empty());
}

#[test]
fn truncation_shows_zeros_not_old_bytes() {
    let fs = ticking();
    let f = file(&fs, Ino::ROOT, "f");
    fs.write(f, 0, &[9; 10_000], WriteHow::default()).unwrap();
    for size in [5_000, 10_000] {
        fs.setattr(
            f,
            &SetAttr {
                size: Some(size),
                ..SetAttr::default()
            },
        )
        .unwrap();
    }
    let bytes = read_all(&fs, f);
    assert!(bytes[..5_000].iter().all(|&b| b == 9) && bytes[5_000..].iter().all(|&b| b == 0));
    assert_eq!(fs.seek(f, 0, SeekWhence::Hole).unwrap(), 8192);
}

#[test]
fn holes_come_and_go_by_pages() {
    let fs = ticking();
    let f = file(&fs, Ino::ROOT, "f");
    let far = 1 << 50;
    fs.write(f, far + 10, b"x", WriteHow::default()).unwrap();
    assert_eq!(fs.seek(f, 0, SeekWhence::Data).unwrap(), far);
    assert_eq!(fs.seek(f, far, SeekWhence::Hole).unwrap(), far + 11);
    assert_eq!(fs.seek(f, far + 11, SeekWhence::Data).unwrap_err(), Errno::ENXIO);
    fs.fallocate(f, FallocMode::KeepSize, 4095, 2).unwrap();
    assert_eq!(fs.seek(f, 0, SeekWhence::Data).unwrap(), 0);
    assert_eq!(fs.seek(f, 0, SeekWhence::Hole).unwrap(), 8192);
    fs.fallocate(f, FallocMode::PunchHole, 1, 8191).unwrap();
    assert_eq!(fs.seek(f, 0, SeekWhence::Hole).unwrap(), 4096);
    fs.fallocate(f, FallocMode::PunchHole, 0, far + 4096).unwrap();
    assert_eq!(fs.seek(f, 0, SeekWhence::Data).unwrap_err(), Errno::ENXIO);
    assert_eq!(attr(&fs, f).blocks, 0);
}

#[test]
fn zero_range_keeps_the_size_if_told() {
    let fs = ticking();
    let f = file(&fs, Ino::ROOT, "f");
    fs.write(f, 0, &[1; 100], WriteHow::default()).unwrap();
    fs.fallocate(f, FallocMode::ZeroRange { keep_size: true }, 50, 100)
        .unwrap();
    assert_eq!(attr(&fs, f).size, 100);
    fs.fallocate(f, FallocMode::ZeroRange { keep_size: false }, 90, 20)
        .unwrap();
    let bytes = read_all(&fs, f);
    assert_eq!((bytes.len(), bytes.iter().filter(|&&b| b == 1).count()), (110, 50));
}

#[test]
fn a_copy_within_a_file_must_not_overlap() {
    let fs = ticking();
    let f = file(&fs, Ino::ROOT, "f");
    fs.write(f, 0, b"0123456789", WriteHow::default()).unwrap();
    assert_eq!(fs.copy_file_range(f, 0, f, 5, 6).unwrap_err(), Errno::EINVAL);
    assert_eq!(
        fs.copy_file_range(f, 5, f, 10, 100).unwrap(),
        5,
        "only as long as the source is"
    );
    assert_eq!(read_all(&fs, f), b"012345678956789");
    assert_eq!(fs.copy_file_range(f, 15, f, 0, 1).unwrap(), 0);
}

#[test]
fn limits_hold() {
    let options = Options {
        max_file_size: 10,
        xattr_total_max: 20,
        ..Options::default()
    };
    let fs = Model::new(options, Arc::new(Time::default));
    let f = file(&fs, Ino::ROOT, "f");
    assert_eq!(fs.write(f, 8, b"abcd", WriteHow::default()).unwrap(), 2);
    assert_eq!(fs.write(f, 10, b"a", WriteHow::default()).unwrap_err(), Errno::EFBIG);
    assert_eq!(fs.fallocate(f, FallocMode::Allocate, 9, 2).unwrap_err(), Errno::EFBIG);
    assert_eq!(
        fs.setattr(
            f,
            &SetAttr {
                size: Some(11),
                ..SetAttr::default()
            }
        )
        .unwrap_err(),
        Errno::EFBIG
    );
    let set = |name: &[u8], value: &[u8]| fs.setxattr(f, name, value, XattrHow::default());
    set(b"user.a", b"0123456").unwrap();
    assert_eq!(set(b"user.b", b"01").unwrap_err(), Errno::ENOSPC);
    set(b"user.a", b"01234567890123").unwrap();
    assert_eq!(set(b"user.a", b"012345678901234").unwrap_err(), Errno::ENOSPC);
    assert_eq!(set(b"user.", b"").unwrap_err(), Errno::EINVAL);
    assert_eq!(set(b"other.a", b"").unwrap_err(), Errno::EOPNOTSUPP);
    assert_eq!(set(b"user.c", &vec![0; 65_537]).unwrap_err(), Errno::E2BIG);
    let long = vec![b'n'; NAME_MAX + 1];
    assert_eq!(fs.lookup(Ino::ROOT, &long).unwrap_err(), Errno::ENAMETOOLONG);
    let target = vec![b't'; SYMLINK_MAX + 1];
    assert_eq!(
        fs.symlink(Ino::ROOT, b"l", &target, &new(FileKind::Symlink, 0))
            .unwrap_err(),
        Errno::ENAMETOOLONG
    );
}

#[test]
fn names_of_an_inode_are_counted_up_to_the_limit() {
    let fs = ticking();
    let f = file(&fs, Ino::ROOT, "f");
    for n in 1..LINK_MAX {
        fs.link(f, Ino::ROOT, format!("l{n}").as_bytes()).unwrap();
    }
    assert_eq!(attr(&fs, f).nlink, LINK_MAX);
    assert_eq!(fs.link(f, Ino::ROOT, b"one more").unwrap_err(), Errno::EMLINK);
}

#[test]
fn flags_forbid_what_they_forbid() {
    let fs = ticking();
    let d = dir(&fs, Ino::ROOT, "d");
    let f = file(&fs, d, "f");
    let write = OpenHow {
        write: true,
        ..OpenHow::default()
    };
    fs.set_flags(f, InodeFlags::APPEND).unwrap();
    assert_eq!(fs.open(f, write).unwrap_err(), Errno::EPERM);
    assert_eq!(
        fs.open(
            f,
            OpenHow {
                truncate: true,
                append: true,
                ..write
            }
        )
        .unwrap_err(),
        Errno::EPERM
    );
    fs.open(f, OpenHow { append: true, ..write }).unwrap();
    let touch = SetAttr {
        atime: Some(SetTime::Now),
        mtime: Some(SetTime::Now),
        ..SetAttr::default()
    };
    fs.setattr(f, &touch).unwrap();
    assert_eq!(
        fs.setattr(f, &SetAttr { atime: None, ..touch }).unwrap_err(),
        Errno::EPERM
    );
    assert_eq!(fs.unlink(d, b"f").unwrap_err(), Errno::EPERM);
    fs.set_flags(f, InodeFlags::IMMUTABLE).unwrap();
    assert_eq!(fs.setattr(f, &touch).unwrap_err(), Errno::EPERM);
    assert_eq!(fs.link(f, d, b"g").unwrap_err(), Errno::EPERM);
    assert_eq!(fs.rename(d, b"f", d, b"g", plain()).unwrap_err(), Errno::EPERM);
    assert_eq!(fs.write(f, 0, b"x", WriteHow::default()).unwrap_err(), Errno::EPERM);
    fs.set_flags(f, InodeFlags::default()).unwrap();
    fs.set_flags(d, InodeFlags::APPEND).unwrap();
    file(&fs, d, "new");
    assert_eq!(fs.unlink(d, b"f").unwrap_err(), Errno::EPERM);
    assert_eq!(fs.set_flags(f, InodeFlags(1)).unwrap_err(), Errno::EOPNOTSUPP);
}

#[test]
fn times_follow_posix() {
    let fs = ticking();
    let f = file(&fs, Ino::ROOT, "f");
    let born = attr(&fs, f);
    fs.link(f, Ino::ROOT, b"g").unwrap();
    let linked = attr(&fs, f);
    assert_eq!((linked.mtime, linked.ctime > born.ctime), (born.mtime, true));
    fs.write(
        f,
        0,
        b"x",
        WriteHow {
            writeback: true,
            keep_times: true,
            ..WriteHow::default()
        },
    )
    .unwrap();
    assert_eq!((attr(&fs, f).mtime, attr(&fs, f).ctime), (linked.mtime, linked.ctime));
    fs.write(f, 0, b"x", WriteHow::default()).unwrap();
    let written = attr(&fs, f);
    assert!(written.mtime == written.ctime && written.mtime > linked.ctime);
    read_all(&fs, f);
    let read = attr(&fs, f);
    assert!(read.atime > written.mtime);
    read_all(&fs, f);
    assert_eq!(attr(&fs, f).atime, read.atime, "relatime");
    assert_eq!(attr(&fs, f).btime, born.btime);
}

#[test]
fn a_listing_goes_on_behind_its_cookie_whatever_happens() {
    let fs = ticking();
    for name in ["c", "a", "b", "d"] {
        file(&fs, Ino::ROOT, name);
    }
    let mut seen = Vec::new();
    let mut cookie = 0;
    loop {
        let mut last = None;
        let mut consumed = 0;
        fs.readdir(Ino::ROOT, cookie, &mut |e| {
            if consumed == 1 {
                return false;
            }
            consumed += 1;
            last = Some((e.cookie, e.name.to_vec()));
            true
        })
        .unwrap();
        let Some((next, name)) = last else { break };
        cookie = next;
        if name == b"a" {
            fs.unlink(Ino::ROOT, b"a").unwrap();
        }
        seen.push(String::from_utf8(name).unwrap());
    }
    assert_eq!(seen, [".", "..", "c", "a", "b", "d"]);
}

#[test]
fn after_a_shutdown_nothing_works() {
    let fs = ticking();
    let f = file(&fs, Ino::ROOT, "f");
    let copy = fs.fork();
    fs.shutdown(false).unwrap();
    assert_eq!(fs.getattr(f).unwrap_err(), Errno::EIO);
    assert_eq!(fs.syncfs().unwrap_err(), Errno::EIO);
    copy.unlink(Ino::ROOT, b"f").unwrap();
}
