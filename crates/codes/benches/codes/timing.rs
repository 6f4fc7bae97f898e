//! Time of one operation on a machine that others use too: the least of many short trials.

use std::time::{Duration, Instant};

/// How long one trial takes at least: short enough that some of many are not disturbed, not even by a neighbour on the
/// same core.
const TRIAL: Duration = Duration::from_micros(4);
/// Trials of a measurement.
const TRIALS: usize = 10_000;
/// After this long a measurement ends with fewer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Nanoseconds of one operation.
#[derive(Clone, Copy)]
pub struct Cost {
    /// The least.
    pub min: f64,
    /// What a quarter of the trials stayed below.
    pub quarter: f64,
}

impl Cost {
    /// The better of two measurements.
    pub fn least(self, other: Self) -> Self {
        if other.min < self.min { other } else { self }
    }
}

/// Measures; one turn of `run` is `operations` operations.
pub fn cost(operations: u64, run: &mut dyn FnMut(u64)) -> Cost {
    let mut turns = 1;
    while turns < 1 << 30 && (0..5).map(|_| time(run, turns)).min() < Some(TRIAL) {
        turns *= 2;
    }
    let start = Instant::now();
    let mut trials = Vec::with_capacity(TRIALS);
    while trials.len() < TRIALS && (start.elapsed() < PATIENCE || trials.len() < 20) {
        trials.push(time(run, turns).as_nanos() as f64 / (turns * operations) as f64);
    }
    trials.sort_by(f64::total_cmp);
    Cost {
        min: trials[0],
        quarter: trials[trials.len() / 4],
    }
}

fn time(run: &mut dyn FnMut(u64), count: u64) -> Duration {
    let start = Instant::now();
    run(count);
    start.elapsed()
}

/// A source of numbers that is cheap beside what is measured (xorshift64*).
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    #[inline]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    #[inline]
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    pub fn fill(&mut self, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte = self.next() as u8);
    }
}
