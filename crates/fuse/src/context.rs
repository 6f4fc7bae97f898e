//! Which request this thread is working on.
//!
//! Whoever wraps the `Vfs` (the `keepfs` package knows both this floor and the store's) reads [`current_request`]
//! and hands the id to its transaction, so that a restarted server can tell a request it has already applied
//! (S-16.3). A thread works on one request at a time, so a thread-local is sound; work that a `Vfs`
//! hands to threads of its own must carry the value itself.

use std::cell::Cell;

/// The kernel's number of a request, unique within a connection; the same when the request is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Who asks, and for which request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The request, without the kernel's resend bit.
    pub request: RequestId,
    /// The request was read before by a server that died before it answered.
    pub resent: bool,
    /// File system user id of the caller.
    pub uid: u32,
    /// File system group id of the caller.
    pub gid: u32,
    /// Process id of the caller in our pid namespace; 0 if unknown.
    pub pid: u32,
    /// The parent directory's group, if the caller is a member by a supplementary group; known only for creations.
    pub group: Option<u32>,
}

thread_local! {
    static CURRENT: Cell<Option<Caller>> = const { Cell::new(None) };
}

/// The request this thread is working on, `None` outside of one.
pub fn current_request() -> Option<Caller> {
    CURRENT.get()
}

/// Marks this thread as working on a request until it is dropped.
pub(crate) struct Working(Option<Caller>);

impl Working {
    pub(crate) fn on(caller: Caller) -> Working {
        Working(CURRENT.replace(Some(caller)))
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}
