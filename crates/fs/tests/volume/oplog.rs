//! The operation log against an independent replayer (SPEC section 12): random operations, alone and by threads;
//! then every inode of the pool is what its operations make of its earlier state, byte for byte, and inodes that no
//! operation names did not change.
//!
//! `KEEPFS_SEED=n` runs one seed, `KEEPFS_SEEDS=n` that many from 0.

mod replay;

use keepfs_format::inode::{self, Inode};
use keepfs_format::oplog::Action;
use keepfs_format::{FromZeros, IntoBytes};
use keepfs_fs::{FormatOptions, StoreOptions, Volume, VolumeOptions};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_store::{Half, Ref, Source, Store};
use keepfs_testkit::ops::{Generator, Profile, Session};
use keepfs_vfs::{Direct, FallocMode, FileKind, Ino, NewInode, SetAttr, Time, Vfs, WriteHow};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// Greatest inode number that is looked at; the runs stay far below.
const INODES: u64 = 600;

fn options(oplog: bool) -> VolumeOptions {
    let seconds = AtomicI64::new(1 << 33);
    VolumeOptions {
        store: StoreOptions {
            background: false,
            tiny_arena: true,
            arena_bytes: 8 << 20,
            oplog,
            ..StoreOptions::default()
        },
        background: false,
        staged_pages_max: Some(64),
        clock: Arc::new(move || Time {
            sec: seconds.fetch_add(1, Ordering::Relaxed),
            nsec: 7,
        }),
        ..VolumeOptions::default()
    }
}

fn volume(oplog: bool) -> Arc<Volume> {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(32_768));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    Volume::open(device, &options(oplog)).expect("open")
}

/// Every inode slot as it stands on the arena.
fn inodes(store: &Store) -> BTreeMap<u64, Inode> {
    let mut view = store.view();
    let read = |ino| {
        let mut inode = Inode::new_zeroed();
        view.read(Ref::inode_block(ino), inode::offset_of(ino), inode.as_mut_bytes())
            .expect("read");
        (ino, inode)
    };
    (1..INODES).map(read).collect()
}

/// Swaps the logs and replays the previous ones on `before`; the first inode that is not what they say.
/// Nothing runs meanwhile. Counts the operations by code in `codes`.
fn check(store: &Store, before: &mut BTreeMap<u64, Inode>, codes: &mut BTreeMap<u8, usize>) -> Result<(), String> {
    store.swap_operations();
    let states = store.states(Half::Previous).map_err(|e| e.to_string())?;
    let log = store.operations(Half::Previous).map_err(|e| e.to_string())?;
    let mut replayed: BTreeMap<u64, Inode> = BTreeMap::new();
    for state in &states {
        if before.get(&state.object) != Some(&state.inode) {
            return Err(format!("the state of {} is not what the inode was", state.object));
        }
        if replayed.insert(state.object, state.inode).is_some() {
            return Err(format!("two states of {}", state.object));
        }
    }
    let (mut named, mut last) = (BTreeSet::new(), 0);
    for txn in &log {
        if txn.seq <= last {
            return Err(format!("transaction {} after {last}", txn.seq));
        }
        last = txn.seq;
        for operation in txn.operations() {
            let object = operation.object;
            named.insert(object);
            *codes.entry(operation.action.code()).or_default() += 1;
            let inode = replayed
                .get_mut(&object)
                .ok_or_else(|| format!("no state of {object}"))?;
            replay::replay(inode, &operation.action)
                .map_err(|e| format!("transaction {last}, inode {object}, {:?}: {e}", operation.action))?;
        }
    }
    if !replayed.keys().eq(named.iter()) {
        return Err("states and operations name different objects".into());
    }
    before.append(&mut replayed);
    for (ino, is) in inodes(store) {
        let should = before[&ino];
        if is != should {
            return Err(format!("inode {ino} is\n{is:?}\nits operations make\n{should:?}"));
        }
    }
    Ok(())
}

fn seeds(default: u64) -> core::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    match number("KEEPFS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KEEPFS_SEEDS").unwrap_or(default),
    }
}

/// A run of `length` operations, checked every 50; the codes seen.
fn run(seed: u64, length: usize, profile: Profile, codes: &mut BTreeMap<u8, usize>) {
    let volume = volume(true);
    let store = volume.store();
    let mut before = inodes(store);
    store.swap_operations();
    let mut generator = Generator::new(seed, profile);
    let mut session = Session::new(&*volume);
    for stretch in 0..length / 50 {
        let ops: Vec<_> = generator.by_ref().take(50).collect();
        for op in &ops {
            session.run(op);
        }
        if let Err(what) = check(store, &mut before, codes) {
            panic!("seed {seed}, stretch {stretch}: {what}");
        }
    }
    drop(session);
    volume.reclaim_now().expect("reclaim");
    check(store, &mut before, codes).expect("after the session");
    assert_eq!(store.forced_swaps(), 0, "a half was too small for a stretch");
}

/// S-12.1, S-12.5, S-12.7, S-12.8: every operation of the seam, and every code of the log is seen.
#[test]
fn random_runs_are_replayed() {
    let mut codes = BTreeMap::new();
    for seed in seeds(12) {
        run(seed, 2000, Profile::everything(), &mut codes);
    }
    for seed in seeds(4) {
        run(
            1000 + seed,
            1000,
            Profile::everything().with_offsets_to(i64::MAX as u64),
            &mut codes,
        );
    }
    if seeds(12) == (0..12) {
        // 28 takes a file of many pages: see `pending_holes_are_replayed`.
        let missing: Vec<u8> = (1..=27).filter(|code| !codes.contains_key(code)).collect();
        assert!(missing.is_empty(), "codes {missing:?} were never logged: {codes:?}");
    }
}

/// S-12.1, O-1: threads at work in directories of their own share the root; the order of the log is that of commit,
/// and the live half can be read while they work.
#[test]
fn threads_are_replayed() {
    const DIRS: [[&str; 3]; 3] = [["/", "a", "a/c"], ["/", "b", "b/c"], ["/", "d", "d/c"]];
    let volume = volume(true);
    let store = volume.store();
    let mut before = inodes(store);
    store.swap_operations();
    let mut generators: Vec<Generator> = (0..3)
        .map(|thread| {
            let mut profile = Profile::everything();
            profile.dirs = DIRS[thread].to_vec();
            Generator::new(500 + thread as u64, profile)
        })
        .collect();
    let mut codes = BTreeMap::new();
    for round in 0..8 {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut read = 0;
                while !over.load(Ordering::Relaxed) || read == 0 {
                    store.operations(Half::Live).expect("sound while others append");
                    store.states(Half::Live).expect("sound while others append");
                    read += 1;
                }
            });
            let workers: Vec<_> = generators
                .iter_mut()
                .map(|generator| {
                    let volume = &volume;
                    scope.spawn(move || {
                        let mut session = Session::new(&**volume);
                        for op in generator.by_ref().take(250) {
                            session.run(&op);
                        }
                    })
                })
                .collect();
            workers.into_iter().for_each(|w| w.join().expect("a worker"));
            over.store(true, Ordering::Relaxed);
            reader.join().expect("the reader");
        });
        if let Err(what) = check(store, &mut before, &mut codes) {
            panic!("round {round}: {what}");
        }
    }
    assert_eq!(store.forced_swaps(), 0, "a half was too small for a round");
}

fn new(kind: FileKind, mode: u32) -> NewInode {
    NewInode {
        mode: kind.type_bits() | mode,
        umask: 0,
        uid: 7,
        gid: 8,
        rdev: 0,
    }
}

fn size(size: u64) -> SetAttr {
    SetAttr {
        size: Some(size),
        ..SetAttr::default()
    }
}

/// S-12.5: what the generator does not do: cuts and frees of many transactions, times of the kernel's cache, large
/// directories, long attributes.
#[test]
fn large_and_rare_changes_are_replayed() {
    let volume = volume(true);
    let store = volume.store();
    let (mut before, mut codes) = (inodes(store), BTreeMap::new());
    store.swap_operations();
    let mut checked = |what: &str| {
        if let Err(found) = check(store, &mut before, &mut codes) {
            panic!("{what}: {found}");
        }
    };
    let file = volume
        .mknod(Ino::ROOT, b"f", &new(FileKind::File, 0o6755))
        .expect("mknod")
        .attr
        .ino;
    let bytes = vec![7; 3 << 20];
    let write = |offset, how| volume.write(file, offset, &bytes, how).expect("write");
    write(0, WriteHow::default());
    let cached = WriteHow {
        writeback: true,
        ..WriteHow::default()
    };
    write(4097, cached);
    checked("large and cached writes");
    let cut = SetAttr {
        mode: Some(0o600),
        ctime: Some(Time { sec: 5, nsec: 6 }),
        ..size(0)
    };
    volume.setattr(file, &cut).expect("setattr");
    checked("a cut of many transactions to nothing");
    write(1 << 40, WriteHow::default());
    volume.setattr(file, &size(100)).expect("truncate");
    checked("a cut of many transactions in a high tree");
    for (len, what) in [
        (20_000, "a long value"),
        (9000, "a shorter one"),
        (3, "one that fits the inode"),
    ] {
        let how = keepfs_vfs::XattrHow::default();
        volume.setxattr(file, b"user.x", &bytes[..len], how).expect("setxattr");
        checked(what);
    }
    let dir = volume
        .mknod(Ino::ROOT, b"d", &new(FileKind::Dir, 0o755))
        .expect("mkdir")
        .attr
        .ino;
    let names: Vec<Vec<u8>> = (0..400)
        .map(|i| format!("a longer name than others {i}").into_bytes())
        .collect();
    for name in &names {
        volume.link(file, dir, name).expect("link");
    }
    checked("a directory of many nodes");
    names.iter().for_each(|name| volume.unlink(dir, name).expect("unlink"));
    volume.rmdir(Ino::ROOT, b"d").expect("rmdir");
    write(0, WriteHow::default());
    volume.unlink(Ino::ROOT, b"f").expect("unlink");
    volume.forget(file, 401);
    volume.forget(dir, 1);
    checked("frees of many transactions");
    assert_eq!(store.totals().inodes, 1, "the root alone is left");
    assert_eq!(store.forced_swaps(), 0);
}

/// An inode that changed without an operation is found: here its bytes are put aside of what the log says, in a field that
/// no audit equation looks at.
#[test]
fn a_change_without_its_operation_is_found() {
    let volume = volume(true);
    let store = volume.store();
    let mut before = inodes(store);
    store.swap_operations();
    store
        .transact::<_, keepfs_store::Error>(|t| {
            let (r, at) = (
                Ref::inode_block(1),
                inode::offset_of(1) + core::mem::offset_of!(Inode, uid),
            );
            t.op(1, Action::Orphan { on: 1 })?;
            t.put(r, at, &7u32.to_le_bytes(), keepfs_store::Meaning::Inode)?;
            Ok(())
        })
        .expect("transaction");
    let found = check(store, &mut before, &mut BTreeMap::new());
    assert!(found.is_err_and(|what| what.starts_with("inode 1 is")));
}

/// `StoreOptions::oplog`: off, nothing is logged and everything else works.
#[test]
fn it_can_be_switched_off() {
    let volume = volume(false);
    let mut session = Session::new(&*volume);
    for op in Generator::new(1, Profile::everything()).take(200) {
        session.run(&op);
    }
    drop(session);
    assert!(volume.store().operations(Half::Live).expect("nothing").is_empty());
    assert!(volume.store().states(Half::Live).expect("nothing").is_empty());
    volume.unmount().expect("unmount");
}

/// S-5.10, S-12.5: a hole that takes several transactions is set by the first one and ended by the last one, be it that
/// the tree is empty then or not.
#[test]
fn pending_holes_are_replayed() {
    let volume = volume(true);
    let store = volume.store();
    let mut before = inodes(store);
    store.swap_operations();
    let how = NewInode::by_root(FileKind::File.type_bits() | 0o644);
    let mut codes = BTreeMap::new();
    for (name, end) in [(b"part", 1500), (b"full", 1800)] {
        let ino = volume.mknod(Ino::ROOT, name, &how).expect("mknod").attr.ino;
        for at in 0..7u64 {
            volume
                .write(ino, at << 20, &[7; 1 << 20], WriteHow::default())
                .expect("write");
        }
        check(store, &mut before, &mut codes).expect("written");
        volume
            .fallocate(ino, FallocMode::PunchHole, 0, end * 4096)
            .expect("punch");
        check(store, &mut before, &mut codes).expect("punched");
        assert_eq!(before[&ino.0].hole(), None);
    }
    assert_eq!(codes.get(&28), Some(&4), "each hole begins and ends once");
}
