//! The text form: one operation a line, `verb field=value …`, in the order of the fields.

use std::fmt;

use super::Op;
use keepfs_vfs::{FallocMode, InodeFlags, Owner, RenameFlags, SeekWhence, SetTime, Time, XattrHow};

/// A mode, written in octal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode(pub u32);

/// Who creates: umask, user and group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who {
    /// The umask.
    pub umask: u32,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// A line that is no operation, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError(String);

impl ParseError {
    pub(super) fn verb(word: &str) -> ParseError {
        ParseError(format!("no operation is called {word:?}"))
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

/// Reads operations, one a line; empty lines and those that begin with `#` are left out.
pub fn parse_all(text: &str) -> Result<Vec<Op>, ParseError> {
    let lines = text
        .lines()
        .map(str::trim)
        .enumerate()
        .filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    lines
        .map(|(n, line)| line.parse().map_err(|e| ParseError(format!("line {}: {e}", n + 1))))
        .collect()
}

/// The text of operations, one a line.
pub fn print_all(ops: &[Op]) -> String {
    ops.iter().map(|op| format!("{op}\n")).collect()
}

/// The words of one line.
pub(super) struct Words<'a> {
    verb: &'a str,
    rest: std::str::SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    pub(super) fn split(line: &'a str) -> Result<Words<'a>, ParseError> {
        let mut rest = line.split_whitespace();
        let verb = rest.next().ok_or_else(|| ParseError("an empty line".into()))?;
        Ok(Words { verb, rest })
    }

    pub(super) fn verb(&self) -> &'a str {
        self.verb
    }

    /// The value of the next field, which must be `field`.
    pub(super) fn take<T: Word>(&mut self, field: &str) -> Result<T, ParseError> {
        let word = self
            .rest
            .next()
            .ok_or_else(|| ParseError(format!("{field} is missing")))?;
        let value = word.strip_prefix(field).and_then(|w| w.strip_prefix('='));
        let value = value.ok_or_else(|| ParseError(format!("{word:?} stands where {field} should")))?;
        T::parse(value).ok_or_else(|| ParseError(format!("{value:?} is no {field}")))
    }

    pub(super) fn finish(mut self) -> Result<(), ParseError> {
        match self.rest.next() {
            None => Ok(()),
            Some(word) => Err(ParseError(format!("{word:?} is one word too many"))),
        }
    }
}

/// A value as one word.
pub(super) trait Word: Sized {
    fn print(&self) -> String;
    fn parse(word: &str) -> Option<Self>;
}

macro_rules! number_words {
    ($($ty:ty)*) => { $(
        impl Word for $ty {
            fn print(&self) -> String {
                self.to_string()
            }

            fn parse(word: &str) -> Option<$ty> {
                word.parse().ok()
            }
        }
    )* };
}

number_words! { u32 u64 usize }

impl Word for bool {
    fn print(&self) -> String {
        if *self { "yes".into() } else { "no".into() }
    }

    fn parse(word: &str) -> Option<bool> {
        match word {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        }
    }
}

/// Blanks, percent signs and all that is not printable ASCII become `%xx`.
impl Word for String {
    fn print(&self) -> String {
        let print_byte = |b: u8| match b {
            b'!'..=b'~' if b != b'%' => char::from(b).to_string(),
            _ => format!("%{b:02x}"),
        };
        self.bytes().map(print_byte).collect()
    }

    fn parse(word: &str) -> Option<String> {
        let mut parts = word.split('%');
        let mut bytes = parts.next()?.as_bytes().to_vec();
        for part in parts {
            let (code, rest) = part.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(code, 16).ok()?);
            bytes.extend_from_slice(rest.as_bytes());
        }
        String::from_utf8(bytes).ok()
    }
}

impl Word for Mode {
    fn print(&self) -> String {
        format!("{:o}", self.0)
    }

    fn parse(word: &str) -> Option<Mode> {
        u32::from_str_radix(word, 8).ok().map(Mode)
    }
}

impl Word for InodeFlags {
    fn print(&self) -> String {
        format!("{:#x}", self.0)
    }

    fn parse(word: &str) -> Option<InodeFlags> {
        u32::from_str_radix(word.strip_prefix("0x")?, 16).ok().map(InodeFlags)
    }
}

impl Word for Who {
    fn print(&self) -> String {
        format!("{:o}:{}:{}", self.umask, self.uid, self.gid)
    }

    fn parse(word: &str) -> Option<Who> {
        let mut parts = word.split(':');
        let (umask, uid, gid) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Who {
            umask: u32::from_str_radix(umask, 8).ok()?,
            uid: uid.parse().ok()?,
            gid: gid.parse().ok()?,
        })
    }
}

impl<T: Word> Word for Option<T> {
    fn print(&self) -> String {
        self.as_ref().map_or("-".into(), Word::print)
    }

    fn parse(word: &str) -> Option<Option<T>> {
        if word == "-" {
            Some(None)
        } else {
            T::parse(word).map(Some)
        }
    }
}

impl Word for SetTime {
    fn print(&self) -> String {
        match self {
            SetTime::Now => "now".into(),
            SetTime::At(time) => format!("{}.{:09}", time.sec, time.nsec),
        }
    }

    fn parse(word: &str) -> Option<SetTime> {
        if word == "now" {
            return Some(SetTime::Now);
        }
        let (sec, nsec) = word.split_once('.')?;
        Some(SetTime::At(Time {
            sec: sec.parse().ok()?,
            nsec: nsec.parse().ok()?,
        }))
    }
}

/// Values that are one of a few words.
macro_rules! named_words {
    ($ty:ty { $($word:literal => $value:expr,)* }) => {
        impl Word for $ty {
            fn print(&self) -> String {
                $( if *self == $value { return $word.into(); } )*
                format!("{self:?}").replace(' ', "")
            }

            fn parse(word: &str) -> Option<$ty> {
                match word {
                    $( $word => Some($value), )*
                    _ => None,
                }
            }
        }
    };
}

named_words! { SeekWhence {
    "data" => SeekWhence::Data,
    "hole" => SeekWhence::Hole,
} }

named_words! { FallocMode {
    "allocate" => FallocMode::Allocate,
    "keep_size" => FallocMode::KeepSize,
    "punch_hole" => FallocMode::PunchHole,
    "zero_range" => FallocMode::ZeroRange { keep_size: false },
    "zero_range_keep_size" => FallocMode::ZeroRange { keep_size: true },
} }

named_words! { RenameFlags {
    "none" => RenameFlags::default(),
    "no_replace" => RenameFlags { no_replace: true, exchange: false, whiteout: None },
    "exchange" => RenameFlags { no_replace: false, exchange: true, whiteout: None },
    "whiteout" => RenameFlags { no_replace: false, exchange: false, whiteout: Some(Owner::ROOT) },
    "no_replace+whiteout" => RenameFlags { no_replace: true, exchange: false, whiteout: Some(Owner::ROOT) },
    "no_replace+exchange" => RenameFlags { no_replace: true, exchange: true, whiteout: None },
    "exchange+whiteout" => RenameFlags { no_replace: false, exchange: true, whiteout: Some(Owner::ROOT) },
    "all" => RenameFlags { no_replace: true, exchange: true, whiteout: Some(Owner::ROOT) },
} }

named_words! { XattrHow {
    "any" => XattrHow::default(),
    "create" => XattrHow { create: true, replace: false, kill_sgid: false },
    "replace" => XattrHow { create: false, replace: true, kill_sgid: false },
    "kill_sgid" => XattrHow { create: false, replace: false, kill_sgid: true },
} }
