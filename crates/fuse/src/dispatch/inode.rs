//! Requests about one inode: finding it, forgetting it, its attributes.

use super::convert::{set_attr, statfs_out};
use super::request::{Request, name};
use super::{Dispatcher, Handled};
use crate::protocol::flags;
use crate::protocol::request::{BatchForgetIn, ForgetIn, ForgetOne, GetattrIn, SetattrIn};
use crate::reply::ReplyBuf;
use keepfs_vfs::{Errno, Ino};
use zerocopy::FromBytes;

impl Dispatcher {
    pub(super) fn lookup(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let (name, _) = name(request.body())?;
        // "." asks for an inode by its number alone (EXPORT_SUPPORT: a file handle after the cache was dropped).
        let found = if name == b"." {
            self.vfs.lookup_ino(request.ino())
        } else {
            self.vfs.lookup(request.ino(), name)
        };
        match found {
            Ok(entry) => reply.push_struct(&self.entry_out(&entry)),
            Err(Errno::ENOENT) if name != b"." && name != b".." => match self.negative_entry() {
                Some(nothing) => reply.push_struct(&nothing),
                None => Err(Errno::ENOENT),
            },
            Err(errno) => Err(errno),
        }
    }

    pub(super) fn forget(&self, request: &Request<'_>) -> Handled {
        let args: ForgetIn = request.args()?;
        self.forget_one(request.ino(), args.nlookup);
        Ok(())
    }

    pub(super) fn batch_forget(&self, request: &Request<'_>) -> Handled {
        let (args, mut rest) = request.args_and_rest::<BatchForgetIn>()?;
        for _ in 0..args.count {
            let (one, next) = ForgetOne::read_from_prefix(rest).map_err(|_| Errno::EINVAL)?;
            self.forget_one(Ino(one.nodeid), one.nlookup);
            rest = next;
        }
        Ok(())
    }

    /// The kernel has no such inode any more: what was owed to its writers is owed to nobody, least of all to those of the next file
    /// with its number.
    fn forget_one(&self, ino: Ino, count: u64) {
        self.owed.take(ino);
        self.vfs.forget(ino, count);
    }

    pub(super) fn getattr(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let is_by_handle = |args: GetattrIn| args.getattr_flags & flags::GETATTR_FH != 0;
        if self.owes(request.ino()) && request.args().is_ok_and(is_by_handle) && self.owed.take(request.ino()) {
            return Err(Errno::ENOSPC);
        }
        let attr = self.vfs.getattr(request.ino())?;
        reply.push_struct(&self.attr_out(&attr))
    }

    pub(super) fn statx(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let attr = self.vfs.getattr(request.ino())?;
        reply.push_struct(&self.statx_out(&attr))
    }

    pub(super) fn setattr(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let args: SetattrIn = request.args()?;
        if args.valid & flags::fattr::FH != 0 && args.valid & flags::fattr::SIZE != 0 {
            self.has_lost_nothing(args.fh)?;
        }
        let mut change = set_attr(&args);
        // A chown(2) of neither, or a write of somebody else (S-20.26).
        if args.valid & flags::fattr::SET == 0 {
            let owner = self.vfs.getattr(request.ino())?.uid;
            change.kill_suidgid = [0, owner].contains(&request.header.uid);
        }
        let attr = self.vfs.setattr(request.ino(), &change)?;
        reply.push_struct(&self.attr_out(&attr))
    }

    pub(super) fn statfs(&self, reply: &mut ReplyBuf) -> Handled {
        reply.push_struct(&statfs_out(&self.vfs.statfs()?))
    }
}
