//! A directory that files are copied to. Names come from a pool that may be hostile: each is used below an open directory, and no
//! symbolic link is ever followed.

use keepfs_check::read::Xattr;
use keepfs_format::inode::Inode;
use keepfs_server::Failure;
use keepfs_server::visible::Shown;
use rustix::fs::{self, AtFlags, Dir, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Prefixes of the namespaces of extended attributes, by their numbers (S-7.4).
const NAMESPACES: [&[u8]; 5] = [
    b"user.",
    b"trusted.",
    b"security.",
    b"system.posix_acl_access",
    b"system.posix_acl_default",
];
/// mode >> 12 of a symlink.
const SYMLINK: u32 = 0o12;
const OPEN: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW: OFlags = OFlags::CREATE
    .union(OFlags::EXCL)
    .union(OFlags::WRONLY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Files of which something could not be set where they were copied to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NotKept {
    /// Owner or group.
    pub owners: u64,
    /// Permissions.
    pub modes: u64,
    /// Times of access and change.
    pub times: u64,
    /// Extended attributes, each counted.
    pub attributes: u64,
}

impl NotKept {
    pub fn is_empty(&self) -> bool {
        *self == NotKept::default()
    }
}

/// An open directory.
pub struct Place {
    fd: OwnedFd,
    /// Where it is below the top.
    pub path: PathBuf,
    /// Where the top is, for messages.
    top: PathBuf,
}

/// What came of making a file.
pub enum Made {
    File(Target),
    /// The name is taken.
    Taken,
    /// No file of this file system can be so large.
    TooLarge,
}

/// A file under way.
pub struct Target {
    file: File,
    path: PathBuf,
}

impl Target {
    pub fn write(&self, bytes: &[u8], at: u64) -> Result<(), Failure> {
        self.file
            .write_all_at(bytes, at)
            .map_err(Failure::io("write to", &self.path))
    }
}

impl Place {
    /// The directory that everything goes to: made if it is not there, refused if something is in it.
    pub fn top(dir: &Path) -> Result<Place, Failure> {
        match std::fs::create_dir(dir) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Failure::io("make", dir)(error));
            }
            _ => {}
        }
        let open = || fs::open(dir, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let fd = open().map_err(|e| Failure::io("open", dir)(e.into()))?;
        let mut entries = Dir::read_from(&fd).map_err(|e| Failure::io("read", dir)(e.into()))?;
        let is_other = |name: &[u8]| name != b"." && name != b"..";
        if entries.any(|entry| entry.is_ok_and(|entry| is_other(entry.file_name().to_bytes()))) {
            return Err(Failure::Usage(format!(
                "{} is not empty; give a directory that is, or a name that does not exist yet",
                dir.shown()
            )));
        }
        Ok(Place {
            fd,
            path: PathBuf::new(),
            top: dir.to_owned(),
        })
    }

    /// The same directory, opened a second time.
    pub fn reopened(&self) -> Result<Place, Failure> {
        let fd = self.fd.try_clone().map_err(Failure::io("open", &self.top))?;
        Ok(Place {
            fd,
            path: self.path.clone(),
            top: self.top.clone(),
        })
    }

    fn failed(&self, what: &'static str, name: &OsStr) -> impl FnOnce(Errno) -> Failure {
        let path = self.top.join(&self.path).join(name);
        move |error| Failure::io(what, &path)(error.into())
    }

    fn below(&self, name: &OsStr) -> Result<Place, Failure> {
        let fd = fs::openat(&self.fd, name, OPEN, Mode::empty()).map_err(self.failed("open", name))?;
        Ok(Place {
            fd,
            path: self.path.join(name),
            top: self.top.clone(),
        })
    }

    /// A new directory; None if the name is taken.
    pub fn directory(&self, name: &OsStr) -> Result<Option<Place>, Failure> {
        match fs::mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) => self.below(name).map(Some),
            Err(Errno::EXIST) => Ok(None),
            Err(error) => Err(self.failed("make", name)(error)),
        }
    }

    /// A directory of this name that nobody else may enter, made here or there already; of another name if that is something else.
    pub fn shelf(&self, name: &str) -> Result<Place, Failure> {
        let mut name = name.to_owned();
        loop {
            if let Some(made) = self.directory(name.as_ref())? {
                return Ok(made);
            }
            let found = fs::openat(&self.fd, &name, OPEN, Mode::empty());
            let is_private = |stat: fs::Stat| stat.st_uid == geteuid().as_raw() && stat.st_mode & 0o077 == 0;
            if found.is_ok_and(|dir| fs::fstat(dir).is_ok_and(is_private)) {
                return self.below(name.as_ref());
            }
            name.push('~');
        }
    }

    /// A new file of `size` bytes, all one hole.
    pub fn file(&self, name: &OsStr, size: u64) -> Result<Made, Failure> {
        let file = match fs::openat(&self.fd, name, NEW, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => File::from(fd),
            Err(Errno::EXIST) => return Ok(Made::Taken),
            Err(error) => return Err(self.failed("make", name)(error)),
        };
        let path = self.top.join(&self.path).join(name);
        match fs::ftruncate(&file, size) {
            Ok(()) => Ok(Made::File(Target { file, path })),
            Err(Errno::FBIG | Errno::INVAL) => {
                fs::unlinkat(&self.fd, name, AtFlags::empty()).map_err(self.failed("remove", name))?;
                Ok(Made::TooLarge)
            }
            Err(error) => Err(self.failed("give its size to", name)(error)),
        }
    }

    /// A second name of what `first` below `top` is; false if that cannot be.
    pub fn link(&self, top: &Place, first: &Path, name: &OsStr) -> Result<bool, Failure> {
        match fs::linkat(&top.fd, first, &self.fd, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            // The file is copied again where links cannot be made, and told where the name is taken.
            Err(Errno::EXIST | Errno::PERM | Errno::MLINK | Errno::NAMETOOLONG | Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(self.failed("link", name)(error)),
        }
    }

    /// A symbolic link; false if the name is taken or the target too long.
    pub fn symlink(&self, name: &OsStr, target: &[u8]) -> Result<bool, Failure> {
        match fs::symlinkat(OsStr::from_bytes(target), &self.fd, name) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST | Errno::NAMETOOLONG) => Ok(false),
            Err(error) => Err(self.failed("make", name)(error)),
        }
    }

    /// A device, FIFO or socket; false if it cannot be made.
    pub fn special(&self, name: &OsStr, mode: u32, device: u32) -> Result<bool, Failure> {
        let made = fs::mknodat(
            &self.fd,
            name,
            FileType::from_raw_mode(mode),
            Mode::RUSR | Mode::WUSR,
            device.into(),
        );
        match made {
            Ok(()) => Ok(true),
            Err(Errno::NOSPC | Errno::IO) => Err(self.failed("make", name)(Errno::NOSPC)),
            Err(_) => Ok(false),
        }
    }

    /// Gives `name` its owner, attributes, permissions and times, as far as this user may and this file system can.
    pub fn dress(&self, name: &OsStr, inode: &Inode, attributes: &[Xattr], not: &mut NotKept) {
        let (mode, nofollow) = (inode.mode.get(), AtFlags::SYMLINK_NOFOLLOW);
        // An owner of another user clears set-user-id and capabilities, so it comes first.
        let owner = (Uid::from_raw(inode.uid.get()), Gid::from_raw(inode.gid.get()));
        let owned = fs::chownat(&self.fd, name, Some(owner.0), Some(owner.1), nofollow);
        not.owners += u64::from(owned.is_err());
        for attribute in attributes {
            not.attributes += u64::from(!self.set(name, attribute));
        }
        if mode >> 12 != SYMLINK {
            let set = fs::chmodat(&self.fd, name, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty());
            not.modes += u64::from(set.is_err());
        }
        let times = Timestamps {
            last_access: moment(inode.atime.get(), inode.atime_nsec.get()),
            last_modification: moment(inode.mtime.get(), inode.mtime_nsec.get()),
        };
        let set = fs::utimensat(&self.fd, name, &times, nofollow);
        not.times += u64::from(set.is_err());
    }

    fn set(&self, name: &OsStr, (namespace, attribute, value): &Xattr) -> bool {
        let Some(prefix) = NAMESPACES.get(usize::from(*namespace)) else {
            return false;
        };
        // There is no call for attributes below an open directory; the name itself is one part of a path.
        let path = PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd())).join(name);
        let full = std::ffi::OsString::from_vec([*prefix, attribute].concat());
        fs::lsetxattr(&path, &full, value, XattrFlags::empty()).is_ok()
    }
}

fn moment(seconds: i64, nanoseconds: u32) -> Timespec {
    Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds.into(),
    }
}
