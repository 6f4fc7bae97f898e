//! A pool that nobody has open gets larger, with its file or device (S-2.15).

use crate::error::{Error, Result};
use crate::pool::Pool;
use keepfs_media::file::FileDevice;
use keepfs_media::{Device, PAGE};
use keepfs_server::{Claim, OpenOptions};
use std::path::Path;
use std::sync::Arc;

/// How a pool grows, or grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// Bytes before.
    pub before: u64,
    /// Bytes after.
    pub after: u64,
}

impl Pool {
    /// Makes a pool larger that nobody has open: to `size` bytes, rounded down to whole pages, or without it to all that its file or
    /// device has. A regular file that is shorter gets longer. Recovers the pool first if it was not closed. A crash meanwhile leaves
    /// it with the one size or the other, and whole.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let path = place.path().join("pool");
    /// # use keepfs::{CreateOptions, Pool};
    /// # Pool::create(&path, &CreateOptions { size: Some(64 << 20), ..CreateOptions::default() })?;
    /// let growth = Pool::grow(&path, Some(96 << 20))?;
    /// assert_eq!((growth.before, growth.after), (64 << 20, 96 << 20));
    /// // It does not shrink.
    /// assert!(Pool::grow(&path, Some(80 << 20)).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoMore`], [`Error::Smaller`] and [`Error::DeviceTooSmall`]; [`Error::Device`] if it is in use or its file cannot get longer;
    /// [`Error::Pool`] if it is none, or cannot be recovered.
    pub fn grow(path: impl AsRef<Path>, size: Option<u64>) -> Result<Growth> {
        let path = path.as_ref();
        let options = OpenOptions::default();
        let claim = Claim::new(path, &options)?;
        // The lock is ours until the end.
        let device = claim.device();
        let growth = planned(path, &device, size)?;
        Pool::of(claim.open(&options)?).close()?;
        let pages = growth.after / PAGE as u64;
        let longer = device.lengthened(pages.max(device.pages())).map_err(Error::from);
        let grown = longer
            .and_then(|longer| keepfs_store::grow(Arc::new(longer), pages).map_err(|source| of_pool(path, source)));
        let has_grown =
            || keepfs_store::Pool::on(&*device).map_or(true, |pool| pool.pages * PAGE as u64 != growth.before);
        if grown.is_err() && !has_grown() {
            // What it got for nothing is given back.
            device.shortened()?;
        }
        grown.map(|_| growth)
    }

    /// What [`Pool::grow`] would do. Nothing is changed.
    ///
    /// # Errors
    /// Its own, as far as they can be known before.
    pub fn growth(path: impl AsRef<Path>, size: Option<u64>) -> Result<Growth> {
        let path = path.as_ref();
        let options = OpenOptions {
            read_only: true,
            ..OpenOptions::default()
        };
        planned(path, &Claim::new(path, &options)?.device(), size)
    }
}

fn planned(path: &Path, device: &FileDevice, size: Option<u64>) -> Result<Growth> {
    let page = PAGE as u64;
    let had = keepfs_store::Pool::on(device)
        .map_err(|source| of_pool(path, source))?
        .pages;
    let has = device.pages();
    let pages = size.map_or(has, |size| size / page);
    if size.is_none() && has <= had {
        return Err(Error::NoMore {
            pool: path.to_owned(),
            has: had * page,
            how: match device.is_block_device() {
                true => {
                    "make the device larger first (a volume by lvextend; of a loop device the file, then `losetup -c`)"
                }
                false => "say how large it shall be (--size 20G)",
            },
        });
    }
    if pages <= had {
        return Err(Error::Smaller {
            pool: path.to_owned(),
            has: had * page,
            wanted: pages * page,
        });
    }
    // A file gets as long as it must be.
    let can_have = if device.is_block_device() { has } else { pages.max(has) };
    let had = keepfs_store::growth(device, can_have.max(pages), pages).map_err(|source| of_pool(path, source))?;
    if pages > can_have {
        return Err(Error::DeviceTooSmall {
            pool: path.to_owned(),
            has: has * page,
            wanted: pages * page,
        });
    }
    Ok(Growth {
        before: had * page,
        after: pages * page,
    })
}

fn of_pool(path: &Path, source: keepfs_store::Error) -> Error {
    Error::Pool {
        pool: path.to_owned(),
        source: source.into(),
    }
}
