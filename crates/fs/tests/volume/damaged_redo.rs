//! A server dies whose redo was hit, at each entry in turn: the next one finds a state that was, with every byte of it, no less than
//! what was synced, and tells how much is lost (S-14.8, S-16.5).
//!
//! `KEEPFS_SEED=n` runs one seed, `KEEPFS_SEEDS=n` that many from 0.

use super::Seen;
use keepfs_check::{Options, walk};
use keepfs_fs::{AccessTimes, FormatOptions, Remains, StoreOptions, Volume, VolumeOptions};
use keepfs_testkit::ops::{Generator, Profile, Session, Verb};
use keepfs_testkit::sim::SimDevice;
use keepfs_testkit::tree::{Times, hash_tree};
use keepfs_vfs::{Time, Vfs};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Operations of a life; the device is synced behind so many of them.
const OPS: usize = 60;
const SYNCED: usize = 15;
/// Seeds of a usual run.
const SEEDS: u64 = 40;
/// Where the ring begins in the memory, and the bytes of an entry's head (S-14.1, S-14.2).
const RING_AT: u64 = 4096;
const HEAD: u64 = 32;

/// What was tried.
#[derive(Default, Debug)]
struct Tried {
    /// Entries that were hit.
    entries: usize,
    /// Those for which more is lost than the entry and what is behind it.
    shortened: usize,
    /// Those behind which the tree was compared with what it was.
    compared: usize,
}

/// What a server left at its death.
struct Left {
    device: SimDevice,
    memory: Remains,
    staging: File,
    /// Its last transaction, and the last that a sync had answered for.
    last: u64,
    synced: u64,
    /// The tree behind transactions; not behind those in the middle of an operation.
    trees: BTreeMap<u64, u64>,
}

/// `staged`: most pages staged at a time.
fn options(staged: usize, clock: &Arc<AtomicI64>) -> VolumeOptions {
    let clock = clock.clone();
    VolumeOptions {
        store: StoreOptions {
            background: false,
            lasting: true,
            arena_bytes: 4 << 20,
            tiny_arena: true,
            ..StoreOptions::default()
        },
        access_times: AccessTimes::Never,
        background: false,
        staged_pages_max: Some(staged),
        clock: Arc::new(move || Time {
            sec: 1_000_000_000 + clock.load(Ordering::Relaxed),
            nsec: 7,
        }),
        ..VolumeOptions::default()
    }
}

fn hash(volume: &Volume) -> u64 {
    hash_tree(volume, Times::Keep).expect("a tree that can be read")
}

fn live(seed: u64, clock: &Arc<AtomicI64>, options: &VolumeOptions) -> Left {
    let device = Arc::new(SimDevice::new(1024));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let volume = Volume::open(device.clone(), options).expect("open");
    let profile = Profile::everything()
        .with(Verb::Write, 30)
        .with(Verb::Unlink, 12)
        .with(Verb::CopyRange, 10)
        .with(Verb::SyncFs, 0)
        .with(Verb::Fsync, 0);
    let mut session = Session::new(&*volume);
    let (mut trees, mut synced) = (BTreeMap::new(), 0);
    for (n, op) in Generator::new(seed, profile).take(OPS).enumerate() {
        clock.store(n as i64 + 1, Ordering::Relaxed);
        session.run(&op);
        if n == SYNCED {
            volume.syncfs().expect("sync");
            synced = volume.store().last_seq();
        }
        let seq = volume.store().last_seq();
        let tree = hash(&volume);
        // Who reads it all may end the last use of a file.
        if volume.store().last_seq() == seq {
            trees.insert(seq, tree);
        }
    }
    let memory = volume.remains().expect("it lasts");
    let staging = memory.named().find(|(name, _)| *name == "staging").expect("redo").1;
    let left = Left {
        device: device.fork(),
        staging: File::from(staging.try_clone_to_owned().expect("a descriptor")),
        memory,
        last: volume.store().last_seq(),
        synced,
        trees,
    };
    session.leave();
    volume.store().kill();
    left
}

fn word(file: &File, at: u64) -> u64 {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, at).expect("a word");
    u64::from_le_bytes(word)
}

/// Where the entries of the redo begin in the memory, and whose they are.
fn entries(file: &File) -> Vec<(u64, u64)> {
    let cursor = word(file, 64);
    let offset = |bits: u64| RING_AT + (bits & 0xF_FFFF) * 8;
    let (mut at, end) = (offset(cursor), offset(cursor >> 20));
    let mut found = Vec::new();
    while at < end {
        found.push((at, word(file, at + 8)));
        let payload = word(file, at + 24) & u64::from(u32::MAX);
        at += (HEAD + payload).next_multiple_of(8);
    }
    assert_eq!(at, end, "the entries end where the cursor says");
    found
}

/// The tree that the next server finds, and how many transactions it tells as lost.
fn resumed(left: &Left, device: &Arc<SimDevice>, options: &VolumeOptions) -> (u64, u64) {
    let memory = left.memory.duplicate().expect("descriptors");
    let (volume, resumed) = Volume::resume(device.clone(), options, memory).expect("resumed");
    let tree = hash(&volume);
    volume.store().kill();
    (tree, resumed.lost)
}

/// One stray write of eight bytes over the entry of transaction `number` at `at`, and what comes of it.
fn hit(left: &Left, (at, number): (u64, u64), options: &VolumeOptions, tried: &mut Tried) {
    let right = word(&left.staging, at);
    let write = |word: u64| left.staging.write_all_at(&word.to_le_bytes(), at).expect("written");
    write(!right);
    let device = Arc::new(left.device.fork());
    let (tree, lost) = resumed(left, &device, options);
    let kept = left.last - lost.min(left.last);
    assert!(
        kept < number,
        "transactions up to {kept} are told as kept, and {number} was hit"
    );
    assert!(
        kept >= left.synced,
        "a sync answered for {}, and {kept} are kept",
        left.synced
    );
    tried.entries += 1;
    tried.shortened += usize::from(kept + 1 < number);
    if let Some(then) = left.trees.get(&kept) {
        tried.compared += 1;
        assert_eq!(
            tree, *then,
            "transactions up to {kept} are kept, and the tree is another"
        );
    }
    let report = walk(&Seen(&*device), &Options { data: true, limit: 20 });
    assert!(
        report.errors().next().is_none(),
        "the walk found {:#?}",
        report.findings
    );
    // Whoever held the memory never got the new one.
    assert_eq!(
        resumed(left, &device, options),
        (tree, lost),
        "a second try comes to the same"
    );
    write(right);
}

#[test]
fn redo_that_is_hit_anywhere_leaves_a_state_that_was() {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = match number("KEEPFS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KEEPFS_SEEDS").unwrap_or(SEEDS),
    };
    let mut tried = Tried::default();
    for seed in seeds.clone() {
        println!("KEEPFS_SEED={seed}");
        let clock = Arc::new(AtomicI64::new(0));
        let options = options([1, 4, 32][(seed % 3) as usize], &clock);
        let left = live(seed, &clock, &options);
        for entry in entries(&left.staging) {
            hit(&left, entry, &options, &mut tried);
        }
    }
    println!("{tried:?}");
    let is_usual = seeds == (0..SEEDS);
    assert!(
        !is_usual || tried.entries > 300 && tried.compared > 250 && tried.shortened > 20,
        "{tried:?}"
    );
}
