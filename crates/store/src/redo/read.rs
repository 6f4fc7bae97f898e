//! Reading entries back, checked: when a group is cut, and after a kill (S-14.4, S-14.8).

use super::{ENTRY_MAX, Entry, HEAD, Redo, RedoDamage, Span, TxnRedo};
use crate::segment::{RING, Segment, Word};
use keepfs_codes::crc64;
use keepfs_format::plog;
use std::sync::Arc;

/// Head and records of an entry that is what its CRC says.
struct Whole {
    seq: u64,
    slot: u16,
    generation: u32,
    payload: Vec<u8>,
    count: u32,
}

impl Whole {
    fn len(&self) -> usize {
        (HEAD + self.payload.len()).next_multiple_of(8)
    }

    /// The entry at an offset of the ring, if there is one.
    fn at(segment: &Segment, at: usize) -> Option<Whole> {
        let mut head = [0; HEAD];
        segment.ring_load(at, &mut head);
        let half = |i: usize| u32::from_le_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]);
        let word = |i: usize| u64::from(half(i)) | u64::from(half(i + 4)) << 32;
        let len = half(24) as usize;
        if len > ENTRY_MAX - HEAD {
            return None;
        }
        let mut payload = vec![0; len];
        segment.ring_load((at + HEAD) % RING, &mut payload);
        let crc = crc64::seeded(segment.incarnation(), &head[8..]) ^ crc64::full(&payload);
        (crc == word(0)).then(|| Whole {
            seq: word(8),
            slot: half(20) as u16,
            generation: half(16),
            payload,
            count: half(28),
        })
    }

    fn decode(&self) -> Option<TxnRedo> {
        let records = plog::decode(&self.payload).ok()?;
        (records.len() == self.count as usize).then_some(TxnRedo { seq: self.seq, records })
    }
}

impl Span {
    /// The transactions. Errors: the first whose entry is not what its checksum says.
    pub fn read(&self, segment: &Segment) -> Result<Vec<TxnRedo>, RedoDamage> {
        let mut at = self.at;
        let mut transactions = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let whole = Whole::at(segment, at).filter(|w| w.seq == entry.seq && w.len() == entry.len as usize);
            let txn = whole.and_then(|w| w.decode());
            transactions.push(txn.ok_or(RedoDamage { seq: entry.seq })?);
            at = (at + entry.len as usize) % RING;
        }
        Ok(transactions)
    }
}

/// The ring as a killed server left it; nothing is in a group (S-14.8). `committed` tells the number of the transaction
/// that an undo slot committed in a generation. If something in it is not right, it has what is before that, and that
/// is told.
pub fn rebuild(segment: Arc<Segment>, committed: impl Fn(u16, u32) -> Option<u64>) -> (Redo, Option<RedoDamage>) {
    let cursor = segment.word(Word::Cursor);
    let (start, end) = (cursor as u32 as usize, (cursor >> 32) as usize);
    let mut redo = Redo {
        last: segment.word(Word::Last),
        segment: segment.clone(),
        start,
        end: start,
        kept: Default::default(),
        taken: 0,
    };
    if start >= RING || end >= RING || !start.is_multiple_of(8) || !end.is_multiple_of(8) {
        let seq = redo.last + 1;
        return (redo, Some(RedoDamage { seq }));
    }
    let mut left = (end + RING - start) % RING;
    while left > 0 {
        let first = redo.kept.is_empty();
        let next = Whole::at(&segment, redo.end)
            .filter(|w| w.len() <= left && (w.seq == redo.last + 1 || first && w.seq <= redo.last));
        let Some(whole) = next else {
            let seq = redo.last + 1;
            return (redo, Some(RedoDamage { seq }));
        };
        left -= whole.len();
        redo.adopt(&whole);
    }
    // Committed, but killed before the cursor was moved on (S-14.3).
    let beyond = Whole::at(&segment, redo.end)
        .filter(|w| w.seq == redo.last + 1 && committed(w.slot, w.generation) == Some(w.seq));
    if let Some(whole) = beyond {
        redo.adopt(&whole);
    }
    (redo, None)
}

impl Redo {
    fn adopt(&mut self, whole: &Whole) {
        self.segment.take_room(whole.len());
        self.last = whole.seq;
        self.end = (self.end + whole.len()) % RING;
        self.kept.push_back(Entry {
            seq: whole.seq,
            len: whole.len() as u32,
        });
    }
}
