//! Many threads at once on an anchored mount, with the caches dropped under them: every byte and name is right in the end.

use super::support::{Mount, possible};
use crate::caches::caches;
use keepfs_fuse::anchor::LoopAnchor;
use keepfs_fuse::{CacheMode, MountConfig};
use keepfs_testkit::model::Model;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const THREADS: u64 = 6;
const ROUNDS: u64 = 300;

/// What one thread does in a directory of its own; returns what must be there in the end.
fn work(dir: &Path, thread: u64) -> BTreeMap<String, Vec<u8>> {
    let mut state = thread.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut expected: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    fs::create_dir(dir).unwrap();
    for round in 0..ROUNDS {
        let name = format!("f{}", random(12));
        let path = dir.join(&name);
        match random(6) {
            0 => {
                let gone = fs::remove_file(&path).is_ok();
                assert_eq!(gone, expected.remove(&name).is_some());
            }
            1 => {
                let to = format!("f{}", random(12));
                let moved = fs::rename(&path, dir.join(&to)).is_ok();
                let data = expected.remove(&name);
                assert_eq!(moved, data.is_some());
                data.map(|data| expected.insert(to, data));
            }
            2 => {
                let found = fs::read(&path).ok();
                assert_eq!(found.as_ref(), expected.get(&name), "thread {thread} round {round}");
            }
            3 => {
                let listed = fs::read_dir(dir).unwrap().count();
                assert_eq!(listed, expected.len());
            }
            _ => {
                let (at, len) = (random(300_000), random(200_000) + 1);
                let bytes = vec![round as u8; len as usize];
                let file = OpenOptions::new()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .open(&path)
                    .unwrap();
                file.write_all_at(&bytes, at).unwrap();
                if random(4) == 0 {
                    file.sync_all().unwrap();
                }
                let data = expected.entry(name).or_default();
                data.resize(data.len().max((at + len) as usize), 0);
                data[at as usize..(at + len) as usize].copy_from_slice(&bytes);
            }
        }
        if thread == 0 && round % 50 == 0 {
            fs::write("/proc/sys/vm/drop_caches", b"3").unwrap();
        }
    }
    expected
}

#[test]
fn every_cache_mode_survives_many_threads() {
    if !possible() {
        return;
    }
    let _held = caches();
    for cache in [CacheMode::Writethrough, CacheMode::Writeback, CacheMode::Direct] {
        let anchor = LoopAnchor::attach("keepfs test").unwrap();
        let config = MountConfig {
            cache,
            anchor: Some(anchor.path().to_owned()),
            ..MountConfig::default()
        };
        let Some(m) = Mount::with(Arc::new(Model::default()), config) else {
            return;
        };
        drop(anchor);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let dir = m.path(format!("d{thread}"));
                    scope.spawn(move || (work(&dir, thread), dir))
                })
                .collect();
            for thread in threads {
                let (expected, dir) = thread.join().unwrap();
                for (name, data) in expected {
                    assert!(fs::read(dir.join(&name)).unwrap() == data, "{cache:?}: {name} differs");
                }
            }
        });
        m.unmount().unwrap();
    }
}
