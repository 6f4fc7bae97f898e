//! What a server says of a pool that was shut down, and of one that is being unmounted.

use super::Live;
use crate::cli::logging::Ring;
use crate::cli::options::MountOptions;
use crate::cli::registry::Record;
use keepfs::{CreateOptions, OpenOptions, Pool};
use keepfs_vfs::Vfs;
use std::sync::Arc;

fn live(pool: &Pool) -> Live {
    Live {
        record: Record {
            pid: 1,
            pool: pool.path().to_owned(),
            dir: "/nowhere".into(),
            device: "0:0".into(),
            since_ns: 0,
        },
        options: MountOptions::default(),
        anchored: false,
        ring: Ring::default(),
        volume: Arc::downgrade(pool.volume()),
    }
}

fn pool(dir: &tempfile::TempDir) -> Pool {
    let path = dir.path().join("pool");
    let options = CreateOptions {
        size: Some(64 << 20),
        ..CreateOptions::default()
    };
    Pool::create(&path, &options).expect("a pool");
    Pool::open(&path, &OpenOptions::default()).expect("an open pool")
}

#[test]
fn a_pool_that_was_shut_down_is_faulted() {
    let dir = tempfile::tempdir().expect("a directory");
    let pool = pool(&dir);
    let live = live(&pool);
    assert_eq!(live.status().state, "ONLINE");
    pool.volume().shutdown(false).expect("shut down");
    let status = live.status();
    assert_eq!(status.state, "FAULTED");
    assert!(status.status.is_some_and(|text| text.contains("shut down")));
    assert_eq!(status.errors.len(), 1);
}

#[test]
fn a_pool_that_is_closed_is_offline() {
    let dir = tempfile::tempdir().expect("a directory");
    let pool = pool(&dir);
    let live = live(&pool);
    pool.close().expect("closed");
    let status = live.status();
    assert_eq!(status.state, "OFFLINE");
    assert!(status.status.is_some_and(|text| text.contains("being unmounted")));
}
