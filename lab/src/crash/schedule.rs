//! Transactions that overlap on one frame, in an order that a seed says (S-14.4, X-2.3).
//!
//! The outer transaction is open while others begin, commit, fail and are synced on the same metablocks. Then power
//! is cut. What was committed and synced is there byte for byte, of what was open or failed there is no byte, and the
//! counters are those of the committed ones. Nor was any byte of a transaction in the log before it had committed.

use super::setting::LEVELS;
use keepfs_format::bitmap;
use keepfs_format::plog::Run;
use keepfs_format::{Kind, PoolId};
use keepfs_media::Class;
use keepfs_store::{
    Abort, Error, FormatOptions, Guard, Meaning, Near, Pressure, Purpose, Ref, Reuse, Source, Stop, Store,
    StoreOptions, Txn,
};
use keepfs_testkit::image::{Image, Page};
use keepfs_testkit::ops::{Rng, pattern};
use keepfs_testkit::sim::{Event, Recording, SimDevice};
use std::sync::Arc;

/// Bytes that one transaction owns in the shared metablock.
const RANGE: usize = 60;
/// Such ranges.
const RANGES: usize = 60;
/// Where the first one begins.
const FIRST: usize = 100;
/// So many bytes at the begin of a range tell whose it is.
const MARK: usize = 16;

/// Runs `count` schedules of consecutive seeds on some threads; one that breaks a promise, in words.
pub fn campaign(seed: u64, count: u64, threads: u64) -> Result<(), String> {
    let base = empty_pool()?;
    let every = |first: u64| {
        let _reuse = Reuse::begin();
        let mut seeds = (seed + first..seed + count).step_by(threads.max(1) as usize);
        seeds.try_for_each(|s| schedule(s, &base).map_err(|e| format!("schedule {s}: {e}")))
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads.max(1))
            .map(|first| scope.spawn(move || every(first)))
            .collect();
        let died = || Err("a schedule panicked".to_owned());
        running
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| died()))
    })
}

fn empty_pool() -> Result<Image, String> {
    let device = Arc::new(SimDevice::new(1024));
    let format = FormatOptions {
        id: Some(PoolId(*b"keepfs-schedules")),
        name_seed: Some([3, 4]),
        meta_copies: 1,
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &format).map_err(|e| format!("format: {e}"))?;
    Ok(device.image())
}

/// What must be there.
struct Truth {
    /// Bytes of the shared metablock's ranges.
    live: Vec<u8>,
    durable: Vec<u8>,
    live_inodes: u64,
    durable_inodes: u64,
    /// Extra references of the page.
    live_shares: u64,
    durable_shares: u64,
}

/// Bytes that the log must not hold in its first `entries` entries: their transaction had not committed.
struct Absent {
    mark: [u8; MARK],
    entries: usize,
}

struct Stage {
    device: Arc<SimDevice>,
    store: Arc<Store>,
    shared: Ref,
    page: Run,
    truth: Truth,
    absent: Vec<Absent>,
    seed: u64,
    next: usize,
}

/// A transaction's range of the shared metablock and what it writes there.
struct Mine {
    range: usize,
    bytes: Vec<u8>,
    /// Whether it takes a reference of the page.
    shares: bool,
}

/// One schedule.
fn schedule(seed: u64, base: &Image) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let device = Arc::new(SimDevice::over(base.clone()));
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 0,
        background: false,
        guard: if seed.is_multiple_of(2) {
            Guard::Alias
        } else {
            Guard::Off
        },
        protect: Some(LEVELS[(seed / 2 % LEVELS.len() as u64) as usize]),
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device.clone(), &options).map_err(|e| format!("open: {e}"))?;
    let mut stage = Stage::new(device.clone(), store, seed)?;
    for _ in 0..3 {
        stage.round(&mut rng)?;
    }
    let (shared, page, truth) = (stage.shared, stage.page, stage.truth);
    nothing_early(&device.recording(), &stage.absent)?;
    let cut = device.image();
    // A checkpoint verifies every frame that was changed (C-3), whenever it was verified last.
    let told = stage.store.checkpoint();
    told.map_err(|e| format!("a checkpoint of what is in memory: {e}"))?;
    // Nobody wrote past the door: what was mended then was undone wrongly (S-13.5).
    if let Some((damage, done)) = stage.store.damages().first() {
        return Err(format!("nothing was damaged, and there is {damage:?}, {done:?}"));
    }
    stage.store.kill();
    drop(stage.store);
    let device = Arc::new(SimDevice::over(cut));
    let store = Store::open(device, &options).map_err(|e| format!("recovery: {e}"))?;
    let bytes = read(&store, shared)?;
    if bytes != truth.durable {
        let at = bytes.iter().zip(&truth.durable).position(|(a, b)| a != b);
        return Err(format!(
            "after the power cut, byte {at:?} of the shared metablock is wrong"
        ));
    }
    check(
        &store,
        page,
        (truth.durable_inodes, truth.durable_shares),
        "after the power cut",
    )?;
    store.close().map_err(|e| format!("close: {e}"))
}

/// No byte was logged before its transaction had committed.
fn nothing_early(recording: &Recording, absent: &[Absent]) -> Result<(), String> {
    for (at, entry) in recording.log.iter().enumerate() {
        let Event::Write {
            pages,
            class: Class::Plog,
            ..
        } = &entry.event
        else {
            continue;
        };
        let early = |a: &&Absent| at < a.entries && pages.iter().any(|page| holds(page, &a.mark));
        if absent.iter().any(|a| early(&a)) {
            return Err(format!(
                "entry {at} of the device's log holds bytes of an open transaction"
            ));
        }
    }
    Ok(())
}

fn holds(page: &Page, mark: &[u8; MARK]) -> bool {
    page.bytes().windows(MARK).any(|bytes| bytes == mark)
}

/// Counters, and the count of the page, are those of the committed transactions.
fn check(store: &Store, page: Run, (inodes, shares): (u64, u64), when: &str) -> Result<(), String> {
    let (id, offset) = bitmap::share(page.start);
    let mut count = [0; 2];
    let read = store.view().read(Ref::node(id, Kind::Shares, 0), offset, &mut count);
    read.map_err(|e| format!("read: {e:?}"))?;
    let (totals, count) = (store.totals(), u64::from(u16::from_le_bytes(count)));
    match (totals.inodes, totals.shares, count) == (inodes, shares, shares) {
        true => Ok(()),
        false => Err(format!(
            "{when} {totals:?} and {count} references instead of {inodes} inode numbers and {shares} references"
        )),
    }
}

fn read(store: &Store, shared: Ref) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; RANGE * RANGES];
    let read = store.view().read(shared, FIRST, &mut bytes);
    read.map_err(|e| format!("read: {e:?}")).map(|()| bytes)
}

impl Stage {
    fn new(device: Arc<SimDevice>, store: Arc<Store>, seed: u64) -> Result<Stage, String> {
        let reserved = store.reserve(1, Purpose::New, Near::Current);
        let reserved = reserved.map_err(|e| format!("a page: {e}"))?;
        let page = reserved.runs()[0];
        let shared = store
            .transact::<_, Error>(|t| {
                t.use_pages(page)?;
                Ok(t.new_node(Kind::BlockMap, 1, 7)?)
            })
            .map_err(|e| format!("first transaction: {e}"))?;
        reserved.allocated();
        store.sync().map_err(|e| format!("first sync: {e}"))?;
        let zeros = vec![0; RANGE * RANGES];
        Ok(Stage {
            device,
            store,
            shared,
            page,
            truth: Truth {
                live: zeros.clone(),
                durable: zeros,
                live_inodes: 0,
                durable_inodes: 0,
                live_shares: 0,
                durable_shares: 0,
            },
            absent: Vec::new(),
            seed,
            next: 0,
        })
    }

    /// A transaction stays open while others run; then it commits or fails.
    fn round(&mut self, rng: &mut Rng) -> Result<(), String> {
        let store = self.store.clone();
        let (mine, shared, page) = (self.take(), self.shared, self.page);
        let commits = rng.chance(50);
        let mut inside: Option<Result<(), String>> = None;
        let outer = store.transact::<(), Error>(|t| {
            change(t, shared, page, &mine)?;
            if inside.is_none() {
                inside = Some(self.others(rng));
            }
            end(commits)
        });
        inside.unwrap_or(Ok(()))?;
        self.ended(&mine, outer)?;
        self.compare()?;
        if rng.chance(30) {
            self.sync()?;
        }
        Ok(())
    }

    fn others(&mut self, rng: &mut Rng) -> Result<(), String> {
        for _ in 0..1 + rng.below(5) {
            match rng.below(4) {
                0 => self.sync()?,
                what => self.other(what != 1)?,
            }
        }
        Ok(())
    }

    fn other(&mut self, commits: bool) -> Result<(), String> {
        let (mine, shared, page) = (self.take(), self.shared, self.page);
        let done = self.store.clone().transact::<(), Error>(|t| {
            change(t, shared, page, &mine)?;
            end(commits)
        });
        self.ended(&mine, done)
    }

    fn take(&mut self) -> Mine {
        self.next += 1;
        let bytes = pattern(self.seed << 16 | self.next as u64, RANGE);
        Mine {
            range: (self.next - 1) % RANGES,
            // Its lowest bit is always set.
            shares: bytes.first().is_some_and(|byte| byte & 2 == 0),
            bytes,
        }
    }

    /// A transaction is over: its bytes are there, or nowhere.
    fn ended(&mut self, mine: &Mine, how: Result<(), Error>) -> Result<(), String> {
        let mut mark = [0; MARK];
        mark.copy_from_slice(&mine.bytes[..MARK]);
        let entries = match how {
            Ok(()) => {
                self.truth.live[mine.range * RANGE..][..RANGE].copy_from_slice(&mine.bytes);
                self.truth.live_inodes += 1;
                self.truth.live_shares += u64::from(mine.shares);
                self.device.log_len()
            }
            Err(Error::NoSpace) => usize::MAX,
            Err(e) => return Err(format!("transaction: {e}")),
        };
        self.absent.push(Absent { mark, entries });
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        self.store.sync().map_err(|e| format!("sync: {e}"))?;
        self.truth.durable = self.truth.live.clone();
        self.truth.durable_inodes = self.truth.live_inodes;
        self.truth.durable_shares = self.truth.live_shares;
        Ok(())
    }

    /// Memory shows what was committed.
    fn compare(&self) -> Result<(), String> {
        if read(&self.store, self.shared)? != self.truth.live {
            return Err("the shared metablock in memory is wrong".into());
        }
        let right = (self.truth.live_inodes, self.truth.live_shares);
        check(&self.store, self.page, right, "in memory")
    }
}

/// What every transaction does: bytes of its own in the shared metablock, an inode number, and in some a reference of the page.
/// One that meets a count which is another's gives up: on this thread the other one waits for it (S-13.4).
fn change(t: &mut Txn<'_>, shared: Ref, page: Run, mine: &Mine) -> Result<(), Abort<Error>> {
    if mine.shares {
        match t.share_pages(page) {
            Ok(true) => {}
            Err(Stop::Pressure(Pressure::Owned)) => return end(false),
            Ok(false) => return Err(Abort::Fail(Error::TooLarge)),
            Err(stop) => return Err(stop.into()),
        }
    }
    t.put(shared, FIRST + mine.range * RANGE, &mine.bytes, Meaning::MapEntry)?;
    t.new_ino()?;
    Ok(())
}

/// How a transaction ends.
fn end(commits: bool) -> Result<(), Abort<Error>> {
    if commits {
        Ok(())
    } else {
        Err(Abort::Fail(Error::NoSpace))
    }
}
