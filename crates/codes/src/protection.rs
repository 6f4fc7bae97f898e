//! The codes by name, as `--protect` chooses them (S-15.1): one value that is decided once and then passed on.

use core::fmt;
use core::str::FromStr;

use crate::adler::Adler;
use crate::code::{Code, Verdict, Verified};
use crate::crc::Crc;
use crate::evenodd::Evenodd;
use crate::pcrc::Pcrc;
use crate::pq::Pq;
use crate::{FRAME, change};

/// A code of S-15.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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

    fn verify(self, _data: &[u8; FRAME], _parity: &[u8], _sum: u64) -> bool {
        true
    }

    fn locate(self, _data: &[u8; FRAME], _parity: &[u8], _sum: u64) -> Verdict {
        Verdict::Clean
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
        on_code!(self, code => code.fragment(offset, old, new))
    }

    #[inline]
    fn merge(self, sum: u64, fragment: u64) -> u64 {
        on_code!(self, code => code.merge(sum, fragment))
    }

    #[inline]
    fn fold(self, offset: usize, old: &[u8], new: &[u8], fold: impl FnMut(usize, u64)) {
        on_code!(self, code => code.fold(offset, old, new, fold));
    }

    fn verify(self, data: &[u8; FRAME], parity: &[u8], sum: u64) -> bool {
        on_code!(self, code => code.verify(data, parity, sum))
    }

    fn locate(self, data: &[u8; FRAME], parity: &[u8], sum: u64) -> Verdict {
        on_code!(self, code => code.locate(data, parity, sum))
    }
}

#[cfg(test)]
mod tests;
