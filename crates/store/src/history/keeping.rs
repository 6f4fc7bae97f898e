//! When the history is written: soon after it was changed, by a thread of its own, and when the pool is made durable.

use super::region::Failed;
use crate::Store;
use crate::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Least time between two writes of the thread: damage that comes in swarms is written together.
const PAUSE: Duration = Duration::from_millis(250);

impl super::History {
    /// Waits until something is to be written; `false` when the thread shall end.
    fn wait(&self, last: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return false;
            }
            let due = last.map(|last| last + PAUSE).filter(|due| *due > Instant::now());
            match (state.version != state.kept, due) {
                (true, None) => return true,
                (true, Some(due)) => {
                    self.changed.wait_until(&mut state, due);
                }
                (false, _) => self.changed.wait(&mut state),
            }
        }
    }

    /// Waits until the history is another one than at version `seen` (at first 0, which is before anything was told); returns which it is
    /// then. `None`: the pool is closed.
    pub fn wait_for_change(&self, seen: u64) -> Option<u64> {
        let mut state = self.state.lock();
        while !state.stop && state.version == seen {
            self.changed.wait(&mut state);
        }
        (!state.stop).then_some(state.version)
    }

    /// Ends the thread and waits for it, unless this is it: whoever closed the pool may open it again at once.
    pub(crate) fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
        self.thread.join();
    }
}

impl Store {
    /// The pool's history.
    pub fn history(&self) -> &Arc<super::History> {
        &self.watch.events.history
    }

    /// Writes what the history has not on the device yet; nothing happens on a pool that is read only. An error goes to
    /// the log of the server, never into the history (H-2).
    pub fn keep_history(&self) {
        if self.life.is_read_only() || self.device.is_off() {
            return;
        }
        self.write_history();
    }

    pub(crate) fn write_history(&self) {
        match self.watch.events.history.keep() {
            Ok(()) => {}
            Err(Failed::Write(error)) => tracing::warn!(%error, "the history of the pool cannot be written"),
            // A flush that fails is told once, to whoever flushed: others must hear of it.
            Err(Failed::Flush(error)) => {
                self.fail(error.into());
            }
        }
    }
}

/// Starts the thread. It ends when the store is closed or gone.
pub fn spawn(store: &Arc<Store>) -> Result<(), Error> {
    let history = store.watch.events.history.clone();
    let place = history.clone();
    let store = Arc::downgrade(store);
    let work = move || {
        let mut last = None;
        while history.wait(last) {
            let Some(store) = store.upgrade() else { return };
            store.keep_history();
            last = Some(Instant::now());
        }
    };
    let spawned = std::thread::Builder::new().name("keepfs-history".into()).spawn(work);
    let thread = spawned.map_err(|e| Error::Logic(format!("cannot start a thread: {e}")))?;
    place.thread.put(thread);
    Ok(())
}
