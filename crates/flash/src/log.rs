//! The plog on the device: pages, chain, groups (SPEC section 8).

mod carried;
mod end;
pub mod far;
mod held;
mod undo;

pub use carried::{append_carried, pages_of_carried};
pub use end::Cut;
pub use keepfs_pool::log::Region;

use crate::error::Error;
use core::ops::Range;
use keepfs_codes::burst::Burst;
use keepfs_codes::crc64;
use keepfs_format::plog::{CRC_OFFSET, FLAG_DATA_FLUSHED, FLAG_LAST, MAGIC, PAYLOAD, PAYLOAD_OFFSET, PageHead, Record};
use keepfs_format::{FromBytes, IntoBytes, PAGE};
use keepfs_media::{Class, Device, PageNo};

/// Where the next group goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// Sequence number of the next page.
    pub sequence: u64,
    /// Number of the next group.
    pub group: u64,
    /// CRC of the page before.
    pub chain: u64,
}

/// What stands in the pages of a group besides its records.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Which life of the log.
    pub incarnation: u64,
    /// Highest group whose flush had returned.
    pub durable: u64,
    /// Generation of the superblock in force.
    pub base: u64,
    /// Last transaction in the group.
    pub seq: u64,
    /// Flags of all its pages (the last-page flag is added).
    pub flags: u8,
}

/// Pages that `payload` bytes take.
pub const fn pages_of(payload: usize) -> u64 {
    let pages = payload.div_ceil(PAYLOAD);
    if pages == 0 { 1 } else { pages as u64 }
}

/// Encodes records, each of which is given up when that is done.
pub fn encode(records: Vec<Record>) -> Vec<u8> {
    let mut payload = Vec::with_capacity(PAYLOAD);
    records.into_iter().for_each(|r| r.encode(&mut payload));
    payload
}

/// Pages laid out and written together: a group may be long, and memory is short (P-9).
const BATCH: usize = 64;

/// Writes a group at `head`, which moves behind it, without flush, in `count` pages, which the payload fits into; pages behind it are empty (S-8.2). They are laid out in `buffer`.
pub fn append_pages(
    device: &dyn Device,
    region: &Region,
    head: &mut Head,
    stamp: &Stamp,
    payload: &[u8],
    count: u64,
    buffer: &mut Vec<u8>,
) -> Result<u64, Error> {
    let whole = Part {
        payload,
        count,
        room: PAYLOAD,
        ends: true,
    };
    put(device, region, head, stamp, &whole, buffer)?;
    Ok(count)
}

/// Pages of a group that follow one another.
struct Part<'p> {
    payload: &'p [u8],
    count: u64,
    /// Payload bytes of a page.
    room: usize,
    /// The group ends with them.
    ends: bool,
}

fn put(
    device: &dyn Device,
    region: &Region,
    head: &mut Head,
    stamp: &Stamp,
    part: &Part<'_>,
    buffer: &mut Vec<u8>,
) -> Result<(), Error> {
    let bytes = BATCH.min(part.count as usize) * PAGE;
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
    let mut rest = part.payload;
    let mut left = part.count as usize;
    while left > 0 {
        let now = BATCH.min(left);
        left -= now;
        let (payload, later) = rest.split_at((now * part.room).min(rest.len()));
        rest = later;
        let pages = &mut buffer[..now * PAGE];
        let before = *head;
        let batch = Part {
            payload,
            ends: part.ends && left == 0,
            ..*part
        };
        lay_out(region, head, stamp, &batch, pages);
        write(device, region, before, stamp.incarnation, pages)?;
    }
    head.group += u64::from(part.ends);
    Ok(())
}

/// Lays a part of a group out in pages.
fn lay_out(region: &Region, head: &mut Head, stamp: &Stamp, part: &Part<'_>, pages: &mut [u8]) {
    let count = pages.len() / PAGE;
    let (room, all) = (part.room, part.payload);
    for (i, page) in pages.chunks_exact_mut(PAGE).enumerate() {
        let last = part.ends;
        let part = &all[(i * room).min(all.len())..((i + 1) * room).min(all.len())];
        let page_head = PageHead {
            magic: MAGIC.into(),
            used: (part.len() as u16).into(),
            flags: stamp.flags | if last && i + 1 == count { FLAG_LAST } else { 0 },
            reserved: 0,
            sequence: head.sequence.into(),
            group: head.group.into(),
            durable: stamp.durable.into(),
            base: stamp.base.into(),
            seq: stamp.seq.into(),
        };
        page[..PAYLOAD_OFFSET].copy_from_slice(page_head.as_bytes());
        let (payload, rest) = page[PAYLOAD_OFFSET..CRC_OFFSET].split_at_mut(part.len());
        payload.copy_from_slice(part);
        rest.fill(0);
        head.chain = region.crc(stamp.incarnation, head.chain, page);
        page[CRC_OFFSET..].copy_from_slice(&head.chain.to_le_bytes());
        head.sequence += 1;
    }
}

/// The chain of a log that goes on from no page, behind one whose CRC is `chain`: the superblock of `generation` alone leads to it
/// (S-10.7).
pub fn begun_anew(chain: u64, generation: u64) -> u64 {
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&chain.to_le_bytes());
    seed[8..].copy_from_slice(&generation.to_le_bytes());
    crc64::full(&seed)
}

/// Writes pages laid out from `before` on, then checks that the buffer is still what was laid out
///
fn write(device: &dyn Device, region: &Region, before: Head, incarnation: u64, pages: &[u8]) -> Result<(), Error> {
    let mut q = before.sequence;
    let mut rest = pages;
    while !rest.is_empty() {
        let room = (region.pages - q % region.pages) as usize * PAGE;
        let (now, later) = rest.split_at(room.min(rest.len()));
        device.write(PageNo(region.page(q)), now, Class::Plog)?;
        q += (now.len() / PAGE) as u64;
        rest = later;
    }
    let mut chain = before.chain;
    for page in pages.chunks_exact(PAGE) {
        chain = region.crc(incarnation, chain, page);
        if page[CRC_OFFSET..] != chain.to_le_bytes() {
            return Err(Error::Damaged("a log buffer was changed while it was written".into()));
        }
    }
    Ok(())
}

/// A whole group read from the log.
pub struct Found {
    /// Its number.
    pub group: u64,
    /// Last transaction in it.
    pub seq: u64,
    /// Its flags.
    pub flags: u8,
    /// Its records, encoded.
    pub payload: Vec<u8>,
}

/// What the log holds behind a superblock (S-9.1, S-9.2).
pub struct Scan {
    /// Whole groups in order.
    pub groups: Vec<Found>,
    /// Greatest `durable` of all pages accepted.
    pub durable: u64,
    /// Head behind the last whole group.
    pub head: Head,
    /// Sequence number behind the last page accepted, whole group or not, and behind the one at which it is cut, and all that a
    /// lost superblock's life may have written (S-9.12).
    pub seen: u64,
    /// What ends the log, if it is damage.
    pub cut: Option<Cut>,
    /// Pages that were bad and are read as they were written.
    pub mended: Vec<Mended>,
}

/// A bad page of the log that was mended in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mended {
    /// Its page of the device.
    pub page: u64,
    /// The group that it is of.
    pub group: u64,
    /// How.
    pub how: Mend,
}

/// How a bad page of the log was mended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mend {
    /// Its wrong bits were flipped (S-9.24).
    Undone(Burst),
    /// It is not what was written, and was made again from the others of its group (S-9.11).
    MadeAgain,
    /// The same, of one that cannot be read.
    Unreadable,
    /// Memory has what its group had: that of the server before (S-16.36), or of this one (S-19.4).
    Kept {
        /// It cannot be read.
        is_unreadable: bool,
    },
}

/// What the pages of a log behind a superblock must agree with.
pub struct Before {
    /// Which life of the log.
    pub incarnation: u64,
    /// Generations of the superblock that they may build on.
    pub bases: Range<u64>,
    /// Last transaction before the log.
    pub seq: u64,
    /// Groups up to this number were flushed, by the superblock.
    pub durable: u64,
    /// No slot of the other parity holds a superblock (S-21.10).
    pub is_other_lost: bool,
}

/// Pages read together at first, and at most.
const AHEAD: Range<u64> = 8..256;

/// Reads the log from `head` on until the first page that does not continue it.
pub fn scan(device: &dyn Device, region: &Region, head: Head, before: &Before) -> Result<Scan, Error> {
    let mut scan = Scan {
        groups: Vec::new(),
        durable: 0,
        head,
        seen: head.sequence,
        cut: None,
        mended: Vec::new(),
    };
    let mut open: Option<Found> = None;
    let mut next = head;
    let mut seq = before.seq;
    let mut pages = Pages::new(device, region);
    for q in head.sequence..head.sequence + region.pages {
        next.sequence = q;
        let end = head.sequence + region.pages;
        let page = match pages.get(q, end) {
            Err(error) if error.is_device_io() => None,
            page => Some(page?),
        };
        let mut accepted = match page {
            Some(page) => accept(region, page, &next, before, seq)?,
            None => None,
        };
        let right;
        if accepted.is_none() {
            right = match page.and_then(|page| undo::wrong_bits(region, page, &next, before, seq)) {
                None if carried::may_be(&head, &next, before) => {
                    let again = carried::mend(&head, &next, before, &mut Pages::new(device, region), end)?;
                    again.map(|again| (again, page.map_or(Mend::Unreadable, |_| Mend::MadeAgain)))
                }
                undone => undone,
            };
            if let Some((right, how)) = &right {
                accepted = accept(region, &right[..], &next, before, seq)?;
                scan.mended.extend(accepted.as_ref().map(|_| Mended {
                    page: region.page(q),
                    group: next.group,
                    how: *how,
                }));
            }
        }
        let Some(found) = accepted else {
            let mut behind = Pages::new(device, region);
            let (cut, told) = end::judge(page, &next, before, &mut behind, end)?;
            (scan.cut, scan.durable) = (cut, scan.durable.max(told));
            if let Some(cut) = &mut scan.cut {
                scan.seen = cut.superblock.map_or(q, |lost| lost.told_at + region.pages) + 1;
                cut.carried =
                    carried::may_be(&head, &next, before) && !carried::is_plain(&next, before, seq, &mut behind, end)?;
            }
            break;
        };
        let page_head = found.head;
        next.chain = found.crc;
        seq = page_head.seq.get();
        scan.seen = q + 1;
        scan.durable = scan.durable.max(page_head.durable.get());
        let group = open.get_or_insert_with(|| Found {
            group: next.group,
            seq: 0,
            flags: page_head.flags,
            payload: Vec::new(),
        });
        group.payload.extend_from_slice(found.payload);
        group.seq = seq;
        group.flags = page_head.flags;
        if page_head.flags & FLAG_LAST != 0 {
            scan.groups.extend(open.take());
            next.group += 1;
            scan.head = Head {
                sequence: q + 1,
                ..next
            };
        }
    }
    Ok(scan)
}

/// A log page that continues the log.
struct Accepted<'p> {
    head: PageHead,
    payload: &'p [u8],
    crc: u64,
}

/// The head, payload and CRC of a log page, if it is the page expected (S-9.1). Errors: it is whole and expected, but not
/// as a log page must be (S-8.2).
fn accept<'p>(
    region: &Region,
    page: &'p [u8],
    expected: &Head,
    before: &Before,
    seq: u64,
) -> Result<Option<Accepted<'p>>, Error> {
    let head = PageHead::read_from_bytes(&page[..PAYLOAD_OFFSET]).map_err(|e| Error::Logic(e.to_string()))?;
    let q = expected.sequence;
    if head.magic.get() != MAGIC || head.sequence.get() != q {
        return Ok(None);
    }
    let crc = region.crc(before.incarnation, expected.chain, page);
    if page[CRC_OFFSET..] != crc.to_le_bytes() || head.group.get() != expected.group {
        return Ok(None);
    }
    if !before.bases.contains(&head.base.get()) {
        return Ok(None);
    }
    let used = usize::from(head.used.get());
    let rules = [
        (used <= PAYLOAD, "used", used as u64),
        (
            head.flags & !(FLAG_LAST | FLAG_DATA_FLUSHED) == 0,
            "flags",
            head.flags.into(),
        ),
        (head.reserved == 0, "reserved", head.reserved.into()),
        (head.durable.get() < expected.group, "durable", head.durable.get()),
        ((seq..1 << 63).contains(&head.seq.get()), "seq", head.seq.get()),
    ];
    if let Some((_, field, value)) = rules.into_iter().find(|(holds, _, _)| !holds) {
        return Err(Error::Damaged(format!(
            "log page {q} (page {}) is whole, but its {field} ({value}) is not allowed",
            region.page(q)
        )));
    }
    Ok(Some(Accepted {
        head,
        payload: &page[PAYLOAD_OFFSET..PAYLOAD_OFFSET + used],
        crc,
    }))
}

/// Log pages, read ahead: a few at first, more as the log goes on.
struct Pages<'d> {
    device: &'d dyn Device,
    region: &'d Region,
    held: Range<u64>,
    ahead: u64,
    bytes: Vec<u8>,
}

impl<'d> Pages<'d> {
    fn new(device: &'d dyn Device, region: &'d Region) -> Pages<'d> {
        Pages {
            device,
            region,
            held: 0..0,
            ahead: AHEAD.start,
            bytes: Vec::new(),
        }
    }

    /// The page of sequence number `q`; nothing is read from `end` on. Errors: this very page cannot be read.
    fn get(&mut self, q: u64, end: u64) -> Result<&[u8], Error> {
        if !self.held.contains(&q) {
            let to_wrap = self.region.pages - q % self.region.pages;
            let count = self.ahead.min(to_wrap).min(end - q);
            self.ahead = (self.ahead * 2).min(AHEAD.end);
            self.fill(q, count).or_else(|_| self.fill(q, 1))?;
        }
        let at = (q - self.held.start) as usize * PAGE;
        Ok(&self.bytes[at..at + PAGE])
    }

    fn fill(&mut self, q: u64, count: u64) -> Result<(), Error> {
        self.held = 0..0;
        self.bytes.resize(count as usize * PAGE, 0);
        self.device.read(PageNo(self.region.page(q)), &mut self.bytes)?;
        self.held = q..q + count;
        Ok(())
    }
}
