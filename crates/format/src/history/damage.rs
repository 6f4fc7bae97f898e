//! One entry of the list of damages (S-18.6).

use super::Reader;
use super::path::end_of;
use crate::{MetaId, Space};

/// Most bytes of a path that are kept.
const KEPT: usize = 1024;

/// Damage at one place, however often it was met. The numbers of `place`, `verdict` and `done` are those of S-18.5.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lasting {
    /// Where: what kind of place.
    pub place: u8,
    /// What it was, the last time.
    pub verdict: u8,
    /// What was done, the last time.
    pub done: u8,
    /// Whose it is, 0 = of no single file.
    pub inode: u64,
    /// The metablock, 0 for file data.
    pub id: u64,
    /// First byte: of the file, or of the metablock.
    pub from: u64,
    /// Bytes.
    pub length: u64,
    /// When it was met first, seconds since 1970.
    pub first: i64,
    /// And last.
    pub last: i64,
    /// In which part of that second, see [`Lasting::time`]; 0 if nobody knows.
    pub last_part: u8,
    /// How often.
    pub count: u32,
    /// A path of the inode when that was looked for last; empty if nobody knows.
    pub path: Vec<u8>,
}

/// The place of staged pages (S-18.5).
const STAGED: u8 = 8;
/// The place of what a repair gave up (S-21.11).
pub const REPAIR: u8 = 10;
/// What was done: a repair gave it up (S-21.11).
pub const GIVEN_UP: u8 = 12;

/// Whether a deed leaves something lost: 8 to 10, and what a repair gave up (S-18.5).
pub fn is_lost(done: u8) -> bool {
    (8..=10).contains(&done) || done == GIVEN_UP
}

impl Lasting {
    /// Whether it is of a file that a repair removed (S-21.11): its number may be another's now, and its path tells what to restore.
    pub fn is_of_gone(&self) -> bool {
        self.place == REPAIR && (self.id, self.length) == (0, 0)
    }

    /// A time as entries have it, of seconds since 1970 and nanoseconds: the seconds, and which of 255 parts of one it is, from 1 on.
    pub fn time((seconds, nanoseconds): (i64, u32)) -> (i64, u8) {
        let part = u64::from(nanoseconds) * 255 / 1_000_000_000;
        (seconds, 1 + part.min(254) as u8)
    }

    /// When it was met last, see [`Lasting::time`].
    pub fn last_time(&self) -> (i64, u8) {
        (self.last, self.last_part)
    }

    /// Whether it was met last before an inode was made, at seconds since 1970 and nanoseconds: then it is of an earlier life of that
    /// number (S-18.11). Within one part of a second it is not.
    pub fn is_before(&self, born: (i64, u32)) -> bool {
        let (last, part) = self.last_time();
        let part = if part == 0 { u8::MAX } else { part };
        (last, part) < Lasting::time(born)
    }

    /// Whether changes that were answered are lost with a part of redo or log: nothing heals that (S-18.12).
    pub fn is_of_answered(&self) -> bool {
        (self.id, self.inode) == (0, 0) && (8..=10).contains(&self.done)
    }

    /// Whether it is of a staged page that is lost, with what was written to it and answered (S-14.6).
    pub fn is_of_staged(&self) -> bool {
        self.place == STAGED && (8..=10).contains(&self.done)
    }

    /// Whether what is met is what this entry tells: it is of the same place, or of a lost metablock of which the entry knows whose it is
    /// and whoever met it does not.
    pub fn tells_of(&self, met: &Lasting) -> bool {
        let is_nobodys = met.is_nobodys() && self.place != REPAIR && is_lost(self.done);
        let is_there = (self.inode, self.from) == (met.inode, met.from);
        (self.place, self.id) == (met.place, met.id) && (is_there || is_nobodys)
    }

    /// Whether it is of a lost metablock of one file, or of inodes, and nobody knows whose it is.
    pub fn is_nobodys(&self) -> bool {
        let of_files = matches!(MetaId(self.id).space(), Some(Space::Nodes | Space::Inodes));
        self.inode == 0 && of_files && self.place != REPAIR && is_lost(self.done)
    }

    /// Adds the encoded entry.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let path = end_of(&self.path, KEPT);
        to.extend_from_slice(&[self.place, self.verdict, self.done, self.last_part]);
        to.extend_from_slice(&self.count.to_le_bytes());
        for word in [self.inode, self.id, self.from, self.length] {
            to.extend_from_slice(&word.to_le_bytes());
        }
        to.extend_from_slice(&self.first.to_le_bytes());
        to.extend_from_slice(&self.last.to_le_bytes());
        to.extend_from_slice(&(path.len() as u16).to_le_bytes());
        to.extend_from_slice(&path);
    }

    /// Entries one behind the other; `None` if the bytes are none.
    pub fn decode_all(bytes: &[u8]) -> Option<Vec<Lasting>> {
        let mut reader = Reader(bytes);
        let mut list = Vec::new();
        while !reader.0.is_empty() {
            list.push(Lasting::decode(&mut reader)?);
        }
        Some(list)
    }

    fn decode(from: &mut Reader<'_>) -> Option<Lasting> {
        let (place, verdict, done, last_part) = (from.u8()?, from.u8()?, from.u8()?, from.u8()?);
        let mut entry = Lasting {
            place,
            verdict,
            done,
            last_part,
            count: from.u32()?,
            inode: from.u64()?,
            id: from.u64()?,
            from: from.u64()?,
            length: from.u64()?,
            first: from.u64()? as i64,
            last: from.u64()? as i64,
            ..Lasting::default()
        };
        let path = from.u16()?;
        entry.path = from.take(path.into())?.to_vec();
        Some(entry)
    }
}
