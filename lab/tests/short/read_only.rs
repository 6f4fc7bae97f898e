//! A read-only mount of a crashed pool (S-9.5): the log is applied in memory, nothing reaches the
//! device, and what is seen is what a mount for writing recovers.

use keepfs_lab::crash::setting::LabClock;
use keepfs_lab::crash::workload::Workloads;
use keepfs_lab::crash::{Seed, Setting, history, judge};
use keepfs_media::{Class, DeviceError, PageNo};
use keepfs_testkit::crash::Sweep;
use keepfs_testkit::hook::{Hooked, Hooks};
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::SimDevice;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// States drawn at each position of a history.
const STATES: u64 = 3;

/// Counts whatever would change a device, and lets nothing of it happen.
#[derive(Default)]
struct LookOnly(AtomicU64);

impl LookOnly {
    fn refuse(&self) -> Result<(), DeviceError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(DeviceError::ReadOnly {
            device: "a device to look at".into(),
        })
    }
}

impl Hooks for LookOnly {
    fn before_write(&self, _: PageNo, _: usize, _: Class) -> Result<(), DeviceError> {
        self.refuse()
    }
    fn before_flush(&self) -> Result<(), DeviceError> {
        self.refuse()
    }
    fn before_discard(&self, _: PageNo, _: u64) -> Result<(), DeviceError> {
        self.refuse()
    }
}

/// The hash of the tree that a read-only mount shows; the device must not be touched.
fn shown(setting: &Setting, image: &Image) -> u64 {
    let device = Arc::new(Hooked::new(SimDevice::over(image.clone()), LookOnly::default()));
    let volume = setting
        .open_read_only(device.clone(), &LabClock::default())
        .expect("a read-only mount");
    let tree = history::hash(&volume).expect("the tree");
    keepfs_vfs::Vfs::unmount(&*volume).expect("unmount");
    drop(volume);
    assert_eq!(device.hooks.0.load(Ordering::SeqCst), 0, "the device was touched");
    tree
}

/// The hash of the tree after a read-only mount became one for writing (`remount,rw`) and was unmounted.
fn written_later(setting: &Setting, image: &Image) -> u64 {
    let device = Arc::new(SimDevice::over(image.clone()));
    let volume = setting
        .open_read_only(device.clone(), &LabClock::default())
        .expect("a read-only mount");
    history::hash(&volume).expect("the tree");
    volume.begin_writing().expect("writing begins");
    assert!(!volume.is_read_only());
    keepfs_vfs::Vfs::unmount(&*volume).expect("unmount");
    drop(volume);
    judge::recover(setting, &device.image()).expect("a sound pool").tree
}

/// The hash of the tree of a server that resumes, to write, what a read-only one left when it died.
fn resumed_later(setting: &Setting, image: &Image) -> u64 {
    let device = Arc::new(SimDevice::over(image.clone()));
    let clock = LabClock::default();
    let first = setting
        .open_to_read_mortal(device.clone(), &clock)
        .expect("a read-only mount");
    let left = first.remains().expect("what it leaves");
    drop(first);
    let (volume, _) = setting.resume(device, &clock, left).expect("a resume");
    history::hash(&volume).expect("the tree")
}

/// Every position of a workload's log; returns how many images differed.
fn every_crash(seed: &Seed) -> usize {
    let base = seed.setting.fresh().expect("a pool");
    let history = history::run(&seed.setting, &base, &seed.steps).expect("a history");
    let mut seen: HashMap<u64, u64> = HashMap::new();
    for point in Sweep::new(&history.recording, seed.number) {
        for state in point.plan.sample(STATES) {
            let image = point.content(&state);
            if seen.contains_key(&image.digest()) {
                continue;
            }
            let tree = shown(&seed.setting, &image);
            let recovered = judge::recover(&seed.setting, &image).expect("recovery");
            assert_eq!(tree, recovered.tree, "{}: {state}", seed.name);
            assert_eq!(tree, written_later(&seed.setting, &image), "{}: {state}", seed.name);
            seen.insert(image.digest(), tree);
        }
    }
    seen.len()
}

/// S-9.9: what a read-only mount has refused of a log after a power cut, the server that resumes it refuses, too.
#[test]
fn what_was_refused_stays_refused() {
    let text = "setting pages=512 log=32 zone=64\nnumber 1\n\
        create path=f mode=644 who=22:0:0\n\
        write path=f offset=0 len=8192 seed=1 kill=no\nsyncfs\n\
        write path=f offset=0 len=8192 seed=2 kill=no\nsyncfs\n";
    let seed = Seed::parse("refused", text).expect("a workload");
    let base = seed.setting.fresh().expect("a pool");
    let history = history::run(&seed.setting, &base, &seed.steps).expect("a history");
    let mut images = 0;
    for point in Sweep::new(&history.recording, seed.number) {
        for state in point.plan.sample(16) {
            let image = point.content(&state);
            let tree = shown(&seed.setting, &image);
            assert_eq!(tree, resumed_later(&seed.setting, &image), "{state}");
            images += 1;
        }
    }
    assert!(images > 30, "only {images} crash states");
}

/// Workloads of every kind, cut at every write.
#[test]
fn nothing_is_written_and_the_same_is_seen() {
    let workloads = Workloads::new(5);
    let seeds = (0..12).map(|n| workloads.nth(n)).filter(|s| s.setting.crowd == 0);
    let images: usize = seeds.map(|seed| every_crash(&seed)).sum();
    assert!(images > 300, "only {images} crash states");
}
