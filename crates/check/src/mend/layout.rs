//! The next checkpoint (S-21.5): homes for what is new, HOMES and map made anew as a whole, the log with what is staged, superblock.

use super::space::Fresh;
use super::{Mender, Refusal};
use crate::Page;
use crate::adrift;
use crate::bitmap::{Set, count, ones};
use crate::finding::Finding;
use crate::plog::{LIVES, page_crc};
use crate::pool::Load;
use crate::report::Sink;
use crate::space::fixed_pages;
use crate::superblock::{is_other_lost, lacking_slots, tells_slots};
use keepfs_codes::crc64;
use keepfs_format::bitmap::BITS;
use keepfs_format::map::{CHUNKS, Chunk, DEAD, FANOUT, LIVE, MapEntry, chunk_offset, entry_offset};
use keepfs_format::metablock::HEADER;
use keepfs_format::plog::{CRC_OFFSET, FLAG_LAST, PAYLOAD, PAYLOAD_OFFSET, PageHead, Record};
use keepfs_format::superblock::{self, CLEAN, INCOMPAT_STRIPES, OPEN, Root, Superblock, slots_of};
use keepfs_format::{FromBytes, Header, IntoBytes, Kind, MetaId, PAGE, Space};
use std::collections::{BTreeMap, BTreeSet};

/// A page to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Where.
    pub page: u64,
    /// What.
    pub bytes: Box<Page>,
    /// It is a superblock: it is written when all else is durable, and flushed before the next one.
    pub is_superblock: bool,
}

type Entries = BTreeMap<u64, MapEntry>;

/// Pages of the pool as they will be used.
struct Ground {
    pages: u64,
    copies: u64,
    /// Slots, log, history and the block of multi-mount protection.
    fixed: Set,
    /// Chunks that stay, and their pages.
    chunks: Vec<(u64, u64)>,
    in_chunks: Set,
    /// Pages that hold metadata, or did in the checkpoint before.
    taken: Set,
}

/// Lays out the pool as it stands in memory.
pub(super) fn lay_out(mender: &mut Mender<'_>) -> Result<Vec<Write>, Refusal> {
    mender.unreached();
    let mut fresh = Fresh::new();
    for (id, bytes) in mender.pool().changed_bytes() {
        fresh.insert(id, Box::new(*bytes));
    }
    mender.numbers(&mut fresh)?;
    worn(mender, &mut fresh);
    let blocks = mender.pool().pages().div_ceil(BITS);
    let counted: Vec<MetaId> = (0..blocks).map(|index| MetaId::new(Space::Pages, index)).collect();
    for id in counted
        .iter()
        .copied()
        .chain(mender.totals_blocks().into_iter().map(keepfs_format::bitmap::totals))
    {
        fresh.insert(id.0, Box::new([0; PAGE]));
    }
    let ground = Ground::of(mender);
    let mut homes = 1;
    loop {
        if let Some(done) = attempt(mender, &ground, fresh.clone(), homes)? {
            return Ok(done);
        }
        homes += 1;
    }
}

/// Metablocks with one good copy get two again.
fn worn(mender: &mut Mender<'_>, fresh: &mut Fresh) {
    mender.pool().sink = Sink::new(usize::MAX);
    for space in Space::ALL.into_iter().filter(|space| *space != Space::Homes) {
        for index in mender.pool().live(space) {
            let id = MetaId::new(space, index);
            let Load::Live(bytes) = mender.pool().load(id) else {
                continue;
            };
            let is_single = mender.pool().is_single(id);
            let findings = core::mem::take(&mut mender.pool().sink.findings);
            if is_single || findings.iter().any(|f| matches!(f, Finding::MetaCopy { .. })) {
                fresh.entry(id.0).or_insert_with(|| Box::new(*bytes));
            }
        }
    }
}

impl Ground {
    fn of(mender: &mut Mender<'_>) -> Ground {
        let pages = mender.pool().pages();
        let sb = mender.pool().sb.clone();
        let fixed = fixed_pages(&sb);
        let mut ground = Ground {
            pages,
            copies: sb.meta_copies.get().into(),
            fixed,
            chunks: Vec::new(),
            in_chunks: Set::default(),
            taken: Set::default(),
        };
        for index in mender.pool().live(Space::Homes) {
            let Load::Live(bytes) = mender.pool().load(MetaId::new(Space::Homes, index)) else {
                continue;
            };
            for slot in 0..CHUNKS {
                if let Ok((chunk, _)) = Chunk::read_from_prefix(&bytes[chunk_offset(slot)..]) {
                    ground.keep(&chunk, &mender.walk.data);
                }
            }
        }
        for page in mender.pool().home_pages.iter() {
            ground.taken.add(page);
        }
        ground
    }

    /// A chunk that nothing else lies in stays one.
    fn keep(&mut self, chunk: &Chunk, data: &Set) {
        let (start, length) = (chunk.start(), u64::from(chunk.pages()));
        let is_free = |page| !self.fixed.has(page) && !self.in_chunks.has(page) && !data.has(page);
        let end = start.saturating_add(length);
        if start != 0 && end <= self.pages && (start..end).all(is_free) {
            self.chunks.push((start, length));
            self.in_chunks.add_run(start, length);
        }
    }

    /// `number` pages that nothing uses, those of chunks first, from `from` on.
    fn find(&self, number: u64, from: u64, data: &Set, chosen: &mut Set) -> Vec<u64> {
        let mut found = Vec::new();
        for is_chunk in [true, false] {
            let order = (from..self.pages).chain(1..from);
            for page in order {
                if found.len() as u64 == number {
                    return found;
                }
                let is_free = self.in_chunks.has(page) == is_chunk
                    && !self.fixed.has(page)
                    && !self.taken.has(page)
                    && !data.has(page);
                if is_free && chosen.add(page) {
                    found.push(page);
                }
            }
        }
        found
    }
}

/// Pairs of pages that are still to be given away.
struct Places {
    first: std::vec::IntoIter<u64>,
    second: std::vec::IntoIter<u64>,
    used: Set,
    writes: Vec<Write>,
}

impl Places {
    /// Writes a metablock; its map entry.
    fn put(&mut self, bytes: &Page) -> Option<MapEntry> {
        let head = crate::pool::header(bytes);
        let first = self.first.next()?;
        let second = self.second.next().unwrap_or(0);
        for page in [first, second].into_iter().filter(|page| *page != 0) {
            self.used.add(page);
            self.writes.push(Write {
                page,
                bytes: Box::new(*bytes),
                is_superblock: false,
            });
        }
        Some(MapEntry {
            first: first.into(),
            second: second.into(),
            crc: crc64::full(bytes).into(),
            generation: head.generation,
            kind: head.kind,
            state: LIVE,
            reserved: 0.into(),
        })
    }
}

/// Map pages that the entries of a space need.
fn map_pages(indices: impl Iterator<Item = u64>) -> u64 {
    let mut level: BTreeSet<u64> = indices.map(|index| index / FANOUT).collect();
    let mut number = level.len() as u64;
    while level.last().is_some_and(|last| *last > 0) {
        level = level.into_iter().map(|page| page / FANOUT).collect();
        number += level.len() as u64;
    }
    number
}

/// Lays everything out with so many HOMES metablocks; None if that are too few.
fn attempt(
    mender: &mut Mender<'_>,
    ground: &Ground,
    mut fresh: Fresh,
    homes: u64,
) -> Result<Option<Vec<Write>>, Refusal> {
    let mut entries = kept(mender, &fresh);
    let mut needed = fresh.len() as u64 + homes + map_pages(0..homes);
    for space in Space::ALL.into_iter().filter(|space| *space != Space::Homes) {
        let range = MetaId::new(space, 0).0..=MetaId::new(space, u64::MAX).0;
        let ids = entries.range(range.clone()).map(|(id, _)| *id);
        let indices: BTreeSet<u64> = ids
            .chain(fresh.range(range).map(|(id, _)| *id))
            .map(|id| MetaId(id).index())
            .collect();
        needed += map_pages(indices.into_iter());
    }
    let mut chosen = Set::default();
    let data = &mender.walk.data;
    let first = ground.find(needed, 1, data, &mut chosen);
    // The second copy of everything lies half a pool away from the first.
    let seconds = if ground.copies == 2 { needed } else { 0 };
    let second = ground.find(seconds, ground.pages / 2, data, &mut chosen);
    let free = (first.len() + second.len()) as u64;
    if free < needed + seconds {
        return Err(Refusal::NoRoom {
            needed: needed + seconds,
            free,
        });
    }
    let mut places = Places {
        first: first.into_iter(),
        second: second.into_iter(),
        used: Set::default(),
        writes: Vec::new(),
    };
    for entry in entries.values().filter(|entry| entry.state == LIVE) {
        for page in [entry.first.get(), entry.second.get()]
            .into_iter()
            .filter(|page| *page != 0)
        {
            places.used.add(page);
        }
    }
    let metadata: Vec<u64> = chosen.iter().chain(places.used.iter()).collect();
    let chunks = ground.chunks_with(metadata);
    if chunks.len().div_ceil(CHUNKS) as u64 > homes {
        return Ok(None);
    }
    let in_use = count_pages(mender, ground, &chunks, &mut fresh);
    mender.totals(in_use, &mut fresh);
    let none = || Refusal::Other("the repair counted its own pages wrong: this is a bug, tell its makers");
    for (id, bytes) in &fresh {
        entries.insert(*id, places.put(bytes).ok_or_else(none)?);
    }
    let homes_ids = put_homes(mender, &chunks, homes, &chosen, &mut places)?;
    entries.extend(homes_ids);
    let mut roots = [Root::default(); 10];
    for space in Space::ALL {
        roots[space as usize] = put_map(mender, space, &entries, &mut places).ok_or_else(none)?;
    }
    let mut writes = places.writes;
    let sb = superblock(mender, roots, &mut writes)?;
    // Where there was none it has the same one before it, as every superblock has one beside it.
    let before = mender.pool().age.is_without_log.then(|| sb.generation.get() - 1);
    for generation in before.into_iter().chain([sb.generation.get()]) {
        let sb = sealed(Superblock {
            generation: generation.into(),
            ..sb
        });
        for slot in slots_of(generation) {
            let mut bytes = Box::new([0; PAGE]);
            bytes.copy_from_slice(sb.as_bytes());
            writes.push(Write {
                page: sb.slot_page(slot),
                bytes,
                is_superblock: true,
            });
        }
    }
    put_old(mender, &mut writes);
    Ok(Some(writes))
}

/// Behind the new superblock the one before it is written to those of its slots that do not hold it, or have a wrong bit (S-21.18).
fn put_old(mender: &mut Mender<'_>, writes: &mut Vec<Write>) {
    let (image, old) = (mender.pool().image, sealed(*mender.pool().sb));
    for slot in lacking_slots(image, &old) {
        let page = old.slot_page(slot);
        if writes.iter().all(|write| write.page != page) {
            let mut bytes = Box::new([0; PAGE]);
            bytes.copy_from_slice(old.as_bytes());
            writes.push(Write {
                page,
                bytes,
                is_superblock: true,
            });
        }
    }
}

/// With its CRC.
fn sealed(mut sb: Superblock) -> Superblock {
    sb.crc = crc64::full(&sb.as_bytes()[..superblock::CRC_OFFSET]).into();
    sb
}

/// Entries that stay as they are, and those of the dead.
fn kept(mender: &mut Mender<'_>, fresh: &Fresh) -> Entries {
    let mut entries = Entries::new();
    for space in Space::ALL.into_iter().filter(|space| *space != Space::Homes) {
        for row in mender.pool().rows[space as usize].clone() {
            entries.insert(MetaId::new(space, row.index).0, row.entry);
        }
    }
    for (id, generation) in mender.pool().changed_dead() {
        let dead = MapEntry {
            generation: generation.into(),
            state: DEAD,
            ..MapEntry::default()
        };
        match generation {
            0 => drop(entries.remove(&id)),
            _ => drop(entries.insert(id, dead)),
        }
    }
    entries
        .retain(|id, entry| !fresh.contains_key(id) && MetaId(*id).space() != Some(Space::Homes) && entry.state != 0);
    entries
}

impl Ground {
    /// The chunks that stay, and new ones for pages of metadata in none of them.
    fn chunks_with(&self, metadata: Vec<u64>) -> Vec<(u64, u64)> {
        let mut chunks = self.chunks.clone();
        let outside: BTreeSet<u64> = metadata.into_iter().filter(|page| !self.in_chunks.has(*page)).collect();
        let most = u64::from(keepfs_format::map::CHUNK_PAGES_MAX);
        let mut run: Option<(u64, u64)> = None;
        for page in outside {
            match &mut run {
                Some((start, length)) if *start + *length == page && *length < most => *length += 1,
                other => chunks.extend(other.replace((page, 1))),
            }
        }
        chunks.extend(run);
        chunks.sort_unstable();
        chunks
    }
}

/// Fills in the page bitmap; how many pages are in use.
fn count_pages(mender: &mut Mender<'_>, ground: &Ground, chunks: &[(u64, u64)], fresh: &mut Fresh) -> u64 {
    let mut used = Set::default();
    for set in [&ground.fixed, &mender.walk.data] {
        set.iter().for_each(|page| {
            used.add(page);
        });
    }
    for (start, length) in chunks {
        used.add_run(*start, *length);
    }
    let mut in_use = 0;
    for index in 0..ground.pages.div_ceil(BITS) {
        let id = MetaId::new(Space::Pages, index);
        let bytes = mender.made(id, Kind::Bitmap, &used.bits(index)[..]);
        in_use += count(&bytes[HEADER..]);
        fresh.insert(id.0, bytes);
    }
    in_use
}

/// HOMES say which pages of the chunks hold what will be there.
fn put_homes(
    mender: &mut Mender<'_>,
    chunks: &[(u64, u64)],
    homes: u64,
    chosen: &Set,
    places: &mut Places,
) -> Result<Entries, Refusal> {
    let mut entries = Entries::new();
    let is_used = |places: &Places, page| places.used.has(page) || chosen.has(page);
    let mut contents = Vec::new();
    for (index, part) in (0..homes).zip(chunks.chunks(CHUNKS).chain(core::iter::repeat(&[][..]))) {
        let id = MetaId::new(Space::Homes, index);
        let mut bytes = mender.made(id, Kind::Homes, &[]);
        for (slot, (start, length)) in part.iter().enumerate() {
            let mut bits = [0; 32];
            for n in (0..*length).filter(|n| is_used(places, start + n)) {
                bits[(n / 8) as usize] |= 1 << (n % 8);
            }
            let chunk = Chunk::new(*start, *length as u32, bits);
            bytes[chunk_offset(slot)..][..size_of::<Chunk>()].copy_from_slice(chunk.as_bytes());
        }
        contents.push((id, bytes));
    }
    debug_assert!(
        contents
            .iter()
            .all(|(_, bytes)| ones(&bytes[HEADER..]).next().is_some())
    );
    for (id, bytes) in contents {
        let entry = places.put(&bytes).ok_or(Refusal::Other(
            "the repair counted its own pages wrong: this is a bug, tell its makers",
        ))?;
        entries.insert(id.0, entry);
    }
    Ok(entries)
}

/// The map of a space, from the entries up to its root.
fn put_map(mender: &mut Mender<'_>, space: Space, entries: &Entries, places: &mut Places) -> Option<Root> {
    let range = MetaId::new(space, 0).0..=MetaId::new(space, u64::MAX).0;
    let mut below: BTreeMap<u64, MapEntry> = entries
        .range(range)
        .map(|(id, entry)| (MetaId(*id).index(), *entry))
        .collect();
    if below.is_empty() {
        return Some(Root::default());
    }
    let tag = mender.pool().tag();
    let mut level = 0;
    loop {
        let mut pages: BTreeMap<u64, Box<Page>> = BTreeMap::new();
        for (index, entry) in &below {
            let bytes = pages.entry(index / FANOUT).or_insert_with(|| {
                let id = MetaId::map(space, level, index / FANOUT);
                let mut bytes = Box::new([0; PAGE]);
                bytes[..HEADER].copy_from_slice(Header::new(tag, id, Kind::Map, level, 0, 1).as_bytes());
                bytes
            });
            let at = entry_offset(index % FANOUT);
            bytes[at..at + size_of::<MapEntry>()].copy_from_slice(entry.as_bytes());
        }
        below = BTreeMap::new();
        for (number, bytes) in pages {
            below.insert(number, places.put(&bytes)?);
        }
        level += 1;
        if let (Some(root), 1) = (below.get(&0), below.len()) {
            return Some(Root {
                entry: *root,
                height: level,
                reserved: [0; 7],
            });
        }
    }
}

/// The superblock, and before it the log that carries what is staged (S-9.5, S-10.3).
fn superblock(mender: &mut Mender<'_>, roots: [Root; 10], writes: &mut Vec<Write>) -> Result<Superblock, Refusal> {
    let old = mender.pool().sb.clone();
    let end = mender.log;
    let mut sb = *old;
    let next = mender.generation + 1;
    let image = mender.pool().image;
    let is_lost = next > old.generation.get() + 1 || is_other_lost(image, &old);
    // Page 0 is written where it is what tells the others' places; else the slots that hold none, or are stale, so that the one in force stays (S-21.18).
    let skipped = match tells_slots(image, &old) {
        false => !slots_of(next).contains(&0),
        true => is_lost && slots_of(next) == slots_of(old.generation.get()),
    };
    sb.generation = (next + u64::from(skipped)).into();
    // Carried pages of a repair that is cut tell of no superblock (S-21.26).
    let skips = sb.generation.get() > old.generation.get() + 1;
    let lives = if skips { LIVES + 1 } else { 1 };
    sb.incarnation = ((old.incarnation.get() + lives) % (1 << 63)).into();
    sb.seq = mender.seq.into();
    let seen = match is_lost {
        true => adrift::behind(mender.pool()),
        false => 0,
    };
    let payload = staged(mender);
    let first = seen.max(old.log_seq.get() + end.seen) + old.log_pages.get();
    sb.log_seq = off_log(&old, end.seen, first, payload.len().div_ceil(PAYLOAD) as u64).into();
    let behind = if skips { 0 } else { end.durable.saturating_add(1) };
    sb.group = (end.group.max(behind) + u64::from(payload.is_empty())).into();
    sb.durable = (sb.group.get() - 1).into();
    sb.chain = crc64::full(&[old.chain.get().to_le_bytes(), sb.generation.get().to_le_bytes()].concat()).into();
    sb.incompat = (old.incompat.get() | INCOMPAT_STRIPES).into();
    sb.roots = roots;
    sb.state = CLEAN.into();
    if !payload.is_empty() {
        sb.state = OPEN.into();
        sb.durable = sb.group;
        if payload.len().div_ceil(PAYLOAD) as u64 > sb.log_pages.get() / 2 {
            return Err(Refusal::Other(
                "more small writes are in the log than a new one can carry; mount the pool once, or salvage it",
            ));
        }
        carry(&sb, &payload, writes);
    }
    Ok(sb)
}

/// The first number from `first` on from which `carried` pages do not reach the log of `old`, of which `seen` pages were accepted.
fn off_log(old: &Superblock, seen: u64, first: u64, carried: u64) -> u64 {
    let round = old.log_pages.get().max(1);
    let room = (old.log_seq.get() + round - first % round) % round;
    match seen > 0 && carried > room {
        true => first + (room + round).saturating_sub(carried),
        false => first,
    }
}

/// Staged pages as records: whole content, or that they are lost.
fn staged(mender: &mut Mender<'_>) -> Vec<u8> {
    let (pages, image) = (mender.pool().pages(), mender.pool().image);
    let mut payload = Vec::new();
    for ((ino, index), staged) in &mender.stage().pages {
        let (ino, index) = (*ino, *index);
        let content = staged.content(|page, buf| page < pages && image.read(page, buf).is_ok());
        let size = mender.walk.inodes.get(&ino).map_or(0, |facts| facts.size);
        let valid = size.saturating_sub(index.saturating_mul(PAGE as u64)).min(PAGE as u64) as usize;
        let record = match content.filter(|_| !staged.lost) {
            Some(bytes) => Record::Tail {
                ino,
                index,
                version: staged.version,
                base: 0,
                base_crc: 0,
                offset: 0,
                bytes: bytes[..valid].to_vec(),
            },
            None => Record::Lost { ino, index },
        };
        record.encode(&mut payload);
    }
    payload
}

fn carry(sb: &Superblock, payload: &[u8], writes: &mut Vec<Write>) {
    let mut chain = sb.chain.get();
    let parts = payload.chunks(PAYLOAD);
    let last = parts.len() - 1;
    for (n, part) in parts.enumerate() {
        let sequence = sb.log_seq.get() + n as u64;
        let head = PageHead {
            magic: keepfs_format::plog::MAGIC.into(),
            used: (part.len() as u16).into(),
            flags: if n == last { FLAG_LAST } else { 0 },
            reserved: 0,
            sequence: sequence.into(),
            group: sb.group,
            durable: (sb.group.get() - 1).into(),
            base: (sb.generation.get() - 1).into(),
            seq: sb.seq,
        };
        let mut bytes = Box::new([0; PAGE]);
        bytes[..PAYLOAD_OFFSET].copy_from_slice(head.as_bytes());
        bytes[PAYLOAD_OFFSET..PAYLOAD_OFFSET + part.len()].copy_from_slice(part);
        chain = page_crc(sb, chain, &bytes);
        bytes[CRC_OFFSET..].copy_from_slice(&chain.to_le_bytes());
        writes.push(Write {
            page: sb.log_start.get() + sequence % sb.log_pages.get(),
            bytes,
            is_superblock: false,
        });
    }
}
