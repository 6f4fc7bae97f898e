//! Somebody who syncs all the time, so that groups become durable and redo is given up while others meet damage.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Files that take turns.
const FILES: u64 = 64;
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(3);

/// Writes and syncs one small file after another until it is `over`. What fails is told by those who look at the mount.
pub fn sync_often(mount: &Path, over: &AtomicBool) {
    let dir = mount.join("often");
    let _ = fs::create_dir(&dir);
    for n in 0u64.. {
        if over.load(Ordering::Acquire) {
            return;
        }
        let path = dir.join((n % FILES).to_string());
        let _ = fs::remove_file(&path);
        let _ = File::create(&path).and_then(|mut file| {
            file.write_all(&n.to_le_bytes())?;
            file.sync_all()
        });
        std::thread::park_timeout(PAUSE);
    }
}
