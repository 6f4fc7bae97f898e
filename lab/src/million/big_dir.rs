//! One directory of many entries: made, listed while another thread removes entries, looked up, emptied.

use super::memory::Sampler;
use super::order::Shuffled;
use super::{Failure, Pool, Start, new_inode, tell};
use keepfs_vfs::{Direct, Errno, FileKind, Ino, Vfs};
use std::sync::atomic::{AtomicBool, Ordering};

fn name(i: u64) -> String {
    format!("entry-{i:014}")
}

fn number(name: &[u8]) -> Option<usize> {
    core::str::from_utf8(name).ok()?.strip_prefix("entry-")?.parse().ok()
}

/// Entries that the remover takes away: every third.
fn goes(i: u64) -> bool {
    i % 3 == 1
}

/// Lists from cookie to cookie in small steps while every third entry is removed: each that stays comes exactly once,
/// each that goes at most once (cookies are stable).
fn list_beside_removals(pool: &Pool, dir: Ino, entries: u64, sampler: &Sampler) -> Result<(), Failure> {
    let volume = &pool.volume;
    let begun = AtomicBool::new(false);
    let mut seen = vec![0u8; entries as usize];
    let started = Start::now();
    std::thread::scope(|scope| -> Result<(), Failure> {
        let begun = &begun;
        let remover = scope.spawn(move || -> Result<(), Errno> {
            while !begun.load(Ordering::Acquire) {
                std::hint::spin_loop();
            }
            Shuffled::new(entries)
                .filter(|i| goes(*i))
                .try_for_each(|i| volume.unlink(dir, name(i).as_bytes()))
        });
        let mut cookie = 0;
        loop {
            let (mut count, before) = (0, cookie);
            volume.readdir(dir, cookie, &mut |entry| {
                cookie = entry.cookie;
                count += 1;
                if let Some(i) = number(entry.name) {
                    seen[i] += 1;
                }
                count < 97
            })?;
            begun.store(true, Ordering::Release);
            if cookie == before {
                break;
            }
        }
        tell("readdir beside removals", started, entries, sampler);
        remover.join().map_err(|_| "the remover panicked")??;
        Ok(())
    })?;
    tell("  with the removals", started, entries.div_ceil(3), sampler);
    let wrong = (0..entries).find(|i| {
        let times = seen[*i as usize];
        times > 1 || times == 0 && !goes(*i)
    });
    match wrong {
        Some(i) => Err(format!("readdir told entry {i} {} times", seen[i as usize]).into()),
        None => Ok(()),
    }
}

/// The whole life of a directory of `entries` entries.
pub fn run(pool: &Pool, entries: u64, sampler: &Sampler) -> Result<(), Failure> {
    let volume = &pool.volume;
    let dir = volume.mknod(Ino::ROOT, b"big", &new_inode(FileKind::Dir))?.attr.ino;
    let (mut started, mut from, mut stop) = (Start::now(), 0, 10_000);
    for (made, i) in (1..).zip(Shuffled::new(entries)) {
        let entry = volume.mknod(dir, name(i).as_bytes(), &new_inode(FileKind::File))?;
        volume.forget(entry.attr.ino, 1);
        if made == stop || made == entries {
            tell(
                &format!("big directory, create to {made}"),
                started,
                made - from,
                sampler,
            );
            (started, from) = (Start::now(), made);
            stop = if made < 100_000 { 100_000 } else { made + 300_000 };
        }
    }
    let started = Start::now();
    let looks = entries.min(100_000);
    for i in Shuffled::new(entries)
        .skip(1)
        .step_by((entries / looks).max(1) as usize)
    {
        let entry = volume.lookup(dir, name(i).as_bytes())?;
        volume.forget(entry.attr.ino, 1);
    }
    tell("big directory, lookup", started, looks, sampler);
    list_beside_removals(pool, dir, entries, sampler)?;
    let started = Start::now();
    let mut removed = 0;
    for i in Shuffled::new(entries).filter(|i| !goes(*i)) {
        volume.unlink(dir, name(i).as_bytes())?;
        removed += 1;
    }
    tell("big directory, unlink", started, removed, sampler);
    volume.forget(dir, 1);
    volume.rmdir(Ino::ROOT, b"big")?;
    Ok(())
}
