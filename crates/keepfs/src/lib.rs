//! Keepfs as a library: make or open a pool in this process and work on its files by path, without a mount.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let place = tempfile::tempdir()?;
//! # let path = place.path().join("photos.pool");
//! use keepfs::{CreateOptions, OpenOptions, Pool};
//!
//! Pool::create(&path, &CreateOptions { size: Some(64 << 20), ..CreateOptions::default() })?;
//! let pool = Pool::open(&path, &OpenOptions::default())?;
//!
//! pool.create_dir("/2024")?;
//! pool.write("/2024/note", b"first light")?;
//! pool.sync()?; // from here on no power cut can take it away
//!
//! assert_eq!(pool.read("/2024/note")?, b"first light");
//! assert_eq!(pool.list("/2024")?.len(), 1);
//! pool.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! A pool is open in one place at a time: a mount, or one [`Pool`]. Whoever opens it owns it; permissions are not
//! checked (through a mount the kernel does). All methods may be called from many threads at once.
//!
//! The command line of the same package is described in `docs/man/keepfs.8.md`.

mod create;
mod error;
mod file;
mod grow;
mod metadata;
mod mount;
mod paths;
mod pool;
mod unmounted;

pub use create::CreateOptions;
pub use error::{Error, Result};
pub use file::File;
pub use grow::Growth;
pub use keepfs_fs::{AccessTimes, ScrubOptions};
pub use keepfs_server::{Claim, Failure, Mount, OpenError, OpenOptions, serve_if_asked};
pub use keepfs_store::{Equations, Guard, Protection, Settings};
pub use keepfs_vfs::{Errno, FileKind, Time};
pub use metadata::{Entry, Metadata};
pub use pool::Pool;
