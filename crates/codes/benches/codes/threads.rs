//! One frame's sum moved by one and two threads: the default's one atomic XOR beside Adler-32 with a fragment for each
//! processor (WAFL 2017, section 4.4) and with one shared word.

use crate::timing::Rng;
use keepfs_codes::adler::{self, Fragments};
use keepfs_codes::crc64;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// Updates of one trial.
const UPDATES: usize = 16_384;
const TRIALS: usize = 400;

/// A change of 8 bytes: offset, old, new.
type Change = (usize, [u8; 8], [u8; 8]);

fn changes(thread: usize) -> Vec<Change> {
    let mut rng = Rng::new(thread as u64 + 1);
    (0..UPDATES)
        .map(|_| (rng.below(512) * 8, rng.next().to_le_bytes(), rng.next().to_le_bytes()))
        .collect()
}

/// Nanoseconds of one update in the best and the median trial; the slowest thread counts.
fn measure(threads: usize, update: &(impl Fn(usize, &Change) + Sync)) -> (f64, f64) {
    // Threads spin, so that they start together.
    let ready = AtomicUsize::new(0);
    let times = std::thread::scope(|scope| {
        let run = |thread: usize| {
            let ready = &ready;
            scope.spawn(move || {
                let changes = changes(thread);
                let trial = |trial: usize| {
                    ready.fetch_add(1, Ordering::AcqRel);
                    while ready.load(Ordering::Acquire) < (trial + 1) * threads {
                        std::hint::spin_loop();
                    }
                    let start = Instant::now();
                    changes.iter().for_each(|change| update(thread, change));
                    start.elapsed().as_nanos() as f64 / UPDATES as f64
                };
                (0..TRIALS).map(trial).collect::<Vec<f64>>()
            })
        };
        let handles: Vec<_> = (0..threads).map(run).collect();
        let all: Vec<Vec<f64>> = handles
            .into_iter()
            .map(|handle| handle.join().expect("no panic"))
            .collect();
        let slowest = |trial: usize| all.iter().map(|times| times[trial]).fold(0.0, f64::max);
        let mut slowest: Vec<f64> = (0..TRIALS).map(slowest).collect();
        slowest.sort_by(f64::total_cmp);
        slowest
    });
    (times[0], times[TRIALS / 2])
}

/// Prints the table.
pub fn table() {
    println!("| 8-byte change of one frame's sum | threads | ns, least | ns, median |");
    println!("|---|---|---|---|");
    let sum = AtomicU64::new(0);
    let crc = |_: usize, change: &Change| {
        sum.fetch_xor(crc64::delta(change.0, &change.1, &change.2), Ordering::Relaxed);
    };
    let fragments = Fragments::<2>::default();
    let apart = |thread: usize, change: &Change| {
        fragments.absorb(thread, adler::fragment(change.0, &change.1, &change.2));
    };
    let shared = AtomicU32::new(1);
    let together = |_: usize, change: &Change| {
        let fragment = adler::fragment(change.0, &change.1, &change.2);
        let next = |sum| Some(adler::combine(sum, fragment));
        let _always = shared.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    };
    for threads in [1, 2] {
        let row = |name: &str, (least, median): (f64, f64)| {
            println!("| {name} | {threads} | {least:.2} | {median:.2} |");
        };
        row("CRC-64, one atomic XOR", measure(threads, &crc));
        row("Adler-32, a fragment each (WAFL 4.4)", measure(threads, &apart));
        row("Adler-32, one shared word", measure(threads, &together));
    }
}
