//! An open device goes from one process to another, with its locks.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::opening::{Below, lock, open_error, unsuitable};
use super::{FileDevice, FileOptions, Kind, OpenMode, is_writable};
use crate::{Device, DeviceError};

/// An open device for another process ([`FileDevice::adopt`]): itself, then what lies beneath it, then its witness.
#[derive(Debug, Default)]
pub struct Handed {
    /// Open and locked, but for the witness.
    pub descriptors: Vec<OwnedFd>,
    /// Of each but the first: 1 if the device is nothing but it, 0 if it is a part of it, 2 if it is the witness.
    pub roles: Vec<u8>,
}

/// The device opened once more, for reading, by which nobody flushes but the first flush of each process that adopts it. The system
/// tells each open file of a failed writeback once (fsync(2)): this one is told of what a process was told that did not live to
/// note it (S-9.23, decision 0751).
pub(super) struct Witness {
    file: File,
    /// It was asked, or has nothing to say.
    asked: AtomicBool,
}

/// [`Handed::roles`] of a witness.
const WITNESS: u8 = 2;

impl Witness {
    /// Of what was opened here: there is no process before this one.
    pub(super) fn of(file: &File) -> io::Result<Witness> {
        let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let asked = AtomicBool::new(true);
        Ok(Witness { file, asked })
    }

    fn handed(file: File) -> Witness {
        let asked = AtomicBool::new(false);
        Witness { file, asked }
    }

    /// What the first flush goes by.
    pub(super) fn unasked(&self) -> Option<&File> {
        (!self.asked.swap(true, Ordering::Relaxed)).then_some(&self.file)
    }
}

impl FileDevice {
    /// A device that another process of ours opened and locked, and that was handed to this one with its locks, as
    /// [`FileDevice::hand`] gave them.
    ///
    /// # Errors
    /// `Busy` if the lock went astray and somebody else has taken it, `Open` if it is no device that works.
    pub fn adopt(path: &Path, handed: Handed, mode: OpenMode, options: FileOptions) -> Result<Self, DeviceError> {
        let mut files = handed.descriptors.into_iter().map(File::from);
        let file = files
            .next()
            .ok_or_else(|| unsuitable(path, "nothing of it was handed over"))?;
        let meta = file.metadata().map_err(|source| open_error(path, source))?;
        let kind = match meta.file_type().is_block_device() {
            true => Kind::Block,
            false => Kind::Regular,
        };
        // What was asked of its path was asked when it was opened; by now our own mount uses it.
        lock(path, &file, mode)?;
        let opened = match mode == OpenMode::ReadWrite && is_writable(&file) {
            true => OpenMode::ReadWrite,
            false => OpenMode::ReadOnly,
        };
        let (witnesses, beneath): (Vec<_>, Vec<_>) = files.zip(handed.roles).partition(|(_, role)| *role == WITNESS);
        let below = |(file, role): (File, u8)| Below {
            path: path.to_owned(),
            file,
            whole: role == 1,
        };
        let beneath = beneath.into_iter().map(below).collect();
        let mut device = Self::locked(path, file, beneath, kind, opened, options)?;
        device.handed.store(true, Ordering::Relaxed);
        device.witness = witnesses.into_iter().next().map(|(file, _)| Witness::handed(file));
        if mode == OpenMode::ReadWrite && opened == OpenMode::ReadOnly {
            // Opened to read, and written later.
            device.prepare_writing();
            device.begin_writing()?;
        }
        Ok(device)
    }

    /// The open device once more, with its locks: whoever holds it keeps others out.
    ///
    /// # Errors
    /// `Open` without a free descriptor.
    pub fn hand(&self) -> Result<Handed, DeviceError> {
        let witness = self.witness.iter().map(|witness| &witness.file);
        let files = std::iter::once(&self.file).chain(self.beneath.iter().map(|below| &below.file));
        let files = files.chain(witness);
        let copies: io::Result<Vec<OwnedFd>> = files.map(|file| Ok(file.try_clone()?.into())).collect();
        let descriptors = copies.map_err(|source| open_error(&self.path, source))?;
        self.handed.store(true, Ordering::Relaxed);
        let roles = self.beneath.iter().map(|below| u8::from(below.whole));
        let roles = roles.chain(self.witness.iter().map(|_| WITNESS)).collect();
        Ok(Handed { descriptors, roles })
    }
}
