//! An open pool: files by path.

use crate::error::{Error, Result};
use crate::file::File;
use crate::metadata::{Entry, Metadata};
use crate::paths::{Held, Last, Walk};
use keepfs_fs::Volume;
use keepfs_media::file::Handed;
use keepfs_server::{Claim, OpenOptions, Opened};
use keepfs_store::{Remains, Settings};
use keepfs_vfs::{Direct, Errno, FileKind, NewInode, RenameFlags, SetAttr, Vfs};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open pool. Paths start at its root, with or without a leading `/`; symbolic links are followed within the pool.
///
/// Dropped without [`Pool::close`], it is as after a crash: what was synced is there.
pub struct Pool {
    opened: Opened,
}

impl Pool {
    /// Opens a pool, alone; recovers it if it was not closed. As [`Claim::new`] and [`Claim::open`].
    ///
    /// # Errors
    /// [`Error::Device`] if it is in use or cannot be read, [`Error::Pool`] if it is no pool or damaged.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Pool> {
        Ok(Pool::of(Claim::new(path, options)?.open(options)?))
    }

    pub(crate) fn of(opened: Opened) -> Pool {
        Pool { opened }
    }

    /// The memory that another process can take up when this one has died, if the pool was opened with
    /// [`OpenOptions::lasting`].
    ///
    /// # Errors
    /// [`Error::Pool`] without a free descriptor.
    pub fn remains(&self) -> Result<Remains> {
        self.volume().remains().map_err(|source| Error::Pool {
            pool: self.path().to_owned(),
            source,
        })
    }

    /// The pool's device once more, with its locks, for [`Claim::adopt`] in another process.
    ///
    /// # Errors
    /// [`Error::Device`] without a free descriptor.
    pub fn device(&self) -> Result<Handed> {
        Ok(self.opened.device()?)
    }

    /// The file system itself, for a mount and for its figures.
    pub fn volume(&self) -> &Arc<Volume> {
        self.opened.volume()
    }

    /// Changes what of a pool may change while it lives. When this returns everything is durable; what guards metadata in
    /// memory is another from the next opening on. Returns whether anything was to change.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let path = place.path().join("pool");
    /// # use keepfs::{CreateOptions, OpenOptions, Pool, Protection, Settings};
    /// # Pool::create(&path, &CreateOptions { size: Some(64 << 20), ..CreateOptions::default() })?;
    /// # let pool = Pool::open(&path, &OpenOptions::default())?;
    /// let pq = Settings { protect: Some(Protection::Pq), ..Settings::default() };
    /// assert!(pool.set(&pq)?);
    /// assert!(!pool.set(&pq)?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Pool`]: no pool can have them, it is read-only, or nothing can be written.
    pub fn set(&self, settings: &Settings) -> Result<bool> {
        self.volume().store().set(settings).map_err(|source| Error::Pool {
            pool: self.path().to_owned(),
            source: source.into(),
        })
    }

    /// From here on the pool shows to other machines that reach it that it is in use here, in each interval of so many seconds (1 to
    /// 20), or with `None` does not (SPEC S-2.12). Returns whether that is a change.
    ///
    /// # Errors
    /// [`Error::Pool`]: it was made without a place for that, it is read-only, or another machine has it.
    pub fn set_mmp(&self, interval_s: Option<u32>) -> Result<bool> {
        self.volume().store().set_mmp(interval_s).map_err(|source| Error::Pool {
            pool: self.path().to_owned(),
            source: source.into(),
        })
    }

    /// What another process goes on with as this one's claim of the pool ([`Claim::in_place_of`]).
    pub fn nonce(&self) -> Option<[u8; 16]> {
        self.opened.nonce()
    }

    /// Where the pool is.
    pub fn path(&self) -> &Path {
        self.opened.path()
    }

    /// The whole content of a file.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`; `EIO` if it cannot be read as it was written. As for all operations: [`Error::File`].
    pub fn read(&self, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        self.open_file(path)?.read_all()
    }

    /// Makes the file if it does not exist, empties it if it does, and writes `bytes`.
    ///
    /// # Errors
    /// `ENOENT` (a directory on the way), `EISDIR`, `ENOSPC`.
    pub fn write(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        let file = match self.create_file(path) {
            Err(error) if error.errno() == Errno::EEXIST => self.open_file(path)?,
            other => other?,
        };
        file.set_len(0)?;
        file.write_at(0, bytes.as_ref())
    }

    /// Opens an existing file.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let path = place.path().join("pool");
    /// # use keepfs::{CreateOptions, OpenOptions, Pool};
    /// # Pool::create(&path, &CreateOptions { size: Some(64 << 20), ..CreateOptions::default() })?;
    /// # let pool = Pool::open(&path, &OpenOptions::default())?;
    /// pool.write("log", "one\n")?;
    /// let log = pool.open_file("log")?;
    /// log.write_at(log.len()?, b"two\n")?;
    /// log.sync()?;
    /// let mut word = [0; 3];
    /// assert_eq!(log.read_at(4, &mut word)?, 3);
    /// assert_eq!(&word, b"two");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`.
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let failed = Error::file("open", path);
        let open = || {
            let held = self.walk().find(path, Last::Follow)?;
            match held.attr().kind() {
                FileKind::Dir => Err(Errno::EISDIR),
                FileKind::File => Ok(held),
                _ => Err(Errno::ENXIO),
            }
        };
        let held = open().map_err(failed)?;
        Ok(File::over(held, path))
    }

    /// Makes an empty file.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT`, `ENOSPC`.
    pub fn create_file(&self, path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        let held = self.make("create", path, FileKind::File.type_bits() | 0o644)?;
        Ok(File::over(held, path))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT`, `ENOSPC`.
    pub fn create_dir(&self, path: impl AsRef<Path>) -> Result<()> {
        self.make("create directory", path.as_ref(), FileKind::Dir.type_bits() | 0o755)?;
        Ok(())
    }

    /// Makes a directory and all that lead to it; those that exist are left alone.
    ///
    /// # Errors
    /// `ENOTDIR`, `ENOSPC`.
    pub fn create_dir_all(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let mut so_far = PathBuf::new();
        for part in path.components() {
            so_far.push(part);
            match self.metadata(&so_far) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(Error::file("create directory", &so_far)(Errno::ENOTDIR)),
                Err(error) if error.errno() == Errno::ENOENT => self.create_dir(&so_far)?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The entries of a directory without `.` and `..`, by name.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let path = place.path().join("pool");
    /// # use keepfs::{CreateOptions, FileKind, OpenOptions, Pool};
    /// # Pool::create(&path, &CreateOptions { size: Some(64 << 20), ..CreateOptions::default() })?;
    /// # let pool = Pool::open(&path, &OpenOptions::default())?;
    /// pool.write("b", "")?;
    /// pool.create_dir("a")?;
    /// let names: Vec<_> = pool.list("/")?.into_iter().map(|e| (e.name, e.kind)).collect();
    /// assert_eq!(names, [("a".into(), FileKind::Dir), ("b".into(), FileKind::File)]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<Entry>> {
        let path = path.as_ref();
        let mut entries = Vec::new();
        let listed = self.walk().find(path, Last::Follow).and_then(|held| {
            self.volume().readdir(held.ino(), 0, &mut |entry| {
                if !matches!(entry.name, b"." | b"..") {
                    entries.push(Entry {
                        name: OsString::from_vec(entry.name.to_vec()),
                        kind: entry.kind,
                        ino: entry.ino.0,
                    });
                }
                true
            })
        });
        listed.map_err(Error::file("list", path))?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Renames, replacing what has the new name, in one step, also against a crash.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let place = tempfile::tempdir()?;
    /// # let path = place.path().join("pool");
    /// # use keepfs::{CreateOptions, OpenOptions, Pool};
    /// # Pool::create(&path, &CreateOptions { size: Some(64 << 20), ..CreateOptions::default() })?;
    /// # let pool = Pool::open(&path, &OpenOptions::default())?;
    /// pool.write("config", "old")?;
    /// pool.write("config.new", "new")?;
    /// pool.rename("config.new", "config")?;
    /// assert_eq!(pool.read("config")?, b"new");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `ENOENT`, `ENOTEMPTY`, `EISDIR`, `ENOTDIR`, `EINVAL` (a directory into itself).
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let renamed = self.walk().parent(from).and_then(|(old, old_name)| {
            let (new, new_name) = self.walk().parent(to)?;
            let flags = RenameFlags::default();
            self.volume().rename(old.ino(), &old_name, new.ino(), &new_name, flags)
        });
        renamed.map_err(Error::file("rename", from))
    }

    /// Removes a name of a file or an empty directory.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTEMPTY`.
    pub fn remove(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let removed =
            self.walk()
                .parent(path)
                .and_then(|(parent, name)| match self.volume().unlink(parent.ino(), &name) {
                    Err(Errno::EISDIR) => self.volume().rmdir(parent.ino(), &name),
                    other => other,
                });
        removed.map_err(Error::file("remove", path))
    }

    /// What a file is; symbolic links are followed.
    ///
    /// # Errors
    /// `ENOENT`, `ELOOP`.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.look(path.as_ref(), Last::Follow)
    }

    /// What a file is; of a symbolic link, itself.
    ///
    /// # Errors
    /// `ENOENT`.
    pub fn symlink_metadata(&self, path: impl AsRef<Path>) -> Result<Metadata> {
        self.look(path.as_ref(), Last::Keep)
    }

    /// Sets the permission bits.
    ///
    /// # Errors
    /// `ENOENT`, `EPERM`.
    pub fn set_permissions(&self, path: impl AsRef<Path>, mode: u32) -> Result<()> {
        let path = path.as_ref();
        let change = SetAttr {
            mode: Some(mode & 0o7777),
            ..SetAttr::default()
        };
        let held = self.walk().find(path, Last::Follow);
        let changed = held.and_then(|held| self.volume().setattr(held.ino(), &change));
        changed.map(drop).map_err(Error::file("change", path))
    }

    /// Makes a symbolic link at `path` that says `target`.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT`, `ENAMETOOLONG`.
    pub fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let target = target.as_ref().as_os_str().as_bytes();
        let made = self.walk().parent(path).and_then(|(parent, name)| {
            let new = new_inode(FileKind::Symlink.type_bits() | 0o777);
            let entry = self.volume().symlink(parent.ino(), &name, target, &new)?;
            self.volume().forget(entry.attr.ino, 1);
            Ok(())
        });
        made.map_err(Error::file("link", path))
    }

    /// What a symbolic link says.
    ///
    /// # Errors
    /// `ENOENT`, `EINVAL` if it is none.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<PathBuf> {
        let path = path.as_ref();
        let held = self.walk().find(path, Last::Keep);
        let target = held.and_then(|held| self.volume().readlink(held.ino()));
        let target = target.map_err(Error::file("read link", path))?;
        Ok(OsString::from_vec(target).into())
    }

    /// Makes everything durable: no power cut can take it away once this has returned.
    ///
    /// # Errors
    /// `EIO` if the device failed: nothing written since the last good sync may be relied on.
    pub fn sync(&self) -> Result<()> {
        self.volume().syncfs().map_err(Error::file("sync", self.path()))
    }

    /// Makes everything durable and marks the pool as closed properly.
    ///
    /// # Errors
    /// As [`Pool::sync`]; the pool is closed in any case.
    pub fn close(self) -> Result<()> {
        self.volume().unmount().map_err(Error::file("close", self.path()))
    }

    fn walk(&self) -> Walk<'_> {
        Walk::new(self.volume())
    }

    fn look(&self, path: &Path, last: Last) -> Result<Metadata> {
        let held = self.walk().find(path, last).map_err(Error::file("look at", path))?;
        Ok(Metadata { attr: held.attr() })
    }

    fn make(&self, what: &'static str, path: &Path, mode: u32) -> Result<Held> {
        let made = self.walk().parent(path).and_then(|(parent, name)| {
            let entry = self.volume().mknod(parent.ino(), &name, &new_inode(mode))?;
            Ok(Held::over(self.volume(), entry))
        });
        made.map_err(Error::file(what, path))
    }
}

/// A new inode of this process's user.
fn new_inode(mode: u32) -> NewInode {
    NewInode {
        mode,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        rdev: 0,
        umask: 0,
    }
}
