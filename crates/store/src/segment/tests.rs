//! A store that is killed: who adopts its memory finds redo, staged pages and quarantine as they were (S-14.1, S-14.8,
//! S-14.9; PROTOCOLS section 1).

use super::*;
use crate::failpoint;
use crate::undo::UndoLog;
use crate::{FormatOptions, Meaning, Purpose, Ref, Store, StoreOptions};
use keepfs_format::Kind;
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;

const INO: u64 = 9;

fn store() -> Arc<Store> {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        lasting: true,
        audit: crate::Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device, &options).expect("open")
}

fn transact<T>(store: &Store, mut f: impl FnMut(&mut crate::Txn<'_>) -> Result<T, crate::Stop>) -> T {
    store.transact::<T, Error>(|t| Ok(f(t)?)).expect("transaction")
}

fn node(store: &Store, byte: u8) -> Ref {
    transact(store, |t| {
        let r = t.new_node(Kind::Xattr, 0, INO)?;
        t.put(r, 64, &[byte; 300], Meaning::Xattr)?;
        Ok(r)
    })
}

/// Changes of every kind, some of them durable, and the number of the last durable one.
fn work(store: &Store) {
    let nodes: Vec<Ref> = (1..9).map(|byte| node(store, byte)).collect();
    let inos = [(); 3].map(|()| transact(store, |t| t.new_ino()));
    let pages = store.reserve(20, Purpose::New).expect("pages");
    let runs = pages.runs().to_vec();
    transact(store, |t| runs.iter().try_for_each(|run| t.use_pages(*run)));
    pages.keep();
    for index in 0..5 {
        transact(store, |t| t.stage(INO, index, 1, None, 10, &[index as u8 + 1; 700]));
    }
    store.sync().expect("sync");
    transact(store, |t| t.put(nodes[0], 100, b"after the sync", Meaning::Xattr));
    transact(store, |t| t.free_node(nodes[3]));
    transact(store, |t| t.free_ino(inos[1]));
    transact(store, |t| {
        (runs[0].start..runs[0].start + 3).try_for_each(|page| t.free_page(page))
    });
    transact(store, |t| t.stage(INO, 1, 2, None, 0, b"newer"));
    transact(store, |t| t.stage_zero(INO, 7, 2, None, 0, 50));
    transact(store, |t| {
        t.note(keepfs_format::plog::Record::Truncate {
            ino: INO,
            size: 3 * PAGE as u64 + 100,
        });
        t.put(nodes[1], 100, b"and this", Meaning::Xattr)
    });
}

/// Undo slots and segment, as the keeper holds them.
struct Held([OwnedFd; 2]);

impl Held {
    fn of(store: &Store) -> Held {
        let descriptors = [store.undo.descriptor(), store.staging().descriptor()];
        Held(descriptors.map(|d| d.expect("it lasts").try_clone_to_owned().expect("descriptor")))
    }

    fn adopt(self) -> Adopted {
        let [undo, segment] = self.0;
        let undo = UndoLog::adopt(undo, Guard::Alias, false).expect("undo slots");
        let nothing_under = |page, _, _: &mut [u8; PAGE]| Err(Error::Damaged(format!("page {page} was asked for")));
        Adopted::new(segment, (Guard::Alias, false), &undo, nothing_under).expect("segment")
    }
}

fn adopt(store: Arc<Store>) -> Adopted {
    let held = Held::of(&store);
    drop(store);
    held.adopt()
}

/// S-14.3: whatever store of a transaction the kill hits, redo and staged page agree that it is committed, or not.
#[test]
fn a_kill_anywhere_in_a_transaction_is_seen_whole_or_not_at_all() {
    let mut seen = [0, 0];
    for stores in (0..).step_by(17) {
        let store = store();
        work(&store);
        let before = store.last_seq();
        let held = Held::of(&store);
        let cut = failpoint::run(stores, || {
            transact(&store, |t| t.stage(INO, 0, 9, None, 0, b"the last"))
        });
        drop(store);
        let adopted = held.adopt();
        let committed = (adopted.last_seq() - before) as usize;
        let mut page = [0; PAGE];
        assert!(adopted.staged(INO, 0, &mut page).expect("sound"));
        assert_eq!(page.starts_with(b"the last"), committed == 1, "{stores} stores");
        assert_eq!(page[10..710], [1; 700]);
        seen[committed] += 1;
        if cut.is_ok() {
            break;
        }
    }
    assert!(seen[0] > 3 && seen[1] > 50, "{seen:?}");
}

#[test]
fn the_next_group_is_that_of_an_undisturbed_run() {
    let store = store();
    work(&store);
    let (last, durable) = (store.last_seq(), store.durable_seq());
    let undisturbed = store.prepare(&store.redo.lock().take()).expect("group").payload;
    assert!(last > durable + 5 && undisturbed.len() > 100);
    let mut pages = Vec::new();
    for index in store.staged_pages(INO) {
        let mut page = [0; PAGE];
        assert!(store.staged(INO, index, &mut page).expect("sound"));
        pages.push((index, page));
    }
    let mut adopted = adopt(store);
    assert_eq!(adopted.last_seq(), last);
    assert!(adopted.next_group(durable).expect("group") == undisturbed);
    assert!(adopted.next_group(last).expect("nothing is left").is_empty());
    assert_eq!(adopted.staged_total(), pages.len());
    for (index, right) in pages {
        let mut page = [0; PAGE];
        assert!(adopted.staged(INO, index, &mut page).expect("sound"));
        assert!(page == right, "page {index}");
    }
}

/// S-14.9: the quarantine is what the redo kept has freed, before and after a flush.
#[test]
fn the_quarantine_follows_from_the_redo() {
    let store = store();
    work(&store);
    let quarantine = Quarantine {
        pages: store.space.quarantined(),
        nodes: store.nodes.quarantined(),
        inodes: store.inos.quarantined(),
    };
    let sizes = [quarantine.pages.len(), quarantine.nodes.len(), quarantine.inodes.len()];
    assert_eq!(sizes, [1, 1, 1]);
    let adopted = adopt(store);
    assert_eq!(adopted.quarantine().expect("sound"), quarantine);
    let store = self::store();
    work(&store);
    store.sync().expect("sync");
    assert!(store.space.quarantined().is_empty());
    let adopted = adopt(store);
    assert_eq!(adopted.quarantine().expect("sound"), Quarantine::default());
}

/// S-14.1, S-14.8: memory that is not a segment, or not this one, is refused.
#[test]
fn only_a_segment_is_adopted() {
    let segment = Segment::new(4, Guard::Off, false, true).expect("segment");
    let again = || {
        let same = segment.region().descriptor().expect("it lasts").try_clone_to_owned();
        Segment::adopt(same.expect("descriptor"), Guard::Off, false)
    };
    assert_eq!(again().expect("right").incarnation(), segment.incarnation());
    for at in 0..48 {
        segment.region().xor_u8(at, 1);
        assert!(again().is_err(), "header byte {at}");
        segment.region().xor_u8(at, 1);
    }
    again().expect("right again");
    let other = Region::lasting("other", 8192, Guard::Off, false).expect("region");
    let other = other
        .descriptor()
        .expect("it lasts")
        .try_clone_to_owned()
        .expect("descriptor");
    assert!(Segment::adopt(other, Guard::Off, false).is_err());
    let file = std::fs::File::open("/proc/self/exe").expect("a file that can change its size");
    assert!(Segment::adopt(file.into(), Guard::Off, false).is_err());
}
