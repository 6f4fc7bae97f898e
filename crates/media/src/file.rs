//! Regular files and block devices as media.
//!
//! Opening for writing is exclusive: a regular file is locked with flock(2), a block device is opened
//! with O_EXCL, which the kernel refuses while the device is mounted or held by another driver. A file
//! that backs a loop device is refused too while that is in use (see [`crate::mounts`]), and with a loop
//! device the file beneath it is locked.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use keepfs_format::shown;
use parking_lot::Mutex;
use rustix::fs::OFlags;

use crate::counters::Meter;
use crate::device::{check_range, check_span};
use crate::{Access, Class, Counters, Device, DeviceError, PAGE, PAGE_BYTES, PageNo, loops, sys};
pub use handing::Handed;
use handing::Witness;
use opening::{
    Below, busy, kind_of, lock, lock_beneath, open_error, open_flags, protected, refuse_if_unwritable,
    refuse_writers_over, unsuitable,
};
use room::Room;
use shared::{Aligned, open_past_cache};

/// What a device is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading; other readers are welcome, a writer is not.
    ReadOnly,
    /// Reading and writing, alone.
    ReadWrite,
}

/// How a device is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileOptions {
    /// Go past the page cache (O_DIRECT), through aligned buffers of our own.
    pub direct: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Regular,
    Block,
}

/// A regular file or a block device.
pub struct FileDevice {
    path: PathBuf,
    file: File,
    /// What it shows, if it is a device over others.
    beneath: Vec<Below>,
    kind: Kind,
    pages: u64,
    mode: OpenMode,
    /// The same opened for writing, if it was opened for reading first.
    writing: OnceLock<File>,
    /// What will be `writing`, opened before it was wanted ([`FileDevice::prepare_writing`]); `None`: it is protected.
    prepared: OnceLock<Option<File>>,
    /// The same past the page cache, for what other machines look at; `None`: its file system knows no such way.
    shared: OnceLock<Option<File>>,
    /// Buffers of direct transfers that nobody uses; `None`: transfers go through the page cache.
    bounce: Option<Mutex<Vec<Box<Bounce>>>>,
    meter: Meter,
    /// Another process has this open with the lock, which outlives this device.
    handed: AtomicBool,
    witness: Option<Witness>,
    /// Kept in the file system that holds it, if it is a file.
    room: Option<Room>,
}

/// Most parts that one system call takes (IOV_MAX).
const PARTS_MAX: usize = 1024;

/// Pages of the aligned buffer that direct transfers go through.
const BOUNCE_PAGES: usize = 64;

#[repr(C, align(4096))]
struct Bounce([u8; BOUNCE_PAGES * PAGE]);

impl FileDevice {
    /// Opens an existing file or block device; its size is rounded down to whole pages.
    ///
    /// # Errors
    /// `Busy` if somebody else uses it, `Unsuitable` for anything but a file or a block device of at
    /// least one page, else `Open`.
    pub fn open(path: &Path, mode: OpenMode, options: FileOptions) -> Result<Self, DeviceError> {
        let kind = kind_of(path)?;
        let file = open_flags(kind, mode, options)
            .open(path)
            .map_err(|source| match source.raw_os_error() {
                Some(libc::EINVAL) if options.direct => DeviceError::Open {
                    what: "open with O_DIRECT (io=direct)",
                    path: path.to_owned(),
                    source,
                },
                _ => open_error(path, source),
            })?;
        let mut device = Self::over(path, file, kind, mode, options)?;
        device.forget_life_before()?;
        // Without one, failures that nobody noted remain unknown.
        device.witness = Witness::of(&device.file).ok();
        Ok(device)
    }

    /// What the system holds of it goes to the medium and is forgotten, so that what is read is what the medium has. After a
    /// flush that failed the system holds the pages that the medium lacks, as clean, and every later flush succeeds: who
    /// reads those and believes them has acknowledged what no power cut leaves (S-9.8, decision 0751).
    fn forget_life_before(&self) -> Result<(), DeviceError> {
        let flushed = self.file.sync_data();
        sys::forget_cached(&self.file, 0, 0);
        match (flushed, self.mode) {
            (Err(source), OpenMode::ReadWrite) => Err(self.flush_fails(source)),
            // Whoever reads changes nothing by it: what the medium has is what there is.
            _ => Ok(()),
        }
    }

    /// Creates a new regular file of `pages` zero pages (sparse), its owner's alone (mode 0600), and opens it for writing; it and its
    /// name are durable. The file system that holds it gives room as pages are first written: when that is full, writing to the
    /// pool ends with `HostFull`, and nothing that was synced is lost; what the pool itself needs has room kept (`room`).
    ///
    /// # Errors
    /// `Open` if the path exists or the file system refuses; then no file is left that was not there.
    pub fn create(path: &Path, pages: u64, options: FileOptions) -> Result<Self, DeviceError> {
        let failed = |source| DeviceError::Open {
            what: "create",
            path: path.to_owned(),
            source,
        };
        let bytes = pages
            .checked_mul(PAGE_BYTES)
            .ok_or_else(|| failed(io::ErrorKind::FileTooLarge.into()))?;
        let file = open_flags(Kind::Regular, OpenMode::ReadWrite, options)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        let sized = file.set_len(bytes).and_then(|()| file.sync_all());
        let durable = sized.and_then(|()| sync_directory_of(path)).map_err(failed);
        let made = durable.and_then(|()| Self::over(path, file, Kind::Regular, OpenMode::ReadWrite, options));
        if made.is_err() {
            // It is ours and holds nothing.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    fn over(path: &Path, file: File, kind: Kind, mode: OpenMode, options: FileOptions) -> Result<Self, DeviceError> {
        lock(path, &file, mode)?;
        // Claimed first, looked for others then: of two that come by two names at least one sees the other.
        let beneath = lock_beneath(path, &file, kind, mode)?;
        match mode {
            OpenMode::ReadWrite => refuse_if_unwritable(path, kind)?,
            OpenMode::ReadOnly => refuse_writers_over(path)?,
        }
        Self::locked(path, file, beneath, kind, mode, options)
    }

    fn locked(
        path: &Path,
        file: File,
        beneath: Vec<Below>,
        kind: Kind,
        mode: OpenMode,
        options: FileOptions,
    ) -> Result<Self, DeviceError> {
        let bytes = match kind {
            Kind::Regular => file.metadata().map(|meta| meta.len()),
            Kind::Block => sys::block_device_bytes(&file),
        };
        let pages = bytes.map_err(|source| open_error(path, source))? / PAGE_BYTES;
        if pages == 0 {
            return Err(unsuitable(path, "it is smaller than one page"));
        }
        let shared = match mode {
            OpenMode::ReadWrite => OnceLock::from(open_past_cache(&file)),
            OpenMode::ReadOnly => OnceLock::new(),
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            beneath,
            kind,
            pages,
            mode,
            writing: OnceLock::new(),
            prepared: OnceLock::new(),
            shared,
            bounce: options.direct.then(Mutex::default),
            meter: Meter::default(),
            room: (kind == Kind::Regular).then(|| Room::behind(pages)),
            handed: AtomicBool::new(false),
            witness: None,
        })
    }

    /// Whether this is a block device (else it is a regular file).
    pub fn is_block_device(&self) -> bool {
        self.kind == Kind::Block
    }

    /// Whether this is a loop device, or a partition of one.
    pub fn is_loop_device(&self) -> bool {
        self.is_block_device() && self.file.metadata().is_ok_and(|meta| loops::is_loop(&meta))
    }

    fn fails(&self, what: Access, page: PageNo, source: io::Error) -> DeviceError {
        let device = self.describe();
        match source.raw_os_error() {
            _ if is_removed(&source) => DeviceError::Removed { device },
            _ if source.kind() == io::ErrorKind::UnexpectedEof => self.is_cut(),
            Some(libc::ENOSPC | libc::EDQUOT) => DeviceError::HostFull { device, source },
            _ => DeviceError::Io {
                what,
                page,
                device,
                source,
            },
        }
    }

    fn flush_fails(&self, source: io::Error) -> DeviceError {
        let device = self.describe();
        if is_removed(&source) {
            return DeviceError::Removed { device };
        }
        DeviceError::Flush { device, source }
    }

    fn is_cut(&self) -> DeviceError {
        DeviceError::Cut {
            device: self.describe(),
            pages: self.pages,
        }
    }

    /// A file that somebody made shorter takes writes beyond its end and grows again: what was there is lost all the
    /// same. Asked at each flush, so that no sync is answered as if nothing had happened.
    fn still_whole(&self) -> Result<(), DeviceError> {
        if self.kind == Kind::Block {
            return Ok(());
        }
        let bytes = self.file.metadata().map_err(|source| self.flush_fails(source))?.len();
        match bytes >= self.pages * PAGE_BYTES {
            true => Ok(()),
            false => Err(self.is_cut()),
        }
    }

    /// What may be written.
    fn writable(&self) -> Result<&File, DeviceError> {
        let file = match self.mode {
            OpenMode::ReadWrite => Some(&self.file),
            OpenMode::ReadOnly => self.writing.get(),
        };
        file.ok_or_else(|| DeviceError::ReadOnly {
            device: self.describe(),
        })
    }

    /// Opens what [`Device::begin_writing`] will need, for a process that will not be allowed to open files then. Nothing is
    /// written or locked. What cannot be opened now, but for protection, is tried again by `begin_writing`.
    pub fn prepare_writing(&self) {
        let prepared = match self.read_only().then(|| self.open_writable()) {
            Some(Ok(file)) => Some(file),
            Some(Err(DeviceError::Protected { .. })) => None,
            _ => return,
        };
        let _ = self.shared.set(prepared.as_ref().and_then(open_past_cache));
        let _ = self.prepared.set(prepared);
    }

    /// The way past the page cache, if there is one.
    fn shared(&self) -> Option<&File> {
        let open = || self.writing.get().and_then(open_past_cache);
        self.shared.get_or_init(open).as_ref()
    }

    fn open_writable(&self) -> Result<File, DeviceError> {
        let file = match is_writable(&self.file) {
            true => self.file.try_clone().map_err(|source| open_error(&self.path, source))?,
            false => self.open_again()?,
        };
        refuse_if_unwritable(&self.path, self.kind)?;
        Ok(file)
    }

    /// Opens the same once more, for writing. Errors: it cannot be, or at that path is another one now.
    fn open_again(&self) -> Result<File, DeviceError> {
        let options = FileOptions {
            direct: self.bounce.is_some(),
        };
        let file = open_flags(self.kind, OpenMode::ReadWrite, options)
            .open(&self.path)
            .map_err(|source| open_error(&self.path, source))?;
        let same = |a: &File, b: &File| {
            Ok((a.metadata()?.dev(), a.metadata()?.ino()) == (b.metadata()?.dev(), b.metadata()?.ino()))
        };
        match same(&self.file, &file).map_err(|source| open_error(&self.path, source))? {
            true => Ok(file),
            false => Err(busy(&self.path, "at its path is another file now".to_owned())),
        }
    }

    /// The shared lock becomes that of a writer. Errors: there are other readers; if it cannot be taken back either
    /// (a writer came between), nothing read from here on may be believed.
    fn lock_alone(&self) -> Result<(), DeviceError> {
        let lock_as = |mode| {
            let mut below = self.beneath.iter();
            lock(&self.path, &self.file, mode).and_then(|()| below.try_for_each(|below| below.lock(&self.path, mode)))
        };
        let alone = lock_as(OpenMode::ReadWrite);
        if alone.is_err() && lock_as(OpenMode::ReadOnly).is_err() {
            return Err(DeviceError::Removed {
                device: self.describe(),
            });
        }
        alone
    }

    fn read_bytes(&self, mut from: u64, buf: &mut [u8]) -> io::Result<()> {
        let Some(buffers) = &self.bounce else {
            return self.file.read_exact_at(buf, from);
        };
        bounced(buffers, |bounce| {
            for part in buf.chunks_mut(BOUNCE_PAGES * PAGE) {
                let aligned = &mut bounce.0[..part.len()];
                self.file.read_exact_at(aligned, from)?;
                part.copy_from_slice(aligned);
                from += part.len() as u64;
            }
            Ok(())
        })
    }

    fn write_bytes(&self, file: &File, mut to: u64, data: &[u8]) -> io::Result<()> {
        let Some(buffers) = &self.bounce else {
            return file.write_all_at(data, to);
        };
        bounced(buffers, |bounce| {
            for part in data.chunks(BOUNCE_PAGES * PAGE) {
                let aligned = &mut bounce.0[..part.len()];
                aligned.copy_from_slice(part);
                file.write_all_at(aligned, to)?;
                to += part.len() as u64;
            }
            Ok(())
        })
    }

    /// Parts one behind the other, in as few calls as can be.
    fn write_parts(&self, file: &File, mut to: u64, parts: &[&[u8]]) -> io::Result<()> {
        let Some(buffers) = &self.bounce else {
            return parts.chunks(PARTS_MAX).try_for_each(|some| {
                write_all_vectored_at(file, to, some)?;
                to += some.iter().map(|part| part.len() as u64).sum::<u64>();
                Ok(())
            });
        };
        let pages: Vec<&[u8]> = parts.iter().flat_map(|part| part.chunks(PAGE)).collect();
        bounced(buffers, |bounce| {
            for some in pages.chunks(BOUNCE_PAGES) {
                let aligned = &mut bounce.0[..some.len() * PAGE];
                for (room, page) in aligned.chunks_exact_mut(PAGE).zip(some) {
                    room.copy_from_slice(page);
                }
                file.write_all_at(aligned, to)?;
                to += aligned.len() as u64;
            }
            Ok(())
        })
    }
}

/// pwritev(2) until all is written.
fn write_all_vectored_at(file: &File, mut to: u64, parts: &[&[u8]]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match rustix::io::pwritev(file, left, to) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                to += written as u64;
                IoSlice::advance_slices(&mut left, written);
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Runs `f` with an aligned buffer of its own, so that transfers do not wait for one another.
fn bounced(buffers: &Mutex<Vec<Box<Bounce>>>, f: impl FnOnce(&mut Bounce) -> io::Result<()>) -> io::Result<()> {
    let free = buffers.lock().pop();
    let mut bounce = free.unwrap_or_else(|| Box::new(Bounce([0; BOUNCE_PAGES * PAGE])));
    let done = f(&mut bounce);
    buffers.lock().push(bounce);
    done
}

/// The lock ends with its owner, not with the last copy of its descriptor: a thread of this process that starts a program at
/// this moment has one until the program runs, and whoever opened the device next would find it in use.
impl Drop for FileDevice {
    fn drop(&mut self) {
        if !*self.handed.get_mut() {
            // Closing it, which follows, would end the lock too, if later.
            let _ = self.file.unlock();
            for below in &self.beneath {
                let _ = below.file.unlock();
            }
        }
    }
}

impl Device for FileDevice {
    fn pages(&self) -> u64 {
        self.pages
    }

    fn read(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        check_span(self.pages, at, buf.len())?;
        self.read_bytes(at.0 * PAGE_BYTES, buf)
            .map_err(|source| self.fails(Access::Read, at, source))?;
        self.meter.read(buf.len());
        Ok(())
    }

    fn read_fresh(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        check_span(self.pages, at, buf.len())?;
        if self.bounce.is_none() {
            sys::forget_cached(&self.file, at.0 * PAGE_BYTES, buf.len() as u64);
        }
        self.read(at, buf)
    }

    fn write(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        let file = self.writable()?;
        check_span(self.pages, at, data.len())?;
        self.with_room(file, class, || self.write_bytes(file, at.0 * PAGE_BYTES, data))
            .map_err(|source| self.fails(Access::Write, at, source))?;
        self.meter.write(class, data.len());
        Ok(())
    }

    fn write_vectored(&self, at: PageNo, parts: &[&[u8]], class: Class) -> Result<(), DeviceError> {
        let file = self.writable()?;
        let bytes = parts.iter().map(|part| part.len()).sum();
        check_span(self.pages, at, bytes)?;
        self.with_room(file, class, || self.write_parts(file, at.0 * PAGE_BYTES, parts))
            .map_err(|source| self.fails(Access::Write, at, source))?;
        self.meter.write(class, bytes);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let file = self.writable()?;
        self.still_whole()?;
        self.room.iter().for_each(|room| room.keep(file));
        let unasked = self.witness.as_ref().and_then(Witness::unasked);
        let file = unasked.unwrap_or(file);
        file.sync_data().map_err(|source| self.flush_fails(source))?;
        self.meter.flush();
        Ok(())
    }

    fn discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        let file = self.writable()?;
        check_range(self.pages, at, pages)?;
        if pages == 0 {
            return Ok(());
        }
        let (start, len) = (at.0 * PAGE_BYTES, pages * PAGE_BYTES);
        let done = match self.kind {
            Kind::Regular => sys::punch_hole(file, start, len),
            Kind::Block => sys::block_device_discard(file, start, len),
        };
        match done {
            Ok(()) => self.meter.discard(len),
            Err(error) if is_unsupported(&error) => {
                return Err(DeviceError::NoDiscard {
                    device: self.describe(),
                });
            }
            Err(source) => return Err(self.fails(Access::Discard, at, source)),
        }
        Ok(())
    }

    fn provide(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.allocate(at, pages)
    }

    fn read_shared(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        check_span(self.pages, at, buf.len())?;
        let Some(file) = self.shared() else {
            return self.read_fresh(at, buf);
        };
        let mut aligned = Box::new(Aligned([0; PAGE]));
        for (part, page) in buf.chunks_exact_mut(PAGE).zip(at.0..) {
            let read = file.read_exact_at(&mut aligned.0, page * PAGE_BYTES);
            read.map_err(|source| self.fails(Access::Read, PageNo(page), source))?;
            part.copy_from_slice(&aligned.0);
        }
        self.meter.read(buf.len());
        Ok(())
    }

    fn write_shared(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        self.writable()?;
        check_span(self.pages, at, data.len())?;
        let Some(file) = self.shared() else {
            self.write(at, data, class)?;
            return self.flush();
        };
        let mut aligned = Box::new(Aligned([0; PAGE]));
        for (part, page) in data.chunks_exact(PAGE).zip(at.0..) {
            aligned.0.copy_from_slice(part);
            let written = file.write_all_at(&aligned.0, page * PAGE_BYTES);
            written.map_err(|source| self.fails(Access::Write, PageNo(page), source))?;
        }
        self.meter.write(class, data.len());
        Ok(())
    }

    fn forget(&self) {
        sys::forget_cached(&self.file, 0, 0);
    }

    fn counters(&self) -> Counters {
        self.meter.snapshot()
    }

    fn describe(&self) -> String {
        shown::path(&self.path).into_owned()
    }

    fn read_only(&self) -> bool {
        self.mode == OpenMode::ReadOnly && self.writing.get().is_none()
    }

    fn begin_writing(&self) -> Result<(), DeviceError> {
        if !self.read_only() {
            return Ok(());
        }
        let file = match self.prepared.get() {
            Some(Some(file)) => file.try_clone().map_err(|source| open_error(&self.path, source))?,
            Some(None) => {
                return Err(protected(&self.path));
            }
            None => self.open_writable()?,
        };
        self.lock_alone()?;
        // Whoever was faster has opened the same.
        let _ = self.writing.set(file);
        Ok(())
    }
}

/// Makes the name of a new file durable.
fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

/// Whether it was opened to be written, by whoever opened it.
fn is_writable(file: &File) -> bool {
    let flags = rustix::fs::fcntl_getfl(file);
    flags.is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDWR)
}

/// Whether the error says that the device is not there any more.
fn is_removed(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM))
}

/// Whether a device or file system says that it has no such operation.
fn is_unsupported(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY)
    )
}

mod growing;
mod handing;
mod opening;
mod room;
mod shared;
#[cfg(test)]
mod tests;
