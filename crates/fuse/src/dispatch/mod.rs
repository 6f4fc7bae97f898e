//! The dispatcher: bytes of a request in, bytes of a reply out. Needs no kernel; between requests it keeps only what is owed to
//! writers, which directories have a handle that the kernel remembers by, and which files have one that the kernel takes data by.
//!
//! Malformed requests get `EINVAL`, unknown ones `ENOSYS`. A panic below answers `EIO` and is logged; the mount
//! lives on.

mod convert;
mod directory;
mod file;
mod inode;
mod ioctl;
mod listings;
mod name;
mod owed;
mod request;
mod stores;
mod xattr;

use crate::caught::caught;
use crate::config::{CacheMode, MountConfig};
use crate::init::Granted;
use crate::notify::Sweeps;
use crate::protocol::Opcode;
use crate::reply::ReplyBuf;
use crate::seat::Seats;
use keepfs_vfs::{Errno, Ino, Vfs};
pub(crate) use request::{Parts, Request};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What shall happen after a request was handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The reply buffer holds the answer.
    Reply,
    /// The kernel waits for no answer.
    NoReply,
}

/// Serves requests of one connection from one [`Vfs`]. Any number of threads may call it at once.
pub struct Dispatcher {
    vfs: Arc<dyn Vfs>,
    granted: Granted,
    cache: CacheMode,
    /// While there are some, what the kernel has cached of a file does not stay when it is opened again: it may be of what was
    /// lost (S-16.5).
    sweeps: Sweeps,
    attr_timeout: Duration,
    entry_timeout: Duration,
    negative_timeout: Duration,
    panics: AtomicU64,
    seats: Arc<Seats>,
    /// All changes are refused, before they reach the file system.
    read_only: AtomicBool,
    owed: owed::Owed,
    listings: listings::Listings,
    stores: stores::Stores,
}

/// What a handler returns: it has put the payload into the reply buffer, or an error.
pub(crate) type Handled = Result<(), Errno>;

impl Dispatcher {
    /// A dispatcher for a connection on which `granted` was agreed.
    pub fn new(vfs: Arc<dyn Vfs>, config: &MountConfig, granted: Granted) -> Dispatcher {
        Dispatcher {
            vfs,
            granted,
            cache: config.cache,
            sweeps: Sweeps::default(),
            attr_timeout: config.attr_timeout,
            entry_timeout: config.entry_timeout,
            negative_timeout: config.negative_timeout,
            panics: AtomicU64::new(0),
            seats: Arc::default(),
            read_only: AtomicBool::new(false),
            owed: owed::Owed::default(),
            listings: listings::Listings::default(),
            stores: stores::Stores::default(),
        }
    }

    /// A buffer for any reply: the largest read, and the largest attribute. Whoever has it does one request at a time.
    pub fn reply_buf(&self) -> ReplyBuf<'static> {
        let payload = (self.granted.max_write as usize).max(64 << 10) + 4096;
        ReplyBuf::seated(payload, self.seats.take())
    }

    /// The file system that is served.
    pub fn vfs(&self) -> &Arc<dyn Vfs> {
        &self.vfs
    }

    /// For the [`crate::Notifier`] of the same connection.
    pub(crate) fn sweeps(&self) -> &Sweeps {
        &self.sweeps
    }

    /// From here on every change is refused with `EROFS`, whatever the kernel lets through.
    pub fn refuse_changes(&self) {
        self.read_only.store(true, Ordering::Release);
    }

    /// Another server gave handles of this mount, so the kernel is told to remember no listing any more (S-20.28), and may have
    /// data of any file (S-20.29).
    pub fn goes_on_for_another(&self) {
        self.listings.others_have_some();
        self.stores.others_have_some();
    }

    /// Whether the kernel has to ask for the file's attributes before its next write, because it is told ENOSPC then (S-20.14).
    pub(crate) fn owes(&self, ino: Ino) -> bool {
        self.owed.has(ino)
    }

    /// Panics caught so far; each is a bug in the file system below or here.
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Handles one request. `reply` is overwritten. Never panics.
    pub fn handle(&self, request: &[u8], reply: &mut ReplyBuf) -> Outcome {
        self.handle_parts(request.into(), reply)
    }

    /// As [`Dispatcher::handle`], for a request whose bytes may lie apart.
    pub(crate) fn handle_parts(&self, request: Parts<'_>, reply: &mut ReplyBuf) -> Outcome {
        reply.clear();
        let len = request.len();
        let request = match Request::parse(request, reply.seat()) {
            Ok(request) => request,
            Err(malformed) => {
                tracing::error!(?malformed, len, "malformed request");
                return malformed.answer(reply);
            }
        };
        let unique = request.header.unique;
        let Some(op) = Opcode::from_wire(request.header.opcode) else {
            reply.fail(unique, Errno::ENOSYS);
            return Outcome::Reply;
        };
        let _span = tracing::trace_span!("request", op = op.name(), unique, node = request.header.nodeid).entered();
        let handled = self.guarded(op, &request, reply);
        if matches!(op, Opcode::Forget | Opcode::BatchForget | Opcode::NotifyReply) {
            return Outcome::NoReply;
        }
        match handled {
            Ok(()) => reply.finish(unique),
            Err(errno) => reply.fail(unique, errno),
        }
        Outcome::Reply
    }

    /// Handles FSYNC and FSYNCDIR requests with one flush for all; how it went for each.
    pub(crate) fn fsyncs<'a>(&self, requests: impl Iterator<Item = Parts<'a>>) -> Vec<Handled> {
        let asked: Vec<Result<(Ino, bool), Errno>> = requests.map(|request| self.fsync_of(request)).collect();
        let wanted: Vec<(Ino, bool)> = asked.iter().flatten().copied().collect();
        let _span = tracing::trace_span!("request", op = Opcode::Fsync.name(), number = wanted.len()).entered();
        let done = caught(|| self.vfs.fsync_all(&wanted));
        let done = done.unwrap_or_else(|panic| vec![Err(self.panicked(Opcode::Fsync, 0, &*panic)); wanted.len()]);
        let mut done = done.into_iter();
        let one = |asked: Result<_, _>| asked.and_then(|_| done.next().unwrap_or(Err(Errno::EIO)));
        asked.into_iter().map(one).collect()
    }

    /// Runs the handler; a panic becomes `EIO`.
    fn guarded(&self, op: Opcode, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        if changes(op) && self.read_only.load(Ordering::Acquire) {
            return Err(Errno::EROFS);
        }
        caught(|| self.route(op, request, reply))
            .unwrap_or_else(|panic| Err(self.panicked(op, request.header.unique, &*panic)))
    }

    /// Counts and logs a panic; what the caller is told.
    fn panicked(&self, op: Opcode, unique: u64, panic: &(dyn Any + Send)) -> Errno {
        self.panics.fetch_add(1, Ordering::Relaxed);
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        tracing::error!(
            op = op.name(),
            unique,
            panic = text.unwrap_or_default(),
            "a handler panicked"
        );
        Errno::EIO
    }

    /// The table of operations.
    fn route(&self, op: Opcode, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        match op {
            Opcode::Lookup => self.lookup(request, reply),
            Opcode::Forget => self.forget(request),
            Opcode::BatchForget => self.batch_forget(request),
            Opcode::Getattr => self.getattr(request, reply),
            Opcode::Statx => self.statx(request, reply),
            Opcode::Setattr => self.setattr(request, reply),
            Opcode::Statfs => self.statfs(reply),
            Opcode::Readlink => self.readlink(request, reply),
            Opcode::Symlink => self.symlink(request, reply),
            Opcode::Mknod => self.mknod(request, reply),
            Opcode::Mkdir => self.mkdir(request, reply),
            Opcode::Create => self.create(request, reply),
            Opcode::Tmpfile => self.tmpfile(request, reply),
            Opcode::Link => self.link(request, reply),
            Opcode::Unlink => self.unlink(request),
            Opcode::Rmdir => self.rmdir(request),
            Opcode::Rename => self.rename(request),
            Opcode::Rename2 => self.rename2(request),
            Opcode::Open => self.open(request, reply),
            Opcode::Read => self.read(request, reply),
            Opcode::Write => self.write(request, reply),
            Opcode::Fsync | Opcode::Fsyncdir => self.fsync(request),
            Opcode::Fallocate => self.fallocate(request),
            Opcode::Lseek => self.lseek(request, reply),
            Opcode::CopyFileRange => self.copy_file_range(request, reply),
            Opcode::CopyFileRange64 => self.copy_file_range_64(request, reply),
            Opcode::Opendir => self.opendir(request, reply),
            Opcode::Readdir => self.readdir(request, reply),
            Opcode::Readdirplus => self.readdirplus(request, reply),
            Opcode::Getxattr => self.getxattr(request, reply),
            Opcode::Setxattr => self.setxattr(request),
            Opcode::Listxattr => self.listxattr(request, reply),
            Opcode::Removexattr => self.removexattr(request),
            Opcode::Ioctl => self.ioctl(request, reply),
            Opcode::Syncfs => self.vfs.syncfs().and_then(|()| self.unless_lost()),
            Opcode::Destroy => self.vfs.unmount(),
            Opcode::Release => self.release(request),
            Opcode::Releasedir => self.releasedir(request),
            Opcode::NotifyReply => Ok(()),
            // Everything here ends by itself, and programs do not expect an fsync that fails with EINTR: as on any
            // local file system. ENOSYS tells the kernel not to send interrupts any more.
            Opcode::Interrupt => Err(Errno::ENOSYS),
            // Answered once: INIT came before this dispatcher was made.
            Opcode::Init => Err(Errno::EINVAL),
            // ENOSYS tells the kernel not to ask again: ACCESS (default_permissions does it), FLUSH (the kernel
            // writes its cache back itself), locks (all the kernel's), BMAP, POLL and DAX mappings (not for us).
            Opcode::Access | Opcode::Flush | Opcode::Getlk | Opcode::Setlk | Opcode::Setlkw => Err(Errno::ENOSYS),
            Opcode::Bmap | Opcode::Poll | Opcode::Setupmapping | Opcode::Removemapping => Err(Errno::ENOSYS),
        }
    }
}

/// Whether `op` changes the file system, and not only in what the kernel has cached of it.
fn changes(op: Opcode) -> bool {
    matches!(
        op,
        Opcode::Setattr
            | Opcode::Write
            | Opcode::Fallocate
            | Opcode::CopyFileRange
            | Opcode::CopyFileRange64
            | Opcode::Ioctl
            | Opcode::Mknod
            | Opcode::Mkdir
            | Opcode::Symlink
            | Opcode::Create
            | Opcode::Tmpfile
            | Opcode::Link
            | Opcode::Unlink
            | Opcode::Rmdir
            | Opcode::Rename
            | Opcode::Rename2
            | Opcode::Setxattr
            | Opcode::Removexattr
    )
}
