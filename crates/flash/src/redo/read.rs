//! Reading entries back, checked: when a group is cut, and after a kill (S-14.4, S-14.8).

use super::{Cursor, ENTRY_MAX, Entry, HEAD, Redo, RedoDamage, Span, TxnRedo};
use crate::segment::{RING, Segment, Word};
use keepfs_codes::crc64;
use keepfs_format::plog;
use std::sync::Arc;

/// The head of an entry, as it lies there.
struct Head {
    bytes: [u8; HEAD],
    seq: u64,
    slot: u16,
    generation: u32,
    /// Bytes of its records.
    payload: usize,
    count: u32,
}

impl Head {
    /// The head at an offset of the ring, if its length is possible.
    fn at(segment: &Segment, at: usize) -> Option<Head> {
        let mut bytes = [0; HEAD];
        segment.ring_load(at, &mut bytes);
        let half = |i: usize| u32::from_le_bytes([bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]]);
        let payload = half(24) as usize;
        (payload <= ENTRY_MAX - HEAD).then(|| Head {
            seq: u64::from(half(8)) | u64::from(half(12)) << 32,
            slot: half(20) as u16,
            generation: half(16),
            payload,
            count: half(28),
            bytes,
        })
    }

    /// Bytes of the entry.
    fn len(&self) -> usize {
        (HEAD + self.payload).next_multiple_of(8)
    }

    /// Loads the records; whether head and records are what the CRC says.
    fn load(&self, segment: &Segment, at: usize, records: &mut [u8]) -> bool {
        segment.ring_load((at + HEAD) % RING, records);
        let crc = crc64::seeded(segment.incarnation(), &self.bytes[8..]) ^ crc64::full(records);
        self.bytes
            .first_chunk()
            .is_some_and(|told| crc == u64::from_le_bytes(*told))
    }
}

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
        let head = Head::at(segment, at)?;
        let mut payload = vec![0; head.payload];
        head.load(segment, at, &mut payload).then_some(Whole {
            seq: head.seq,
            slot: head.slot,
            generation: head.generation,
            payload,
            count: head.count,
        })
    }

    fn decode(&self) -> Option<TxnRedo> {
        let records = plog::decode(&self.payload).ok()?;
        (records.len() == self.count as usize).then_some(TxnRedo { seq: self.seq, records })
    }
}

impl Span {
    /// The transactions before the first whose entry is not what its checksum says.
    pub fn read_whole(&self, segment: &Segment) -> Vec<TxnRedo> {
        let mut whole = Vec::new();
        for end in 1..=self.entries.len() {
            let one = Span {
                at: (self.at + self.entries[..end - 1].iter().map(|e| e.len as usize).sum::<usize>()) % RING,
                entries: self.entries[end - 1..end].to_vec(),
            };
            match one.read(segment) {
                Ok(read) => whole.extend(read),
                Err(_) => break,
            }
        }
        whole
    }

    /// The records of all transactions, one behind the other in `buffer`, and how many they are. Errors: the first entry that
    /// is not what its checksum says.
    pub fn records<'b>(&self, segment: &Segment, buffer: &'b mut Vec<u8>) -> Result<(&'b [u8], u32), RedoDamage> {
        let mut at = self.at;
        let most = self.entries.iter().map(|entry| entry.len as usize).sum();
        if buffer.len() < most {
            buffer.clear();
            buffer.resize(most, 0);
        }
        let (mut end, mut count) = (0, 0);
        for entry in &self.entries {
            let head = Head::at(segment, at).filter(|h| h.seq == entry.seq && h.len() == entry.len as usize);
            let head = head.ok_or(RedoDamage { seq: entry.seq })?;
            let start = end;
            end += head.payload;
            if !head.load(segment, at, &mut buffer[start..end]) {
                return Err(RedoDamage { seq: entry.seq });
            }
            count += head.count;
            at = (at + entry.len as usize) % RING;
        }
        Ok((&buffer[..end], count))
    }

    /// Number of the last transaction, or 0.
    pub fn last(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.seq)
    }

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

/// The ring as a killed server left it.
pub struct Rebuilt {
    /// Its entries up to the first that is not right; none is in a group.
    pub redo: Redo,
    /// The first that is not right, or is missing.
    pub damage: Option<RedoDamage>,
    /// The last transaction that somebody may have heard of.
    pub heard: u64,
    /// Whether it is that one: else there may have been more.
    pub is_known: bool,
}

/// Most entries that the ring holds.
pub const ENTRIES_MAX: u64 = (RING / HEAD) as u64;

/// Whether a whole entry of a transaction behind `seq` stands anywhere in the ring, whatever the cursor says (S-14.17).
pub fn has_beyond(segment: &Segment, seq: u64) -> bool {
    let beyond = seq.saturating_add(1)..=seq.saturating_add(ENTRIES_MAX);
    let mut part = vec![0; PART];
    (0..RING).step_by(PART).any(|from| {
        segment.ring_load(from, &mut part);
        let words = part
            .chunks_exact(8)
            .map(|word| word.first_chunk().map_or(0, |word| u64::from_le_bytes(*word)));
        let mut numbers = words.enumerate().filter(|(_, word)| beyond.contains(word));
        // Its number is the second word of an entry.
        numbers.any(|(i, seq)| {
            let entry = Whole::at(segment, (from + 8 * i + RING - 8) % RING);
            entry.is_some_and(|entry| entry.seq == seq)
        })
    })
}

/// The ring is looked through in parts of so many bytes.
const PART: usize = 1 << 20;

/// The ring as a killed server left it (S-14.8, S-14.14). `committed` tells the number of the transaction that an undo slot committed in
/// a generation.
pub fn rebuild(segment: Arc<Segment>, committed: impl Fn(u16, u32) -> Option<u64>) -> Rebuilt {
    let (given_up, followed) = (segment.word(Word::Last), segment.word(Word::Followed));
    let cursor = Cursor::of(&segment);
    let last = given_up.or(followed).unwrap_or(0);
    let start = cursor.map_or(0, |cursor| cursor.start);
    let mut redo = Redo {
        last,
        start,
        end: start,
        segment,
        kept: Default::default(),
        taken: 0,
    };
    let is_whole = cursor.is_some_and(|cursor| redo.read_back(cursor.bytes(), committed));
    // Without a CRC it must be possible at least.
    let most = match redo.segment.is_former() {
        true => redo.last.saturating_add(ENTRIES_MAX),
        false => u64::MAX,
    };
    let told = cursor.and_then(|cursor| cursor.last(last)).unwrap_or(0);
    let heard = told.max(followed.filter(|seq| *seq <= most).unwrap_or(0));
    let is_known = cursor.is_some() && given_up.is_some();
    let is_right = is_whole && is_known && redo.last >= heard;
    let seq = redo.last.saturating_add(1);
    Rebuilt {
        damage: (!is_right).then_some(RedoDamage { seq }),
        // An entry that is not right was there.
        heard: if is_whole || cursor.is_none() {
            heard
        } else {
            heard.max(seq)
        },
        is_known,
        redo,
    }
}

impl Redo {
    /// Adopts the entries of the next `left` bytes, and the one behind them if its slot is committed. Whether all are right.
    fn read_back(&mut self, mut left: usize, committed: impl Fn(u16, u32) -> Option<u64>) -> bool {
        let segment = self.segment.clone();
        while left > 0 {
            let is_first = self.kept.is_empty();
            let next = Whole::at(&segment, self.end)
                .filter(|w| w.len() <= left && (self.is_next(w) || is_first && w.seq <= self.last));
            let Some(whole) = next else { return false };
            left -= whole.len();
            self.adopt(&whole);
        }
        // Committed, but killed before the cursor was moved on (S-14.3).
        let beyond =
            Whole::at(&segment, self.end).filter(|w| self.is_next(w) && committed(w.slot, w.generation) == Some(w.seq));
        if let Some(whole) = beyond {
            self.adopt(&whole);
        }
        true
    }

    fn is_next(&self, whole: &Whole) -> bool {
        self.last.checked_add(1) == Some(whole.seq)
    }

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
