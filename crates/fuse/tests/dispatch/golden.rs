//! Every operation once as the kernel sends it: which call it becomes, and what goes back.

use crate::fake::{ALMOST_SPARSE, Bench, FULL_FROM, Fake, SPARSE};
use crate::requests::{Req, UNIQUE, long, word};
use keepfs_fuse::protocol::Opcode::{self, *};
use keepfs_fuse::protocol::request::*;
use keepfs_fuse::{CacheMode, Dispatcher, Granted, MountConfig, Outcome, ReplyBuf};
use keepfs_vfs::{Errno, Request};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The calls that a good request makes.
fn calls(request: Req) -> Vec<String> {
    Bench::polite().good(request.bytes()).0
}

/// The payload of the reply to a good request.
fn payload(request: Req) -> Vec<u8> {
    Bench::polite().good(request.bytes()).1
}

fn errno(request: Req) -> Errno {
    Bench::polite().bad(request.bytes())
}

#[test]
fn lookup_byte_for_byte() {
    // len 45, opcode 1, unique 2, node 1, uid 5, gid 6, pid 7, no extensions, "name\0".
    let mut request = vec![
        45, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0,
    ];
    request.extend([7, 0, 0, 0, 0, 0, 0, 0]);
    request.extend(b"name\0");
    if cfg!(target_endian = "big") {
        return;
    }
    let mut bench = Bench::polite();
    assert_eq!(bench.handle(&request), Outcome::Reply);
    let reply = bench.reply.bytes();
    assert_eq!(&reply[..16], &[144, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    let entry = &reply[16..];
    assert_eq!((long(entry, 0), long(entry, 8)), (7, 1007), "node and generation");
    assert_eq!(
        (long(entry, 16), long(entry, 24)),
        (86_400, 86_400),
        "a day for names and attributes"
    );
    let attr = &entry[40..];
    assert_eq!(
        (long(attr, 0), long(attr, 8), long(attr, 16)),
        (7, 6, 8),
        "ino, size, blocks"
    );
    assert_eq!(
        (long(attr, 24) as i64, long(attr, 32), long(attr, 40)),
        (-1, 20, 30),
        "times"
    );
    let words: Vec<u32> = (48..88).step_by(4).map(|at| word(attr, at)).collect();
    assert_eq!(words, [5, 5, 5, 0o100644, 2, 3, 4, 0x0010_0f02, 4096, 0]);
}

#[test]
fn lookups() {
    assert_eq!(calls(Req::new(Lookup, 5).name("x")), ["lookup 5 x"]);
    assert_eq!(calls(Req::new(Lookup, 5).name("..")), ["lookup 5 .."]);
    assert_eq!(calls(Req::new(Lookup, 5).name(".")), ["lookup_ino 5"], "a file handle");
    let negative = payload(Req::new(Lookup, 1).name("missing"));
    assert_eq!((long(&negative, 0), long(&negative, 16)), (0, 86_400));
    let config = MountConfig {
        negative_timeout: Duration::ZERO,
        ..MountConfig::default()
    };
    let mut bench = Bench::new(Fake::default(), &config);
    assert_eq!(bench.bad(Req::new(Lookup, 1).name("missing").bytes()), Errno::ENOENT);
    assert_eq!(errno(Req::new(Lookup, 1).name(&"n".repeat(256))), Errno::ENAMETOOLONG);
    assert_eq!(calls(Req::new(Lookup, 1).name(&"n".repeat(255))).len(), 1);
    for broken in [
        Req::new(Lookup, 1).raw(b"unterminated"),
        Req::new(Lookup, 1).name(""),
        Req::new(Lookup, 1).name("a/b"),
    ] {
        assert_eq!(errno(broken), Errno::EINVAL);
    }
}

#[test]
fn forgets_get_no_answer() {
    let mut bench = Bench::polite();
    assert_eq!(
        bench.handle(&Req::new(Forget, 5).args(&ForgetIn { nlookup: 3 }).bytes()),
        Outcome::NoReply
    );
    let batch = Req::new(BatchForget, 0).words(&[2, 0]);
    let batch = batch
        .args(&ForgetOne { nodeid: 6, nlookup: 1 })
        .args(&ForgetOne { nodeid: 7, nlookup: 2 });
    assert_eq!(bench.handle(&batch.bytes()), Outcome::NoReply);
    // More announced than sent: what is there counts.
    let short = Req::new(BatchForget, 0)
        .words(&[u32::MAX, 0])
        .args(&ForgetOne { nodeid: 8, nlookup: 1 });
    assert_eq!(bench.handle(&short.bytes()), Outcome::NoReply);
    let log = bench.fake.log.lock().unwrap();
    assert_eq!(*log, ["forget 5 3", "forget 6 1", "forget 7 2", "forget 8 1"]);
}

/// S-20.30: the low half of a generation begins anew when a metablock of inodes dies.
#[test]
fn no_handle_fits_the_next_file_of_a_number() {
    // The fake's generations are its numbers + 1000.
    let told = |generation: u64| {
        let node = generation.wrapping_sub(1000);
        let entry = long(&payload(Req::new(Lookup, node).name(".")), 8);
        let version = IoctlIn {
            cmd: 0x8008_7601,
            out_size: 8,
            ..IoctlIn::default()
        };
        let version = word(&payload(Req::new(Ioctl, node).args(&version)), 16);
        assert_eq!(entry, u64::from(version));
        version
    };
    assert_eq!((told(1001), told(u32::MAX.into())), (1001, u32::MAX));
    let lives = [1, 1 << 32 | 1, 2 << 32 | 1, 2 << 32 | 5, 1000 << 32 | 1].map(told);
    for (n, generation) in lives.iter().enumerate() {
        assert!(!lives[..n].contains(generation), "{lives:x?}");
    }
}

#[test]
fn attributes() {
    let attr = payload(Req::new(Getattr, 5).words(&[0; 4]));
    assert_eq!((attr.len(), long(&attr, 0), long(&attr, 16)), (104, 86_400, 5));
    let all = SetattrIn {
        valid: 1 | 2 | 4 | 8 | 16 | 32 | 1 << 10 | 1 << 11,
        size: 99,
        atime: u64::MAX,
        atimensec: 7,
        mtime: 11,
        mtimensec: 2_000_000_000,
        ctime: 12,
        ctimensec: 13,
        mode: 0o104_755,
        uid: 14,
        gid: 15,
        ..SetattrIn::default()
    };
    let change = calls(Req::new(Setattr, 5).args(&all));
    assert_eq!(
        change,
        [
            "setattr 5 SetAttr { mode: Some(2541), uid: Some(14), gid: Some(15), size: Some(99), \
          atime: Some(At(Time { sec: -1, nsec: 7 })), mtime: Some(At(Time { sec: 11, nsec: 999999999 })), \
          ctime: Some(Time { sec: 12, nsec: 13 }), kill_suidgid: true }"
        ]
    );
    let now = SetattrIn {
        valid: 16 | 32 | 1 << 7 | 1 << 8,
        ..SetattrIn::default()
    };
    assert!(calls(Req::new(Setattr, 5).args(&now))[0].contains("atime: Some(Now), mtime: Some(Now)"));
    let nothing = calls(Req::new(Setattr, 5).args(&SetattrIn {
        mode: 0o777,
        size: 5,
        ..SetattrIn::default()
    }));
    // Whose it is decides what becomes of its set-id bits (S-20.26).
    assert!(nothing[0].contains("getattr 5"), "{nothing:?}");
    assert!(nothing[1].contains("mode: None, uid: None, gid: None, size: None"));
}

#[test]
fn statx_shows_birth_and_flags() {
    let statx = payload(Req::new(Statx, 5).args(&StatxIn::default()));
    assert_eq!(statx.len(), 288);
    let stat = &statx[32..];
    assert_eq!(
        (word(stat, 0), long(stat, 8), long(stat, 56)),
        (0xfff, 0x50, 0x70),
        "mask, attributes, their mask"
    );
    assert_eq!(
        (long(stat, 64) as i64, long(stat, 80), long(stat, 96), long(stat, 112)),
        (-1, 40, 30, 20)
    );
    assert_eq!(
        (word(stat, 128), word(stat, 132)),
        (0xf, 0x102),
        "major and minor of the device"
    );
}

#[test]
fn creations_carry_owner_and_umask() {
    let made = "umask: 18, uid: 1000, gid: 100";
    let mknod = Req::new(Mknod, 1)
        .args(&MknodIn {
            mode: 0o010_666,
            rdev: 9,
            umask: 0o22,
            padding: 0,
        })
        .name("p");
    assert_eq!(
        calls(mknod),
        [format!("mknod 1 p NewInode {{ mode: {}, {made}, rdev: 9 }}", 0o010_666)]
    );
    let plain = Req::new(Mknod, 1)
        .args(&MknodIn {
            mode: 0o666,
            ..MknodIn::default()
        })
        .name("p");
    assert!(
        calls(plain)[0].contains(&format!("mode: {}", 0o100_666)),
        "no type is a regular file"
    );
    let mkdir = Req::new(Mkdir, 1).words(&[0o1777, 0o22]).name("d");
    assert_eq!(
        calls(mkdir),
        [format!("mknod 1 d NewInode {{ mode: {}, {made}, rdev: 0 }}", 0o041_777)]
    );
    let symlink = Req::new(Symlink, 1).name("s").name("to/there");
    assert!(calls(symlink)[0].starts_with("symlink 1 s to/there"));
    assert_eq!(errno(Req::new(Symlink, 1).name("s").name("")), Errno::EINVAL);
    assert_eq!(
        errno(Req::new(Symlink, 1).name("s").name(&"t".repeat(4096))),
        Errno::ENAMETOOLONG
    );
    assert_eq!(errno(Req::new(Symlink, 1).name("s").raw(b"open end")), Errno::EINVAL);
}

#[test]
fn create_opens_too() {
    let args = CreateIn {
        flags: libc::O_RDWR as u32,
        mode: 0o100_644,
        umask: 0o22,
        open_flags: 0,
    };
    let reply = payload(Req::new(Create, 1).args(&args).name("new"));
    assert_eq!(
        (reply.len(), long(&reply, 0), word(&reply, 136)),
        (144, 8, 2),
        "entry, then KEEP_CACHE"
    );
    // None is agreed (S-20.27), so what one says is passed over.
    assert_eq!(
        calls(Req::new(Create, 1).args(&args).name("new").extensions(&[0xff; 16])),
        calls(Req::new(Create, 1).args(&args).name("new"))
    );
    let tmp = payload(Req::new(Tmpfile, 1).args(&args).name(""));
    assert_eq!((tmp.len(), long(&tmp, 0)), (144, 10));
}

#[test]
fn create_of_what_exists_opens_it() {
    let truncating = (libc::O_WRONLY | libc::O_TRUNC) as u32;
    let args = CreateIn {
        flags: truncating,
        mode: 0o644,
        umask: 0,
        open_flags: 1,
    };
    let mut bench = Bench::polite();
    let (calls, _) = bench.good(Req::new(Create, 1).args(&args).name("exists").bytes());
    assert_eq!(
        calls[1..3],
        [
            "lookup 1 exists",
            "open 7 OpenHow { write: true, append: false, truncate: true, kill_suidgid: true }"
        ]
    );
    assert_eq!(bench.fake.counts.lock().unwrap()[&7], 1);
    let exclusive = CreateIn {
        flags: truncating | libc::O_EXCL as u32,
        ..args
    };
    assert_eq!(
        errno(Req::new(Create, 1).args(&exclusive).name("exists")),
        Errno::EEXIST
    );
}

#[test]
fn names_change() {
    assert_eq!(
        calls(Req::new(Link, 2).args(&LinkIn { oldnodeid: 5 }).name("l")),
        ["link 5 2 l"]
    );
    assert_eq!(calls(Req::new(Unlink, 2).name("u")), ["unlink 2 u"]);
    assert_eq!(calls(Req::new(Rmdir, 2).name("r")), ["rmdir 2 r"]);
    let none = "RenameFlags { no_replace: false, exchange: false, whiteout: None }";
    let rename = Req::new(Rename, 2).args(&RenameIn { newdir: 3 }).name("a").name("b");
    assert_eq!(calls(rename), [format!("rename 2 a 3 b {none}")]);
    let two = |flags| {
        Req::new(Rename2, 2)
            .args(&Rename2In {
                newdir: 3,
                flags,
                padding: 0,
            })
            .name("a")
            .name("b")
    };
    assert!(
        calls(two(5))[0].contains("no_replace: true, exchange: false, whiteout: Some(Owner { uid: 1000, gid: 100 })")
    );
    assert!(calls(two(2))[0].contains("exchange: true"));
    for bad in [3, 6, 8, u32::MAX] {
        assert_eq!(errno(two(bad)), Errno::EINVAL);
    }
    assert_eq!(
        errno(Req::new(Rename, 2).args(&RenameIn { newdir: 3 }).name("a")),
        Errno::EINVAL,
        "one name missing"
    );
}

#[test]
fn opens_say_how_to_cache() {
    let open = |cache| {
        let mut bench = Bench::new(
            Fake::default(),
            &MountConfig {
                cache,
                ..MountConfig::default()
            },
        );
        let args = OpenIn {
            flags: (libc::O_RDWR | libc::O_APPEND) as u32,
            open_flags: 0,
        };
        let (calls, reply) = bench.good(Req::new(Open, 5).args(&args).bytes());
        assert_eq!(
            calls,
            [
                "open 5 OpenHow { write: true, append: true, truncate: false, kill_suidgid: false }",
                "getattr 5"
            ]
        );
        (long(&reply, 0), word(&reply, 8))
    };
    assert_eq!(open(CacheMode::Writethrough), (0, 2));
    assert_eq!(open(CacheMode::Writeback), (0, 2));
    assert_eq!(open(CacheMode::Direct), (0, 1 | 64));
    assert_eq!(payload(Req::new(Opendir, 1).words(&[0, 0])).len(), 16);
    assert_eq!(errno(Req::new(Opendir, 5).words(&[0, 0])), Errno::ENOTDIR);
}

#[test]
fn reads_and_writes() {
    let read = ReadIn {
        offset: 10,
        size: 100,
        ..ReadIn::default()
    };
    assert_eq!(payload(Req::new(Read, 5).args(&read)), [b'r'; 100]);
    let huge = ReadIn { size: u32::MAX, ..read };
    assert!(
        payload(Req::new(Read, 5).args(&huge)).len() <= (64 << 10) + 4096,
        "not more than the buffer"
    );
    let write = WriteIn {
        offset: 10,
        size: 4,
        ..WriteIn::default()
    };
    let req = |args: WriteIn| Req::new(Write, 5).args(&args).raw(b"data");
    assert_eq!(
        calls(req(write)),
        [
            "write 5 10 data WriteHow { append: false, kill_suidgid: false, writeback: false, keep_times: false, keep_old: true }"
        ]
    );
    assert_eq!(word(&payload(req(write)), 0), 4);
    let append = libc::O_APPEND as u32;
    let how = |flags, write_flags| {
        calls(req(WriteIn {
            flags,
            write_flags,
            ..write
        }))[0]
            .clone()
    };
    assert!(
        how(append, 4)
            .ends_with("append: true, kill_suidgid: true, writeback: false, keep_times: false, keep_old: true }")
    );
    assert!(
        how(append, 1).contains("append: false"),
        "flags of the page cache are guessed"
    );
    assert!(
        how(append, 1).ends_with("kill_suidgid: false, writeback: true, keep_times: true, keep_old: false }"),
        "the kernel has the writeback cache here, and keeps both"
    );
    assert!(
        how(append | libc::O_DIRECT as u32, 0).contains("append: false"),
        "pieces may overtake each other"
    );
    assert_eq!(
        errno(req(WriteIn { size: 5, ..write })),
        Errno::EINVAL,
        "less data than announced"
    );
    assert_eq!(
        errno(req(WriteIn {
            offset: u64::MAX,
            ..write
        })),
        Errno::EFBIG
    );
    assert_eq!(
        errno(req(WriteIn {
            offset: i64::MAX as u64 - 3,
            ..write
        })),
        Errno::EFBIG
    );
}

/// S-20.14: ENOSPC for what the kernel had answered is told by the file's handle, once, and never to another file with its number.
#[test]
fn what_is_owed_is_told_once_and_ends_with_the_file() {
    let mut bench = Bench::polite();
    let write = WriteIn {
        offset: FULL_FROM,
        size: 4,
        write_flags: 1,
        ..WriteIn::default()
    };
    let write = Req::new(Write, 5).args(&write).raw(b"data").bytes();
    let by_handle = Req::new(Getattr, 5).words(&[1, 0, 0, 0]).bytes();
    let by_name = Req::new(Getattr, 5).words(&[0; 4]).bytes();
    assert_eq!(bench.bad(write.clone()), Errno::ENOSPC);
    bench.good(by_name);
    assert_eq!(bench.bad(by_handle.clone()), Errno::ENOSPC);
    bench.good(by_handle.clone());
    let forget = Req::new(Forget, 5).args(&ForgetIn { nlookup: 1 }).bytes();
    let batch = Req::new(BatchForget, 0).words(&[1, 0]);
    let batch = batch.args(&ForgetOne { nodeid: 5, nlookup: 1 }).bytes();
    for forget in [forget, batch] {
        assert_eq!(bench.bad(write.clone()), Errno::ENOSPC);
        bench.handle(&forget);
        bench.good(by_handle.clone());
    }
}

/// S-20.28: of the handles of a directory one at a time makes the kernel remember its listing.
#[test]
fn one_handle_of_a_directory_remembers_its_listing() {
    const KEPT: u32 = 2;
    const REMEMBERED: u32 = KEPT | 8;
    let bench = |cache| {
        let config = MountConfig {
            cache,
            ..MountConfig::default()
        };
        Bench::new(Fake::default(), &config)
    };
    let open_as = |bench: &mut Bench, flags: libc::c_int| {
        let args = OpenIn {
            flags: flags as u32,
            ..OpenIn::default()
        };
        let (_, reply) = bench.good(Req::new(Opendir, 1).args(&args).bytes());
        (long(&reply, 0), word(&reply, 8))
    };
    let open = |bench: &mut Bench| open_as(bench, libc::O_DIRECTORY);
    let close = |bench: &mut Bench, fh| {
        let args = ReleaseIn {
            fh,
            ..ReleaseIn::default()
        };
        bench.good(Req::new(Releasedir, 1).args(&args).bytes());
    };
    let of_file = OpenIn {
        flags: libc::O_DIRECTORY as u32,
        ..OpenIn::default()
    };
    for cache in [CacheMode::Writeback, CacheMode::Writethrough] {
        let mut bench = bench(cache);
        // Not one that may be opened anew for each piece, and that does not keep another one from it.
        assert_eq!(open_as(&mut bench, 0), (0, KEPT));
        for _ in 0..3 {
            assert_eq!(open(&mut bench), (4, REMEMBERED));
            for _ in 0..3 {
                assert_eq!(open(&mut bench), (0, KEPT));
            }
            // Another one's end is not that of the one.
            close(&mut bench, 0);
            assert_eq!(open(&mut bench), (0, KEPT));
            // One that fails is none.
            assert_eq!(bench.bad(Req::new(Opendir, 5).args(&of_file).bytes()), Errno::ENOTDIR);
            close(&mut bench, 4);
        }
        // That of before a loss is the one as well.
        let (before, _) = open(&mut bench);
        bench.fake.losses.store(3, Ordering::Relaxed);
        assert_eq!(open(&mut bench), (3 << 8, KEPT));
        close(&mut bench, before);
        assert_eq!(open(&mut bench), (3 << 8 | 4, REMEMBERED));
        close(&mut bench, 3 << 8 | 4);
        // Those that another server gave are not known.
        bench.dispatcher.goes_on_for_another();
        close(&mut bench, 4);
        assert_eq!(open(&mut bench), (3 << 8, KEPT));
    }
    assert_eq!(open(&mut bench(CacheMode::Direct)), (0, 0));
}

/// A dispatcher of a mount in this mode, which is granted the kernel's writeback cache in that alone.
fn bench_of(cache: CacheMode) -> Bench {
    let config = MountConfig {
        cache,
        ..MountConfig::default()
    };
    let mut bench = Bench::new(Fake::default(), &config);
    if cache != CacheMode::Writeback {
        let granted = Granted {
            minor: 45,
            flags: 0,
            max_write: 1 << 16,
        };
        bench.dispatcher = Dispatcher::new(bench.fake.clone(), &config, granted);
    }
    bench
}

/// S-20.29: while the kernel may have data of a file that it has not sent, all up to its end (6) is data.
#[test]
fn a_file_that_stores_may_come_to_has_no_holes() {
    const EXACT: (u64, u64) = (4096, 4096);
    for cache in [CacheMode::Direct, CacheMode::Writethrough, CacheMode::Writeback] {
        let mut bench = bench_of(cache);
        let seek = |bench: &mut Bench, ino, offset| {
            let mut look = |whence| {
                let args = LseekIn {
                    offset,
                    whence,
                    ..LseekIn::default()
                };
                let request = Req::new(Lseek, ino).args(&args).bytes();
                assert!(bench.handle(&request) == Outcome::Reply);
                match word(bench.reply.bytes(), 4) as i32 {
                    0 => Ok(long(bench.reply.payload(), 0)),
                    error => Err(Errno(-error)),
                }
            };
            look(3).and_then(|data| Ok((data, look(4)?)))
        };
        let all_data = |bench: &mut Bench| {
            let (within, behind) = (seek(bench, 5, 2), seek(bench, 5, 6));
            match cache {
                CacheMode::Writeback => (within, behind) == (Err(Errno::ENOSYS), Err(Errno::ENOSYS)),
                _ => (within, behind) == (Ok((2, 6)), Err(Errno::ENXIO)),
            }
        };
        let open = |bench: &mut Bench, flags: libc::c_int| {
            let flags = flags as u32;
            let args = OpenIn {
                flags,
                ..OpenIn::default()
            };
            bench.good(Req::new(Open, 5).args(&args).bytes());
        };
        let close = |bench: &mut Bench, flags: libc::c_int| {
            let flags = flags as u32;
            let args = ReleaseIn {
                flags,
                ..ReleaseIn::default()
            };
            bench.good(Req::new(Release, 5).args(&args).bytes());
        };
        assert_eq!(seek(&mut bench, 5, 2), Ok(EXACT));
        open(&mut bench, libc::O_RDONLY);
        open(&mut bench, libc::O_RDWR | libc::O_APPEND);
        open(&mut bench, libc::O_RDWR);
        assert!(all_data(&mut bench), "{cache:?}");
        assert_eq!(seek(&mut bench, 6, 2), Ok(EXACT), "{cache:?}: another file");
        close(&mut bench, libc::O_RDONLY);
        close(&mut bench, libc::O_RDWR);
        assert!(all_data(&mut bench), "{cache:?}: one is open still");
        // fcntl(2) took O_APPEND off.
        close(&mut bench, libc::O_RDWR);
        assert_eq!(seek(&mut bench, 5, 2), Ok(EXACT), "{cache:?}");
        open(&mut bench, libc::O_WRONLY);
        match cache {
            CacheMode::Writeback => assert!(all_data(&mut bench)),
            _ => assert_eq!(seek(&mut bench, 5, 2), Ok(EXACT), "{cache:?}: it has no mapping"),
        }
        close(&mut bench, libc::O_WRONLY);
        assert_eq!(seek(&mut bench, 5, 2), Ok(EXACT), "{cache:?}");
        for op in [Create, Tmpfile] {
            let args = CreateIn {
                flags: libc::O_RDWR as u32,
                ..CreateIn::default()
            };
            let (_, reply) = bench.good(Req::new(op, 1).args(&args).name("new").bytes());
            assert!(seek(&mut bench, long(&reply, 0), 2) != Ok(EXACT), "{cache:?}: {op:?}");
        }
        bench.dispatcher.goes_on_for_another();
        assert!(all_data(&mut bench), "{cache:?}: another server's handles");
        // One of those is released.
        close(&mut bench, libc::O_RDWR);
        assert!(all_data(&mut bench), "{cache:?}");
    }
}

/// S-20.31: the kernel believes no attributes by which a file that stores may come to has no data; a page's blocks for a second.
#[test]
fn a_file_that_stores_may_come_to_has_blocks() {
    const DAY: u64 = 86_400;
    for cache in [CacheMode::Writethrough, CacheMode::Writeback] {
        let mut bench = bench_of(cache);
        let flags = libc::O_RDWR as u32;
        // Seconds for which the attributes count, and the blocks.
        let told = |bench: &mut Bench, ino| {
            let mut answers = Vec::new();
            for op in [Getattr, Setattr, Lookup, Statx] {
                let request = Req::new(op, ino);
                let request = match op {
                    Getattr => request.args(&GetattrIn::default()),
                    Setattr => request.args(&SetattrIn::default()),
                    Lookup => request.name("."),
                    _ => request.args(&StatxIn::default()),
                };
                let (valid, blocks) = match op {
                    Getattr | Setattr => (0, 32),
                    Lookup => (24, 56),
                    _ => (0, 80),
                };
                let (_, reply) = bench.good(request.bytes());
                answers.push((long(&reply, valid), long(&reply, blocks)));
            }
            answers.dedup();
            assert_eq!(answers.len(), 1, "{cache:?}: {answers:?}");
            answers[0]
        };
        // With the writeback cache the kernel may know a larger one.
        let small = |open| match (cache, open) {
            (CacheMode::Writeback, true) => (1, 8),
            (CacheMode::Writeback, false) => (0, 0),
            _ => (DAY, 0),
        };
        for ino in [SPARSE, ALMOST_SPARSE] {
            let expected = |open| match (ino, open) {
                (SPARSE, true) => (1, 8),
                (SPARSE, false) => (0, 0),
                (_, open) => small(open),
            };
            assert_eq!(told(&mut bench, ino), expected(false), "{cache:?}");
            let open = OpenIn {
                flags,
                ..OpenIn::default()
            };
            bench.good(Req::new(Open, ino).args(&open).bytes());
            assert_eq!(told(&mut bench, ino), expected(true), "{cache:?}: open");
            let release = ReleaseIn {
                flags,
                ..ReleaseIn::default()
            };
            bench.good(Req::new(Release, ino).args(&release).bytes());
            assert_eq!(told(&mut bench, ino), expected(false), "{cache:?}: closed");
        }
        assert_eq!(told(&mut bench, 5), (DAY, 8), "{cache:?}");
        bench.dispatcher.goes_on_for_another();
        assert_eq!(told(&mut bench, SPARSE), (1, 8), "{cache:?}");
    }
}

/// S-16.9: who has a file open since before a loss is told by each change and each fsync; reading goes on, so does what the kernel
/// writes back, and whoever opens it again works.
#[test]
fn who_had_a_file_open_before_a_loss_is_told() {
    let mut bench = Bench::polite();
    let open = |bench: &mut Bench, op, node| {
        let reply = bench.good(Req::new(op, node).args(&OpenIn::default()).bytes()).1;
        long(&reply, reply.len() - 16)
    };
    let mut handles = vec![[open(&mut bench, Open, 5), open(&mut bench, Opendir, 1)]];
    let sync_all = || Req::new(Syncfs, 1).words(&[0, 0]).bytes();
    bench.good(sync_all());
    for losses in 1..3 {
        bench.fake.losses.store(losses, Ordering::Relaxed);
        handles.push([open(&mut bench, Open, 5), open(&mut bench, Opendir, 1)]);
        // Nobody knows who made what is lost (S-16.14).
        assert_eq!(bench.bad(sync_all()), Errno::EUCLEAN);
    }
    for (losses, [file, dir]) in handles.into_iter().enumerate() {
        let write = |write_flags| {
            let args = WriteIn {
                fh: file,
                size: 4,
                write_flags,
                ..WriteIn::default()
            };
            Req::new(Write, 5).args(&args).raw(b"data").bytes()
        };
        let sync = |op, node, fh| {
            let args = FsyncIn {
                fh,
                ..FsyncIn::default()
            };
            Req::new(op, node).args(&args).bytes()
        };
        let allocate = FallocateIn {
            fh: file,
            length: 1,
            ..FallocateIn::default()
        };
        let copy = CopyFileRangeIn {
            fh_in: file,
            nodeid_out: 5,
            fh_out: file,
            len: 1,
            ..CopyFileRangeIn::default()
        };
        let cut = |valid| {
            let args = SetattrIn {
                valid,
                fh: file,
                ..SetattrIn::default()
            };
            Req::new(Setattr, 5).args(&args).bytes()
        };
        let told = [
            write(0),
            sync(Fsync, 5, file),
            sync(Fsyncdir, 1, dir),
            Req::new(Fallocate, 5).args(&allocate).bytes(),
            Req::new(CopyFileRange, 6).args(&copy).bytes(),
            cut(1 << 3 | 1 << 6),
        ];
        for (which, request) in told.into_iter().enumerate() {
            match losses {
                2 => drop(bench.good(request)),
                _ => assert_eq!(bench.bad(request), Errno::EIO, "{which} by a handle of {losses}"),
            }
        }
        let read = ReadIn {
            fh: file,
            size: 10,
            ..ReadIn::default()
        };
        for request in [write(1), cut(1 << 3), Req::new(Read, 5).args(&read).bytes()] {
            bench.good(request);
        }
    }
}

/// The calls of a request where the kernel caches files so.
fn calls_with(cache: CacheMode, request: Req) -> Vec<String> {
    let config = MountConfig {
        cache,
        ..MountConfig::default()
    };
    Bench::new(Fake::default(), &config).good(request.bytes()).0
}

/// S-20.1: a write is durable before its reply where the kernel sends no FSYNC behind it, and only there.
#[test]
fn synchronous_writes() {
    const SYNC: i32 = libc::O_SYNC;
    const DSYNC: i32 = libc::O_DSYNC;
    const DIRECT: i32 = libc::O_DIRECT;
    let syncs = |cache, flags: i32, write_flags| {
        let args = WriteIn {
            size: 4,
            flags: flags as u32,
            write_flags,
            ..WriteIn::default()
        };
        let calls = calls_with(cache, Req::new(Write, 5).args(&args).raw(b"data"));
        assert!(calls[0].starts_with("write 5 0 data"), "{calls:?}");
        calls[1..].join(", ")
    };
    assert_eq!(syncs(CacheMode::Direct, SYNC, 0), "fsync 5 false");
    assert_eq!(syncs(CacheMode::Direct, DSYNC, 0), "fsync 5 true");
    assert_eq!(syncs(CacheMode::Direct, libc::O_RDWR | libc::O_APPEND, 0), "");
    assert_eq!(
        syncs(CacheMode::Direct, SYNC, 1),
        "",
        "flags of the page cache are guessed"
    );
    for cache in [CacheMode::Writethrough, CacheMode::Writeback] {
        assert_eq!(syncs(cache, SYNC, 0), "", "the kernel sends FSYNC");
        assert_eq!(
            syncs(cache, DSYNC | DIRECT, 0),
            "fsync 5 true",
            "asynchronous ones have none"
        );
        assert_eq!(syncs(cache, DIRECT, 0), "");
    }
}

/// S-20.2: the handle of an open file tells what its fallocates and copies promise, in every mode.
#[test]
fn handles_tell_what_is_synchronous() {
    for cache in [CacheMode::Direct, CacheMode::Writethrough, CacheMode::Writeback] {
        for (flags, handle, synced) in [
            (libc::O_RDWR | libc::O_APPEND, 0, ""),
            (libc::O_RDWR | libc::O_DSYNC, 1, "fsync 6 true"),
            (libc::O_WRONLY | libc::O_SYNC, 3, "fsync 6 false"),
        ] {
            let config = MountConfig {
                cache,
                ..MountConfig::default()
            };
            let mut bench = Bench::new(Fake::default(), &config);
            let mut handle_of = |request: Req| {
                let reply = bench.good(request.bytes()).1;
                long(&reply, reply.len() - 16)
            };
            let flags = flags as u32;
            let open = OpenIn {
                flags,
                ..OpenIn::default()
            };
            let create = CreateIn {
                flags,
                ..CreateIn::default()
            };
            assert_eq!(handle_of(Req::new(Open, 6).args(&open)), handle);
            assert_eq!(handle_of(Req::new(Create, 1).args(&create).name("new")), handle);
            assert_eq!(handle_of(Req::new(Tmpfile, 1).args(&create).name("#1")), handle);
            let allocate = FallocateIn {
                fh: handle,
                length: 1,
                ..FallocateIn::default()
            };
            let copy = CopyFileRangeIn {
                fh_in: 3,
                nodeid_out: 6,
                fh_out: handle,
                len: 1,
                ..CopyFileRangeIn::default()
            };
            for request in [
                Req::new(Fallocate, 6).args(&allocate),
                Req::new(CopyFileRange, 5).args(&copy),
                Req::new(CopyFileRange64, 5).args(&copy),
            ] {
                assert_eq!(calls_with(cache, request)[2..].join(", "), synced);
            }
        }
    }
}

#[test]
fn syncs() {
    assert_eq!(calls(Req::new(Fsync, 5).args(&FsyncIn::default())), ["fsync 5 false"]);
    assert_eq!(
        calls(Req::new(Fsync, 5).args(&FsyncIn {
            fsync_flags: 1,
            ..FsyncIn::default()
        })),
        ["fsync 5 true"]
    );
    assert_eq!(
        calls(Req::new(Fsyncdir, 1).args(&FsyncIn::default())),
        ["fsync 1 false"]
    );
    assert_eq!(calls(Req::new(Syncfs, 1).words(&[0, 0])), ["syncfs"]);
    assert_eq!(calls(Req::new(Destroy, 0)), ["unmount"]);
}

#[test]
fn allocation_and_holes() {
    let falloc = |mode| {
        Req::new(Fallocate, 5).args(&FallocateIn {
            offset: 1,
            length: 2,
            mode,
            ..FallocateIn::default()
        })
    };
    let modes = [
        (0, "Allocate"),
        (1, "KeepSize"),
        (3, "PunchHole"),
        (0x10, "ZeroRange { keep_size: false }"),
        (0x11, "ZeroRange { keep_size: true }"),
    ];
    for (mode, name) in modes {
        assert_eq!(
            calls(falloc(mode)),
            ["getattr 5".into(), format!("fallocate 5 {name} 1 2")]
        );
    }
    for mode in [2, 8, 0x20, 0x40, u32::MAX] {
        assert_eq!(errno(falloc(mode)), Errno::EOPNOTSUPP);
    }
    let far = FallocateIn {
        offset: i64::MAX as u64,
        length: 1,
        ..FallocateIn::default()
    };
    assert_eq!(errno(Req::new(Fallocate, 5).args(&far)), Errno::EFBIG);
    let seek = |whence| {
        Req::new(Lseek, 5).args(&LseekIn {
            offset: 3,
            whence,
            ..LseekIn::default()
        })
    };
    assert_eq!(
        (calls(seek(3)), calls(seek(4))),
        (vec!["seek 5 3 Data".into()], vec!["seek 5 3 Hole".into()])
    );
    assert_eq!(long(&payload(seek(3)), 0), 4096);
    assert_eq!(errno(seek(0)), Errno::EINVAL);
}

#[test]
fn copies() {
    let args = CopyFileRangeIn {
        off_in: 1,
        nodeid_out: 6,
        off_out: 2,
        len: 1 << 33,
        ..CopyFileRangeIn::default()
    };
    assert_eq!(
        calls(Req::new(CopyFileRange64, 5).args(&args)),
        ["getattr 6".into(), format!("copy 5 1 6 2 {}", 1u64 << 33)]
    );
    assert_eq!(long(&payload(Req::new(CopyFileRange64, 5).args(&args)), 0), 1 << 33);
    let short = payload(Req::new(CopyFileRange, 5).args(&args));
    assert_eq!(
        word(&short, 0),
        0xffff_f000,
        "as much as 32 bits can say, in whole pages"
    );
    assert_eq!(
        errno(Req::new(CopyFileRange64, 5).args(&CopyFileRangeIn { flags: 1, ..args })),
        Errno::EINVAL
    );
}

#[test]
fn directories_are_listed() {
    let list = |offset, size| {
        Req::new(Readdir, 1).args(&ReadIn {
            offset,
            size,
            ..ReadIn::default()
        })
    };
    let all = payload(list(0, 4096));
    assert_eq!(
        (long(&all, 0), long(&all, 8), word(&all, 16), word(&all, 20)),
        (20, 1, 1, 4),
        "ino, cookie, length, type"
    );
    assert_eq!((&all[24..25], all.len()), (&b"."[..], 32 + 32 + 32 + 40 + 32));
    assert_eq!(payload(list(0, 95)).len(), 64, "only what fits whole");
    assert_eq!(payload(list(4, 4096)).len(), 32, "from a cookie on");
    assert_eq!(payload(list(5, 4096)).len(), 0, "the end");
    assert_eq!(errno(list(0, 31)), Errno::EINVAL, "room for none is not the end");
}

#[test]
fn readdirplus_counts_only_what_it_sends() {
    for size in (160..=1000).step_by(8) {
        let mut bench = Bench::polite();
        let args = ReadIn {
            size,
            ..ReadIn::default()
        };
        let (_, reply) = bench.good(Req::new(Readdirplus, 1).args(&args).bytes());
        let mut sent = Vec::new();
        let mut at = 0;
        while at < reply.len() {
            let (node, name_len) = (long(&reply, at), word(&reply, at + 128 + 16) as usize);
            sent.push((node, reply[at + 152..at + 152 + name_len].to_vec()));
            at += (152 + name_len).next_multiple_of(8);
        }
        assert!(reply.len() <= size as usize);
        let counted: Vec<u64> = bench.fake.counts.lock().unwrap().keys().copied().collect();
        let looked_up: Vec<u64> = sent
            .iter()
            .filter(|(node, _)| *node != 0)
            .map(|(node, _)| *node)
            .collect();
        assert_eq!(counted, looked_up);
        assert!(
            sent.iter()
                .all(|(node, name)| (*node == 0) == (name == b"." || name == b".."))
        );
    }
}

#[test]
fn extended_attributes() {
    let get = |size| Req::new(Getxattr, 5).words(&[size, 0]).name("user.k");
    assert_eq!(
        (calls(get(0)), word(&payload(get(0)), 0)),
        (vec!["getxattr 5 user.k".to_owned()], 5)
    );
    assert_eq!(payload(get(5)), b"vvvvv");
    assert_eq!(errno(get(4)), Errno::ERANGE);
    let list = |size| Req::new(Listxattr, 5).words(&[size, 0]);
    assert_eq!(
        (word(&payload(list(0)), 0), payload(list(14))),
        (14, b"user.a\0user.a\0".to_vec())
    );
    assert_eq!(errno(list(13)), Errno::ERANGE);
    // S-20.10: names that are root's alone are told to root alone.
    let as_root = |size| payload(list(size).by(0, 4321));
    assert_eq!(
        (word(&as_root(0), 0), as_root(24)),
        (24, b"user.a\0trusted.t\0user.a\0".to_vec())
    );
    let set = |size, flags, more| {
        Req::new(Setxattr, 5)
            .args(&SetxattrIn {
                size,
                flags,
                setxattr_flags: more,
                padding: 0,
            })
            .name("user.k")
            .raw(b"val")
    };
    let call = calls(set(3, 1, 1));
    assert_eq!(
        call,
        ["setxattr 5 user.k val XattrHow { create: true, replace: false, kill_sgid: true }"]
    );
    assert!(calls(set(3, 2, 0))[0].ends_with("create: false, replace: true, kill_sgid: false }"));
    assert_eq!(errno(set(4, 0, 0)), Errno::EINVAL, "less value than announced");
    assert_eq!(
        errno(Req::new(Getxattr, 5).words(&[0, 0]).name(&"k".repeat(256))),
        Errno::ERANGE
    );
    assert_eq!(calls(Req::new(Removexattr, 5).name("user.k")), ["removexattr 5 user.k"]);
}

#[test]
fn ioctls() {
    let ioctl = |cmd, input: &[u8], out_size| {
        let args = IoctlIn {
            cmd,
            in_size: input.len() as u32,
            out_size,
            ..IoctlIn::default()
        };
        Req::new(Ioctl, 5).args(&args).raw(input)
    };
    for cmd in [0x8008_6601, 0x8004_6601] {
        assert_eq!(payload(ioctl(cmd, &[], 4))[16..], 0x50u32.to_ne_bytes());
        assert_eq!(payload(ioctl(cmd, &[], 8)).len(), 24, "as long as the caller's word");
        assert_eq!(errno(ioctl(cmd, &[], 2)), Errno::EINVAL);
    }
    assert_eq!(
        calls(ioctl(0x4008_6602, &0x10u64.to_ne_bytes(), 0)),
        ["set_flags 5 0x10"]
    );
    assert_eq!(
        calls(ioctl(0x4004_6602, &0x20u32.to_ne_bytes(), 0)),
        ["set_flags 5 0x20"]
    );
    assert_eq!(errno(ioctl(0x4004_6602, &[1, 2], 0)), Errno::EINVAL);
    assert_eq!(
        word(&payload(ioctl(0x801c_581f, &[], 28)), 16),
        0x8 | 0x80,
        "FS_XFLAG_IMMUTABLE, NODUMP"
    );
    let mut fsx = [0u8; 28];
    fsx[0] = 0x10;
    assert_eq!(calls(ioctl(0x401c_5820, &fsx, 0)), ["set_flags 5 0x20"]);
    fsx[12] = 1;
    assert_eq!(errno(ioctl(0x401c_5820, &fsx, 0)), Errno::EOPNOTSUPP, "no project ids");
    assert_eq!(word(&payload(ioctl(0x8008_7601, &[], 8)), 16), 1005, "the generation");
    assert_eq!(errno(ioctl(0x1234, &[], 0)), Errno::ENOTTY);
    let beyond = IoctlIn {
        cmd: 0x4004_6602,
        in_size: 4,
        ..IoctlIn::default()
    };
    assert_eq!(
        errno(Req::new(Ioctl, 5).args(&beyond)),
        Errno::EINVAL,
        "less input than announced"
    );
}

#[test]
fn shutdown_is_for_root() {
    let shutdown = |cmd: u32, uid: u32, input: &[u8]| {
        let args = IoctlIn {
            cmd,
            in_size: input.len() as u32,
            out_size: 4,
            ..IoctlIn::default()
        };
        Req::new(Ioctl, 5)
            .args(&args)
            .raw(input)
            .by(uid, std::process::id())
            .bytes()
    };
    assert_eq!(Bench::polite().bad(shutdown(0x8004_587d, 1000, &[])), Errno::EPERM);
    let (calls, reply) = Bench::polite().good(shutdown(0x8004_587d, 0, &[]));
    assert_eq!((calls, reply.len()), (vec!["shutdown false".to_owned()], 16));
    for (how, call) in [(0u32, "shutdown true"), (1, "shutdown true"), (2, "shutdown false")] {
        assert_eq!(
            Bench::polite().good(shutdown(0x4004_587d, 0, &how.to_ne_bytes())).0,
            [call]
        );
    }
    assert_eq!(
        Bench::polite().bad(shutdown(0x4004_587d, 0, &9u32.to_ne_bytes())),
        Errno::EINVAL
    );
}

/// FITRIM, which a file system answers that can tell its device.
#[test]
fn trim_is_for_root() {
    let trim = |uid: u32, input: &[u8]| {
        let args = IoctlIn {
            cmd: 0xc018_5879,
            in_size: input.len() as u32,
            out_size: 24,
            ..IoctlIn::default()
        };
        Req::new(Ioctl, 1)
            .args(&args)
            .raw(input)
            .by(uid, std::process::id())
            .bytes()
    };
    let range: Vec<u8> = [4096u64, 8192, 4096].iter().flat_map(|n| n.to_ne_bytes()).collect();
    assert_eq!(Bench::polite().bad(trim(1000, &range)), Errno::EPERM);
    assert_eq!(Bench::polite().bad(trim(0, &range[..16])), Errno::EINVAL);
    let (calls, reply) = Bench::polite().good(trim(0, &range));
    assert_eq!(calls, ["trim 4096 8192 4096"]);
    let given: Vec<u8> = [4096u64, 777, 4096].iter().flat_map(|n| n.to_ne_bytes()).collect();
    assert_eq!(reply[16..], given);
}

/// S-20.9: root that has given up CAP_SYS_ADMIN, as root of a container, is nobody; nor is a process that cannot be seen.
#[test]
fn administrators_have_the_capability() {
    let args = IoctlIn {
        cmd: 0x8004_587d,
        ..IoctlIn::default()
    };
    let asked = |pid| Req::new(Ioctl, 5).args(&args).by(0, pid).bytes();
    let without = || {
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective.remove(rustix::thread::CapabilitySet::SYS_ADMIN);
        rustix::thread::set_capabilities(None, sets).unwrap();
        let own = rustix::thread::gettid().as_raw_pid() as u32;
        assert_eq!(Bench::polite().bad(asked(own)), Errno::EPERM);
    };
    std::thread::scope(|scope| scope.spawn(without).join().unwrap());
    assert_eq!(Bench::polite().bad(asked(0)), Errno::EPERM);
    assert_eq!(Bench::polite().good(asked(std::process::id())).0, ["shutdown false"]);
}

#[test]
fn what_is_not_served_says_so() {
    for op in [
        Access,
        Flush,
        Getlk,
        Setlk,
        Setlkw,
        Bmap,
        Poll,
        Setupmapping,
        Removemapping,
    ] {
        assert_eq!(errno(Req::new(op, 5).raw(&[0; 64])), Errno::ENOSYS);
    }
    let mut unknown = Req::new(Getattr, 5).bytes();
    unknown[4..8].copy_from_slice(&9999u32.to_ne_bytes());
    assert_eq!(Bench::polite().bad(unknown), Errno::ENOSYS);
    for op in [Release, Releasedir] {
        assert_eq!(payload(Req::new(op, 5).raw(&[0; 24])).len(), 0);
    }
    assert_eq!(
        errno(Req::new(Interrupt, 0).words(&[1, 2])),
        Errno::ENOSYS,
        "no more interrupts, please"
    );
    assert_eq!(errno(Req::new(Init, 0).raw(&[0; 64])), Errno::EINVAL);
}

#[test]
fn wrong_lengths_are_answered() {
    let mut bench = Bench::polite();
    assert_eq!(bench.handle(&[]), Outcome::NoReply);
    assert_eq!(bench.handle(&[0; 39]), Outcome::NoReply);
    for op in Opcode::ALL {
        let request = Req::new(*op, 5).raw(&[0; 128]).bytes();
        for wrong in [request.len() - 1, request.len() + 1, 0, usize::MAX] {
            let mut bytes = request.clone();
            bytes[..4].copy_from_slice(&(wrong as u32).to_ne_bytes());
            assert_eq!(bench.bad(bytes), Errno::EINVAL);
            assert_eq!(long(bench.reply.bytes(), 8), UNIQUE);
        }
    }
    assert!(bench.fake.log.lock().unwrap().is_empty(), "nothing was done");
}

/// S-16.3: what must not happen twice is told its request.
#[test]
fn a_change_is_told_its_request() {
    let mut request = Req::new(Mkdir, 1).words(&[0o755, 0]).name("d").bytes();
    let mut bench = Bench::polite();
    let seat = bench.reply.seat().expect("it has a seat");
    let expected = |resent| {
        Some(Request {
            unique: UNIQUE,
            resent,
            seat,
        })
    };
    bench.good(request.clone());
    assert_eq!(*bench.fake.request.lock().unwrap(), expected(false));
    // Sent again to a restarted server: the same number below, the number as sent in the answer.
    let again = UNIQUE | 1 << 63;
    request[8..16].copy_from_slice(&again.to_ne_bytes());
    bench.good(request);
    assert_eq!(*bench.fake.request.lock().unwrap(), expected(true));
    assert_eq!(long(bench.reply.bytes(), 8), again);
}

/// Each who answers has a seat of its own, which the next one gets when it has ended.
#[test]
fn nobody_shares_a_seat() {
    let bench = Bench::polite();
    let seats = |bufs: &[ReplyBuf]| bufs.iter().map(|buf| buf.seat().expect("a seat")).collect::<Vec<_>>();
    let mut bufs: Vec<ReplyBuf> = (0..5).map(|_| bench.dispatcher.reply_buf()).collect();
    assert_eq!(seats(&bufs), [1, 2, 3, 4, 5], "the bench has the first");
    bufs.remove(1);
    bufs.push(bench.dispatcher.reply_buf());
    assert_eq!(seats(&bufs), [1, 3, 4, 5, 2]);
}

#[test]
fn statfs_figures() {
    let reply = payload(Req::new(Statfs, 1));
    let figures: Vec<u64> = (0..40).step_by(8).map(|at| long(&reply, at)).collect();
    assert_eq!((figures, reply.len()), (vec![1, 2, 3, 4, 5], 80));
    assert_eq!(
        (word(&reply, 40), word(&reply, 44), word(&reply, 48)),
        (4096, 255, 4096)
    );
}

#[test]
fn readlink_is_the_target() {
    assert_eq!(payload(Req::new(Readlink, 5)), b"target");
}
