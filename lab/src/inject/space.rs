//! The address space of this process: where its guarded memory lies, and which pointers it holds.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// What a write to a mapping does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// Memory of this process alone that it may write to.
    Private,
    /// Guarded memory as the door reaches it.
    Window,
    /// Guarded memory as everybody sees it.
    Shown,
    /// A write faults, or it is of no interest.
    Else,
}

/// A mapping.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<usize>,
    /// What a write to it does.
    pub what: What,
}

/// All mappings of this process, by address.
pub struct Space(Vec<Mapping>);

fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let name = words.nth(3).unwrap_or_default();
    let guarded = name.starts_with("/memfd:keepfs-");
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some(Mapping {
        range: number(start)?..number(end)?,
        what: match rights {
            "rw-s" if guarded => What::Window,
            "r--s" if guarded => What::Shown,
            "rw-p" => What::Private,
            _ => What::Else,
        },
    })
}

impl Space {
    /// As it is now. Errors: the system's.
    pub fn now() -> io::Result<Space> {
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        Ok(Space(maps.lines().filter_map(mapping).collect()))
    }

    /// The mapping of an address. Asks for no memory.
    pub fn of(&self, at: usize) -> Option<&Mapping> {
        let next = self.0.partition_point(|mapping| mapping.range.end <= at);
        self.0.get(next).filter(|mapping| mapping.range.start <= at)
    }

    /// Bytes of mappings of a kind.
    pub fn bytes(&self, what: What) -> usize {
        let these = self.0.iter().filter(|mapping| mapping.what == what);
        these.map(|mapping| mapping.range.len()).sum()
    }

    /// Every word in memory of this process alone that is an address in one of its mappings, but for the door's own table of
    /// windows (a word that is exactly where a window starts). Errors: the memory cannot be read.
    pub fn pointers(&self) -> io::Result<Vec<usize>> {
        let memory = File::open("/proc/self/mem")?;
        let mut found = Vec::new();
        let mut piece = vec![0; PIECE];
        for mapping in self.0.iter().filter(|mapping| mapping.what == What::Private) {
            let mut at = mapping.range.start;
            while at < mapping.range.end {
                let len = PIECE.min(mapping.range.end - at);
                // A stack's guard page, or a mapping that went away.
                if memory.read_exact_at(&mut piece[..len], at as u64).is_ok() {
                    let (words, _) = piece[..len].as_chunks();
                    let words = words.iter().map(|word| usize::from_ne_bytes(*word));
                    found.extend(words.filter(|word| self.is_pointer(*word)));
                }
                at += len;
            }
        }
        Ok(found)
    }

    fn is_pointer(&self, word: usize) -> bool {
        let mapping = self.of(word);
        mapping.is_some_and(|mapping| mapping.what != What::Window || mapping.range.start != word)
    }
}
