//! The records of a group, encoded and decoded (SPEC S-8.5).

use crate::id::{MetaId, Space};

/// A run of numbers: pages, inode numbers or orphan bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct Run {
    /// First number.
    pub start: u64,
    /// How many, at least 1.
    pub count: u32,
}

/// One record. Byte strings are owned so that a record may outlive its log page.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // S-8.5 is the text; the names are its names.
pub enum Record {
    Update {
        id: MetaId,
        generation: u32,
        ranges: Vec<(u16, Vec<u8>)>,
    },
    Birth {
        id: MetaId,
        generation: u32,
        kind: u8,
        level: u8,
        owner: u64,
    },
    Death {
        id: MetaId,
        generation: u32,
    },
    Alloc {
        space: Space,
        run: Run,
    },
    Free {
        space: Space,
        run: Run,
    },
    Ref {
        run: Run,
        delta: i32,
    },
    Create {
        ino: u64,
        born: u64,
    },
    Link {
        ino: u64,
        dir: u64,
    },
    Unlink {
        ino: u64,
        dir: u64,
        nlink: u32,
        born: u64,
    },
    Truncate {
        ino: u64,
        size: u64,
    },
    /// `page` 0: these became holes. `crcs` is empty for holes and unwritten pages, else as long as `count`.
    MapEntry {
        ino: u64,
        index: u64,
        page: u64,
        count: u32,
        version: u32,
        last_len: u32,
        crcs: Vec<u32>,
    },
    Tail {
        ino: u64,
        index: u64,
        version: u32,
        base: u64,
        base_crc: u32,
        offset: u16,
        bytes: Vec<u8>,
    },
    Zero {
        ino: u64,
        index: u64,
        version: u32,
        base: u64,
        base_crc: u32,
        offset: u16,
        len: u16,
    },
    Lost {
        ino: u64,
        index: u64,
    },
    /// Of a carried group: `bytes` and `crc` of the payload behind this page, and the XOR of its pages (S-10.3).
    Parity {
        bytes: u32,
        crc: u64,
        xor: Vec<u8>,
    },
}

/// Why bytes are not a list of records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// Offset in the group's payload.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// Type number of an update.
pub(super) const UPDATE: u8 = 1;
/// Bit of a map-entry's count: the entries are unwritten.
pub(super) const UNWRITTEN: u32 = 1 << 31;
/// Most numbers of a run (S-8.5).
pub const RUN_MAX: u32 = 32_512;
/// Longest body that the 24-bit length can tell.
pub const BODY_MAX: usize = (1 << 24) - 1;

struct Out<'a>(&'a mut Vec<u8>);

impl Out<'_> {
    fn u8(&mut self, v: u8) -> &mut Self {
        self.0.push(v);
        self
    }
    fn u16(&mut self, v: u16) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }
    fn u32(&mut self, v: u32) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }
    fn u64(&mut self, v: u64) -> &mut Self {
        self.bytes(&v.to_le_bytes())
    }
    fn bytes(&mut self, v: &[u8]) -> &mut Self {
        self.0.extend_from_slice(v);
        self
    }
}

impl Record {
    /// The type number (S-8.5).
    pub fn type_number(&self) -> u8 {
        match self {
            Record::Update { .. } => UPDATE,
            Record::Birth { .. } => 2,
            Record::Death { .. } => 3,
            Record::Alloc { .. } => 4,
            Record::Free { .. } => 5,
            Record::Ref { .. } => 6,
            Record::Create { .. } => 7,
            Record::Link { .. } => 8,
            Record::Unlink { .. } => 9,
            Record::Truncate { .. } => 10,
            Record::MapEntry { .. } => 11,
            Record::Tail { .. } => 12,
            Record::Zero { .. } => 13,
            Record::Lost { .. } => 15,
            Record::Parity { .. } => 16,
        }
    }

    /// Appends the record to a group's payload. Bodies are far below 2^24 bytes by the bounds of a transaction.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend_from_slice(&[self.type_number(), 0, 0, 0]);
        self.encode_body(&mut Out(to));
        let len = (to.len() - start - 4).min(BODY_MAX) as u32;
        to[start + 1..start + 4].copy_from_slice(&len.to_le_bytes()[..3]);
    }

    fn encode_body(&self, out: &mut Out<'_>) {
        match self {
            Record::Update { id, generation, ranges } => {
                out.u64(id.0).u32(*generation).u16(ranges.len() as u16);
                for (offset, bytes) in ranges {
                    out.u16(*offset).u16(bytes.len() as u16);
                }
                for (_, bytes) in ranges {
                    out.bytes(bytes);
                }
            }
            Record::Birth {
                id,
                generation,
                kind,
                level,
                owner,
            } => {
                out.u64(id.0).u32(*generation).u8(*kind).u8(*level).u16(0).u64(*owner);
            }
            Record::Death { id, generation } => {
                out.u64(id.0).u32(*generation);
            }
            Record::Alloc { space, run } | Record::Free { space, run } => {
                out.u8(*space as u8).bytes(&[0; 3]).u64(run.start).u32(run.count);
            }
            Record::Ref { run, delta } => {
                out.u64(run.start).u32(run.count).u32(*delta as u32);
            }
            Record::Create { ino, born } => {
                out.u64(*ino).u64(*born);
            }
            Record::Link { ino, dir } => {
                out.u64(*ino).u64(*dir);
            }
            Record::Unlink { ino, dir, nlink, born } => {
                out.u64(*ino).u64(*dir).u32(*nlink).u64(*born);
            }
            Record::Truncate { ino, size } => {
                out.u64(*ino).u64(*size);
            }
            Record::MapEntry {
                ino,
                index,
                page,
                count,
                version,
                last_len,
                crcs,
            } => {
                let unwritten = if crcs.is_empty() && *page != 0 { UNWRITTEN } else { 0 };
                out.u64(*ino)
                    .u64(*index)
                    .u64(*page)
                    .u32(*count | unwritten)
                    .u32(*version)
                    .u32(*last_len);
                for crc in crcs {
                    out.u32(*crc);
                }
            }
            Record::Tail {
                ino,
                index,
                version,
                base,
                base_crc,
                offset,
                bytes,
            } => {
                out.u64(*ino)
                    .u64(*index)
                    .u32(*version)
                    .u64(*base)
                    .u32(*base_crc)
                    .u16(*offset);
                out.u16(bytes.len() as u16).bytes(bytes);
            }
            Record::Zero {
                ino,
                index,
                version,
                base,
                base_crc,
                offset,
                len,
            } => {
                out.u64(*ino)
                    .u64(*index)
                    .u32(*version)
                    .u64(*base)
                    .u32(*base_crc)
                    .u16(*offset)
                    .u16(*len);
            }
            Record::Lost { ino, index } => {
                out.u64(*ino).u64(*index);
            }
            Record::Parity { bytes, crc, xor } => {
                out.u32(*bytes).u64(*crc).bytes(xor);
            }
        }
    }
}

/// Appends an update record of `ranges` (from, to: sorted, disjoint) whose bytes `load` gives: for whoever has the bytes
/// elsewhere and would copy them twice.
pub fn encode_update(
    to: &mut Vec<u8>,
    id: MetaId,
    generation: u32,
    ranges: &[(u16, u16)],
    mut load: impl FnMut(u16, &mut [u8]),
) {
    let start = to.len();
    to.extend_from_slice(&[UPDATE, 0, 0, 0]);
    Out(to).u64(id.0).u32(generation).u16(ranges.len() as u16);
    for (from, end) in ranges {
        Out(to).u16(*from).u16(end - from);
    }
    for (from, end) in ranges {
        let at = to.len();
        to.resize(at + usize::from(end - from), 0);
        load(*from, &mut to[at..]);
    }
    let len = (to.len() - start - 4).min(BODY_MAX) as u32;
    to[start + 1..start + 4].copy_from_slice(&len.to_le_bytes()[..3]);
}

struct In<'a> {
    all: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> In<'a> {
    fn bytes(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let end = self.at.checked_add(n).filter(|e| *e <= self.end);
        let end = end.ok_or(DecodeError {
            at: self.at,
            what: "record is shorter than its fields",
        })?;
        let bytes = &self.all[self.at..end];
        self.at = end;
        Ok(bytes)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }
    fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }
    fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array()?))
    }
    fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array()?))
    }
    fn u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array()?))
    }
    fn error<T>(&self, what: &'static str) -> Result<T, DecodeError> {
        Err(DecodeError { at: self.at, what })
    }
}

/// Decodes a group's payload into its records. Fails on the first byte that is not as S-8.5 says.
pub fn decode(payload: &[u8]) -> Result<Vec<Record>, DecodeError> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < payload.len() {
        let mut head = In {
            all: payload,
            at,
            end: payload.len(),
        };
        let kind = head.u8()?;
        let len = head.array::<3>()?;
        let len = u32::from_le_bytes([len[0], len[1], len[2], 0]) as usize;
        let end = head.at + len;
        if end > payload.len() {
            return head.error("record reaches beyond its group");
        }
        let mut body = In {
            all: payload,
            at: head.at,
            end,
        };
        records.push(decode_body(kind, &mut body)?);
        if body.at != end {
            return body.error("record is longer than its fields");
        }
        at = end;
    }
    Ok(records)
}

fn decode_body(kind: u8, b: &mut In<'_>) -> Result<Record, DecodeError> {
    Ok(match kind {
        UPDATE => decode_update(b)?,
        2 => {
            let (id, generation, kind, level) = (MetaId(b.u64()?), b.u32()?, b.u8()?, b.u8()?);
            b.u16()?;
            Record::Birth {
                id,
                generation,
                kind,
                level,
                owner: b.u64()?,
            }
        }
        3 => Record::Death {
            id: MetaId(b.u64()?),
            generation: b.u32()?,
        },
        4 | 5 => {
            let Some(space) = Space::of(b.u8()?) else {
                return b.error("unknown space");
            };
            if !matches!(space, Space::Pages | Space::InodeNumbers | Space::Orphans) {
                return b.error("space has no alloc and free records");
            }
            b.bytes(3)?;
            let run = decode_run(b)?;
            if space != Space::Pages && run.count != 1 {
                return b.error("a record allocates or frees more than one inode number");
            }
            if kind == 4 {
                Record::Alloc { space, run }
            } else {
                Record::Free { space, run }
            }
        }
        6 => Record::Ref {
            run: decode_run(b)?,
            delta: b.u32()? as i32,
        },
        7 => Record::Create {
            ino: b.u64()?,
            born: b.u64()?,
        },
        8 => Record::Link {
            ino: b.u64()?,
            dir: b.u64()?,
        },
        9 => Record::Unlink {
            ino: b.u64()?,
            dir: b.u64()?,
            nlink: b.u32()?,
            born: b.u64()?,
        },
        10 => Record::Truncate {
            ino: b.u64()?,
            size: b.u64()?,
        },
        11 => decode_map_entry(b)?,
        12 => {
            let (ino, index, version, base, base_crc) = (b.u64()?, b.u64()?, b.u32()?, b.u64()?, b.u32()?);
            let (offset, len) = decode_range(b)?;
            Record::Tail {
                ino,
                index,
                version,
                base,
                base_crc,
                offset,
                bytes: b.bytes(len.into())?.to_vec(),
            }
        }
        13 => {
            let (ino, index, version, base, base_crc) = (b.u64()?, b.u64()?, b.u32()?, b.u64()?, b.u32()?);
            let (offset, len) = decode_range(b)?;
            Record::Zero {
                ino,
                index,
                version,
                base,
                base_crc,
                offset,
                len,
            }
        }
        15 => Record::Lost {
            ino: b.u64()?,
            index: b.u64()?,
        },
        16 => Record::Parity {
            bytes: b.u32()?,
            crc: b.u64()?,
            xor: b.bytes(b.end - b.at)?.to_vec(),
        },
        _ => return b.error("unknown record type"),
    })
}

fn decode_run(b: &mut In<'_>) -> Result<Run, DecodeError> {
    let run = Run {
        start: b.u64()?,
        count: b.u32()?,
    };
    let end = run.start.checked_add(run.count.into());
    if !(1..=RUN_MAX).contains(&run.count) || end.is_none_or(|end| end > 1 << 56) {
        return b.error("run is empty, too long or out of range");
    }
    Ok(run)
}

/// An offset and length that stay within a page.
fn decode_range(b: &mut In<'_>) -> Result<(u16, u16), DecodeError> {
    let (offset, len) = (b.u16()?, b.u16()?);
    if usize::from(offset) + usize::from(len) > crate::PAGE {
        return b.error("range reaches beyond its page");
    }
    Ok((offset, len))
}

fn decode_update(b: &mut In<'_>) -> Result<Record, DecodeError> {
    let (id, generation, n) = (MetaId(b.u64()?), b.u32()?, b.u16()?);
    let mut spans = Vec::new();
    for _ in 0..n {
        spans.push(decode_range(b)?);
    }
    let mut ranges = Vec::with_capacity(spans.len());
    for (offset, len) in spans {
        ranges.push((offset, b.bytes(len.into())?.to_vec()));
    }
    Ok(Record::Update { id, generation, ranges })
}

fn decode_map_entry(b: &mut In<'_>) -> Result<Record, DecodeError> {
    let (ino, index, page) = (b.u64()?, b.u64()?, b.u64()?);
    let (count, version, last_len) = (b.u32()?, b.u32()?, b.u32()?);
    let unwritten = count & UNWRITTEN != 0;
    let count = count & !UNWRITTEN;
    let mut crcs = Vec::new();
    if page != 0 && !unwritten {
        for _ in 0..count {
            crcs.push(b.u32()?);
        }
    }
    if count == 0 || page.checked_add(count.into()).is_none() || index.checked_add(count.into()).is_none() {
        return b.error("map-entry is empty or out of range");
    }
    Ok(Record::MapEntry {
        ino,
        index,
        page,
        count,
        version,
        last_len,
        crcs,
    })
}
