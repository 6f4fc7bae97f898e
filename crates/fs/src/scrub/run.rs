//! The thread that scrubs a mounted volume.

use super::IDLE;
use crate::Volume;
use parking_lot::{Condvar, Mutex};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

#[derive(Default)]
struct Orders {
    wake: bool,
    stop: bool,
}

#[derive(Default)]
struct Signal {
    orders: Mutex<Orders>,
    changed: Condvar,
}

/// The thread, if there is one.
#[derive(Default)]
pub(crate) struct Scrubber {
    signal: Arc<Signal>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Scrubber {
    /// There is something to do at once.
    pub fn wake(&self) {
        self.signal.orders.lock().wake = true;
        self.signal.changed.notify_one();
    }

    /// Ends the thread and waits for it, unless this is it.
    pub fn stop(&self) {
        self.signal.orders.lock().stop = true;
        self.signal.changed.notify_one();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the thread that scrubs panicked");
        }
    }
}

impl Volume {
    /// Starts the thread. It holds no reference that would keep the volume alive.
    pub(crate) fn start_scrubber(self: &Arc<Self>) {
        self.scrub_take_up();
        let (volume, signal) = (Arc::downgrade(self), self.scrubber.signal.clone());
        let thread = std::thread::Builder::new()
            .name("keepfs-scrub".into())
            .spawn(move || run(&volume, &signal));
        match thread {
            Ok(thread) => *self.scrubber.thread.lock() = Some(thread),
            Err(error) => tracing::error!(%error, "no thread that scrubs; damage is found when somebody meets it"),
        }
    }
}

fn run(volume: &Weak<Volume>, signal: &Signal) {
    let mut due = Instant::now() + IDLE;
    loop {
        let mut orders = signal.orders.lock();
        while !orders.stop && !orders.wake && Instant::now() < due {
            signal.changed.wait_until(&mut orders, due);
        }
        if orders.stop {
            return;
        }
        orders.wake = false;
        drop(orders);
        let Some(volume) = volume.upgrade() else { return };
        due = Instant::now() + volume.scrub_turn();
    }
}
