//! The mutations of a field: eight that every field gets, and alien values that mean something elsewhere.

use super::fields::Sort;
use core::fmt;
use core::str::FromStr;

/// How a field is changed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// All bits clear.
    Zero,
    /// All bits set.
    Ones,
    /// The lowest bit the other way.
    First,
    /// The middle bit the other way.
    Middle,
    /// The highest bit the other way.
    Last,
    /// One more, with carry.
    Add,
    /// One less, with borrow.
    Subtract,
    /// Random bytes.
    Random,
    /// A number that is something else in the same image.
    Alien(u8),
}

/// The eight.
pub const EIGHT: [Change; 8] = [
    Change::Zero,
    Change::Ones,
    Change::First,
    Change::Middle,
    Change::Last,
    Change::Add,
    Change::Subtract,
    Change::Random,
];

/// Alien values of a plain number: limits of all widths.
pub const LIMITS: &[u64] = &[
    i64::MAX as u64,
    i64::MAX as u64 + 1,
    i64::MAX as u64 - 4095,
    u32::MAX as u64,
    1 << 40,
    1 << 32,
    0x7fff_ffff,
    0xfffe,
    4096,
    4097,
    256,
    255,
    9,
    8,
    7,
    2,
    40,
];

/// Values of other things of the same image, by what a field means.
#[derive(Clone, Default)]
pub struct Aliens {
    /// Device pages.
    pub pages: Vec<u64>,
    /// Metablock ids.
    pub nodes: Vec<u64>,
    /// Inode numbers.
    pub inodes: Vec<u64>,
}

impl Aliens {
    /// The alien values of a field.
    pub fn of(&self, sort: Sort) -> &[u64] {
        match sort {
            Sort::Plain => LIMITS,
            Sort::Page => &self.pages,
            Sort::Node => &self.nodes,
            Sort::Ino => &self.inodes,
        }
    }
}

/// A small generator of numbers (splitmix64).
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n` (0 if `n` is 0).
    pub fn below(&mut self, n: usize) -> usize {
        (self.roll() % (n.max(1) as u64)) as usize
    }
}

impl Change {
    /// Changes the little-endian number `bytes`.
    pub fn apply(self, bytes: &mut [u8], aliens: &[u64], dice: &mut Dice) {
        let bits = bytes.len() * 8;
        let flip = |bytes: &mut [u8], bit: usize| bytes[bit / 8] ^= 1 << (bit % 8);
        match self {
            Change::Zero => bytes.fill(0),
            Change::Ones => bytes.fill(0xff),
            Change::First => flip(bytes, 0),
            Change::Middle => flip(bytes, bits / 2),
            Change::Last => flip(bytes, bits - 1),
            Change::Add => {
                for byte in bytes {
                    *byte = byte.wrapping_add(1);
                    if *byte != 0 {
                        break;
                    }
                }
            }
            Change::Subtract => {
                for byte in bytes {
                    *byte = byte.wrapping_sub(1);
                    if *byte != 0xff {
                        break;
                    }
                }
            }
            Change::Random => bytes.fill_with(|| dice.roll() as u8),
            Change::Alien(k) => {
                let value = aliens.get(usize::from(k) % aliens.len().max(1)).copied().unwrap_or(0);
                let keep = bytes.len().min(8);
                bytes[..keep].copy_from_slice(&value.to_le_bytes()[..keep]);
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Alien(k) => write!(f, "alien{k}"),
            other => f.write_str(&format!("{other:?}").to_lowercase()),
        }
    }
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Change, String> {
        if let Some(k) = text.strip_prefix("alien") {
            return k.parse().map(Change::Alien).map_err(|e| format!("{text}: {e}"));
        }
        let known = EIGHT.into_iter().find(|c| c.to_string() == text);
        known.ok_or_else(|| format!("{text}: no such change"))
    }
}
