//! A pool's device, open and locked, of which nothing has been read yet.

use crate::open::OpenOptions;
use crate::visible::Shown;
use keepfs_fs::{Volume, VolumeOptions};
use keepfs_media::DeviceError;
use keepfs_media::file::{FileDevice, FileOptions, Handed, OpenMode};
use keepfs_store::mmp::Who;
use keepfs_store::{Remains, Resumed};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A pool that is this process's and has not been read: the place to give up rights, before what may be a hostile image
/// is looked at. From here on no file need be opened by its path.
pub struct Claim {
    path: PathBuf,
    device: Arc<FileDevice>,
    who: Who,
    blames_requests: bool,
    given_up: Option<fn() -> bool>,
}

impl Claim {
    /// Claims the pool at a path, alone, or for `read_only` beside other readers.
    ///
    /// # Errors
    /// [`OpenError::Device`] if it is in use or cannot be opened.
    pub fn new(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Claim, OpenError> {
        let path = path.as_ref();
        let device = FileDevice::open(path, mode(options), file_options(options))?;
        Ok(Claim::of(path, device))
    }

    /// Claims what another process of ours had claimed and handed over, with its locks.
    ///
    /// # Errors
    /// As [`Claim::new`].
    pub fn adopt(path: impl AsRef<Path>, device: Handed, options: &OpenOptions) -> Result<Claim, OpenError> {
        let path = path.as_ref();
        let device = FileDevice::adopt(path, device, mode(options), file_options(options))?;
        Ok(Claim::of(path, device))
    }

    /// The device, with its locks.
    pub fn device(&self) -> Arc<FileDevice> {
        self.device.clone()
    }

    fn of(path: &Path, device: FileDevice) -> Claim {
        let (path, device) = (path.to_owned(), Arc::new(device));
        let who = this_machine();
        Claim {
            path,
            device,
            who,
            blames_requests: false,
            given_up: None,
        }
    }

    /// For other machines that reach the pool (S-2.12): where it will be mounted, and a file that is locked for as long as it is.
    #[must_use]
    pub fn mounted_at(mut self, dir: &Path, lock: Option<&File>) -> Claim {
        self.who.dir = dir.as_os_str().as_bytes().to_vec();
        let found = lock.and_then(|lock| lock.metadata().ok());
        self.who.lock = found.map_or([0; 2], |found| [found.dev(), found.ino()]);
        self
    }

    /// The claim of a server that died, which this one takes up ([`Opened::nonce`]).
    #[must_use]
    pub fn in_place_of(mut self, nonce: Option<[u8; 16]>) -> Claim {
        self.who.nonce = nonce.unwrap_or_default();
        self
    }

    /// Whether the server that died may have died of a request ([`VolumeOptions::blames_requests`]).
    #[must_use]
    pub fn blaming_requests(mut self, blames: bool) -> Claim {
        self.blames_requests = blames;
        self
    }

    /// Somebody waits for the pool, and may go: then it is not opened (S-16.29).
    #[must_use]
    pub fn unless(mut self, given_up: Option<fn() -> bool>) -> Claim {
        self.given_up = given_up;
        self
    }

    fn volume(&self, options: &OpenOptions) -> VolumeOptions {
        let mut volume = options.volume();
        volume.store.who = self.who.clone();
        volume.store.given_up = self.given_up;
        volume.blames_requests = self.blames_requests;
        volume
    }

    /// Opens what a later remount for writing will need, for a process that will not be allowed to open files then.
    pub fn prepare_writing(&self) {
        self.device.prepare_writing();
    }

    /// The pool's identity, from its superblocks: 8 KiB of fixed layout, checked by their sums. Nothing else is read.
    ///
    /// # Errors
    /// As [`Claim::open`].
    pub fn id(&self) -> Result<String, OpenError> {
        let pool = keepfs_store::Pool::on(&*self.device);
        pool.map(|pool| pool.id.to_string()).map_err(|source| OpenError::Pool {
            pool: self.path.clone(),
            source: source.into(),
        })
    }

    /// Opens the pool; recovers it if it was not closed. `options` as they were when it was claimed.
    ///
    /// # Errors
    /// [`OpenError::Device`] if it cannot be read, [`OpenError::Pool`] if it is no pool or damaged.
    pub fn open(self, options: &OpenOptions) -> Result<Opened, OpenError> {
        match Volume::open(self.device.clone(), &self.volume(options)) {
            Ok(volume) => Ok(Opened::of(volume, self.path, self.device)),
            Err(source) => Err(OpenError::Pool {
                pool: self.path,
                source,
            }),
        }
    }

    /// Takes the place of a server that died, with the memory that it left. Everything that was acknowledged is there (SPEC
    /// section 16).
    ///
    /// # Errors
    /// As [`Claim::open`].
    pub fn resume(self, options: &OpenOptions, remains: Remains) -> Result<(Opened, Resumed), OpenError> {
        match Volume::resume(self.device.clone(), &self.volume(options), remains) {
            Ok((volume, resumed)) => Ok((Opened::of(volume, self.path, self.device), resumed)),
            Err(source) => Err(OpenError::Pool {
                pool: self.path,
                source,
            }),
        }
    }
}

/// Why a pool could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its device could not be opened or read, or is in use.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// It is no pool, or damaged.
    #[error("{pool}: {source}", pool = .pool.shown())]
    Pool {
        /// The pool.
        pool: PathBuf,
        /// Why.
        source: keepfs_fs::Error,
    },
}

/// An open pool.
///
/// Dropped without [`keepfs_vfs::Vfs::unmount`] of its volume, it is as after a crash: what was synced is there.
pub struct Opened {
    volume: Arc<Volume>,
    path: PathBuf,
    device: Arc<FileDevice>,
}

impl Opened {
    fn of(volume: Arc<Volume>, path: PathBuf, device: Arc<FileDevice>) -> Opened {
        Opened { volume, path, device }
    }

    /// The file system itself.
    pub fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    /// Where the pool is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The pool's device once more, with its locks, for [`Claim::adopt`] in another process.
    ///
    /// # Errors
    /// [`OpenError::Device`] without a free descriptor.
    pub fn device(&self) -> Result<Handed, OpenError> {
        Ok(self.device.hand()?)
    }

    /// What another process goes on with as this one's claim of the pool ([`Claim::in_place_of`]).
    pub fn nonce(&self) -> Option<[u8; 16]> {
        self.volume.store().mmp_nonce()
    }
}

fn mode(options: &OpenOptions) -> OpenMode {
    match options.read_only {
        true => OpenMode::ReadOnly,
        false => OpenMode::ReadWrite,
    }
}

fn file_options(options: &OpenOptions) -> FileOptions {
    FileOptions { direct: options.direct }
}

/// Name and boot of this machine, as far as it tells.
pub fn this_machine() -> Who {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = boot.chars().filter(char::is_ascii_hexdigit).collect();
    let host = rustix::system::uname();
    Who {
        boot: u128::from_str_radix(&digits, 16).unwrap_or_default().to_be_bytes(),
        host: host.nodename().to_string_lossy().into_owned(),
        ..Who::default()
    }
}
