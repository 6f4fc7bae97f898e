//! Builds pool images by hand, from the format's types and SPEC.md: no engine, no walk.

use keepfs_codes::{crc32c, crc64};
use keepfs_format::bitmap::{self, TOTALS};
use keepfs_format::blockmap::PageEntry;
use keepfs_format::dir::{self, EntryHead, LeafHead};
use keepfs_format::inode::{self, Inode};
use keepfs_format::map::{self, Chunk, MapEntry};
use keepfs_format::metablock::HEADER;
use keepfs_format::plog::{self, PageHead, Record};
use keepfs_format::superblock::{self, Root, Superblock, slot_page, slots_of};
use keepfs_format::{FromBytes, FromZeros, Header, IntoBytes, Kind, MetaId, PAGE, Space};
use std::collections::{BTreeMap, BTreeSet};

pub type Page = [u8; PAGE];

pub const PAGES: u64 = 1024;
pub const LOG_START: u64 = 8;
pub const LOG_PAGES: u64 = 32;
pub const CHUNKS: [(u64, u32); 2] = [(64, 100), (300, 32)];
pub const POOL: [u8; 16] = *b"a pool of tests!";
pub const SEED: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfeed_face_cafe_beef];
pub const TAG: u32 = u32::from_le_bytes([b'a', b' ', b'p', b'o']);

/// A pool before it is laid out. Everything may be changed; checksums come last.
pub struct Builder {
    pub sb: Superblock,
    /// Metablocks of spaces 1 to 8 as the checkpoint has them.
    pub meta: BTreeMap<u64, Box<Page>>,
    /// Dead nodes and their last generation.
    pub dead: BTreeMap<u64, u32>,
    pub data: BTreeMap<u64, Box<Page>>,
    /// Heights of maps that are to be higher than need be.
    pub heights: BTreeMap<Space, u8>,
    pub log: Vec<Vec<LogPage>>,
    /// Metablocks as the log leaves them.
    pub after: BTreeMap<u64, Box<Page>>,
    pub on_entry: Option<fn(MetaId, &mut MapEntry)>,
    pub on_block: Option<fn(MetaId, &mut Page)>,
}

/// A log page without its chain.
pub struct LogPage {
    pub head: PageHead,
    pub payload: Vec<u8>,
}

/// A laid out pool.
pub struct Built {
    pub bytes: Vec<u8>,
    pub places: BTreeMap<u64, MapEntry>,
    pub sb: Superblock,
}

fn header_of(id: MetaId, kind: Kind, level: u8, owner: u64, generation: u32) -> Box<Page> {
    let mut page = Box::new([0; PAGE]);
    let head = Header::new(TAG, id, kind, level, owner, generation);
    page[..HEADER].copy_from_slice(head.as_bytes());
    page
}

pub fn node(index: u64) -> MetaId {
    MetaId::new(Space::Nodes, index)
}

fn kind_of(space: Space) -> Kind {
    match space {
        Space::Inodes => Kind::Inodes,
        Space::Shares => Kind::Shares,
        Space::Totals => Kind::Totals,
        Space::Homes => Kind::Homes,
        _ => Kind::Bitmap,
    }
}

impl Builder {
    pub fn new() -> Self {
        let mut sb = Superblock::blank();
        sb.meta_copies = 2.into();
        sb.pool = POOL;
        sb.label[..4].copy_from_slice(b"test");
        sb.pages = PAGES.into();
        sb.generation = 3.into();
        sb.incarnation = 77.into();
        sb.seq = 100.into();
        sb.log_start = LOG_START.into();
        sb.log_pages = LOG_PAGES.into();
        sb.log_seq = 50.into();
        sb.group = 5.into();
        sb.chain = 0x1122_3344.into();
        sb.durable = 4.into();
        sb.zone_pages = 256.into();
        sb.zone_current = 2.into();
        sb.zone_next = 3.into();
        sb.chunk_pages = 100.into();
        sb.state = superblock::OPEN.into();
        sb.name_seed = [SEED[0].into(), SEED[1].into()];
        let mut builder = Builder {
            sb,
            meta: BTreeMap::new(),
            dead: BTreeMap::new(),
            data: BTreeMap::new(),
            heights: BTreeMap::new(),
            log: Vec::new(),
            after: BTreeMap::new(),
            on_entry: None,
            on_block: None,
        };
        (0..4).for_each(|slot| builder.use_page(slot_page(slot, PAGES)));
        (LOG_START..LOG_START + LOG_PAGES).for_each(|page| builder.use_page(page));
        for (start, pages) in CHUNKS {
            (start..start + u64::from(pages)).for_each(|page| builder.use_page(page));
        }
        builder
    }

    /// The metablock of a space, zero if it is new.
    pub fn block(&mut self, id: MetaId) -> &mut Page {
        let kind = kind_of(id.space().unwrap());
        self.meta.entry(id.0).or_insert_with(|| header_of(id, kind, 0, 0, 1))
    }

    pub fn flip(&mut self, space: Space, number: u64) {
        let (id, at, mask) = bitmap::bit(space, number);
        self.block(id)[at] ^= mask;
    }

    pub fn total(&mut self, at: usize, delta: i64) {
        let bytes = self.block(TOTALS);
        let old = i64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        bytes[at..at + 8].copy_from_slice(&(old + delta).to_le_bytes());
    }

    pub fn use_page(&mut self, page: u64) {
        self.flip(Space::Pages, page);
        self.total(bitmap::TOTAL_PAGES, 1);
    }

    pub fn share(&mut self, page: u64, extra: u16) {
        let (id, at) = bitmap::share(page);
        self.block(id)[at..at + 2].copy_from_slice(&extra.to_le_bytes());
        self.total(bitmap::TOTAL_SHARES, extra.into());
    }

    /// A node of generation 1 that is in use.
    pub fn node(&mut self, index: u64, kind: Kind, level: u8, owner: u64) -> &mut Page {
        self.flip(Space::NodeNumbers, index);
        self.total(bitmap::TOTAL_NODES, 1);
        let id = node(index);
        self.meta
            .entry(id.0)
            .or_insert_with(|| header_of(id, kind, level, owner, 1))
    }

    pub fn at(&mut self, index: u64) -> &mut Page {
        self.meta.get_mut(&node(index).0).unwrap()
    }

    /// A live inode.
    pub fn new_inode(&mut self, ino: u64, mode: u32, edit: impl FnOnce(&mut Inode)) {
        self.flip(Space::InodeNumbers, ino);
        self.total(bitmap::TOTAL_INODES, 1);
        let mut inode = fresh_inode(mode);
        edit(&mut inode);
        let at = inode::offset_of(ino);
        self.block(inode::block_of(ino))[at..at + inode::SIZE].copy_from_slice(inode.as_bytes());
    }

    pub fn inode(&mut self, ino: u64, edit: impl FnOnce(&mut Inode)) {
        edit_inode(self.block(inode::block_of(ino)), ino, edit);
    }

    /// A data page full of `fill`, zero from `used` on; its entry.
    pub fn data(&mut self, page: u64, fill: u8, used: usize) -> PageEntry {
        self.use_page(page);
        self.data_unaccounted(page, fill, used)
    }

    pub fn data_unaccounted(&mut self, page: u64, fill: u8, used: usize) -> PageEntry {
        let mut bytes = Box::new([0; PAGE]);
        bytes[..used].fill(fill);
        let crc = crc32c::of(&bytes[..]);
        self.data.insert(page, bytes);
        PageEntry::new(page, keepfs_format::blockmap::WRITTEN, crc, 1)
    }

    /// What `edit` does to the metablocks of spaces 1 and 2 happens in the log; gives the update records.
    pub fn logged(&mut self, edit: impl FnOnce(&mut Builder)) -> Vec<Record> {
        if self.after.is_empty() {
            self.after = self.meta.clone();
        }
        core::mem::swap(&mut self.meta, &mut self.after);
        let before = self.meta.clone();
        edit(self);
        core::mem::swap(&mut self.meta, &mut self.after);
        let changed = self
            .after
            .iter()
            .filter(|(id, _)| matches!(MetaId(**id).space(), Some(Space::Nodes | Space::Inodes)));
        let updates = changed.map(|(id, new)| {
            let born = header_of(MetaId(*id), Kind::Inodes, 0, 0, 1);
            let new_head = Header::read_from_prefix(&new[..]).unwrap().0;
            let mut fresh = Box::new([0; PAGE]);
            fresh[..HEADER].copy_from_slice(&new[..HEADER]);
            let old = before.get(id).filter(|old| old[24..28] == new[24..28]);
            let old = old.unwrap_or(if MetaId(*id).space() == Some(Space::Inodes) {
                &born
            } else {
                &fresh
            });
            let generation = new_head.generation.get();
            Record::Update {
                id: MetaId(*id),
                generation,
                ranges: ranges(old, new),
            }
        });
        updates
            .filter(|r| !matches!(r, Record::Update { ranges, .. } if ranges.is_empty()))
            .collect()
    }

    /// Appends a group of these records.
    pub fn group(&mut self, records: &[Record]) {
        let mut payload = Vec::new();
        records.iter().for_each(|record| record.encode(&mut payload));
        self.raw_group(&payload);
    }

    pub fn raw_group(&mut self, payload: &[u8]) {
        let number = self.sb.group.get() + self.log.len() as u64;
        let chunks: Vec<&[u8]> = payload.chunks(plog::PAYLOAD).collect();
        let pages = chunks.iter().enumerate().map(|(at, payload)| {
            let mut head = PageHead::new_zeroed();
            head.magic = plog::MAGIC.into();
            head.used = (payload.len() as u16).into();
            head.flags = if at + 1 == chunks.len() { plog::FLAG_LAST } else { 0 };
            head.group = number.into();
            head.durable = (number - 1).into();
            head.base = self.sb.generation;
            head.seq = (self.sb.seq.get() + 1 + self.log.len() as u64).into();
            LogPage {
                head,
                payload: payload.to_vec(),
            }
        });
        let pages = pages.collect();
        self.log.push(pages);
    }

    /// Lays the pool out, with all checksums right.
    pub fn build(mut self) -> Built {
        let ids = self.ids();
        let mut free = CHUNKS
            .iter()
            .flat_map(|(start, pages)| *start..start + u64::from(*pages));
        let mut places: BTreeMap<u64, MapEntry> = BTreeMap::new();
        let copies = self.sb.meta_copies.get();
        for id in ids.iter() {
            let entry = MapEntry {
                first: free.next().unwrap().into(),
                second: if copies == 2 { free.next().unwrap() } else { 0 }.into(),
                state: map::LIVE,
                ..MapEntry::default()
            };
            places.insert(id.0, entry);
        }
        self.homes(&places);
        let mut bytes = vec![0; PAGES as usize * PAGE];
        for (page, content) in &self.data {
            put(&mut bytes, *page, content);
        }
        for id in ids {
            let mut page = match self.meta.get(&id.0) {
                Some(page) => page.clone(),
                None => self.map_page(id, &places),
            };
            if let Some(hook) = self.on_block {
                hook(id, &mut page);
            }
            let entry = places.get_mut(&id.0).unwrap();
            entry.crc = crc64::full(&page[..]).into();
            let head = Header::read_from_prefix(&page[..]).unwrap().0;
            (entry.generation, entry.kind) = (head.generation, head.kind);
            put(&mut bytes, entry.first.get(), &page);
            if copies == 2 {
                put(&mut bytes, entry.second.get(), &page);
            }
            if let Some(hook) = self.on_entry {
                hook(id, entry);
            }
        }
        self.roots(&places);
        self.write_log(&mut bytes);
        let built_sb = self.sb;
        let mut built = Built {
            bytes,
            places,
            sb: built_sb,
        };
        let mut old = built_sb;
        old.generation = (old.generation.get() - 1).into();
        built.write_superblock(&old);
        built.write_superblock(&built_sb);
        built
    }

    fn height(&self, space: Space, last: u64) -> u8 {
        let mut height = *self.heights.get(&space).unwrap_or(&1);
        while map::FANOUT.pow(height.into()) <= last {
            height += 1;
        }
        height
    }

    /// Every metablock, children before parents.
    fn ids(&mut self) -> Vec<MetaId> {
        self.block(MetaId::new(Space::Homes, 0));
        let mut ids: Vec<MetaId> = self.meta.keys().map(|id| MetaId(*id)).collect();
        for space in Space::ALL {
            let of_space = |id: &MetaId| id.space() == Some(space);
            let mut level: BTreeSet<u64> = ids.iter().copied().filter(of_space).map(MetaId::index).collect();
            level.extend(self.dead.keys().filter(|_| space == Space::Nodes));
            let Some(last) = level.last().copied() else {
                self.sb.roots[space as usize] = Root::default();
                continue;
            };
            let height = self.height(space, last);
            self.sb.roots[space as usize].height = height;
            for k in 0..height {
                level = level.iter().map(|n| n / map::FANOUT).collect();
                ids.extend(level.iter().map(|n| MetaId::map(space, k, *n)));
            }
        }
        ids
    }

    fn homes(&mut self, places: &BTreeMap<u64, MapEntry>) {
        let used: BTreeSet<u64> = places.values().flat_map(|e| [e.first.get(), e.second.get()]).collect();
        let homes = self.block(MetaId::new(Space::Homes, 0));
        for (slot, (start, pages)) in CHUNKS.into_iter().enumerate() {
            let mut bits = [0u8; 32];
            for n in (0..u64::from(pages)).filter(|n| used.contains(&(start + n))) {
                bits[(n / 8) as usize] |= 1 << (n % 8);
            }
            let at = map::chunk_offset(slot);
            homes[at..at + 40].copy_from_slice(Chunk::new(start, pages, bits).as_bytes());
        }
    }

    fn map_page(&self, id: MetaId, places: &BTreeMap<u64, MapEntry>) -> Box<Page> {
        let (space, level, number) = id.as_map().unwrap();
        let mut page = header_of(id, Kind::Map, level, 0, 1);
        for slot in 0..map::FANOUT {
            let below = number * map::FANOUT + slot;
            let child = match level {
                0 => MetaId::new(space, below),
                _ => MetaId::map(space, level - 1, below),
            };
            let mut entry = places.get(&child.0).copied().unwrap_or_default();
            if let Some(generation) = self.dead.get(&below).filter(|_| space == Space::Nodes && level == 0) {
                (entry.state, entry.generation) = (map::DEAD, (*generation).into());
            }
            let at = map::entry_offset(slot);
            page[at..at + 32].copy_from_slice(entry.as_bytes());
        }
        page
    }

    fn roots(&mut self, places: &BTreeMap<u64, MapEntry>) {
        for space in Space::ALL {
            let root = &mut self.sb.roots[space as usize];
            if root.height > 0 {
                root.entry = places[&MetaId::map(space, root.height - 1, 0).0];
            }
        }
    }

    fn write_log(&mut self, bytes: &mut [u8]) {
        let mut chain = self.sb.chain.get();
        let pages = core::mem::take(&mut self.log).into_iter().flatten();
        for (mut page, sequence) in pages.zip(self.sb.log_seq.get()..) {
            page.head.sequence = sequence.into();
            let mut raw = [0; PAGE];
            raw[..48].copy_from_slice(page.head.as_bytes());
            raw[48..48 + page.payload.len()].copy_from_slice(&page.payload);
            let mut covered = POOL.to_vec();
            covered.extend_from_slice(&self.sb.incarnation.get().to_le_bytes());
            covered.extend_from_slice(&chain.to_le_bytes());
            covered.extend_from_slice(&raw[..4088]);
            chain = crc64::full(&covered);
            raw[4088..].copy_from_slice(&chain.to_le_bytes());
            put(bytes, LOG_START + sequence % LOG_PAGES, &raw);
        }
    }
}

impl Built {
    /// Writes a superblock to both slots of its generation, with its CRC.
    pub fn write_superblock(&mut self, sb: &Superblock) {
        for slot in slots_of(sb.generation.get()) {
            self.write_slot(slot, sb);
        }
    }

    pub fn write_slot(&mut self, slot: usize, sb: &Superblock) {
        let mut sb = *sb;
        sb.crc = crc64::full(&sb.as_bytes()[..superblock::CRC_OFFSET]).into();
        put(
            &mut self.bytes,
            slot_page(slot, PAGES),
            sb.as_bytes().try_into().unwrap(),
        );
    }

    pub fn page(&mut self, page: u64) -> &mut [u8] {
        &mut self.bytes[page as usize * PAGE..][..PAGE]
    }
}

fn put(bytes: &mut [u8], page: u64, content: &Page) {
    bytes[page as usize * PAGE..][..PAGE].copy_from_slice(content);
}

/// The runs of bytes that differ.
fn ranges(old: &Page, new: &Page) -> Vec<(u16, Vec<u8>)> {
    let differing: Vec<usize> = (0..PAGE).filter(|at| old[*at] != new[*at]).collect();
    let runs = differing.chunk_by(|a, b| a + 1 == *b);
    runs.map(|run| (run[0] as u16, new[run[0]..run[0] + run.len()].to_vec()))
        .collect()
}

pub fn fresh_inode(mode: u32) -> Inode {
    let mut inode = Inode::new_zeroed();
    inode.state = inode::LIVE.into();
    inode.mode = mode.into();
    inode.nlink = 1.into();
    (inode.born, inode.cur) = (1.into(), 2.into());
    inode
}

pub fn edit_inode(block: &mut Page, ino: u64, edit: impl FnOnce(&mut Inode)) {
    let at = inode::offset_of(ino);
    let mut inode = Inode::read_from_bytes(&block[at..at + inode::SIZE]).unwrap();
    edit(&mut inode);
    block[at..at + inode::SIZE].copy_from_slice(inode.as_bytes());
}

/// One directory entry: name, inode, mode >> 12, live.
pub type Entry<'a> = (&'a str, u64, u8, bool);

/// Writes entries into a leaf whose header stands.
pub fn fill_leaf(page: &mut Page, entries: &[Entry<'_>]) {
    let (mut at, mut head) = (dir::FIRST, LeafHead::default());
    for (name, ino, kind, live) in entries {
        let entry = EntryHead {
            key: dir::name_key(SEED, name.as_bytes()).into(),
            ino: (*ino).into(),
            version: 1.into(),
            kind: *kind,
            name_len: name.len() as u8,
            state: if *live { dir::LIVE } else { dir::DEAD },
            reserved: 0,
        };
        page[at..at + dir::ENTRY_HEAD].copy_from_slice(entry.as_bytes());
        page[at + dir::ENTRY_HEAD..][..name.len()].copy_from_slice(name.as_bytes());
        let size = dir::entry_size(name.len());
        at += size;
        if *live {
            head.live = (head.live.get() + 1).into();
        } else {
            head.dead = (head.dead.get() + size as u16).into();
        }
    }
    head.tail = (at as u16).into();
    page[HEADER..dir::FIRST].copy_from_slice(head.as_bytes());
}

/// One attribute as bytes.
pub fn attr(namespace: u8, name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![name.len() as u8, namespace];
    bytes.extend_from_slice(&(value.len() as u16).to_le_bytes());
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(value);
    bytes
}

/// Fills a metablock of an xattr chain.
pub fn fill_xattr(page: &mut Page, next: u64, payload: &[u8]) {
    page[32..40].copy_from_slice(&next.to_le_bytes());
    page[40..42].copy_from_slice(&(payload.len() as u16).to_le_bytes());
    page[48..48 + payload.len()].copy_from_slice(payload);
}
