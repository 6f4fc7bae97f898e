//! Changing inodes, and making new ones and new nodes.

use super::Mender;
use crate::Page;
use crate::inode;
use crate::pool::{Load, header};
use crate::read::leaves;
use keepfs_format::dir::{CHILDREN, child_offset};
use keepfs_format::inode::{BODY_NONE, BODY_TREE, DEAD, DIR, FILE, Inode, LIVE, PER_BLOCK, SIZE, block_of, offset_of};
use keepfs_format::metablock::HEADER;
use keepfs_format::rules;
use keepfs_format::{FromZeros, Header, IntoBytes, Kind, MetaId, PAGE, Space};

/// The root directory.
pub(super) const ROOT: u64 = 1;

impl Mender<'_> {
    /// The live inode `ino`.
    pub fn inode(&mut self, ino: u64) -> Option<Inode> {
        match self.pool().load(block_of(ino)) {
            Load::Live(bytes) => inode::at(&bytes, ino).filter(|inode| inode.state.get() == LIVE),
            _ => None,
        }
    }

    /// Stores an inode, in a metablock that is born if need be.
    pub fn store(&mut self, ino: u64, inode: &Inode) {
        if let Some(bytes) = self.pool().edit(block_of(ino), Some(Kind::Inodes)) {
            let at = offset_of(ino);
            bytes[at..at + SIZE].copy_from_slice(inode.as_bytes());
            // Number 0 is never used, not even by a metablock that is born again (S-3.3).
            if block_of(ino).index() == 0 {
                bytes[offset_of(0)..offset_of(1)].fill(0);
            }
        }
    }

    /// A directory without entries of number `ino`, which no live inode has.
    pub fn new_directory(&mut self, ino: u64, mode: u32, parent: u64) {
        if self.pool().edit(block_of(ino), Some(Kind::Inodes)).is_none() {
            return;
        }
        let old = match self.pool().load(block_of(ino)) {
            Load::Live(bytes) => inode::at(&bytes, ino),
            _ => None,
        };
        let last = old.filter(|old| old.state.get() == DEAD).map_or(0, |old| old.cur.get());
        let (seconds, nanoseconds) = (self.pool().sb.created_sec, self.pool().sb.created_nsec);
        let mut inode = Inode::new_zeroed();
        inode.state = LIVE.into();
        inode.mode = mode.into();
        inode.nlink = 2.into();
        inode.parent = parent.into();
        inode.born = last.saturating_add(1).into();
        inode.cur = inode.born;
        for (time, nsec) in [
            (&mut inode.atime, &mut inode.atime_nsec),
            (&mut inode.mtime, &mut inode.mtime_nsec),
            (&mut inode.ctime, &mut inode.ctime_nsec),
            (&mut inode.btime, &mut inode.btime_nsec),
        ] {
            (*time, *nsec) = (seconds, nanoseconds);
        }
        self.store(ino, &inode);
    }

    /// A number that no inode has.
    pub fn free_number(&mut self) -> u64 {
        let blocks = self.pool().live(Space::Inodes);
        for block in &blocks {
            let first = block.saturating_mul(PER_BLOCK);
            for ino in (first..first.saturating_add(PER_BLOCK)).filter(|ino| *ino > ROOT) {
                if self.inode(ino).is_none() {
                    return ino;
                }
            }
        }
        blocks.last().map_or(1, |block| block + 1) * PER_BLOCK
    }

    /// Directories whose inodes are lost, and the root, are made again: their leaves know what was in them.
    pub fn headless(&mut self) {
        let owners = leaves(self.pool()).into_keys();
        let is_lost = |ino: &u64| *ino > ROOT && matches!(self.walk.pool.load(block_of(*ino)), Load::Gone(_));
        // All are known before the first one brings its metablock back to life.
        let lost: Vec<u64> = owners.filter(is_lost).collect();
        for ino in lost {
            self.new_directory(ino, u32::from(DIR) << 12 | 0o700, ROOT);
            self.flagged.insert(ino);
            self.given().metadata(ino, block_of(ino).0);
            self.act_on(
                ino,
                format!("directory {ino} is made again from its entries, owned by root"),
            );
        }
        if self
            .inode(ROOT)
            .is_none_or(|root| root.mode.get() >> 12 != u32::from(DIR))
        {
            self.new_directory(ROOT, u32::from(DIR) << 12 | 0o755, ROOT);
            self.flagged.insert(ROOT);
            self.given().metadata(ROOT, block_of(ROOT).0);
            self.act("the root directory is made again from its entries, owned by root".into());
        }
    }

    /// A node that lives from now on.
    pub fn new_node(&mut self, kind: Kind, level: u8, owner: u64) -> (MetaId, Box<Page>) {
        let id = MetaId::new(Space::Nodes, self.pool().next_node());
        let mut bytes = Box::new([0; PAGE]);
        let head = Header::new(self.pool().tag(), id, kind, level, owner, 1);
        bytes[..HEADER].copy_from_slice(head.as_bytes());
        // The number is taken.
        self.pool().replace(id, *bytes);
        (id, bytes)
    }

    /// Fields of an inode that are not allowed. What they were is not known; the least that is allowed is taken, and where that
    /// is nothing the inode goes.
    pub fn fields(&mut self, ino: u64, fields: &[&str]) {
        let Some(mut inode) = self.inode(ino).filter(|_| ino != 0) else {
            self.clear(ino, None);
            return;
        };
        let (before, kind) = (inode, (inode.mode.get() >> 12) as u8);
        for field in fields {
            amend(&mut inode, kind, field);
        }
        if !rules::inode(&inode, kind).is_none() {
            self.clear(ino, Some(inode.cur.get()));
            return;
        }
        self.store(ino, &inode);
        let is_lost = inode.size != before.size || inode.body != before.body;
        if is_lost && kind == FILE {
            self.given()
                .pages(ino, 0, before.size.get().div_ceil(PAGE as u64).max(1) - 1);
        }
        let text = match is_lost && kind == FILE {
            true => format!(
                "inode {ino} has a {} that is not allowed, and loses its content",
                fields[0]
            ),
            false => format!("inode {ino} gets a {} that is allowed", fields.join(", a ")),
        };
        self.act_on(ino, text);
    }

    /// What of a metablock is the same in all of its kind: the fields of its header that nothing is known by, and the unused end of
    /// INODES and of indexes.
    pub fn frame(&mut self, id: MetaId) {
        let Load::Live(old) = self.pool().load(id) else { return };
        let (mut bytes, mut head) = (*old, header(&old));
        head.reserved = 0.into();
        if id.space() != Some(Space::Nodes) {
            (head.level, head.owner) = (0, 0.into());
        }
        bytes[..HEADER].copy_from_slice(head.as_bytes());
        if id.space() == Some(Space::Inodes) {
            bytes[HEADER + PER_BLOCK as usize * SIZE..].fill(0);
        }
        if head.kind == Kind::DirIndex as u8 {
            bytes[child_offset(CHILDREN - 1) + 8..].fill(0);
        }
        if bytes != *old {
            self.pool().replace(id, bytes);
            self.act(format!(
                "metablock {id} has bytes set that nothing uses, and they are cleared"
            ));
        }
    }

    /// Ends what stands in the slot of an inode; `cur` is the last version of it, if that is known.
    fn clear(&mut self, ino: u64, cur: Option<u64>) {
        let mut dead = Inode::new_zeroed();
        if ino != 0 {
            dead.state = DEAD.into();
            dead.cur = cur.unwrap_or_else(|| u32::MAX.into()).into();
        }
        self.store(ino, &dead);
        if cur.is_some() {
            self.given().file(ino, None);
        }
        self.act_on(
            ino,
            match cur {
                Some(_) => format!("what stands in the slot of inode {ino} is garbage, and is cleared"),
                None => format!("the slot of inode {ino} holds none, and is cleared"),
            },
        );
    }

    /// The header of a node, if it can be read.
    pub fn node(&mut self, id: MetaId, kind: Kind, owner: u64) -> Option<(Header, std::rc::Rc<Page>)> {
        match self.pool().load(id) {
            Load::Live(bytes) if id.space() == Some(Space::Nodes) => {
                let head = header(&bytes);
                (head.kind == kind as u8 && head.owner.get() == owner).then_some((head, bytes))
            }
            _ => None,
        }
    }
}

/// Makes one field what is allowed (S-5.2 to S-5.4), where that can be said of it.
fn amend(inode: &mut Inode, kind: u8, field: &str) {
    let is_tree = inode.body == BODY_TREE;
    match field {
        "flags" => inode.flags = (inode.flags.get() & 0xf0).into(),
        "born" => {
            inode.born = inode.born.get().max(1).into();
            inode.cur = inode.cur.get().max(inode.born.get()).into();
        }
        "parent" => inode.parent = 0.into(),
        "entries" => inode.entries = 0.into(),
        "reserved field" => inode.reserved = 0.into(),
        "byte in the area of an empty body" => inode.body_area.fill(0),
        "byte beyond an inline file" => {
            let size = (inode.size.get() as usize).min(inode.body_area.len());
            inode.body_area[size..].fill(0);
        }
        "xattr" | "xattrs" => {
            (inode.xattr, inode.xattrs) = (0.into(), 0.into());
            inode.xattr_area.fill(0);
        }
        "nanoseconds" => {
            let all = [
                &mut inode.atime_nsec,
                &mut inode.mtime_nsec,
                &mut inode.ctime_nsec,
                &mut inode.btime_nsec,
            ];
            for nsec in all.into_iter().filter(|nsec| nsec.get() >= 1_000_000_000) {
                *nsec = 0.into();
            }
        }
        "height" if !is_tree => inode.height = 0,
        "root" if !is_tree => inode.root = 0.into(),
        "body" | "height" | "root" | "size" | "size of an inline file" => {
            (inode.body, inode.height, inode.size, inode.pages) = (BODY_NONE, 0, 0.into(), 0.into());
            inode.body_area.fill(0);
            if kind != DIR {
                inode.root = 0.into();
            }
        }
        // Of what kind it is, or where a symbolic link leads, is not known.
        _ => {}
    }
}
