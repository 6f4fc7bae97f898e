//! An empty file system in memory behind a transport: what the kernel and the transport cost, without a file system
//! below. BARS P-3 and P-4 are ratios to it.
//!
//! `memory DIR [dev|uring] [writethrough|writeback|direct] [plain] [workers]` mounts on DIR as `keepfs mount` does (on an anchor,
//! so that RELEASE is waited for, decision 0121; `plain`: without), says the transport in use in one line, and serves
//! until DIR is unmounted. Files, directories, their attributes and contents; no links, no attributes beside
//! those of stat(2). Sharded, so that it costs next to nothing and scales like nothing would.

use keepfs_fuse::anchor::LoopAnchor;
use keepfs_fuse::{CacheMode, FuseError, MountConfig, Session, TransportKind, mount};
use keepfs_vfs::*;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

const SHARDS: usize = 64;

/// A directory and a name in it.
type Place<'a> = (Ino, &'a [u8]);

/// A file or a directory.
struct Node {
    attr: Mutex<Attr>,
    data: RwLock<Vec<u8>>,
    names: RwLock<Names>,
}

/// The entries of a directory: by name, and by cookie for listing.
#[derive(Default)]
struct Names {
    by_name: HashMap<Box<[u8]>, (Ino, u64)>,
    by_cookie: BTreeMap<u64, (Box<[u8]>, Ino, FileKind)>,
    /// The largest cookie; 1 and 2 are `.` and `..`.
    last: u64,
}

impl Names {
    fn insert(&mut self, name: &[u8], ino: Ino, kind: FileKind) {
        self.last = self.last.max(2) + 1;
        self.by_cookie.insert(self.last, (name.into(), ino, kind));
        if let Some((_, old)) = self.by_name.insert(name.into(), (ino, self.last)) {
            self.by_cookie.remove(&old);
        }
    }

    fn remove(&mut self, name: &[u8]) -> Result<Ino> {
        let (ino, cookie) = self.by_name.remove(name).ok_or(Errno::ENOENT)?;
        self.by_cookie.remove(&cookie);
        Ok(ino)
    }

    fn get(&self, name: &[u8]) -> Result<Ino> {
        self.by_name.get(name).map(|(ino, _)| *ino).ok_or(Errno::ENOENT)
    }
}

/// The file system.
struct Memory {
    shards: Vec<RwLock<HashMap<Ino, Arc<Node>>>>,
    next: AtomicU64,
}

fn now() -> Time {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Time {
        sec: since.as_secs() as i64,
        nsec: since.subsec_nanos(),
    }
}

impl Memory {
    fn new() -> Memory {
        let memory = Memory {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            next: AtomicU64::new(2),
        };
        let root = NewInode::by_root(FileKind::Dir.type_bits() | 0o777);
        memory.add(Ino::ROOT, &root);
        memory
    }

    fn shard(&self, ino: Ino) -> &RwLock<HashMap<Ino, Arc<Node>>> {
        &self.shards[ino.0 as usize % SHARDS]
    }

    fn node(&self, ino: Ino) -> Result<Arc<Node>> {
        self.shard(ino).read().get(&ino).cloned().ok_or(Errno::ESTALE)
    }

    fn add(&self, ino: Ino, new: &NewInode) -> Attr {
        let time = now();
        let attr = Attr {
            ino,
            generation: 0,
            size: 0,
            blocks: 0,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            mode: new.mode & !new.umask,
            nlink: 1,
            uid: new.uid,
            gid: new.gid,
            rdev: new.rdev,
            flags: InodeFlags::default(),
        };
        let node = Node {
            attr: Mutex::new(attr),
            data: RwLock::default(),
            names: RwLock::default(),
        };
        self.shard(ino).write().insert(ino, Arc::new(node));
        attr
    }

    fn entry(&self, ino: Ino) -> Result<Entry> {
        let attr = *self.node(ino)?.attr.lock();
        Ok(Entry { attr })
    }

    fn remove(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let ino = self.node(parent)?.names.write().remove(name)?;
        self.node(ino)?.attr.lock().nlink = 0;
        Ok(())
    }

    fn mknod(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Entry> {
        let kind = FileKind::of_mode(new.mode).ok_or(Errno::EINVAL)?;
        let parent = self.node(parent)?;
        let mut names = parent.names.write();
        if names.by_name.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        let ino = Ino(self.next.fetch_add(1, Ordering::Relaxed));
        let attr = self.add(ino, new);
        names.insert(name, ino, kind);
        Ok(Entry { attr })
    }

    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let ino = self.node(parent)?.names.read().get(name)?;
        match self.node(ino)?.names.read().by_name.is_empty() {
            true => self.remove(parent, name),
            false => Err(Errno::ENOTEMPTY),
        }
    }

    fn rename(&self, (parent, name): Place<'_>, (new_parent, new_name): Place<'_>, flags: RenameFlags) -> Result<()> {
        if flags != RenameFlags::default() {
            return Err(Errno::EINVAL);
        }
        let (from, to) = (self.node(parent)?, self.node(new_parent)?);
        let ino = from.names.write().remove(name)?;
        let kind = self.node(ino)?.attr.lock().kind();
        let _ = self.remove(new_parent, new_name);
        to.names.write().insert(new_name, ino, kind);
        Ok(())
    }
}

impl Vfs for Memory {
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Entry> {
        let ino = self.node(parent)?.names.read().get(name)?;
        self.entry(ino)
    }
    fn lookup_ino(&self, ino: Ino) -> Result<Entry> {
        self.entry(ino)
    }
    fn forget(&self, ino: Ino, _: u64) {
        // The kernel holds one reference for each looked-up inode, so the last FORGET is the only one.
        if self.node(ino).is_ok_and(|node| node.attr.lock().nlink == 0) {
            self.shard(ino).write().remove(&ino);
        }
    }
    fn getattr(&self, ino: Ino) -> Result<Attr> {
        Ok(*self.node(ino)?.attr.lock())
    }
    fn setattr(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        let node = self.node(ino)?;
        if let Some(size) = change.size {
            node.data.write().resize(size as usize, 0);
        }
        let mut attr = node.attr.lock();
        attr.mode = change.mode.map_or(attr.mode, |mode| attr.mode & S_IFMT | mode);
        attr.uid = change.uid.unwrap_or(attr.uid);
        attr.gid = change.gid.unwrap_or(attr.gid);
        attr.size = change.size.unwrap_or(attr.size);
        attr.ctime = now();
        Ok(*attr)
    }
    fn readlink(&self, _: Ino) -> Result<Vec<u8>> {
        Err(Errno::EINVAL)
    }
    fn once(&self, _: Option<Request>, op: OnceOp<'_>) -> Result<Option<Entry>> {
        match op {
            OnceOp::Mknod { parent, name, new } => self.mknod(parent, name, new).map(Some),
            OnceOp::Unlink { parent, name } => self.remove(parent, name).map(|()| None),
            OnceOp::Rmdir { parent, name } => self.rmdir(parent, name).map(|()| None),
            OnceOp::Rename { from, to, flags } => self.rename(from, to, flags).map(|()| None),
            OnceOp::Symlink { .. } | OnceOp::Link { .. } => Err(Errno::EPERM),
            OnceOp::Tmpfile { .. } | OnceOp::Setxattr { .. } => Err(Errno::EOPNOTSUPP),
            OnceOp::Removexattr { .. } => Err(Errno::ENODATA),
        }
    }
    fn open(&self, ino: Ino, how: OpenHow) -> Result<()> {
        let node = self.node(ino)?;
        if how.truncate {
            node.data.write().clear();
            node.attr.lock().size = 0;
        }
        Ok(())
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let node = self.node(ino)?;
        let data = node.data.read();
        let rest = data.get(offset as usize..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8], how: WriteHow) -> Result<usize> {
        let node = self.node(ino)?;
        let mut bytes = node.data.write();
        let start = if how.append { bytes.len() } else { offset as usize };
        let end = start + data.len();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(data);
        let mut attr = node.attr.lock();
        attr.size = bytes.len() as u64;
        attr.mtime = now();
        Ok(data.len())
    }
    fn fallocate(&self, _: Ino, _: FallocMode, _: u64, _: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    fn seek(&self, _: Ino, _: u64, _: SeekWhence) -> Result<u64> {
        Err(Errno::EINVAL)
    }
    fn copy_file_range(&self, _: Ino, _: u64, _: Ino, _: u64, _: u64) -> Result<u64> {
        Err(Errno::EOPNOTSUPP)
    }
    fn readdir(&self, ino: Ino, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let node = self.node(ino)?;
        for (number, name) in [(1, &b"."[..]), (2, b"..")] {
            let entry = DirEntry {
                ino,
                cookie: number,
                kind: FileKind::Dir,
                name,
            };
            if cookie < number && !sink(entry) {
                return Ok(());
            }
        }
        for (&cookie, (name, ino, kind)) in node.names.read().by_cookie.range(cookie.max(2) + 1..) {
            let entry = DirEntry {
                ino: *ino,
                cookie,
                kind: *kind,
                name,
            };
            if !sink(entry) {
                break;
            }
        }
        Ok(())
    }
    fn fsync(&self, _: Ino, _: bool) -> Result<()> {
        Ok(())
    }
    fn syncfs(&self) -> Result<()> {
        Ok(())
    }
    fn statfs(&self) -> Result<StatFs> {
        let blocks = 1 << 30;
        Ok(StatFs {
            blocks,
            blocks_free: blocks,
            blocks_available: blocks,
            files: blocks,
            files_free: blocks,
            block_size: 4096,
        })
    }
    fn getxattr(&self, _: Ino, _: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::ENODATA)
    }
    fn listxattr(&self, _: Ino) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }
    fn set_flags(&self, _: Ino, _: InodeFlags) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    fn shutdown(&self, _: bool) -> Result<()> {
        Ok(())
    }
    fn unmount(&self) -> Result<()> {
        Ok(())
    }
}

const USAGE: &str = "usage: memory DIR [dev|uring] [writethrough|writeback|direct] [plain] [workers]";

/// Mounts, with an anchor unless `plain`.
fn mounted(mut config: MountConfig, plain: bool) -> core::result::Result<Session, FuseError> {
    let anchor = (!plain).then(|| LoopAnchor::attach("memory")).transpose()?;
    config.anchor = anchor.as_ref().map(|anchor| anchor.path().to_owned());
    mount(Arc::new(Memory::new()), &config)
}

fn main() {
    let (mut config, mut plain) = (MountConfig::default(), false);
    for (number, word) in std::env::args_os().skip(1).enumerate() {
        match word.to_str() {
            Some("dev") if number > 0 => config.transport = TransportKind::Dev,
            Some("uring") if number > 0 => config.transport = TransportKind::Uring,
            Some("writethrough") if number > 0 => config.cache = CacheMode::Writethrough,
            Some("writeback") if number > 0 => config.cache = CacheMode::Writeback,
            Some("direct") if number > 0 => config.cache = CacheMode::Direct,
            Some("plain") if number > 0 => plain = true,
            // Large reads and writes go to workers always.
            Some("workers") if number > 0 => config.offload_bytes = 128 << 10,
            _ if number == 0 => config.mountpoint = PathBuf::from(word),
            _ => return eprintln!("{USAGE}"),
        }
    }
    let session = match mounted(config, plain) {
        Ok(session) => session,
        Err(error) => return eprintln!("{error}"),
    };
    println!("{}", session.transport());
    if let Err(error) = session.run() {
        eprintln!("{error}");
    }
}
