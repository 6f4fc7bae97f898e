//! Many writers on a pool that is nearly full, or whose space comes and goes (S-11.3, C-7): no page is given to two of them, no
//! call fails but for space, whatever else checkpoints, zones and dying servers do meanwhile.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Result as Io};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use rustix::fs::{FallocateFlags, fallocate};

use super::pool::Pool;
use super::sample::Random;
use super::{Bench, Place};
use crate::install;

/// Writers of the crowd, and files of each.
const WRITERS: u64 = 16;
const FILES: u64 = 4;
/// Calls of a writer, and after how many of them one asks for a death of the server.
const CALLS: u64 = 800;
const CALLS_A_DEATH: u64 = 150;
/// Most pages of a file of the crowd.
const PAGES: u64 = 48;
/// Pools of the crowd: their size, and how much of it is taken before.
const MIB: u64 = 64;
const TAKEN: u64 = 51 << 20;
const PAGE: usize = 4096;
/// What each pool of the crowd has against stray writes.
const CODES: &[&str] = &["pcrc", "pq", "evenodd64", "evenodd256", "crc"];

/// The pool where space comes and goes: its size, and what is taken and given back there.
const WIDE_MIB: u64 = 6 << 10;
const LARGE: u64 = 1 << 30;
const TAKES: usize = 60;
/// Bytes of a file that is copied in beside that.
const COPY: usize = 48 << 20;

/// Space that comes and goes, then the crowd at each code. On the default transport its servers die meanwhile.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::mount()?;
    let (takes, copies) = come_and_go(bench)?;
    let (mut calls, mut refused, mut deaths) = (0, 0, 0);
    for code in CODES {
        let seen = crowd(bench, code).map_err(|e| format!("{code}: {e}"))?;
        calls += seen.calls;
        refused += seen.refused;
        deaths += seen.deaths;
    }
    Ok(format!(
        "full: {takes} GiB taken and given back beside {copies} files copied in; {calls} calls of {WRITERS} writers on nearly \
         full pools of {} codes, {refused} without space, {deaths} server deaths, nothing lost",
        CODES.len()
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

/// What a crowd did.
struct Seen {
    calls: u64,
    refused: u64,
    deaths: usize,
}

fn crowd(bench: &Bench, code: &str) -> Result<Seen, String> {
    let place = match &bench.dir {
        Some(_) => bench.place(code, MIB, &[])?,
        None => {
            let pool = Pool::create_with(bench.scratch.path(), code, MIB, &["--protect", code])?;
            let mut pool = pool.with_transport(bench.transport.clone());
            pool.mount(&[])?;
            Place::Pool(Box::new(pool))
        }
    };
    let filler = place.dir().join("filler");
    fs::write(&filler, vec![7; TAKEN as usize]).map_err(|e| format!("{}: {e}", filler.display()))?;
    let (tell, told) = channel();
    let (ends, deaths) = thread::scope(|scope| {
        let writers = (0..WRITERS).map(|me| {
            let (dir, tell) = (place.dir(), tell.clone());
            scope.spawn(move || Writer::new(dir, me).live(&tell))
        });
        let writers: Vec<_> = writers.collect();
        drop(tell);
        let deaths = kill(&place, bench, &told);
        let ends = writers
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a writer panicked".into())));
        (ends.collect::<Result<Vec<_>, _>>(), deaths)
    });
    let mut seen = Seen {
        calls: 0,
        refused: 0,
        deaths: deaths?,
    };
    for writer in ends? {
        writer.compare_all()?;
        seen.calls += CALLS;
        seen.refused += writer.refused;
    }
    if seen.refused == 0 && bench.dir.is_none() {
        return Err("the pool was never full".into());
    }
    if fs::read(&filler).map_err(|e| e.to_string())? != vec![7; TAKEN as usize] {
        return Err("the file that was there before has other bytes".into());
    }
    close(place)?;
    Ok(seen)
}

/// Kills the server each time that a writer asks for it, if a keeper starts another one.
fn kill(place: &Place, bench: &Bench, asked: &Receiver<()>) -> Result<usize, String> {
    let mut deaths = 0;
    for () in asked {
        if let Place::Pool(pool) = place
            && bench.transport.as_deref() != Some("uring")
        {
            pool.kill_server()?;
            deaths += 1;
        }
    }
    Ok(deaths)
}

/// Nothing is told as damaged, and the check of everything finds nothing.
fn close(place: Place) -> Result<(), String> {
    if let Place::Pool(pool) = &place {
        pool.ask(&["damage", "list"], &[])?;
    }
    match place {
        Place::Pool(mut pool) => {
            pool.unmount()?;
            pool.check_with(&["--data"])
        }
        Place::Dir(_) => Ok(()),
    }
}

/// One of the crowd: its files are its own, and it knows what is in them.
struct Writer<'d> {
    dir: &'d Path,
    me: u64,
    random: Random,
    files: BTreeMap<u64, Vec<u8>>,
    refused: u64,
}

impl<'d> Writer<'d> {
    fn new(dir: &'d Path, me: u64) -> Self {
        Self {
            dir,
            me,
            random: Random(me + 1),
            files: BTreeMap::new(),
            refused: 0,
        }
    }

    /// Calls, one after the other; every so many a death is asked for.
    fn live(mut self, tell: &Sender<()>) -> Result<Self, String> {
        for call in 1..=CALLS {
            let file = self.random.below(FILES);
            let what = self.random.below(8);
            match self.call(what, file) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::StorageFull => {
                    self.refused += 1;
                    self.forget(file).map_err(|e| self.failed(what, file, &e))?;
                }
                Err(e) => return Err(self.failed(what, file, &e)),
            }
            if self.me == 0 && call % CALLS_A_DEATH == 0 {
                // Where nobody kills, nobody listens.
                let _ = tell.send(());
            }
        }
        Ok(self)
    }

    fn failed(&self, what: u64, file: u64, error: &std::io::Error) -> String {
        format!("call {what} of writer {} on file {file}: {error}", self.me)
    }

    fn path(&self, file: u64) -> std::path::PathBuf {
        self.dir.join(format!("w{}-{file}", self.me))
    }

    /// A call that ran out of space may have done a part of its work: the file begins anew.
    fn forget(&mut self, file: u64) -> Io<()> {
        self.files.remove(&file);
        match fs::remove_file(self.path(file)) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let pages = 1 + self.random.below(PAGES) as usize;
        let mut stamp = self.random.next();
        let mut bytes = Vec::with_capacity(pages * PAGE);
        for _ in 0..pages * PAGE / 8 {
            bytes.extend(stamp.to_le_bytes());
            stamp = stamp.wrapping_add(0x9E37_79B9);
        }
        bytes
    }

    fn call(&mut self, what: u64, file: u64) -> Io<()> {
        let path = self.path(file);
        let was = self.files.get(&file).cloned();
        match (what, was) {
            (0 | 1, _) | (_, None) => {
                let bytes = self.bytes();
                fs::write(&path, &bytes)?;
                self.files.insert(file, bytes);
            }
            (2, Some(mut was)) => {
                let at = self.random.below(was.len() as u64 + 1) as usize;
                let mut bytes = self.bytes();
                bytes.truncate(1 + self.random.below(3 * PAGE as u64) as usize);
                OpenOptions::new()
                    .write(true)
                    .open(&path)?
                    .write_all_at(&bytes, at as u64)?;
                was.resize(was.len().max(at + bytes.len()), 0);
                was[at..at + bytes.len()].copy_from_slice(&bytes);
                self.files.insert(file, was);
            }
            (3, Some(was)) => {
                compare(&path, &was)?;
                self.forget(file)?;
            }
            (4, Some(mut was)) => {
                let len = self.random.below(was.len() as u64 + 1);
                OpenOptions::new().write(true).open(&path)?.set_len(len)?;
                was.truncate(len as usize);
                self.files.insert(file, was);
            }
            (5, Some(mut was)) => {
                let len = was.len() as u64 + 64 * PAGE as u64;
                fallocate(
                    OpenOptions::new().write(true).open(&path)?,
                    FallocateFlags::empty(),
                    0,
                    len,
                )?;
                was.resize(len as usize, 0);
                self.files.insert(file, was);
            }
            (6, Some(was)) => {
                let to = self.random.below(FILES);
                let copy = self.dir.join(format!("w{}-copy", self.me));
                fs::copy(&path, &copy)?;
                fs::rename(&copy, self.path(to))?;
                self.files.insert(to, was);
            }
            (_, Some(was)) => {
                File::open(&path)?.sync_all()?;
                compare(&path, &was)?;
            }
        }
        Ok(())
    }

    fn compare_all(&self) -> Result<(), String> {
        let mut files = self.files.iter();
        files.try_for_each(|(file, bytes)| compare(&self.path(*file), bytes).map_err(|e| e.to_string()))
    }
}

fn compare(path: &Path, bytes: &[u8]) -> Io<()> {
    match fs::read(path)? == bytes {
        true => Ok(()),
        false => Err(other(format!("{}: other bytes came back", path.display()))),
    }
}

fn other(text: impl Into<String>) -> std::io::Error {
    std::io::Error::other(text.into())
}
