//! The address space of this process: where its guarded memory lies, and which pointers it holds. What this file keeps of
//! addresses stands in memory as a number that is none ([`Kept`]): it looks for pointers, and must not be what it finds.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// Bytes of a stack that are looked at.
const STACK: usize = 64 << 10;

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

/// An address, kept as its complement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kept(usize);

impl Kept {
    /// Keeps an address.
    #[inline]
    pub fn new(at: usize) -> Kept {
        Kept(!at)
    }

    /// It.
    #[inline]
    pub fn address(self) -> usize {
        !self.0
    }

    /// As it is kept.
    pub fn word(self) -> usize {
        self.0
    }

    /// Of a word that is kept.
    pub fn from_word(word: usize) -> Kept {
        Kept(word)
    }
}

/// A mapping.
#[derive(Clone, Debug)]
pub struct Mapping {
    start: Kept,
    end: Kept,
    /// What a write to it does.
    pub what: What,
    /// Its file, or what the system calls it; the arena of `[heap]` has a name, others' have none.
    pub name: String,
}

impl Mapping {
    /// Its addresses.
    pub fn range(&self) -> Range<usize> {
        self.start.address()..self.end.address()
    }
}

/// A word that is an address.
#[derive(Clone, Copy, Debug)]
pub struct Pointer {
    /// Where it stands.
    pub at: Kept,
    /// Where it leads.
    pub to: Kept,
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
        start: Kept::new(number(start)?),
        end: Kept::new(number(end)?),
        what: match rights {
            "rw-s" if guarded => What::Window,
            "r--s" if guarded => What::Shown,
            "rw-p" => What::Private,
            _ => What::Else,
        },
        name: name.to_owned(),
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
        let next = self.0.partition_point(|mapping| mapping.end.address() <= at);
        self.0.get(next).filter(|mapping| mapping.start.address() <= at)
    }

    /// Bytes of the door's mapping of this name.
    pub fn window_len(&self, name: &str) -> usize {
        let mut windows = self.0.iter().filter(|mapping| mapping.what == What::Window);
        let named = windows.find(|mapping| mapping.name == name);
        named.map_or(0, |mapping| mapping.range().len())
    }

    /// Bytes of mappings of a kind.
    pub fn bytes(&self, what: What) -> usize {
        let these = self.0.iter().filter(|mapping| mapping.what == what);
        these.map(|mapping| mapping.range().len()).sum()
    }

    /// Where windows begin, and their bytes.
    pub fn windows(&self) -> impl Iterator<Item = (Kept, usize)> {
        let windows = self.0.iter().filter(|mapping| mapping.what == What::Window);
        windows.map(|mapping| (mapping.start, mapping.range().len()))
    }

    /// Where a pointer stands and where it leads, in words.
    pub fn told(&self, pointer: &Pointer) -> Option<String> {
        let (at, to) = (pointer.at.address(), pointer.to.address());
        let (here, there) = (self.of(at)?, self.of(to)?);
        let name = if here.name.is_empty() {
            "a stack or a mapping"
        } else {
            &here.name
        };
        Some(format!(
            "{name}, {:#x} before its end, leads to {} + {:#x}",
            here.range().end - at,
            there.name,
            to - there.range().start
        ))
    }

    /// Every word in memory of this process alone that is an address in one of its mappings. Errors: the memory cannot be read.
    pub fn pointers(&self) -> io::Result<Vec<Pointer>> {
        self.pointers_in(|mapping| mapping.range())
    }

    /// The same, of words that lead into the door's memory and stand where threads have their stacks: the ends of mappings.
    pub fn leaks(&self) -> io::Result<Vec<Pointer>> {
        let end = |mapping: &Mapping| {
            mapping.range().start.max(mapping.end.address().saturating_sub(STACK))..mapping.end.address()
        };
        let mut found = self.pointers_in(end)?;
        found.retain(|pointer| self.of(pointer.to.address()).is_some_and(|m| m.what == What::Window));
        Ok(found)
    }

    fn pointers_in(&self, part: impl Fn(&Mapping) -> Range<usize>) -> io::Result<Vec<Pointer>> {
        let memory = File::open("/proc/self/mem")?;
        let mut found = Vec::new();
        let mut piece = vec![0; PIECE];
        for mapping in self.0.iter().filter(|mapping| mapping.what == What::Private) {
            let (start, end) = (part(mapping).start, part(mapping).end);
            for at in (start..end).step_by(PIECE) {
                let len = PIECE.min(end - at);
                // What was read before is not to be found again, here.
                piece[..len].fill(0);
                // A stack's guard page, or a mapping that went away.
                if memory.read_exact_at(&mut piece[..len], at as u64).is_ok() {
                    let (words, _) = piece[..len].as_chunks();
                    let words = words.iter().map(|word| usize::from_ne_bytes(*word)).enumerate();
                    let pointers = words.filter(|(_, word)| self.of(*word).is_some());
                    found.extend(pointers.map(|(n, word)| Pointer {
                        at: Kept::new(at + 8 * n),
                        to: Kept::new(word),
                    }));
                }
            }
        }
        piece.fill(0);
        Ok(found)
    }
}
