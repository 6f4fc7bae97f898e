//! Which frame is replaced (decision 0673).

use super::{Cache, Pin, State};
use keepfs_format::{Kind, MetaId, Space};

const FRAMES: u32 = 64;

/// A leaf or index of a directory.
fn node(number: u64) -> MetaId {
    MetaId::new(Space::Nodes, number)
}

/// Puts a metablock into a frame, as a fetch does.
fn put(cache: &Cache, id: MetaId, kind: Kind) -> Pin<'_> {
    let (frame, _) = cache.take().expect("a frame is clean and not pinned");
    cache.slot(frame).heat.begin(kind as u8);
    cache.insert(id, frame).expect("it is not there yet")
}

/// Fetches so many leaves from `first` on, each of which is used that once.
fn scan(cache: &Cache, first: u64, leaves: u64) {
    (first..first + leaves).for_each(|number| drop(put(cache, node(number), Kind::DirLeaf)));
}

fn is_there(cache: &Cache, id: MetaId) -> bool {
    cache.peek(id).is_some()
}

/// A cache full of leaves that were used once, beside `id`, which is used again.
fn full_with(id: MetaId, kind: Kind) -> Cache {
    let cache = Cache::new(FRAMES, None).unwrap();
    drop(put(&cache, id, kind));
    scan(&cache, 1000, u64::from(FRAMES) - 1);
    assert!(cache.pin(id).is_some());
    cache
}

#[test]
fn pages_that_lead_to_others_outlast_a_scan() {
    let turn = u64::from(FRAMES);
    for (id, kind, turns) in [
        (node(1), Kind::DirIndex, 4),
        (MetaId::map(Space::Nodes, 0, 1), Kind::Map, 4),
        (MetaId::new(Space::Inodes, 1), Kind::Inodes, 3),
        (node(1), Kind::DirLeaf, 2),
    ] {
        let cache = full_with(id, kind);
        // So many turns of the hand, in each of which it passes that one frame.
        scan(&cache, 2000, turns * (turn - 1));
        assert!(is_there(&cache, id), "{kind:?} went to leaves that nobody uses again");
        scan(&cache, 3000, turn);
        assert!(!is_there(&cache, id), "{kind:?} stays though nobody uses it any more");
    }
}

#[test]
fn pages_in_use_outlast_any_scan() {
    let (index, leaf) = (node(1), node(2));
    let cache = full_with(index, Kind::DirIndex);
    drop(put(&cache, leaf, Kind::DirLeaf));
    for round in 0..100 {
        assert!(cache.pin(index).is_some() && cache.pin(leaf).is_some(), "round {round}");
        scan(&cache, 5000 + 100 * round, u64::from(FRAMES) / 2);
    }
}

#[test]
fn what_was_used_once_goes_before_what_was_used_twice() {
    let cache = Cache::new(FRAMES, None).unwrap();
    scan(&cache, 0, u64::from(FRAMES));
    let twice = |number: &u64| number.is_multiple_of(2);
    (0..u64::from(FRAMES))
        .filter(twice)
        .for_each(|number| assert!(cache.pin(node(number)).is_some()));
    scan(&cache, 1000, u64::from(FRAMES) / 2);
    for number in 0..u64::from(FRAMES) {
        assert_eq!(is_there(&cache, node(number)), twice(&number), "leaf {number}");
    }
}

#[test]
fn the_hand_finds_a_frame_when_all_are_hot() {
    let cache = Cache::new(FRAMES, None).unwrap();
    for number in 0..u64::from(FRAMES) {
        drop(put(&cache, node(number), Kind::DirIndex));
        assert!(cache.pin(node(number)).is_some());
    }
    assert!(cache.take().is_some_and(|(_, held)| held.is_some()));
}

///
#[test]
fn frames_that_are_pinned_or_dirty_stay() {
    let cache = Cache::new(4, None).unwrap();
    let pinned = put(&cache, node(1), Kind::DirLeaf);
    let unclean = [
        State {
            dirty: 1,
            in_flight: false,
        },
        State {
            dirty: 0,
            in_flight: true,
        },
    ];
    for (number, state) in (2..).zip(unclean) {
        *put(&cache, node(number), Kind::DirLeaf).slot().state.lock() = state;
    }
    // The fourth frame was never used.
    assert_eq!(cache.take().map(|(_, held)| held), Some(None));
    assert!(cache.take().is_none(), "no frame is clean");
    drop(pinned);
    assert_eq!(cache.take().and_then(|(_, held)| held), Some(node(1)));
}

/// S-16.29.
#[test]
fn a_cache_that_nobody_waits_for_is_not_made() {
    use core::sync::atomic::{AtomicU32, Ordering};
    static ASKED: AtomicU32 = AtomicU32::new(0);
    let is_given_up = || ASKED.fetch_add(1, Ordering::Relaxed) == 2;
    let count = 4 * super::PIECE as u32;
    assert!(Cache::new(count, Some(is_given_up)).is_none());
    assert_eq!(ASKED.load(Ordering::Relaxed), 3, "it ends at once");
    assert!(Cache::new(count, Some(|| false)).is_some());
}
