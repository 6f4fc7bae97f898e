//! What can be wrong with a pool: one comparable value each, with a short code and one sentence.

use core::fmt;
use keepfs_format::inode::PER_BLOCK;
use keepfs_format::{MetaId, Space};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Normal after a crash; told because it explains what was seen.
    Note,
    /// One of two copies is bad and can be written anew from the other; or data is lost, and the pool says so.
    Warning,
    /// The pool is not as SPEC.md says.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// The id of a metablock as it stands in findings; in JSON a string such as `Inodes:3`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metablock(pub MetaId);

impl From<MetaId> for Metablock {
    fn from(id: MetaId) -> Self {
        Metablock(id)
    }
}

impl fmt::Display for Metablock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Metablock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Serialize for Metablock {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// Variant { ids } = stable code, severity, sentence.
macro_rules! findings {
    ($( $name:ident { $($field:ident : $ty:ty),* } = $code:tt, $severity:ident, $text:tt; )*) => {
        /// One thing that is wrong. Its text is its [`Display`](fmt::Display), its ids are its fields.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(tag = "code")]
        #[allow(missing_docs)] // The sentence of each variant is its text.
        pub enum Finding {
            $( #[serde(rename = $code)] $name { $($field: $ty),* }, )*
        }

        impl Finding {
            /// Every code there is.
            pub const CODES: &'static [&'static str] = &[$($code),*];

            /// A short name that never changes its meaning.
            pub fn code(&self) -> &'static str {
                match self { $( Finding::$name { .. } => $code, )* }
            }

            /// How bad it is.
            pub fn severity(&self) -> Severity {
                match self { $( Finding::$name { .. } => Severity::$severity, )* }
            }
        }

        impl fmt::Display for Finding {
            #[allow(unused_variables)] // Not every sentence names every id.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $( Finding::$name { $($field),* } => write!(f, $text), )* }
            }
        }
    };
}

findings! {
    // Superblock, section 2.
    NoSuperblock {} = "superblock-none", Error,
        "none of the four superblock slots is valid: this is no Keepfs pool, or all four are lost; check the path, or restore it";
    SuperblockField { slot: usize, page: u64, field: &'static str } = "superblock-field", Error,
        "superblock slot {slot} (page {page}) has a right CRC but its {field} is not allowed: this Keepfs cannot use it";
    SuperblockCut { slot: usize, page: u64, pages: u64, device: u64 } = "superblock-cut", Error,
        "superblock slot {slot} (page {page}) says that the pool has {pages} pages, the device has {device}: it was cut, give it its length back";
    SuperblockSplit { generation: u64 } = "superblock-split", Error,
        "two valid superblock slots of generation {generation} differ: nobody can say which state is the true one";
    SuperblockFeatures { features: u64 } = "superblock-features", Warning,
        "the pool has features that this Keepfs does not know (ro_compat {features:#x}): what belongs to them was not checked, and it can be mounted read-only only";
    SuperblockFirst {} = "superblock-first", Error,
        "page 0 tells nothing, and it alone says where the others of a pool lie that has grown or is shorter than its device: no mount finds them until `keepfs check --repair` has written it";
    SuperblockCopy { slot: usize, page: u64 } = "superblock-copy", Warning,
        "superblock slot {slot} (page {page}) does not hold the newest superblock's bytes: one copy less until it is rewritten";
    SuperblockOld { slot: usize, page: u64 } = "superblock-old", Note,
        "superblock slot {slot} (page {page}), meant for another generation, holds other bytes: usual in a young pool or after a crash";
    SuperblockOlder { slot: usize, page: u64 } = "superblock-older", Warning,
        "superblock slot {slot} (page {page}) does not hold the superblock before the newest one, although the pool was closed: the page was damaged since; the next mounts write it anew";
    SuperblockFlipped { slot: usize, page: u64, byte: usize } = "superblock-flipped", Warning,
        "superblock slot {slot} (page {page}) has a wrong bit, in byte {byte}: its checksum tells which, nothing is lost, and the next mount for writing leaves all slots whole";
    SuperblockPlace { slot: usize, page: u64, generation: u64 } = "superblock-place", Error,
        "superblock slot {slot} (page {page}) holds a superblock of generation {generation}, which belongs to other slots and is newer than all there: the newest superblock is lost, and what was written or synced since the one before";
    SuperblockLost { sequence: u64, base: u64 } = "superblock-lost", Error,
        "log page {sequence} builds on superblock generation {base}, newer than any slot: the newest superblock was lost";
    SuperblockBeside { generation: u64 } = "superblock-beside", Warning,
        "both slots beside those of generation {generation} have no superblock: if that was the newer one, what was written or synced since is lost";
    SuperblockNewer { generation: u64, base: u64 } = "superblock-newer", Error,
        "a log page tells of a superblock of generation {base}, which is lost: the pool is as of generation {generation}, and what was written or synced since is lost";
    // Map and metablocks, sections 3 and 4.
    MapEntry { id: Metablock, field: &'static str } = "map-entry", Error,
        "the map entry of {id} has a {field} that is not allowed: the metablock cannot be trusted";
    MapFound { found: u64 } = "map-found", Warning,
        "the map is damaged: {found} metablocks were found by their headers";
    MetaPageTwice { id: Metablock, page: u64 } = "meta-page-twice", Error,
        "page {page}, named by the map entry of {id}, is named by another map entry too";
    Metablock { id: Metablock, page: u64 } = "metablock-bad", Error,
        "no copy of metablock {id} (page {page}) has the CRC of its map entry: its content is lost";
    MetaLost { id: Metablock } = "metablock-lost", Warning,
        "metablock {id} is lost: what was in it is nowhere, and what needs it gives EIO";
    MetaCopy { id: Metablock, page: u64 } = "metablock-copy", Warning,
        "the copy of metablock {id} at page {page} is bad, the other one is good: it can be rewritten";
    Header { id: Metablock, page: u64, field: &'static str } = "header", Error,
        "the header of metablock {id} (page {page}) has a wrong {field}: right place, wrong metablock";
    Reserved { id: Metablock, offset: usize } = "reserved", Error,
        "metablock {id} is not zero at its unused byte {offset}";
    Chunk { id: Metablock, slot: usize, start: u64, field: &'static str } = "chunk", Error,
        "chunk {slot} of {id}, which begins at page {start}, has a {field} that is not allowed";
    HomeClear { id: Metablock, page: u64 } = "home-clear", Error,
        "page {page} holds metablock {id} but HOMES calls it free: the next checkpoint may overwrite it";
    HomeSet { page: u64 } = "home-set", Error,
        "page {page} is used according to HOMES but no map entry names it: it is leaked";
    HomeOutside { id: Metablock, page: u64 } = "home-outside", Error,
        "page {page} holds metablock {id} but lies in no chunk: it may be handed out as a data page";
    // Log, sections 8 and 9.
    LogPage { sequence: u64, field: &'static str } = "log-page", Error,
        "log page {sequence} is chained and whole but its field {field} is not allowed";
    LogRecord { group: u64, at: usize, what: &'static str } = "log-record", Error,
        "group {group} of the log cannot be decoded at byte {at} ({what}): it and all after it are lost";
    LogOrder { group: u64, what: &'static str } = "log-order", Error,
        "group {group} of the log is not laid out as it must be: {what}";
    LogRange { group: u64, what: &'static str } = "log-range", Error,
        "a record of log group {group} reaches out of the pool: {what}";
    LogAlloc { group: u64, space: &'static str, number: u64 } = "log-alloc", Error,
        "log group {group} allocates number {number} of {space}, which is in use already";
    LogFree { group: u64, space: &'static str, number: u64 } = "log-free", Error,
        "log group {group} frees number {number} of {space}, which is free already";
    LogShare { group: u64, page: u64, delta: i32 } = "log-share", Error,
        "log group {group} changes the extra references of page {page} by {delta}, beyond what can be counted";
    LogBirth { group: u64, id: Metablock, generation: u32 } = "log-birth", Error,
        "log group {group} gives birth to {id} in generation {generation}, which is not the next of a dead node";
    LogDeath { group: u64, id: Metablock, generation: u32 } = "log-death", Error,
        "log group {group} ends {id} in generation {generation}, which is not alive";
    LogUpdate { group: u64, id: Metablock, generation: u32 } = "log-update", Error,
        "log group {group} updates {id} of generation {generation}, which is no logged metablock or was never born";
    LogData { group: u64, ino: u64, index: u64, page: u64 } = "log-data", Note,
        "the log ends before group {group}: its data page {page} (page {index} of inode {ino}) did not arrive before the crash";
    LogUnbrought { ino: u64, index: u64, page: u64 } = "log-unbrought", Error,
        "page {index} of inode {ino} (page {page}) is new in the log but no map-entry record tells its CRC: a crash could lose it unseen";
    LogTorn { sequence: u64 } = "log-torn", Note,
        "the log ends at page {sequence} in the middle of a group, which is dropped: usual after a crash";
    LogUnreadable { sequence: u64, page: u64 } = "log-unreadable", Warning,
        "log page {sequence} (page {page}) cannot be read, and the log ends before it: if a crash came right behind a sync, that may be lost";
    LogFlipped { sequence: u64, page: u64, byte: usize, bits: u32 } = "log-flipped", Warning,
        "log page {sequence} (page {page}) has wrong bits, {bits} from byte {byte} on: its checksum tells which, nothing is lost, and the next mount for writing begins another log";
    LogMended { sequence: u64, page: u64 } = "log-mended", Warning,
        "log page {sequence} (page {page}) is bad, and is made again from the other pages of its group: nothing is lost";
    LogGone { sequence: u64, page: u64, group: u64 } = "log-gone", Error,
        "log page {sequence} (page {page}), of group {group}, is bad, and later ones tell that the group was flushed: what was synced behind it is lost";
    LogCarried { sequence: u64, group: u64 } = "log-carried", Error,
        "group {group} of the log, from page {sequence} on, is lost, in which the last checkpoint had small writes that were synced before it: of which files is not known, and these have older bytes, or zeros";
    // Inodes, section 5.
    RootMissing {} = "root-missing", Error,
        "inode 1 is not a live directory: the tree has no root";
    Inode { ino: u64, field: &'static str } = "inode", Error,
        "inode {ino} has a {field} that is not allowed";
    Hole { ino: u64, field: &'static str } = "pending-hole", Error,
        "the pending hole of inode {ino} has a {field} that is not allowed";
    HoleUnlisted { ino: u64 } = "pending-hole-unlisted", Error,
        "inode {ino} has a pending hole and is not on the hidden list: nobody will finish it";
    InodeNumberClear { ino: u64 } = "inode-number-clear", Error,
        "inode {ino} is live but its number is free in the bitmap: it may be given away";
    InodeNumberSet { ino: u64 } = "inode-number-set", Error,
        "inode number {ino} is in use in the bitmap but there is no such inode: the number is leaked";
    InodePages { ino: u64, stored: u64, found: u64 } = "inode-pages", Error,
        "inode {ino} says {stored} pages, its block map has {found}";
    LinkCount { ino: u64, stored: u64, found: u64 } = "link-count", Error,
        "inode {ino} says {stored} links, the directories have {found}";
    OrphanClear { ino: u64 } = "orphan-clear", Error,
        "inode {ino} has no name and is not on the hidden list: nobody will reclaim it";
    OrphanSet { ino: u64 } = "orphan-set", Error,
        "the hidden list has inode {ino}, which has nothing to reclaim";
    Unreached { ino: u64 } = "unreached", Error,
        "directory {ino} has a name but the root does not lead to it";
    // Nodes: directories, block maps, xattrs.
    NodeMissing { id: Metablock, owner: u64 } = "node-missing", Error,
        "inode {owner} refers to node {id}, which does not exist";
    NodeTwice { id: Metablock, owner: u64 } = "node-twice", Error,
        "inode {owner} refers to node {id}, which is referred to elsewhere too";
    Node { id: Metablock, owner: u64, field: &'static str } = "node", Error,
        "node {id} under inode {owner} has a wrong {field}";
    NodeUnreached { id: Metablock } = "node-unreached", Error,
        "node {id} is alive but no inode leads to it: it is leaked";
    NodeNumberClear { index: u64 } = "node-number-clear", Error,
        "node {index} is alive but its number is free in the bitmap: it may be given away";
    NodeNumberSet { index: u64 } = "node-number-set", Error,
        "node number {index} is in use in the bitmap but there is no such node: the number is leaked";
    // Directories, section 6.
    Leaf { dir: u64, id: Metablock, field: &'static str } = "dir-leaf", Error,
        "leaf {id} of directory {dir} has a wrong {field}";
    Entry { dir: u64, id: Metablock, offset: usize, field: &'static str } = "dir-entry", Error,
        "the entry at byte {offset} of leaf {id} of directory {dir} has a wrong {field}";
    EntryInode { dir: u64, id: Metablock, offset: usize, ino: u64 } = "dir-dangling", Error,
        "the entry at byte {offset} of leaf {id} of directory {dir} names inode {ino}, which is not alive";
    Slot { dir: u64, id: Metablock, slot: usize, field: &'static str } = "dir-slot", Error,
        "slot {slot} of index {id} of directory {dir}: {field}";
    DirectoryTwice { ino: u64, dir: u64 } = "dir-twice", Error,
        "directory {ino} has a second name, in directory {dir}";
    Parent { ino: u64, stored: u64, found: u64 } = "dir-parent", Error,
        "directory {ino} says its parent is {stored}, but its name is in directory {found}";
    Entries { ino: u64, stored: u64, found: u64 } = "dir-entries", Error,
        "directory {ino} says {stored} entries, its leaves have {found}";
    // Data pages, section 7.
    PageEntry { ino: u64, index: u64, field: &'static str } = "page-entry", Error,
        "the entry of page {index} of inode {ino} has a {field} that is not allowed";
    PageSystem { ino: u64, index: u64, page: u64 } = "page-system", Error,
        "page {index} of inode {ino} lies at page {page}, which belongs to a superblock, the log or metadata";
    PageBeyond { ino: u64, index: u64 } = "page-beyond", Error,
        "inode {ino} has data at page {index}, beyond its size, and is not on the hidden list";
    PageClear { first: u64, count: u64 } = "page-clear", Error,
        "{count} pages from page {first} on are used but free in the bitmap: they may be given away";
    PageSet { first: u64, count: u64 } = "page-set", Error,
        "{count} pages from page {first} on are in use in the bitmap but nothing uses them: they are leaked";
    Share { page: u64, stored: u64, found: u64 } = "share-count", Error,
        "page {page} has {stored} extra references according to SHARES, the block maps have {found}";
    DataBad { ino: u64, index: u64, page: u64 } = "data-bad", Error,
        "page {index} of inode {ino} (page {page}) cannot be read or has a wrong CRC: reading it gives EIO";
    DataLost { ino: u64, index: u64 } = "data-lost", Warning,
        "page {index} of inode {ino} is lost: what was written to it is nowhere, and reading it gives EIO";
    DataTail { ino: u64, index: u64 } = "data-tail", Error,
        "page {index} of inode {ino} is not zero beyond the file's size: old bytes would show when it grows";
    Staged { ino: u64, index: u64, field: &'static str } = "staged", Error,
        "the staged page {index} of inode {ino} has a wrong {field}";
    // Xattrs and totals.
    Xattr { ino: u64, field: &'static str } = "xattr", Error,
        "the extended attributes of inode {ino} have a wrong {field}";
    Total { field: &'static str, stored: u64, found: u64 } = "total", Error,
        "TOTALS says {stored} {field}, there are {found}";
}

/// All inodes that a metablock may hold, or the one of `owners` that refers to it.
pub(crate) fn inodes_of(id: MetaId, owners: &BTreeMap<u64, u64>) -> Vec<u64> {
    match id.space() {
        Some(Space::Inodes) => {
            let first = id.index().saturating_mul(PER_BLOCK);
            (first..first.saturating_add(PER_BLOCK))
                .filter(|ino| *ino != 0)
                .collect()
        }
        _ => owners.get(&id.0).copied().into_iter().collect(),
    }
}

impl Finding {
    /// The inodes that it is about: of a metablock that is lost all that it may hold, or the one of `owners` that refers to it.
    pub(crate) fn inodes(&self, owners: &BTreeMap<u64, u64>) -> Vec<u64> {
        match *self {
            Finding::LogData { ino, .. }
            | Finding::LogUnbrought { ino, .. }
            | Finding::Inode { ino, .. }
            | Finding::Hole { ino, .. }
            | Finding::HoleUnlisted { ino }
            | Finding::InodeNumberClear { ino }
            | Finding::InodePages { ino, .. }
            | Finding::LinkCount { ino, .. }
            | Finding::OrphanClear { ino }
            | Finding::OrphanSet { ino }
            | Finding::Unreached { ino }
            | Finding::NodeMissing { owner: ino, .. }
            | Finding::NodeTwice { owner: ino, .. }
            | Finding::Node { owner: ino, .. }
            | Finding::Leaf { dir: ino, .. }
            | Finding::Entry { dir: ino, .. }
            | Finding::EntryInode { dir: ino, .. }
            | Finding::Slot { dir: ino, .. }
            | Finding::DirectoryTwice { ino, .. }
            | Finding::Parent { ino, .. }
            | Finding::Entries { ino, .. }
            | Finding::PageEntry { ino, .. }
            | Finding::PageSystem { ino, .. }
            | Finding::PageBeyond { ino, .. }
            | Finding::DataBad { ino, .. }
            | Finding::DataLost { ino, .. }
            | Finding::DataTail { ino, .. }
            | Finding::Staged { ino, .. }
            | Finding::Xattr { ino, .. } => vec![ino],
            Finding::Metablock { id, .. } | Finding::MetaLost { id } | Finding::Header { id, .. } => {
                inodes_of(id.0, owners)
            }
            _ => Vec::new(),
        }
    }

    /// The generation of the lost superblock, newer than the one taken, that it tells of.
    pub(crate) fn lost_superblock(&self) -> Option<u64> {
        match self {
            Finding::SuperblockLost { base: lost, .. }
            | Finding::SuperblockNewer { base: lost, .. }
            | Finding::SuperblockPlace { generation: lost, .. } => Some(*lost),
            _ => None,
        }
    }

    /// Whether it is about one page of file data, of which a pool has more than of all else.
    pub(crate) fn is_of_data(&self) -> bool {
        matches!(
            self,
            Finding::DataBad { .. } | Finding::DataLost { .. } | Finding::DataTail { .. }
        )
    }
}
