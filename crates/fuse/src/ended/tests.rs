//! The end waits for every thread, comes once, and is seen by all.

use super::*;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::thread;

#[test]
fn the_first_end_decides() {
    let ended = Ended::default();
    assert_eq!(*ended.hold_off(), None);
    assert_eq!(ended.come(|| Err(Errno::EIO)), Err(Errno::EIO));
    assert_eq!(ended.come(|| Ok(())), Err(Errno::EIO));
    assert_eq!(*ended.hold_off(), Some(Err(Errno::EIO)));
}

#[test]
fn the_end_waits_for_requests_of_every_group() {
    let ended = Ended::default();
    let running = AtomicU32::new(0);
    thread::scope(|scope| {
        let (begun, all_begun) = channel();
        let mut levers = Vec::new();
        for _ in 0..GROUPS {
            let (lever, go) = channel::<()>();
            levers.push(lever);
            let (begun, ended, running) = (begun.clone(), &ended, &running);
            scope.spawn(move || {
                let held = ended.hold_off();
                running.fetch_add(1, Ordering::SeqCst);
                begun.send(()).unwrap();
                // Until the lever is dropped.
                let _ = go.recv();
                running.fetch_sub(1, Ordering::SeqCst);
                drop(held);
            });
        }
        (0..GROUPS).for_each(|_| all_begun.recv().unwrap());
        let end =
            scope.spawn(|| ended.come(|| (running.load(Ordering::SeqCst) == 0).then_some(()).ok_or(Errno::EBUSY)));
        levers.into_iter().for_each(drop);
        assert_eq!(end.join().unwrap(), Ok(()));
    });
}
