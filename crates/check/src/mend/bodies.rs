//! Files whose block map or attributes have lost a part: what is gone is cut off, and its pages are lost ones (S-7.6, S-21.17), so that
//! nobody reads zeros where data was.

use super::Mender;
use crate::body::INDEX_END;
use crate::inode::{direct, pending};
use crate::{age, xattr};
use keepfs_format::blockmap::{Child, FANOUT, LOST, PageEntry, UNWRITTEN, WRITTEN, coverage, entry_offset};
use keepfs_format::inode::{BODY_DIRECT, BODY_NONE, BODY_TREE, DIR, FILE, Inode, SYMLINK, XATTR_CHAIN, block_of};
use keepfs_format::metablock::HEADER;
use keepfs_format::rules;
use keepfs_format::superblock::SLOTS;
use keepfs_format::xattr::{ChainHead, PAYLOAD, PAYLOAD_OFFSET, TOTAL_MAX};
use keepfs_format::{FromBytes, IntoBytes, Kind, MetaId, PAGE};
use std::collections::HashSet;

/// A file under way.
struct File {
    ino: u64,
    life: (u64, u64),
    /// Pages that its size covers.
    end: u64,
    /// Entries beyond that are being freed.
    is_orphan: bool,
    /// Nobody will read it.
    is_nameless: bool,
    /// Nodes that may be made to say what of it is lost.
    room: u64,
    is_cut: bool,
    /// Not what the entries say (S-5.8).
    hole: (u64, u64),
    /// Some node is older than the inode.
    is_short: bool,
    seen: HashSet<u64>,
    pages: u64,
    lost: u64,
    /// Of these, pages that an older node does not have.
    unknown: u64,
    /// The first and the last page that is lost.
    span: Option<(u64, u64)>,
}

impl Mender<'_> {
    /// Repairs the body and the attributes of `ino`.
    pub fn body(&mut self, ino: u64) {
        let Some(mut inode) = self.inode(ino) else { return };
        self.attributes(ino, &mut inode);
        let kind = (inode.mode.get() >> 12) as u8;
        if kind != FILE && kind != SYMLINK {
            if kind != DIR {
                self.store(ino, &inode);
            }
            return;
        }
        if rules::wrong_hole(&inode, kind).is_some() {
            inode.body_area.fill(0);
            self.act_on(ino, format!("the pending hole of inode {ino} is given up"));
        }
        let mut file = File {
            ino,
            life: (inode.born.get(), inode.cur.get()),
            end: inode.size.get().div_ceil(PAGE as u64),
            is_orphan: self.walk.orphans.has(ino) || pending(&inode) != (0, 0),
            is_nameless: self.is_nameless(ino),
            room: self.marks() / 2,
            is_cut: false,
            hole: pending(&inode),
            is_short: age::is_short(self.pool(), ino, &inode),
            seen: HashSet::new(),
            pages: 0,
            lost: 0,
            unknown: 0,
            span: None,
        };
        let lacking = age::lacking(self.pool(), ino, &inode);
        if inode.body == BODY_NONE && !lacking.is_empty() {
            inode.body = BODY_DIRECT;
        }
        if let Some(mut entries) = direct(&inode) {
            for (entry, index) in entries.iter_mut().zip(0..) {
                let is_doubtful = lacking.contains(&index) && !self.walk.stage.pages.contains_key(&(ino, index));
                *entry = match is_doubtful && entry.is_hole() && file.may_have(index) {
                    true => file.unknown_entry(index),
                    false => self.entry(&mut file, index, *entry),
                };
            }
            inode.body_area.copy_from_slice(entries.as_bytes());
            if entries.iter().all(|entry| *entry == PageEntry::HOLE) && inode.body == BODY_DIRECT {
                inode.body = BODY_NONE;
            }
        }
        if inode.body == BODY_TREE {
            match self.tree(&mut file, MetaId(inode.root.get()), None, inode.height, 0) {
                Some((root, _)) => inode.root = root.0.into(),
                None => {
                    (inode.root, inode.height, inode.body) = (0.into(), 0, BODY_NONE);
                    inode.body_area.fill(0);
                }
            }
        }
        if file.unknown > 0 {
            self.act_on(
                ino,
                format!(
                    "a part of inode {ino} is an older version: {} pages that it does not have are lost",
                    file.unknown
                ),
            );
        }
        if let Some((first, last)) = file.span.filter(|_| !file.is_nameless) {
            self.given().pages(ino, first, last);
        }
        if file.is_cut {
            let last = inode.size.get().div_ceil(PAGE as u64).saturating_sub(1);
            self.given().pages(ino, file.end, last.max(file.end));
            inode.size = (file.end * PAGE as u64).into();
            self.act_on(ino, format!(
                "inode {ino} is cut to {} bytes: what lay behind is lost, and to mark it so takes more room than the pool can give",
                file.end * PAGE as u64
            ));
        }
        if file.lost > 0 {
            self.act_on(
                ino,
                format!("{} pages of inode {ino} are lost, reading them gives EIO", file.lost),
            );
        } else if !file.is_cut && inode.pages.get() != file.pages {
            self.act_on(
                ino,
                format!("inode {ino} has {} pages, not {}", file.pages, inode.pages.get()),
            );
        }
        inode.pages = file.pages.into();
        self.store(ino, &inode);
    }

    /// The entry as it may stand.
    fn entry(&mut self, file: &mut File, index: u64, entry: PageEntry) -> PageEntry {
        if entry == PageEntry::HOLE {
            return entry;
        }
        let is_held = matches!(entry.flags(), WRITTEN | UNWRITTEN);
        let pages = self.walk.pool.pages();
        let is_beyond = index >= file.end && !file.is_orphan && entry.flags() != UNWRITTEN || index >= INDEX_END;
        let is_right = rules::wrong_page_entry(&entry, file.life).is_none()
            && (!is_held || entry.page() < pages && !self.walk.system.has(entry.page()));
        match (is_right, is_beyond || index >= file.end && !is_right) {
            (_, true) => PageEntry::HOLE,
            (true, false) => {
                file.pages += 1;
                entry
            }
            (false, false) => file.lost_entry(index),
        }
    }

    /// A tree with what of it can be used; None if nothing is left of it.
    fn tree(
        &mut self,
        file: &mut File,
        id: MetaId,
        generation: Option<u32>,
        level: u8,
        base: u64,
    ) -> Option<(MetaId, u32)> {
        let found = self.node(id, Kind::BlockMap, file.ino).filter(|(head, _)| {
            let is_meant = generation.is_none_or(|generation| generation == head.generation.get());
            head.level == level && level > 0 && is_meant
        });
        let Some((head, bytes)) = found.filter(|_| file.seen.insert(id.0)) else {
            return self.lost_tree(file, level, base);
        };
        let mut bytes = *bytes;
        let before = bytes;
        let is_doubtful = age::is_doubtful(self.pool(), id.0, file.is_short);
        for slot in 0..FANOUT {
            let (at, base) = (
                entry_offset(slot),
                base.saturating_add(slot.saturating_mul(coverage(level))),
            );
            if level == 1 {
                let entry = PageEntry::read_from_prefix(&bytes[at..]).map_or(PageEntry::HOLE, |(entry, _)| entry);
                let entry = match is_doubtful && entry.is_hole() && file.may_have(base) {
                    true => file.unknown_entry(base),
                    false => self.entry(file, base, entry),
                };
                bytes[at..at + size_of::<PageEntry>()].copy_from_slice(entry.as_bytes());
                continue;
            }
            let child = Child::read_from_prefix(&bytes[at..]).map_or_else(|_| Child::default(), |(child, _)| child);
            if child == Child::default() {
                let missing = file.end.saturating_sub(base).min(coverage(level));
                // A file is not cut for what may be a hole.
                if is_doubtful && missing > 0 && nodes_for(level - 1, missing) <= file.room {
                    let below = self.lost_tree(file, level - 1, base);
                    file.unknown += missing;
                    bytes[at..at + size_of::<Child>()].copy_from_slice(child_of(below).as_bytes());
                }
                continue;
            }
            let below = self.tree(
                file,
                MetaId(child.id.get()),
                Some(child.generation.get()),
                level - 1,
                base,
            );
            bytes[at..at + size_of::<Child>()].copy_from_slice(child_of(below).as_bytes());
        }
        if bytes != before {
            self.pool().replace(id, bytes);
        }
        Some((id, head.generation.get()))
    }

    fn is_nameless(&self, ino: u64) -> bool {
        let facts = self.walk.inodes.get(&ino);
        facts.is_some_and(|facts| facts.nlink == 0 && facts.names == 0)
    }

    /// Nodes that may be made to mark pages as lost: with their copies they take half of what is free, so that one file does not
    /// keep a pool from being repaired.
    fn marks(&mut self) -> u64 {
        if let Some(marks) = self.marks {
            return marks;
        }
        let sb = &self.walk.pool.sb;
        let system = SLOTS as u64 + sb.log_pages.get() + u64::from(sb.history_pages.get()) + 1;
        let used = self.walk.data.iter().count() as u64 + self.walk.pool.home_pages.iter().count() as u64 + system;
        let marks = sb.pages.get().saturating_sub(used) / u64::from(sb.meta_copies.get().max(1)) / 2;
        self.marks = Some(marks);
        marks
    }

    /// Lost entries for all that the size covers, in place of a node that is gone. A file that needs more room for them than it
    /// may have ends where the first of them would be.
    fn lost_tree(&mut self, file: &mut File, level: u8, base: u64) -> Option<(MetaId, u32)> {
        if base >= file.end || level == 0 || file.is_nameless {
            return None;
        }
        let nodes = nodes_for(level, file.end - base);
        if nodes > file.room {
            (file.end, file.is_cut) = (base, true);
            return None;
        }
        file.room -= nodes;
        self.marks = Some(self.marks().saturating_sub(nodes));
        Some(self.marked_tree(file, level, base))
    }

    fn marked_tree(&mut self, file: &mut File, level: u8, base: u64) -> (MetaId, u32) {
        let (id, mut bytes) = self.new_node(Kind::BlockMap, level, file.ino);
        for slot in 0..FANOUT {
            let (at, base) = (
                entry_offset(slot),
                base.saturating_add(slot.saturating_mul(coverage(level))),
            );
            if base >= file.end {
                break;
            }
            if level == 1 {
                let entry = file.lost_entry(base);
                bytes[at..at + size_of::<PageEntry>()].copy_from_slice(entry.as_bytes());
            } else {
                let below = self.marked_tree(file, level - 1, base);
                bytes[at..at + size_of::<Child>()].copy_from_slice(child_of(Some(below)).as_bytes());
            }
        }
        self.pool().replace(id, *bytes);
        (id, 1)
    }

    /// Attributes that cannot be read are none.
    fn attributes(&mut self, ino: u64, inode: &mut Inode) {
        let payload = match inode.xattr.get() {
            XATTR_CHAIN => self.chain(ino, inode.xattrs.get()),
            used => inode.xattr_area.get(..used.into()).map(<[u8]>::to_vec),
        };
        if payload.is_some_and(|payload| xattr::is_list(&payload)) {
            return;
        }
        (inode.xattr, inode.xattrs) = (0.into(), 0.into());
        inode.xattr_area.fill(0);
        self.store(ino, inode);
        self.given().metadata(ino, block_of(ino).0);
        self.act_on(ino, format!("the extended attributes of inode {ino} are lost"));
    }

    fn chain(&mut self, ino: u64, mut next: u64) -> Option<Vec<u8>> {
        let (mut payload, mut position, mut seen) = (Vec::new(), 0usize, HashSet::new());
        while next != 0 {
            let (head, bytes) = self.node(MetaId(next), Kind::Xattr, ino)?;
            let (link, _) = ChainHead::read_from_prefix(&bytes[HEADER..]).ok()?;
            let used = usize::from(link.used.get());
            let is_right = usize::from(head.level) == position.min(255) && link.reserved == [0; 6] && used <= PAYLOAD;
            if !is_right || !seen.insert(next) || payload.len() > TOTAL_MAX {
                return None;
            }
            payload.extend_from_slice(&bytes[PAYLOAD_OFFSET..PAYLOAD_OFFSET + used]);
            (next, position) = (link.next.get(), position + 1);
        }
        (payload.len() <= TOTAL_MAX).then_some(payload)
    }
}

impl File {
    /// Whether a newer version of a node may have a page here.
    fn may_have(&self, index: u64) -> bool {
        index < self.end && !(self.hole.0..self.hole.1).contains(&index)
    }

    fn unknown_entry(&mut self, index: u64) -> PageEntry {
        self.unknown += 1;
        self.lost_entry(index)
    }

    fn lost_entry(&mut self, index: u64) -> PageEntry {
        let (first, last) = self.span.unwrap_or((index, index));
        self.span = Some((first.min(index), last.max(index)));
        self.pages += 1;
        self.lost += 1;
        PageEntry::new(0, LOST, 0, self.life.1 as u32)
    }
}

/// Nodes of a tree whose root is of `level` that cover so many pages, or all that it can.
fn nodes_for(level: u8, pages: u64) -> u64 {
    let pages = pages.min(coverage(level).saturating_mul(FANOUT));
    let of_level = |level| pages.div_ceil(coverage(level).saturating_mul(FANOUT)).max(1);
    (1..=level).map(of_level).fold(0, u64::saturating_add)
}

fn child_of(below: Option<(MetaId, u32)>) -> Child {
    below.map_or_else(Child::default, |(id, generation)| Child {
        id: id.0.into(),
        generation: generation.into(),
        reserved: 0.into(),
    })
}
