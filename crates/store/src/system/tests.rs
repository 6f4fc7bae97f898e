//! Tests of the pages that belong to the pool itself.

use super::*;
use keepfs_pool::{FormatOptions, first_superblock};
use keepfs_testkit::sim::SimDevice;

fn system() -> System {
    let options = FormatOptions {
        log_pages: Some(32),
        ..FormatOptions::default()
    };
    let sb = first_superblock(&SimDevice::new(1024), &options).expect("superblock");
    System::of(&Pool::of(&sb))
}

/// S-2.4, S-2.7: slots 0, 256, 512, 768, the log behind the first one and the history behind the second.
#[test]
fn slots_log_and_history_belong_to_the_pool() {
    let system = system();
    let found: Vec<u64> = (0..1024).filter(|page| system.has(*page)).collect();
    let log = 0..=32;
    assert_eq!(found, log.chain(256..=260).chain([512, 768]).collect::<Vec<u64>>());
}

/// A chunk counts from the moment it is added.
#[test]
fn chunks_count_when_they_are_added() {
    let system = system();
    assert_eq!(system.first_in(100..256), None);
    system.add(Run { start: 120, count: 8 });
    system.add(Run { start: 200, count: 1 });
    assert_eq!(system.first_in(33..120), None);
    assert_eq!(system.first_in(33..121), Some(120));
    assert_eq!(system.first_in(127..300), Some(127));
    assert_eq!(system.first_in(128..300), Some(200));
    assert_eq!(system.first_in(201..300), Some(256));
    assert!(system.has(120) && !system.has(119) && !system.has(128));
}

/// A change is seen by threads of all stripes.
#[test]
fn every_thread_sees_a_chunk_come_and_go() {
    let system = system();
    let run = Run { start: 120, count: 8 };
    let seen = || {
        let ask = || std::thread::scope(|scope| scope.spawn(|| system.has(121)).join().expect("no panic"));
        (0..STRIPES).map(|_| ask()).collect::<Vec<bool>>()
    };
    system.add(run);
    assert_eq!(seen(), [true; STRIPES]);
    system.remove(run);
    assert_eq!(seen(), [false; STRIPES]);
}

/// However many runs there are, one more takes no copy of them (P-7).
#[test]
fn a_change_copies_nothing() {
    let system = system();
    let place = || Arc::as_ptr(&system.runs());
    let before = place();
    system.add(Run { start: 120, count: 8 });
    assert_eq!(place(), before);
}
