//! Records as they lie in a payload, looked at without being copied (S-8.5): for whoever passes most of them on.

use super::record::{DecodeError, UNWRITTEN, UPDATE};
use crate::PAGE;
use crate::id::MetaId;

/// Bytes of a record before its body.
const HEAD: usize = 4;

/// Records of a payload, one after the other; ends with the first whose length is not right.
#[derive(Clone)]
pub struct Raws<'a> {
    payload: &'a [u8],
    at: usize,
}

/// One record: what its type tells is read when it is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// All its bytes, type and length too.
    pub whole: &'a [u8],
    kind: u8,
    body: &'a [u8],
}

/// An update: new bytes of a metablock.
#[derive(Clone, Copy, Debug)]
pub struct RawUpdate<'a> {
    /// Of which.
    pub id: MetaId,
    /// Of which generation.
    pub generation: u32,
    spans: &'a [[u8; 4]],
    bytes: &'a [u8],
}

/// The records of a payload.
pub fn raw(payload: &[u8]) -> Raws<'_> {
    Raws { payload, at: 0 }
}

impl<'a> Iterator for Raws<'a> {
    type Item = Result<Raw<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.payload.get(self.at..).filter(|rest| !rest.is_empty())?;
        let found = rest.split_first_chunk::<HEAD>().and_then(|([kind, len @ ..], behind)| {
            let len = u32::from_le_bytes([len[0], len[1], len[2], 0]) as usize;
            Some(Raw {
                whole: &rest[..HEAD + behind.get(..len)?.len()],
                kind: *kind,
                body: &behind[..len],
            })
        });
        let at = self.at;
        self.at = found.map_or(usize::MAX, |record| at + record.whole.len());
        Some(found.ok_or(DecodeError {
            at,
            what: "record reaches beyond its group",
        }))
    }
}

fn word(body: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*body.get(at..)?.first_chunk()?))
}

fn half(body: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*body.get(at..)?.first_chunk()?))
}

impl<'a> Raw<'a> {
    /// Whether it is an update.
    pub fn is_update(&self) -> bool {
        self.kind == UPDATE
    }

    /// The update. `None`: it is none, or not as S-8.5 says.
    pub fn update(&self) -> Option<RawUpdate<'a>> {
        if self.kind != UPDATE {
            return None;
        }
        let count = u16::from_le_bytes(*self.body.get(12..)?.first_chunk()?);
        let (spans, bytes) = self.body.get(14..)?.split_at_checked(4 * usize::from(count))?;
        let update = RawUpdate {
            id: MetaId(word(self.body, 0)?),
            generation: half(self.body, 8)?,
            spans: spans.as_chunks().0,
            bytes,
        };
        let ends = update.spans.iter().map(|span| span_of(*span));
        let is_inside = ends.clone().all(|(offset, len)| offset + len <= PAGE);
        (is_inside && ends.map(|(_, len)| len).sum::<usize>() == bytes.len()).then_some(update)
    }

    /// The metablock that dies, if it is a death.
    pub fn death(&self) -> Option<MetaId> {
        (self.kind == 3).then(|| word(self.body, 0).map(MetaId))?
    }

    /// Inode and page that it stages, if it is a tail or zeros.
    pub fn staged(&self) -> Option<(u64, u64)> {
        match self.kind {
            12 | 13 => Some((word(self.body, 0)?, word(self.body, 8)?)),
            _ => None,
        }
    }

    /// Whether it is a tail, with bytes.
    pub fn is_tail(&self) -> bool {
        self.kind == 12
    }

    /// Inode, first page and number of pages, if it is a map-entry.
    pub fn map_entry(&self) -> Option<(u64, u64, u32)> {
        match self.kind {
            11 => Some((
                word(self.body, 0)?,
                word(self.body, 8)?,
                half(self.body, 24)? & !UNWRITTEN,
            )),
            _ => None,
        }
    }
}

fn span_of([a, b, c, d]: [u8; 4]) -> (usize, usize) {
    (
        usize::from(u16::from_le_bytes([a, b])),
        usize::from(u16::from_le_bytes([c, d])),
    )
}

impl<'a> RawUpdate<'a> {
    /// Offsets and bytes of its ranges; all of them lie within a metablock.
    pub fn ranges(&self) -> impl Iterator<Item = (usize, &'a [u8])> + use<'a> {
        let (spans, mut rest) = (self.spans, self.bytes);
        spans.iter().map(move |span| {
            let (offset, len) = span_of(*span);
            let (bytes, behind) = rest.split_at(len.min(rest.len()));
            rest = behind;
            (offset, bytes)
        })
    }

    /// How many ranges it has, and bytes in them.
    pub fn size(&self) -> (usize, usize) {
        (self.spans.len(), self.bytes.len())
    }
}

#[cfg(test)]
mod tests;
