//! Inodes, field by field (SPEC section 5), and what hangs on each.

use crate::finding::Finding;
use crate::pool::Load;
use crate::walk::Walk;
use crate::{Page, body, is_zero, xattr};
use keepfs_format::inode::{BODY_DIRECT, DEAD, DIR, FILE, Inode, LIVE, PER_BLOCK, SIZE, SYMLINK, offset_of};
use keepfs_format::metablock::HEADER;
use keepfs_format::rules;
use keepfs_format::{FromBytes, IntoBytes, MetaId, Space};

/// What the rest of the walk needs of a live inode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    /// mode >> 12.
    pub kind: u8,
    pub nlink: u32,
    pub size: u64,
    pub born: u64,
    pub cur: u64,
    pub parent: u64,
    pub entries: u64,
    pub root: u64,
    pub body: u8,
    /// Pages that read as a hole whatever their entries say (S-5.8).
    pub hole: (u64, u64),
    /// Entries that name it.
    pub names: u64,
    /// Subdirectories in it.
    pub subdirs: u64,
    /// The directory that names it first, 0 = none.
    pub named_in: u64,
}

impl Facts {
    pub fn is_dir(&self) -> bool {
        self.kind == DIR
    }
}

/// Checks every inode (S-5.1) with its body and attributes. Directories wait until all inodes are known.
pub(crate) fn all(walk: &mut Walk<'_>) {
    for index in walk.pool.live(Space::Inodes) {
        match walk.pool.load(MetaId::new(Space::Inodes, index)) {
            Load::Live(bytes) => block(walk, index, &bytes),
            Load::Gone(_) => {}
            Load::Bad => {
                walk.blind.inodes.insert(index);
                (walk.blind.users, walk.blind.names) = (true, true);
            }
        }
    }
}

fn block(walk: &mut Walk<'_>, index: u64, bytes: &Page) {
    for slot in 0..PER_BLOCK {
        let Some(ino) = index.checked_mul(PER_BLOCK).and_then(|first| first.checked_add(slot)) else {
            return;
        };
        let at = HEADER + slot as usize * SIZE;
        let raw = &bytes[at..at + SIZE];
        // Most slots of a young block are of this kind.
        if is_zero(raw) {
            continue;
        }
        if let Ok(inode) = Inode::read_from_bytes(raw) {
            one(walk, ino, &inode);
        }
    }
    let end = HEADER + PER_BLOCK as usize * SIZE;
    if let Some(past) = bytes[end..].iter().position(|b| *b != 0) {
        let id = MetaId::new(Space::Inodes, index).into();
        walk.finding(Finding::Reserved { id, offset: end + past });
    }
}

/// S-1.3, S-5.2: the state is one of two constants or zero; anything else is damage.
fn one(walk: &mut Walk<'_>, ino: u64, inode: &Inode) {
    match inode.state.get() {
        LIVE if ino != 0 => live(walk, ino, inode),
        DEAD if ino != 0 => {}
        0 => walk.finding(Finding::Inode {
            ino,
            field: "byte set although it was never used",
        }),
        _ => {
            // Whether it lives is not known: nothing is said about its number, its pages and its names.
            walk.finding(Finding::Inode { ino, field: "state" });
            (walk.blind.users, walk.blind.names) = (true, true);
            walk.blind.inodes.insert(ino / PER_BLOCK);
        }
    }
}

fn live(walk: &mut Walk<'_>, ino: u64, inode: &Inode) {
    let facts = Facts {
        kind: (inode.mode.get() >> 12).min(0xff) as u8,
        nlink: inode.nlink.get(),
        size: inode.size.get(),
        born: inode.born.get(),
        cur: inode.cur.get(),
        parent: inode.parent.get(),
        entries: inode.entries.get(),
        root: inode.root.get(),
        body: inode.body,
        hole: pending(inode),
        names: 0,
        subdirs: 0,
        named_in: 0,
    };
    for field in rules::inode(inode, facts.kind).fields() {
        walk.finding(Finding::Inode { ino, field });
    }
    if let Some(field) = rules::wrong_hole(inode, facts.kind) {
        walk.finding(Finding::Hole { ino, field });
    }
    if facts.hole != (0, 0) && !walk.orphans.has(ino) && !walk.blind.orphans {
        walk.finding(Finding::HoleUnlisted { ino });
    }
    walk.counts.inodes += 1;
    walk.counts.files += u64::from(facts.kind == FILE);
    walk.counts.directories += u64::from(facts.is_dir());
    walk.inodes.insert(ino, facts);
    xattr::check(walk, ino, inode);
    if facts.kind == FILE || facts.kind == SYMLINK {
        body::check(walk, ino, inode);
    }
}

/// The pending hole of a tree (S-5.8): from and to, both 0 if there is none.
pub(crate) fn pending(inode: &Inode) -> (u64, u64) {
    inode.hole().map_or((0, 0), |hole| (hole.from.get(), hole.to.get()))
}

/// The inode in slot of `ino`, out of its metablock.
pub(crate) fn at(bytes: &Page, ino: u64) -> Option<Inode> {
    let at = offset_of(ino);
    Inode::read_from_bytes(&bytes[at..at + SIZE]).ok()
}

/// The page entries of a direct body.
pub(crate) fn direct(inode: &Inode) -> Option<[keepfs_format::blockmap::PageEntry; 4]> {
    (inode.body == BODY_DIRECT)
        .then(|| FromBytes::read_from_bytes(inode.body_area.as_bytes()).ok())
        .flatten()
}
