//! One event (S-18.5).

use super::{Reader, short};

/// Most bytes of what stood and of what was found that an event keeps.
pub const SHOWN: usize = 64;
/// Most bytes of a text.
const TEXT_MAX: usize = 512;

/// Something that was noticed. The numbers of `place`, `verdict` and `done` are those of S-18.5.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Event {
    /// Its number; they are consecutive.
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

impl Event {
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
