//! Many writers on one pool, a part of which is taken before.

use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::super::pool::Pool;
use super::super::{Bench, Place};
use super::close;
use super::writer::{Mount, PAGE, Writer};

/// Writers of a crowd.
pub const WRITERS: u64 = 16;
/// All of the room, percent: then somebody must have met a lack of space.
const FULL: u64 = 100;
/// Bytes that are taken at a time.
const PIECE: usize = 16 * PAGE;

/// The pool of a crowd.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fullness {
    /// Its size.
    pub pages: u64,
    /// How much of what the first files of its writers leave is taken before, percent.
    pub taken: u64,
}

impl fmt::Display for Fullness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} pages, {} % taken", self.pages, self.taken)
    }
}

/// What a crowd did.
#[derive(Default)]
pub struct Seen {
    calls: u64,
    refused: u64,
    deaths: usize,
}

impl Seen {
    pub fn add(&mut self, other: &Seen) {
        self.calls += other.calls;
        self.refused += other.refused;
        self.deaths += other.deaths;
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { calls, refused, deaths } = self;
        write!(f, "{calls} calls, {refused} without space, {deaths} server deaths")
    }
}

/// A crowd at this code on a new pool, each of so many calls; servers die meanwhile. Where a keeper starts another one nobody notices.
/// On `transport=uring` there is no keeper, as requests die with their server (decision 0120): all writers stop at the dead mount,
/// behind the next mount what they had synced is compared, and they go on.
pub fn run(bench: &Bench, code: &str, fullness: Fullness, calls: u64) -> Result<Seen, String> {
    let name = format!("{code}-{}-{}", fullness.pages, fullness.taken);
    let mut place = match &bench.dir {
        Some(_) => bench.place(&name, 0, &[])?,
        None => {
            let bytes = fullness.pages * PAGE as u64;
            let pool = Pool::create_with(bench.scratch.path(), &name, bytes, &["--protect", code])?;
            let mut pool = pool.with_transport(bench.transport.clone());
            pool.mount(&[])?;
            Place::Pool(Box::new(pool))
        }
    };
    let mount = match bench.transport.as_deref() {
        Some("uring") => Mount::DiesWithServer,
        _ => Mount::Lasts,
    };
    let mut writers: Vec<Writer> = (0..WRITERS)
        .map(|me| Writer::new(place.dir().to_owned(), me, mount, calls))
        .collect();
    writers.iter_mut().try_for_each(Writer::begin)?;
    let filler = take(&place, fullness.taken)?;
    let mut seen = Seen::default();
    while writers.iter().any(|writer| !writer.is_done()) {
        let deaths = live(&place, mount, &mut writers)?;
        seen.deaths += deaths;
        if let (Mount::DiesWithServer, 1.., Place::Pool(pool)) = (mount, deaths, &mut place) {
            pool.remount(&[])?;
            writers.iter_mut().try_for_each(Writer::find_again)?;
        }
    }
    for writer in writers {
        writer.compare_all()?;
        seen.calls += writer.done;
        seen.refused += writer.refused;
    }
    if let Some((path, bytes)) = filler
        && fs::read(&path).map_err(|e| e.to_string())? != vec![7; bytes]
    {
        return Err("the file that was there before has other bytes".into());
    }
    let is_pool = matches!(place, Place::Pool(_));
    if is_pool && fullness.taken == FULL && seen.refused == 0 {
        return Err("the pool was never full".into());
    }
    close(place)?;
    Ok(seen)
}

/// Takes so many percent of the room that there is, with a file: its path and length.
fn take(place: &Place, percent: u64) -> Result<Option<(PathBuf, usize)>, String> {
    let Place::Pool(_) = place else {
        // Another file system is not ours to fill.
        return Ok(None);
    };
    let path = place.dir().join("filler");
    let wrong = |e: std::io::Error| format!("{}: {e}", path.display());
    let room = rustix::fs::statvfs(place.dir()).map_err(|e| wrong(e.into()))?.f_bavail as usize * PAGE;
    let mut file = File::create(&path).map_err(wrong)?;
    let mut taken = 0;
    // At the end what statfs(2) does not count is taken as well.
    while taken < room * percent as usize / 100 || percent == FULL {
        match file.write(&[7; PIECE]) {
            Ok(count) => taken += count,
            Err(e) if e.kind() == ErrorKind::StorageFull => break,
            Err(e) => return Err(wrong(e)),
        }
    }
    file.sync_all().map_err(wrong)?;
    Ok(Some((path, taken)))
}

/// All writers at once, until they are done or the mount has died; returns how many servers died.
fn live(place: &Place, mount: Mount, writers: &mut [Writer]) -> Result<usize, String> {
    let (tell, told) = channel();
    thread::scope(|scope| {
        let threads = writers.iter_mut().map(|writer| {
            let tell = tell.clone();
            scope.spawn(move || writer.live(&tell))
        });
        let threads: Vec<_> = threads.collect();
        drop(tell);
        let deaths = kill(place, mount, &told);
        let ends = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a writer panicked".into())));
        ends.collect::<Result<Vec<()>, _>>().and(deaths)
    })
}

/// Kills the server each time that a writer asks for it, once if its mount dies with it.
fn kill(place: &Place, mount: Mount, asked: &Receiver<()>) -> Result<usize, String> {
    let Place::Pool(pool) = place else {
        return Ok(0);
    };
    let most = if mount == Mount::Lasts { usize::MAX } else { 1 };
    let killed = asked.iter().take(most).map(|()| pool.kill_server());
    killed.collect::<Result<Vec<()>, _>>().map(|deaths| deaths.len())
}
