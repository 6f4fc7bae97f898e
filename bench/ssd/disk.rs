//! The file system of the disk: a root with two files, `device` and `counters`.

use crate::model::{Profile, Queue};
use keepfs_vfs::*;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

const DEVICE: Ino = Ino(2);
const COUNTERS: Ino = Ino(3);
const NAMES: [(&[u8], Ino); 2] = [(b"device", DEVICE), (b"counters", COUNTERS)];
/// Size that `counters` pretends to have.
const TEXT_BYTES: u64 = 4096;

/// What came to the device.
#[derive(Default)]
struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
}

/// A disk in memory.
pub struct Disk {
    memory: File,
    bytes: u64,
    profile: Profile,
    queue: Mutex<Queue>,
    counters: Counters,
}

impl Disk {
    /// A disk of so many bytes, all zeros.
    pub fn new(bytes: u64, profile: Profile) -> std::io::Result<Disk> {
        let memory = memfd_create("ssd", MemfdFlags::CLOEXEC)?;
        ftruncate(&memory, bytes)?;
        Ok(Disk {
            memory: memory.into(),
            bytes,
            profile,
            queue: Mutex::new(Queue::new(profile, Instant::now())),
            counters: Counters::default(),
        })
    }

    /// Waits until the queue says that a request is done.
    fn wait(&self, enter: impl FnOnce(&mut Queue, Instant) -> Instant) {
        let now = Instant::now();
        let done = enter(&mut self.queue.lock().unwrap_or_else(PoisonError::into_inner), now);
        loop {
            let left = done.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // Nobody wakes this thread: the model's time is what it waits for.
            std::thread::park_timeout(left);
        }
    }

    fn attr(&self, ino: Ino) -> Result<Attr> {
        let (mode, size) = match ino {
            Ino::ROOT => (FileKind::Dir.type_bits() | 0o755, 0),
            DEVICE => (FileKind::File.type_bits() | 0o600, self.bytes),
            COUNTERS => (FileKind::File.type_bits() | 0o400, TEXT_BYTES),
            _ => return Err(Errno::ENOENT),
        };
        let time = Time { sec: 0, nsec: 0 };
        Ok(Attr {
            ino,
            generation: 0,
            size,
            blocks: size / 512,
            atime: time,
            mtime: time,
            ctime: time,
            btime: time,
            mode,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            flags: InodeFlags::default(),
        })
    }

    fn text(&self) -> String {
        let Counters {
            reads,
            read_bytes,
            writes,
            written_bytes,
            flushes,
        } = &self.counters;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (reads, read_bytes, writes) = (of(reads), of(read_bytes), of(writes));
        format!(
            "{{\"reads\":{reads},\"read_bytes\":{read_bytes},\"writes\":{writes},\"written_bytes\":{},\"flushes\":{},\
             \"flush_us\":{},\"write_bytes_s\":{}}}\n",
            of(written_bytes),
            of(flushes),
            self.profile.flush.as_micros(),
            self.profile.write.bytes
        )
    }
}

fn count(requests: &AtomicU64, bytes: &AtomicU64, len: usize) {
    requests.fetch_add(1, Ordering::Relaxed);
    bytes.fetch_add(len as u64, Ordering::Relaxed);
}

fn errno(error: std::io::Error) -> Errno {
    match error.kind() {
        std::io::ErrorKind::StorageFull => Errno::ENOSPC,
        _ => Errno::EIO,
    }
}

impl Vfs for Disk {
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Entry> {
        let found = NAMES.iter().find(|(known, _)| parent == Ino::ROOT && *known == name);
        let (_, ino) = found.ok_or(Errno::ENOENT)?;
        self.lookup_ino(*ino)
    }
    fn lookup_ino(&self, ino: Ino) -> Result<Entry> {
        Ok(Entry { attr: self.attr(ino)? })
    }
    fn forget(&self, _: Ino, _: u64) {}
    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.attr(ino)
    }
    fn setattr(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        match change.size {
            Some(size) if ino != DEVICE || size != self.bytes => Err(Errno::EPERM),
            _ => self.attr(ino),
        }
    }
    fn readlink(&self, _: Ino) -> Result<Vec<u8>> {
        Err(Errno::EINVAL)
    }
    fn once(&self, _: Option<Request>, _: OnceOp<'_>) -> Result<Option<Entry>> {
        Err(Errno::EPERM)
    }
    fn open(&self, ino: Ino, how: OpenHow) -> Result<()> {
        match how.truncate {
            true => Err(Errno::EPERM),
            false => self.attr(ino).map(drop),
        }
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if ino == COUNTERS {
            let text = self.text();
            let rest = text.as_bytes().get(offset as usize..).unwrap_or_default();
            let len = rest.len().min(buf.len());
            buf[..len].copy_from_slice(&rest[..len]);
            return Ok(len);
        }
        let len = self.memory.read_at(buf, offset).map_err(errno)?;
        count(&self.counters.reads, &self.counters.read_bytes, len);
        self.wait(|queue, now| queue.read(now, offset, len as u64));
        Ok(len)
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8], _: WriteHow) -> Result<usize> {
        if ino != DEVICE || offset.checked_add(data.len() as u64).is_none_or(|end| end > self.bytes) {
            return Err(Errno::ENOSPC);
        }
        self.memory.write_all_at(data, offset).map_err(errno)?;
        count(&self.counters.writes, &self.counters.written_bytes, data.len());
        self.wait(|queue, now| queue.write(now, offset, data.len() as u64));
        Ok(data.len())
    }
    fn fallocate(&self, ino: Ino, mode: FallocMode, offset: u64, len: u64) -> Result<()> {
        // What a discard or a write of zeros comes as. It costs nothing, as if it were done in the background.
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match mode {
            FallocMode::PunchHole | FallocMode::ZeroRange { .. } if ino == DEVICE => {
                fallocate(&self.memory, hole, offset, len).map_err(|e| errno(e.into()))
            }
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
    fn seek(&self, _: Ino, _: u64, _: SeekWhence) -> Result<u64> {
        Err(Errno::EINVAL)
    }
    fn copy_file_range(&self, _: Ino, _: u64, _: Ino, _: u64, _: u64) -> Result<u64> {
        Err(Errno::EOPNOTSUPP)
    }
    fn readdir(&self, _: Ino, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        for (number, (name, ino)) in (1..).zip(NAMES).filter(|(number, _)| *number > cookie) {
            let entry = DirEntry {
                ino,
                cookie: number,
                kind: FileKind::File,
                name,
            };
            if !sink(entry) {
                break;
            }
        }
        Ok(())
    }
    fn fsync(&self, ino: Ino, _: bool) -> Result<()> {
        if ino == DEVICE {
            self.counters.flushes.fetch_add(1, Ordering::Relaxed);
            self.wait(Queue::flush);
        }
        Ok(())
    }
    fn syncfs(&self) -> Result<()> {
        Ok(())
    }
    fn statfs(&self) -> Result<StatFs> {
        let blocks = self.bytes / 4096;
        Ok(StatFs {
            blocks,
            blocks_free: 0,
            blocks_available: 0,
            files: 3,
            files_free: 0,
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
