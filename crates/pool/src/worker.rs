//! A thread of the background that is waited for when it is ended: it holds the device, and whoever closed the pool may open it
//! again at once.

use keepfs_vault::locks::Mutex;
use std::thread::{self, JoinHandle};

/// The thread, if there is one.
#[derive(Default)]
pub struct Worker(Mutex<Option<JoinHandle<()>>>);

impl Worker {
    /// This is it.
    pub fn put(&self, thread: JoinHandle<()>) {
        *self.0.lock() = Some(thread);
    }

    /// Whether one was put here and not waited for.
    pub fn is_there(&self) -> bool {
        self.0.lock().is_some()
    }

    /// Waits for its end, unless this thread is it. It must have been told to end.
    pub fn join(&self) {
        let thread = self.0.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != thread::current().id()
        {
            let name = thread.thread().name().unwrap_or("?").to_owned();
            if thread.join().is_err() {
                tracing::error!(name, "a thread of the background panicked");
            }
        }
    }
}
