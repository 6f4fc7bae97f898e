//! The volume against the oracle: random operations, outcome by outcome and tree by tree, with reopening, power cuts
//! after a sync and power cuts at any moment in between (promise C-1), and the offline walk at the end.
//!
//! `KEEPFS_SEED=n` runs one seed, `KEEPFS_SEEDS=n` that many from 0.

use super::Seen;
use keepfs_fs::{FormatOptions, StoreOptions, Volume, VolumeOptions};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_testkit::model::Model;
use keepfs_testkit::ops::{Generator, Op, Profile, Session, Verb, print_all, shrink};
use keepfs_testkit::tree::{Snapshot, Times, diff, snapshot_with};
use keepfs_vfs::{Time, Vfs};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Pages of the pool.
const PAGES: u64 = 32_768;

/// What happens between two stretches of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Between {
    /// Nothing: one long session.
    Nothing,
    /// Unmount and open again.
    Reopen,
    /// Make durable, cut the power, open again.
    SyncAndCut,
    /// Cut the power without more ado.
    Cut,
}

/// A clock that ticks a second each time it is read.
fn ticking() -> Arc<dyn Fn() -> Time + Send + Sync> {
    let seconds = AtomicI64::new(1 << 33);
    Arc::new(move || Time {
        sec: seconds.fetch_add(1, Ordering::Relaxed),
        nsec: 7,
    })
}

/// A clock that stands still.
fn standing() -> Arc<dyn Fn() -> Time + Send + Sync> {
    Arc::new(|| Time { sec: 1 << 33, nsec: 7 })
}

fn options(clock: Arc<dyn Fn() -> Time + Send + Sync>) -> VolumeOptions {
    VolumeOptions {
        store: StoreOptions {
            background: false,
            tiny_arena: true,
            arena_bytes: 2 << 20,
            ..StoreOptions::default()
        },
        background: false,
        staged_pages_max: Some(64),
        clock,
        ..VolumeOptions::default()
    }
}

fn formatted() -> Arc<dyn Device> {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(PAGES));
    let format = FormatOptions {
        test: true,
        ..FormatOptions::default()
    };
    Volume::format(device.clone(), &format).expect("format");
    device
}

fn tree(vfs: &dyn Vfs, times: Times) -> Result<Snapshot, String> {
    snapshot_with(vfs, times).map_err(|e| format!("the tree cannot be walked: {e}"))
}

/// Runs `ops` in stretches of `stretch` on both; the first disagreement in words.
fn disagreement(ops: &[Op], stretch: usize, between: Between) -> Option<String> {
    check(ops, stretch, between).err()
}

fn check(ops: &[Op], stretch: usize, between: Between) -> Result<(), String> {
    let device = formatted();
    // Times can only agree as long as both read the clock equally often.
    let times = if between == Between::Nothing {
        Times::Keep
    } else {
        Times::Ignore
    };
    let clock = if between == Between::Nothing { standing } else { ticking };
    let mut model = Model::with_clock(clock());
    let mut volume = Volume::open(device.clone(), &options(clock())).map_err(|e| e.to_string())?;
    for (number, ops) in ops.chunks(stretch).enumerate() {
        let mut past = vec![model.fork()];
        {
            let (mut ours, mut theirs) = (Session::new(&*volume), Session::new(&model));
            for (i, op) in ops.iter().enumerate() {
                let (is, should) = (ours.run(op), theirs.run(op));
                if is != should {
                    return Err(format!(
                        "operation {}, {op}: {is:?}, the model says {should:?}",
                        number * stretch + i
                    ));
                }
                if between == Between::Cut {
                    past.push(model.fork());
                }
            }
            same(&*volume, &model, times)?;
        }
        if between == Between::Nothing {
            continue;
        }
        match between {
            Between::Reopen => volume.unmount().map_err(|e| format!("unmount: {e}"))?,
            Between::SyncAndCut => {
                volume.syncfs().map_err(|e| format!("sync: {e}"))?;
                volume.shutdown(false).map_err(|e| format!("shutdown: {e}"))?;
            }
            _ => volume.shutdown(false).map_err(|e| format!("shutdown: {e}"))?,
        }
        drop(volume);
        volume = Volume::open(device.clone(), &options(clock())).map_err(|e| format!("open: {e}"))?;
        if between == Between::Cut {
            model = prefix(&*volume, past)?;
        }
        same(&*volume, &model, times)?;
    }
    volume.unmount().map_err(|e| format!("unmount: {e}"))?;
    drop(volume);
    walk(&device)
}

/// The state of the past that the tree is equal to.
fn prefix(volume: &dyn Vfs, past: Vec<Model>) -> Result<Model, String> {
    let found = tree(volume, Times::Ignore)?;
    let mut last = String::new();
    for model in past.into_iter().rev() {
        // What was held open is not after a cut.
        let difference = diff(&found, &tree(&model, Times::Ignore)?);
        if difference.is_empty() {
            return Ok(model);
        }
        last = difference.to_string();
    }
    Err(format!(
        "after a power cut the tree is that of no prefix; against the synced one: {last}"
    ))
}

fn same(volume: &dyn Vfs, model: &Model, times: Times) -> Result<(), String> {
    let difference = diff(&tree(volume, times)?, &tree(model, times)?);
    if difference.is_empty() {
        Ok(())
    } else {
        Err(format!("trees differ (volume, model):\n{difference}"))
    }
}

/// The offline walk finds nothing.
fn walk(device: &Arc<dyn Device>) -> Result<(), String> {
    let options = keepfs_check::Options {
        data: true,
        ..keepfs_check::Options::default()
    };
    let report = keepfs_check::walk(&Seen(&**device), &options);
    match report.findings.first() {
        None => Ok(()),
        Some(_) => Err(format!("the walk found: {:#?}", report.findings)),
    }
}

/// Runs seeds; the first that fails is shrunk and told with its operations.
fn seeds(default: u64, length: usize, stretch: usize, between: Between, profile: &dyn Fn() -> Profile) {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let range = match number("KEEPFS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KEEPFS_SEEDS").unwrap_or(default),
    };
    for seed in range {
        let ops: Vec<Op> = Generator::new(seed, profile()).take(length).collect();
        if disagreement(&ops, stretch, between).is_none() {
            continue;
        }
        let small = shrink(&ops, &mut |ops| disagreement(ops, stretch, between).is_some());
        let told = disagreement(&small, stretch, between).unwrap_or_default();
        panic!("seed {seed}, {between:?}:\n{}\n{told}", print_all(&small));
    }
}

#[test]
fn one_long_session_equals_the_model() {
    seeds(24, 400, 50, Between::Nothing, &Profile::everything);
}

#[test]
fn sparse_files_equal_the_model() {
    let sparse = || Profile::everything().with_offsets_to(i64::MAX as u64);
    seeds(12, 300, 50, Between::Nothing, &sparse);
}

#[test]
fn reopened_volumes_equal_the_model() {
    seeds(10, 300, 30, Between::Reopen, &Profile::everything);
}

#[test]
fn synced_volumes_survive_a_power_cut() {
    seeds(10, 300, 30, Between::SyncAndCut, &Profile::everything);
}

#[test]
fn a_power_cut_leaves_a_prefix() {
    // Trees do not show what is allocated, so which prefix it is can be seen only without asking for holes.
    let profile = || Profile::everything().with(Verb::Seek, 0).with(Verb::SeekMap, 0);
    seeds(10, 300, 20, Between::Cut, &profile);
}
