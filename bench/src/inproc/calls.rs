//! The calls that are timed, so that the library in this process and a mounted file system do exactly the same.

use std::io::Result;

/// A file system. Names are of one component; errors are those of the file system as error numbers.
pub trait Calls: Sync {
    /// A directory.
    type Dir: Sync;
    /// An open file.
    type File: Send + Sync;
    /// What is left of making a file, until [`Calls::release`].
    type Made: Send;

    /// A new directory in the root.
    fn directory(&self, name: &str) -> Result<Self::Dir>;
    /// Makes an empty file as mknod(2) does: nothing is opened.
    fn make(&self, dir: &Self::Dir, name: &[u8]) -> Result<Self::Made>;
    /// Ends what [`Calls::make`] left.
    fn release(&self, made: Self::Made);
    /// Finds a name and its attributes.
    fn lookup(&self, dir: &Self::Dir, name: &[u8]) -> Result<()>;
    /// Makes a file and opens it.
    fn create(&self, dir: &Self::Dir, name: &[u8]) -> Result<Self::File>;
    /// Opens a file; all that is written through it goes to its end if `append` is set.
    fn open(&self, dir: &Self::Dir, name: &[u8], append: bool) -> Result<Self::File>;
    /// Closes it.
    fn close(&self, file: Self::File);
    /// Reads; returns bytes, 0 at the end.
    fn read(&self, file: &Self::File, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// Writes all of `data`.
    fn write(&self, file: &Self::File, offset: u64, data: &[u8]) -> Result<()>;
    /// Writes all of `data` at the end of a file that [`Calls::create`] made or [`Calls::open`] opened with `append`.
    fn append(&self, file: &Self::File, data: &[u8]) -> Result<()>;
    /// Makes a file durable.
    fn fsync(&self, file: &Self::File) -> Result<()>;
    /// Renames within a directory.
    fn rename(&self, dir: &Self::Dir, from: &[u8], to: &[u8]) -> Result<()>;
    /// Another name in the same directory.
    fn link(&self, dir: &Self::Dir, from: &[u8], to: &[u8]) -> Result<()>;
    /// Other permissions for a directory.
    fn chmod(&self, dir: &Self::Dir, mode: u32) -> Result<()>;
    /// Sets the times of a file to now.
    fn touch(&self, dir: &Self::Dir, name: &[u8]) -> Result<()>;
    /// Unlinks.
    fn unlink(&self, dir: &Self::Dir, name: &[u8]) -> Result<()>;
    /// Waits until what was unlinked is freed.
    fn settle(&self) -> Result<()>;
    /// What the device has written and flushed so far.
    fn traffic(&self) -> Result<Traffic>;
}

/// Bytes and flushes of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes written.
    pub bytes: u64,
    /// Cache flushes.
    pub flushes: u64,
}
