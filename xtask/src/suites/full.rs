//! Many writers on pools of all degrees of fullness, and space that comes and goes (S-11.3, C-7): no page is given to two writers, no
//! call fails but for space, whatever checkpoints, zones and dying servers do meanwhile.

mod crowd;
mod writer;

use std::fs::{self, File};
use std::io::Result as Io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{FallocateFlags, fallocate};

use super::{Bench, Place};
use crate::install;
use crowd::{Fullness, Seen, WRITERS};
use writer::other;

/// What each pool of a crowd has against stray writes.
const CODES: [&str; 5] = ["pcrc", "pq", "evenodd64", "evenodd256", "crc"];
/// Sizes of those pools, pages.
const PAGES: [u64; 3] = [2_000, 7_000, 20_000];
/// How much of the room is taken before, percent.
const TAKEN: [u64; 4] = [0, 50, 95, 100];
/// Calls of each writer; where there is a pool of each size and fullness for each code.
const CALLS: u64 = 600;
const CALLS_OF_ALL: u64 = 240;

/// The pool where space comes and goes: its size, and what is taken and given back there.
const WIDE_MIB: u64 = 6 << 10;
const LARGE: u64 = 1 << 30;
const TAKES: usize = 60;
/// Bytes of a file that is copied in beside that.
const COPY: usize = 48 << 20;

/// Space that comes and goes, then a crowd at each code, on a pool of another size and fullness in each run: those that are next at
/// this hour. So runs of a day meet all of them.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::mount()?;
    let (takes, copies) = come_and_go(bench)?;
    let hours = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_err(|e| e.to_string())?;
    let first = hours.as_secs() / 3600 * CODES.len() as u64;
    let crowds = CODES
        .into_iter()
        .zip(first..)
        .map(|(code, number)| (code, fullness(number)));
    let seen = crowds_of(bench, crowds, CALLS)?;
    Ok(format!(
        "full: {takes} GiB taken and given back beside {copies} files copied in; {seen}"
    ))
}

/// A crowd at each code on pools of each size and fullness.
pub fn long(bench: &Bench) -> Result<String, String> {
    install::mount()?;
    let all = (0..pools()).flat_map(|number| CODES.map(|code| (code, fullness(number))));
    Ok(format!("full_long: {}", crowds_of(bench, all, CALLS_OF_ALL)?))
}

/// How many pools there are for each code.
fn pools() -> u64 {
    (PAGES.len() * TAKEN.len()) as u64
}

/// The size and fullness of this number, around. Those in a row have every size.
fn fullness(number: u64) -> Fullness {
    let at = |among: &[u64], number: u64| among[(number % among.len() as u64) as usize];
    Fullness {
        pages: at(&PAGES, number),
        taken: at(&TAKEN, number),
    }
}

/// Crowds, one after the other.
fn crowds_of(
    bench: &Bench,
    crowds: impl Iterator<Item = (&'static str, Fullness)>,
    calls: u64,
) -> Result<String, String> {
    let (mut count, mut sum) = (0, Seen::default());
    for (code, fullness) in crowds {
        let seen = crowd::run(bench, code, fullness, calls).map_err(|e| format!("{code}, {fullness}: {e}"))?;
        println!("{code}, {fullness}: {seen}");
        sum.add(&seen);
        count += 1;
    }
    Ok(format!(
        "{count} pools, each with {WRITERS} writers: {sum}, nothing lost"
    ))
}

/// Two take and give back a GiB each, two copy files in and compare them. How often; how many files.
fn come_and_go(bench: &Bench) -> Result<(usize, usize), String> {
    let place = bench.place("wide", WIDE_MIB, &[])?;
    let (over, copies) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed = AtomicBool::new(false);
    let dir = place.dir();
    let taker = |me: usize| -> Io<()> {
        let path = dir.join(format!("taken{me}"));
        for _ in 0..TAKES / 2 {
            if failed.load(Ordering::Relaxed) {
                break;
            }
            fallocate(File::create(&path)?, FallocateFlags::empty(), 0, LARGE)?;
            fs::remove_file(&path)?;
        }
        Ok(())
    };
    let copier = |me: usize| -> Io<()> {
        let mut round = 0;
        while over.load(Ordering::Acquire) < 2 && !failed.load(Ordering::Relaxed) {
            let path = dir.join(format!("copied{me}-{}", round % 3));
            let bytes = vec![(me * 100 + round % 100) as u8 + 1; COPY];
            fs::write(&path, &bytes)?;
            if fs::read(&path)? != bytes {
                return Err(other(format!("{}: other bytes came back", path.display())));
            }
            round += 1;
            copies.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let noted = |end: Io<()>| {
        failed.fetch_or(end.is_err(), Ordering::Relaxed);
        end
    };
    let ends = thread::scope(|scope| {
        let (taker, copier, over, noted) = (&taker, &copier, &over, &noted);
        let takers = (0..2).map(|me| {
            scope.spawn(move || {
                let end = noted(taker(me));
                over.fetch_add(1, Ordering::Release);
                end
            })
        });
        let takers: Vec<_> = takers.collect();
        let copiers: Vec<_> = (0..2).map(|me| scope.spawn(move || noted(copier(me)))).collect();
        let all = takers.into_iter().chain(copiers);
        all.map(|thread| thread.join().unwrap_or_else(|_| Err(other("a writer panicked"))))
            .collect::<Io<Vec<()>>>()
    });
    ends.map_err(|e| format!("space that comes and goes: {e}"))?;
    close(place)?;
    Ok((TAKES, copies.into_inner()))
}

/// Nothing is told as damaged, and the check of everything finds nothing.
fn close(place: Place) -> Result<(), String> {
    match place {
        Place::Pool(mut pool) => {
            pool.ask(&["damage", "list"], &[])?;
            pool.unmount()?;
            pool.check_with(&["--data"])
        }
        Place::Dir(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
