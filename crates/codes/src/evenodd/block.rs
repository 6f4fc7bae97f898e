//! One EVENODD block, as the paper uses it (Greenan & Miller 2006, sections 3.1 and 5.1): encode, check, and the blind
//! decoders that have no checksum to ask.
//!
//! A blind decoder cannot know: damage that is equal in two columns looks like damage of the parity, and it would bless
//! it. Keepfs uses these for the paper's experiments alone; [`super::Evenodd`] asks the CRC.

use super::ring::{over_x, parities, times_x};

/// Bytes of a column.
pub const COLUMN: usize = 16;
/// Bytes of parity of a block: P, then Q.
pub const PARITY: usize = 2 * COLUMN;

/// How the damage of one block may look to a blind decoder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decoder {
    /// One column, aligned (the paper's library).
    Column,
    /// One burst of up to 16 bytes at any place, the shortest that fits (Raphaeli 2005: all bursts of up to 15 bytes in
    /// a block of 64, of up to 9 in one of 256).
    Burst,
}

/// What a blind decoder says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blind {
    /// Data and parity agree.
    Clean,
    /// Only parity is wrong, or so it looks.
    Parity,
    /// These columns of the block are wrong by these patterns (little-endian; the second is 0 if there is but one).
    Columns([(usize, u128); 2]),
    /// Beyond the code.
    Uncorrectable,
}

/// What the stored parity says beside that of the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Syndrome {
    pub(crate) p: u128,
    pub(crate) q: u128,
}

/// The parity of a block of 64 or 256 bytes.
///
/// # Panics
/// If the block has another length.
pub fn encode(data: &[u8]) -> [u8; PARITY] {
    let (p, q) = parities(columns_of(data));
    join(p, q)
}

/// Whether data and parity agree.
///
/// # Panics
/// If the block has another length than 64 or 256.
pub fn check(data: &[u8], parity: &[u8; PARITY]) -> bool {
    encode(data) == *parity
}

/// What a blind decoder makes of a block.
///
/// # Panics
/// If the block has another length than 64 or 256.
pub fn decode(data: &[u8], parity: &[u8; PARITY], decoder: Decoder) -> Blind {
    Syndrome::of(&encode(data), parity).decode(data.len() / COLUMN, decoder)
}

fn columns_of(data: &[u8]) -> &[[u8; COLUMN]] {
    assert!(data.len() == 64 || data.len() == 256, "a block has 64 or 256 bytes");
    data.as_chunks().0
}

pub(crate) fn join(p: u128, q: u128) -> [u8; PARITY] {
    let mut parity = [0; PARITY];
    parity[..COLUMN].copy_from_slice(&p.to_le_bytes());
    parity[COLUMN..].copy_from_slice(&q.to_le_bytes());
    parity
}

fn split(parity: &[u8; PARITY]) -> (u128, u128) {
    let half = |at: usize| core::array::from_fn(|byte| parity[at + byte]);
    (u128::from_le_bytes(half(0)), u128::from_le_bytes(half(COLUMN)))
}

impl Syndrome {
    pub(crate) fn of(own: &[u8; PARITY], stored: &[u8; PARITY]) -> Self {
        let ((own_p, own_q), (p, q)) = (split(own), split(stored));
        Self {
            p: own_p ^ p,
            q: own_q ^ q,
        }
    }

    pub(crate) fn is_clean(self) -> bool {
        self.p == 0 && self.q == 0
    }

    /// The blind verdict on a block of `columns` columns.
    pub(crate) fn decode(self, columns: usize, decoder: Decoder) -> Blind {
        match (self.p, self.q) {
            (0, 0) => Blind::Clean,
            (0, _) | (_, 0) => Blind::Parity,
            _ if decoder == Decoder::Column => self.column(columns),
            _ => self.burst(columns),
        }
    }

    /// One column: the j for which Q is x^j·P. There is at most one, because x^i + x^j has an inverse.
    fn column(self, columns: usize) -> Blind {
        (0..columns)
            .find(|column| times_x(self.p, *column) == self.q)
            .map_or(Blind::Uncorrectable, |column| {
                Blind::Columns([(column, self.p), (column, 0)])
            })
    }

    /// The shortest burst: bytes `cut..` of a column and `..cut` of the next.
    fn burst(self, columns: usize) -> Blind {
        let mut best: Option<(u32, Blind)> = None;
        for cut in 0..COLUMN {
            let low = self.p & !(u128::MAX << (8 * cut));
            let high = self.p ^ low;
            if cut > 0 && (high == 0 || low >> (8 * (cut - 1)) == 0) {
                // It begins in the second column or ends before the cut: another cut says the same.
                continue;
            }
            let folded = high ^ times_x(low, 1);
            let places = columns - usize::from(cut > 0);
            for column in (0..places).filter(|column| times_x(folded, *column) == self.q) {
                let found = Blind::Columns([(column, high), (column + usize::from(cut > 0), low)]);
                let len = burst_len(cut, high, low);
                best = match best {
                    Some((shortest, blind)) if shortest < len => Some((shortest, blind)),
                    Some((shortest, _)) if shortest == len => Some((len, Blind::Uncorrectable)),
                    _ => Some((len, found)),
                };
            }
        }
        best.map_or(Blind::Uncorrectable, |(_, blind)| blind)
    }

    /// The damage of one column if P is bad too: Q alone tells it.
    pub(crate) fn over_column(self, column: usize) -> u128 {
        over_x(self.q, column)
    }
}

/// Bytes from the first wrong byte to the last.
fn burst_len(cut: usize, high: u128, low: u128) -> u32 {
    let last = if cut == 0 {
        15 - high.leading_zeros() / 8
    } else {
        31 - low.leading_zeros() / 8
    };
    last + 1 - high.trailing_zeros() / 8
}

#[cfg(test)]
mod tests;
