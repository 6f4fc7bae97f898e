//! The threads of the flash home: one makes redo durable before its ring is full, one writes checkpoints that somebody wants.

use crate::error::Error;
use crate::{Flash, Store};
use keepfs_flash::wanted::Task;
use std::sync::Arc;

/// Starts the thread that makes redo durable. It ends when the store is closed or gone.
pub fn spawn_cutter(flash: &Flash, store: &Arc<Store>) -> Result<(), Error> {
    let cutter = flash.log.cutter.clone();
    let place = cutter.clone();
    let store = Arc::downgrade(store);
    let work = move || {
        while cutter.wait() {
            let Some(store) = store.upgrade() else { return };
            let done = store.sync();
            cutter.done();
            if let Err(error) = done {
                tracing::error!(%error, "redo could not be made durable in the background");
                return;
            }
        }
    };
    let spawned = std::thread::Builder::new().name("keepfs-log".into()).spawn(work);
    let thread = spawned.map_err(|e| Error::Logic(format!("cannot start a thread: {e}")))?;
    place.thread.put(thread);
    Ok(())
}

/// Starts the thread that writes checkpoints. It ends when the store is closed or gone.
pub fn spawn_checkpointer(flash: &Flash, store: &Arc<Store>) -> Result<(), Error> {
    let wanted = flash.checkpoints.wanted.clone();
    let place = wanted.clone();
    let store = Arc::downgrade(store);
    let work = move || {
        loop {
            let task = wanted.wait();
            let Some(store) = store.upgrade() else { return };
            let done = match task {
                Task::Stop => return,
                Task::Checkpoint => store.checkpoint().and_then(|()| store.discard_released()),
                Task::Durable => store.write_durable(),
            };
            if let Err(error) = done {
                tracing::error!(%error, "work in the background failed");
                wanted.done();
            }
        }
    };
    let spawned = std::thread::Builder::new().name("keepfs-checkpoint".into()).spawn(work);
    let thread = spawned.map_err(|e| Error::Logic(format!("cannot start a thread: {e}")))?;
    place.thread.put(thread);
    Ok(())
}
