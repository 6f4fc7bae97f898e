//! Records are found while they move.

use super::*;
use std::sync::mpsc::sync_channel;

/// A mount that moves to its next keeper has a file at each moment, under ever new names, and is always found.
#[test]
fn a_mount_that_moves_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let name = |keeper: u32| folder.path().join(format!("{keeper}.json"));
    let record = Record {
        pid: 1,
        kept: true,
        pool: "/pool".into(),
        identities: Vec::new(),
        births: Default::default(),
        dir: "/dir".into(),
        device: "0:1".into(),
        since_ns: 1,
        options: Vec::new(),
    };
    fs::write(name(0), serde_json::to_vec(&record).unwrap()).unwrap();
    let (go, moves) = sync_channel(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // One move beside each look: keepers do not follow one another at once.
            for (keeper, ()) in (0..).zip(moves) {
                fs::hard_link(name(keeper), name(keeper + 1)).unwrap();
                fs::remove_file(name(keeper)).unwrap();
            }
        });
        for _ in 0..5000 {
            go.send(()).unwrap();
            assert!(!all_in(folder.path()).is_empty());
        }
        drop(go);
    });
}
