//! Making a pool: never over somebody's data unless told so, never on a device in use.

use crate::error::{Error, Result};
use crate::pool::Pool;
use keepfs_format::mmp::INTERVAL_S_DEFAULT;
use keepfs_format::superblock::{PAGES_MIN, SLOTS, slot_page};
use keepfs_fs::{FormatOptions, Volume, VolumeOptions};
use keepfs_media::file::{FileDevice, FileOptions, OpenMode};
use keepfs_media::{Class, Device, DeviceError, PAGE, PageNo, mounts, signature};
use keepfs_server::claim::this_machine;
use keepfs_store::{ARENA_MIN, LOG_PAGES, PROTECT_DEFAULT, Protection, StoreOptions};
use keepfs_vfs::Vfs;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest label, bytes (S-2.2).
const LABEL_MAX: usize = 64;
/// Pages at the start of an existing file that must be zero for it to count as empty.
const EMPTY_PAGES: u64 = 256;

/// How a pool is made.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Bytes of the pool, rounded down to whole pages. Needed if the file does not exist; of a file or device that does,
    /// its own size is taken if none is given, and a device may have more.
    pub size: Option<u64>,
    /// Bytes of the log, rounded down to whole pages; `None`: 1/32 of the pool, at most 256 MiB. A large one takes more
    /// between two checkpoints, a small one takes less space and replays faster.
    pub log_size: Option<u64>,
    /// A name for people, at most 64 bytes.
    pub label: String,
    /// Copies of metadata on the device, 1 or 2.
    pub meta_copies: u32,
    /// What guards metadata in memory.
    pub protect: Protection,
    /// Overwrite whatever is there. A device in use is refused all the same, a pool that another machine has too.
    pub force: bool,
    /// Tell a block device first that nothing on it is needed any more.
    pub discard: bool,
    /// Make it a pool for tests, into which `keepfs inject` may put faults; for ever, and every mount says so.
    pub test: bool,
    /// Have room for all of it now and for ever: what lies in a file is allocated, and nothing is discarded, by no trim either.
    pub preallocate: bool,
    /// Seconds between two signs to other machines that this one has the pool (multi-mount protection), 0: none. `None`: those that
    /// `keepfs set mmp=on` chooses for a block device that is no loop device, as other machines may reach it; else 0.
    pub mmp: Option<u32>,
}

impl Default for CreateOptions {
    fn default() -> CreateOptions {
        CreateOptions {
            size: None,
            log_size: None,
            label: String::new(),
            meta_copies: 2,
            protect: PROTECT_DEFAULT,
            force: false,
            discard: true,
            test: false,
            preallocate: false,
            mmp: None,
        }
    }
}

impl Pool {
    /// Makes an empty pool in a regular file (which is made if it does not exist) or on a block device.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let path = place.path().join("pool");
    /// use keepfs::{CreateOptions, Pool};
    /// let options = CreateOptions { size: Some(64 << 20), label: "photos".into(), ..CreateOptions::default() };
    /// Pool::create(&path, &options)?;
    /// // A second time it is refused: there is a pool already.
    /// assert!(Pool::create(&path, &options).is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Signature`] and [`Error::NotEmpty`] unless forced; [`Error::NoSize`], [`Error::DeviceTooSmall`],
    /// [`Error::Label`], [`Error::LogSize`]; [`Error::Device`] if it is in use or fails; [`Error::Pool`] if it is too small, or another machine has it.
    pub fn create(path: impl AsRef<Path>, options: &CreateOptions) -> Result<()> {
        let path = path.as_ref();
        if options.label.len() > LABEL_MAX {
            return Err(Error::Label {
                bytes: options.label.len(),
                max: LABEL_MAX,
            });
        }
        options.size.map_or(Ok(()), |size| refuse_small(path, size))?;
        if fs::exists(path).map_err(Error::io("look at", path))? {
            return format(path, prepare(path, options)?, options);
        }
        let size = options.size.ok_or_else(|| Error::NoSize { pool: path.to_owned() })?;
        let device = FileDevice::create(path, size / PAGE as u64, FileOptions::default())?;
        let made = format(path, device, options).and_then(|()| sync_name(path));
        if made.is_err() {
            // The file is ours and holds nothing.
            let _ = fs::remove_file(path);
        }
        made
    }
}

/// Opens what exists, if it may be overwritten, and gives a file the size that was asked for.
fn prepare(path: &Path, options: &CreateOptions) -> Result<FileDevice> {
    let is_file = fs::metadata(path).map_err(Error::io("look at", path))?.is_file();
    if options.force {
        claim(path, options)?;
    }
    if is_file && let Some(size) = options.size {
        resize(path, size, options.force)?;
    }
    let device = FileDevice::open(path, OpenMode::ReadWrite, FileOptions::default())?;
    if !options.force {
        refuse_data(path, &device, is_file)?;
    }
    if is_file {
        return Ok(device);
    }
    let part = options.size.unwrap_or(device.pages() * PAGE as u64);
    refuse_larger(path, &device, part)?;
    let pages = part / PAGE as u64;
    if options.discard && !options.preallocate {
        // A device that cannot does no harm, and one that fails will say so at the first write.
        let _ = device.discard(PageNo(0), pages);
    }
    forget_superblocks(&device, pages).map_err(of_pool(path))?;
    Ok(device.limited(pages)?)
}

/// A pool that had the whole device must not be found again when one of its first `part` pages is mounted (S-2.1, S-2.16).
fn forget_superblocks(device: &dyn Device, part: u64) -> core::result::Result<(), keepfs_store::Error> {
    let slots = (0..SLOTS).map(|slot| slot_page(slot, device.pages()));
    for page in slots.filter(|page| *page < part) {
        device.write(PageNo(page), &[0; PAGE], Class::Superblock)?;
    }
    keepfs_store::forget_whole(device, part)
}

/// The pool that is to be overwritten is claimed as a mount claims it: one that another machine has is refused (S-2.24). Before this
/// machine lets go of it, it is none any more, so that nobody has it in between.
fn claim(path: &Path, options: &CreateOptions) -> Result<()> {
    let device = match FileDevice::open(path, OpenMode::ReadWrite, FileOptions::default()) {
        Ok(device) => device,
        // Too short for a pool: a file may get longer.
        Err(DeviceError::Unsuitable { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    if device.is_block_device() {
        refuse_larger(path, &device, options.size.unwrap_or(0))?;
    }
    let pages = options.size.map_or(device.pages(), |size| size / PAGE as u64);
    options
        .log_size
        .map(|bytes| log_pages(path, pages, bytes))
        .transpose()?;
    let who = StoreOptions {
        who: this_machine(),
        ..StoreOptions::default()
    };
    match keepfs_store::mmp::overwritten(Arc::new(device), who.claimant(), |device| {
        forget_superblocks(&*device, pages)
    }) {
        // There is no pool, or none that says who has it.
        Err(keepfs_store::Error::BadPool(_)) => Ok(()),
        other => other.map_err(of_pool(path)),
    }
}

fn of_pool(path: &Path) -> impl FnOnce(keepfs_store::Error) -> Error {
    let pool = path.to_owned();
    move |source| Error::Pool {
        pool,
        source: source.into(),
    }
}

fn refuse_small(path: &Path, bytes: u64) -> Result<()> {
    match bytes / PAGE as u64 >= PAGES_MIN {
        true => Ok(()),
        false => Err(Error::TooSmall {
            pool: path.to_owned(),
            has: bytes,
        }),
    }
}

/// All of a file cannot be allocated where there is less room.
fn refuse_without_room(path: &Path, wanted: u64) -> Result<()> {
    let found = fs::metadata(path).map_err(Error::io("look at", path))?;
    let host = rustix::fs::statvfs(path).map_err(|error| Error::io("look at", path)(error.into()))?;
    let room = host.f_bfree.saturating_mul(host.f_frsize);
    let missing = wanted.saturating_sub(found.blocks() * 512).saturating_sub(room);
    match missing {
        0 => Ok(()),
        missing => Err(Error::NoRoom {
            pool: path.to_owned(),
            wanted,
            missing,
        }),
    }
}

fn refuse_larger(path: &Path, device: &FileDevice, wanted: u64) -> Result<()> {
    let has = device.pages() * PAGE as u64;
    match wanted <= has {
        true => Ok(()),
        false => Err(Error::DeviceTooSmall {
            pool: path.to_owned(),
            has,
            wanted,
        }),
    }
}

/// An empty file gets its size; a file of another size must be given up by `force`.
fn resize(path: &Path, size: u64, force: bool) -> Result<()> {
    let size = size - size % PAGE as u64;
    let file = File::options()
        .write(true)
        .open(path)
        .map_err(Error::io("open", path))?;
    let now = file.metadata().map_err(Error::io("look at", path))?.len();
    if now == size {
        return Ok(());
    }
    let in_use = |by: String| DeviceError::Busy {
        path: path.to_owned(),
        by,
    };
    file.try_lock()
        .map_err(|_| in_use("another process has it open".into()))?;
    let users = mounts::users_of(path).map_err(Error::io("look at", path))?;
    if let Some(user) = users.first() {
        return Err(in_use(user.to_string()).into());
    }
    if now != 0 && !force {
        return Err(Error::NotEmpty { pool: path.to_owned() });
    }
    file.set_len(0).map_err(Error::io("empty", path))?;
    file.set_len(size).map_err(Error::io("resize", path))
}

fn refuse_data(path: &Path, device: &FileDevice, is_file: bool) -> Result<()> {
    if let Some(signature) = signature::detect(device)? {
        return Err(Error::Signature {
            pool: path.to_owned(),
            signature,
        });
    }
    if !is_file {
        return Ok(());
    }
    let mut head = vec![0; EMPTY_PAGES.min(device.pages()) as usize * PAGE];
    device.read(PageNo(0), &mut head)?;
    match head.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(Error::NotEmpty { pool: path.to_owned() }),
    }
}

/// The log must end before the second superblock slot (S-2.1, S-2.3).
fn log_pages(path: &Path, pool: u64, bytes: u64) -> Result<u64> {
    let room = (pool / 4).saturating_sub(1);
    let (least, most) = (*LOG_PAGES.start(), room.min(*LOG_PAGES.end()));
    let pages = bytes / PAGE as u64;
    match (least..=most).contains(&pages) {
        true => Ok(pages),
        false => Err(Error::LogSize {
            pool: path.to_owned(),
            wanted: bytes,
            least: least * PAGE as u64,
            most: most * PAGE as u64,
        }),
    }
}

fn format(path: &Path, device: FileDevice, options: &CreateOptions) -> Result<()> {
    let bytes = device.pages() * PAGE as u64;
    refuse_small(path, bytes)?;
    if options.preallocate && !device.is_block_device() {
        refuse_without_room(path, bytes)?;
    }
    let log_size = options.log_size.map(|bytes| log_pages(path, device.pages(), bytes));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let is_shared = device.is_block_device() && !device.is_loop_device();
    let shared = is_shared.then_some(INTERVAL_S_DEFAULT);
    let format = FormatOptions {
        label: options.label.clone(),
        log_pages: log_size.transpose()?,
        meta_copies: options.meta_copies,
        protect: options.protect,
        test: options.test,
        preallocate: options.preallocate,
        mmp: true,
        mmp_interval_s: options.mmp.or(shared).filter(|seconds| *seconds != 0),
        created: (now.as_secs() as i64, now.subsec_nanos()),
        ..FormatOptions::default()
    };
    let device = Arc::new(device);
    let made = Volume::format(device.clone(), &format).and_then(|()| make_root(device));
    made.map_err(|source| Error::Pool {
        pool: path.to_owned(),
        source,
    })
}

/// The root directory, so that the first mount may be a read-only one.
fn make_root(device: Arc<FileDevice>) -> core::result::Result<(), keepfs_fs::Error> {
    let mut options = VolumeOptions {
        background: false,
        ..VolumeOptions::default()
    };
    options.store.arena_bytes = ARENA_MIN;
    options.store.background = false;
    // Let go of: the first mount need not wait for this machine (S-2.24).
    Ok(Volume::open(device, &options)?.unmount()?)
}

/// Makes the name of a new file durable.
fn sync_name(path: &Path) -> Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let folder = File::open(parent).map_err(Error::io("open", parent))?;
    folder.sync_all().map_err(Error::io("sync", parent))
}
