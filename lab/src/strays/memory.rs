//! The memory of a server as a stranger finds it: memfds by their names in /proc, pages that have memory, stores into them.

use crate::inject::Dice;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Bytes of a frame's control words (S-13.1).
const WORDS: usize = 64;
/// Bytes of a frame's line sums, which lie behind the control words of all frames (S-13.12).
const LINE_SUMS: u64 = 128;
/// Where in the control words stands whose frame it is; 0: nobody's.
const IDENTITY: u64 = 16;
/// Pages that are looked at for one that is in use.
const TRIES: usize = 96;

/// What is hit. The sizes of `sums` and `parity` a frame follow from those of the files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Region {
    /// Frames.
    Arena,
    /// Their control words.
    Sums,
    /// Their parity.
    Parity,
    /// Redo and staged pages.
    Staging,
    /// Undo slots.
    Session,
    /// Requests under way.
    Requests,
}

impl Region {
    /// All, with how many of a hundred strays each gets. A word of a frame that says that somebody writes ends its server after ten
    /// seconds: few of them, or a run is nothing but that.
    pub const ALL: [(Region, &'static str, usize); 6] = [
        (Region::Arena, "arena", 62),
        (Region::Sums, "sums", 4),
        (Region::Parity, "parity", 10),
        (Region::Staging, "staging", 10),
        (Region::Session, "session", 9),
        (Region::Requests, "requests", 5),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Region::ALL.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }
}

/// The files of one server.
pub struct Memory {
    /// Its process.
    pub server: i32,
    files: Vec<(Region, u64, File, u64)>,
}

impl Memory {
    /// Of a server; `before`: that of the one before it, whose files it may still have open.
    pub fn of(server: i32, before: Option<&Memory>) -> Result<Memory, String> {
        let dir = format!("/proc/{server}/fd");
        let entries = fs::read_dir(&dir).map_err(|e| format!("{dir}: {e}"))?;
        let mut files: Vec<(Region, u64, File, u64)> = Vec::new();
        for entry in entries.flatten() {
            let target = fs::read_link(entry.path()).unwrap_or_default();
            let target = target.to_string_lossy().into_owned();
            let name = target
                .strip_prefix("/memfd:keepfs-")
                .and_then(|name| name.split(' ').next());
            let Some(row) = Region::ALL.iter().find(|row| name == Some(row.1)) else {
                continue;
            };
            let Ok(file) = OpenOptions::new().read(true).write(true).open(entry.path()) else {
                continue;
            };
            let meta = file.metadata().map_err(|e| e.to_string())?;
            // Of two of one name the one that was made later is in use; numbers of memfds grow.
            match files.iter_mut().find(|known| known.0 == row.0) {
                Some(known) if known.1 >= meta.ino() => {}
                Some(known) => *known = (row.0, meta.ino(), file, meta.len()),
                None => files.push((row.0, meta.ino(), file, meta.len())),
            }
        }
        let is_old = |memory: &Memory| memory.number() == number(&files);
        match files.len() == Region::ALL.len() && !before.is_some_and(is_old) {
            true => Ok(Memory { server, files }),
            false => Err(format!("server {server} has not all its memory yet")),
        }
    }

    /// Tells this memory from that of other servers.
    pub fn number(&self) -> u64 {
        number(&self.files)
    }

    /// Where its server has the bytes of a frame, as events and commands tell it: read-only if it has them twice (S-13.1).
    pub fn addresses(&self, frame: u64) -> Option<(u64, u64)> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.server)).ok()?;
        let arenas = maps.lines().filter(|line| line.contains("/memfd:keepfs-arena"));
        let starts: Vec<(bool, u64)> = arenas
            .filter_map(|line| {
                let start = u64::from_str_radix(line.split('-').next()?, 16).ok()?;
                Some((line.split(' ').nth(1)?.starts_with("r--"), start))
            })
            .collect();
        let (_, start) = starts.iter().find(|(is_shown, _)| *is_shown).or(starts.first())?;
        let at = start + frame * PAGE as u64;
        Some((at, at + PAGE as u64))
    }

    fn file(&self, region: Region) -> Option<(&File, u64)> {
        let found = self.files.iter().find(|known| known.0 == region);
        found.map(|(_, _, file, len)| (file, *len))
    }

    /// Frames that there are.
    pub fn frames(&self) -> u64 {
        self.file(Region::Arena).map_or(0, |(_, len)| len / PAGE as u64)
    }

    /// Bytes of `region` that belong to one frame; 0: it has none of frames.
    pub fn a_frame(&self, region: Region) -> u64 {
        match region {
            Region::Arena => PAGE as u64,
            Region::Sums => WORDS as u64,
            Region::Parity => self.file(region).map_or(0, |(_, len)| len / self.frames().max(1)),
            _ => 0,
        }
    }

    /// The frame that a byte of a region belongs to.
    pub fn frame_of(&self, region: Region, at: u64) -> Option<u64> {
        match at.checked_sub(self.control_words()) {
            Some(behind) if region == Region::Sums => Some(behind / LINE_SUMS).filter(|frame| *frame < self.frames()),
            _ => at.checked_div(self.a_frame(region)),
        }
    }

    /// Bytes of the control words of all frames.
    pub fn control_words(&self) -> u64 {
        self.frames() * WORDS as u64
    }

    /// A byte of the sum of a line, from any number.
    pub fn in_line_sums(&self, at: u64) -> u64 {
        self.control_words() + at % (self.frames() * LINE_SUMS).max(1)
    }

    /// Of which metablock a frame is (S-13.1); 0: of none, or it cannot be told.
    pub fn identity(&self, frame: u64) -> u64 {
        let mut word = [0; 8];
        let read = self.read(Region::Sums, frame * WORDS as u64 + IDENTITY, &mut word);
        read.map_or(0, |()| u64::from_le_bytes(word))
    }

    /// A place in a region to begin a stray at, in a page that has memory and is not empty.
    pub fn pick(&self, region: Region, dice: &mut Dice) -> Option<u64> {
        let (file, len) = self.file(region)?;
        let pages = with_memory(file, len);
        let count: u64 = pages.iter().map(|(from, to)| (to - from) / PAGE as u64).sum();
        let mut page = [0; PAGE];
        for _ in 0..TRIES {
            let mut nth = dice.below(count as usize) as u64;
            let (from, _) = pages.iter().find(|(from, to)| {
                let here = (to - from) / PAGE as u64;
                let is_here = nth < here;
                nth -= if is_here { 0 } else { here };
                is_here
            })?;
            let at = from + nth * PAGE as u64;
            file.read_exact_at(&mut page, at).ok()?;
            let lines: Vec<usize> = (0..PAGE / 64)
                .filter(|line| page[line * 64..][..64].iter().any(|byte| *byte != 0))
                .collect();
            if lines.is_empty() {
                continue;
            }
            // Half of them where something stands, half anywhere in the page.
            let line = match dice.once_in(2) {
                true => *dice.one_of(&lines),
                false => dice.below(PAGE / 64),
            };
            return Some(at + line as u64 * 64 + dice.below(64) as u64);
        }
        None
    }

    /// Bytes that stand somewhere. Errors: the system's.
    pub fn read(&self, region: Region, at: u64, buf: &mut [u8]) -> Result<(), String> {
        let (file, _) = self.file(region).ok_or("no such region")?;
        file.read_exact_at(buf, at).map_err(|e| e.to_string())
    }

    /// The stray itself. Errors: the system's.
    pub fn write(&self, region: Region, at: u64, bytes: &[u8]) -> Result<(), String> {
        let (file, _) = self.file(region).ok_or("no such region")?;
        file.write_all_at(bytes, at).map_err(|e| e.to_string())
    }
}

fn number(files: &[(Region, u64, File, u64)]) -> u64 {
    let arena = files.iter().find(|known| known.0 == Region::Arena);
    arena.map_or(0, |known| known.1)
}

/// Parts of a sparse file that have memory, whole pages.
pub fn with_memory(file: &File, len: u64) -> Vec<(u64, u64)> {
    use rustix::fs::{SeekFrom, seek};
    let (mut parts, mut at) = (Vec::new(), 0);
    while let Ok(from) = seek(file, SeekFrom::Data(at)) {
        let to = seek(file, SeekFrom::Hole(from)).unwrap_or(len);
        let (from, to) = (
            from / PAGE as u64 * PAGE as u64,
            to.next_multiple_of(PAGE as u64).min(len),
        );
        if to <= from {
            break;
        }
        parts.push((from, to));
        at = to;
    }
    parts
}
