//! One entry of the list of damages (S-18.6).

use super::Reader;
use super::path::end_of;

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
    /// How often.
    pub count: u32,
    /// A path of the inode when that was looked for last; empty if nobody knows.
    pub path: Vec<u8>,
}

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

    /// Adds the encoded entry.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let path = end_of(&self.path, KEPT);
        to.extend_from_slice(&[self.place, self.verdict, self.done, 0]);
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
        let (place, verdict, done, _) = (from.u8()?, from.u8()?, from.u8()?, from.u8()?);
        let mut entry = Lasting {
            place,
            verdict,
            done,
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
