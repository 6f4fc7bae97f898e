//! All places of an image where a field of some structure stands.

use super::anatomy::{Anatomy, Place};
use super::change::Aliens;
use super::fields::{self, Field, Sort};
use keepfs_format::blockmap::PageEntry;
use keepfs_format::dir::{ENTRY_HEAD, EntryHead, FIRST, entry_size};
use keepfs_format::inode::{self, BODY_DIRECT, BODY_TREE, Inode, LIVE, XATTR_CHAIN};
use keepfs_format::map::{self, CHUNKS, Chunk, MapEntry};
use keepfs_format::metablock::HEADER;
use keepfs_format::superblock::slot_page;
use keepfs_format::{FromBytes, Header, Kind, MetaId, Space};
use std::collections::BTreeMap;

/// One field somewhere.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    /// In what.
    pub place: Place,
    /// Offset there, bytes.
    pub offset: usize,
    /// Which field.
    pub field: Field,
}

/// Name of a structure and of its field.
pub type Name = (String, &'static str);

/// Everything that can be changed, by name, and the numbers that are aliens in it.
pub struct Sites {
    /// Sites by structure and field.
    pub by_name: BTreeMap<Name, Vec<Site>>,
    /// Alien numbers.
    pub aliens: Aliens,
}

impl Sites {
    /// Finds them.
    pub fn of(anatomy: &Anatomy) -> Sites {
        let mut sites = Sites {
            by_name: BTreeMap::new(),
            aliens: Aliens::default(),
        };
        sites.superblock();
        let ids: Vec<MetaId> = anatomy.blocks.keys().copied().collect();
        ids.into_iter().for_each(|id| sites.block(anatomy, id));
        sites.log(anatomy);
        sites.find_aliens(anatomy);
        sites
    }

    /// Number of sites.
    pub fn count(&self) -> usize {
        self.by_name.values().map(Vec::len).sum()
    }

    fn add(&mut self, structure: &str, place: Place, base: usize, fields: &[Field]) {
        for field in fields {
            let site = Site {
                place,
                offset: base + field.offset,
                field: *field,
            };
            self.by_name
                .entry((structure.to_owned(), field.name))
                .or_default()
                .push(site);
        }
    }

    fn superblock(&mut self) {
        self.add("superblock", Place::Superblock, 0, fields::SUPERBLOCK);
        for space in Space::ALL {
            let name = format!("root {space:?}");
            let base = 256 + 40 * space as usize;
            self.add(&name, Place::Superblock, base, fields::MAP_ENTRY);
            self.add(&name, Place::Superblock, base, fields::ROOT);
        }
    }

    fn block(&mut self, anatomy: &Anatomy, id: MetaId) {
        let bytes = anatomy.bytes(id);
        let place = Place::Block(id);
        let Ok((header, _)) = Header::read_from_prefix(&*bytes) else {
            return;
        };
        let Some(kind) = Kind::of(header.kind) else { return };
        self.add(&format!("header {kind:?}"), place, 0, fields::HEADER);
        match kind {
            Kind::Map => self.map_page(id, &bytes[..]),
            Kind::Homes => {
                for slot in 0..CHUNKS {
                    let at = map::chunk_offset(slot);
                    if Chunk::read_from_prefix(&bytes[at..]).is_ok_and(|(c, _)| c.start() != 0) || slot == CHUNKS - 1 {
                        self.add("homes chunk", place, at, fields::CHUNK);
                    }
                }
            }
            Kind::Inodes => self.inodes(id, &bytes[..]),
            Kind::DirLeaf => self.leaf(place, &bytes[..]),
            Kind::DirIndex => self.add("directory index", place, 0, fields::INDEX),
            Kind::BlockMap => self.block_map(place, header.level, &bytes[..]),
            Kind::Xattr => self.add("xattr chain", place, 0, fields::XATTR),
            Kind::Bitmap => {
                let space = id.space().map_or_else(String::new, |s| format!("{s:?}"));
                self.add(&format!("bitmap {space}"), place, 0, fields::BITMAP);
            }
            Kind::Shares => self.shares(place, &bytes[..]),
            Kind::Totals => self.add("totals", place, 0, fields::TOTALS),
        }
    }

    fn map_page(&mut self, id: MetaId, bytes: &[u8]) {
        let Some((space, level, _)) = id.as_map() else { return };
        let what = if level == 0 { "entry" } else { "inner entry" };
        for slot in 0..map::FANOUT {
            let at = map::entry_offset(slot);
            let live = MapEntry::read_from_prefix(&bytes[at..]).is_ok_and(|(e, _)| e.state != 0);
            if live {
                self.add(
                    &format!("map {what} {space:?}"),
                    Place::Block(id),
                    at,
                    fields::MAP_ENTRY,
                );
            } else if slot == map::FANOUT - 1 {
                self.add("map entry unused", Place::Block(id), at, fields::MAP_ENTRY);
            }
        }
    }

    fn inodes(&mut self, id: MetaId, bytes: &[u8]) {
        for slot in 0..inode::PER_BLOCK {
            let at = HEADER + slot as usize * inode::SIZE;
            let Ok((found, _)) = Inode::read_from_prefix(&bytes[at..]) else {
                continue;
            };
            let live = found.state.get() == LIVE;
            let kind = match (found.state.get(), found.mode.get() >> 12) {
                (LIVE, 4) => "directory",
                (LIVE, 8) => "file",
                (LIVE, 10) => "symlink",
                (LIVE, _) => "special",
                (0, _) => "never used",
                _ => "dead",
            };
            let body = ["", ", inline", ", direct", ", tree"][usize::from(found.body % 4)];
            let chain = if found.xattr.get() == XATTR_CHAIN {
                ", chain"
            } else {
                ""
            };
            let nameless = if live && found.nlink.get() == 0 {
                ", nameless"
            } else {
                ""
            };
            let name = format!("inode ({kind}{body}{chain}{nameless})");
            self.add(&name, Place::Block(id), at, fields::INODE);
            if found.body == BODY_TREE {
                self.add("pending hole", Place::Block(id), at, fields::HOLE);
            }
            if found.body == BODY_DIRECT {
                for entry in 0..4 {
                    self.add(
                        "direct page entry",
                        Place::Block(id),
                        at + 152 + 16 * entry,
                        fields::PAGE_ENTRY,
                    );
                }
            }
        }
    }

    fn leaf(&mut self, place: Place, bytes: &[u8]) {
        self.add("directory leaf", place, 0, fields::LEAF_HEAD);
        let tail = usize::from(u16::from_le_bytes([bytes[HEADER], bytes[HEADER + 1]]));
        let mut at = FIRST;
        while at + ENTRY_HEAD <= tail {
            let Ok((head, _)) = EntryHead::read_from_prefix(&bytes[at..]) else {
                return;
            };
            self.add("directory entry", place, at, fields::DIRENT);
            at += entry_size(usize::from(head.name_len));
        }
    }

    fn block_map(&mut self, place: Place, level: u8, bytes: &[u8]) {
        self.add("block map node", place, 0, fields::MAP_NODE);
        for slot in 0..254 {
            let at = HEADER + 16 * slot;
            let used = PageEntry::read_from_prefix(&bytes[at..]).is_ok_and(|(e, _)| !e.is_hole());
            match (used, level) {
                (false, _) => {}
                (true, 1) => self.add("page entry", place, at, fields::PAGE_ENTRY),
                (true, _) => self.add("block map child", place, at, fields::CHILD),
            }
        }
    }

    fn shares(&mut self, place: Place, bytes: &[u8]) {
        self.add("shares", place, 0, fields::SHARES);
        const COUNT: Field = Field {
            name: "count of a shared page",
            offset: 0,
            width: 2,
            repeat: 1,
            sort: Sort::Plain,
        };
        for at in (HEADER..bytes.len()).step_by(2).filter(|at| bytes[*at] != 0) {
            self.add("shares", place, at, &[COUNT]);
        }
    }

    fn log(&mut self, anatomy: &Anatomy) {
        for q in 0..anatomy.log.len() {
            self.add("log page", Place::LogPage(q), 0, fields::LOG_PAGE);
        }
        for record in anatomy.records() {
            let (name, body) = fields::record(record.kind);
            self.add(name, Place::Group(record.group), record.at, fields::RECORD);
            self.add(name, Place::Group(record.group), record.at, body);
        }
    }

    fn find_aliens(&mut self, anatomy: &Anatomy) {
        let sb = &anatomy.superblock;
        let n = sb.pages.get();
        let log = sb.log_start.get();
        let mut pages = vec![
            0,
            slot_page(1, n),
            slot_page(2, n),
            log,
            log + sb.log_pages.get() - 1,
            n - 1,
            n,
            n + 1,
        ];
        pages.extend([1 << 40, (1 << 48) - 1, 1 << 63, u64::MAX - 1, n * 2, 512, 16, 3]);
        let mut nodes = vec![
            1 << 56,
            (1 << 56) | ((1 << 56) - 1),
            (1 << 56) | (1 << 40),
            0x81 << 56,
            2 << 56,
            9 << 56,
        ];
        let mut seen: BTreeMap<(u8, u8), u32> = BTreeMap::new();
        for (id, block) in &anatomy.blocks {
            let Ok((header, _)) = Header::read_from_prefix(&anatomy.bytes(*id)[..]) else {
                continue;
            };
            let count = seen.entry((header.kind, header.level)).or_default();
            *count += 1;
            if *count <= 2 {
                pages.push(block.entry.first.get());
                if id.space() == Some(Space::Nodes) {
                    nodes.push(id.0);
                }
            }
        }
        for ((structure, field), sites) in &self.by_name {
            if *field == "page" && structure.ends_with("page entry") {
                let site = sites[sites.len() / 2];
                let bytes = anatomy.content(site.place);
                pages.push(u64::from_le_bytes(core::array::from_fn(|i| {
                    if i < 6 { bytes[site.offset + i] } else { 0 }
                })));
            }
        }
        let mut inodes = vec![1, 2, 3, 1 << 40, (1 << 40) - 1, u64::MAX >> 8, 1 << 63];
        for ((structure, field), sites) in &self.by_name {
            if *field != "state" || !structure.starts_with("inode") {
                continue;
            }
            for site in [sites[0], sites[sites.len() - 1]] {
                if let Place::Block(id) = site.place {
                    inodes.push(inode::at(id, site.offset));
                }
            }
        }
        self.aliens = Aliens { pages, nodes, inodes };
    }
}
