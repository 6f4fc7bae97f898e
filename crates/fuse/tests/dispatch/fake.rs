//! A small file system that notes every call. Polite, it answers always the same; hostile, it answers anything.

use keepfs_fuse::{Dispatcher, Granted, MountConfig, Outcome, ReplyBuf};
use keepfs_vfs::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// xorshift64*: good enough to be hostile, and the same on every machine.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

#[derive(Default)]
pub struct Fake {
    pub log: Mutex<Vec<String>>,
    /// For which request a change was asked for last.
    pub request: Mutex<Option<Request>>,
    /// Lookup counts as the file system sees them.
    pub counts: Mutex<BTreeMap<u64, i64>>,
    pub hostile: Option<Mutex<Rng>>,
    /// How often changes were lost (S-16.9).
    pub losses: AtomicU32,
}

/// What a dispatcher under test consists of.
pub struct Bench {
    pub fake: Arc<Fake>,
    pub dispatcher: Dispatcher,
    pub reply: ReplyBuf<'static>,
}

impl Bench {
    pub fn new(fake: Fake, config: &MountConfig) -> Bench {
        let fake = Arc::new(fake);
        let granted = Granted {
            minor: 45,
            flags: u64::MAX,
            max_write: 1 << 16,
        };
        let dispatcher = Dispatcher::new(fake.clone(), config, granted);
        let reply = dispatcher.reply_buf();
        Bench {
            fake,
            dispatcher,
            reply,
        }
    }

    pub fn polite() -> Bench {
        Bench::new(Fake::default(), &MountConfig::default())
    }

    pub fn handle(&mut self, request: &[u8]) -> Outcome {
        self.dispatcher.handle(request, &mut self.reply)
    }

    /// Handles a request that must succeed: the calls it made and its payload.
    pub fn good(&mut self, request: Vec<u8>) -> (Vec<String>, Vec<u8>) {
        self.fake.log.lock().unwrap().clear();
        assert_eq!(self.handle(&request), Outcome::Reply);
        assert_eq!(crate::requests::word(self.reply.bytes(), 4), 0, "an error came back");
        (self.fake.log.lock().unwrap().clone(), self.reply.payload().to_vec())
    }

    /// Handles a request that must fail: the errno.
    pub fn bad(&mut self, request: Vec<u8>) -> Errno {
        assert_eq!(self.handle(&request), Outcome::Reply);
        assert_eq!(self.reply.bytes().len(), 16);
        Errno(-(crate::requests::word(self.reply.bytes(), 4) as i32))
    }
}

/// A file of 512 bytes without blocks, and one a byte smaller.
pub const SPARSE: u64 = 98;
pub const ALMOST_SPARSE: u64 = 99;

/// A write at this offset finds no space.
pub const FULL_FROM: u64 = 1 << 40;

const ERRORS: [Errno; 9] = [
    Errno::ENOENT,
    Errno::EIO,
    Errno::ENOSPC,
    Errno::ENOSYS,
    Errno(0),
    Errno(-5),
    Errno(512),
    Errno(i32::MIN),
    Errno(i32::MAX),
];

impl Fake {
    fn note(&self, what: String) {
        self.log.lock().unwrap().push(what);
    }

    /// `ok`, or whatever a hostile file system says instead.
    fn answer<T>(&self, ok: T) -> Result<T> {
        match &self.hostile {
            Some(rng) => {
                let mut rng = rng.lock().unwrap();
                if rng.below(4) == 0 {
                    Err(ERRORS[rng.below(ERRORS.len())])
                } else {
                    Ok(ok)
                }
            }
            None => Ok(ok),
        }
    }

    /// `polite`, or a number up to `most` if hostile.
    fn size(&self, polite: usize, most: usize) -> usize {
        self.hostile
            .as_ref()
            .map_or(polite, |rng| rng.lock().unwrap().below(most + 1))
    }

    pub fn attr(ino: u64) -> Attr {
        let time = |sec| Time { sec, nsec: 5 };
        Attr {
            ino: Ino(ino),
            generation: ino.wrapping_add(1000),
            mode: if ino == 1 { 0o040755 } else { 0o100644 },
            nlink: 2,
            uid: 3,
            gid: 4,
            rdev: 0x0010_0f02,
            size: match ino {
                SPARSE => 512,
                ALMOST_SPARSE => 511,
                _ => 6,
            },
            blocks: match ino {
                SPARSE | ALMOST_SPARSE => 0,
                _ => 8,
            },
            atime: time(-1),
            mtime: time(20),
            ctime: time(30),
            btime: time(40),
            flags: InodeFlags(0x50),
        }
    }

    fn entry(&self, ino: u64) -> Result<Entry> {
        if ino == 0 {
            return Err(Errno::ESTALE);
        }
        let entry = self.answer(Entry { attr: Fake::attr(ino) })?;
        *self.counts.lock().unwrap().entry(ino).or_default() += 1;
        Ok(entry)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Vfs for Fake {
    fn must_note_loss(&self) -> bool {
        self.losses.load(Ordering::Relaxed) > 0
    }

    fn losses(&self) -> u32 {
        self.losses.load(Ordering::Relaxed)
    }
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Entry> {
        self.note(format!("lookup {} {}", parent.0, text(name)));
        if name == b"missing" {
            Err(Errno::ENOENT)
        } else {
            self.entry(7)
        }
    }
    fn lookup_ino(&self, ino: Ino) -> Result<Entry> {
        self.note(format!("lookup_ino {}", ino.0));
        self.entry(ino.0)
    }
    fn forget(&self, ino: Ino, count: u64) {
        self.note(format!("forget {} {count}", ino.0));
        let mut counts = self.counts.lock().unwrap();
        let held = counts.entry(ino.0).or_default();
        *held = held.saturating_sub_unsigned(count);
    }
    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.note(format!("getattr {}", ino.0));
        self.answer(Fake::attr(ino.0))
    }
    fn setattr(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        self.note(format!("setattr {} {change:?}", ino.0));
        self.answer(Fake::attr(ino.0))
    }
    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.note(format!("readlink {}", ino.0));
        self.answer(b"target".repeat(self.size(1, 30_000)))
    }
    fn once(&self, request: Option<Request>, op: OnceOp<'_>) -> Result<Option<Entry>> {
        *self.request.lock().unwrap() = Some(request.expect("the request is not told"));
        match op {
            OnceOp::Mknod { parent, name, new } => {
                self.note(format!("mknod {} {} {new:?}", parent.0, text(name)));
                if name == b"exists" {
                    return Err(Errno::EEXIST);
                }
                self.entry(8).map(Some)
            }
            OnceOp::Symlink {
                parent,
                name,
                target,
                new,
            } => {
                self.note(format!("symlink {} {} {} {new:?}", parent.0, text(name), text(target)));
                self.entry(9).map(Some)
            }
            OnceOp::Tmpfile { parent, new } => {
                self.note(format!("tmpfile {} {new:?}", parent.0));
                self.entry(10).map(Some)
            }
            OnceOp::Link { ino, parent, name } => {
                self.note(format!("link {} {} {}", ino.0, parent.0, text(name)));
                self.entry(ino.0).map(Some)
            }
            OnceOp::Unlink { parent, name } => {
                self.note(format!("unlink {} {}", parent.0, text(name)));
                self.answer(None)
            }
            OnceOp::Rmdir { parent, name } => {
                self.note(format!("rmdir {} {}", parent.0, text(name)));
                self.answer(None)
            }
            OnceOp::Rename { from, to, flags } => {
                let (old, new) = (text(from.1), text(to.1));
                self.note(format!("rename {} {old} {} {new} {flags:?}", from.0.0, to.0.0));
                self.answer(None)
            }
            OnceOp::Setxattr { ino, name, value, how } => {
                self.note(format!("setxattr {} {} {} {how:?}", ino.0, text(name), text(value)));
                self.answer(None)
            }
            OnceOp::Removexattr { ino, name } => {
                self.note(format!("removexattr {} {}", ino.0, text(name)));
                self.answer(None)
            }
        }
    }
    fn open(&self, ino: Ino, how: OpenHow) -> Result<()> {
        self.note(format!("open {} {how:?}", ino.0));
        self.answer(())
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.note(format!("read {} {offset} {}", ino.0, buf.len()));
        buf.fill(b'r');
        self.answer(self.size(buf.len(), 2 * buf.len() + 1))
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8], how: WriteHow) -> Result<usize> {
        self.note(format!("write {} {offset} {} {how:?}", ino.0, text(data)));
        if offset == FULL_FROM {
            return Err(Errno::ENOSPC);
        }
        self.answer(self.size(data.len(), 2 * data.len() + 1))
    }
    fn fallocate(&self, ino: Ino, mode: FallocMode, offset: u64, len: u64) -> Result<()> {
        self.note(format!("fallocate {} {mode:?} {offset} {len}", ino.0));
        self.answer(())
    }
    fn seek(&self, ino: Ino, offset: u64, whence: SeekWhence) -> Result<u64> {
        self.note(format!("seek {} {offset} {whence:?}", ino.0));
        self.answer(4096)
    }
    fn copy_file_range(&self, from: Ino, from_offset: u64, to: Ino, to_offset: u64, len: u64) -> Result<u64> {
        self.note(format!("copy {} {from_offset} {} {to_offset} {len}", from.0, to.0));
        self.answer(self.size(len as usize, u32::MAX as usize * 4) as u64)
    }
    fn readdir(&self, ino: Ino, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.note(format!("readdir {} {cookie}", ino.0));
        let long = "n".repeat(self.size(1, 3000));
        let names = [".", "..", "one", "twotwotwo", long.as_str()];
        for (at, name) in names.iter().enumerate().skip(cookie.min(9) as usize) {
            let kind = if at < 2 { FileKind::Dir } else { FileKind::File };
            let name = name.as_bytes();
            if !sink(DirEntry {
                ino: Ino(at as u64 + 20),
                kind,
                name,
                cookie: at as u64 + 1,
            }) {
                break;
            }
        }
        self.answer(())
    }
    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.note(format!("fsync {} {data_only}", ino.0));
        self.answer(())
    }
    fn syncfs(&self) -> Result<()> {
        self.note("syncfs".into());
        self.answer(())
    }
    fn statfs(&self) -> Result<StatFs> {
        self.note("statfs".into());
        self.answer(StatFs {
            block_size: 4096,
            blocks: 1,
            blocks_free: 2,
            blocks_available: 3,
            files: 4,
            files_free: 5,
        })
    }
    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.note(format!("getxattr {} {}", ino.0, text(name)));
        self.answer(vec![b'v'; self.size(5, 200_000)])
    }
    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.note(format!("listxattr {}", ino.0));
        let mut names = vec![b"user.a".to_vec(); self.size(2, 5000)];
        names.insert(names.len().min(1), b"trusted.t".to_vec());
        self.answer(names)
    }
    fn set_flags(&self, ino: Ino, flags: InodeFlags) -> Result<()> {
        self.note(format!("set_flags {} {:#x}", ino.0, flags.0));
        self.answer(())
    }
    fn trim(&self, start: u64, len: u64, min_len: u64) -> Result<u64> {
        self.note(format!("trim {start} {len} {min_len}"));
        self.answer(777)
    }
    fn shutdown(&self, flush_first: bool) -> Result<()> {
        self.note(format!("shutdown {flush_first}"));
        self.answer(())
    }
    fn unmount(&self) -> Result<()> {
        self.note("unmount".into());
        self.answer(())
    }
}
