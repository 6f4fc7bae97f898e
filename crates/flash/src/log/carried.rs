//! The group that carries staged pages over a checkpoint (S-10.3). Its first page is the parity of those behind it: whichever
//! single page of it goes bad is made again from the others (S-9.11, S-9.21).

use super::{
    Before, CRC_OFFSET, Head, MAGIC, PAYLOAD, PAYLOAD_OFFSET, PageHead, Pages, Part, Region, Stamp, encode, put,
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

/// Whether it brings transactions, by the page before the bad one or the one behind it: then a sync wrote it, and the state
/// without it is the checkpoint's.
pub(super) fn is_plain(
    expected: &Head,
    before: &Before,
    seq: u64,
    pages: &mut Pages<'_>,
    end: u64,
) -> Result<bool, Error> {
    let brings = |head: PageHead| head.group.get() == expected.group && head.seq.get() > before.seq;
    let behind = page_of(pages, expected.sequence + 1, end)?;
    Ok(seq > before.seq || behind.is_some_and(|page| brings(page.head)))
}

/// A page of the log as it lies there.
struct Lies<'p> {
    head: PageHead,
    bytes: &'p [u8],
}

/// The page with sequence number `q`, if it says so.
fn page_of<'p>(pages: &'p mut Pages<'_>, q: u64, end: u64) -> Result<Option<Lies<'p>>, Error> {
    if q >= end {
        return Ok(None);
    }
    let bytes = match pages.get(q, end) {
        Err(error) if error.is_device_io() => return Ok(None),
        bytes => bytes?,
    };
    let head = PageHead::read_from_bytes(&bytes[..PAYLOAD_OFFSET]).map_err(|e| Error::Logic(e.to_string()))?;
    let is_it = head.magic.get() == MAGIC && head.sequence.get() == q && usize::from(head.used.get()) <= PAYLOAD;
    Ok(is_it.then_some(Lies { head, bytes }))
}

impl Lies<'_> {
    fn payload(&self) -> &[u8] {
        &self.bytes[PAYLOAD_OFFSET..PAYLOAD_OFFSET + usize::from(self.head.used.get())]
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
    let q = expected.sequence;
    let (head, payload, last) = if q == first.sequence {
        let Some(behind) = all_behind(expected, pages, end)? else {
            return Ok(None);
        };
        (behind.head, parity(&behind.pages[..behind.bytes]), false)
    } else {
        let Some(behind) = others(first, q, pages, end)? else {
            return Ok(None);
        };
        let from = (q - first.sequence - 1) as usize * ROOM;
        let to = (from + ROOM).min(behind.bytes);
        (behind.head, behind.pages[from..to].to_vec(), to == behind.bytes)
    };
    let page = laid_out(&head, &payload, last, expected, before, pages.region);
    let crc = page[CRC_OFFSET..].first_chunk().map(|crc| u64::from_le_bytes(*crc));
    let region = *pages.region;
    let goes_on = match page_of(pages, q + 1, end)? {
        _ if last => true,
        Some(next) => crc.is_some_and(|crc| {
            region.crc(before.incarnation, crc, next.bytes).to_le_bytes() == next.bytes[CRC_OFFSET..]
        }),
        None => false,
    };
    Ok(goes_on.then_some(page))
}

/// All pages behind the first one, which is bad.
fn all_behind(first: &Head, pages: &mut Pages<'_>, end: u64) -> Result<Option<Behind>, Error> {
    let mut behind: Option<Behind> = None;
    for q in first.sequence + 1..end {
        let Some(page) = page_of(pages, q, end)?.filter(|page| page.head.group.get() == first.group) else {
            return Ok(None);
        };
        let all = behind.get_or_insert_with(|| Behind {
            head: page.head,
            pages: Vec::new(),
            bytes: 0,
        });
        all.pages.extend_from_slice(page.payload());
        all.bytes = all.pages.len();
        let is_last = page.head.flags & FLAG_LAST != 0;
        if is_last || page.payload().len() != ROOM {
            return Ok(behind.filter(|_| is_last));
        }
    }
    Ok(None)
}

/// The pages behind the first, with that of sequence number `bad` made from the others.
fn others(first: &Head, bad: u64, pages: &mut Pages<'_>, end: u64) -> Result<Option<Behind>, Error> {
    let Some(page) = page_of(pages, first.sequence, end)? else {
        return Ok(None);
    };
    let (head, records) = (page.head, decode(page.payload()).unwrap_or_default());
    let [Record::Parity { bytes, crc, xor }] = &records[..] else {
        return Ok(None);
    };
    let bytes = *bytes as usize;
    let count = bytes.div_ceil(ROOM) as u64;
    if !(first.sequence + 1..=first.sequence + count).contains(&bad) || first.sequence + count >= end {
        return Ok(None);
    }
    let mut made = [0; ROOM];
    add(&mut made, xor);
    let mut all = vec![0; count as usize * ROOM];
    for (q, room) in (first.sequence + 1..)
        .zip(all.chunks_exact_mut(ROOM))
        .filter(|(q, _)| *q != bad)
    {
        let page = page_of(pages, q, end)?.filter(|page| page.head.group.get() == first.group);
        let Some(payload) = page.as_ref().map(Lies::payload).filter(|payload| payload.len() <= ROOM) else {
            return Ok(None);
        };
        room[..payload.len()].copy_from_slice(payload);
        add(&mut made, payload);
    }
    let at = (bad - first.sequence - 1) as usize * ROOM;
    all[at..at + ROOM].copy_from_slice(&made);
    let is_right = crc64::full(&all[..bytes]) == *crc;
    Ok(is_right.then_some(Behind {
        head,
        pages: all,
        bytes,
    }))
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
