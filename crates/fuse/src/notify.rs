//! Telling the kernel to forget what it has cached, when somebody else than the kernel changed the pool.
//!
//! A notification can wait inside the kernel for locks that a process holds while it waits for one of our replies.
//! So they are sent by a thread of its own that holds nothing, and nobody waits for them (PROTOCOLS section 8).

use crate::protocol::reply::{NotifyInvalEntry, NotifyInvalInode, OutHeader};
use crate::protocol::{NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE};
use crate::transport::Transport;
use keepfs_vfs::{Ino, NAME_MAX};
use std::sync::mpsc::{Receiver, Sender, channel};
use zerocopy::IntoBytes;

/// Sends invalidations; cheap to clone, usable from any thread, never blocks.
#[derive(Clone, Debug)]
pub struct Notifier {
    queue: Sender<Vec<u8>>,
}

/// The other end, to be run by a thread of its own.
pub(crate) struct Notifications {
    queue: Receiver<Vec<u8>>,
}

impl Notifier {
    pub(crate) fn new() -> (Notifier, Notifications) {
        let (sender, receiver) = channel();
        (Notifier { queue: sender }, Notifications { queue: receiver })
    }

    /// The attributes of `ino` changed, and its bytes from `offset` on for `len` bytes (0: to the end); a negative
    /// `offset` keeps all cached bytes.
    pub fn inval_inode(&self, ino: Ino, offset: i64, len: i64) {
        self.send(
            NOTIFY_INVAL_INODE,
            NotifyInvalInode {
                ino: ino.0,
                off: offset,
                len,
            }
            .as_bytes(),
            &[],
        );
    }

    /// The entry `name` of `parent` appeared, changed or vanished.
    pub fn inval_entry(&self, parent: Ino, name: &[u8]) {
        if name.len() > NAME_MAX {
            return;
        }
        let head = NotifyInvalEntry {
            parent: parent.0,
            namelen: name.len() as u32,
            flags: 0,
        };
        let mut tail = name.to_vec();
        tail.push(0);
        self.send(NOTIFY_INVAL_ENTRY, head.as_bytes(), &tail);
    }

    fn send(&self, code: i32, body: &[u8], tail: &[u8]) {
        let len = size_of::<OutHeader>() + body.len() + tail.len();
        let mut message = OutHeader {
            len: len as u32,
            error: code,
            unique: 0,
        }
        .as_bytes()
        .to_vec();
        message.extend_from_slice(body);
        message.extend_from_slice(tail);
        // After the end of the session there is no cache left to invalidate.
        let _ = self.queue.send(message);
    }
}

impl Notifications {
    /// Sends until every [`Notifier`] is gone or an empty message asks to stop.
    pub(crate) fn run(self, transport: &dyn Transport) {
        for message in self.queue {
            if message.is_empty() {
                return;
            }
            if let Err(error) = transport.notify(&message) {
                // ENOENT: the kernel has nothing cached of it.
                if error.raw_os_error() != Some(libc::ENOENT) {
                    tracing::debug!(%error, "a notification was not delivered");
                }
            }
        }
    }
}

impl Notifier {
    /// Ends the thread that sends.
    pub(crate) fn stop(&self) {
        let _ = self.queue.send(Vec::new());
    }
}
