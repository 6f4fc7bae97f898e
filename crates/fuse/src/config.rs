//! What a mount can be told.

use crate::cpus;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How the kernel caches file data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheMode {
    /// Writes stay in the kernel's page cache until fsync, close or age; fastest, and `ENOSPC` may come late.
    Writeback,
    /// Writes go through to the server before write(2) returns; reads are cached.
    #[default]
    Writethrough,
    /// Nothing is cached in the kernel.
    Direct,
}

/// How requests come from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransportKind {
    /// Whichever suits best: today `/dev/fuse`.
    #[default]
    Auto,
    /// Reading `/dev/fuse`: whoever holds the descriptors can outlive the server.
    Dev,
    /// FUSE over io_uring: faster, and requests under way are lost with the server. Where the kernel or its
    /// parameter `enable_uring` does not allow it, `/dev/fuse` is used, and the log says why.
    Uring,
}

/// A day: how long the kernel may believe names and attributes. The server is the only one who changes the pool,
/// and says so by notification when it does so not on behalf of the kernel.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How to mount. `Default` gives a read-write mount for all users with long timeouts.
#[derive(Clone, Debug)]
pub struct MountConfig {
    /// Where; a directory. Need not be empty.
    pub mountpoint: PathBuf,
    /// The source as shown by mount(8). With an anchor it must be an absolute path to a file or device, else the kernel
    /// shows the anchor instead.
    pub fsname: OsString,
    /// The type is shown as `fuse.<subtype>` (with an anchor `fuseblk.<subtype>`); empty for none.
    pub subtype: String,
    /// Refuse all changes.
    pub read_only: bool,
    /// Ignore set-id bits.
    pub nosuid: bool,
    /// Ignore device nodes.
    pub nodev: bool,
    /// Refuse to execute.
    pub noexec: bool,
    /// Follow no symbolic links.
    pub nosymfollow: bool,
    /// Never change access times of directories.
    pub nodiratime: bool,
    /// Never change access times.
    pub noatime: bool,
    /// Always change access times (otherwise as relatime).
    pub strictatime: bool,
    /// Other users than the one who mounts may enter; permissions are checked in any case.
    pub allow_other: bool,
    /// How file data is cached.
    pub cache: CacheMode,
    /// How long the kernel may believe attributes.
    pub attr_timeout: Duration,
    /// How long the kernel may believe names.
    pub entry_timeout: Duration,
    /// How long the kernel may believe that a name does not exist; zero asks every time.
    pub negative_timeout: Duration,
    /// How requests come.
    pub transport: TransportKind,
    /// Reader threads; `None` for one per CPU this process may use. Over io_uring there is one per CPU always.
    pub threads: Option<usize>,
    /// Most bytes in one read or write, 4 KiB to 1 MiB (the kernel's limit without `max_pages_limit` raised). Over
    /// io_uring at most 128 KiB.
    pub max_write: u32,
    /// READ and WRITE of at least this many bytes are always done by workers, smaller ones only while they take as long
    /// as a device does (`docs/decisions/0120-own-fuse-transport.md`).
    pub offload_bytes: u32,
    /// Most worker threads.
    pub workers_max: usize,
    /// Most requests the kernel sends without a process waiting (read-ahead, asynchronous I/O).
    pub max_background: u16,
    /// A block device that makes this a `fuseblk` mount, so that sync(2) and umount(2) wait for the server
    /// (see [`crate::anchor`]). No byte of it is read or written.
    pub anchor: Option<PathBuf>,
    /// After this long an unanswered sync(2) gets `EIO`, so that a stuck device does not stop every sync of the machine.
    pub sync_deadline: Duration,
    /// The kernel aborts the mount if one request takes longer; `None` for never. Rounded up to seconds.
    pub request_timeout: Option<Duration>,
    /// Read-ahead of the kernel in KiB, set after the mount if we are root.
    pub read_ahead_kib: u32,
}

impl MountConfig {
    /// Threads that read requests from /dev/fuse.
    pub fn readers(&self) -> usize {
        self.threads.unwrap_or_else(|| cpus::allowed().len()).max(1)
    }
}

impl Default for MountConfig {
    fn default() -> Self {
        MountConfig {
            mountpoint: PathBuf::new(),
            fsname: "keepfs".into(),
            subtype: "keepfs".into(),
            read_only: false,
            nosuid: false,
            nodev: false,
            noexec: false,
            nosymfollow: false,
            nodiratime: false,
            noatime: false,
            strictatime: false,
            allow_other: true,
            cache: CacheMode::default(),
            attr_timeout: DAY,
            entry_timeout: DAY,
            negative_timeout: DAY,
            transport: TransportKind::default(),
            threads: None,
            max_write: 1 << 20,
            offload_bytes: u32::MAX,
            workers_max: 64,
            max_background: 64,
            anchor: None,
            sync_deadline: Duration::from_secs(300),
            request_timeout: None,
            read_ahead_kib: 1024,
        }
    }
}
