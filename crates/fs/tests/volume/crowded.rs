//! Many writers on a nearly full pool of small zones: no page is handed out twice (S-11.3), no call fails but for space (S-11.4).

use super::*;
use keepfs_vfs::{Errno, FallocMode};

/// Threads, and what each does.
const THREADS: u64 = 8;
const ROUNDS: u64 = 250;
const PAGE: usize = 4096;

/// A file of one thread: its name, its length, and the byte that fills it.
type Own = (String, usize, u8);

/// A result but for the lack of space.
fn unless_full<T>(what: &str, result: Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Errno::ENOSPC) => None,
        Err(other) => panic!("{what}: {other}"),
    }
}

fn holds(vfs: &dyn Vfs, (name, len, byte): &Own) {
    let ino = find(vfs, Ino::ROOT, name).expect("find");
    let bytes = read(vfs, ino, 0, len + 1);
    assert!(
        bytes == vec![*byte; *len],
        "{name} has other bytes than its writer gave it"
    );
}

/// Three files at a time: written whole, read, sometimes removed; and space that is taken and given back without data.
fn crowd(vfs: &dyn Vfs, me: u64) -> Vec<Own> {
    let mut own: Vec<Own> = Vec::new();
    for round in 0..ROUNDS {
        let name = format!("t{me}-{}", round % 3);
        if let Some(at) = own.iter().position(|(other, ..)| *other == name) {
            holds(vfs, &own.swap_remove(at));
            vfs.unlink(Ino::ROOT, name.as_bytes()).expect("unlink");
        }
        let Some(ino) = unless_full("create", make(vfs, Ino::ROOT, &name, FileKind::File)) else {
            continue;
        };
        let (pages, byte) = (1 + (round * 7 + me) % 40, (me * 16 + round % 13) as u8 + 1);
        let data = vec![byte; pages as usize * PAGE];
        let written = match round % 5 {
            0 => {
                unless_full(
                    "fallocate",
                    vfs.fallocate(ino, FallocMode::Allocate, 0, 4 * data.len() as u64),
                );
                None
            }
            _ => unless_full("write", vfs.write(ino, 0, &data, WriteHow::default())),
        };
        match written {
            Some(len) => own.push((name, len, byte)),
            None => vfs.unlink(Ino::ROOT, name.as_bytes()).expect("unlink"),
        }
        own.last().into_iter().for_each(|last| holds(vfs, last));
        if round % 9 == 0 {
            unless_full("sync", vfs.syncfs());
        }
    }
    own
}

fn crowded(zone: u64, filled: usize) {
    let format = FormatOptions {
        zone_pages: Some(zone),
        log_pages: Some(64),
        meta_copies: 1,
        ..FormatOptions::default()
    };
    let pool = Pool::made(2048, true, &format);
    let vfs: &dyn Vfs = &*pool.volume;
    let filler = make(vfs, Ino::ROOT, "filler", FileKind::File).expect("filler");
    (0..filled).for_each(|page| write(vfs, filler, (page * PAGE) as u64, &[7; PAGE]));
    vfs.syncfs().expect("sync");
    let (own, died): (Vec<_>, Vec<_>) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|me| scope.spawn(move || crowd(vfs, me))).collect();
        let lived = threads.into_iter().map(|thread| thread.join());
        lived.partition(|lived| lived.is_ok())
    });
    let own: Vec<Own> = own.into_iter().flatten().flatten().collect();
    let store = pool.volume.store();
    let told: Vec<_> = store.history().events(0).into_iter().map(|event| event.text).collect();
    assert!(died.is_empty(), "{:?}, told: {told:?}", store.fault());
    assert!(told.is_empty(), "{told:?}");
    own.iter().for_each(|own| holds(vfs, own));
    holds(vfs, &("filler".into(), filled * PAGE, 7));
    pool.finish();
}

#[test]
fn writers_share_the_last_pages_of_tiny_zones() {
    crowded(16, 900);
}

#[test]
fn writers_share_the_last_pages_of_small_zones() {
    crowded(64, 1000);
}

#[test]
fn writers_share_the_last_pages_of_zones_as_they_are_made() {
    crowded(256, 600);
}
