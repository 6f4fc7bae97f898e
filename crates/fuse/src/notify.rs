//! Telling the kernel to forget what it has cached, when somebody else than the kernel changed the pool.
//!
//! A notification can wait inside the kernel for locks that a process holds while it waits for one of our replies.
//! So they are sent by a thread of its own that holds nothing, and nobody waits for them.

use crate::protocol::reply::{NotifyInvalEntry, NotifyInvalInode, OutHeader};
use crate::protocol::{NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE};
use crate::transport::Transport;
use keepfs_vfs::{Ino, NAME_MAX};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use zerocopy::IntoBytes;

/// How many sweeps of [`Notifier::disbelieve`] are under way.
pub(crate) type Sweeps = Arc<AtomicU32>;

/// Sends invalidations; cheap to clone, usable from any thread, never blocks.
#[derive(Clone, Debug)]
pub struct Notifier {
    queue: Sender<Item>,
    sweeps: Sweeps,
}

/// The other end, to be run by a thread of its own.
pub(crate) struct Notifications {
    queue: Receiver<Item>,
    sweeps: Sweeps,
}

/// What is done in its turn.
#[derive(Debug)]
enum Item {
    Message(Vec<u8>),
    /// The kernel was told of all attributes of a sweep; who waits for that hears of it.
    AttributesTold(Sender<()>),
    /// The kernel was told of everything of a sweep.
    SweepEnds,
    Stop,
}

impl Notifier {
    pub(crate) fn new(sweeps: Sweeps) -> (Notifier, Notifications) {
        let (queue, items) = channel();
        let notifications = Notifications {
            queue: items,
            sweeps: sweeps.clone(),
        };
        (Notifier { queue, sweeps }, notifications)
    }

    /// Nothing that the kernel has cached of these inodes is right: the attributes of all go first, for which it waits for no
    /// reply, then their bytes. Until those of all are gone, who opens a file makes the kernel forget those of that file
    /// (S-16.20). The receiver hears when the attributes are gone.
    pub fn disbelieve(&self, inos: &[Ino]) -> Receiver<()> {
        let (told, attributes_told) = channel();
        self.sweeps.fetch_add(1, Ordering::AcqRel);
        for ino in inos {
            self.inval_inode(*ino, -1, 0);
        }
        self.put(Item::AttributesTold(told));
        for ino in inos {
            self.inval_inode(*ino, 0, 0);
        }
        self.put(Item::SweepEnds);
        attributes_told
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
        self.put(Item::Message(message));
    }

    fn put(&self, item: Item) {
        // After the end of the session there is no cache left to invalidate.
        let _ = self.queue.send(item);
    }
}

impl Notifications {
    /// Sends until every [`Notifier`] is gone or one asks to stop.
    pub(crate) fn run(self, transport: &dyn Transport) {
        for item in self.queue {
            match item {
                Item::Message(message) => tell(transport, &message),
                // Who does not wait any more has gone on without.
                Item::AttributesTold(told) => drop(told.send(())),
                Item::SweepEnds => drop(self.sweeps.fetch_sub(1, Ordering::AcqRel)),
                Item::Stop => return,
            }
        }
    }
}

fn tell(transport: &dyn Transport, message: &[u8]) {
    if let Err(error) = transport.notify(message) {
        // ENOENT: the kernel has nothing cached of it.
        if error.raw_os_error() != Some(libc::ENOENT) {
            tracing::debug!(%error, "a notification was not delivered");
        }
    }
}

impl Notifier {
    /// Ends the thread that sends.
    pub(crate) fn stop(&self) {
        self.put(Item::Stop);
    }
}
