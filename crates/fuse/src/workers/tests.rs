//! The queue alone: when threads are started, the order, and the end.

use super::*;
use std::sync::Arc;

fn job(unique: u64) -> Work {
    Work::Request(Job {
        channel: Channel::FIRST,
        unique,
        task: 0,
        arrived: Instant::now(),
        request: RequestBuf::default(),
    })
}

fn number(work: Option<Work>) -> u64 {
    match work {
        Some(Work::Request(job)) => job.unique,
        other => panic!("{other:?}"),
    }
}

#[test]
fn threads_start_up_to_the_limit() {
    let workers = Workers::new(2);
    assert!(workers.push(job(1)));
    assert!(workers.push(job(2)));
    assert!(!workers.push(job(3)), "two are enough");
    assert_eq!(number(workers.next()), 1);
    workers.ended();
    assert!(workers.push(job(4)), "one has ended");
}

#[test]
fn jobs_are_done_in_order() {
    let workers = Workers::new(1);
    for unique in 1..=3 {
        assert_eq!(workers.push(job(unique)), unique == 1, "one thread is the limit");
    }
    assert_eq!(number(workers.next()), 1);
    assert_eq!(number(workers.poll()), 2);
    assert_eq!(number(workers.poll()), 3);
    assert!(workers.poll().is_none());
}

#[test]
fn stop_lets_everything_be_done_first() {
    let workers = Arc::new(Workers::new(4));
    let mut threads = Vec::new();
    let done = Arc::new(Mutex::new(Vec::new()));
    for unique in 0..100 {
        if workers.push(job(unique)) {
            let (workers, done) = (workers.clone(), done.clone());
            threads.push(std::thread::spawn(move || {
                while let Some(work) = workers.next() {
                    done.lock().push(number(Some(work)));
                }
                workers.ended();
            }));
        }
    }
    workers.stop();
    let mut done = std::mem::take(&mut *done.lock());
    done.sort_unstable();
    assert_eq!(done, (0..100).collect::<Vec<_>>());
    assert!(workers.none_running());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn buffers_are_used_again() {
    let workers = Workers::new(1);
    workers.give_back(RequestBuf::new(10));
    let mut buf = workers.spare(99);
    buf.fill(|bytes| Ok(bytes.len())).unwrap();
    assert_eq!(buf.bytes().len(), 10);
    for _ in 0..100 {
        workers.give_back(RequestBuf::new(1));
    }
    assert_eq!(workers.state.lock().spares.len(), SPARES_MAX);
}
