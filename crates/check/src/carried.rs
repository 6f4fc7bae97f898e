//! A bad page of the group that carries staged pages over a checkpoint, made again from its other pages (SPEC S-10.3, S-9.21).

use crate::plog::page_crc;
use crate::pool::Pool;
use keepfs_codes::burst::Burst;
use keepfs_codes::crc64;
use keepfs_format::PAGE;
use keepfs_format::plog::{CRC_OFFSET, FLAG_LAST, MAGIC, PAYLOAD, PAYLOAD_OFFSET};

/// Type of the record of the first page.
const PARITY: u8 = 16;
/// Where the XOR begins in its payload: behind the record's head, u32 and u64.
const XOR: usize = 16;
/// Payload bytes of the pages behind it.
const ROOM: usize = PAYLOAD - XOR;

/// A page of the group as it lies there.
struct Lies(Box<[u8; PAGE]>);

impl Lies {
    fn word(&self, at: usize) -> u64 {
        self.0[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    fn half(&self, at: usize) -> u32 {
        self.word(at) as u32
    }

    fn used(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[4], self.0[5]]))
    }

    fn is_last(&self) -> bool {
        self.0[6] & FLAG_LAST != 0
    }

    fn payload(&self) -> &[u8] {
        &self.0[PAYLOAD_OFFSET..PAYLOAD_OFFSET + self.used()]
    }
}

/// What lies at the place of a page of the log (S-8.1).
fn read(pool: &Pool<'_>, sequence: u64) -> Option<Box<[u8; PAGE]>> {
    let (start, round) = (pool.sb.log_start.get(), pool.sb.log_pages.get());
    let mut bytes = Box::new([0; PAGE]);
    if sequence >= pool.sb.log_seq.get() + round {
        return None;
    }
    pool.image.read(start + sequence % round, &mut bytes).ok()?;
    Some(bytes)
}

/// The CRC that stands there, whatever else does.
fn stored(pool: &Pool<'_>, sequence: u64) -> Option<u64> {
    read(pool, sequence).map(|bytes| Lies(bytes).word(CRC_OFFSET))
}

/// Reads the page, if it says that it has this number and is of this group (S-8.2). Where `chain`, the CRC of the page before, tells
/// wrong bits it is the page without them (S-9.24).
fn lies(pool: &Pool<'_>, group: u64, sequence: u64, chain: Option<u64>) -> Option<Lies> {
    let bytes = read(pool, sequence)?;
    let is_it = |page: &Lies| {
        page.half(0) == MAGIC && page.word(8) == sequence && page.word(16) == group && page.used() <= PAYLOAD
    };
    let wrong = |chain| {
        Burst::find(
            Lies(bytes.clone()).word(CRC_OFFSET) ^ page_crc(&pool.sb, chain, &bytes),
            PAGE,
        )
    };
    let undone = chain.and_then(wrong).map(|burst| {
        let mut right = bytes.clone();
        burst.flip(&mut right[..]);
        Lies(right)
    });
    undone.filter(is_it).or(Some(Lies(bytes)).filter(is_it))
}

/// The page with this sequence number, which does not continue `chain`, as it was written.
pub(crate) fn again(pool: &Pool<'_>, group: u64, chain: u64, sequence: u64) -> Option<[u8; PAGE]> {
    let first = pool.sb.log_seq.get();
    if group != pool.sb.group.get() || pool.sb.durable.get() < group {
        return None;
    }
    let (like, payload, last) = match sequence - first {
        0 => parity(pool, group, first)?,
        index => one_of(pool, group, first, index)?,
    };
    let mut page = [0; PAGE];
    page[..PAYLOAD_OFFSET].copy_from_slice(&like.0[..PAYLOAD_OFFSET]);
    page[4..6].copy_from_slice(&(payload.len() as u16).to_le_bytes());
    page[6] = like.0[6] & !FLAG_LAST | if last { FLAG_LAST } else { 0 };
    page[8..16].copy_from_slice(&sequence.to_le_bytes());
    page[PAYLOAD_OFFSET..PAYLOAD_OFFSET + payload.len()].copy_from_slice(&payload);
    let crc = page_crc(&pool.sb, chain, &page);
    page[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
    let is_continued = |next: Lies| page_crc(&pool.sb, crc, &next.0) == next.word(CRC_OFFSET);
    let next = || lies(pool, group, sequence + 1, Some(crc));
    (last || next().is_some_and(is_continued)).then_some(page)
}

/// A page with the head of the wanted one, its payload, and whether it is the group's last one.
type Made = (Lies, Vec<u8>, bool);

/// The first page, from all others.
fn parity(pool: &Pool<'_>, group: u64, first: u64) -> Option<Made> {
    let mut all: Vec<u8> = Vec::new();
    let (mut sequence, mut chain) = (first, stored(pool, first));
    let last = loop {
        sequence += 1;
        let page = lies(pool, group, sequence, chain)?;
        chain = Some(page.word(CRC_OFFSET));
        all.extend(page.payload());
        if page.is_last() {
            break page;
        }
        if page.used() != ROOM {
            return None;
        }
    };
    let xor = xor_of(all.chunks(ROOM));
    let xor = &xor[..ROOM.min(all.len())];
    let mut payload = (12 + xor.len() as u32).to_le_bytes().to_vec();
    payload.rotate_right(1);
    payload[0] = PARITY;
    payload.extend((all.len() as u32).to_le_bytes());
    payload.extend(crc64::full(&all).to_le_bytes());
    payload.extend(xor);
    Some((last, payload, false))
}

/// The page behind the first with this index, from parity and the others.
fn one_of(pool: &Pool<'_>, group: u64, first: u64, index: u64) -> Option<Made> {
    let head = lies(pool, group, first, Some(pool.sb.chain.get()))?;
    let told = head.payload();
    if told.len() < XOR || told[0] != PARITY || told.len() - 4 != (head.half(PAYLOAD_OFFSET) >> 8) as usize {
        return None;
    }
    let (bytes, crc) = (head.half(PAYLOAD_OFFSET + 4) as usize, head.word(PAYLOAD_OFFSET + 8));
    let count = bytes.div_ceil(ROOM) as u64;
    if index > count || count > pool.sb.log_pages.get() {
        return None;
    }
    let mut parts = Vec::new();
    let mut chain = Some(head.word(CRC_OFFSET));
    for other in 1..=count {
        if other == index {
            parts.push(told[XOR..].to_vec());
            chain = stored(pool, first + other);
            continue;
        }
        let page = lies(pool, group, first + other, chain).filter(|page| page.used() <= ROOM)?;
        parts.push(page.payload().to_vec());
        chain = Some(page.word(CRC_OFFSET));
    }
    let made = xor_of(parts.iter().map(Vec::as_slice));
    let of_last = bytes - (count as usize - 1) * ROOM;
    let last = index == count;
    let len = if last { of_last } else { ROOM };
    parts[index as usize - 1] = made.to_vec();
    // How long each is the first page tells, not these.
    parts.iter_mut().for_each(|part| part.resize(ROOM, 0));
    (crc64::full(&parts.concat()[..bytes]) == crc).then(|| (head, made[..len].to_vec(), last))
}

fn xor_of<'b>(pages: impl Iterator<Item = &'b [u8]>) -> [u8; ROOM] {
    let mut sum = [0; ROOM];
    for page in pages {
        sum.iter_mut().zip(page).for_each(|(sum, byte)| *sum ^= byte);
    }
    sum
}
