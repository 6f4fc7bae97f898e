//! A transaction's redo, encoded before it commits (S-14.2).
//!
//! The memory is kept per thread from one transaction to the next, so that nothing is allocated as a rule.

use super::{ENTRY_MAX, HEAD};
use crate::error::{Error, Pressure, Stop};
use crate::segment::Segment;
use keepfs_codes::crc64;
use keepfs_format::MetaId;
use keepfs_format::plog::{self, Record};
use std::cell::Cell;

/// Bytes of memory that a thread keeps at most.
const KEEP_MAX: usize = 128 << 10;

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Records on their way into an entry.
pub struct Draft {
    /// Room for the head, then the records.
    bytes: Vec<u8>,
    count: u32,
    /// Up to where the records have which CRC.
    summed: (usize, u64),
}

impl Draft {
    /// An empty draft.
    pub fn begin() -> Draft {
        let mut bytes = SPARE.take();
        bytes.clear();
        bytes.resize(HEAD, 0);
        Draft {
            bytes,
            count: 0,
            summed: (HEAD, crc64::full(&[])),
        }
    }

    /// Adds a record.
    pub fn push(&mut self, record: &Record) {
        record.encode(&mut self.bytes);
        self.count += 1;
    }

    /// What was added so far has this CRC-64; it is the beginning of the entry's (S-13.16). Whether it has.
    pub fn begins_with(&mut self, sum: u64) -> bool {
        self.summed = (self.bytes.len(), sum);
        crc64::full(&self.bytes[HEAD..]) == sum
    }

    /// Adds an update of `ranges` whose bytes `load` gives.
    pub fn push_update(
        &mut self,
        id: MetaId,
        generation: u32,
        ranges: &[(u16, u16)],
        load: impl FnMut(u16, &mut [u8]),
    ) {
        plog::encode_update(&mut self.bytes, id, generation, ranges, load);
        self.count += 1;
    }

    /// Takes room in the ring. Errors: there is none.
    pub fn seal(mut self, segment: &Segment) -> Result<Encoded<'_>, NoRoom> {
        let payload = self.bytes.len() - HEAD;
        let (end, sum) = self.summed;
        let crc = crc64::more(sum, &self.bytes[end..]);
        let len = self.bytes.len().next_multiple_of(8);
        if len > ENTRY_MAX {
            return Err(NoRoom::Ever { payload });
        }
        if !segment.take_room(len) {
            return Err(NoRoom::Now);
        }
        self.bytes.resize(len, 0);
        self.bytes[20..22].fill(0);
        self.bytes[24..28].copy_from_slice(&(payload as u32).to_le_bytes());
        self.bytes[28..32].copy_from_slice(&self.count.to_le_bytes());
        Ok(Encoded {
            segment,
            bytes: core::mem::take(&mut self.bytes),
            len,
            end: HEAD + payload,
            crc,
            kept: false,
        })
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        spare(core::mem::take(&mut self.bytes));
    }
}

/// There is no room for an entry in the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRoom {
    /// Not before something else is in the log.
    Now,
    /// It is longer than any entry may be.
    Ever {
        /// Bytes of its records.
        payload: usize,
    },
}

impl From<NoRoom> for Stop {
    fn from(none: NoRoom) -> Stop {
        match none {
            NoRoom::Now => Stop::Pressure(Pressure::Redo),
            NoRoom::Ever { payload } => Stop::Error(Error::Logic(format!(
                "a transaction of {payload} bytes is longer than the redo ring"
            ))),
        }
    }
}

/// An entry that lacks only its number and slot. It holds room in the ring; dropped without being published, it gives
/// it back.
pub struct Encoded<'s> {
    segment: &'s Segment,
    bytes: Vec<u8>,
    len: usize,
    /// Where the records end.
    end: usize,
    /// Of the records.
    crc: u64,
    kept: bool,
}

impl Encoded<'_> {
    /// The records.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[HEAD..self.end]
    }

    /// The whole entry.
    pub(super) fn finish(&mut self, seq: u64, slot: u16, generation: u32) -> &[u8] {
        let bytes = &mut self.bytes;
        bytes[8..16].copy_from_slice(&seq.to_le_bytes());
        bytes[16..20].copy_from_slice(&generation.to_le_bytes());
        bytes[20..22].copy_from_slice(&slot.to_le_bytes());
        let crc = crc64::seeded(self.segment.incarnation(), &bytes[8..HEAD]) ^ self.crc;
        bytes[..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The ring keeps its room. Returns the entry's length.
    pub(super) fn keep(mut self) -> usize {
        self.kept = true;
        self.len
    }
}

impl Drop for Encoded<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.segment.give_room(self.len);
        }
        spare(core::mem::take(&mut self.bytes));
    }
}

fn spare(bytes: Vec<u8>) {
    if bytes.capacity() <= KEEP_MAX {
        SPARE.set(bytes);
    }
}
