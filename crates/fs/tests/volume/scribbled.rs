//! Stray writes into frames that were verified a moment ago: who reads them then gets no error that a repair avoids.

use super::*;
use keepfs_fs::Part;
use keepfs_vfs::{Direct, Errno, XattrHow};

/// Every word of an inode, of a directory's entries, of a block map and of attributes in turn, right behind a look at its frame
/// (decision 0780): nobody who comes upon a contradiction gets EIO for it, since the frame can be mended. S-15.19
#[test]
fn a_contradiction_is_looked_at_again() {
    let format = FormatOptions {
        test: true,
        ..FormatOptions::default()
    };
    let pool = Pool::made(8192, false, &format);
    let volume = &*pool.volume;
    let dir = make(volume, Ino(1), "dir", FileKind::Dir).expect("made");
    let file = make(volume, dir, "file", FileKind::File).expect("made");
    for page in (0..40).step_by(2) {
        write(volume, file, page * 4096, &[7; 4096]);
    }
    volume
        .setxattr(file, b"user.long", &[9; 600], XattrHow::default())
        .expect("set");
    volume.syncfs().expect("sync");
    let store = volume.store();
    let (mut tried, mut wrong) = (0, 0);
    for (ino, part, words) in [
        (file, Part::Inode, 32),
        (dir, Part::Inode, 32),
        (dir, Part::Dir, 12),
        (file, Part::Map, 40),
        (file, Part::Xattr, 12),
    ] {
        let (id, base) = volume.part_of(ino.0, part).expect("known").expect("there");
        for word in 0..words {
            let base = if base == 0 { 32 } else { base };
            let frame = store.structure(id, false).expect("verified").frame as usize;
            store.strays().xor_u64(frame * 4096 + base + 8 * word, u64::MAX);
            let mut list = 0;
            let done = [
                volume
                    .lookup(dir, b"file")
                    .map(|entry| volume.forget(entry.attr.ino, 1)),
                volume.getattr(file).map(drop),
                volume.getattr(dir).map(drop),
                volume.read(file, 8192, &mut [0; 4096]).map(drop),
                volume.getxattr(file, b"user.long").map(drop),
                volume.readdir(dir, 0, &mut |_| {
                    list += 1;
                    true
                }),
            ];
            tried += 1;
            wrong += usize::from(done.iter().any(Result::is_err));
            assert!(
                !done.contains(&Err(Errno::EIO)),
                "{id}, word {word} behind {base}: {done:?}"
            );
        }
        store.structure(id, false).expect("mended");
    }
    // The same for who changes something.
    for ino in [file, dir] {
        let (id, base) = volume.part_of(ino.0, Part::Inode).expect("known").expect("there");
        let frame = store.structure(id, false).expect("verified").frame as usize;
        store.strays().xor_u64(frame * 4096 + base, 1);
        match ino == dir {
            true => drop(make(volume, dir, "another", FileKind::File).expect("made")),
            false => write(volume, file, 8192, &[7; 100]),
        }
    }
    // What was damaged is metadata in memory, all of it mended: no data (S-18.5), and nothing is lost.
    let told = store.history().damage();
    assert!(
        !told.is_empty() && told.iter().all(|entry| entry.place == 1 && entry.done <= 3),
        "{told:?}"
    );
    println!("{tried} words, {wrong} of them told as something else");
    assert_eq!(read(volume, file, 8192, 4096), [7; 4096]);
    pool.finish();
}
