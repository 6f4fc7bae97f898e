//! Transactions that overlap on one frame, in an order that a seed says (PROTOCOLS section 10, 2).
//!
//! The outer transaction is open while others begin, commit, fail and are synced on the same metablocks. Then power
//! is cut. What was committed and synced is there byte for byte, of what was open or failed there is no byte, and the
//! counters are those of the committed ones.

use keepfs_format::{Kind, PoolId};
use keepfs_media::sim::SimDevice;
use keepfs_store::{Abort, Error, FormatOptions, Guard, Meaning, Ref, Source, Store, StoreOptions, Totals, Txn};
use keepfs_vfs::ops::Rng;
use std::sync::Arc;

/// Bytes that one transaction owns in the shared metablock.
const RANGE: usize = 60;
/// Such ranges.
const RANGES: usize = 60;
/// Where the first one begins.
const FIRST: usize = 100;

/// Runs `count` schedules of consecutive seeds; the first that breaks a promise, in words.
pub fn campaign(seed: u64, count: u64) -> Result<(), String> {
    (seed..seed + count).try_for_each(|s| schedule(s).map_err(|e| format!("schedule {s}: {e}")))
}

/// What must be there.
struct Truth {
    /// Bytes of the shared metablock's ranges.
    live: Vec<u8>,
    durable: Vec<u8>,
    live_inodes: u64,
    durable_inodes: u64,
}

struct Stage {
    store: Arc<Store>,
    shared: Ref,
    truth: Truth,
    next: usize,
}

/// One schedule.
pub fn schedule(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let device = Arc::new(SimDevice::new(1024));
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 0,
        background: false,
        guard: if seed.is_multiple_of(2) {
            Guard::Alias
        } else {
            Guard::Off
        },
        ..StoreOptions::default()
    };
    let format = FormatOptions {
        id: Some(PoolId(*b"keepfs-schedules")),
        name_seed: Some([3, 4]),
        meta_copies: 1,
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &format).map_err(|e| format!("format: {e}"))?;
    let store = Store::open(device.clone(), &options).map_err(|e| format!("open: {e}"))?;
    let mut stage = Stage::new(store)?;
    for _ in 0..3 {
        stage.round(&mut rng)?;
    }
    let (shared, truth) = (stage.shared, stage.truth);
    stage.store.kill();
    drop(stage.store);
    let store = Store::open(device, &options).map_err(|e| format!("recovery: {e}"))?;
    let bytes = read(&store, shared)?;
    if bytes != truth.durable {
        let at = bytes.iter().zip(&truth.durable).position(|(a, b)| a != b);
        return Err(format!(
            "after the power cut, byte {at:?} of the shared metablock is wrong"
        ));
    }
    let totals = store.totals().map_err(|e| format!("totals: {e}"))?;
    check(totals, truth.durable_inodes, "after the power cut")?;
    store.close().map_err(|e| format!("close: {e}"))
}

fn check(totals: Totals, inodes: u64, when: &str) -> Result<(), String> {
    match totals.inodes == inodes {
        true => Ok(()),
        false => Err(format!(
            "{when} {} inode numbers are in use instead of {inodes}",
            totals.inodes
        )),
    }
}

fn read(store: &Store, shared: Ref) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; RANGE * RANGES];
    let read = store.view().read(shared, FIRST, &mut bytes);
    read.map_err(|e| format!("read: {e:?}")).map(|()| bytes)
}

impl Stage {
    fn new(store: Arc<Store>) -> Result<Stage, String> {
        let shared = store
            .transact::<_, Error>(|t| Ok(t.new_node(Kind::BlockMap, 1, 7)?))
            .map_err(|e| format!("first transaction: {e}"))?;
        store.sync().map_err(|e| format!("first sync: {e}"))?;
        let zeros = vec![0; RANGE * RANGES];
        Ok(Stage {
            store,
            shared,
            truth: Truth {
                live: zeros.clone(),
                durable: zeros,
                live_inodes: 0,
                durable_inodes: 0,
            },
            next: 0,
        })
    }

    /// A transaction stays open while others run; then it commits or fails.
    fn round(&mut self, rng: &mut Rng) -> Result<(), String> {
        let store = self.store.clone();
        let (range, shared) = (self.take(), self.shared);
        let (bytes, commits) = (rng.next_u64() as u8 | 1, rng.chance(50));
        let mut inside: Option<Result<(), String>> = None;
        let outer = store.transact::<(), Error>(|t| {
            change(t, shared, range, bytes)?;
            if inside.is_none() {
                inside = Some(self.others(rng));
            }
            if commits {
                Ok(())
            } else {
                Err(Abort::Fail(Error::NoSpace))
            }
        });
        inside.unwrap_or(Ok(()))?;
        match outer {
            Ok(()) => self.committed(range, bytes),
            Err(Error::NoSpace) => {}
            Err(e) => return Err(format!("outer transaction: {e}")),
        }
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
                what => self.other(rng, what != 1)?,
            }
        }
        Ok(())
    }

    fn other(&mut self, rng: &mut Rng, commits: bool) -> Result<(), String> {
        let (range, shared, bytes) = (self.take(), self.shared, rng.next_u64() as u8 | 1);
        let done = self.store.clone().transact::<(), Error>(|t| {
            change(t, shared, range, bytes)?;
            if commits {
                Ok(())
            } else {
                Err(Abort::Fail(Error::NoSpace))
            }
        });
        match done {
            Ok(()) => self.committed(range, bytes),
            Err(Error::NoSpace) => {}
            Err(e) => return Err(format!("inner transaction: {e}")),
        }
        Ok(())
    }

    fn take(&mut self) -> usize {
        self.next += 1;
        (self.next - 1) % RANGES
    }

    fn committed(&mut self, range: usize, byte: u8) {
        self.truth.live[range * RANGE..(range + 1) * RANGE].fill(byte);
        self.truth.live_inodes += 1;
    }

    fn sync(&mut self) -> Result<(), String> {
        self.store.sync().map_err(|e| format!("sync: {e}"))?;
        self.truth.durable = self.truth.live.clone();
        self.truth.durable_inodes = self.truth.live_inodes;
        Ok(())
    }

    /// Memory shows what was committed.
    fn compare(&self) -> Result<(), String> {
        if read(&self.store, self.shared)? != self.truth.live {
            return Err("the shared metablock in memory is wrong".into());
        }
        let totals = self.store.totals().map_err(|e| format!("totals: {e}"))?;
        check(totals, self.truth.live_inodes, "in memory")
    }
}

/// What every transaction does: bytes of its own in the shared metablock, and an inode number.
fn change(t: &mut Txn<'_>, shared: Ref, range: usize, byte: u8) -> Result<(), Abort<Error>> {
    t.put(shared, FIRST + range * RANGE, &[byte; RANGE], Meaning::MapEntry)?;
    t.new_ino()?;
    Ok(())
}
