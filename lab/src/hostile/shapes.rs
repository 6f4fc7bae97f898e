//! Structural mutations: nodes that stand where they must not, each with its own checksums right. A child that is its
//! sibling, its parent or itself, one child in all places, wrong levels, graphs that have more ways than any pool has
//! nodes, rings of parents, holes that nobody makes, and records of the log in other orders.
//!
//! A shape is a name and a number that says which of its variants: every number is one of them, counted around.

mod log;

use super::anatomy::{Anatomy, Edit, Place};
use keepfs_format::blockmap::{Child, FANOUT, FILE_SIZE_MAX, HEIGHT_MAX, PageEntry, entry_offset};
use keepfs_format::dir::{CHILDREN, FIRST, LEVEL_MAX, LIVE as ENTRY_LIVE, LeafHead, child_offset, entry_size};
use keepfs_format::inode::{self, BODY_TREE, Inode, LIVE, PER_BLOCK, XATTR_CHAIN};
use keepfs_format::metablock::HEADER;
use keepfs_format::{FromBytes, Header, IntoBytes, Kind, MetaId, PAGE, Space, bitmap};

/// How a shape is made.
type Make = fn(&mut Build<'_>, usize) -> Option<()>;

/// The shapes: name, number of variants, and whether the offline check must find it in a pool without a log.
const SHAPES: &[(&str, usize, bool, Make)] = &[
    ("directory: graph of indexes", 24, true, dir_graph),
    ("directory: two indexes take turns", 12, true, dir_turns),
    ("directory: one child in all slots", 4, true, dir_one_child),
    ("directory: child is its sibling", 12, true, dir_sibling),
    ("directory: child is itself or its parent", 12, true, dir_ring),
    ("directory: wrong level", 24, true, dir_level),
    ("directory: leaf of another one", 4, true, dir_foreign),
    ("directory: ring of parents", 8, true, dir_parents),
    ("map: graph of nodes", 60, true, map_graph),
    ("map: one child in all entries", 4, true, map_one_child),
    ("map: child is its sibling", 8, true, map_sibling),
    ("map: child is itself or above it", 12, true, map_ring),
    ("map: wrong level", 24, true, map_level),
    ("map: pending hole", 60, true, map_hole),
    ("attributes: ring or shared chain", 6, true, attributes),
    ("log: two records change places", 80, false, log::swapped),
    ("log: a record comes twice", 80, false, log::twice),
    ("log: a group is reversed", 8, false, log::reversed),
    ("log: pages change payloads", 8, false, log::pages),
    ("log: another metablock", 80, false, log::another),
];

/// Names of the shapes with the number of variants of each.
pub fn all() -> impl Iterator<Item = (&'static str, usize)> {
    SHAPES.iter().map(|(name, count, ..)| (*name, *count))
}

/// Whether the offline check must find something in a pool without a log.
pub fn must_be_found(name: &str) -> bool {
    SHAPES.iter().any(|(other, _, found, _)| *other == name && *found)
}

/// What makes the shape. Errors: there is none of this name, or the base has not what it takes.
pub fn edits(anatomy: &Anatomy, name: &str, which: usize) -> Result<Vec<Edit>, String> {
    let shape = SHAPES.iter().find(|(other, ..)| *other == name);
    let (_, count, _, make) = shape.ok_or_else(|| format!("{name}: no such shape"))?;
    let mut build = Build {
        anatomy,
        edits: Vec::new(),
    };
    make(&mut build, which % count).ok_or_else(|| format!("{name}: the base has not what it takes"))?;
    Ok(build.edits)
}

/// An image being made.
struct Build<'a> {
    anatomy: &'a Anatomy,
    edits: Vec<Edit>,
}

/// The numbers of a variant, one digit after the other.
fn digit(which: &mut usize, base: usize) -> usize {
    let digit = *which % base;
    *which /= base;
    digit
}

impl Build<'_> {
    fn put(&mut self, id: MetaId, offset: usize, bytes: &[u8]) {
        self.edits.push(Edit {
            place: Place::Block(id),
            offset,
            bytes: bytes.to_vec(),
        });
    }

    fn header(&self, id: MetaId) -> Option<Header> {
        Header::read_from_prefix(&self.anatomy.bytes(id)[..])
            .ok()
            .map(|(header, _)| header)
    }

    /// Live inodes with their numbers.
    fn inodes(&self) -> Vec<(u64, Inode)> {
        let blocks = self
            .anatomy
            .blocks
            .keys()
            .filter(|id| id.space() == Some(Space::Inodes));
        let numbers = blocks.flat_map(|id| (0..PER_BLOCK).map(move |slot| id.index() * PER_BLOCK + slot));
        let read = |ino: u64| {
            let bytes = self.anatomy.bytes(inode::block_of(ino));
            Inode::read_from_prefix(&bytes[inode::offset_of(ino)..])
                .ok()
                .map(|(inode, _)| (ino, inode))
        };
        numbers
            .filter_map(read)
            .filter(|(_, inode)| inode.state.get() == LIVE)
            .collect()
    }

    fn put_inode(&mut self, ino: u64, inode: &Inode) {
        self.put(inode::block_of(ino), inode::offset_of(ino), inode.as_bytes());
    }

    /// The directory under an index.
    fn directory(&self) -> Option<(u64, Inode)> {
        let is_index = |inode: &Inode| {
            let header = self.header(MetaId(inode.root.get()));
            header.is_some_and(|header| header.kind == Kind::DirIndex as u8)
        };
        let mut found = self.inodes().into_iter();
        found.find(|(_, inode)| inode.mode.get() >> 12 == 4 && is_index(inode))
    }

    /// The file with the highest tree.
    fn file(&self) -> Option<(u64, Inode)> {
        let trees = self.inodes().into_iter().filter(|(_, inode)| inode.body == BODY_TREE);
        trees.max_by_key(|(_, inode)| inode.height)
    }

    /// Nodes that neither the root directory nor inode `but` needs.
    fn donors(&self, but: u64) -> Vec<MetaId> {
        let nodes = self.anatomy.blocks.keys().filter(|id| id.space() == Some(Space::Nodes));
        let spare = |id: &&MetaId| self.header(**id).is_some_and(|h| ![1, but].contains(&h.owner.get()));
        nodes.filter(spare).copied().collect()
    }

    /// Makes a node another one, empty.
    fn make(&mut self, id: MetaId, kind: Kind, level: u8, owner: u64) -> Option<()> {
        let mut header = self.header(id)?;
        (header.kind, header.level, header.owner) = (kind as u8, level, owner.into());
        self.put(id, HEADER, &[0; PAGE - HEADER]);
        self.put(id, 0, header.as_bytes());
        if let Some((above, at)) = self.anatomy.entry_above(id) {
            self.put(above, at + 28, &[kind as u8]);
        }
        if kind == Kind::DirLeaf {
            let head = LeafHead {
                tail: (FIRST as u16).into(),
                ..LeafHead::default()
            };
            self.put(id, HEADER, head.as_bytes());
        }
        Some(())
    }

    fn slots(&mut self, index: MetaId, mut child: impl FnMut(usize) -> MetaId) {
        let bytes: Vec<u8> = (0..CHILDREN).flat_map(|slot| child(slot).0.to_le_bytes()).collect();
        self.put(index, child_offset(0), &bytes);
    }

    fn children(&self, index: MetaId) -> Vec<MetaId> {
        let bytes = self.anatomy.bytes(index);
        let slot = |slot: usize| {
            bytes
                .get(child_offset(slot)..child_offset(slot) + 8)
                .and_then(|b| b.try_into().ok())
        };
        (0..CHILDREN)
            .filter_map(slot)
            .map(|b| MetaId(u64::from_le_bytes(b)))
            .collect()
    }

    /// What names a node of a block map.
    fn child(&self, id: MetaId) -> Option<Child> {
        Some(Child {
            id: id.0.into(),
            generation: self.header(id)?.generation,
            reserved: 0.into(),
        })
    }

    fn entries(&mut self, node: MetaId, mut entry: impl FnMut(u64) -> [u8; 16]) {
        let bytes: Vec<u8> = (0..FANOUT).flat_map(&mut entry).collect();
        self.put(node, entry_offset(0), &bytes);
    }

    /// The children of a node of a block map: entry and node.
    fn named(&self, node: MetaId) -> Vec<(u64, MetaId)> {
        let bytes = self.anatomy.bytes(node);
        let child = |slot: u64| {
            Child::read_from_prefix(&bytes[entry_offset(slot)..])
                .ok()
                .map(|(c, _)| c.id.get())
        };
        let all = (0..FANOUT).filter_map(|slot| Some((slot, MetaId(child(slot)?))));
        all.filter(|(_, id)| id.0 != 0).collect()
    }

    /// Nodes of a tree with their levels, the root first.
    fn tree(&self, inode: &Inode) -> Vec<(u8, MetaId)> {
        let mut nodes = vec![(inode.height, MetaId(inode.root.get()))];
        let mut at = 0;
        while let Some((level, id)) = nodes.get(at).copied() {
            if level > 1 {
                nodes.extend(self.named(id).into_iter().map(|(_, below)| (level - 1, below)));
            }
            at += 1;
        }
        nodes
    }

    /// An entry of a page that has data.
    fn written(&self) -> Option<PageEntry> {
        let (_, inode) = self.file()?;
        let (_, leaf) = self.tree(&inode).into_iter().find(|(level, _)| *level == 1)?;
        let bytes = self.anatomy.bytes(leaf);
        let entries = (0..FANOUT).filter_map(|slot| PageEntry::read_from_prefix(&bytes[entry_offset(slot)..]).ok());
        entries.map(|(entry, _)| entry).find(|entry| !entry.is_hole())
    }
}

/// Indexes whose slots all name the next one, down to a leaf.
fn dir_graph(build: &mut Build<'_>, mut which: usize) -> Option<()> {
    let levels = 2 + digit(&mut which, 6);
    let (depth, full) = ([8, 0][digit(&mut which, 2)], digit(&mut which, 2) == 1);
    let (ino, mut dir) = build.directory()?;
    let nodes = build.donors(ino);
    let last = *nodes.get(levels)?;
    let leaf = *build.children(MetaId(dir.root.get())).first()?;
    let entries = build.anatomy.bytes(leaf);
    for level in 0..levels {
        build.make(nodes[level], Kind::DirIndex, level as u8, ino)?;
        build.slots(nodes[level], |_| nodes[level + 1]);
    }
    build.make(last, Kind::DirLeaf, depth, ino)?;
    if full {
        build.put(last, HEADER, &entries[HEADER..]);
    }
    dir.root = nodes[0].0.into();
    build.put_inode(ino, &dir);
    Some(())
}

/// At each level two indexes, or leaves, that stand in every other slot.
fn dir_turns(build: &mut Build<'_>, mut which: usize) -> Option<()> {
    let levels = 1 + digit(&mut which, 4);
    let depth = [8, 7, 0][digit(&mut which, 3)];
    let (ino, mut dir) = build.directory()?;
    let nodes = build.donors(ino);
    nodes.get(2 * levels)?;
    let pair = |level: usize, slot: usize| nodes[if level == 0 { 0 } else { 2 * level - 1 + slot % 2 }];
    for level in 0..levels {
        for slot in 0..(1 + usize::from(level > 0)) {
            build.make(pair(level, slot), Kind::DirIndex, level as u8, ino)?;
            build.slots(pair(level, slot), |slot| pair(level + 1, slot));
        }
    }
    for slot in 0..2 {
        build.make(pair(levels, slot), Kind::DirLeaf, depth, ino)?;
    }
    dir.root = nodes[0].0.into();
    build.put_inode(ino, &dir);
    Some(())
}

/// The root's slots all name one of its children.
fn dir_one_child(build: &mut Build<'_>, which: usize) -> Option<()> {
    let (_, dir) = build.directory()?;
    let root = MetaId(dir.root.get());
    let mut children = build.children(root);
    children.dedup();
    let child = children[which % children.len()];
    build.slots(root, |_| child);
    Some(())
}

/// A child stands in its sibling's slots too: in all of them, in one, in every other.
fn dir_sibling(build: &mut Build<'_>, mut which: usize) -> Option<()> {
    let how = digit(&mut which, 3);
    let (_, dir) = build.directory()?;
    let root = MetaId(dir.root.get());
    let slots = build.children(root);
    let mut children = slots.clone();
    children.dedup();
    let (one, other) = (children[which % children.len()], children[(which + 1) % children.len()]);
    if one == other {
        return None;
    }
    let first = slots.iter().position(|child| *child == one)?;
    let is_taken = |slot: usize| match how {
        0 => true,
        1 => slot == first,
        _ => (slot - first).is_multiple_of(2),
    };
    build.slots(root, |slot| {
        if slots[slot] == one && is_taken(slot) {
            other
        } else {
            slots[slot]
        }
    });
    Some(())
}

/// Slots lead back: to the index itself, or to it from an index below.
fn dir_ring(build: &mut Build<'_>, mut which: usize) -> Option<()> {
    let (below, all) = (digit(&mut which, 3), digit(&mut which, 2) == 1);
    let (ino, dir) = build.directory()?;
    let root = MetaId(dir.root.get());
    let slots = build.children(root);
    let nodes = build.donors(ino);
    // The first of so many indexes below the root, the last of which leads to the root.
    let to = if below == 0 { root } else { *nodes.first()? };
    for level in 0..below {
        build.make(*nodes.get(level)?, Kind::DirIndex, level as u8 + 1, ino)?;
        let next = if level + 1 == below {
            root
        } else {
            *nodes.get(level + 1)?
        };
        build.slots(nodes[level], |_| next);
    }
    build.slots(root, |slot| if all || slot == which { to } else { slots[slot] });
    Some(())
}

/// The header of the root, or of a leaf, tells another level.
fn dir_level(build: &mut Build<'_>, mut which: usize) -> Option<()> {
    let of_leaf = digit(&mut which, 2) == 1;
    let (_, dir) = build.directory()?;
    let root = MetaId(dir.root.get());
    let id = match of_leaf {
        true => *build.children(root).get(which * 20 % CHILDREN)?,
        false => root,
    };
    let mut header = build.header(id)?;
    let levels = [0, 1, 2, 3, 4, 5, LEVEL_MAX, LEVEL_MAX + 1, 8, 9, 128, 255];
    header.level = match levels[which % levels.len()] {
        level if level == header.level => 254,
        level => level,
    };
    build.put(id, 0, header.as_bytes());
    Some(())
}

/// A directory's root is another one's leaf, with its owner or as its own.
fn dir_foreign(build: &mut Build<'_>, mut which: usize) -> Option<()> {
    let (ino, mut dir) = build.directory()?;
    let owned = digit(&mut which, 2) == 1;
    let donors = build.donors(ino).into_iter();
    let mut leaves = donors.filter(|id| build.header(*id).is_some_and(|h| h.kind == Kind::DirLeaf as u8));
    let leaf = leaves.nth(which)?;
    drop(leaves);
    let mut header = build.header(leaf)?;
    if owned {
        header.owner = ino.into();
        build.put(leaf, 0, header.as_bytes());
    }
    dir.root = leaf.0.into();
    build.put_inode(ino, &dir);
    Some(())
}

/// Directories that lie in themselves: by what they say of their parents, or by their entries.
fn dir_parents(build: &mut Build<'_>, which: usize) -> Option<()> {
    let all = build.inodes();
    let small: Vec<&(u64, Inode)> = all
        .iter()
        .filter(|(ino, i)| *ino != 1 && i.mode.get() >> 12 == 4)
        .collect();
    let of = |parent: u64| {
        small
            .iter()
            .find(|(_, inode)| inode.parent.get() == parent && inode.root.get() != 0)
    };
    let top = small.iter().find(|(ino, _)| of(*ino).is_some())?;
    let below = of(top.0)?;
    let mut lie = |ino: u64, mut inode: Inode, parent: u64| {
        inode.parent = parent.into();
        build.put_inode(ino, &inode);
    };
    match which {
        0 => lie(top.0, top.1, top.0),
        1 => lie(top.0, top.1, below.0),
        2 => lie(below.0, below.1, below.0),
        3 => {
            lie(top.0, top.1, below.0);
            lie(below.0, below.1, top.0);
        }
        _ => {
            // The first directory, or else the first entry, in the lower one is the upper one, itself, the root, or no number.
            let leaf = MetaId(below.1.root.get());
            let bytes = build.anatomy.bytes(leaf);
            let tail = usize::from(u16::from_le_bytes([bytes[HEADER], bytes[HEADER + 1]]));
            let (mut at, mut found) = (FIRST, None);
            while at < tail.min(PAGE - 24) {
                if bytes[at + 22] == ENTRY_LIVE && (found.is_none() || bytes[at + 20] == 4) {
                    found = Some(at);
                }
                at += entry_size(usize::from(bytes[at + 21]));
            }
            let at = found?;
            let ino = [top.0, below.0, 1, u64::MAX >> 8][which - 4];
            build.put(leaf, at + 8, &ino.to_le_bytes());
            build.put(leaf, at + 20, &[4]);
        }
    }
    Some(())
}

/// What the lowest node of a graph holds.
fn fill(build: &mut Build<'_>, node: MetaId, how: usize) -> Option<()> {
    let entry: [u8; 16] = build.written()?.as_bytes().try_into().ok()?;
    build.entries(node, |slot| {
        let is_set = match how {
            0 => false,
            1 => true,
            2 => slot % 2 == 1,
            3 => slot + 1 == FANOUT,
            _ => slot == 0,
        };
        if is_set { entry } else { [0; 16] }
    });
    Some(())
}

/// Nodes whose entries, all or every other one, name the next one, down to one of page entries.
fn map_graph(build: &mut Build<'_>, mut which: usize) -> Option<()> {
    let height = 2 + digit(&mut which, usize::from(HEIGHT_MAX) - 1);
    let (how, turns) = (digit(&mut which, 5), digit(&mut which, 2) == 1);
    let (ino, mut file) = build.file()?;
    let nodes = build.donors(ino);
    nodes.get(height - 1)?;
    for (i, node) in nodes[..height].iter().enumerate() {
        build.make(*node, Kind::BlockMap, (height - i) as u8, ino)?;
        if i + 1 < height {
            let child: [u8; 16] = build.child(nodes[i + 1])?.as_bytes().try_into().ok()?;
            build.entries(*node, |slot| if turns && slot % 2 == 1 { [0; 16] } else { child });
        }
    }
    fill(build, nodes[height - 1], how)?;
    file.height = height as u8;
    file.root = nodes[0].0.into();
    (file.size, file.pages) = (FILE_SIZE_MAX.into(), (1 << 50).into());
    build.put_inode(ino, &file);
    Some(())
}

/// All entries of a node name one child.
fn map_one_child(build: &mut Build<'_>, which: usize) -> Option<()> {
    let (_, file) = build.file()?;
    let inner: Vec<MetaId> = build
        .tree(&file)
        .into_iter()
        .filter(|(level, _)| *level > 1)
        .map(|(_, id)| id)
        .collect();
    let node = inner[which % inner.len()];
    let (_, child) = *build.named(node).first()?;
    let child: [u8; 16] = build.child(child)?.as_bytes().try_into().ok()?;
    build.entries(node, |_| child);
    Some(())
}

/// A second entry names a child of the same level.
fn map_sibling(build: &mut Build<'_>, which: usize) -> Option<()> {
    let (_, file) = build.file()?;
    let tree = build.tree(&file);
    let inner: Vec<&(u8, MetaId)> = tree.iter().filter(|(level, _)| *level > 1).collect();
    let (level, node) = *inner[which % inner.len()];
    let below: Vec<MetaId> = tree
        .iter()
        .filter(|(l, _)| *l == level - 1)
        .map(|(_, id)| *id)
        .collect();
    let child = build.child(below[which / inner.len() % below.len()])?;
    let named = build.named(node);
    let slot = (0..FANOUT)
        .rev()
        .find(|slot| named.iter().all(|(other, _)| other != slot))?;
    build.put(node, entry_offset(slot), child.as_bytes());
    Some(())
}

/// An entry leads back: to its node, to the root, to what is above it.
fn map_ring(build: &mut Build<'_>, mut which: usize) -> Option<()> {
    let how = digit(&mut which, 3);
    let (_, file) = build.file()?;
    let tree = build.tree(&file);
    let inner: Vec<MetaId> = tree.iter().filter(|(level, _)| *level > 1).map(|(_, id)| *id).collect();
    let at = which % inner.len();
    let to = [inner[at], inner[0], inner[at.saturating_sub(1)]][how];
    let child = build.child(to)?;
    let (slot, _) = *build.named(inner[at]).first()?;
    build.put(inner[at], entry_offset(slot), child.as_bytes());
    Some(())
}

/// A node's header tells another level, or the inode another height.
fn map_level(build: &mut Build<'_>, mut which: usize) -> Option<()> {
    let how = digit(&mut which, 3);
    let (ino, mut file) = build.file()?;
    let tree = build.tree(&file);
    let levels = [0, 1, 2, 3, 4, 7, 8, 255];
    let level = levels[which % levels.len()];
    if how == 0 {
        file.height = if level == file.height { 5 } else { level };
        build.put_inode(ino, &file);
        return Some(());
    }
    let (_, id) = tree[if how == 1 { 0 } else { tree.len() - 1 }];
    let mut header = build.header(id)?;
    header.level = if level == header.level { 5 } else { level };
    build.put(id, 0, header.as_bytes());
    Some(())
}

/// A hole of all pages over a graph of nodes, or over the tree; half of them on the hidden list.
fn map_hole(build: &mut Build<'_>, mut which: usize) -> Option<()> {
    let (is_listed, is_graph) = (digit(&mut which, 2) == 1, digit(&mut which, 3) > 0);
    let (ino, mut file) = build.file()?;
    if is_graph {
        let heights = usize::from(HEIGHT_MAX) - 1;
        map_graph(build, heights - 1 + heights * which)?;
        file.root = build.donors(ino).first()?.0.into();
        file.height = HEIGHT_MAX;
    }
    (file.size, file.pages) = (FILE_SIZE_MAX.into(), (1 << 50).into());
    file.set_hole(Some(inode::Hole {
        from: 0.into(),
        to: inode::HOLE_END.into(),
    }));
    build.put_inode(ino, &file);
    if is_listed {
        let (id, offset, mask) = bitmap::bit(Space::Orphans, ino);
        build.anatomy.blocks.get(&id)?;
        let byte = build.anatomy.bytes(id)[offset] | mask;
        build.put(id, offset, &[byte]);
    }
    Some(())
}

/// A chain of attributes that leads to its begin, or to itself, or that another inode has.
fn attributes(build: &mut Build<'_>, mut which: usize) -> Option<()> {
    let how = digit(&mut which, 3);
    let all = build.inodes();
    let chained: Vec<&(u64, Inode)> = all
        .iter()
        .filter(|(_, inode)| inode.xattr.get() == XATTR_CHAIN)
        .collect();
    let (ino, one) = chained[which % chained.len()];
    let first = MetaId(one.xattrs.get());
    let second = u64::from_le_bytes(build.anatomy.bytes(first)[HEADER..HEADER + 8].try_into().ok()?);
    match how {
        0 => build.put(first, HEADER, &first.0.to_le_bytes()),
        1 if second != 0 => build.put(MetaId(second), HEADER, &first.0.to_le_bytes()),
        _ => {
            let (other, mut inode) = **chained.iter().find(|(other, _)| other != ino)?;
            inode.xattrs = one.xattrs;
            build.put_inode(other, &inode);
        }
    }
    Some(())
}
