//! One event (S-18.5).

use super::{Lasting, Reader, is_lost, short};
use crate::{MetaId, PAGE, Space, inode};

/// Most bytes of what stood and of what was found that an event keeps.
pub const SHOWN: usize = 64;
/// Most bytes of a text.
const TEXT_MAX: usize = 512;

/// Something that was noticed. The numbers of `place`, `verdict` and `done` are those of S-18.5.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Event {
    /// Its number, one more than that of the event before it.
    pub number: u64,
    /// When, seconds since 1970.
    pub seconds: i64,
    /// And nanoseconds.
    pub nanoseconds: u32,
    /// Where.
    pub place: u8,
    /// What it was.
    pub verdict: u8,
    /// What was done.
    pub done: u8,
    /// Metablock or inode.
    pub id: u64,
    /// Frame, page of the file, transaction or group.
    pub at: u64,
    /// Page of the device, 0 = none.
    pub page: u64,
    /// First byte that was wrong, in the frame or page.
    pub offset: u32,
    /// Bytes from the first to the last that were wrong.
    pub length: u32,
    /// Milliseconds since it was last seen to be right; `u32::MAX` if nobody knows.
    pub window_ms: u32,
    /// The first bytes of what should stand there.
    pub old: Vec<u8>,
    /// The first bytes of what was found.
    pub new: Vec<u8>,
    /// The sentence for people.
    pub text: String,
}

/// Places whose id is a metablock: a frame, and a copy on the device.
const OF_METABLOCKS: [u8; 2] = [1, 2];
/// Places whose id is an inode: a page of a file on the device, and one that is staged.
const OF_PAGES: [u8; 2] = [3, 8];
/// The place of transactions.
const TRANSACTION: u8 = 5;

impl Event {
    /// The inodes that it is about, as far as it and the list of damages tell (S-18.9): of a metablock the owner of a node, and the
    /// inodes whose bytes were wrong, or all that it may hold if it is lost and nothing tells which.
    pub fn inodes(&self, damage: &[Lasting]) -> Vec<u64> {
        let id = MetaId(self.id);
        if OF_PAGES.contains(&self.place) || self.place == TRANSACTION && id.space().is_none() && id.as_map().is_none()
        {
            return [self.id].into_iter().filter(|ino| *ino != 0).collect();
        }
        if !OF_METABLOCKS.contains(&self.place) {
            return Vec::new();
        }
        let told = damage.iter().filter(|entry| {
            let is_then = (entry.first..=entry.last).contains(&self.seconds);
            (entry.place, entry.id) == (self.place, self.id) && entry.inode != 0 && is_then
        });
        let mut inodes: Vec<u64> = told.map(|entry| entry.inode).collect();
        if inodes.is_empty() && id.space() == Some(Space::Inodes) {
            let (from, to) = match (self.length, is_lost(self.done)) {
                (0, true) => (0, PAGE),
                _ => (self.offset as usize, self.offset.saturating_add(self.length) as usize),
            };
            let first = inode::at(id, 0);
            let slots = (first..first + inode::PER_BLOCK).filter(|ino| *ino != 0);
            inodes.extend(slots.filter(|ino| {
                let slot = inode::offset_of(*ino);
                slot < to && from < slot + inode::SIZE
            }));
        }
        inodes.sort_unstable();
        inodes.dedup();
        inodes
    }

    /// Adds the encoded event.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let (old, new) = (
            &self.old[..self.old.len().min(SHOWN)],
            &self.new[..self.new.len().min(SHOWN)],
        );
        let text = short(&self.text, TEXT_MAX);
        to.extend_from_slice(&self.number.to_le_bytes());
        to.extend_from_slice(&self.seconds.to_le_bytes());
        to.extend_from_slice(&self.nanoseconds.to_le_bytes());
        to.extend_from_slice(&[self.place, self.verdict, self.done, 0]);
        for word in [self.id, self.at, self.page] {
            to.extend_from_slice(&word.to_le_bytes());
        }
        for half in [self.offset, self.length, self.window_ms] {
            to.extend_from_slice(&half.to_le_bytes());
        }
        to.extend_from_slice(&[old.len() as u8, new.len() as u8]);
        to.extend_from_slice(&(text.len() as u16).to_le_bytes());
        to.extend_from_slice(old);
        to.extend_from_slice(new);
        to.extend_from_slice(text.as_bytes());
    }

    /// Whether something is lost: such events outlive others (S-18.5).
    pub fn is_loss(&self) -> bool {
        is_lost(self.done)
    }

    /// As many of the last events as `room` bytes hold, oldest first: those of losses in half of it first (S-18.5).
    pub fn encode_last<'e>(events: impl DoubleEndedIterator<Item = &'e Event>, room: usize) -> Vec<u8> {
        let encoded = |event: &Event| {
            let mut bytes = Vec::new();
            event.encode(&mut bytes);
            bytes
        };
        let last: Vec<(bool, Vec<u8>)> = events.rev().map(|event| (event.is_loss(), encoded(event))).collect();
        let (mut used, mut kept) = (0, vec![false; last.len()]);
        for (most, of_losses) in [(room / 2, true), (room, false), (room, true)] {
            for (at, (is_loss, bytes)) in last.iter().enumerate() {
                if kept[at] || *is_loss != of_losses {
                    continue;
                }
                if used + bytes.len() > most {
                    break;
                }
                used += bytes.len();
                kept[at] = true;
            }
        }
        let kept = last.into_iter().zip(kept).rev().filter(|(_, kept)| *kept);
        kept.flat_map(|((_, bytes), _)| bytes).collect()
    }

    /// Events one behind the other; `None` if the bytes are none.
    pub fn decode_all(bytes: &[u8]) -> Option<Vec<Event>> {
        let mut reader = Reader(bytes);
        let mut events = Vec::new();
        while !reader.0.is_empty() {
            events.push(Event::decode(&mut reader)?);
        }
        Some(events)
    }

    fn decode(from: &mut Reader<'_>) -> Option<Event> {
        let mut event = Event {
            number: from.u64()?,
            seconds: from.u64()? as i64,
            nanoseconds: from.u32()?,
            place: from.u8()?,
            verdict: from.u8()?,
            done: from.u8()?,
            ..Event::default()
        };
        from.u8()?;
        event.id = from.u64()?;
        event.at = from.u64()?;
        event.page = from.u64()?;
        event.offset = from.u32()?;
        event.length = from.u32()?;
        event.window_ms = from.u32()?;
        let (old, new, text) = (from.u8()?, from.u8()?, from.u16()?);
        event.old = from.take(old.into())?.to_vec();
        event.new = from.take(new.into())?.to_vec();
        event.text = from.text(text.into())?;
        Some(event)
    }
}
