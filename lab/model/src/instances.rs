//! The instances: which changes there are and how often each thing happens.

use crate::state::{Budget, Shape};

/// A family of instances.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Plain,
    Staged,
    Room,
    Killed,
    Dropped,
    Shares,
    Nodes,
    Discard,
    BadPage,
    Rotten,
    Lost,
    Pages,
    PagesStaged,
    PagesDropped,
    Chunks,
    Inodes,
    Redo,
    RottenLog,
    RottenCarried,
    RottenEnd,
    RottenMeta,
    Wrong,
    WrongLog,
    WrongStaged,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Instance {
    /// Its name.
    pub name: &'static str,
    /// Its family; rules are removed from the first of a family.
    pub kind: Kind,
    /// For `long` only.
    pub long: bool,
    /// How often.
    pub left: Budget,
    /// Pages may be torn, too.
    pub tears: bool,
}

const fn of(name: &'static str, kind: Kind, counts: [u8; 11]) -> Instance {
    let [
        ops,
        syncs,
        checkpoints,
        cuts,
        kills,
        discards,
        bad,
        rotten,
        losses,
        strays,
        wrong,
    ] = counts;
    let left = Budget {
        ops,
        syncs,
        checkpoints,
        cuts,
        kills,
        discards,
        bad,
        rotten,
        losses,
        strays,
        wrong,
    };
    Instance {
        name,
        kind,
        long: false,
        left,
        tears: false,
    }
}

const fn long(name: &'static str, kind: Kind, counts: [u8; 11]) -> Instance {
    Instance {
        long: true,
        ..of(name, kind, counts)
    }
}

/// Changes, syncs, checkpoints, power cuts, deaths, discards, pages of the log that are not written, pages that become unreadable, staged pages that
/// are lost, deaths with redo that is damaged, pages of data that become wrong.
pub const INSTANCES: &[Instance] = &[
    of("plain", Kind::Plain, [3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
    Instance {
        tears: true,
        ..of("torn pages", Kind::Plain, [3, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0])
    },
    of("staged", Kind::Staged, [3, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0]),
    of("room", Kind::Room, [3, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0]),
    of("killed", Kind::Killed, [2, 1, 1, 2, 1, 0, 0, 0, 0, 0, 0]),
    of("dropped superblock", Kind::Dropped, [2, 1, 1, 2, 1, 0, 0, 0, 0, 0, 0]),
    of("shares", Kind::Shares, [3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
    of("nodes", Kind::Nodes, [4, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
    of("discard", Kind::Discard, [2, 2, 1, 1, 0, 1, 0, 0, 0, 0, 0]),
    of("bad page", Kind::BadPage, [3, 2, 1, 1, 0, 0, 2, 0, 0, 0, 0]),
    of("bad page, killed", Kind::BadPage, [2, 2, 1, 1, 1, 0, 1, 0, 0, 0, 0]),
    of("unreadable page", Kind::Rotten, [3, 2, 1, 1, 0, 0, 0, 1, 0, 0, 0]),
    of("lost page", Kind::Lost, [3, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0]),
    of("three pages", Kind::Pages, [4, 2, 0, 2, 0, 0, 0, 0, 0, 0, 0]),
    of(
        "three pages, staged",
        Kind::PagesStaged,
        [3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0],
    ),
    of(
        "three pages, dropped superblock",
        Kind::PagesDropped,
        [3, 2, 0, 2, 1, 0, 0, 0, 0, 0, 0],
    ),
    of("chunks", Kind::Chunks, [3, 1, 2, 1, 0, 0, 0, 0, 0, 0, 0]),
    of("inodes", Kind::Inodes, [3, 1, 1, 1, 2, 0, 0, 0, 0, 1, 0]),
    of("redo damaged", Kind::Redo, [3, 1, 0, 1, 2, 0, 0, 0, 0, 1, 0]),
    of("bad log at rest", Kind::RottenLog, [3, 2, 1, 1, 0, 0, 0, 1, 0, 0, 0]),
    of(
        "bad carried group",
        Kind::RottenCarried,
        [2, 1, 1, 1, 1, 0, 0, 1, 0, 0, 0],
    ),
    of("bad end of the log", Kind::RottenEnd, [3, 2, 1, 1, 0, 0, 0, 1, 0, 0, 0]),
    of("bad metadata", Kind::RottenMeta, [2, 2, 1, 2, 0, 0, 0, 1, 0, 0, 0]),
    of("wrong data", Kind::Wrong, [2, 2, 1, 2, 0, 0, 0, 0, 0, 0, 1]),
    of("wrong data, bad end", Kind::Wrong, [3, 2, 0, 1, 0, 0, 0, 1, 0, 0, 1]),
    of(
        "wrong data, redo damaged",
        Kind::Wrong,
        [3, 1, 0, 1, 2, 0, 0, 0, 0, 1, 1],
    ),
    of("wrong data, bad log", Kind::WrongLog, [3, 2, 0, 1, 0, 0, 0, 1, 0, 0, 1]),
    of(
        "wrong data, staged",
        Kind::WrongStaged,
        [3, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1],
    ),
    long("bad log, two cuts", Kind::RottenLog, [3, 2, 1, 2, 0, 0, 0, 1, 0, 0, 0]),
    long("bad end, two cuts", Kind::RottenEnd, [3, 2, 1, 2, 0, 0, 0, 1, 0, 0, 0]),
    long("wrong data 3", Kind::Wrong, [3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 1]),
    long("wrong data, twice", Kind::Wrong, [3, 2, 1, 1, 0, 0, 0, 0, 0, 0, 2]),
    long("wrong data, killed", Kind::Wrong, [2, 1, 1, 2, 1, 0, 0, 0, 0, 0, 1]),
    long(
        "wrong data, bad end, checkpoint",
        Kind::Wrong,
        [3, 2, 1, 1, 0, 0, 0, 1, 0, 0, 1],
    ),
    long(
        "wrong data, bad end, two cuts",
        Kind::Wrong,
        [2, 2, 1, 2, 0, 0, 0, 1, 0, 0, 1],
    ),
    long(
        "wrong data, bad log, checkpoint",
        Kind::WrongLog,
        [3, 2, 1, 1, 0, 0, 0, 1, 0, 0, 1],
    ),
    long(
        "wrong data, bad page",
        Kind::WrongStaged,
        [2, 2, 1, 2, 0, 0, 1, 0, 0, 0, 1],
    ),
    long(
        "wrong data, bad end, staged",
        Kind::WrongStaged,
        [3, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1],
    ),
    long("chunks, wrong data", Kind::Chunks, [2, 1, 2, 1, 0, 0, 0, 0, 0, 0, 1]),
    long("bad metadata 3", Kind::RottenMeta, [3, 2, 1, 2, 0, 0, 0, 1, 0, 0, 0]),
    long(
        "bad metadata, killed",
        Kind::RottenMeta,
        [2, 1, 1, 2, 1, 0, 0, 1, 0, 0, 0],
    ),
    long("plain 5", Kind::Plain, [5, 3, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
    long("two checkpoints", Kind::Plain, [4, 2, 2, 1, 0, 0, 0, 0, 0, 0, 0]),
    long("two cuts", Kind::Plain, [4, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0]),
    long("staged 4", Kind::Staged, [4, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
    long("killed 3", Kind::Killed, [3, 2, 1, 2, 1, 0, 0, 0, 0, 0, 0]),
    long(
        "dropped superblock, two syncs",
        Kind::Dropped,
        [2, 2, 1, 2, 1, 0, 0, 0, 0, 0, 0],
    ),
    long("nodes 5", Kind::Nodes, [5, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
    long("bad page, two cuts", Kind::BadPage, [3, 2, 1, 2, 0, 0, 1, 0, 0, 0, 0]),
    long("unreadable, killed", Kind::Rotten, [3, 2, 1, 1, 1, 0, 0, 1, 0, 0, 0]),
    long("shares 4", Kind::Shares, [4, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
    long(
        "three pages, two cuts",
        Kind::PagesStaged,
        [3, 2, 1, 2, 0, 0, 0, 0, 0, 0, 0],
    ),
    long(
        "three pages, killed",
        Kind::PagesStaged,
        [3, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0],
    ),
    long("chunks 4", Kind::Chunks, [4, 2, 2, 1, 0, 0, 0, 0, 0, 0, 0]),
    long("chunks, killed", Kind::Chunks, [2, 1, 2, 2, 1, 0, 0, 0, 0, 0, 0]),
    long("inodes 4", Kind::Inodes, [4, 2, 1, 1, 2, 0, 0, 0, 0, 1, 0]),
    long(
        "redo damaged, checkpoint",
        Kind::Redo,
        [3, 1, 1, 1, 2, 0, 0, 0, 0, 1, 0],
    ),
];

/// What the pool of a family is like.
pub fn shape(kind: Kind) -> Shape {
    let two = Shape {
        pages: 5,
        ring: 8,
        group: 2,
        carried: 2,
        chunks: false,
        apart: false,
    };
    match kind {
        Kind::Pages | Kind::PagesStaged | Kind::PagesDropped => Shape {
            ring: 12,
            group: 3,
            ..two
        },
        Kind::Chunks => Shape {
            pages: 7,
            chunks: true,
            ..two
        },
        Kind::RottenMeta => Shape {
            pages: 7,
            apart: true,
            ..two
        },
        _ => two,
    }
}

/// The instance of a family in which its rules are removed; where that `fails` the search ends early, so it may be larger.
pub fn for_removal(kind: Kind, fails: bool) -> Instance {
    let found = INSTANCES.iter().find(|i| i.kind == kind);
    let base = found.copied().unwrap_or(INSTANCES[0]);
    match kind {
        Kind::Plain => Instance {
            left: Budget { ops: 4, ..base.left },
            ..base
        },
        Kind::Killed if fails => Instance {
            left: Budget { ops: 3, ..base.left },
            ..base
        },
        _ => base,
    }
}
