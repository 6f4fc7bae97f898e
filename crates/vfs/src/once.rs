//! Changes that must not happen twice, and the requests that they are done for.
//!
//! A server may die between a change and its answer; the kernel then sends the request to the next one again. Most changes may
//! simply be done again: a write at an offset, a new size. Those here may not: the second mkdir finds the name of the first.
//! So they are told which request they are done for, and who keeps the file system remembers with the change that it was
//! done (S-16.3, S-16.17).

use crate::{Entry, Errno, Ino, NewInode, RenameFlags, Result, Vfs, XattrHow};

/// A request of the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Its number, without the bit that says that it was sent again.
    pub unique: u64,
    /// A server that ended had read it.
    pub resent: bool,
    /// Who does it: one request at a time, so nobody else's has this number until the answer is sent. Small.
    pub seat: u32,
}

/// One of these changes. Each is a method of [`Direct`], too, where its errors stand.
#[derive(Clone, Copy, Debug)]
pub enum OnceOp<'a> {
    /// mknod(2), mkdir(2) and open(2) with `O_CREAT`: a new inode, of the kind that `new.mode` says, named `name`.
    Mknod {
        /// Where.
        parent: Ino,
        /// Its name.
        name: &'a [u8],
        /// What it shall be.
        new: &'a NewInode,
    },
    /// A new symbolic link.
    Symlink {
        /// Where.
        parent: Ino,
        /// Its name.
        name: &'a [u8],
        /// What it leads to.
        target: &'a [u8],
        /// Whose it shall be.
        new: &'a NewInode,
    },
    /// A new regular file without a name (`O_TMPFILE`).
    Tmpfile {
        /// What it inherits from.
        parent: Ino,
        /// What it shall be.
        new: &'a NewInode,
    },
    /// One more name of `ino`.
    Link {
        /// No directory.
        ino: Ino,
        /// Where.
        parent: Ino,
        /// The new name.
        name: &'a [u8],
    },
    /// One name less of what is no directory.
    Unlink {
        /// Where.
        parent: Ino,
        /// The name.
        name: &'a [u8],
    },
    /// An empty directory less.
    Rmdir {
        /// Where.
        parent: Ino,
        /// Its name.
        name: &'a [u8],
    },
    /// renameat2(2).
    Rename {
        /// Directory and name.
        from: (Ino, &'a [u8]),
        /// The new ones.
        to: (Ino, &'a [u8]),
        /// How.
        flags: RenameFlags,
    },
    /// setxattr(2): `create` and `replace` fail the second time.
    Setxattr {
        /// Whose.
        ino: Ino,
        /// The attribute.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
        /// How.
        how: XattrHow,
    },
    /// removexattr(2).
    Removexattr {
        /// Whose.
        ino: Ino,
        /// The attribute.
        name: &'a [u8],
    },
}

impl OnceOp<'_> {
    /// What it is, in a word.
    pub fn word(&self) -> &'static str {
        match self {
            OnceOp::Mknod { .. } => "mknod",
            OnceOp::Symlink { .. } => "symlink",
            OnceOp::Tmpfile { .. } => "tmpfile",
            OnceOp::Link { .. } => "link",
            OnceOp::Unlink { .. } => "unlink",
            OnceOp::Rmdir { .. } => "rmdir",
            OnceOp::Rename { .. } => "rename",
            OnceOp::Setxattr { .. } => "setxattr",
            OnceOp::Removexattr { .. } => "removexattr",
        }
    }
}

/// [`Vfs::once`] in a method each, for programs that have the file system in their own process: nobody sends a call of theirs
/// again. Whoever serves the kernel has requests, and calls [`Vfs::once`].
pub trait Direct: Vfs {
    /// Creates an inode of the kind that `new.mode` says (regular, directory, FIFO, socket, device) named `name`.
    /// Errors: `EEXIST`, `ENOTDIR`, `ENAMETOOLONG`, `ENOSPC`, `EMLINK`, `EPERM` (immutable parent).
    fn mknod(&self, parent: Ino, name: &[u8], new: &NewInode) -> Result<Entry> {
        made(self.once(None, OnceOp::Mknod { parent, name, new }))
    }

    /// Creates a symbolic link.
    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], new: &NewInode) -> Result<Entry> {
        let link = OnceOp::Symlink {
            parent,
            name,
            target,
            new,
        };
        made(self.once(None, link))
    }

    /// Creates a regular file without a name (`O_TMPFILE`); it vanishes when forgotten unless linked.
    fn tmpfile(&self, parent: Ino, new: &NewInode) -> Result<Entry> {
        made(self.once(None, OnceOp::Tmpfile { parent, new }))
    }

    /// Adds a name to a non-directory. Errors: `EPERM` for a directory, `EEXIST`, `EMLINK`.
    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Entry> {
        made(self.once(None, OnceOp::Link { ino, parent, name }))
    }

    /// Removes a name of a non-directory. Errors: `EISDIR`, `ENOENT`, `EPERM`.
    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.once(None, OnceOp::Unlink { parent, name }).map(drop)
    }

    /// Removes an empty directory. Errors: `ENOTEMPTY`, `ENOTDIR`, `EINVAL` (`.`), `EBUSY` (root).
    fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.once(None, OnceOp::Rmdir { parent, name }).map(drop)
    }

    /// Renames, with the flags of renameat2(2).
    fn rename(&self, parent: Ino, name: &[u8], new_parent: Ino, new_name: &[u8], flags: RenameFlags) -> Result<()> {
        let rename = OnceOp::Rename {
            from: (parent, name),
            to: (new_parent, new_name),
            flags,
        };
        self.once(None, rename).map(drop)
    }

    /// Sets an extended attribute; `system.posix_acl_*` also changes the mode as acl(5) says.
    fn setxattr(&self, ino: Ino, name: &[u8], value: &[u8], how: XattrHow) -> Result<()> {
        let set = OnceOp::Setxattr { ino, name, value, how };
        self.once(None, set).map(drop)
    }

    /// Removes an extended attribute. Errors: `ENODATA`, but of an ACL, which is then removed.
    fn removexattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.once(None, OnceOp::Removexattr { ino, name }).map(drop)
    }
}

impl<V: Vfs + ?Sized> Direct for V {}

/// The entry that a change which makes one answers with. Errors: `EIO` if there is none.
pub fn made(done: Result<Option<Entry>>) -> Result<Entry> {
    done?.ok_or(Errno::EIO)
}
