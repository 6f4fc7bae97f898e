//! The pool as it stands after the log: metablocks of the checkpoint, under those that the log has changed.

use crate::bitmap::Set;
use crate::finding::Finding;
use crate::report::Sink;
use crate::{Image, Page};
use keepfs_codes::crc64;
use keepfs_format::inode;
use keepfs_format::map::{self, MapEntry};
use keepfs_format::metablock::{HEADER, MAGIC};
use keepfs_format::superblock::{INCOMPAT_STRIPES, Superblock};
use keepfs_format::{FromBytes, Header, IntoBytes, Kind, MetaId, PAGE, PoolId, Space};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The uppermost level that a map can have (S-4.1).
const LEVEL_MAX: u8 = 8;
/// Where cur stands in an inode (S-5.2).
const CUR: usize = 56;

/// One entry of the map that is live or dead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub index: u64,
    pub entry: MapEntry,
    /// Its pages have been read and judged.
    pub seen: bool,
}

/// A metablock that is not as the checkpoint has it.
#[derive(Debug)]
enum Changed {
    Bytes(Rc<Page>),
    Dead(u32),
    Bad,
}

/// Runs of metablocks of which nothing is known, because a map page or map entry is bad.
#[derive(Debug, Default)]
pub(crate) struct Holes {
    /// First index → index after the last.
    runs: BTreeMap<(Space, u64), u64>,
}

impl Holes {
    pub fn add(&mut self, space: Space, first: u64, end: u64) {
        self.runs.insert((space, first), end);
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub fn any(&self, space: Space) -> bool {
        self.runs.range((space, 0)..=(space, u64::MAX)).next().is_some()
    }

    /// The pages and entries of a space's map that the runs stand for.
    pub fn ids(&self, space: Space) -> impl Iterator<Item = MetaId> {
        let runs = self.runs.range((space, 0)..=(space, u64::MAX));
        runs.map(move |((_, first), end)| map_id(space, *first, *end))
    }

    /// Every run: its space, first index, and index after the last.
    pub fn iter(&self) -> impl Iterator<Item = (Space, u64, u64)> {
        self.runs.iter().map(|((space, first), end)| (*space, *first, *end))
    }

    /// How many runs a space has.
    pub fn count(&self, space: Space) -> u64 {
        self.runs.range((space, 0)..=(space, u64::MAX)).count() as u64
    }

    pub fn has(&self, space: Space, index: u64) -> bool {
        let before = self.runs.range((space, 0)..=(space, index)).next_back();
        before.is_some_and(|(_, end)| index < *end)
    }
}

/// The page of the map that covers exactly these metablocks, or the one metablock.
fn map_id(space: Space, first: u64, end: u64) -> MetaId {
    let count = end.saturating_sub(first);
    if count <= 1 {
        return MetaId::new(space, first);
    }
    let covers = |level: u8| map::FANOUT.saturating_pow(u32::from(level) + 1);
    let level = (0..LEVEL_MAX).find(|level| covers(*level) >= count);
    let level = level.unwrap_or(LEVEL_MAX);
    MetaId::map(space, level, first / covers(level))
}

/// Metablocks that were found by their headers where HOMES cannot say which page is the newest (S-21.15).
#[derive(Debug, Default)]
pub(crate) struct Age {
    /// Nothing says that they are the newest version.
    pub unproved: BTreeSet<u64>,
    /// Metablocks of files among them of which another version was found, too.
    pub rivals: usize,
    /// Of these, those of which a newer version is told of that is not there.
    pub older: BTreeSet<u64>,
    /// Pages and entries of the map of NODES and INODES that are lost, where a superblock led to them: what was found for them may
    /// be older, and not all (S-21.24).
    pub unled: BTreeSet<u64>,
    /// No superblock tells of a log: what was staged in it is lost.
    pub is_without_log: bool,
}

/// What reading a metablock gives.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    Live(Rc<Page>),
    /// It does not exist; the generation of its last life, 0 if none.
    Gone(u32),
    /// It exists but cannot be trusted; the finding is made.
    Bad,
}

/// An image, its superblock, its map, and what the log changed.
pub(crate) struct Pool<'i> {
    pub image: &'i dyn Image,
    pub sb: Box<Superblock>,
    pub sink: Sink,
    /// The rows of each space, ascending; indexed by the space's number.
    pub rows: [Vec<Row>; 10],
    /// Parts of the map that cannot be read.
    pub holes: Holes,
    /// Every page that a live map entry or root names, with the metablock in it.
    pub homes: Vec<(u64, MetaId)>,
    /// The pages of `homes`.
    pub home_pages: Set,
    /// Live map pages.
    pub map_pages: u64,
    /// Metablocks and map pages whose copies lie too close to each other (S-4.9).
    pub close_copies: u64,
    /// What may be older than it should be.
    pub age: Age,
    /// The group in which the log ends, once it was read (S-9.1).
    pub log_ends_in: u64,
    changed: BTreeMap<u64, Changed>,
}

impl<'i> Pool<'i> {
    /// A pool with nothing read but the superblock.
    pub fn new(image: &'i dyn Image, sb: Box<Superblock>, sink: Sink) -> Self {
        Pool {
            image,
            sb,
            sink,
            rows: Default::default(),
            holes: Holes::default(),
            homes: Vec::new(),
            home_pages: Set::default(),
            map_pages: 0,
            close_copies: 0,
            age: Age::default(),
            log_ends_in: 0,
            changed: BTreeMap::new(),
        }
    }

    /// Whether TOTALS have more stripes than one (S-2.10).
    pub fn is_striped(&self) -> bool {
        self.sb.incompat.get() & INCOMPAT_STRIPES != 0
    }

    /// Pages of the pool.
    pub fn pages(&self) -> u64 {
        self.sb.pages.get()
    }

    pub fn tag(&self) -> u32 {
        PoolId(self.sb.pool).tag()
    }

    /// Reads the metablock as the log leaves it. A finding is made the first time it turns out bad.
    pub fn load(&mut self, id: MetaId) -> Load {
        match self.changed.get(&id.0) {
            Some(Changed::Bytes(bytes)) => return Load::Live(bytes.clone()),
            Some(Changed::Dead(generation)) => return Load::Gone(*generation),
            Some(Changed::Bad) => return Load::Bad,
            None => {}
        }
        let Some(space) = id.space() else {
            return Load::Gone(0);
        };
        let Some(at) = self.row(space, id.index()) else {
            return if self.holes.has(space, id.index()) {
                Load::Bad
            } else {
                Load::Gone(0)
            };
        };
        let entry = self.rows[space as usize][at].entry;
        if entry.state != map::LIVE {
            return Load::Gone(entry.generation.get());
        }
        self.rows[space as usize][at].seen = true;
        match self.fetch(id, &entry) {
            Some(bytes) => Load::Live(bytes),
            None => {
                self.changed.insert(id.0, Changed::Bad);
                Load::Bad
            }
        }
    }

    fn row(&self, space: Space, index: u64) -> Option<usize> {
        self.rows[space as usize]
            .binary_search_by_key(&index, |row| row.index)
            .ok()
    }

    /// The metablock's bytes to be changed by the log, born as zeros if it may be (S-3.3, S-8.9). None if it is bad, or a node
    /// that is not alive.
    pub fn edit(&mut self, id: MetaId, zero: Option<Kind>) -> Option<&mut Page> {
        if !matches!(self.changed.get(&id.0), Some(Changed::Bytes(_))) {
            let bytes = match (self.load(id), zero) {
                (Load::Live(bytes), _) => bytes,
                (Load::Gone(last), Some(kind)) => Rc::new(self.first_bytes(id, kind, last)),
                _ => return None,
            };
            self.changed.insert(id.0, Changed::Bytes(bytes));
        }
        match self.changed.get_mut(&id.0) {
            Some(Changed::Bytes(bytes)) => Some(Rc::make_mut(bytes)),
            _ => None,
        }
    }

    /// S-3.3: what a metablock holds that is changed without having been born; `last` is its last generation.
    fn first_bytes(&self, id: MetaId, kind: Kind, last: u32) -> Page {
        let mut bytes = [0; PAGE];
        let header = Header::new(self.tag(), id, kind, 0, 0, last.saturating_add(1));
        bytes[..HEADER].copy_from_slice(header.as_bytes());
        if kind == Kind::Inodes && last > 0 {
            for slot in bytes[HEADER..].chunks_exact_mut(inode::SIZE) {
                slot[..4].copy_from_slice(&inode::DEAD.to_le_bytes());
                slot[CUR..CUR + 8].copy_from_slice(&(u64::from(last) << 32).to_le_bytes());
            }
        }
        bytes
    }

    /// Gives the metablock these bytes.
    pub fn replace(&mut self, id: MetaId, bytes: Page) {
        self.changed.insert(id.0, Changed::Bytes(Rc::new(bytes)));
    }

    /// Ends the life of a metablock.
    pub fn remove(&mut self, id: MetaId, generation: u32) {
        self.changed.insert(id.0, Changed::Dead(generation));
    }

    /// How many metablocks the log has changed.
    pub fn changes(&self) -> usize {
        self.changed.len()
    }

    /// The indices of the metablocks of `space` that are alive after the log, ascending.
    pub fn live(&self, space: Space) -> Vec<u64> {
        let range = MetaId::new(space, 0).0..=MetaId::new(space, u64::MAX).0;
        let dead = |index: u64| {
            let changed = self.changed.get(&MetaId::new(space, index).0);
            matches!(changed, Some(Changed::Dead(_)))
        };
        let known = |index: u64| {
            let row = self
                .row(space, index)
                .map(|at| self.rows[space as usize][at].entry.state);
            row == Some(map::LIVE)
        };
        let live = self.rows[space as usize]
            .iter()
            .filter(|row| row.entry.state == map::LIVE);
        let mut indices: Vec<u64> = live.map(|row| row.index).filter(|index| !dead(*index)).collect();
        let rows = indices.len();
        let born = self
            .changed
            .range(range)
            .filter(|(_, changed)| matches!(changed, Changed::Bytes(_)));
        indices.extend(born.map(|(id, _)| MetaId(*id).index()).filter(|index| !known(*index)));
        if indices.len() > rows {
            indices.sort_unstable();
        }
        indices
    }

    /// Metablocks that are not as the checkpoint has them, with their bytes.
    pub fn changed_bytes(&self) -> Vec<(u64, Rc<Page>)> {
        let bytes = |(id, changed): (&u64, &Changed)| match changed {
            Changed::Bytes(bytes) => Some((*id, bytes.clone())),
            _ => None,
        };
        self.changed.iter().filter_map(bytes).collect()
    }

    /// Those that died since, with the generation of their last life.
    pub fn changed_dead(&self) -> Vec<(u64, u32)> {
        let dead = |(id, changed): (&u64, &Changed)| match changed {
            Changed::Dead(generation) => Some((*id, *generation)),
            _ => None,
        };
        self.changed.iter().filter_map(dead).collect()
    }

    /// The generation of the last life of a metablock, as far as it is known; 0 if it has had none.
    pub fn last_generation(&self, id: MetaId) -> u32 {
        match self.changed.get(&id.0) {
            Some(Changed::Bytes(bytes)) => return header(bytes).generation.get(),
            Some(Changed::Dead(generation)) => return *generation,
            _ => {}
        }
        let row = id.space().and_then(|space| {
            let at = self.row(space, id.index())?;
            self.rows[space as usize].get(at)
        });
        row.map_or(0, |row| row.entry.generation.get())
    }

    /// An index of NODES that no node has ever had, as far as is known.
    pub fn next_node(&self) -> u64 {
        let range = MetaId::new(Space::Nodes, 0).0..=MetaId::new(Space::Nodes, u64::MAX).0;
        let row = self.rows[Space::Nodes as usize].last().map(|row| row.index);
        let changed = self.changed.range(range).next_back().map(|(id, _)| MetaId(*id).index());
        row.max(changed).map_or(0, |last| last + 1)
    }

    /// Whether the checkpoint has one copy of it where there should be two.
    pub fn is_single(&self, id: MetaId) -> bool {
        let row = id.space().and_then(|space| {
            let at = self.row(space, id.index())?;
            self.rows[space as usize].get(at)
        });
        row.is_some_and(|row| row.entry.second.get() == 0) && self.sb.meta_copies.get() == 2
    }

    /// Reads the pages of a live map entry: the first good copy whose header is what the entry says.
    pub fn fetch(&mut self, id: MetaId, entry: &MapEntry) -> Option<Rc<Page>> {
        let (first, second) = (entry.first.get(), entry.second.get());
        let mut bytes = Rc::new([0; PAGE]);
        let good = Rc::get_mut(&mut bytes).is_some_and(|bytes| self.read_good(first, entry, bytes));
        let mut other = [0; PAGE];
        match (good, second) {
            (true, 0) => {}
            (true, _) => {
                if self.image.read(second, &mut other).is_err() || other != *bytes {
                    self.sink.push(Finding::MetaCopy {
                        id: id.into(),
                        page: second,
                    });
                }
            }
            (false, second) if second != 0 && self.read_good(second, entry, &mut other) => {
                self.sink.push(Finding::MetaCopy {
                    id: id.into(),
                    page: first,
                });
                bytes = Rc::new(other);
            }
            // S-4.8
            _ if entry.is_lost() => {
                self.sink.push(Finding::MetaLost { id: id.into() });
                return None;
            }
            _ => {
                self.sink.push(Finding::Metablock {
                    id: id.into(),
                    page: first,
                });
                return None;
            }
        }
        self.check_header(id, entry, &bytes).then_some(bytes)
    }

    fn read_good(&self, page: u64, entry: &MapEntry, bytes: &mut Page) -> bool {
        self.image.read(page, bytes).is_ok() && crc64::full(bytes) == entry.crc.get()
    }

    /// S-3.2: the metablock is the one that the map means. False if it is another one.
    fn check_header(&mut self, id: MetaId, entry: &MapEntry, bytes: &Page) -> bool {
        let Ok((header, _)) = Header::read_from_prefix(bytes) else {
            return false;
        };
        let owned = (Kind::DirLeaf as u8..=Kind::Xattr as u8).contains(&header.kind);
        let rules = [
            (header.magic.get() == MAGIC, "magic"),
            (header.kind == entry.kind, "kind"),
            (header.id.get() == id.0, "id"),
            (header.generation == entry.generation, "generation"),
            (header.pool.get() == self.tag(), "pool id"),
        ];
        let soft = [
            (header.reserved.get() == 0, "reserved field"),
            (owned != (header.owner.get() == 0), "owner"),
            (
                owned || header.level == id.as_map().map_or(0, |(_, level, _)| level),
                "level",
            ),
        ];
        let wrong = rules.iter().find(|(holds, _)| !holds);
        for (_, field) in wrong
            .into_iter()
            .chain(soft.iter().filter(|(holds, _)| wrong.is_none() && !holds))
        {
            let page = entry.first.get();
            self.sink.push(Finding::Header {
                id: id.into(),
                page,
                field,
            });
        }
        wrong.is_none()
    }

    /// Reads and judges every live metablock of the checkpoint that nothing has asked for.
    pub fn fetch_rest(&mut self) {
        for space in Space::ALL {
            for at in 0..self.rows[space as usize].len() {
                let row = self.rows[space as usize][at];
                if row.entry.state == map::LIVE && !row.seen {
                    self.rows[space as usize][at].seen = true;
                    self.fetch(MetaId::new(space, row.index), &row.entry);
                }
            }
        }
    }
}

/// The header of a metablock.
pub(crate) fn header(bytes: &Page) -> Header {
    // Any 32 bytes are a header: the fallback, which is never a valid one, is not reached.
    let none = Header::new(0, MetaId(0), Kind::Map, 0, 0, 0);
    Header::read_from_prefix(bytes).map_or(none, |(header, _)| header)
}
