//! Changes that must not happen twice though the kernel sends their request to the next server again (S-16.3, S-16.17).

use crate::Volume;
use crate::errors::{Result, Step};
use crate::inode::live;
use keepfs_format::inode::Inode;
use keepfs_store::{Again, Running, Txn};
use keepfs_vfs::{Entry, Errno, OnceOp, Request};

/// Servers that may die over the same request.
const DEADLY: u32 = 2;

/// For which request a change is done; `None`: of nobody's, or of one that ends with this server.
pub(crate) type For = Option<Running>;

/// How a request is to be answered.
enum Before {
    /// It is to be done.
    Do(For),
    /// It was done: its reply is success, with this entry if it names an inode. The lookup is counted already.
    Done(Option<Entry>),
}

impl Volume {
    /// Does the change, unless it was done for this request before.
    pub(crate) fn do_once(&self, request: Option<Request>, op: OnceOp<'_>) -> Result<Option<Entry>> {
        let by = match request {
            None => None,
            Some(request) => match self.before(request, op.word())? {
                Before::Do(by) => by,
                Before::Done(entry) => return Ok(entry),
            },
        };
        match op {
            OnceOp::Mknod { parent, name, new } => self.do_mknod(by, parent.0, name, new).map(Some),
            OnceOp::Symlink {
                parent,
                name,
                target,
                new,
            } => self.do_symlink(by, parent.0, name, target, new).map(Some),
            OnceOp::Tmpfile { parent, new } => self.do_tmpfile(by, parent.0, new).map(Some),
            OnceOp::Link { ino, parent, name } => self.do_link(by, ino.0, parent.0, name).map(Some),
            OnceOp::Unlink { parent, name } => self.do_unlink(by, parent.0, name).map(|()| None),
            OnceOp::Rmdir { parent, name } => self.do_rmdir(by, parent.0, name).map(|()| None),
            OnceOp::Rename { from, to, flags } => {
                let (from, to) = ((from.0.0, from.1), (to.0.0, to.1));
                self.do_rename(by, from, to, flags).map(|()| None)
            }
            OnceOp::Setxattr { ino, name, value, how } => self.do_setxattr(by, ino.0, name, value, how).map(|()| None),
            OnceOp::Removexattr { ino, name } => self.do_removexattr(by, ino.0, name).map(|()| None),
        }
    }

    /// What is known of a request; one that is to be done is begun. Errors: `EIO`, servers died of it.
    fn before(&self, Request { unique, resent, seat }: Request, op: &'static str) -> Result<Before> {
        match resent.then(|| self.store.request_again(unique, seat)).flatten() {
            Some(Again::Done(ino)) => {
                let entry = ino.map(|ino| self.entry_again(ino)).transpose();
                let entry = entry.inspect_err(
                    |error| tracing::error!(%error, op, unique, "what became of a request cannot be told"),
                );
                entry.map(Before::Done)
            }
            Some(Again::Begun(lives)) if lives >= DEADLY && self.blames_requests => {
                tracing::error!(op, unique, "servers died of this request; answered EIO");
                Err(Errno::EIO.into())
            }
            _ => Ok(Before::Do(self.store.begin_request(unique, seat))),
        }
    }

    /// The entry that a reply named, as it is now.
    fn entry_again(&self, ino: u64) -> Result<Entry> {
        let _lock = self.locks.shared(ino);
        let inode = self.see(|view| live(view, ino))?;
        if inode.nlink.get() == 0 {
            // Made without a name: only its maker could have named it.
            self.lookups.set_linkable(ino, true);
        }
        Ok(Entry {
            attr: self.attr_of(ino, &inode),
        })
    }

    /// [`Volume::change`] for a request: the change and that it was done are one transaction. `f` tells the inode that the
    /// reply names, or 0; what it tells where it has changed nothing counts for nothing.
    pub(crate) fn change_once<T>(
        &self,
        by: For,
        mut f: impl FnMut(&mut Txn<'_>) -> Step<(u64, T)>,
    ) -> Result<(u64, T)> {
        self.change(|txn| {
            let (ino, done) = f(txn)?;
            txn.answers(by, ino);
            Ok((ino, done))
        })
    }

    /// The reply that names an inode: counts the lookup, and that it is counted (S-16.3). Called with the inode's or its parent's
    /// lock held.
    pub(crate) fn entry_once(&self, by: For, ino: u64, inode: &Inode) -> Entry {
        let entry = self.entry_of(ino, inode);
        self.store.request_raised(by);
        entry
    }
}
