//! What nobody waits for.

use super::*;
use keepfs_media::ram::RamDevice;
use std::sync::mpsc;

/// S-16.14, H-5: neither the list nor the device keeps who syncs all.
#[test]
fn whether_answered_changes_are_lost_waits_for_nothing() {
    let device = Arc::new(Switch::new(Arc::new(RamDevice::new(16))));
    let history = Arc::new(History::new(device, PoolId::default(), None));
    assert!(!history.tells_of_answered());
    let (sender, told) = mpsc::channel();
    let _writing = history.region.lock();
    let _listing = history.state.lock();
    let asker = history.clone();
    std::thread::spawn(move || sender.send(asker.tells_of_answered()));
    assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok(false));
}
