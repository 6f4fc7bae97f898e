//! The codes by name, as `--protect` chooses them (S-15.1): one value that is decided once and then passed on.

use core::fmt;
use core::str::FromStr;

use crate::adler::Adler;
use crate::code::{Code, Verified, xor_into};
use crate::crc::Crc;
use crate::evenodd::Evenodd;
use crate::pcrc::Pcrc;
use crate::pq::Pq;
use crate::{FRAME, change, crc64};

/// A code of S-15.1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Protection {
    /// No rolling sum, no parity: every verdict is "clean".
    Off,
    /// CRC-64 alone.
    Crc,
    /// CRC-64 and a parity line.
    #[default]
    Pcrc,
    /// CRC-64 and two parity lines.
    Pq,
    /// CRC-64 and EVENODD(96, 64).
    Evenodd64,
    /// CRC-64 and EVENODD(288, 256).
    Evenodd256,
    /// Adler-32 (WAFL).
    Adler,
}

impl Protection {
    /// All codes.
    pub const ALL: [Self; 7] = [
        Self::Off,
        Self::Crc,
        Self::Pcrc,
        Self::Pq,
        Self::Evenodd64,
        Self::Evenodd256,
        Self::Adler,
    ];

    /// The code's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Crc => "crc",
            Self::Pcrc => "pcrc",
            Self::Pq => "pq",
            Self::Evenodd64 => "evenodd64",
            Self::Evenodd256 => "evenodd256",
            Self::Adler => "adler",
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No code has this name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownCode;

impl fmt::Display for UnknownCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown code; one of")?;
        for code in Protection::ALL {
            write!(f, " {code}")?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownCode {}

impl FromStr for Protection {
    type Err = UnknownCode;

    fn from_str(name: &str) -> Result<Self, UnknownCode> {
        let mut all = Self::ALL.into_iter();
        all.find(|code| code.name() == name).ok_or(UnknownCode)
    }
}

/// `off` as a code.
#[derive(Clone, Copy)]
struct Off;

impl Code for Off {
    fn parity_len(self) -> usize {
        0
    }

    fn sum(self, _data: &[u8; FRAME]) -> u64 {
        0
    }

    fn encode(self, _content: Verified<'_>, parity: &mut [u8]) -> u64 {
        assert!(parity.is_empty(), "off has no parity");
        0
    }

    fn fragment(self, offset: usize, old: &[u8], new: &[u8]) -> u64 {
        change::check(offset, old, new);
        0
    }

    fn merge(self, sum: u64, _fragment: u64) -> u64 {
        sum
    }

    fn fold(self, _offset: usize, _old: &[u8], _new: &[u8], _fold: impl FnMut(usize, u64)) {}

    fn fragment_word(self, _index: usize, _old: u64, _new: u64) -> u64 {
        0
    }

    fn fold_word(self, _index: usize, _xor: u64, _fold: impl FnMut(usize, u64)) {}

    fn verify(self, _data: &[u8; FRAME], _parity: &[u8], _sum: u64) -> bool {
        true
    }
}

/// The same call on the code that `$self` names.
macro_rules! on_code {
    ($self:expr, $code:ident => $call:expr) => {
        match $self {
            Protection::Off => {
                let $code = Off;
                $call
            }
            Protection::Crc => {
                let $code = Crc;
                $call
            }
            Protection::Pcrc => {
                let $code = Pcrc;
                $call
            }
            Protection::Pq => {
                let $code = Pq;
                $call
            }
            Protection::Evenodd64 => {
                let $code = Evenodd::Blocks64;
                $call
            }
            Protection::Evenodd256 => {
                let $code = Evenodd::Blocks256;
                $call
            }
            Protection::Adler => {
                let $code = Adler;
                $call
            }
        }
    };
}

impl Protection {
    /// [`Code::update`] of one aligned word. The code is chosen once for all steps.
    #[inline(never)]
    fn update_word(self, parity: &mut [u8], sum: &mut u64, index: usize, old: u64, new: u64) {
        let (words, _) = parity.as_chunks_mut::<8>();
        on_code!(self, code => {
            *sum = code.merge(*sum, code.fragment_word(index, old, new));
            code.fold_word(index, old ^ new, |word, xor| xor_into(&mut words[word], xor));
        });
    }

    /// [`Code::update`] of two aligned words.
    #[inline(never)]
    fn update_two(self, parity: &mut [u8], sum: &mut u64, index: usize, old: [u64; 2], new: [u64; 2]) {
        let (words, _) = parity.as_chunks_mut::<8>();
        let fragment = match self {
            Self::Off => 0,
            Self::Adler => Adler.merge(
                Adler.fragment_word(index, old[0], new[0]),
                Adler.fragment_word(index + 1, old[1], new[1]),
            ),
            _ => crc64::delta_words(index, old[0] ^ new[0], old[1] ^ new[1]),
        };
        *sum = self.merge(*sum, fragment);
        let mut fold = |word: usize, xor| xor_into(&mut words[word], xor);
        on_code!(self, code => {
            code.fold_word(index, old[0] ^ new[0], &mut fold);
            code.fold_word(index + 1, old[1] ^ new[1], &mut fold);
        });
    }

    /// [`Code::update`] of any change.
    #[inline(never)]
    fn update_any(self, parity: &mut [u8], sum: &mut u64, offset: usize, old: &[u8], new: &[u8]) {
        on_code!(self, code => code.update(parity, sum, offset, old, new));
    }
}

impl Code for Protection {
    #[inline]
    fn parity_len(self) -> usize {
        on_code!(self, code => code.parity_len())
    }

    fn sum(self, data: &[u8; FRAME]) -> u64 {
        on_code!(self, code => code.sum(data))
    }

    fn encode(self, content: Verified<'_>, parity: &mut [u8]) -> u64 {
        on_code!(self, code => code.encode(content, parity))
    }

    #[inline]
    fn fragment(self, offset: usize, old: &[u8], new: &[u8]) -> u64 {
        match self {
            Self::Off => Off.fragment(offset, old, new),
            Self::Adler => Adler.fragment(offset, old, new),
            // One arithmetic for all others: one copy of it where this is inlined.
            _ => Crc.fragment(offset, old, new),
        }
    }

    #[inline]
    fn merge(self, sum: u64, fragment: u64) -> u64 {
        match self {
            Self::Off => Off.merge(sum, fragment),
            Self::Adler => Adler.merge(sum, fragment),
            _ => Crc.merge(sum, fragment),
        }
    }

    #[inline]
    fn fold(self, offset: usize, old: &[u8], new: &[u8], fold: impl FnMut(usize, u64)) {
        on_code!(self, code => code.fold(offset, old, new, fold));
    }

    // Small at every place of call: where the length is known there, one call is left.
    #[inline(always)]
    fn update(self, parity: &mut [u8], sum: &mut u64, offset: usize, old: &[u8], new: &[u8]) {
        let (index, word) = (offset / 8, u64::from_le_bytes);
        match (offset % 8, old.as_chunks(), new.as_chunks()) {
            (0, ([old], []), ([new], [])) => self.update_word(parity, sum, index, word(*old), word(*new)),
            (0, ([a, b], []), ([c, d], [])) => {
                self.update_two(parity, sum, index, [word(*a), word(*b)], [word(*c), word(*d)]);
            }
            _ => self.update_any(parity, sum, offset, old, new),
        }
    }

    #[inline]
    fn fragment_word(self, index: usize, old: u64, new: u64) -> u64 {
        match self {
            Self::Off => Off.fragment_word(index, old, new),
            Self::Adler => Adler.fragment_word(index, old, new),
            _ => Crc.fragment_word(index, old, new),
        }
    }

    #[inline]
    fn fold_word(self, index: usize, xor: u64, fold: impl FnMut(usize, u64)) {
        on_code!(self, code => code.fold_word(index, xor, fold));
    }

    fn verify(self, data: &[u8; FRAME], parity: &[u8], sum: u64) -> bool {
        on_code!(self, code => code.verify(data, parity, sum))
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
