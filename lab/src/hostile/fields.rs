//! The fields of every structure in docs/SPEC.md: name, offset, width and what the number means.

/// What a field's number stands for; decides which alien values are interesting.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sort {
    /// A number, a flag, bytes.
    Plain,
    /// A device page.
    Page,
    /// A metablock id.
    Node,
    /// An inode number.
    Ino,
}

/// One field: `repeat` neighbours of `width` bytes, all changed alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Name as in the SPEC.
    pub name: &'static str,
    /// Offset in its structure, bytes.
    pub offset: usize,
    /// Bytes.
    pub width: usize,
    /// How many of it follow each other.
    pub repeat: usize,
    /// What it means.
    pub sort: Sort,
}

const fn plain(name: &'static str, offset: usize, width: usize) -> Field {
    Field {
        name,
        offset,
        width,
        repeat: 1,
        sort: Sort::Plain,
    }
}

const fn of(name: &'static str, offset: usize, width: usize, sort: Sort) -> Field {
    Field {
        name,
        offset,
        width,
        repeat: 1,
        sort,
    }
}

const fn all(name: &'static str, offset: usize, width: usize, repeat: usize, sort: Sort) -> Field {
    Field {
        name,
        offset,
        width,
        repeat,
        sort,
    }
}

/// The superblock without its roots (S-2.2).
pub const SUPERBLOCK: &[Field] = &[
    plain("magic", 0, 8),
    plain("version", 8, 4),
    plain("meta_copies", 12, 4),
    plain("pool id", 16, 16),
    plain("label", 32, 64),
    of("pages", 96, 8, Sort::Page),
    plain("generation", 104, 8),
    plain("incarnation", 112, 8),
    plain("seq", 120, 8),
    of("log_start", 128, 8, Sort::Page),
    of("log_pages", 136, 8, Sort::Page),
    plain("log_seq", 144, 8),
    plain("group", 152, 8),
    plain("chain", 160, 8),
    plain("durable", 168, 8),
    of("zone_pages", 176, 8, Sort::Page),
    plain("zone_current", 184, 8),
    plain("zone_next", 192, 8),
    plain("chunk_pages", 200, 4),
    plain("state", 204, 4),
    plain("name seed", 208, 16),
    plain("created seconds", 224, 8),
    plain("created nanoseconds", 232, 4),
    plain("made_pages", 236, 4),
    plain("incompat", 240, 8),
    plain("ro_compat", 248, 8),
    plain("root 0", 256, 40),
    plain("protect", 656, 1),
    plain("reserved1", 657, 7),
    of("history_start", 664, 8, Sort::Page),
    plain("history_pages", 672, 4),
    plain("reserved2", 676, 4),
];

/// A map entry (S-4.3).
pub const MAP_ENTRY: &[Field] = &[
    of("first", 0, 8, Sort::Page),
    of("second", 8, 8, Sort::Page),
    plain("crc", 16, 8),
    plain("generation", 24, 4),
    plain("kind", 28, 1),
    plain("state", 29, 1),
    plain("reserved", 30, 2),
];

/// What stands behind the map entry in a root (S-4.2).
pub const ROOT: &[Field] = &[plain("height", 32, 1), plain("root reserved", 33, 7)];

/// The header of a metablock (S-3.2).
pub const HEADER: &[Field] = &[
    plain("magic", 0, 4),
    plain("kind", 4, 1),
    plain("level", 5, 1),
    plain("reserved", 6, 2),
    of("id", 8, 8, Sort::Node),
    of("owner", 16, 8, Sort::Ino),
    plain("generation", 24, 4),
    plain("pool", 28, 4),
];

/// A chunk in a HOMES metablock (S-4.5).
pub const CHUNK: &[Field] = &[
    of("start", 0, 6, Sort::Page),
    plain("pages", 6, 1),
    plain("reserved", 7, 1),
    plain("used", 8, 32),
];

/// An inode (S-5.2) without its body area.
pub const INODE: &[Field] = &[
    plain("state", 0, 4),
    plain("mode", 4, 4),
    plain("uid", 8, 4),
    plain("gid", 12, 4),
    plain("nlink", 16, 4),
    plain("rdev", 20, 4),
    plain("flags", 24, 4),
    plain("body", 28, 1),
    plain("height", 29, 1),
    plain("xattr", 30, 2),
    plain("size", 32, 8),
    plain("pages", 40, 8),
    plain("born", 48, 8),
    plain("cur", 56, 8),
    plain("atime", 64, 8),
    plain("mtime", 72, 8),
    plain("ctime", 80, 8),
    plain("btime", 88, 8),
    plain("atime_nsec", 96, 4),
    plain("mtime_nsec", 100, 4),
    plain("ctime_nsec", 104, 4),
    plain("btime_nsec", 108, 4),
    of("parent", 112, 8, Sort::Ino),
    plain("entries", 120, 8),
    of("root", 128, 8, Sort::Node),
    of("xattrs", 136, 8, Sort::Node),
    plain("reserved", 144, 8),
    plain("body area", 152, 64),
    plain("xattr area", 216, 40),
    plain("attr name length", 216, 1),
    plain("attr namespace", 217, 1),
    plain("attr value length", 218, 2),
];

/// The pending hole in the body area of an inode with a tree (S-5.8), offsets in the inode.
pub const HOLE: &[Field] = &[plain("from", 152, 8), plain("to", 160, 8)];

/// A page entry (S-7.2).
pub const PAGE_ENTRY: &[Field] = &[
    of("page", 0, 6, Sort::Page),
    plain("flags", 6, 2),
    plain("crc", 8, 4),
    plain("version", 12, 4),
];

/// A child of a block map node (S-7.1).
pub const CHILD: &[Field] = &[
    of("id", 0, 8, Sort::Node),
    plain("generation", 8, 4),
    plain("reserved", 12, 4),
];

/// The head of a directory leaf (S-6.1), offsets in the metablock.
pub const LEAF_HEAD: &[Field] = &[
    plain("tail", 32, 2),
    plain("live", 34, 2),
    plain("dead", 36, 2),
    plain("reserved", 38, 2),
];

/// A directory entry (S-6.2).
pub const DIRENT: &[Field] = &[
    plain("key", 0, 8),
    of("inode", 8, 8, Sort::Ino),
    plain("version", 16, 4),
    plain("kind", 20, 1),
    plain("name length", 21, 1),
    plain("state", 22, 1),
    plain("reserved", 23, 1),
    plain("name", 24, 2),
];

/// A directory index (S-6.4), offsets in the metablock.
pub const INDEX: &[Field] = &[
    of("child 0", 32, 8, Sort::Node),
    of("child 127", 32 + 127 * 8, 8, Sort::Node),
    of("child 255", 32 + 255 * 8, 8, Sort::Node),
    all("all children", 32, 8, 256, Sort::Node),
];

/// All entries of a block map node, offsets in the metablock.
pub const MAP_NODE: &[Field] = &[
    all("all entries", 32, 16, 254, Sort::Node),
    plain("first word", 32, 8),
    plain("last word", 32 + 253 * 16, 8),
];

/// The head of a metablock of an xattr chain and the first attribute (S-7.4), offsets in the metablock.
pub const XATTR: &[Field] = &[
    of("next", 32, 8, Sort::Node),
    plain("used", 40, 2),
    plain("reserved", 42, 6),
    plain("attr name length", 48, 1),
    plain("attr namespace", 49, 1),
    plain("attr value length", 50, 2),
    plain("attr name", 52, 2),
];

/// A bitmap (S-7.5), offsets in the metablock.
pub const BITMAP: &[Field] = &[
    plain("first bits", 32, 8),
    plain("later bits", 64, 8),
    plain("middle bits", 160, 32),
    plain("last bits", 4088, 8),
    all("all bits", 32, 8, 508, Sort::Plain),
];

/// Reference counts (S-7.3), offsets in the metablock.
pub const SHARES: &[Field] = &[
    plain("count 0", 32, 2),
    all("some counts", 32 + 2 * 512, 2, 256, Sort::Plain),
    all("all counts", 32, 2, 2032, Sort::Plain),
];

/// Totals (S-7.5), offsets in the metablock.
pub const TOTALS: &[Field] = &[
    plain("pages", 32, 8),
    plain("inodes", 40, 8),
    plain("nodes", 48, 8),
    plain("shares", 56, 8),
    plain("rest", 64, 8),
    plain("pages of another stripe", 96, 8),
];

/// The head of a log page (S-8.2).
pub const LOG_PAGE: &[Field] = &[
    plain("magic", 0, 4),
    plain("used", 4, 2),
    plain("flags", 6, 1),
    plain("reserved", 7, 1),
    plain("sequence", 8, 8),
    plain("group", 16, 8),
    plain("durable", 24, 8),
    plain("base", 32, 8),
    plain("seq", 40, 8),
];

/// The head of every record (S-8.4); the bodies begin behind it.
pub const RECORD: &[Field] = &[plain("type", 0, 1), plain("length", 1, 3)];

const RUN: &[Field] = &[
    plain("space", 4, 1),
    plain("reserved", 5, 3),
    of("start", 8, 8, Sort::Page),
    plain("count", 16, 4),
];

const STAGED: &[Field] = &[
    of("inode", 4, 8, Sort::Ino),
    plain("index", 12, 8),
    plain("version", 20, 4),
    of("base", 24, 8, Sort::Page),
    plain("base crc", 32, 4),
    plain("offset", 36, 2),
    plain("length", 38, 2),
];

/// Name and body fields (S-8.5) of the records of types 1 to 13; offsets count from the record's head.
const RECORDS: [(&str, &[Field]); 13] = [
    (
        "record update",
        &[
            of("id", 4, 8, Sort::Node),
            plain("generation", 12, 4),
            plain("ranges", 16, 2),
            plain("range offset", 18, 2),
            plain("range length", 20, 2),
            plain("bytes", 22, 2),
        ],
    ),
    (
        "record birth",
        &[
            of("id", 4, 8, Sort::Node),
            plain("generation", 12, 4),
            plain("kind", 16, 1),
            plain("level", 17, 1),
            plain("reserved", 18, 2),
            of("owner", 20, 8, Sort::Ino),
        ],
    ),
    (
        "record death",
        &[of("id", 4, 8, Sort::Node), plain("generation", 12, 4)],
    ),
    ("record alloc", RUN),
    ("record free", RUN),
    (
        "record ref",
        &[
            of("page", 4, 8, Sort::Page),
            plain("count", 12, 4),
            plain("delta", 16, 4),
        ],
    ),
    ("record create", &[of("inode", 4, 8, Sort::Ino), plain("born", 12, 8)]),
    (
        "record link",
        &[of("inode", 4, 8, Sort::Ino), of("directory", 12, 8, Sort::Ino)],
    ),
    (
        "record unlink",
        &[
            of("inode", 4, 8, Sort::Ino),
            of("directory", 12, 8, Sort::Ino),
            plain("nlink", 20, 4),
            plain("born", 24, 8),
        ],
    ),
    ("record truncate", &[of("inode", 4, 8, Sort::Ino), plain("size", 12, 8)]),
    (
        "record map-entry",
        &[
            of("inode", 4, 8, Sort::Ino),
            plain("index", 12, 8),
            of("page", 20, 8, Sort::Page),
            plain("count", 28, 4),
            plain("version", 32, 4),
            plain("last length", 36, 4),
            plain("crc", 40, 4),
        ],
    ),
    ("record tail", STAGED),
    ("record zero", STAGED),
];

/// Name and body fields of the records of a type.
pub fn record(kind: u8) -> (&'static str, &'static [Field]) {
    let row = usize::from(kind).checked_sub(1).and_then(|i| RECORDS.get(i));
    row.copied().unwrap_or(("record unknown", &[]))
}
