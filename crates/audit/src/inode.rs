//! Inodes, field by field (SPEC section 5), and what hangs on each.

use crate::finding::Finding;
use crate::pool::Load;
use crate::walk::Walk;
use crate::{Page, body, is_zero, xattr};
use keepfs_format::blockmap::{FILE_SIZE_MAX, HEIGHT_MAX};
use keepfs_format::inode::{
    BODY, BODY_DIRECT, BODY_INLINE, BODY_NONE, BODY_TREE, DEAD, Inode, LIVE, PER_BLOCK, SIZE, XATTR, XATTR_CHAIN,
    offset_of,
};
use keepfs_format::metablock::HEADER;
use keepfs_format::{FromBytes, IntoBytes, MetaId, Space};

/// mode >> 12 of a directory.
pub(crate) const DIR: u8 = 0o04;
/// mode >> 12 of a regular file.
pub(crate) const FILE: u8 = 0o10;
/// mode >> 12 of a symlink.
pub(crate) const SYMLINK: u8 = 0o12;
/// mode >> 12 of FIFO, character device, block device, socket.
const SPECIAL: [u8; 4] = [0o01, 0o02, 0o06, 0o14];
/// chattr flags that exist (S-5.2).
const FLAGS: u32 = 0x10 | 0x20 | 0x40 | 0x80;

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
    for field in rules(inode, facts.kind).fields() {
        walk.finding(Finding::Inode { ino, field });
    }
    if let Some(field) = wrong_hole(inode, facts.kind) {
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

/// Rules that are asked one after the other without a branch, because as a rule all hold.
macro_rules! rules {
    ($( $holds:expr, $field:literal; )*) => {{
        let (mut broken, mut bit) = (0, 1);
        $(
            broken |= if $holds { 0 } else { bit };
            bit <<= 1;
        )*
        let _past_the_last: u32 = bit;
        Broken { rules: broken, fields: &[$($field),*] }
    }};
}

/// Which rules do not hold.
pub(crate) struct Broken {
    /// A bit for each, the first one's least.
    rules: u32,
    /// What each is about.
    fields: &'static [&'static str],
}

impl Broken {
    /// What those are about that do not hold.
    pub fn fields(self) -> impl Iterator<Item = &'static str> {
        let fields = self.fields.iter().enumerate();
        fields
            .filter(move |(i, _)| self.rules >> i & 1 == 1)
            .map(|(_, field)| *field)
    }

    /// Whether all hold.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.rules == 0
    }
}

/// What S-5.2 to S-5.4 say of the fields of a live inode.
#[inline]
pub(crate) fn rules(inode: &Inode, kind: u8) -> Broken {
    let dir = kind == DIR;
    let content = kind == FILE || kind == SYMLINK;
    let size = inode.size.get();
    let tree = inode.body == BODY_TREE;
    let chain = inode.xattr.get() == XATTR_CHAIN;
    let height = inode.height;
    let nsec = [inode.atime_nsec, inode.mtime_nsec, inode.ctime_nsec, inode.btime_nsec];
    rules! {
        inode.mode.get() >> 16 == 0 && (dir || content || SPECIAL.contains(&kind)), "mode";
        inode.flags.get() & !FLAGS == 0, "flags";
        inode.body <= BODY_TREE && (content || inode.body == BODY_NONE), "body";
        if tree { (1..=HEIGHT_MAX).contains(&height) } else { height == 0 }, "height";
        usize::from(inode.xattr.get()) <= XATTR || chain, "xattr";
        chain == (inode.xattrs.get() != 0), "xattrs";
        size <= FILE_SIZE_MAX && (content || size == 0), "size";
        kind != SYMLINK || (1..4096).contains(&size), "size of a symlink";
        inode.body != BODY_INLINE || size <= BODY as u64, "size of an inline file";
        inode.body != BODY_INLINE || is_clear(&inode.body_area, size), "byte beyond an inline file";
        inode.body != BODY_NONE || is_zero(&inode.body_area), "byte in the area of an empty body";
        inode.born.get() >= 1 && inode.born.get() <= inode.cur.get(), "born";
        nsec.iter().all(|n| n.get() < 1_000_000_000), "nanoseconds";
        dir || inode.parent.get() == 0, "parent";
        dir || inode.entries.get() == 0, "entries";
        dir || tree == (inode.root.get() != 0), "root";
        inode.reserved.get() == 0, "reserved field";
    }
}

/// The pending hole of a tree (S-5.8): from and to, both 0 if there is none.
pub(crate) fn pending(inode: &Inode) -> (u64, u64) {
    let word = |at: usize| inode.body_area[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
    match inode.body {
        BODY_TREE => (word(0), word(8)),
        _ => (0, 0),
    }
}

/// What S-5.8 does not allow of a pending hole.
pub(crate) fn wrong_hole(inode: &Inode, kind: u8) -> Option<&'static str> {
    let (from, to) = pending(inode);
    let none = (from, to) == (0, 0);
    let rules = [
        (none || from < to, "range"),
        (to <= FILE_SIZE_MAX.div_ceil(keepfs_format::PAGE as u64), "end"),
        (none || kind == FILE, "owner"),
        (
            inode.body != BODY_TREE || is_zero(&inode.body_area[16..]),
            "byte behind it",
        ),
    ];
    rules.iter().find(|(holds, _)| !holds).map(|(_, field)| *field)
}

fn is_clear(area: &[u8], from: u64) -> bool {
    is_zero(&area[from.min(area.len() as u64) as usize..])
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
