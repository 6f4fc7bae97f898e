//! Requests that make, move and remove names.

use super::request::{Request, name, target};
use super::{Dispatcher, Handled};
use crate::protocol::request::{CreateIn, LinkIn, MkdirIn, MknodIn, Rename2In, RenameIn};
use crate::reply::ReplyBuf;
use keepfs_vfs::{Entry, Errno, FileKind, Ino, NewInode, OnceOp, Owner, RenameFlags, S_IFMT, made};

const RENAME_NOREPLACE: u32 = 1;
const RENAME_EXCHANGE: u32 = 2;
const RENAME_WHITEOUT: u32 = 4;

impl Dispatcher {
    pub(super) fn mknod(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let (args, rest) = request.args_and_rest::<MknodIn>()?;
        let (name, _) = name(rest)?;
        // As mknod(2): no type is a regular file.
        let kind = if args.mode & S_IFMT == 0 {
            FileKind::File.type_bits()
        } else {
            args.mode & S_IFMT
        };
        let mode = kind | args.mode & 0o7777;
        let new = new_inode(request, mode, args.umask, args.rdev);
        let entry = self.mknod_of(request, name, &new)?;
        reply.push_struct(&self.entry_out(&entry))
    }

    pub(super) fn mkdir(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let (args, rest) = request.args_and_rest::<MkdirIn>()?;
        let (name, _) = name(rest)?;
        let new = new_inode(request, FileKind::Dir.type_bits() | args.mode & 0o7777, args.umask, 0);
        let entry = self.mknod_of(request, name, &new)?;
        reply.push_struct(&self.entry_out(&entry))
    }

    pub(super) fn symlink(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let (name, rest) = name(request.body())?;
        let target = target(rest)?;
        let new = new_inode(request, FileKind::Symlink.type_bits() | 0o777, 0, 0);
        let link = OnceOp::Symlink {
            parent: request.ino(),
            name,
            target,
            new: &new,
        };
        let entry = made(self.vfs.once(request.once(), link))?;
        reply.push_struct(&self.entry_out(&entry))
    }

    pub(super) fn create(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let (args, rest) = request.args_and_rest::<CreateIn>()?;
        let (name, _) = name(rest)?;
        let entry = self.create_or_open(request, &args, name)?;
        // What is told of a file goes by how it is open (S-20.31).
        let opened = self.open_out(entry.attr.ino, args.flags);
        reply.push_struct(&self.entry_out(&entry))?;
        reply.push_struct(&opened)
    }

    /// Creates; if somebody who did not come through the kernel was faster, opens (unless `O_EXCL`).
    fn create_or_open(&self, request: &Request<'_>, args: &CreateIn, name: &[u8]) -> Result<Entry, Errno> {
        let new = new_inode(request, FileKind::File.type_bits() | args.mode & 0o7777, args.umask, 0);
        match self.mknod_of(request, name, &new) {
            Err(Errno::EEXIST) if args.flags & libc::O_EXCL as u32 == 0 => {}
            other => return other,
        }
        let entry = self.vfs.lookup(request.ino(), name)?;
        match self
            .vfs
            .open(entry.attr.ino, super::file::open_how(args.flags, args.open_flags))
        {
            Ok(()) => self.refreshed(entry),
            Err(errno) => {
                self.vfs.forget(entry.attr.ino, 1);
                Err(errno)
            }
        }
    }

    /// The entry with attributes as they are now (an open may have truncated).
    fn refreshed(&self, entry: Entry) -> Result<Entry, Errno> {
        self.vfs
            .getattr(entry.attr.ino)
            .map(|attr| Entry { attr })
            .inspect_err(|_| self.vfs.forget(entry.attr.ino, 1))
    }

    pub(super) fn tmpfile(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let args: CreateIn = request.args()?;
        let new = new_inode(request, FileKind::File.type_bits() | args.mode & 0o7777, args.umask, 0);
        let tmpfile = OnceOp::Tmpfile {
            parent: request.ino(),
            new: &new,
        };
        let entry = made(self.vfs.once(request.once(), tmpfile))?;
        let opened = self.open_out(entry.attr.ino, args.flags);
        reply.push_struct(&self.entry_out(&entry))?;
        reply.push_struct(&opened)
    }

    pub(super) fn link(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let (args, rest) = request.args_and_rest::<LinkIn>()?;
        let (name, _) = name(rest)?;
        let link = OnceOp::Link {
            ino: Ino(args.oldnodeid),
            parent: request.ino(),
            name,
        };
        let entry = made(self.vfs.once(request.once(), link))?;
        reply.push_struct(&self.entry_out(&entry))
    }

    pub(super) fn unlink(&self, request: &Request<'_>) -> Handled {
        let (name, _) = name(request.body())?;
        let parent = request.ino();
        self.vfs.once(request.once(), OnceOp::Unlink { parent, name }).map(drop)
    }

    pub(super) fn rmdir(&self, request: &Request<'_>) -> Handled {
        let (name, _) = name(request.body())?;
        let parent = request.ino();
        self.vfs.once(request.once(), OnceOp::Rmdir { parent, name }).map(drop)
    }

    pub(super) fn rename(&self, request: &Request<'_>) -> Handled {
        let (args, rest) = request.args_and_rest::<RenameIn>()?;
        self.rename_to(request, Ino(args.newdir), rest, RenameFlags::default())
    }

    pub(super) fn rename2(&self, request: &Request<'_>) -> Handled {
        let (args, rest) = request.args_and_rest::<Rename2In>()?;
        if args.flags & !(RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT) != 0 {
            return Err(Errno::EINVAL);
        }
        let flags = RenameFlags {
            no_replace: args.flags & RENAME_NOREPLACE != 0,
            exchange: args.flags & RENAME_EXCHANGE != 0,
            whiteout: (args.flags & RENAME_WHITEOUT != 0).then_some(owner(request)),
        };
        if flags.exchange && (flags.no_replace || flags.whiteout.is_some()) {
            return Err(Errno::EINVAL);
        }
        self.rename_to(request, Ino(args.newdir), rest, flags)
    }

    fn rename_to(&self, request: &Request<'_>, to: Ino, names: &[u8], flags: RenameFlags) -> Handled {
        let (old, rest) = name(names)?;
        let (new, _) = name(rest)?;
        let rename = OnceOp::Rename {
            from: (request.ino(), old),
            to: (to, new),
            flags,
        };
        self.vfs.once(request.once(), rename).map(drop)
    }

    fn mknod_of(&self, request: &Request<'_>, name: &[u8], new: &NewInode) -> Result<Entry, Errno> {
        let parent = request.ino();
        made(self.vfs.once(request.once(), OnceOp::Mknod { parent, name, new }))
    }
}

/// The inode the caller asks for, owned by the caller.
fn new_inode(request: &Request<'_>, mode: u32, umask: u32, rdev: u32) -> NewInode {
    NewInode {
        umask: umask & 0o777,
        rdev,
        ..NewInode::of(owner(request), mode)
    }
}

/// The caller, who owns what he makes.
fn owner(request: &Request<'_>) -> Owner {
    Owner {
        uid: request.header.uid,
        gid: request.header.gid,
    }
}
