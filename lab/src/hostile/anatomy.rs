//! A sound image taken apart (superblock, map, metablocks, log pages), and put together again with bytes changed and
//! every checksum above them made right.

use keepfs_codes::crc64;
use keepfs_format::map::{self, LIVE, MapEntry};
use keepfs_format::plog::{self, FLAG_LAST, PAYLOAD_OFFSET, PageHead};
use keepfs_format::superblock::{self, Superblock, slot_page, slots_of};
use keepfs_format::{FromBytes, IntoBytes, MetaId, PAGE, Space};
use keepfs_media::PageNo;
use keepfs_testkit::image::{Image, Page};
use std::collections::BTreeMap;

/// The bytes of a page.
pub type Bytes = Box<[u8; PAGE]>;

/// Where the checksum of a metablock stands.
#[derive(Clone, Copy, Debug)]
enum Above {
    /// In the root of its space.
    Root(Space),
    /// In this map page, at this offset.
    Map(MetaId, usize),
}

/// A live metablock or map page.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Its map entry.
    pub entry: MapEntry,
    above: Above,
}

/// A record in the log.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Which group, counted from 0.
    pub group: usize,
    /// Offset in the group's payload.
    pub at: usize,
    /// Type number.
    pub kind: u8,
}

/// What an edit changes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// The newest superblock.
    Superblock,
    /// A metablock or map page.
    Block(MetaId),
    /// A log page, counted from the first one to replay.
    LogPage(usize),
    /// The payload of a group, counted from the first one to replay.
    Group(usize),
    /// A device page, as it is.
    Raw(u64),
}

/// Bytes to put somewhere.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Where.
    pub place: Place,
    /// At which byte of it.
    pub offset: usize,
    /// What.
    pub bytes: Vec<u8>,
}

/// An image and what is where in it.
pub struct Anatomy {
    /// The image.
    pub image: Image,
    /// Its newest superblock.
    pub superblock: Superblock,
    /// Metablocks and map pages by id.
    pub blocks: BTreeMap<MetaId, Block>,
    /// Pages of the log from the first to replay on.
    pub log: Vec<Bytes>,
    /// Log pages of each whole group.
    pub groups: Vec<core::ops::Range<usize>>,
}

impl Anatomy {
    /// Takes a sound image apart.
    pub fn of(image: Image) -> Result<Anatomy, String> {
        let newest = (0..superblock::SLOTS)
            .filter_map(|slot| {
                let bytes = image.bytes(PageNo(slot_page(slot, image.pages())));
                let good =
                    crc64::full(&bytes[..superblock::CRC_OFFSET]).to_le_bytes() == bytes[superblock::CRC_OFFSET..];
                Superblock::read_from_bytes(bytes).ok().filter(|_| good)
            })
            .max_by_key(|sb| sb.generation.get())
            .ok_or("no superblock")?;
        let mut anatomy = Anatomy {
            image,
            superblock: newest,
            blocks: BTreeMap::new(),
            log: Vec::new(),
            groups: Vec::new(),
        };
        for space in Space::ALL {
            let root = newest.roots[space as usize];
            if root.height > 0 {
                let id = MetaId::map(space, root.height - 1, 0);
                anatomy.block(id, root.entry, Above::Root(space), root.height);
            }
        }
        anatomy.read_log();
        Ok(anatomy)
    }

    /// Adds a block and, if it is a map page, all below it.
    fn block(&mut self, id: MetaId, entry: MapEntry, above: Above, height: u8) {
        self.blocks.insert(id, Block { entry, above });
        let Some((space, level, number)) = id.as_map() else {
            return;
        };
        let bytes = *self.image.bytes(PageNo(entry.first.get()));
        for slot in 0..map::FANOUT {
            let at = map::entry_offset(slot);
            let Ok((child, _)) = MapEntry::read_from_prefix(&bytes[at..]) else {
                continue;
            };
            if child.state != LIVE || height == 0 {
                continue;
            }
            let number = number * map::FANOUT + slot;
            let below = match level {
                0 => MetaId::new(space, number),
                _ => MetaId::map(space, level - 1, number),
            };
            self.block(below, child, Above::Map(id, at), height - 1);
        }
    }

    fn log_page(sb: &Superblock, q: usize) -> u64 {
        let pages = sb.log_pages.get().max(1);
        sb.log_start
            .get()
            .wrapping_add(sb.log_seq.get().wrapping_add(q as u64) % pages)
    }

    fn read_log(&mut self) {
        let mut chain = self.superblock.chain.get();
        let mut first = 0;
        for q in 0..self.superblock.log_pages.get() as usize {
            let bytes = *self.image.bytes(PageNo(Self::log_page(&self.superblock, q)));
            chain = chained(&self.superblock, chain, &bytes);
            if chain.to_le_bytes() != bytes[plog::CRC_OFFSET..] {
                break;
            }
            self.log.push(Box::new(bytes));
            if head(&bytes).flags & FLAG_LAST != 0 {
                self.groups.push(first..q + 1);
                first = q + 1;
            }
        }
    }

    /// The bytes of a block.
    pub fn bytes(&self, id: MetaId) -> Bytes {
        let page = self.blocks.get(&id).map_or(0, |b| b.entry.first.get());
        Box::new(*self.image.bytes(PageNo(page)))
    }

    /// The map page that names a metablock, and the offset of its entry there.
    pub fn entry_above(&self, id: MetaId) -> Option<(MetaId, usize)> {
        match self.blocks.get(&id)?.above {
            Above::Map(above, at) => Some((above, at)),
            Above::Root(_) => None,
        }
    }

    /// The payload of a group.
    pub fn payload(&self, group: usize) -> Vec<u8> {
        let mut payload = Vec::new();
        for page in &self.log[self.groups[group].clone()] {
            let used = usize::from(head(page).used.get());
            payload.extend_from_slice(&page[PAYLOAD_OFFSET..PAYLOAD_OFFSET + used]);
        }
        payload
    }

    /// All records of the log.
    pub fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        for group in 0..self.groups.len() {
            let payload = self.payload(group);
            let mut at = 0;
            while at + 4 <= payload.len() {
                records.push(Record {
                    group,
                    at,
                    kind: payload[at],
                });
                at += 4 + u32::from_le_bytes([payload[at + 1], payload[at + 2], payload[at + 3], 0]) as usize;
            }
        }
        records
    }

    /// What stands at a place now.
    pub fn content(&self, place: Place) -> Vec<u8> {
        match place {
            Place::Superblock => self.superblock.as_bytes().to_vec(),
            Place::Block(id) => self.bytes(id).to_vec(),
            Place::LogPage(q) => self.log.get(q).map_or_else(Vec::new, |p| p.to_vec()),
            Place::Group(group) if group < self.groups.len() => self.payload(group),
            Place::Group(_) => Vec::new(),
            Place::Raw(page) => self.image.bytes(PageNo(page)).to_vec(),
        }
    }

    /// The image with edits made; with `fix`, every checksum above them is made right.
    pub fn build(&self, edits: &[Edit], fix: bool) -> Image {
        let mut work = Work {
            of: self,
            superblock: Box::new([0; PAGE]),
            blocks: BTreeMap::new(),
            log: self.log.clone(),
            raw: BTreeMap::new(),
        };
        work.superblock.copy_from_slice(self.superblock.as_bytes());
        edits.iter().for_each(|edit| work.edit(edit));
        work.finish(fix)
    }
}

/// The head of a log page.
fn head(page: &[u8; PAGE]) -> PageHead {
    PageHead::read_from_prefix(page).map_or_else(|_| keepfs_format::FromZeros::new_zeroed(), |(head, _)| head)
}

/// The CRC of a log page behind one whose CRC is `before` (S-8.3).
fn chained(sb: &Superblock, before: u64, page: &[u8; PAGE]) -> u64 {
    let mut all = sb.pool.to_vec();
    all.extend_from_slice(&sb.incarnation.get().to_le_bytes());
    all.extend_from_slice(&before.to_le_bytes());
    all.extend_from_slice(&page[..plog::CRC_OFFSET]);
    crc64::full(&all)
}

/// An image being made.
struct Work<'a> {
    of: &'a Anatomy,
    superblock: Bytes,
    blocks: BTreeMap<MetaId, Bytes>,
    log: Vec<Bytes>,
    raw: BTreeMap<u64, Bytes>,
}

/// Stores what fits.
fn store(to: &mut [u8], offset: usize, bytes: &[u8]) {
    for (i, byte) in bytes.iter().enumerate() {
        if let Some(to) = to.get_mut(offset + i) {
            *to = *byte;
        }
    }
}

impl Work<'_> {
    fn block(&mut self, id: MetaId) -> &mut Bytes {
        let of = self.of;
        self.blocks.entry(id).or_insert_with(|| of.bytes(id))
    }

    fn edit(&mut self, edit: &Edit) {
        match edit.place {
            Place::Superblock => store(&mut *self.superblock, edit.offset, &edit.bytes),
            Place::Block(id) => store(&mut **self.block(id), edit.offset, &edit.bytes),
            Place::LogPage(q) => {
                if let Some(page) = self.log.get_mut(q) {
                    store(&mut **page, edit.offset, &edit.bytes);
                }
            }
            Place::Group(group) => self.edit_payload(group, edit),
            Place::Raw(page) => {
                let old = self.of.image.bytes(PageNo(page));
                let bytes = self.raw.entry(page).or_insert_with(|| Box::new(*old));
                store(&mut **bytes, edit.offset, &edit.bytes);
            }
        }
    }

    fn edit_payload(&mut self, group: usize, edit: &Edit) {
        let Some(pages) = self.of.groups.get(group).cloned() else {
            return;
        };
        let mut start = 0;
        for q in pages {
            let used = usize::from(head(&self.of.log[q]).used.get());
            for (i, byte) in edit.bytes.iter().enumerate() {
                let at = edit.offset + i;
                if (start..start + used).contains(&at) {
                    self.log[q][PAYLOAD_OFFSET + at - start] = *byte;
                }
            }
            start += used;
        }
    }

    /// Metablocks first, then map pages upwards, then the roots: each tells its checksum to the one above.
    fn fix_blocks(&mut self) {
        let height = |id: &MetaId| id.as_map().map_or(0, |(_, level, _)| u32::from(level) + 1);
        for level in 0..=u32::from(map::HEIGHT_MAX) {
            let ids: Vec<MetaId> = self.blocks.keys().filter(|id| height(id) == level).copied().collect();
            for id in ids {
                let crc = crc64::full(&**self.block(id)).to_le_bytes();
                match self.of.blocks.get(&id).map(|b| b.above) {
                    Some(Above::Root(space)) => store(&mut *self.superblock, 256 + 40 * space as usize + 16, &crc),
                    Some(Above::Map(above, at)) => store(&mut **self.block(above), at + 16, &crc),
                    None => {}
                }
            }
        }
    }

    fn fix_log(&mut self, sb: &Superblock) {
        let mut chain = sb.chain.get();
        for page in &mut self.log {
            chain = chained(sb, chain, page);
            page[plog::CRC_OFFSET..].copy_from_slice(&chain.to_le_bytes());
        }
    }

    fn finish(mut self, fix: bool) -> Image {
        let mut image = self.of.image.clone();
        if fix {
            self.fix_blocks();
            let crc = crc64::full(&self.superblock[..superblock::CRC_OFFSET]).to_le_bytes();
            self.superblock[superblock::CRC_OFFSET..].copy_from_slice(&crc);
        }
        let sb = Superblock::read_from_bytes(&*self.superblock).unwrap_or(self.of.superblock);
        if fix {
            self.fix_log(&sb);
        }
        for (id, bytes) in &self.blocks {
            let Some(block) = self.of.blocks.get(id) else { continue };
            for page in [block.entry.first.get(), block.entry.second.get()] {
                if page != 0 {
                    image.set(PageNo(page), Page::new(bytes));
                }
            }
        }
        for (q, bytes) in self.log.iter().enumerate() {
            image.set(PageNo(Anatomy::log_page(&self.of.superblock, q)), Page::new(bytes));
        }
        self.store_superblock(&mut image, &sb);
        for (page, bytes) in &self.raw {
            image.set(PageNo(*page), Page::new(bytes));
        }
        image
    }

    /// The superblock in the slots that its generation and size tell; those it had before are blank if it moved.
    fn store_superblock(&self, image: &mut Image, sb: &Superblock) {
        let before =
            slots_of(self.of.superblock.generation.get()).map(|s| slot_page(s, self.of.superblock.pages.get()));
        before.into_iter().for_each(|page| image.clear(PageNo(page), 1));
        let mut slots = slots_of(sb.generation.get())
            .map(|s| slot_page(s, self.of.superblock.pages.get()))
            .to_vec();
        if sb.pages.get() < image.pages() {
            slots.extend(slots_of(sb.generation.get()).map(|s| slot_page(s, sb.pages.get())));
        }
        for page in slots {
            image.set(PageNo(page), Page::new(&self.superblock));
        }
    }
}
