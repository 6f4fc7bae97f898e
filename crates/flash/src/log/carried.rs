//! The group that carries staged pages over a checkpoint (S-10.3). Its first page is the parity of those behind it: whichever
//! single page of it goes bad is made again from the others (S-9.11, S-9.21).

use super::end::{BEHIND, stored};
use super::{
    Before, CRC_OFFSET, Head, MAGIC, PAYLOAD, PAYLOAD_OFFSET, PageHead, Pages, Part, Region, Stamp, encode, put, undo,
};
use crate::error::Error;
use keepfs_codes::crc64;
use keepfs_format::plog::{FLAG_LAST, Record, decode};
use keepfs_format::{FromBytes, IntoBytes, PAGE};
use keepfs_media::Device;

/// Bytes of a parity record before the XOR.
const RECORD_HEAD: usize = 16;

/// Payload bytes of a page behind the first: what a parity record has room for.
pub(super) const ROOM: usize = PAYLOAD - RECORD_HEAD;

/// Pages that a carried group of `payload` bytes takes.
pub const fn pages_of_carried(payload: usize) -> u64 {
    let behind = payload.div_ceil(ROOM) as u64;
    1 + if behind == 0 { 1 } else { behind }
}

/// Writes the group of staged pages that a checkpoint carries over at `head`, which moves behind it, without flush.
pub fn append_carried(
    device: &dyn Device,
    region: &Region,
    head: &mut Head,
    stamp: &Stamp,
    payload: &[u8],
) -> Result<(), Error> {
    let (first, mut buffer) = (parity(payload), Vec::new());
    let parts = [
        (&first[..], 1, false),
        (payload, pages_of_carried(payload.len()) - 1, true),
    ];
    for (payload, count, ends) in parts {
        let part = Part {
            payload,
            count,
            room: if ends { ROOM } else { PAYLOAD },
            ends,
        };
        put(device, region, head, stamp, &part, &mut buffer)?;
    }
    Ok(())
}

/// The payload of the first page.
fn parity(payload: &[u8]) -> Vec<u8> {
    let mut xor = vec![0; ROOM.min(payload.len())];
    payload.chunks(ROOM).for_each(|page| add(&mut xor, page));
    encode(vec![Record::Parity {
        bytes: payload.len() as u32,
        crc: crc64::full(payload),
        xor,
    }])
}

fn add(to: &mut [u8], bytes: &[u8]) {
    to.iter_mut().zip(bytes).for_each(|(to, byte)| *to ^= byte);
}

/// Whether the group at `expected` may be the one that the checkpoint carried over: the first of the log, and flushed.
pub(super) fn may_be(first: &Head, expected: &Head, before: &Before) -> bool {
    expected.group == first.group && before.durable >= first.group
}

/// Whether it brings transactions: then a sync wrote it, and the state without it is the checkpoint's. `seq` is that of the page
/// accepted last; of the others that one is believed which continues the page before it, whatever that one is (S-9.17).
pub(super) fn is_plain(
    expected: &Head,
    before: &Before,
    seq: u64,
    pages: &mut Pages<'_>,
    end: u64,
) -> Result<bool, Error> {
    if seq > before.seq {
        return Ok(true);
    }
    let region = *pages.region;
    let mut chain = None;
    for q in expected.sequence..end.min(expected.sequence + 1 + BEHIND) {
        let bytes = bytes_of(pages, q, end)?;
        let goes_on = |page: &Lies| chain.is_some_and(|chain| page.continues(&region, before, chain));
        if let Some(Lies { head, .. }) = bytes.and_then(|bytes| Lies::of(bytes, q)).filter(goes_on) {
            return Ok(head.group.get() == expected.group && head.seq.get() > before.seq);
        }
        chain = bytes.and_then(stored);
    }
    Ok(false)
}

/// A page of the log, as it says.
struct Lies {
    head: PageHead,
    bytes: Box<[u8; PAGE]>,
}

impl Lies {
    /// What lies at the place of sequence number `q`, if it says so.
    fn of(bytes: &[u8], q: u64) -> Option<Lies> {
        let head = PageHead::read_from_bytes(&bytes[..PAYLOAD_OFFSET]).ok()?;
        let is_it = head.magic.get() == MAGIC && head.sequence.get() == q && usize::from(head.used.get()) <= PAYLOAD;
        let bytes = Box::new(bytes.try_into().ok()?);
        is_it.then_some(Lies { head, bytes })
    }

    fn payload(&self) -> &[u8] {
        &self.bytes[PAYLOAD_OFFSET..PAYLOAD_OFFSET + usize::from(self.head.used.get())]
    }

    /// Whether it is the page behind one whose CRC is `chain`.
    fn continues(&self, region: &Region, before: &Before, chain: u64) -> bool {
        stored(&self.bytes[..]) == Some(region.crc(before.incarnation, chain, &self.bytes[..]))
    }
}

/// What lies at the place of sequence number `q`, if it can be read.
fn bytes_of<'p>(pages: &'p mut Pages<'_>, q: u64, end: u64) -> Result<Option<&'p [u8]>, Error> {
    match q < end {
        false => Ok(None),
        true => match pages.get(q, end) {
            Err(error) if error.is_device_io() => Ok(None),
            bytes => bytes.map(Some),
        },
    }
}

/// The group that begins at `first`, one page of which does not continue the log.
struct Group<'a, 'd> {
    first: &'a Head,
    before: &'a Before,
    pages: &'a mut Pages<'d>,
    end: u64,
}

impl Group<'_, '_> {
    /// Its page with sequence number `q`, behind one whose CRC is `chain`: if that tells wrong bits they are undone (S-9.24).
    fn page(&mut self, q: u64, chain: Option<u64>) -> Result<Option<Lies>, Error> {
        let region = *self.pages.region;
        let Some(bytes) = bytes_of(self.pages, q, self.end)? else {
            return Ok(None);
        };
        let undone = chain.and_then(|chain| {
            let expected = Head {
                sequence: q,
                chain,
                ..*self.first
            };
            undo::wrong_bits(&region, bytes, &expected, self.before, self.before.seq)
        });
        let page = match &undone {
            Some((right, _)) => Lies::of(&right[..], q),
            None => Lies::of(bytes, q),
        };
        Ok(page.filter(|page| page.head.group.get() == self.first.group))
    }

    /// The CRC that stands in the page with sequence number `q`, whatever else does.
    fn stored(&mut self, q: u64) -> Result<Option<u64>, Error> {
        Ok(bytes_of(self.pages, q, self.end)?.and_then(stored))
    }
}

/// The payload of the pages behind the first, each filled with zeros to [`ROOM`], the bad one being zeros alone.
struct Behind {
    /// Head of a page that is there.
    head: PageHead,
    pages: Vec<u8>,
    /// How many bytes all of them have together.
    bytes: usize,
}

/// Makes the page at `expected` again, which does not continue the log, of the group that begins at `first`. `None`: the group
/// has no parity, or another page of it is bad, too.
pub(super) fn mend(
    first: &Head,
    expected: &Head,
    before: &Before,
    pages: &mut Pages<'_>,
    end: u64,
) -> Result<Option<Box<[u8; PAGE]>>, Error> {
    let (q, region) = (expected.sequence, *pages.region);
    let mut group = Group {
        first,
        before,
        pages,
        end,
    };
    let (head, payload, last) = if q == first.sequence {
        let Some(behind) = group.all_behind()? else {
            return Ok(None);
        };
        (behind.head, parity(&behind.pages[..behind.bytes]), false)
    } else {
        let Some(behind) = group.others(q)? else {
            return Ok(None);
        };
        let from = (q - first.sequence - 1) as usize * ROOM;
        let to = (from + ROOM).min(behind.bytes);
        (behind.head, behind.pages[from..to].to_vec(), to == behind.bytes)
    };
    let page = laid_out(&head, &payload, last, expected, before, &region);
    let goes_on = match stored(&page[..]) {
        Some(crc) if !last => {
            let next = group.page(q + 1, Some(crc))?;
            next.is_some_and(|next| next.continues(&region, before, crc))
        }
        crc => crc.is_some(),
    };
    Ok(goes_on.then_some(page))
}

impl Group<'_, '_> {
    /// All pages behind the first one, which is bad.
    fn all_behind(&mut self) -> Result<Option<Behind>, Error> {
        let mut chain = self.stored(self.first.sequence)?;
        let mut all = Vec::new();
        for q in self.first.sequence + 1..self.end {
            let Some(page) = self.page(q, chain)? else {
                return Ok(None);
            };
            all.extend_from_slice(page.payload());
            let is_last = page.head.flags & FLAG_LAST != 0;
            if is_last || page.payload().len() != ROOM {
                // What the last one says is proved best.
                let (head, bytes) = (page.head, all.len());
                return Ok(is_last.then_some(Behind {
                    head,
                    pages: all,
                    bytes,
                }));
            }
            chain = stored(&page.bytes[..]);
        }
        Ok(None)
    }

    /// The pages behind the first, with that of sequence number `bad` made from the others.
    fn others(&mut self, bad: u64) -> Result<Option<Behind>, Error> {
        let first = self.first.sequence;
        let Some(page) = self.page(first, Some(self.first.chain))? else {
            return Ok(None);
        };
        let (head, records) = (page.head, decode(page.payload()).unwrap_or_default());
        let [Record::Parity { bytes, crc, xor }] = &records[..] else {
            return Ok(None);
        };
        let bytes = *bytes as usize;
        let count = bytes.div_ceil(ROOM) as u64;
        if !(first + 1..=first + count).contains(&bad) || first + count >= self.end {
            return Ok(None);
        }
        let mut chain = stored(&page.bytes[..]);
        let mut made = [0; ROOM];
        add(&mut made, xor);
        let mut all = vec![0; count as usize * ROOM];
        for (q, room) in (first + 1..).zip(all.chunks_exact_mut(ROOM)) {
            if q == bad {
                chain = self.stored(q)?;
                continue;
            }
            let Some(page) = self.page(q, chain)?.filter(|page| page.payload().len() <= ROOM) else {
                return Ok(None);
            };
            room[..page.payload().len()].copy_from_slice(page.payload());
            add(&mut made, page.payload());
            chain = stored(&page.bytes[..]);
        }
        let at = (bad - first - 1) as usize * ROOM;
        all[at..at + ROOM].copy_from_slice(&made);
        let is_right = crc64::full(&all[..bytes]) == *crc;
        Ok(is_right.then_some(Behind {
            head,
            pages: all,
            bytes,
        }))
    }
}

/// A page of a group as it was written, of which `head` is that of another page.
fn laid_out(
    head: &PageHead,
    payload: &[u8],
    last: bool,
    at: &Head,
    before: &Before,
    region: &Region,
) -> Box<[u8; PAGE]> {
    let mut page = Box::new([0; PAGE]);
    let head = PageHead {
        used: (payload.len() as u16).into(),
        flags: head.flags & !FLAG_LAST | if last { FLAG_LAST } else { 0 },
        sequence: at.sequence.into(),
        ..*head
    };
    page[..PAYLOAD_OFFSET].copy_from_slice(head.as_bytes());
    page[PAYLOAD_OFFSET..PAYLOAD_OFFSET + payload.len()].copy_from_slice(payload);
    let crc = region.crc(before.incarnation, at.chain, &page[..]);
    page[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
    page
}
