//! Images that somebody made by hand: nodes that stand in more places than one, or in wrong ones, each with its checksums right
//! (C-8). Whatever they say, a call ends, the one directory or file is damaged, and the others are served.

use super::*;
use keepfs_format::blockmap::{Child, FANOUT, FILE_SIZE_MAX, HEIGHT_MAX, PageEntry, UNWRITTEN, entry_offset};
use keepfs_format::dir::{CHILDREN, FIRST, LeafHead, child_offset};
use keepfs_format::inode::{self, BODY_TREE, Hole, Inode};
use keepfs_format::metablock::HEADER;
use keepfs_format::{FromZeros, IntoBytes, Kind, MetaId};
use keepfs_store::{Abort, Equations, Meaning, Ref, Source, Txn};
use keepfs_vfs::{Direct, Errno, SeekWhence};
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long a call may be under way before it counts as one that never ends; each takes milliseconds.
const NEVER: Duration = Duration::from_secs(60);
/// Pages of a pool that is large and empty: what takes as long as it has pages does not end.
const WIDE: u64 = 1 << 26;

/// What a call answers, if it ends.
fn ends<T: Send + 'static>(volume: &Arc<Volume>, call: impl FnOnce(&Volume) -> T + Send + 'static) -> T {
    let (tell, told) = channel();
    let volume = volume.clone();
    std::thread::spawn(move || tell.send(call(&volume)));
    told.recv_timeout(NEVER).expect("the call does not end")
}

/// A volume whose audits are off, so that anything can be written through the door.
fn unwatched(pages: u64) -> Pool {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(pages));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let mut options = options(false);
    options.store.audit = Equations::NONE;
    let volume = Volume::open(device.clone(), &options).expect("open");
    Pool { device, volume }
}

fn forge<T>(volume: &Volume, mut f: impl FnMut(&mut Txn<'_>) -> core::result::Result<T, Abort<keepfs_fs::Error>>) -> T {
    volume.store().transact(&mut f).expect("forge")
}

fn inode_of(source: &mut impl Source, ino: Ino) -> Inode {
    let mut inode = Inode::new_zeroed();
    let at = inode::offset_of(ino.0);
    source
        .read(Ref::inode_block(ino.0), at, inode.as_mut_bytes())
        .expect("inode");
    inode
}

/// Changes an inode.
fn forge_inode(volume: &Volume, ino: Ino, change: impl Fn(&mut Inode)) {
    let mut inode = inode_of(&mut volume.store().view(), ino);
    change(&mut inode);
    forge(volume, |txn| {
        let at = inode::offset_of(ino.0);
        Ok(txn.put(Ref::inode_block(ino.0), at, inode.as_bytes(), Meaning::Inode)?)
    });
}

/// A directory of indexes of these levels whose slots all name the next one, the last one a leaf of this depth without names.
fn graph_of_indexes(levels: core::ops::Range<u8>, depth: u8) -> (Pool, Ino) {
    let pool = unwatched(16_384);
    let dir = make(&*pool.volume, Ino::ROOT, "dir", FileKind::Dir).expect("mkdir");
    make(&*pool.volume, Ino::ROOT, "other", FileKind::File).expect("mknod");
    let root = forge(&pool.volume, |txn| {
        let mut below = txn.new_node(Kind::DirLeaf, depth, dir.0)?;
        let head = LeafHead {
            tail: (FIRST as u16).into(),
            ..LeafHead::default()
        };
        txn.put(below, HEADER, head.as_bytes(), Meaning::DirNode)?;
        for level in levels.clone().rev() {
            let index = txn.new_node(Kind::DirIndex, level, dir.0)?;
            let slots = below.id.0.to_le_bytes().repeat(CHILDREN);
            txn.put(index, child_offset(0), &slots, Meaning::DirNode)?;
            below = index;
        }
        Ok(below.id.0)
    });
    forge_inode(&pool.volume, dir, |inode| inode.root = root.into());
    (pool, dir)
}

fn names(volume: &Volume, dir: Ino) -> Result<usize> {
    let mut count = 0;
    volume.readdir(dir, 0, &mut |_| {
        count += 1;
        true
    })?;
    Ok(count)
}

/// S-6.7: there are 256^7 ways to the leaf, or 256^2, and a listing takes one. The others are listed, and what must be written is.
#[test]
fn a_directory_that_leads_to_one_leaf_in_all_slots_is_damaged() {
    // A leaf of depth 0 has all slots by right; that its index has more than one is what is wrong.
    for (levels, depth) in [(3, 0), (7, 0), (3, 8), (7, 8)] {
        let (pool, dir) = graph_of_indexes(0..levels, depth);
        let listed = ends(&pool.volume, move |volume| names(volume, dir));
        assert_eq!(listed, Err(Errno::EIO), "{levels} levels, depth {depth}");
        assert_eq!(find(&*pool.volume, dir, "name"), Err(Errno::ENOENT));
        assert_eq!(names(&pool.volume, Ino::ROOT), Ok(4));
        let made = ends(&pool.volume, move |volume| {
            (0..200).try_for_each(|i| make(volume, dir, &format!("a name of many {i}"), FileKind::File).map(drop))
        });
        // The leaf is full in the end. Nobody knows what its slots are to lead to; under seven indexes none can be split.
        let full = if levels == 7 { Errno::ENOSPC } else { Errno::EIO };
        assert!(depth == 0 || made == Err(full), "{levels} levels: {made:?}");
        let freed = ends(&pool.volume, move |volume| {
            let _ = volume.rmdir(Ino::ROOT, b"dir");
            volume.unmount()
        });
        assert_eq!(freed, Ok(()));
    }
}

/// S-6.7: an index of another level than its place, of which all else is right.
#[test]
fn an_index_of_another_level_is_damage() {
    let (pool, dir) = graph_of_indexes(0..1, 0);
    assert_eq!(names(&pool.volume, dir), Ok(2));
    let (pool, dir) = graph_of_indexes(1..2, 0);
    assert_eq!(names(&pool.volume, dir), Err(Errno::EIO));
    assert_eq!(find(&*pool.volume, dir, "name"), Err(Errno::EIO));
    assert_eq!(make(&*pool.volume, dir, "name", FileKind::File), Err(Errno::EIO));
}

/// A directory of 400 names: its root index and the leaves in its slots.
fn sound(pool: &Pool) -> (Ino, Ref, Vec<u64>) {
    let dir = make(&*pool.volume, Ino::ROOT, "dir", FileKind::Dir).expect("mkdir");
    for i in 0..400 {
        make(&*pool.volume, dir, &format!("one of the names {i}"), FileKind::Fifo).expect("mknod");
    }
    assert_eq!(names(&pool.volume, dir), Ok(402));
    let mut view = pool.volume.store().view();
    let root = Ref::node(MetaId(inode_of(&mut view, dir).root.get()), Kind::DirIndex, dir.0);
    let mut slots = vec![0; CHILDREN * 8];
    view.read(root, child_offset(0), &mut slots).expect("slots");
    let slots = slots.as_chunks::<8>().0.iter().map(|slot| u64::from_le_bytes(*slot));
    (dir, root, slots.collect())
}

/// S-6.4, S-6.7: a leaf has the slots of its depth and no other, and names whose keys lead to it.
#[test]
fn a_leaf_in_a_place_that_is_not_its_own_is_damage() {
    type Lie = fn(&mut Txn<'_>, Ref, &[u64]) -> core::result::Result<(), keepfs_store::Stop>;
    let lies: [(&str, Lie); 4] = [
        ("one slot less", |txn, root, slots| {
            txn.put(root, child_offset(0), &slots[255].to_le_bytes(), Meaning::DirNode)
        }),
        ("the slot behind it, too", |txn, root, slots| {
            let behind = slots.iter().position(|slot| *slot != slots[0]).expect("another leaf");
            txn.put(root, child_offset(behind), &slots[0].to_le_bytes(), Meaning::DirNode)
        }),
        ("all slots", |txn, root, slots| {
            txn.put(
                root,
                child_offset(0),
                &slots[0].to_le_bytes().repeat(CHILDREN),
                Meaning::DirNode,
            )
        }),
        ("the index", |txn, root, _| {
            txn.put(root, child_offset(7), &root.id.0.to_le_bytes(), Meaning::DirNode)
        }),
    ];
    for (what, lie) in lies {
        let pool = unwatched(16_384);
        let (dir, root, slots) = sound(&pool);
        forge(&pool.volume, |txn| Ok(lie(txn, root, &slots)?));
        let listed = ends(&pool.volume, move |volume| names(volume, dir));
        assert_eq!(listed, Err(Errno::EIO), "{what}");
        assert_eq!(names(&pool.volume, Ino::ROOT), Ok(3), "{what}");
    }
    let pool = unwatched(16_384);
    let (dir, root, slots) = sound(&pool);
    let (first, last) = (slots[0], slots[255]);
    forge(&pool.volume, |txn| {
        let leaf = |id| Ref::node(MetaId(id), Kind::DirLeaf, root.owner);
        let mut bytes = [0; 4096 - HEADER];
        txn.read(leaf(first), HEADER, &mut bytes)?;
        Ok(txn.put(leaf(last), HEADER, &bytes, Meaning::DirNode)?)
    });
    assert_eq!(names(&pool.volume, dir), Err(Errno::EIO), "names of another leaf");
}

/// What each entry of the lowest node is.
type Fill = fn(u64) -> bool;

/// A file of `height` levels of nodes whose entries all name the next one, but where `gaps` every other.
fn graph_of_nodes(height: u8, gaps: bool, fill: Fill) -> (Pool, Ino) {
    let pool = unwatched(WIDE);
    let ino = make(&*pool.volume, Ino::ROOT, "file", FileKind::File).expect("mknod");
    let other = make(&*pool.volume, Ino::ROOT, "other", FileKind::File).expect("mknod");
    write(&*pool.volume, other, 0, &[7; 40_000]);
    let root = forge(&pool.volume, |txn| {
        let mut below = txn.new_node(Kind::BlockMap, 1, ino.0)?;
        let page = |slot| {
            if fill(slot) {
                PageEntry::new(9, UNWRITTEN, 0, 1)
            } else {
                PageEntry::HOLE
            }
        };
        let entries: Vec<PageEntry> = (0..FANOUT).map(page).collect();
        txn.put(below, entry_offset(0), entries.as_bytes(), Meaning::MapEntry)?;
        for level in 2..=height {
            let node = txn.new_node(Kind::BlockMap, level, ino.0)?;
            let child = Child {
                id: below.id.0.into(),
                generation: txn.node_generation(below)?.into(),
                reserved: 0.into(),
            };
            let entry = |slot| if gaps && slot % 2 == 1 { Child::default() } else { child };
            let entries: Vec<Child> = (0..FANOUT).map(entry).collect();
            txn.put(node, entry_offset(0), entries.as_bytes(), Meaning::MapNode)?;
            below = node;
        }
        Ok(below.id.0)
    });
    forge_inode(&pool.volume, ino, |inode| {
        (inode.body, inode.height, inode.root) = (BODY_TREE, height, root.into());
        inode.body_area = [0; inode::BODY];
        (inode.size, inode.pages) = (FILE_SIZE_MAX.into(), (1 << 50).into());
    });
    (pool, ino)
}

/// S-7.7: a search for what is not there, in a map with more ways than any pool has nodes.
#[test]
fn a_search_in_a_map_that_leads_to_one_node_in_all_entries_ends() {
    let cases: [(SeekWhence, bool, Fill); 3] = [
        (SeekWhence::Data, false, |_| false),
        (SeekWhence::Data, true, |_| false),
        (SeekWhence::Hole, false, |_| true),
    ];
    for (whence, gaps, fill) in cases {
        let (pool, ino) = graph_of_nodes(HEIGHT_MAX, gaps, fill);
        let found = ends(&pool.volume, move |volume| volume.seek(ino, 0, whence));
        assert_eq!(found, Err(Errno::EIO), "{whence:?}, gaps {gaps}");
        let other = find(&*pool.volume, Ino::ROOT, "other").expect("find");
        assert_eq!(pool.volume.seek(other, 0, SeekWhence::Hole), Ok(40_000));
    }
}

/// S-7.7: a node of another level than its place is not used: nothing is read there, nothing written, nothing freed. It holds
/// nothing, so nothing else tells.
#[test]
fn a_node_of_another_level_is_damage() {
    let (pool, ino) = graph_of_nodes(1, false, |_| false);
    let volume = &pool.volume;
    assert_eq!(volume.read(ino, 0, &mut [0; 100]), Ok(100));
    forge_inode(volume, ino, |inode| inode.height = 2);
    assert_eq!(volume.read(ino, 0, &mut [0; 100]), Err(Errno::EIO));
    assert_eq!(volume.write(ino, 0, &[1; 9000], WriteHow::default()), Err(Errno::EIO));
    assert_eq!(volume.seek(ino, 0, SeekWhence::Data), Err(Errno::EIO));
    let cut = keepfs_vfs::SetAttr {
        size: Some(0),
        ..keepfs_vfs::SetAttr::default()
    };
    assert_eq!(volume.setattr(ino, &cut).map(|attr| attr.size), Err(Errno::EIO));
    let other = find(&**volume, Ino::ROOT, "other").expect("find");
    assert_eq!(read(&**volume, other, 0, 40_000), [7; 40_000]);
}

/// Gives the file a hole of all pages that is pending, on the hidden list or not.
fn forge_hole(volume: &Volume, ino: Ino, is_listed: bool) {
    forge_inode(volume, ino, |inode| {
        inode.set_hole(Some(Hole {
            from: 0.into(),
            to: inode::HOLE_END.into(),
        }));
    });
    if is_listed {
        forge(volume, |txn| Ok(txn.set_orphan(ino.0, true)?));
    }
}

/// S-5.8: a hole that nobody makes is damage of its file, whatever lies under it; one on the hidden list is counted, node by node.
#[test]
fn attributes_of_a_file_with_a_pending_hole_over_a_graph_are_told() {
    let every_other: Fill = |slot| slot % 2 == 0;
    for (is_listed, fill) in [(false, every_other), (true, every_other), (true, |_| false)] {
        let (pool, ino) = graph_of_nodes(HEIGHT_MAX, true, fill);
        forge_hole(&pool.volume, ino, is_listed);
        let told = ends(&pool.volume, move |volume| volume.getattr(ino).map(|attr| attr.ino));
        let expected = if is_listed { Ok(ino) } else { Err(Errno::EIO) };
        assert_eq!(told, expected, "listed: {is_listed}");
        let changed = ends(&pool.volume, move |volume| {
            volume.write(ino, 0, &[1; 5000], WriteHow::default())
        });
        assert_eq!(changed, Err(Errno::EIO), "listed: {is_listed}");
        // The hole is not made at the next mount either; the others are served.
        pool.volume.unmount().expect("unmount");
        let Pool { device, volume } = pool;
        drop(volume);
        let volume = Volume::open(device, &options(false)).expect("open");
        let other = find(&*volume, Ino::ROOT, "other").expect("find");
        assert_eq!(read(&*volume, other, 0, 40_000), [7; 40_000]);
        assert_eq!(volume.write(ino, 0, &[1; 5000], WriteHow::default()), Err(Errno::EIO));
    }
}

/// A directory with four that are the one above it, and a file below thirty others.
fn ring() -> (Pool, Ino, Ino) {
    let pool = unwatched(16_384);
    let volume = &pool.volume;
    let outer = make(&**volume, Ino::ROOT, "outer", FileKind::Dir).expect("mkdir");
    let inner = make(&**volume, outer, "inner", FileKind::Dir).expect("mkdir");
    let mut back = [inner; 4];
    for (i, back) in back.iter_mut().enumerate() {
        *back = make(&**volume, inner, &format!("{i}"), FileKind::Dir).expect("mkdir");
    }
    let mut deep = inner;
    for _ in 0..30 {
        deep = make(&**volume, deep, "deep", FileKind::Dir).expect("mkdir");
    }
    let file = make(&**volume, deep, "file", FileKind::File).expect("mknod");
    let leaf = MetaId(inode_of(&mut volume.store().view(), inner).root.get());
    let leaf = Ref::node(leaf, Kind::DirLeaf, inner.0);
    // The first four entries name the directory above.
    for (i, back) in back.into_iter().enumerate() {
        let at = FIRST + i * keepfs_format::dir::entry_size(1) + 8;
        let mut named = [0; 8];
        volume.store().view().read(leaf, at, &mut named).expect("entry");
        assert_eq!(u64::from_le_bytes(named), back.0);
        forge(volume, |txn| {
            Ok(txn.put(leaf, at, &outer.0.to_le_bytes(), Meaning::Dirent)?)
        });
    }
    (pool, outer, file)
}

/// S-6.6: directories that lie in themselves are walked once, or a million names would be told before the file is found.
#[test]
fn paths_in_a_ring_of_directories_are_found_once() {
    let (pool, _, file) = ring();
    let found = ends(&pool.volume, move |volume| volume.paths_of(&[file.0, u64::MAX].into()));
    let path = format!("/outer/inner{}/file", "/deep".repeat(30));
    assert_eq!(found.get(&file.0), Some(&path.into_bytes()));
}

/// S-19.3: a scrub of what is below such a directory looks at each once.
#[test]
fn a_scrub_of_a_ring_of_directories_ends() {
    let (pool, outer, _) = ring();
    let wish = keepfs_fs::Wish {
        rest: true,
        top: Some(outer.0),
        ..keepfs_fs::Wish::default()
    };
    let ended = ends(&pool.volume, |volume| {
        volume.scrub_start(wish).expect("started");
        (0..10_000).any(|_| {
            volume.scrub_turn();
            volume.scrub_record().state == keepfs_fs::ScrubState::Finished
        })
    });
    assert!(ended, "{:?}", pool.volume.scrub_record());
}

/// S-20.12: a listing of few names that lie far apart comes back in between, and has each of them once in the end.
#[test]
fn a_listing_comes_back_from_a_directory_of_which_little_is_left() {
    let pool = Pool::new(65_536);
    let vfs: &dyn Vfs = &*pool.volume;
    let dir = make(vfs, Ino::ROOT, "dir", FileKind::Dir).expect("mkdir");
    let name = |i: usize| format!("{i:0200}");
    let ino = make(vfs, dir, &name(0), FileKind::Fifo).expect("mknod");
    for i in 1..5000 {
        vfs.link(ino, dir, name(i).as_bytes()).expect("link");
        vfs.forget(ino, 1);
    }
    for i in (0..5000).filter(|i| i % 50 != 0) {
        vfs.unlink(dir, name(i).as_bytes()).expect("unlink");
    }
    let (mut calls, mut cookie, mut found) = (0, 0, Vec::new());
    loop {
        let before = cookie;
        vfs.readdir_part(dir, cookie, &mut |entry| {
            cookie = entry.cookie;
            found.push(String::from_utf8_lossy(entry.name).into_owned());
            true
        })
        .expect("readdir");
        if cookie == before {
            break;
        }
        calls += 1;
    }
    found.retain(|name| !name.starts_with('.'));
    found.sort();
    assert_eq!(found, (0..5000).step_by(50).map(name).collect::<Vec<_>>());
    assert!(calls > 2, "{calls} calls");
    pool.finish();
}
