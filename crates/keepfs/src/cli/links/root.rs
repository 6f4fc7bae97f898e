//! Folders below the root that an installation is for. No link leads out of it: one that is absolute is resolved as it will be
//! where that root is `/`.

use keepfs_server::Failure;
use keepfs_server::visible::Shown;
use rustix::fs::{self, Access, AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::fs::read_link;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Where an installation goes.
pub struct Root {
    fd: OwnedFd,
    resolve: ResolveFlags,
    /// As it was named; empty for this system.
    path: PathBuf,
}

/// An open folder.
pub struct Folder {
    fd: OwnedFd,
    /// Where it is, for messages.
    path: PathBuf,
}

impl Root {
    /// Below `path`, or this system. Errors: it is no directory.
    pub fn open(path: Option<&Path>) -> Result<Root, Failure> {
        let (at, resolve) = match path {
            Some(path) => (path, ResolveFlags::IN_ROOT),
            None => (Path::new("."), ResolveFlags::empty()),
        };
        let fd = fs::open(at, DIRECTORY, Mode::empty());
        Ok(Root {
            fd: fd.map_err(|e| Failure::io("open", at)(e.into()))?,
            resolve,
            path: path.map(Path::to_owned).unwrap_or_default(),
        })
    }

    /// Where `path` is, for messages.
    pub fn shown(&self, path: &Path) -> PathBuf {
        match self.path.as_os_str().is_empty() {
            true => path.to_owned(),
            false => self.path.join(path.strip_prefix("/").unwrap_or(path)),
        }
    }

    /// A folder, which is made if it is not there and `make` says so. `None`: it is not there.
    pub fn folder(&self, path: &Path, make: bool) -> Result<Option<Folder>, Failure> {
        let open = || fs::openat2(&self.fd, path, DIRECTORY, Mode::empty(), self.resolve);
        let failed = |what| {
            let path = self.shown(path);
            move |error: Errno| Failure::io(what, &path)(error.into())
        };
        let fd = match (open(), path.parent(), path.file_name()) {
            (Err(Errno::NOENT), Some(parent), Some(name)) => {
                let parent = match parent.as_os_str().is_empty() {
                    true => Path::new("."),
                    false => parent,
                };
                let Some(parent) = self.folder(parent, make)?.filter(|_| make) else {
                    return Ok(None);
                };
                match fs::mkdirat(&parent.fd, name, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(failed("make the directory")(error)),
                }
                open()
            }
            (opened, ..) => opened,
        };
        Ok(Some(Folder {
            fd: fd.map_err(failed("open the directory"))?,
            path: self.shown(path),
        }))
    }
}

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

impl Folder {
    /// Where `name` is, for messages.
    pub fn shown(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A path by which calls reach `name`, wherever the folder is.
    pub fn at(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.fd.as_raw_fd())).join(name)
    }

    /// Errors: nothing can be made or removed here.
    pub fn is_writable(&self) -> Result<(), Failure> {
        fs::accessat(&self.fd, ".", Access::WRITE_OK, AtFlags::EACCESS)
            .map_err(|error| Failure::io("write in", &self.path)(error.into()))
    }

    /// What `name` is that an installation of Keepfs has not made; `None`: nothing, or one of its own. `links_to`: whether a link
    /// there to this place is one of its own.
    pub fn foreign(&self, name: &str, links_to: impl Fn(&Path) -> bool) -> Result<Option<String>, Failure> {
        let at = self.at(name);
        let failed = |error: io::Error| Failure::io("look at", &self.shown(name))(error);
        let kind = match at.symlink_metadata() {
            Ok(found) => found.file_type(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if kind.is_symlink() {
            let target = read_link(&at).map_err(failed)?;
            return Ok((!links_to(&target)).then(|| format!("a link to {}", target.shown())));
        }
        if !kind.is_file() {
            return Ok(Some("no file".into()));
        }
        let text = std::fs::read(&at).map_err(failed)?;
        let names_us = text.windows(NAME.len()).any(|part| part.eq_ignore_ascii_case(NAME));
        Ok((!names_us).then(|| "a file".into()))
    }
}

/// It stands in each file of an installation.
const NAME: &[u8] = b"keepfs";
