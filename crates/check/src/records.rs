//! The records of a group, as S-8.4 and S-8.5 lay them out.
//!
//! The engine reads the log with a decoder of its own (`keepfs_format::plog::decode`): what one of them gets wrong, the other
//! sees.

use keepfs_format::plog::{Record, Run};
use keepfs_format::{MetaId, PAGE, Space};

/// Bit of a map-entry's count: the entries are unwritten, no CRCs follow.
const UNWRITTEN: u64 = 1 << 31;
/// Most numbers of a run.
const RUN_MAX: u64 = 32_512;
/// Numbers of every space are below.
const NUMBERS_END: u64 = 1 << 56;

/// Why bytes are no records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wrong {
    /// Offset in the payload of the group.
    pub at: usize,
    /// What is wrong there.
    pub what: &'static str,
}

/// The records of a group's payload.
pub(crate) fn decode(payload: &[u8]) -> Result<Vec<Record>, Wrong> {
    let mut group = Fields { bytes: payload, at: 0 };
    let mut records = Vec::new();
    while group.at < payload.len() {
        let [kind, len] = group.numbers([1, 3])?;
        let end = group.at + len as usize;
        let Some(bytes) = payload.get(..end) else {
            return group.wrong("record reaches beyond its group");
        };
        let mut body = Fields { bytes, at: group.at };
        records.push(body.record(kind)?);
        if body.at < end {
            return body.wrong("record is longer than its fields");
        }
        group.at = end;
    }
    Ok(records)
}

/// Fields one after the other, packed.
struct Fields<'b> {
    /// The payload up to where the fields end.
    bytes: &'b [u8],
    /// Where the next field begins.
    at: usize,
}

impl<'b> Fields<'b> {
    fn wrong<T>(&self, what: &'static str) -> Result<T, Wrong> {
        Err(Wrong { at: self.at, what })
    }

    fn take(&mut self, len: usize) -> Result<&'b [u8], Wrong> {
        let Some(taken) = self.bytes[self.at..].get(..len) else {
            return self.wrong("record is shorter than its fields");
        };
        self.at += len;
        Ok(taken)
    }

    /// Little-endian numbers of so many bytes each.
    fn numbers<const N: usize>(&mut self, sizes: [usize; N]) -> Result<[u64; N], Wrong> {
        let mut numbers = [0; N];
        for (number, size) in numbers.iter_mut().zip(sizes) {
            let bytes = self.take(size)?.iter().rev();
            *number = bytes.fold(0, |high, byte| high << 8 | u64::from(*byte));
        }
        Ok(numbers)
    }

    /// The fields of a record of type `kind`.
    fn record(&mut self, kind: u64) -> Result<Record, Wrong> {
        Ok(match kind {
            1 => self.update()?,
            2 => {
                let [id, generation, kind, level, _reserved, owner] = self.numbers([8, 4, 1, 1, 2, 8])?;
                Record::Birth {
                    id: MetaId(id),
                    generation: generation as u32,
                    kind: kind as u8,
                    level: level as u8,
                    owner,
                }
            }
            3 => {
                let [id, generation] = self.numbers([8, 4])?;
                Record::Death {
                    id: MetaId(id),
                    generation: generation as u32,
                }
            }
            4 => self.bits().map(|(space, run)| Record::Alloc { space, run })?,
            5 => self.bits().map(|(space, run)| Record::Free { space, run })?,
            6 => {
                let run = self.run()?;
                let [delta] = self.numbers([4])?;
                Record::Ref {
                    run,
                    delta: delta as u32 as i32,
                }
            }
            7 => {
                let [ino, born] = self.numbers([8, 8])?;
                Record::Create { ino, born }
            }
            8 => {
                let [ino, dir] = self.numbers([8, 8])?;
                Record::Link { ino, dir }
            }
            9 => {
                let [ino, dir, nlink, born] = self.numbers([8, 8, 4, 8])?;
                Record::Unlink {
                    ino,
                    dir,
                    nlink: nlink as u32,
                    born,
                }
            }
            10 => {
                let [ino, size] = self.numbers([8, 8])?;
                Record::Truncate { ino, size }
            }
            11 => self.map_entry()?,
            12 | 13 => self.staged(kind == 12)?,
            15 => {
                let [ino, index] = self.numbers([8, 8])?;
                Record::Lost { ino, index }
            }
            16 => {
                let [bytes, crc] = self.numbers([4, 8])?;
                let xor = self.take(self.bytes.len() - self.at)?.to_vec();
                Record::Parity {
                    bytes: bytes as u32,
                    crc,
                    xor,
                }
            }
            _ => return self.wrong("unknown record type"),
        })
    }

    /// Numbers of a space that has bits.
    fn bits(&mut self) -> Result<(Space, Run), Wrong> {
        let [space] = self.numbers([1])?;
        let (space, most) = match space {
            3 => (Space::Pages, RUN_MAX),
            5 => (Space::InodeNumbers, 1),
            6 => (Space::Orphans, 1),
            1..=9 => return self.wrong("space has no alloc and free records"),
            _ => return self.wrong("unknown space"),
        };
        let [_reserved] = self.numbers([3])?;
        let run = self.run()?;
        if u64::from(run.count) > most {
            return self.wrong("a record allocates or frees more than one inode number");
        }
        Ok((space, run))
    }

    fn run(&mut self) -> Result<Run, Wrong> {
        let [start, count] = self.numbers([8, 4])?;
        let is_within = start <= NUMBERS_END && count <= NUMBERS_END - start;
        if count == 0 || count > RUN_MAX || !is_within {
            return self.wrong("run is empty, too long or out of range");
        }
        Ok(Run {
            start,
            count: count as u32,
        })
    }

    /// Offset and length of a part of a page.
    fn part(&mut self) -> Result<(u16, u16), Wrong> {
        let [offset, len] = self.numbers([2, 2])?;
        if offset + len > PAGE as u64 {
            return self.wrong("range reaches beyond its page");
        }
        Ok((offset as u16, len as u16))
    }

    fn update(&mut self) -> Result<Record, Wrong> {
        let [id, generation, count] = self.numbers([8, 4, 2])?;
        let parts: Vec<(u16, u16)> = (0..count).map(|_| self.part()).collect::<Result<_, _>>()?;
        let bytes = |(offset, len)| Ok((offset, self.take(usize::from(len))?.to_vec()));
        Ok(Record::Update {
            id: MetaId(id),
            generation: generation as u32,
            ranges: parts.into_iter().map(bytes).collect::<Result<_, _>>()?,
        })
    }

    fn map_entry(&mut self) -> Result<Record, Wrong> {
        let [ino, index, page, count, version, last_len] = self.numbers([8, 8, 8, 4, 4, 4])?;
        let (count, is_unwritten) = (count & !UNWRITTEN, count & UNWRITTEN != 0);
        let told = if page == 0 || is_unwritten { 0 } else { count };
        let crcs = (0..told).map(|_| Ok(self.numbers([4])?[0] as u32));
        let crcs = crcs.collect::<Result<_, _>>()?;
        if count == 0 || page > u64::MAX - count || index > u64::MAX - count {
            return self.wrong("map-entry is empty or out of range");
        }
        Ok(Record::MapEntry {
            ino,
            index,
            page,
            count: count as u32,
            version: version as u32,
            last_len: last_len as u32,
            crcs,
        })
    }

    /// A tail, which has bytes, or a zero, which has none.
    fn staged(&mut self, has_bytes: bool) -> Result<Record, Wrong> {
        let [ino, index, version, base, base_crc] = self.numbers([8, 8, 4, 8, 4])?;
        let (version, base_crc) = (version as u32, base_crc as u32);
        let (offset, len) = self.part()?;
        if !has_bytes {
            return Ok(Record::Zero {
                ino,
                index,
                version,
                base,
                base_crc,
                offset,
                len,
            });
        }
        Ok(Record::Tail {
            ino,
            index,
            version,
            base,
            base_crc,
            offset,
            bytes: self.take(usize::from(len))?.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests;
