//! What SPEC allows in one structure, whatever others say: its fields, ranges and versions (sections 5 to 7).
//!
//! Both who judges a whole pool and who judges a transaction ask it. Each rule names the field that breaks it.

use crate::blockmap::{FILE_SIZE_MAX, HEIGHT_MAX, LOST, PageEntry, UNWRITTEN, WRITTEN};
use crate::dir::{DEAD, EntryHead, LIVE};
use crate::inode::{
    BODY, BODY_INLINE, BODY_NONE, BODY_TREE, DIR, FILE, HOLE_END, Hole, Inode, SYMLINK, XATTR, XATTR_CHAIN,
};
use crate::{PAGE, Page};

/// `mode >> 12` of FIFO, character device, block device, socket.
const SPECIAL: [u8; 4] = [0o01, 0o02, 0o06, 0o14];
/// chattr flags that exist (S-5.2).
const FLAGS: u32 = 0x10 | 0x20 | 0x40 | 0x80;

/// Whether all of `bytes`, at most a page, are zero: one comparison of memory.
#[inline]
pub fn is_zero(bytes: &[u8]) -> bool {
    static ZEROS: Page = [0; PAGE];
    ZEROS.get(..bytes.len()) == Some(bytes)
}

/// Whether `version` (low bits) lies in the life of an object from `born` to `cur`.
#[inline]
pub fn in_life(version: u32, born: u64, cur: u64) -> bool {
    (cur as u32).wrapping_sub(version) <= (cur.saturating_sub(born)).min(u64::from(u32::MAX)) as u32
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
pub struct Broken {
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

/// What S-5.2 to S-5.4 say of the fields of a live inode of `kind` (`mode >> 12`).
#[inline]
pub fn inode(inode: &Inode, kind: u8) -> Broken {
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

fn is_clear(area: &[u8], from: u64) -> bool {
    is_zero(&area[from.min(area.len() as u64) as usize..])
}

/// What S-5.8 does not allow of the pending hole of an inode of `kind`.
pub fn wrong_hole(inode: &Inode, kind: u8) -> Option<&'static str> {
    let hole = inode.hole();
    let (from, to) = hole.map_or((0, 0), |hole| (hole.from.get(), hole.to.get()));
    let rules = [
        (hole.is_none() || from < to, "range"),
        (to <= HOLE_END, "end"),
        (hole.is_none() || kind == FILE, "owner"),
        (
            inode.body != BODY_TREE || is_zero(&inode.body_area[size_of::<Hole>()..]),
            "byte behind it",
        ),
    ];
    rules.iter().find(|(holds, _)| !holds).map(|(_, field)| *field)
}

/// S-7.2, S-7.6: what an entry that is no hole says by itself, in a file that lives from `born` to `cur`.
pub fn wrong_page_entry(entry: &PageEntry, (born, cur): (u64, u64)) -> Option<&'static str> {
    let (page, flags) = (entry.page(), entry.flags());
    let held = matches!(flags, WRITTEN | UNWRITTEN);
    let rules = [
        (held || flags == LOST, "flag"),
        (!held || page != 0, "page"),
        (flags == WRITTEN || entry.crc.get() == 0, "CRC of an unwritten page"),
        (flags != LOST || page == 0, "page of a lost one"),
        (in_life(entry.version.get(), born, cur), "version"),
    ];
    rules.iter().find(|(holds, _)| !holds).map(|(_, field)| *field)
}

/// S-6.2, S-6.6: what an entry of a directory says by itself.
pub fn wrong_entry(entry: &EntryHead, name: &[u8], padding: &[u8]) -> Option<&'static str> {
    let rules = [
        (matches!(entry.state, LIVE | DEAD), "state"),
        (entry.reserved == 0, "reserved field"),
        (padding.iter().all(|b| *b == 0), "padding"),
        (is_name(name), "name"),
    ];
    rules.iter().find(|(holds, _)| !holds).map(|(_, field)| *field)
}

/// S-6.6: whether a file can be called so.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name != b"." && name != b".." && !name.iter().any(|b| matches!(b, 0 | b'/'))
}
