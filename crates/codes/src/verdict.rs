//! What is said of a frame, and what would make it right (S-15.21).

use core::fmt;
use core::ops::Range;

use crate::FRAME;

/// What a frame, its parity, the sums of its lines and its second sum say together.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one a damage, on the stack: this floor has no heap"
)]
pub enum Verdict {
    /// All agree.
    Clean,
    /// The sums confirm the bytes; the parity is to be encoded anew.
    ParityBad,
    /// Parity and the second sum confirm the bytes; the sums of lines are to be made anew.
    SumsBad,
    /// The one pattern that gives the lines their sums.
    Repair(Repair),
    /// There are several.
    Ambiguous,
    /// Beyond the code.
    Uncorrectable,
}

/// What to XOR over a frame's bytes to have those that the sums confirm.
#[derive(Clone, PartialEq, Eq)]
pub struct Repair {
    xor: [u8; FRAME],
}

impl Repair {
    /// A pattern that was confirmed.
    pub(crate) fn of(xor: [u8; FRAME]) -> Self {
        Self { xor }
    }

    /// Corrects a private copy of the bytes that were judged.
    pub fn apply(&self, copy: &mut [u8; FRAME]) {
        for (byte, xor) in copy.iter_mut().zip(&self.xor) {
            *byte ^= xor;
        }
    }

    /// The runs of bytes that it changes, ascending.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let mut from = 0;
        core::iter::from_fn(move || {
            let start = from + self.xor[from..].iter().position(|byte| *byte != 0)?;
            let len = self.xor[start..].iter().take_while(|byte| **byte != 0).count();
            from = start + len;
            Some(start..from)
        })
    }
}

impl fmt::Debug for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.ranges()).finish()
    }
}

#[cfg(test)]
mod tests;
