//! What can be read of a pool that is damaged: every inode, the entries of a directory that has lost nodes, the pages of a
//! file beside those that are gone. Nothing here fails; what is missing is said beside what is there.

use super::{DirEntry, View};
use crate::dir;
use crate::inode::{self, direct, pending};
use crate::pool::{Load, header};
use crate::{Page, age, index};
use keepfs_codes::crc32c;
use keepfs_format::blockmap::{
    Child, FANOUT, FILE_SIZE_MAX, HEIGHT_MAX, PageEntry, UNWRITTEN, WRITTEN, coverage, entry_offset,
};
use keepfs_format::inode::{BODY_INLINE, BODY_TREE, DIR, Inode, LIVE, PER_BLOCK};
use keepfs_format::rules::is_name;
use keepfs_format::{FromBytes, Kind, MetaId, PAGE, Space};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Entries of a directory as far as they can be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Those found, by cookie; each name once.
    pub entries: Vec<DirEntry>,
    /// No node was missing and no entry malformed.
    pub is_whole: bool,
}

/// A part of a file that is no hole.
#[derive(Debug)]
pub enum Part<'b> {
    /// The page, as it was written.
    Data(&'b [u8; PAGE]),
    /// So many pages from here on are lost or cannot be read; what of them were holes is not known.
    Bad(u64),
}

/// What a file or symlink consists of, wherever that lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Its inode's metablock, the nodes of its block map and its attributes.
    pub metablocks: Vec<MetaId>,
    /// The pages of its data.
    pub pages: Vec<u64>,
}

/// The directory leaves that each inode owns, whatever leads to them.
pub(crate) type Leaves = BTreeMap<u64, Vec<MetaId>>;

impl View<'_> {
    /// The numbers of all live inodes that can be read, ascending, and how many metablocks of inodes cannot.
    pub fn inodes(&mut self) -> (Vec<u64>, u64) {
        let (mut numbers, mut bad) = (Vec::new(), self.pool.holes.count(Space::Inodes));
        for block in self.pool.live(Space::Inodes) {
            let bytes = match self.pool.load(MetaId::new(Space::Inodes, block)) {
                Load::Live(bytes) => bytes,
                Load::Gone(_) => continue,
                Load::Bad => {
                    bad += 1;
                    continue;
                }
            };
            let first = block.saturating_mul(PER_BLOCK);
            let slots = (first..first.saturating_add(PER_BLOCK)).filter(|ino| *ino != 0);
            numbers.extend(slots.filter(|ino| inode::at(&bytes, *ino).is_some_and(|i| i.state.get() == LIVE)));
        }
        (numbers, bad)
    }

    /// The inode if it is alive and can be read.
    pub fn readable(&mut self, ino: u64) -> Option<Inode> {
        self.inode(ino).ok()
    }

    /// Whether a newer version of the inode, or of one of its nodes, is known to be lost (S-21.20).
    pub fn is_older(&mut self, ino: u64) -> bool {
        self.aged.contains(&ino) || age::is_old(&self.pool, ino) || self.is_short(ino)
    }

    /// Whether nothing proves that the inode is the newest version.
    pub fn is_unproved(&self, ino: u64) -> bool {
        let block = keepfs_format::inode::block_of(ino);
        self.pool.age.unproved.contains(&block.0)
    }

    fn is_short(&mut self, ino: u64) -> bool {
        let inode = self.readable(ino);
        inode.is_some_and(|inode| age::is_short(&mut self.pool, ino, &inode))
    }

    /// Numbers of directories that are known by their leaves alone, because their inodes cannot be read.
    pub fn headless(&mut self) -> Vec<u64> {
        let owners: Vec<u64> = self.leaves().keys().copied().collect();
        let is_bad = |ino: &u64| {
            matches!(
                self.pool.load(keepfs_format::inode::block_of(*ino)),
                Load::Bad | Load::Gone(_)
            )
        };
        owners.into_iter().filter(is_bad).collect()
    }

    /// The entries of directory `ino`, from its root node on; where a node is missing, from all leaves that name it as their
    /// owner.
    pub fn entries(&mut self, ino: u64) -> Listing {
        let root = self.readable(ino).map(|inode| inode.root.get());
        let mut found = Found {
            is_whole: root.is_some(),
            ..Found::default()
        };
        let (mut seen, mut nodes) = (HashSet::new(), Vec::from_iter(root.filter(|root| *root != 0)));
        while let Some(node) = nodes.pop() {
            if !seen.insert(node) {
                continue;
            }
            match self.directory_node(MetaId(node), ino) {
                Some(bytes) if index::is_index(header(&bytes).kind) => nodes.extend(index::children(&bytes)),
                Some(bytes) => found.leaf(&bytes),
                None => found.is_whole = false,
            }
        }
        if !found.is_whole {
            let owned = self.leaves().get(&ino).cloned().unwrap_or_default();
            for id in owned.into_iter().filter(|id| !seen.contains(&id.0)) {
                if let Some(bytes) = self.directory_node(id, ino) {
                    found.leaf(&bytes);
                }
            }
        }
        let mut entries: Vec<DirEntry> = found.entries.into_values().collect();
        entries.sort_by_key(|entry| entry.cookie);
        Listing {
            entries,
            is_whole: found.is_whole,
        }
    }

    fn directory_node(&mut self, id: MetaId, owner: u64) -> Option<Page> {
        let bytes = self.metablock(id).ok().flatten()?;
        let head = header(&bytes);
        let kind = [Kind::DirLeaf as u8, Kind::DirIndex as u8].contains(&head.kind);
        (kind && id.space() == Some(Space::Nodes) && head.owner.get() == owner).then_some(bytes)
    }

    /// All directory leaves, by owner. Reads every node, once.
    fn leaves(&mut self) -> &Leaves {
        if self.leaves.is_none() {
            self.leaves = Some(leaves(&mut self.pool));
        }
        self.leaves.get_or_insert_default()
    }

    /// What must be there for all of file `ino` to be read, names aside. Of a pool that is whole.
    pub fn needs(&mut self, ino: u64) -> Needs {
        let mut needs = Needs::default();
        let Some(inode) = self.readable(ino) else {
            return needs;
        };
        needs.metablocks.push(keepfs_format::inode::block_of(ino));
        let held = |entry: &PageEntry| matches!(entry.flags(), WRITTEN | UNWRITTEN);
        let direct = direct(&inode).into_iter().flatten();
        needs.pages.extend(direct.filter(held).map(|entry| entry.page()));
        let mut left: Vec<MetaId> = self.owned(ino);
        needs.metablocks.append(&mut left.clone());
        while let Some(id) = left.pop() {
            let Ok(Some(bytes)) = self.metablock(id) else { continue };
            let head = header(&bytes);
            if head.kind == Kind::BlockMap as u8 && head.level == 1 {
                let entry = |slot| PageEntry::read_from_prefix(&bytes[entry_offset(slot)..]).ok();
                let entries = (0..FANOUT).filter_map(entry).map(|(entry, _)| entry);
                needs.pages.extend(entries.filter(held).map(|entry| entry.page()));
            }
        }
        needs
    }

    /// The live nodes that name `ino` as their owner.
    fn owned(&mut self, ino: u64) -> Vec<MetaId> {
        let live = self.pool.live(Space::Nodes).into_iter();
        let ids: Vec<MetaId> = live.map(|index| MetaId::new(Space::Nodes, index)).collect();
        let is_owned = |id: &MetaId| match self.pool.load(*id) {
            Load::Live(bytes) => header(&bytes).owner.get() == ino,
            _ => false,
        };
        ids.into_iter().filter(is_owned).collect()
    }

    /// Calls `see` for each page of a file or symlink that is no hole, with its index: not always in order.
    pub fn each_page(&mut self, ino: u64, see: &mut dyn FnMut(u64, Part<'_>)) {
        let Some(inode) = self.readable(ino) else {
            return;
        };
        let (pages, image) = (self.pool.pages(), self.pool.image);
        let staged = self.stage.pages.range((ino, 0)..=(ino, u64::MAX));
        let staged: BTreeSet<u64> = staged.map(|((_, index), _)| *index).collect();
        for index in &staged {
            let content = self.stage.pages.get(&(ino, *index)).filter(|staged| !staged.lost);
            let content = content.and_then(|s| s.content(|page, buf| page < pages && image.read(page, buf).is_ok()));
            match content {
                Some(bytes) => see(*index, Part::Data(&bytes)),
                None => see(*index, Part::Bad(1)),
            }
        }
        // What stands in the block map there is older.
        let drifted = self.drifted.range((ino, 0)..=(ino, u64::MAX)).map(|(_, index)| *index);
        let drifted: Vec<u64> = drifted
            .filter(|index| *index < inode.size.get().div_ceil(PAGE as u64))
            .collect();
        let mut staged = staged;
        for index in drifted {
            see(index, Part::Bad(1));
            staged.insert(index);
        }
        if inode.body == BODY_INLINE && !staged.contains(&0) {
            let mut bytes = [0; PAGE];
            bytes[..inode.body_area.len()].copy_from_slice(&inode.body_area);
            see(0, Part::Data(&bytes));
        }
        let mut file = File {
            ino,
            end: inode.size.get().min(FILE_SIZE_MAX).div_ceil(PAGE as u64),
            hole: pending(&inode),
            staged,
            is_short: self.is_short(ino),
            seen: HashSet::new(),
            see,
        };
        let lacking = age::lacking(&self.pool, ino, &inode);
        let entries = direct(&inode).or((!lacking.is_empty()).then_some([PageEntry::HOLE; 4]));
        for (entry, index) in entries.into_iter().flatten().zip(0..) {
            if lacking.contains(&index) && entry.is_hole() && file.is_read(index) {
                (file.see)(index, Part::Bad(1));
            }
            self.page_of(&mut file, index, &entry);
        }
        if inode.body == BODY_TREE {
            self.tree(&mut file, inode.root.get(), inode.height.min(HEIGHT_MAX), 0);
        }
    }

    /// The pages below a node of `level`. Levels fall with each step, so the depth is bounded.
    fn tree(&mut self, file: &mut File<'_>, id: u64, level: u8, base: u64) {
        let covered = coverage(level.saturating_add(1));
        let is_first = file.seen.insert(id);
        let bytes = match self.node(MetaId(id), Kind::BlockMap, file.ino) {
            Ok(bytes) if is_first && level > 0 && header(&bytes).level == level => bytes,
            _ => {
                let count = covered.min(file.end.saturating_sub(base));
                if count > 0 {
                    (file.see)(base, Part::Bad(count));
                }
                return;
            }
        };
        let is_doubtful = age::is_doubtful(&self.pool, id, file.is_short);
        for slot in 0..FANOUT {
            let at = entry_offset(slot);
            let base = base.saturating_add(slot.saturating_mul(coverage(level)));
            if level == 1 {
                let entry = PageEntry::read_from_prefix(&bytes[at..]).map_or(PageEntry::HOLE, |(e, _)| e);
                if is_doubtful && entry.is_hole() && file.is_read(base) {
                    (file.see)(base, Part::Bad(1));
                }
                self.page_of(file, base, &entry);
                continue;
            }
            let child = Child::read_from_prefix(&bytes[at..]).map_or_else(|_| Child::default(), |(child, _)| child);
            if child.id.get() != 0 {
                self.tree(file, child.id.get(), level - 1, base);
            } else if is_doubtful && base < file.end {
                (file.see)(base, Part::Bad(coverage(level).min(file.end - base)));
            }
        }
    }

    fn page_of(&mut self, file: &mut File<'_>, index: u64, entry: &PageEntry) {
        if entry.is_hole() || !file.is_read(index) || entry.flags() == UNWRITTEN {
            return;
        }
        let mut bytes = [0; PAGE];
        let is_good = entry.flags() == WRITTEN
            && entry.page() < self.pool.pages()
            && self.pool.image.read(entry.page(), &mut bytes).is_ok()
            && crc32c::of(&bytes) == entry.crc.get();
        (file.see)(index, if is_good { Part::Data(&bytes) } else { Part::Bad(1) });
    }
}

/// A file under way.
struct File<'s> {
    ino: u64,
    /// Pages that its size covers.
    end: u64,
    /// A hole whatever the entries say (S-5.8).
    hole: (u64, u64),
    /// Pages that the log has, which the entries do not concern (S-8.8).
    staged: BTreeSet<u64>,
    /// Some node is older than the inode.
    is_short: bool,
    seen: HashSet<u64>,
    see: &'s mut dyn FnMut(u64, Part<'_>),
}

impl File<'_> {
    /// Whether the entry of this page says what the page is.
    fn is_read(&self, index: u64) -> bool {
        index < self.end && !(self.hole.0..self.hole.1).contains(&index) && !self.staged.contains(&index)
    }
}

/// Entries of a directory, by name.
#[derive(Default)]
struct Found {
    entries: BTreeMap<Vec<u8>, DirEntry>,
    is_whole: bool,
}

impl Found {
    fn leaf(&mut self, bytes: &Page) {
        for entry in dir::entries(bytes) {
            if is_name(&entry.3) && entry.0 != 0 {
                let entry = DirEntry::new(entry);
                self.is_whole &= self.entries.insert(entry.raw.clone(), entry).is_none();
            } else {
                self.is_whole = false;
            }
        }
    }
}

/// All directory leaves that can be read, by owner.
pub(crate) fn leaves(pool: &mut crate::pool::Pool<'_>) -> Leaves {
    let mut leaves = Leaves::new();
    for index in pool.live(Space::Nodes) {
        let id = MetaId::new(Space::Nodes, index);
        if let Load::Live(bytes) = pool.load(id) {
            let head = header(&bytes);
            if head.kind == Kind::DirLeaf as u8 {
                leaves.entry(head.owner.get()).or_default().push(id);
            }
        }
    }
    leaves
}

/// mode >> 12 of a directory, for whoever looks at entries.
pub const DIRECTORY: u8 = DIR;
