//! The witness of a frame is read while its log moves on (S-15.16).

use super::*;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering;
use keepfs_format::MetaId;
use keepfs_media::{Access, DeviceError};
use keepfs_pool::options::Rungs;
use keepfs_testkit::hook::{Hooked, Hooks};
use std::sync::Weak;

/// What comes while the log is read.
#[derive(Default)]
struct AtReads {
    /// So many checkpoints, at a read each.
    checkpoints: Mutex<u32>,
    /// Somebody else mends this metablock, and then the log does not read.
    other: Mutex<Option<MetaId>>,
    refuses: AtomicBool,
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
        let left = core::mem::take(&mut *self.checkpoints.lock());
        if left > 0 {
            store.checkpoint().expect("checkpoint");
            *self.checkpoints.lock() = left - 1;
        }
        let other = self.other.lock().take();
        if let Some(id) = other {
            let pin = store.fetch(id).expect("pin");
            store.verified_copy(&pin, &mut [0; PAGE]).expect("mended");
            self.refuses.store(true, Ordering::Relaxed);
        }
        match self.refuses.load(Ordering::Relaxed) {
            true => Err(DeviceError::Io {
                what: Access::Read,
                page: at,
                device: "a log that does not read".into(),
                source: std::io::ErrorKind::InvalidData.into(),
            }),
            false => Ok(()),
        }
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
            store.frames.arena.damage_keyed(pin.frame, 1 << 17);
            *device.hooks.checkpoints.lock() = checkpoints;
            let mut copy = [0; PAGE];
            store.verified_copy(&pin, &mut copy).expect("mended");
            assert_eq!(*device.hooks.checkpoints.lock(), 0, "checkpoints came");
        }
    }
    assert_eq!(store.fenced(), 0);
}

/// Two meet the same damage, and one mends it: the other, whom the witness tells nothing any more, does not fence what is
/// right. P-4
#[test]
fn what_another_reader_has_mended_is_not_given_up() {
    let device = Arc::new(Hooked::new(RamDevice::new(4096), AtReads::default()));
    let (store, nodes) = filled(device.clone(), Protection::Pcrc, Rungs::ALL);
    *device.hooks.store.lock() = Arc::downgrade(&store);
    store.sync().expect("sync");
    let binding = store.binding(nodes[1].0);
    let pin = store.fetch(nodes[1].0.id).expect("pin");
    let right = keepfs_codes::line::LINE;
    for is_whole in [true, false] {
        device.hooks.refuses.store(false, Ordering::Relaxed);
        // Beyond the code: two words of one column.
        for at in [right, right + 64] {
            store.frames.arena.stray(pin.frame, at, &[0xA5; 8]);
        }
        *device.hooks.other.lock() = Some(nodes[1].0.id);
        match is_whole {
            true => store.verified_copy(&pin, &mut [0; PAGE]).expect("mended"),
            false => store.read(&pin, binding, right, &mut [0; 8]).expect("mended"),
        }
        assert!(device.hooks.refuses.load(Ordering::Relaxed), "the other came");
    }
    assert_eq!(store.fenced(), 0);
}
