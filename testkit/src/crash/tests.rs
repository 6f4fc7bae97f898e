//! Tests of crash states against an independent reading of the fault model.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::sim::{Faults, SECTOR, When};
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class, Device, PAGE, PageNo};

fn write(device: &dyn Device, at: u64, byte: u8, pages: usize) {
    let data = vec![byte; pages * PAGE];
    device.write(PageNo(at), &data, Class::Data).unwrap();
}

fn byte_at(image: &Image, page: u64) -> u8 {
    image.bytes(PageNo(page))[0]
}

/// The page values (first bytes) of all states of a plan.
fn values(plan: &CrashPlan, base: &Image, pages: u64) -> HashSet<Vec<u8>> {
    let durable = plan.durable(base);
    let contents = plan.states().map(|state| state.content(&durable));
    contents
        .map(|image| (0..pages).map(|page| byte_at(&image, page)).collect())
        .collect()
}

#[test]
fn flushed_writes_are_in_every_state_and_others_in_any_combination() {
    let device = SimDevice::new(4);
    write(&device, 0, 1, 1);
    device.flush().unwrap();
    write(&device, 1, 2, 2);
    let recording = device.recording();
    let plan = CrashPlan::new(&recording.log, 3, 0);
    assert_eq!((plan.in_flight(), plan.count()), (2, 4 + 2 * 60));
    let expected = [[1, 0, 0, 0], [1, 2, 0, 0], [1, 0, 2, 0], [1, 2, 2, 0]];
    let expected = expected.into_iter().map(|v| v.to_vec()).collect();
    assert_eq!(values(&plan, &recording.base, 4), expected);
    let before_flush = CrashPlan::new(&recording.log, 1, 0);
    assert_eq!(before_flush.in_flight(), 1);
    let before_all = CrashPlan::new(&recording.log, 0, 0);
    assert_eq!((before_all.in_flight(), before_all.count()), (0, 1));
}

#[test]
fn a_later_write_of_the_same_page_wins_if_kept() {
    let device = SimDevice::new(1);
    write(&device, 0, 1, 1);
    write(&device, 0, 2, 1);
    let recording = device.recording();
    let plan = CrashPlan::new(&recording.log, 2, 0);
    let seen = values(&plan, &recording.base, 1);
    assert_eq!(seen, HashSet::from([vec![0], vec![1], vec![2]]));
}

#[test]
fn torn_pages_mix_old_and_new_sectors() {
    let mut base = Image::new(1);
    base.change(PageNo(0), |bytes| bytes.fill(1));
    let device = SimDevice::over(base);
    write(&device, 0, 2, 1);
    let recording = device.recording();
    let plan = CrashPlan::new(&recording.log, 1, 0);
    let durable = plan.durable(&recording.base);
    let mut patterns = HashSet::new();
    for state in plan.states() {
        let image = state.content(&durable);
        let sectors: Vec<u8> = image
            .bytes(PageNo(0))
            .chunks(SECTOR)
            .map(|sector| {
                assert!(sector.iter().all(|&byte| byte == sector[0]));
                sector[0]
            })
            .collect();
        patterns.insert(sectors);
    }
    // Old, new, 7 first, 7 last, 6 without one.
    assert_eq!(patterns.len(), 22);
    assert!(patterns.contains(&vec![2, 2, 2, 1, 1, 1, 1, 1]));
    assert!(patterns.contains(&vec![1, 1, 1, 1, 1, 1, 1, 2]));
    assert!(patterns.contains(&vec![2, 2, 1, 2, 2, 2, 2, 2]));
}

#[test]
fn discards_are_kept_or_lost_as_a_whole() {
    let device = SimDevice::new(3);
    write(&device, 0, 5, 3);
    device.flush().unwrap();
    device.discard(PageNo(1), 2).unwrap();
    let recording = device.recording();
    let plan = CrashPlan::new(&recording.log, 3, 0);
    assert_eq!(plan.count(), 2);
    let expected = HashSet::from([vec![5, 5, 5], vec![5, 0, 0]]);
    assert_eq!(values(&plan, &recording.base, 3), expected);
}

#[test]
fn a_lying_flush_leaves_writes_in_flight() {
    let device = SimDevice::new(2);
    device.set_faults(Faults::none().lying_flush(When::Nth(1)));
    write(&device, 0, 1, 1);
    device.flush().unwrap();
    let recording = device.recording();
    let plan = CrashPlan::new(&recording.log, recording.log.len(), 0);
    assert_eq!(plan.in_flight(), 1);
    device.flush().unwrap();
    let recording = device.recording();
    let plan = CrashPlan::new(&recording.log, recording.log.len(), 0);
    assert_eq!(plan.in_flight(), 0);
}

#[test]
fn recovery_can_crash_too() {
    let device = SimDevice::new(2);
    write(&device, 0, 1, 1);
    let recording = device.recording();
    let mut seen = HashSet::new();
    for point in Sweep::new(&recording, 0) {
        for state in point.plan.states() {
            let recovering = point.image(&state);
            write(&recovering, 1, 9, 1);
            assert_eq!(recovering.log_len(), 1);
            let inner = recovering.recording();
            for inner_point in Sweep::new(&inner, 0) {
                for inner_state in inner_point.plan.states() {
                    let image = inner_point.content(&inner_state);
                    seen.insert((byte_at(&image, 0), byte_at(&image, 1)));
                }
            }
        }
    }
    assert_eq!(seen, HashSet::from([(0, 0), (0, 9), (1, 0), (1, 9)]));
    let untouched = recording.replay();
    assert_eq!(byte_at(&untouched, 1), 0);
}

#[test]
fn states_can_be_named_and_told() {
    let device = SimDevice::new(20);
    for page in 0..12 {
        write(&device, page, page as u8 + 1, 1);
    }
    let recording = device.recording();
    let plan = CrashPlan::new(&recording.log, 12, 7);
    let durable = plan.durable(&recording.base);
    for (index, state) in plan.states().enumerate() {
        let again = plan.state(index as u64).unwrap();
        assert_eq!(again.key(&durable), state.key(&durable));
    }
    assert!(plan.state(plan.count()).is_none());
    let told = plan.state(plan.count() - 1).unwrap().to_string();
    assert!(told.contains("12 units in flight"), "{told}");
    assert!(told.contains("unit 11 torn"), "{told}");
}

#[test]
fn equal_contents_share_a_key_and_others_do_not() {
    let device = SimDevice::new(8);
    for (page, byte) in [(0, 1), (1, 2), (0, 1), (3, 4)] {
        write(&device, page, byte, 1);
    }
    let recording = device.recording();
    let mut by_key = std::collections::HashMap::new();
    for point in Sweep::new(&recording, 0) {
        for state in point.plan.states() {
            let image = point.content(&state);
            let first = by_key.entry(image.digest()).or_insert(image.clone());
            assert_eq!(first.first_difference(&image), None);
        }
    }
    // Eight combinations of whole pages and, for the three pages, their torn forms among others.
    assert!(by_key.len() > 8);
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u8, usize),
    Flush,
    Discard(u64, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0u64..30, 1u8..255, 1usize..3).prop_map(|(a, b, n)| Step::Write(a, b, n)),
        1 => Just(Step::Flush),
        1 => (0u64..30, 1u64..3).prop_map(|(a, n)| Step::Discard(a, n)),
    ];
    prop::collection::vec(step, 0..25)
}

fn run(device: &dyn Device, step: &Step) {
    match *step {
        Step::Write(at, byte, pages) => write(device, at, byte, pages),
        Step::Flush => device.flush().unwrap(),
        Step::Discard(at, pages) => device.discard(PageNo(at), pages).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn replaying_the_log_gives_the_final_content(steps in steps()) {
        let (device, plain) = (SimDevice::new(32), RamDevice::new(32));
        for step in &steps {
            run(&device, step);
            run(&plain, step);
        }
        let expected = Image::capture(&plain).unwrap();
        let recording = device.recording();
        prop_assert_eq!(recording.replay().first_difference(&expected), None);
        prop_assert_eq!(device.image().first_difference(&expected), None);
        let plan = CrashPlan::new(&recording.log, recording.log.len(), 0);
        let kept = plan.cut(PersistOrder::OldestFirst, plan.in_flight());
        let kept = kept.content(&plan.durable(&recording.base));
        prop_assert_eq!(kept.digest(), expected.digest());
    }

    #[test]
    fn a_sweep_carries_the_durable_content(steps in steps()) {
        let device = SimDevice::new(32);
        for step in &steps {
            run(&device, step);
        }
        let recording = device.recording();
        let mut positions = 0;
        for point in Sweep::new(&recording, 3) {
            let alone = CrashPlan::new(&recording.log, point.plan.position(), 3);
            prop_assert_eq!(alone.durable(&recording.base).digest(), point.durable.digest());
            prop_assert_eq!(alone.count(), point.plan.count());
            let last_flush = recording.log[..point.plan.position()]
                .iter()
                .rposition(|entry| entry.event == crate::sim::Event::Flush);
            let durable = recording.replay_first(last_flush.unwrap_or(0));
            prop_assert_eq!(durable.first_difference(&point.durable), None);
            positions += 1;
        }
        prop_assert_eq!(positions, recording.log.len() + 1);
    }

    #[test]
    fn every_page_of_every_state_is_of_some_write(steps in steps()) {
        let device = SimDevice::new(32);
        for step in &steps {
            run(&device, step);
        }
        let recording = device.recording();
        let mut known: Vec<HashSet<u8>> = vec![HashSet::from([0]); 32];
        for step in &steps {
            if let Step::Write(at, byte, pages) = *step {
                (at..at + pages as u64).for_each(|page| { known[page as usize].insert(byte); });
            }
        }
        for point in Sweep::new(&recording, 3) {
            for state in point.plan.sample(60) {
                point.content(&state).for_each(|at, page| {
                    let known = &known[at.0 as usize];
                    assert!(page.bytes().iter().step_by(SECTOR).all(|byte| known.contains(byte)));
                });
            }
        }
    }
}
