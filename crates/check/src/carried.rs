//! A bad page of the group that carries staged pages over a checkpoint, made again from its other pages (SPEC S-10.3, S-9.21).

use crate::plog::page_crc;
use crate::pool::Pool;
use core::ops::Range;
use keepfs_codes::burst::Burst;
use keepfs_codes::crc64;
use keepfs_format::PAGE;
use keepfs_format::plog::{CRC_OFFSET, FLAG_LAST, MAGIC, PAYLOAD, PAYLOAD_OFFSET};
use std::collections::BTreeSet;

/// Type of the record of the first page.
const PARITY: u8 = 16;
/// Types of the records of staged pages: tail, zero, lost.
const STAGED: [u8; 3] = [12, 13, 15];
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

    /// Whether it says that it is a page of the log with this number.
    fn is_page(&self, sequence: u64) -> bool {
        self.half(0) == MAGIC && self.word(8) == sequence && self.used() <= PAYLOAD
    }

    fn group(&self) -> u64 {
        self.word(16)
    }

    /// The last transaction that it tells of.
    fn seq(&self) -> u64 {
        self.word(40)
    }

    /// Whether its CRC is that of the page behind one with this CRC.
    fn continues(&self, pool: &Pool<'_>, chain: u64) -> bool {
        page_crc(&pool.sb, chain, &self.0) == self.word(CRC_OFFSET)
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
    let is_it = |page: &Lies| page.is_page(sequence) && page.group() == group;
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
    let is_continued = |next: Lies| next.continues(pool, crc);
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

/// S-9.17: whether a page of the group at which the log ends brings transactions, so that a sync wrote it. The first of these pages is
/// asked that continues the page before it, whatever that one is.
pub(crate) fn brings_transactions(pool: &Pool<'_>, mut pages: Range<u64>) -> bool {
    let mut chain = None;
    let proved = pages.find_map(|sequence| {
        let page = read(pool, sequence).map(Lies);
        let before = core::mem::replace(&mut chain, page.as_ref().map(|page| page.word(CRC_OFFSET)));
        page.filter(|page| page.is_page(sequence) && before.is_some_and(|before| page.continues(pool, before)))
    });
    proved.is_some_and(|page| page.group() == pool.sb.group.get() && page.seq() > pool.sb.seq.get())
}

/// Pages of files, (inode, index), that records of a lost group name, as far as the lengths of those before tell where they stand
/// (S-21.25).
pub(crate) fn named(pool: &Pool<'_>) -> BTreeSet<(u64, u64)> {
    let mut named = BTreeSet::new();
    let pages = left(pool);
    let lies = |n: usize| pages.get(n).and_then(Option::as_ref);
    let (behind, room) = match (lies(0), lies(1)) {
        (Some(first), _) if first.payload().first() != Some(&PARITY) => (0, PAYLOAD),
        (Some(_), _) => (1, ROOM),
        (None, Some(second)) if second.used() == ROOM && !second.is_last() => (1, ROOM),
        _ => return named,
    };
    let byte = |at: usize| lies(behind + at / room)?.payload().get(at % room).copied();
    let number = |from: usize, len: usize| {
        let bytes = (from..from + len).rev();
        bytes
            .map(byte)
            .try_fold(0, |high: u64, byte| Some(high << 8 | u64::from(byte?)))
    };
    let mut at = 0;
    while let (Some(kind), Some(len), Some(ino), Some(index)) =
        (byte(at), number(at + 1, 3), number(at + 4, 8), number(at + 12, 8))
    {
        if !STAGED.contains(&kind) {
            break;
        }
        named.insert((ino, index));
        at += 4 + len as usize;
    }
    named
}

/// The pages of the superblock's group, in their order; `None`: one that is bad.
fn left(pool: &Pool<'_>) -> Vec<Option<Lies>> {
    let (group, first) = (pool.sb.group.get(), pool.sb.log_seq.get());
    let (mut pages, mut chain) = (Vec::new(), Some(pool.sb.chain.get()));
    for sequence in first..first + pool.sb.log_pages.get() {
        let there = read(pool, sequence).map(Lies).filter(|page| page.is_page(sequence));
        if there.as_ref().is_some_and(|page| page.group() > group) {
            break;
        }
        // Behind a page that is gone nothing proves one.
        let is_right = |page: &Lies| chain.is_none_or(|chain| page.continues(pool, chain));
        let page = lies(pool, group, sequence, chain).filter(is_right);
        chain = page.as_ref().or(there.as_ref()).map(|page| page.word(CRC_OFFSET));
        let is_last = page.as_ref().is_some_and(Lies::is_last);
        pages.push(page);
        if is_last {
            break;
        }
    }
    pages
}

fn xor_of<'b>(pages: impl Iterator<Item = &'b [u8]>) -> [u8; ROOM] {
    let mut sum = [0; ROOM];
    for page in pages {
        sum.iter_mut().zip(page).for_each(|(sum, byte)| *sum ^= byte);
    }
    sum
}
