//! Faults injected blind (BARS R-5, M-1, M-2): one program puts them into a pool's memory and onto its device and writes
//! down what it did, another one reads only what the pool told, a third one holds the two together.
//!
//! Faults go in past everything that guards the frames, by pwrite(2) on the file behind their mapping; at rest by the
//! device; logic bugs by wrong values through the door and, in a build that has them, by planted switches.

pub mod fault;
pub mod judge;
pub mod lines;
pub mod matrix;
pub mod memory;
pub mod mount;
pub mod neutral;
pub mod papers;
mod rest;
mod run;
mod solve;
mod space;
mod subject;
mod sys;
pub mod targeted;
pub mod wild;

pub use run::run;

/// Random numbers that one number makes again.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// From a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number, 53 bits.
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// One below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() % end.max(1) as u64) as usize
    }

    /// Once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.roll() as u8).collect()
    }

    /// One of them.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}
