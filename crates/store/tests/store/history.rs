//! The history across openings, torn halves and floods (S-18.1, S-2.7).

use keepfs_format::history::{self, EVENTS, Event, Lasting};
use keepfs_format::{MetaId, PAGE, Space};
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class, Device, PageNo};
use keepfs_store::{FINDINGS_ROOM, FormatOptions, Guard, Store, StoreOptions};
use parking_lot::Mutex;
use std::sync::Arc;

/// Where: a copy of a metablock on the device (S-18.5).
const COPY: u8 = 2;
/// What was done: nothing (S-18.5).
const NOTHING: u8 = 10;

fn device() -> Arc<RamDevice> {
    let device = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    device
}

fn open(device: &Arc<RamDevice>) -> Arc<Store> {
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 0,
        background: false,
        guard: Guard::Off,
        ..StoreOptions::default()
    };
    Store::open(device.clone(), &options).expect("open")
}

fn event(text: &str) -> Event {
    Event {
        seconds: 77,
        place: 1,
        verdict: 2,
        done: 3,
        id: 0x0100_0000_0000_0005,
        old: vec![1, 2, 3],
        new: vec![4, 5],
        text: text.to_owned(),
        ..Event::default()
    }
}

fn lasting(inode: u64, last: i64) -> Lasting {
    Lasting {
        place: 3,
        inode,
        from: 4096,
        length: 4096,
        first: last,
        last,
        count: 1,
        ..Lasting::default()
    }
}

/// S-18.4, S-18.5, S-18.6: all of it is there again behind the next opening, and numbers go on.
#[test]
fn what_was_put_and_told_is_there_again() {
    let device = device();
    let store = open(&device);
    store.history().put("scrub", b"half way").expect("put");
    store.history().tell(event("one"), Some(lasting(9, 100)));
    store.history().tell(event("two"), Some(lasting(9, 200)));
    store.keep_history();
    drop(store);
    let store = open(&device);
    // Told before anything was read: the number is known when it is.
    store.history().tell(event("three"), None);
    assert_eq!(store.history().get("scrub").as_deref(), Some(&b"half way"[..]));
    let told: Vec<(u64, String)> = store
        .history()
        .events(0)
        .into_iter()
        .map(|e| (e.number, e.text))
        .collect();
    assert_eq!(told, [(1, "one".into()), (2, "two".into()), (3, "three".into())]);
    assert_eq!(
        store.history().events(1)[0],
        Event {
            number: 2,
            ..event("two")
        }
    );
    let damage = store.history().damage();
    assert_eq!(
        (damage.len(), damage[0].count, damage[0].first, damage[0].last),
        (1, 2, 100, 200)
    );
    store.history().name(&[(9, b"/a/b".to_vec())].into(), |_| true);
    store.keep_history();
    drop(store);
    let store = open(&device);
    assert_eq!(store.history().damage()[0].path, b"/a/b");
    assert_eq!(store.history().clear_damage(), 1);
    store.history().remove("scrub");
    store.close().expect("close");
    let store = open(&device);
    assert!(store.history().damage().is_empty() && store.history().get("scrub").is_none());
}

/// S-18.2, S-18.3: a half that was torn while it was written leaves the one before it.
#[test]
fn a_torn_half_leaves_the_other() {
    let device = device();
    let store = open(&device);
    let run = store.pool().history.expect("region");
    for n in 0..4u8 {
        store.history().put("scrub", &[n; 100]).expect("put");
        store.keep_history();
    }
    drop(store);
    // Generation 4 lies in half 0, 3 in half 1.
    let mut page = [0; PAGE];
    device.read(PageNo(run.start), &mut page).expect("read");
    page[2000..].fill(0);
    page[100] ^= 1;
    device.write(PageNo(run.start), &page, Class::Metadata).expect("tear");
    let store = open(&device);
    assert_eq!(store.history().get("scrub"), Some(vec![2; 100]));
    store.history().put("scrub", b"on").expect("put");
    store.keep_history();
    drop(store);
    assert_eq!(open(&device).history().get("scrub").as_deref(), Some(&b"on"[..]));
}

/// S-18.4: nothing grows without bound, and a flood of events leaves the records alone.
#[test]
fn floods_are_bounded() {
    let device = device();
    let store = open(&device);
    store.history().put("scrub", &[7; 1000]).expect("put");
    for n in 0..5000u64 {
        let mut long = event(&"long ".repeat(100));
        long.old = vec![1; 64];
        store.history().tell(long, Some(lasting(n, n as i64)));
    }
    assert!(store.history().put("big", &vec![0; 1 << 20]).is_err());
    assert!(store.history().put("events", b"").is_err());
    store.keep_history();
    drop(store);
    let store = open(&device);
    let events = store.history().events(0);
    assert!(events.len() > 5, "{}", events.len());
    // They count on behind those that made room, the last one is there.
    assert_eq!(events.last().map(|e| e.number), Some(5000));
    let damage = store.history().damage();
    assert_eq!(damage.last().map(|d| d.inode), Some(4999));
    assert_eq!(store.history().get("scrub"), Some(vec![7; 1000]));
}

/// A pool without a region has a history in memory (S-2.7), and its pages are data's.
#[test]
fn a_pool_without_a_region_keeps_nothing() {
    let device = Arc::new(RamDevice::new(4096));
    let format = FormatOptions {
        history_pages: Some(0),
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &format).expect("format");
    let store = open(&device);
    store.history().put("scrub", b"here").expect("put");
    store.keep_history();
    assert_eq!(store.history().get("scrub").as_deref(), Some(&b"here"[..]));
    drop(store);
    assert_eq!(open(&device).history().get("scrub"), None);
}

/// S-18.7: what was told and not written is told by the next server, once, under the same number; what was written is not set aside.
#[test]
fn what_a_dead_server_told_last_is_told_by_the_next() {
    let device = device();
    let store = open(&device);
    let aside = Arc::new(Mutex::new(Vec::new()));
    let place = aside.clone();
    store
        .history()
        .set_aside(move |findings| findings.clone_into(&mut place.lock()));
    store.history().tell(event("one"), Some(lasting(9, 100)));
    let stale = aside.lock().clone();
    store.keep_history();
    assert_eq!(*aside.lock(), [], "it is written");
    store.history().tell(event("two"), Some(lasting(9, 200)));
    store.history().tell(event("three"), None);
    store.history().note(lasting(7, 300));
    let (findings, told, damage) = (
        aside.lock().clone(),
        store.history().events(0),
        store.history().damage(),
    );
    drop(store);
    let mut left = stale;
    for _ in 0..2 {
        let store = open(&device);
        // The same death again, and what was on the device before it.
        store.history().adopt(&left);
        store.history().adopt(&findings);
        assert_eq!(store.history().events(0), told);
        assert_eq!(store.history().damage(), damage);
        store.keep_history();
        left = findings.clone();
    }
    let store = open(&device);
    let place = aside.clone();
    store
        .history()
        .set_aside(move |findings| findings.clone_into(&mut place.lock()));
    for _ in 0..200 {
        store.history().tell(event(&"long ".repeat(100)), None);
    }
    let all = aside.lock().clone();
    assert!(all.len() <= FINDINGS_ROOM, "{}", all.len());
    let records = history::decode(&all).expect("records");
    let (_, event) = records.iter().rfind(|(name, _)| name == EVENTS).expect("an event");
    let last = Event::decode_all(event).and_then(|mut events| events.pop());
    assert_eq!(last, store.history().events(0).pop().map(|e| Event { number: 0, ..e }));
}

/// S-18.13: what nothing was done about is an event once an hour, and only while the list has its damage as it was told.
#[test]
fn what_repeats_is_counted() {
    let store = open(&device());
    let history = store.history();
    let bad = |seconds: i64, text: &str| Event {
        done: NOTHING,
        seconds,
        ..event(text)
    };
    let entry = || {
        vec![Lasting {
            verdict: 2,
            done: NOTHING,
            ..lasting(9, 100)
        }]
    };
    assert!(!history.is_told(&bad(100, "bad"), &entry()), "nothing was told");
    history.tell(bad(100, "bad"), entry());
    assert!(history.is_told(&bad(3699, "bad"), &entry()));
    let now = &history.damage()[0];
    assert_eq!((now.count, now.first, now.last), (2, 100, 3699));
    assert!(!history.is_told(&bad(3700, "bad"), &entry()), "an hour ago");
    assert!(!history.is_told(&bad(3000, "other"), &entry()), "something else of it");
    assert!(!history.is_told(&bad(3000, "bad"), &[]), "nothing counts it");
    let mended = event("mended");
    history.tell(mended.clone(), Some(lasting(7, 77)));
    assert!(!history.is_told(&mended, &[lasting(7, 77)]), "it was damaged anew");
    history.clear_damage();
    assert!(
        !history.is_told(&bad(3000, "bad"), &entry()),
        "somebody took note of it"
    );
}

/// S-18.5: events of losses outlive any number of others, in memory and on the device; a flood of losses leaves room for others.
#[test]
fn losses_outlive_what_was_mended() {
    let device = device();
    let store = open(&device);
    let loss = |text: &str| Event {
        done: NOTHING,
        ..event(text)
    };
    store.history().tell(loss("lost"), None);
    for _ in 0..3000 {
        store.history().tell(event("mended"), None);
    }
    let is_there = |store: &Store| {
        let events = store.history().events(0);
        let numbers: Vec<u64> = events.iter().map(|event| event.number).collect();
        assert!(numbers.is_sorted() && numbers.last() == Some(&3001));
        assert!(events.len() > 50, "{}", events.len());
        assert_eq!((events[0].number, &events[0].text[..]), (1, "lost"));
    };
    is_there(&store);
    store.keep_history();
    drop(store);
    let store = open(&device);
    is_there(&store);
    store.history().tell(event("mended last"), None);
    for _ in 0..3000 {
        store.history().tell(loss("flood"), None);
    }
    store.history().tell(event("mended behind it"), None);
    let both = |store: &Store| {
        let events = store.history().events(0);
        assert_eq!(events.last().map(|event| event.number), Some(6003));
        assert!(events.len() <= 1024);
        assert!(events.iter().filter(|event| event.is_loss()).count() > 20);
        assert!(events.iter().any(|event| event.text == "mended last"));
    };
    both(&store);
    store.keep_history();
    drop(store);
    both(&open(&device));
}

/// S-18.6, S-16.14: of a list that is full what was lost of the redo goes last.
#[test]
fn answered_changes_that_are_lost_outlive_other_damage() {
    let device = device();
    let store = open(&device);
    let lost = Lasting {
        place: 4,
        done: NOTHING,
        first: 1,
        last: 1,
        length: 3,
        count: 1,
        ..Lasting::default()
    };
    store.history().tell(event("redo"), Some(lost.clone()));
    for n in 2..5000u64 {
        store.history().tell(event("data"), Some(lasting(n, n as i64)));
    }
    let is_there = |store: &Store| {
        let damage = store.history().damage();
        assert_eq!((&damage[0], damage[0].is_of_answered()), (&lost, true));
        assert_eq!(damage.last().map(|entry| entry.inode), Some(4999));
    };
    is_there(&store);
    store.keep_history();
    drop(store);
    is_there(&open(&device));
}

/// S-16.14, H-5: what syncfs(2) asks is what the list says, whatever changed it.
#[test]
fn whether_answered_changes_are_lost_is_what_the_list_says() {
    let device = device();
    let store = open(&device);
    let tells = |store: &Store, is_there: bool| {
        let damage = store.history().damage();
        let listed = damage.iter().any(Lasting::is_of_answered);
        assert_eq!((store.history().tells_of_answered(), listed), (is_there, is_there));
    };
    let lost = |seconds: i64| Lasting {
        place: 4,
        done: NOTHING,
        inode: 0,
        from: 0,
        ..lasting(0, seconds)
    };
    tells(&store, false);
    store.history().tell(event("data"), Some(lasting(9, 1)));
    tells(&store, false);
    store.history().tell(event("redo"), Some(lost(1)));
    tells(&store, true);
    store.history().again(&lost(2));
    store.history().heal(&[lasting(9, 1)]);
    store.history().own(5, &[(9, 0, PAGE as u64)]);
    tells(&store, true);
    store.keep_history();
    drop(store);
    // Before anybody has read the list of the earlier life.
    let store = open(&device);
    assert!(store.history().tells_of_answered());
    store.history().clear_damage();
    tells(&store, false);
    store.history().note(lost(3));
    tells(&store, true);
    let list = store.history().damage();
    store.history().heal(&list);
    tells(&store, false);
    let findings = Arc::new(Mutex::new(Vec::new()));
    let place = findings.clone();
    let dead = open(&self::device());
    dead.history().set_aside(move |left| left.clone_into(&mut place.lock()));
    dead.history().note(lost(4));
    store.history().adopt(&findings.lock());
    tells(&store, true);
    store.history().clear_damage();
    store.keep_history();
    drop(store);
    assert!(!open(&device).history().tells_of_answered());
}

/// S-18.6: whose a lost metablock is, is kept, and what is met of it later is theirs.
#[test]
fn what_was_nobodys_is_owned() {
    let store = open(&device());
    let history = store.history();
    let lost = |id: MetaId, inode: u64, done: u8| Lasting {
        place: COPY,
        done,
        inode,
        id: id.0,
        from: 0,
        length: PAGE as u64,
        ..lasting(0, 100)
    };
    let (node, inodes) = (MetaId::new(Space::Nodes, 6), MetaId::new(Space::Inodes, 2));
    let told = |id: MetaId| {
        let list = history.damage().into_iter().filter(move |entry| entry.id == id.0);
        list.map(|entry| (entry.inode, entry.from, entry.count))
            .collect::<Vec<_>>()
    };
    // It was mended once, as of an inode.
    history.note(lost(node, 9, 5));
    history.tell(event("bad"), [lost(node, 0, NOTHING), lost(inodes, 0, NOTHING)]);
    assert_eq!(told(node), [(9, 0, 1), (0, 0, 1)]);
    history.own(node.0, &[(9, 0, PAGE as u64)]);
    history.own(inodes.0, &[(30, 32, 256), (33, 800, 256)]);
    assert_eq!(
        (told(node), told(inodes)),
        (vec![(9, 0, 2)], vec![(30, 32, 1), (33, 800, 1)])
    );
    history.note(lost(node, 0, NOTHING));
    history.note(lost(inodes, 0, NOTHING));
    assert_eq!(
        (told(node), told(inodes)),
        (vec![(9, 0, 3)], vec![(30, 32, 2), (33, 800, 2)])
    );
    history.own(node.0, &[(11, 0, PAGE as u64)]);
    assert_eq!(told(node), [(9, 0, 3)], "it is known whose it is");
    let again = Event {
        done: NOTHING,
        ..event("bad")
    };
    history.tell(again.clone(), [lost(node, 0, NOTHING)]);
    assert!(
        history.is_told(&again, &[lost(node, 0, NOTHING)]),
        "what repeats is no event"
    );
    // What is mended of all is told of all.
    history.note(lost(node, 0, 5));
    assert_eq!(told(node), [(9, 0, 5), (0, 0, 1)]);
}
