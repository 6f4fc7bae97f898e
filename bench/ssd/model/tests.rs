//! The model has the rates it was given.

use super::*;

#[test]
fn rates_are_those_of_the_profile() {
    let start = Instant::now();
    let mut queue = Queue::new(RECONFS, start);
    let mut end = start;
    for number in 0..1000 {
        end = queue.write(start, number * 1_000_000_007 % (1 << 30), 4096);
    }
    assert_eq!((end - start).as_millis(), 200, "5,000 a second");
    let begin = end;
    for number in 0..200 {
        end = queue.write(start, (1 << 40) + number * 1_000_000, 1_000_000);
    }
    assert!(((end - begin).as_secs_f64() - 1.0).abs() < 0.01, "200 MB/s");
    let begin = end;
    for number in 0..260 {
        end = queue.read(start, number * 1_000_000, 1_000_000);
    }
    assert!(((end - begin).as_secs_f64() - 1.0).abs() < 0.01, "260 MB/s");
}

#[test]
fn requests_wait_for_each_other_and_an_idle_device_does_not_save_time() {
    let start = Instant::now();
    let mut queue = Queue::new(RECONFS, start);
    assert_eq!(queue.flush(start), start + Duration::from_millis(1));
    assert_eq!(queue.flush(start), start + Duration::from_millis(2));
    let later = start + Duration::from_secs(5);
    assert_eq!(queue.flush(later), later + Duration::from_millis(1));
}

#[test]
fn two_streams_are_each_in_order() {
    let start = Instant::now();
    let mut queue = Queue::new(RECONFS, start);
    let places = [0, 1 << 30];
    for place in places {
        queue.write(start, place, 4096);
    }
    let before = queue.write(start, 5 << 30, 4096);
    for place in places {
        queue.write(start, place + 4096, 4096);
    }
    let both = queue.busy_until - before;
    assert!(both < Duration::from_micros(50), "{both:?}");
}
