//! A pool's device, open and locked, of which nothing has been read yet.

use crate::error::{Error, Result};
use crate::open::OpenOptions;
use crate::pool::Pool;
use keepfs_fs::Volume;
use keepfs_media::file::{FileDevice, FileOptions, Handed, OpenMode};
use keepfs_store::{Remains, Resumed};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A pool that is this process's and has not been read: the place to give up rights, before what may be a hostile image
/// is looked at. From here on no file need be opened by its path.
pub struct Claim {
    path: PathBuf,
    device: Arc<FileDevice>,
}

impl Claim {
    /// Claims the pool at a path, alone, or for `read_only` beside other readers.
    ///
    /// # Errors
    /// [`Error::Device`] if it is in use or cannot be opened.
    pub fn new(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Claim> {
        let path = path.as_ref();
        let device = FileDevice::open(path, mode(options), file_options(options))?;
        Ok(Claim::of(path, device))
    }

    /// Claims what another process of ours had claimed and handed over, with its locks.
    ///
    /// # Errors
    /// As [`Claim::new`].
    pub fn adopt(path: impl AsRef<Path>, device: Handed, options: &OpenOptions) -> Result<Claim> {
        let path = path.as_ref();
        let device = FileDevice::adopt(path, device, mode(options), file_options(options))?;
        Ok(Claim::of(path, device))
    }

    /// The device, with its locks.
    pub(crate) fn device(&self) -> Arc<FileDevice> {
        self.device.clone()
    }

    fn of(path: &Path, device: FileDevice) -> Claim {
        let (path, device) = (path.to_owned(), Arc::new(device));
        Claim { path, device }
    }

    /// Opens what a later remount for writing will need, for a process that will not be allowed to open files then.
    pub fn prepare_writing(&self) {
        self.device.prepare_writing();
    }

    /// The pool's identity, from its superblocks: 8 KiB of fixed layout, checked by their sums. Nothing else is read.
    ///
    /// # Errors
    /// As [`Claim::open`].
    pub fn id(&self) -> Result<String> {
        let pool = keepfs_store::Pool::on(&*self.device);
        pool.map(|pool| pool.id.to_string()).map_err(|source| Error::Pool {
            pool: self.path.clone(),
            source: source.into(),
        })
    }

    /// Opens the pool; recovers it if it was not closed. `options` as they were when it was claimed.
    ///
    /// # Errors
    /// [`Error::Device`] if it cannot be read, [`Error::Pool`] if it is no pool or damaged.
    pub fn open(self, options: &OpenOptions) -> Result<Pool> {
        match Volume::open(self.device.clone(), &options.volume()) {
            Ok(volume) => Ok(Pool::of(volume, self.path, self.device)),
            Err(source) => Err(Error::Pool {
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
    pub fn resume(self, options: &OpenOptions, remains: Remains) -> Result<(Pool, Resumed)> {
        match Volume::resume(self.device.clone(), &options.volume(), remains) {
            Ok((volume, resumed)) => Ok((Pool::of(volume, self.path, self.device), resumed)),
            Err(source) => Err(Error::Pool {
                pool: self.path,
                source,
            }),
        }
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
