//! Two pools of one id never have it at one time, whoever comes and goes.

use super::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, Ordering};

fn user(name: &str) -> User {
    User {
        pool: PathBuf::from("/").join(name),
        identities: vec![name.to_owned()],
        dir: "/mnt".into(),
    }
}

fn ours(folder: &Path, user: &User) -> Option<File> {
    match claim_in(folder, "id", user).unwrap() {
        Claimed::Ours(file) => Some(file),
        Claimed::Anothers(_) => None,
    }
}

#[test]
fn an_id_is_one_pools() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (user("one"), user("other"));
    let first = ours(folder.path(), &one).unwrap();
    let second = ours(folder.path(), &one).unwrap();
    assert!(ours(folder.path(), &other).is_none());
    drop(first);
    assert!(ours(folder.path(), &other).is_none());
    // As its server's death leaves it.
    drop(second);
    let third = ours(folder.path(), &other).unwrap();
    assert!(ours(folder.path(), &one).is_none());
    drop(third);
    fs::write(folder.path().join("id.pool"), "{").unwrap();
    assert!(ours(folder.path(), &one).is_some());
}

/// The number of those that have the id for one pool, negative for the other.
#[test]
fn a_race_has_one_winner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("id.pool");
    let have = AtomicI32::new(0);
    let start = Barrier::new(4);
    let had: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = [(1, "one"), (1, "one"), (-1, "other"), (-1, "other")]
            .into_iter()
            .map(|(sign, name)| {
                let (folder, path, have, start) = (folder.path(), &path, &have, &start);
                scope.spawn(move || {
                    let mut had = 0;
                    for _ in 0..500 {
                        start.wait();
                        let Some(file) = ours(folder, &user(name)) else {
                            continue;
                        };
                        let before = have.fetch_add(sign, Ordering::SeqCst);
                        assert!(before * sign >= 0, "both pools have the id");
                        had += 1;
                        have.fetch_sub(sign, Ordering::SeqCst);
                        if is_locked(&file, FlockOperation::NonBlockingLockExclusive).unwrap() {
                            fs::remove_file(path).unwrap();
                        }
                    }
                    had
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(had.iter().sum::<u32>() > 0);
}
