//! Requests that must not be executed twice, and what is known of them after a server died.
//!
//! The kernel sends what a dead server had read once more. Most requests may simply be executed again; those here may not:
//! the second mkdir finds the name of the first. Whoever keeps the file system's transactions remembers which of them were
//! done, and is asked before one is executed (S-16.17).

use crate::context::RequestId;
use crate::dispatch::{Dispatcher, Handled, Request};
use crate::protocol::Opcode;
use crate::protocol::request::CreateIn;
use crate::reply::ReplyBuf;
use keepfs_vfs::{Entry, Errno};

/// Who remembers requests over the death of a server.
pub trait Requests: Send + Sync {
    /// The calling thread begins `request`; the transaction it commits next is that request's.
    fn begin(&self, request: RequestId);

    /// What became of `request`, which the kernel has sent again. Errors: what the caller is told in its place.
    fn before(&self, request: RequestId) -> Result<Before, Errno>;
}

/// What became of a request before the server died.
#[derive(Clone, Debug)]
pub enum Before {
    /// Nothing: execute it.
    Nothing,
    /// It was executed; a reply that names an inode names this one, as it is now. Its lookup is counted.
    Done(Option<Entry>),
    /// Servers died of it.
    Deadly,
}

/// Whether a second execution of `op` does not give what the first gave. Reads, writes at an offset, truncation, syncs and
/// changes of attributes do.
pub(crate) fn is_once(op: Opcode) -> bool {
    matches!(
        op,
        Opcode::Mknod
            | Opcode::Mkdir
            | Opcode::Symlink
            | Opcode::Create
            | Opcode::Tmpfile
            | Opcode::Link
            | Opcode::Unlink
            | Opcode::Rmdir
            | Opcode::Rename
            | Opcode::Rename2
            | Opcode::Setxattr
            | Opcode::Removexattr
    )
}

impl Dispatcher {
    /// Asks about a request before it is executed; the outcome, if that shall not be.
    pub(crate) fn once(&self, op: Opcode, request: &Request<'_>, reply: &mut ReplyBuf) -> Option<Handled> {
        let requests = self.requests().filter(|_| is_once(op))?;
        let caller = request.caller();
        let before = match caller.resent {
            true => requests.before(caller.request),
            false => Ok(Before::Nothing),
        };
        match before {
            Ok(Before::Nothing) => {
                requests.begin(caller.request);
                None
            }
            Err(errno) => Some(Err(errno)),
            Ok(Before::Done(entry)) => Some(self.answer_again(op, request, entry, reply)),
            Ok(Before::Deadly) => {
                tracing::error!(
                    op = op.name(),
                    unique = caller.request.0,
                    "servers died of this request; answered EIO"
                );
                Some(Err(Errno::EIO))
            }
        }
    }

    /// The reply to a request that was executed before.
    fn answer_again(&self, op: Opcode, request: &Request<'_>, entry: Option<Entry>, reply: &mut ReplyBuf) -> Handled {
        let names_inode = matches!(
            op,
            Opcode::Mknod | Opcode::Mkdir | Opcode::Symlink | Opcode::Create | Opcode::Tmpfile | Opcode::Link
        );
        if !names_inode {
            return Ok(());
        }
        reply.push_struct(&self.entry_out(&entry.ok_or(Errno::EIO)?))?;
        match op {
            Opcode::Create | Opcode::Tmpfile => {
                reply.push_struct(&self.open_out(request.args_and_rest::<CreateIn>()?.0.flags))
            }
            _ => Ok(()),
        }
    }
}
