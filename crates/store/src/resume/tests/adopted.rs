//! A store that is killed: who adopts its memory finds redo, staged pages and quarantine as they were (S-14.1, S-14.8,
//! S-14.9; ).

use super::*;
use crate::Guard;
use crate::{FormatOptions, Meaning, Purpose, Ref, Remains, Resumed, Store, StoreOptions};
use keepfs_flash::adopted::Adopted;
use keepfs_flash::recovery::freed::Freed;
use keepfs_flash::segment::Segment;
use keepfs_flash::segment::{RING, RING_AT, Word};
use keepfs_format::Kind;
use keepfs_format::PAGE;
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_memory::failpoint;
use keepfs_vault::undo::UndoLog;

const INO: u64 = 9;

fn options() -> StoreOptions {
    StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        lasting: true,
        audit: crate::Equations::NONE,
        ..StoreOptions::default()
    }
}

fn store() -> (Arc<dyn Device>, Arc<Store>) {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let store = Store::open(device.clone(), &options()).expect("open");
    (device, store)
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
    let pages = store.reserve(20, Purpose::New, crate::Near::Current).expect("pages");
    let runs = pages.runs().to_vec();
    transact(store, |t| runs.iter().try_for_each(|run| t.use_pages(*run)));
    pages.allocated();
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
fn adopt(store: Arc<Store>) -> Adopted {
    let mut remains = store.remains().expect("it lasts");
    drop(store);
    let mut take = |name| remains.take(name).expect("it has it");
    let undo = UndoLog::adopt(take("session"), Guard::Alias, false).expect("undo slots");
    Adopted::new(take("staging"), Guard::Alias, Some(&undo)).expect("segment")
}

/// A server that comes after.
fn resume(device: &Arc<dyn Device>, remains: Remains) -> (Arc<Store>, Resumed) {
    Store::resume(device.clone(), &options(), remains, |_| {}).expect("resumed")
}

/// What is staged.
fn staged(store: &Store) -> Vec<(u64, [u8; PAGE])> {
    let mut pages = Vec::new();
    for index in store.staged_pages(INO) {
        let mut page = [0; PAGE];
        assert!(store.staged(INO, index, &mut page).expect("sound"));
        pages.push((index, page));
    }
    pages
}

/// S-14.3: whatever store of a transaction the kill hits, redo and staged page agree that it is committed, or not.
#[test]
fn a_kill_anywhere_in_a_transaction_is_seen_whole_or_not_at_all() {
    let mut seen = [0, 0];
    // Most of its stores are of content, before the commit (S-14.6).
    for stores in (0..).step_by(17) {
        let (device, store) = store();
        work(&store);
        let before = store.last_seq();
        let remains = store.remains().expect("it lasts");
        let cut = failpoint::run(stores, || {
            transact(&store, |t| t.stage(INO, 0, 9, None, 0, b"the last"))
        });
        drop(store);
        let (store, resumed) = resume(&device, remains);
        // A kill within the store of a place leaves that one not right (S-14.15).
        let is_torn = |finding: &crate::Evidence| matches!(finding, crate::Evidence::Twice("staging", _, true));
        assert!(
            resumed.findings.iter().all(is_torn),
            "{stores} stores: {:?}",
            resumed.findings
        );
        assert!(resumed.findings.len() <= 1);
        assert_eq!(resumed.lost, 0, "{stores} stores");
        let committed = (store.last_seq() - before) as usize;
        let mut page = [0; PAGE];
        assert!(store.staged(INO, 0, &mut page).expect("sound"));
        assert_eq!(page.starts_with(b"the last"), committed == 1, "{stores} stores");
        assert_eq!(page[10..710], [1; 700]);
        seen[committed] += 1;
        if cut.is_ok() {
            break;
        }
    }
    assert!(seen[0] > 20 && seen[1] > 3, "{seen:?}");
}

#[test]
fn the_next_group_is_that_of_an_undisturbed_run() {
    let (_, store) = store();
    work(&store);
    let (last, durable) = (store.last_seq(), store.durable_seq());
    let pending = store.home.flash().log.redo.lock().take();
    let undisturbed = store
        .home
        .flash()
        .prepare(&store.frames, &pending)
        .expect("group")
        .group
        .payload;
    assert!(last > durable + 5 && undisturbed.len() > 100);
    let mut adopted = adopt(store);
    assert_eq!(adopted.last_seq(), last);
    assert!(adopted.next_group(durable).expect("group") == undisturbed);
    assert!(adopted.next_group(last).expect("nothing is left").is_empty());
}

/// S-16.5, S-16.18: the pool is what it was, staged pages too, and again when the resume is repeated with the same memory.
#[test]
fn a_resumed_pool_is_what_it_was() {
    let (device, store) = store();
    work(&store);
    let (last, durable, pages) = (store.last_seq(), store.durable_seq(), staged(&store));
    let remains = store.remains().expect("it lasts");
    drop(store);
    for beyond in [last - durable, 0] {
        let (store, resumed) = resume(&device, remains.duplicate().expect("again"));
        assert_eq!(
            (resumed.lost, resumed.beyond, resumed.findings),
            (0, beyond, Vec::new())
        );
        assert_eq!(store.last_seq(), last);
        assert!(staged(&store) == pages);
        store.kill();
    }
}

/// S-14.9: the quarantine is what the redo beyond the log has freed.
#[test]
fn the_quarantine_follows_from_the_redo() {
    let (_, store) = store();
    work(&store);
    let quarantine = store.alloc.space.quarantined();
    assert_eq!(quarantine.len(), 1);
    let durable = store.durable_seq();
    let adopted = adopt(store);
    let freed = |logged| {
        let mut freed = Freed::default();
        adopted.show_freed(logged, &mut freed).expect("sound");
        freed.into_runs()
    };
    assert_eq!(freed(durable), quarantine);
    assert_eq!(freed(adopted.last_seq()), []);
}

/// S-14.8: what was changed by something else is lost with all behind it, and told; what is before it is there.
#[test]
fn damaged_redo_is_told_and_what_is_before_it_recovered() {
    let (device, store) = store();
    work(&store);
    let (last, durable) = (store.last_seq(), store.durable_seq());
    let mut ring = vec![0; RING];
    store.home.flash().log.segment.ring_load(0, &mut ring[1..]);
    let mark = b"after the sync";
    let at = ring.windows(mark.len()).position(|w| w == mark).expect("in the ring");
    store.home.flash().log.segment.region().xor_u8(RING_AT + at - 1, 1);
    let remains = store.remains().expect("it lasts");
    drop(store);
    let (store, resumed) = resume(&device, remains);
    assert_eq!(resumed.lost, last - durable);
    assert_eq!(store.last_seq(), durable);
}

/// S-14.1, S-14.8: what a server of the layout before has acknowledged is there when another program follows it, also when that
/// keeps its memory (S-16.6).
#[test]
fn a_segment_of_the_layout_before_is_followed() {
    let (device, store) = store();
    work(&store);
    let (last, durable, pages) = (store.last_seq(), store.durable_seq(), staged(&store));
    store.home.flash().log.segment.become_former(store.last_seq());
    let mut remains = store.remains().expect("it lasts");
    drop(store);
    let read_only = StoreOptions {
        read_only: true,
        ..options()
    };
    for options in [read_only, options()] {
        let (store, resumed) = Store::resume(device.clone(), &options, remains, |_| {}).expect("resumed");
        assert_eq!(
            (resumed.lost, resumed.beyond, resumed.findings),
            (0, last - durable, Vec::new())
        );
        assert_eq!(store.last_seq(), last);
        assert!(staged(&store) == pages);
        assert!(!store.home.flash().log.segment.is_former());
        remains = store.remains().expect("it lasts");
    }
    let segment = Segment::adopt(remains.take("staging").expect("it has it"), Guard::Off, false);
    assert!(!segment.expect("a segment").is_former());
}

/// A cursor of layout 2 that ends within or behind the second entry.
const FEW: u64 = 160 << 32;

/// S-14.8: of the layout before nothing guards the words: what a stray write makes of them is told with its count.
#[test]
fn a_stray_write_into_words_of_the_layout_before_is_told() {
    for (word, value) in [
        (Word::Cursor, 0),
        (Word::Cursor, u64::MAX),
        (Word::Cursor, FEW),
        (Word::Last, u64::MAX),
        (Word::Followed, u64::MAX),
    ] {
        let (device, store) = store();
        work(&store);
        let (last, durable) = (store.last_seq(), store.durable_seq());
        store.home.flash().log.segment.become_former(store.last_seq());
        store
            .home
            .flash()
            .log
            .segment
            .region()
            .store_u64(word.at_before(), value);
        let remains = store.remains().expect("it lasts");
        drop(store);
        let (store, resumed) = resume(&device, remains);
        let lost = match (word, value) {
            // Its first entries are found.
            (Word::Cursor, FEW) => 1..last - durable,
            (Word::Cursor, _) => last - durable..last,
            _ => 0..1,
        };
        assert!(lost.contains(&resumed.lost), "{word:?} {value:#x}: {}", resumed.lost);
        assert_eq!(store.last_seq(), last - resumed.lost);
    }
}

/// A store that worked, after stray writes of 64 bytes from these places of its page 0 on: whether what it had acknowledged is
/// there, and what was told.
fn after_strays(places: &[usize], byte: u8) -> (u64, Resumed) {
    let (device, store) = store();
    work(&store);
    let (last, durable, pages) = (store.last_seq(), store.durable_seq(), staged(&store));
    assert!(last > durable + 5);
    for at in places {
        store.home.flash().log.segment.region().store(*at, &[byte; 64]);
    }
    let remains = store.remains().expect("it lasts");
    drop(store);
    let (store, resumed) = resume(&device, remains);
    assert_eq!(store.last_seq(), last - resumed.lost);
    assert!(resumed.lost > 0 || staged(&store) == pages);
    (last - durable, resumed)
}

/// S-14.10: with one stray write nothing is lost, nothing is taken for something else, and it is told.
#[test]
fn one_stray_write_into_page_0_is_told_and_costs_nothing() {
    for byte in [0, 0xFF] {
        for at in [0, 40, 64, 72, 80, 100, 140, 170, 2048, 2048 + 64, 2048 + 72, 2048 + 170] {
            let (_, resumed) = after_strays(&[at], byte);
            assert_eq!(resumed.lost, 0, "{byte:#x} at {at}");
            let is_told = |finding| matches!(finding, &crate::Evidence::Twice("staging", _, true));
            assert!(resumed.findings.iter().all(is_told), "{:?}", resumed.findings);
            // Zeros at the second header are of a server that had none.
            assert!(
                !resumed.findings.is_empty() || at == 2048 && byte == 0,
                "{byte:#x} at {at}"
            );
        }
    }
}

/// S-14.10: an older word that comes back with its CRC over one of its places is not believed: the other one is further on.
#[test]
fn an_older_word_over_one_place_costs_nothing() {
    for word in [Word::Cursor, Word::Last, Word::Followed] {
        for apart in [0, 2048] {
            let (device, store) = store();
            node(&store, 1);
            let mut older = [0; 16];
            store.home.flash().log.segment.region().load(word.at(), &mut older);
            work(&store);
            let last = store.last_seq();
            store.home.flash().log.segment.region().store(word.at() + apart, &older);
            let remains = store.remains().expect("it lasts");
            drop(store);
            let (store, resumed) = resume(&device, remains);
            assert_eq!((resumed.lost, store.last_seq()), (0, last), "{word:?}");
            let told = [crate::Evidence::Twice("staging", word.name(), true)];
            // The first place further on is what a kill between the two leaves.
            assert_eq!(resumed.findings, told[..usize::from(apart == 0)], "{word:?}");
        }
    }
}

/// S-14.14: damage at both places is told, with the number of transactions that it costs.
#[test]
fn what_is_damaged_at_both_places_is_told_and_counted() {
    for byte in [0, 0xFF] {
        let (unsynced, resumed) = after_strays(&[0, 2048], byte);
        assert_eq!(resumed.lost, unsynced, "headers");
        let (unsynced, resumed) = after_strays(&[64, 2048 + 64], byte);
        assert_eq!(resumed.lost, unsynced, "cursor and others");
        assert!(resumed.device_failed, "nobody knows whether it had");
        let cursor = [Word::Cursor.at() + 16 - 64, Word::Cursor.at() + 16 - 64 + 2048];
        let (unsynced, resumed) = after_strays(&cursor, byte);
        assert_eq!(resumed.lost, unsynced, "header and cursor");
    }
}

/// A store of which the log has all, but for the last `beyond` transactions, after `strays`; how many are told as lost.
fn lost_of_synced(beyond: u64, strays: impl Fn(&Store, &Remains)) -> u64 {
    let (device, store) = store();
    work(&store);
    store.sync().expect("sync");
    for n in 0..beyond {
        node(&store, n as u8);
    }
    let remains = store.remains().expect("it lasts");
    strays(&store, &remains);
    drop(store);
    let (store, resumed) = resume(&device, remains);
    assert!(!resumed.findings.is_empty());
    drop(store);
    resumed.lost
}

fn over_page_0(store: &Store, from: usize, bytes: usize) {
    for at in [from, from + 2048] {
        store.home.flash().log.segment.region().store(at, &vec![0x5A; bytes]);
    }
}

/// S-14.17: where page 0 is lost, and undo slots and ring show that the log has all, nothing else is.
#[test]
fn nothing_is_lost_with_page_0_where_the_log_has_all() {
    for (from, bytes) in [(64, 16), (64, 64), (80, 16), (0, 48), (0, 2048)] {
        let lost = |beyond| lost_of_synced(beyond, |store, _| over_page_0(store, from, bytes));
        assert_eq!(lost(0), 0, "{bytes} bytes from {from}");
        // Without the last word alone the entries are found.
        let is_found = from == 80;
        assert_eq!(lost(1), u64::from(!is_found), "{bytes} bytes from {from}");
    }
}

/// S-14.17: one of undo slots and ring is enough to say that something is lost, and so is a slot that says nothing.
#[test]
fn what_is_not_shown_is_told_as_lost() {
    let ring = |store: &Store| {
        over_page_0(store, 64, 16);
        store
            .home
            .flash()
            .log
            .segment
            .region()
            .store(RING_AT, &vec![0x5A; RING / 2]);
    };
    assert_eq!(lost_of_synced(1, |store, _| ring(store)), 1);
    let slot = |word, xor: fn(&Store) -> u64| {
        move |store: &Store, remains: &Remains| {
            over_page_0(store, 64, 16);
            let mut again = remains.duplicate().expect("again");
            let undo = UndoLog::adopt(again.take("session").expect("it has it"), Guard::Alias, false).expect("slots");
            // One thread has one slot.
            undo.scribble(0, word, xor(store));
        }
    };
    assert_eq!(lost_of_synced(1, slot(8, Store::last_seq)), 1);
    assert_eq!(lost_of_synced(0, slot(0, |_| 1 << 50)), 1);
}

/// S-14.14: a ring in which less is found than should be there is not believed to be right.
#[test]
fn a_ring_that_lacks_its_end_is_told() {
    for followed in [false, true] {
        let (device, store) = store();
        work(&store);
        // It stages nothing.
        node(&store, 77);
        let (last, durable) = (store.last_seq(), store.durable_seq());
        let given_up = store.home.flash().log.segment.word(Word::Last).expect("right");
        let number = if followed { given_up } else { last };
        store.home.flash().log.segment.set_word(Word::Cursor, number << 40);
        let told = match followed {
            true => store.home.flash().log.segment.word(Word::Followed).expect("right"),
            false => last,
        };
        assert!(told > durable);
        let remains = store.remains().expect("it lasts");
        drop(store);
        let (_, resumed) = resume(&device, remains);
        assert_eq!(resumed.lost, told - durable);
    }
}
