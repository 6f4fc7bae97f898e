//! Structures as they are shown: plain numbers and strings, in the order of SPEC.md.

use crate::finding::Metablock;
use crate::inode;
use keepfs_format::blockmap::PageEntry;
use keepfs_format::inode::{BODY_INLINE, Inode};
use keepfs_format::map::{self, MapEntry};
use keepfs_format::shown::for_programs;
use keepfs_format::superblock::{CLEAN, Superblock};
use keepfs_format::{MetaId, PoolId, Space};
use serde::Serialize;

/// The superblock (S-2.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // S-2.2 is the text; the names are its names.
pub struct SuperblockView {
    pub version: u32,
    pub meta_copies: u32,
    pub pool: String,
    pub label: String,
    pub pages: u64,
    pub generation: u64,
    pub incarnation: u64,
    pub seq: u64,
    pub log_start: u64,
    pub log_pages: u64,
    pub log_seq: u64,
    pub group: u64,
    pub chain: u64,
    pub durable: u64,
    pub zone_pages: u64,
    pub zone_current: u64,
    pub zone_next: u64,
    pub chunk_pages: u32,
    pub clean: bool,
    pub created_sec: i64,
    pub created_nsec: u32,
    pub roots: Vec<RootView>,
}

/// The root of one space's map (S-4.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RootView {
    /// Name of the space.
    pub space: String,
    /// Levels of map pages.
    pub height: u8,
    /// Entry of the top map page.
    pub entry: MapView,
}

impl SuperblockView {
    pub(crate) fn new(sb: &Superblock) -> Self {
        let label = sb.label.split(|b| *b == 0).next().unwrap_or_default();
        let roots = Space::ALL
            .into_iter()
            .map(|space| (space, &sb.roots[space as usize]))
            .map(|(space, root)| RootView {
                space: format!("{space:?}"),
                height: root.height,
                entry: MapView::new(MetaId::map(space, root.height.saturating_sub(1), 0), &root.entry),
            });
        SuperblockView {
            version: sb.version.get(),
            meta_copies: sb.meta_copies.get(),
            pool: PoolId(sb.pool).to_string(),
            label: String::from_utf8_lossy(label).into_owned(),
            pages: sb.pages.get(),
            generation: sb.generation.get(),
            incarnation: sb.incarnation.get(),
            seq: sb.seq.get(),
            log_start: sb.log_start.get(),
            log_pages: sb.log_pages.get(),
            log_seq: sb.log_seq.get(),
            group: sb.group.get(),
            chain: sb.chain.get(),
            durable: sb.durable.get(),
            zone_pages: sb.zone_pages.get(),
            zone_current: sb.zone_current.get(),
            zone_next: sb.zone_next.get(),
            chunk_pages: sb.chunk_pages.get(),
            clean: sb.state.get() == CLEAN,
            created_sec: sb.created_sec.get(),
            created_nsec: sb.created_nsec.get(),
            roots: roots.collect(),
        }
    }
}

/// A map entry (S-4.3).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MapView {
    /// The metablock.
    pub id: Metablock,
    /// Whether it is alive.
    pub live: bool,
    /// First page, 0 = none.
    pub first: u64,
    /// Second page, 0 = none.
    pub second: u64,
    /// CRC-64 of its bytes.
    pub crc: u64,
    /// Which life of the id.
    pub generation: u32,
    /// Kind number (S-3.2).
    pub kind: u8,
}

impl MapView {
    pub(crate) fn new(id: MetaId, entry: &MapEntry) -> Self {
        MapView {
            id: id.into(),
            live: entry.state == map::LIVE,
            first: entry.first.get(),
            second: entry.second.get(),
            crc: entry.crc.get(),
            generation: entry.generation.get(),
            kind: entry.kind,
        }
    }
}

/// A page entry of a direct body (S-7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // S-7.2 is the text; the names are its names.
pub struct PageView {
    pub page: u64,
    pub flags: u16,
    pub crc: u32,
    pub version: u32,
}

impl PageView {
    fn new(entry: &PageEntry) -> Self {
        PageView {
            page: entry.page(),
            flags: entry.flags(),
            crc: entry.crc.get(),
            version: entry.version.get(),
        }
    }
}

/// An inode (S-5.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // S-5.2 is the text; the names are its names.
pub struct InodeView {
    pub ino: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub rdev: u32,
    pub flags: u32,
    pub body: u8,
    pub height: u8,
    pub xattr: u16,
    pub size: u64,
    pub pages: u64,
    pub born: u64,
    pub cur: u64,
    pub atime: (i64, u32),
    pub mtime: (i64, u32),
    pub ctime: (i64, u32),
    pub btime: (i64, u32),
    pub parent: u64,
    pub entries: u64,
    pub root: u64,
    pub xattrs: u64,
    /// Pages that became a hole and are still being freed (S-5.8): first, and first behind.
    pub hole: Option<(u64, u64)>,
    /// Content of an inline body.
    pub inline: Option<String>,
    /// Entries of a direct body.
    pub direct: Vec<PageView>,
    /// Indices of staged pages.
    pub staged: Vec<u64>,
}

impl InodeView {
    pub(crate) fn new(ino: u64, i: &Inode, staged: Vec<u64>) -> Self {
        let used = (i.size.get().min(i.body_area.len() as u64)) as usize;
        let inline = (i.body == BODY_INLINE).then(|| i.body_area[..used].escape_ascii().to_string());
        InodeView {
            ino,
            mode: i.mode.get(),
            uid: i.uid.get(),
            gid: i.gid.get(),
            nlink: i.nlink.get(),
            rdev: i.rdev.get(),
            flags: i.flags.get(),
            body: i.body,
            height: i.height,
            xattr: i.xattr.get(),
            size: i.size.get(),
            pages: i.pages.get(),
            born: i.born.get(),
            cur: i.cur.get(),
            atime: (i.atime.get(), i.atime_nsec.get()),
            mtime: (i.mtime.get(), i.mtime_nsec.get()),
            ctime: (i.ctime.get(), i.ctime_nsec.get()),
            btime: (i.btime.get(), i.btime_nsec.get()),
            parent: i.parent.get(),
            entries: i.entries.get(),
            root: i.root.get(),
            xattrs: i.xattrs.get(),
            hole: Some(inode::pending(i)).filter(|hole| *hole != (0, 0)),
            inline,
            direct: inode::direct(i).iter().flatten().map(PageView::new).collect(),
            staged,
        }
    }
}

/// A directory entry (S-6.2).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DirEntry {
    /// Key, and readdir cookie.
    pub cookie: u64,
    /// Inode number.
    pub ino: u64,
    /// mode >> 12.
    pub kind: u8,
    /// The name, for reading (S-18.10).
    pub name: String,
    /// The same as hexadecimal digits, if it is no UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_bytes: Option<String>,
    /// The name's own bytes.
    #[serde(skip)]
    pub raw: Vec<u8>,
}

impl DirEntry {
    pub(crate) fn new((ino, kind, cookie, raw): (u64, u8, u64, Vec<u8>)) -> Self {
        let (name, name_bytes) = for_programs(&raw);
        DirEntry {
            cookie,
            ino,
            kind,
            name,
            name_bytes,
            raw,
        }
    }
}
