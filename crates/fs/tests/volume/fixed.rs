//! Files that chattr(1) made immutable or append-only.

use super::*;
use keepfs_vfs::{Errno, InodeFlags, SetAttr, SetTime, Time};

/// Times are not set, whoever keeps them: a kernel that does gives a change time with all that users set; its own come without
/// an access time. S-20.13, S-20.20
#[test]
fn times_of_fixed_files_are_not_set() {
    let pool = Pool::new(4096);
    let vfs: &dyn Vfs = &*pool.volume;
    let ino = make(vfs, Ino::ROOT, "file", FileKind::File).expect("make");
    let set = |atime, mtime, ctime| {
        let change = SetAttr {
            atime,
            mtime,
            ctime,
            ..SetAttr::default()
        };
        vfs.setattr(ino, &change).map(drop)
    };
    let (now, time) = (Some(SetTime::Now), Time { sec: 5, nsec: 6 });
    let then = Some(SetTime::At(time));
    for (flags, touched) in [(InodeFlags::IMMUTABLE, Err(Errno::EPERM)), (InodeFlags::APPEND, Ok(()))] {
        vfs.set_flags(ino, flags).expect("flags");
        assert_eq!(set(now, now, None), touched);
        assert_eq!(set(now, then, Some(time)), touched, "touch(1), with the kernel's clock");
        for ctime in [None, Some(time)] {
            assert_eq!(set(then, then, ctime), Err(Errno::EPERM));
            assert_eq!(set(now, None, ctime), Err(Errno::EPERM));
        }
        assert_eq!(set(None, then, None), Err(Errno::EPERM));
        assert_eq!(set(None, then, Some(time)), Ok(()), "the kernel's own");
    }
    vfs.set_flags(ino, InodeFlags::default()).expect("flags");
    assert_eq!(set(then, then, Some(time)), Ok(()));
    pool.finish();
}
