//! The thread that writes checkpoints when somebody wants one.

use crate::Store;
use crate::error::Error;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

#[derive(Default)]
struct State {
    wanted: bool,
    stop: bool,
}

/// A wish for a checkpoint.
#[derive(Default)]
pub struct Wanted {
    state: Mutex<State>,
    changed: Condvar,
}

impl Wanted {
    /// Asks for a checkpoint.
    pub fn set(&self) {
        let mut state = self.state.lock();
        if !state.wanted {
            state.wanted = true;
            self.changed.notify_all();
        }
    }

    /// Whether one is asked for.
    pub fn is_set(&self) -> bool {
        self.state.lock().wanted
    }

    /// A checkpoint was written, or cannot be.
    pub fn done(&self) {
        self.state.lock().wanted = false;
    }

    /// No more checkpoints in the background.
    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
    }

    /// Waits for a wish; `false` when stopped.
    fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while !state.wanted && !state.stop {
            self.changed.wait(&mut state);
        }
        !state.stop
    }
}

/// Starts the thread. It ends when the store is closed or gone.
pub fn spawn(store: &Arc<Store>) -> Result<(), Error> {
    let wanted = store.wanted.clone();
    let store = Arc::downgrade(store);
    let work = move || {
        while wanted.wait() {
            let Some(store) = store.upgrade() else { return };
            if let Err(error) = store.checkpoint() {
                tracing::error!(%error, "a checkpoint failed");
                wanted.done();
            }
        }
    };
    let spawned = std::thread::Builder::new().name("keepfs-checkpoint".into()).spawn(work);
    spawned
        .map(drop)
        .map_err(|e| Error::Logic(format!("cannot start a thread: {e}")))
}
