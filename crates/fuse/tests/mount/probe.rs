//! The oracle with ears and levers: notes which calls arrive, panics and waits where a test wants it.

use keepfs_testkit::model::Model;
use keepfs_vfs::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// A waiting point: the file system says that it has arrived and waits until it is let go.
pub struct Gate {
    arrived: Mutex<Sender<()>>,
    go: Mutex<Receiver<()>>,
}

/// The test's end of a [`Gate`].
pub struct Lever {
    pub arrived: Receiver<()>,
    pub go: Sender<()>,
}

pub fn gate() -> (Gate, Lever) {
    let (arrived, arrived_out) = channel();
    let (go_in, go) = channel();
    (
        Gate {
            arrived: Mutex::new(arrived),
            go: Mutex::new(go),
        },
        Lever {
            arrived: arrived_out,
            go: go_in,
        },
    )
}

impl Gate {
    fn pass(&self) {
        // A test that is over drops its ends, which opens the gate for good.
        let _ = self.arrived.lock().unwrap().send(());
        let _ = self.go.lock().unwrap().recv();
    }
}

/// Waits until a thread of this process sleeps in fsync(2), so that its request is with the kernel or the server.
pub fn until_in_fsync(thread: libc::pid_t) {
    let call = format!("{} ", libc::SYS_fsync);
    while !std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).is_ok_and(|now| now.starts_with(&call))
    {
        std::thread::yield_now();
    }
}

/// What is written or read begins with this, if it waits at [`Probe::write_gate`] or [`Probe::read_gate`].
pub const WAITS: u8 = b'w';

/// See the head of the file. Names starting with `panic` panic in lookup.
#[derive(Default)]
pub struct Probe {
    pub model: Model,
    pub log: Arc<Mutex<Vec<String>>>,
    pub unmount_gate: Option<Gate>,
    pub fsync_gate: Option<Gate>,
    /// Passed by writes that begin with [`WAITS`].
    pub write_gate: Option<Gate>,
    /// Passed by reads of what begins with [`WAITS`].
    pub read_gate: Option<Gate>,
    pub sync_gate: Option<Gate>,
    /// Lookups that the kernel has given back.
    pub forgotten: AtomicU64,
    /// What unmount answers; `None`: what the oracle says.
    pub unmount_errno: Option<Errno>,
}

impl Probe {
    fn note(&self, what: impl Into<String>) {
        self.log.lock().unwrap().push(what.into());
    }
}

impl Vfs for Probe {
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Entry> {
        assert!(!name.starts_with(b"panic"), "planted panic");
        self.model.lookup(parent, name)
    }
    fn lookup_ino(&self, ino: Ino) -> Result<Entry> {
        self.note("lookup_ino");
        self.model.lookup_ino(ino)
    }
    fn forget(&self, ino: Ino, count: u64) {
        self.forgotten.fetch_add(count, Ordering::Relaxed);
        self.model.forget(ino, count);
    }
    fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.model.getattr(ino)
    }
    fn setattr(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        self.note(format!("setattr {change:?}"));
        self.model.setattr(ino, change)
    }
    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.model.readlink(ino)
    }
    fn once(&self, request: Option<Request>, op: OnceOp<'_>) -> Result<Option<Entry>> {
        if let OnceOp::Mknod { new, .. } = op {
            self.note(format!("mknod umask {:o} by {}:{}", new.umask, new.uid, new.gid));
        }
        self.model.once(request, op)
    }
    fn open(&self, ino: Ino, how: OpenHow) -> Result<()> {
        self.note(format!("open {how:?}"));
        self.model.open(ino, how)
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.note(format!("read {}", buf.len()));
        let read = self.model.read(ino, offset, buf)?;
        if let Some(gate) = self.read_gate.as_ref().filter(|_| buf.starts_with(&[WAITS])) {
            gate.pass();
        }
        Ok(read)
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8], how: WriteHow) -> Result<usize> {
        self.note(format!("write {} {how:?}", data.len()));
        if let Some(gate) = self.write_gate.as_ref().filter(|_| data.starts_with(&[WAITS])) {
            gate.pass();
        }
        self.model.write(ino, offset, data, how)
    }
    fn fallocate(&self, ino: Ino, mode: FallocMode, offset: u64, len: u64) -> Result<()> {
        self.note(format!("fallocate {mode:?}"));
        self.model.fallocate(ino, mode, offset, len)
    }
    fn seek(&self, ino: Ino, offset: u64, whence: SeekWhence) -> Result<u64> {
        self.model.seek(ino, offset, whence)
    }
    fn copy_file_range(&self, from: Ino, from_offset: u64, to: Ino, to_offset: u64, len: u64) -> Result<u64> {
        self.note(format!("copy {len}"));
        self.model.copy_file_range(from, from_offset, to, to_offset, len)
    }
    fn readdir(&self, ino: Ino, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.note("readdir");
        self.model.readdir(ino, cookie, sink)
    }
    fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
        self.note(format!("fsync {data_only}"));
        if let Some(gate) = &self.fsync_gate {
            gate.pass();
        }
        self.model.fsync(ino, data_only)
    }
    fn fsync_all(&self, wanted: &[(Ino, bool)]) -> Vec<Result<()>> {
        self.note(format!("round of {}", wanted.len()));
        wanted
            .iter()
            .map(|(ino, data_only)| self.fsync(*ino, *data_only))
            .collect()
    }
    fn syncfs(&self) -> Result<()> {
        self.note("syncfs");
        if let Some(gate) = &self.sync_gate {
            gate.pass();
        }
        self.model.syncfs()
    }
    fn statfs(&self) -> Result<StatFs> {
        self.model.statfs()
    }
    fn getxattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.note(format!("getxattr {}", String::from_utf8_lossy(name)));
        self.model.getxattr(ino, name)
    }
    fn listxattr(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.model.listxattr(ino)
    }
    fn set_flags(&self, ino: Ino, flags: InodeFlags) -> Result<()> {
        self.model.set_flags(ino, flags)
    }
    fn shutdown(&self, flush_first: bool) -> Result<()> {
        self.note(format!("shutdown {flush_first}"));
        self.model.shutdown(flush_first)
    }
    fn unmount(&self) -> Result<()> {
        self.note("unmount begins");
        if let Some(gate) = &self.unmount_gate {
            gate.pass();
        }
        let result = self.model.unmount();
        self.note("unmount done");
        self.unmount_errno.map_or(result, Err)
    }
}
