//! The witness of a frame is read while its log moves on (S-15.16).

use super::*;
use keepfs_media::DeviceError;
use keepfs_media::hook::{Hooked, Hooks};
use std::sync::Weak;

/// Checkpoints while the log is read.
#[derive(Default)]
struct AtReads {
    left: Mutex<u32>,
    store: Mutex<Weak<Store>>,
}

impl Hooks for AtReads {
    fn before_read(&self, at: PageNo, _: usize) -> Result<(), DeviceError> {
        let Some(store) = self.store.lock().upgrade() else {
            return Ok(());
        };
        let log = &store.pool().log;
        if !(log.start..log.start + log.pages).contains(&at.0) {
            return Ok(());
        }
        // Not for the reads of the checkpoint itself.
        let left = core::mem::take(&mut *self.left.lock());
        if left > 0 {
            store.checkpoint().expect("checkpoint");
            *self.left.lock() = left - 1;
        }
        Ok(())
    }
}

/// A keyed sum is hit, and checkpoints come while the witness is read: it is read again, and nothing is fenced.
#[test]
fn a_witness_that_moves_on_is_asked_again() {
    let device = Arc::new(Hooked::new(RamDevice::new(4096), AtReads::default()));
    let (store, nodes) = filled(device.clone(), Protection::Pcrc, Rungs::ALL);
    *device.hooks.store.lock() = Arc::downgrade(&store);
    for checkpoints in 1..=4 {
        for (r, meaning) in &nodes {
            let put =
                store.transact::<_, Error>(|t| t.put(*r, 64, &[checkpoints as u8; 9], *meaning).map_err(Into::into));
            put.expect("changed");
            store.sync().expect("sync");
            let pin = store.fetch(r.id).expect("pin");
            store.arena.damage_keyed(pin.frame, 1 << 17);
            *device.hooks.left.lock() = checkpoints;
            let mut copy = [0; PAGE];
            store.verified_copy(&pin, &mut copy).expect("mended");
            assert_eq!(*device.hooks.left.lock(), 0, "checkpoints came");
        }
    }
    assert_eq!(store.fenced(), 0);
}
