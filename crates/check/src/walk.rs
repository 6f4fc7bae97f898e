//! The whole-tree walk: reads everything that is alive once and compares it with everything else.

use crate::bitmap::Set;
use crate::finding::Finding;
use crate::image::Image;
use crate::inode::Facts;
use crate::paths::{self, Dangling};
use crate::plog;
use crate::pool::{Load, Pool};
use crate::replay::{self, Replayed};
use crate::report::{Counts, Report, Sink};
use crate::staged::Stage;
use crate::{adrift, body, dir, inode, links, map, space, superblock};
use keepfs_format::superblock::CLEAN;
use keepfs_format::{MetaId, Space};
use std::collections::{BTreeMap, HashMap, HashSet};

/// What to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Read every data page: its CRC-32C, and the zeros beyond the file's size.
    pub data: bool,
    /// Most findings that are kept of a class: errors and others, each of metadata and of pages of files. The rest is counted.
    pub limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            data: false,
            limit: 10_000,
        }
    }
}

/// Checks the whole pool, as recovery would find it, without writing. Never panics, whatever the image holds.
pub fn walk(image: &dyn Image, options: &Options) -> Report {
    let mut sink = Sink::new(options.limit);
    let Some(sb) = superblock::choose(image, &mut sink) else {
        return Report {
            findings: sink.findings,
            dropped: sink.dropped,
            dropped_errors: sink.dropped_errors,
            ..Report::default()
        };
    };
    let mut pool = Pool::new(image, sb, sink);
    let replayed = recover(&mut pool);
    if let Some(finding) = adrift::beside(&pool) {
        pool.sink.push(finding);
    }
    let mut walk = Walk::new(pool, replayed, *options);
    walk.run();
    walk.report()
}

/// Reads the map and applies the log (S-9.1 to S-9.4).
pub(crate) fn recover(pool: &mut Pool<'_>) -> Replayed {
    map::read(pool);
    let log = plog::read(pool);
    replay::replay(pool, &log)
}

/// What is not known because a structure is bad; what follows from it is not told again.
#[derive(Debug, Default)]
pub(crate) struct Blind {
    /// Some user of pages or nodes could not be read.
    pub users: bool,
    /// Some directory could not be read.
    pub names: bool,
    /// The hidden list could not be read.
    pub orphans: bool,
    /// INODES metablocks that cannot be read.
    pub inodes: HashSet<u64>,
}

/// The state of a walk.
pub(crate) struct Walk<'i> {
    pub pool: Pool<'i>,
    pub options: Options,
    pub stage: Stage,
    pub counts: Counts,
    pub blind: Blind,
    /// Every live inode.
    pub inodes: HashMap<u64, Facts>,
    /// Names that lead to none of these.
    pub dangling: Dangling,
    /// Inodes that refer to nodes which cannot be read, by these.
    pub owners: BTreeMap<u64, u64>,
    /// Numbers on the hidden list.
    pub orphans: Set,
    /// Nodes that an inode or node refers to.
    pub nodes: Set,
    /// Pages of superblock slots, log, history and chunks.
    pub system: Set,
    /// Pages that block maps name.
    pub data: Set,
    /// References of data pages beyond the first.
    pub shared: BTreeMap<u64, u64>,
    /// Pages that the log allocated, and the CRCs that its map-entry records told.
    pub fresh: Set,
    pub brought: HashMap<u64, u32>,
    log_groups: u64,
    seq: u64,
}

impl<'i> Walk<'i> {
    pub fn new(pool: Pool<'i>, replayed: Replayed, options: Options) -> Self {
        let blind = !pool.holes.is_empty();
        Walk {
            counts: Counts {
                map_pages: pool.map_pages,
                close_copies: pool.close_copies,
                ..Counts::default()
            },
            pool,
            options,
            stage: replayed.stage,
            blind: Blind {
                users: blind,
                names: blind,
                ..Blind::default()
            },
            inodes: HashMap::new(),
            dangling: Dangling::default(),
            owners: BTreeMap::new(),
            orphans: Set::default(),
            nodes: Set::default(),
            system: Set::default(),
            data: Set::default(),
            shared: BTreeMap::new(),
            fresh: replayed.fresh,
            brought: replayed.brought,
            log_groups: replayed.groups,
            seq: replayed.seq,
        }
    }

    fn run(&mut self) {
        space::system_pages(self);
        self.run_tree();
        space::check(self);
        self.pool.fetch_rest();
    }

    /// The walk of a pool that is being repaired in memory: space is not compared, and what holds metadata is in use.
    pub fn run_for_repair(&mut self) {
        space::system_pages(self);
        for page in self.pool.home_pages.iter() {
            self.system.add(page);
        }
        self.run_tree();
    }

    fn run_tree(&mut self) {
        space::load_orphans(self);
        inode::all(self);
        let mut directories: Vec<u64> = self
            .inodes
            .iter()
            .filter(|(_, f)| f.is_dir())
            .map(|(ino, _)| *ino)
            .collect();
        directories.sort_unstable();
        for ino in directories {
            dir::directory(self, ino);
        }
        links::check(self);
        body::check_staged(self);
    }

    pub fn finding(&mut self, finding: Finding) {
        self.pool.sink.push(finding);
    }

    /// Whether the bad block is the reason why inode `ino` is not known.
    pub fn is_hidden(&self, ino: u64) -> bool {
        let block = keepfs_format::inode::block_of(ino).index();
        self.blind.inodes.contains(&block) || self.pool.holes.has(Space::Inodes, block)
    }

    /// Reads a metablock of spaces 2 to 9; None if it is zero. A bad one makes `bad` true.
    pub fn load(&mut self, id: MetaId, bad: &mut bool) -> Option<std::rc::Rc<crate::Page>> {
        match self.pool.load(id) {
            Load::Live(bytes) => Some(bytes),
            Load::Gone(_) => None,
            Load::Bad => {
                *bad = true;
                None
            }
        }
    }

    fn report(mut self) -> Report {
        self.counts.staged_pages = self.stage.pages.len() as u64;
        let findings = &self.pool.sink.findings;
        // Whether one that is lost said so nobody knows.
        let is_newest = findings.iter().all(|finding| finding.lost_superblock().is_none());
        let wanted = findings
            .iter()
            .flat_map(|finding| finding.inodes(&self.owners))
            .collect();
        let paths = paths::of(&mut self, &wanted);
        self.counts.metablocks = Space::ALL.iter().map(|space| self.pool.live(*space).len() as u64).sum();
        Report {
            generation: self.pool.sb.generation.get(),
            clean: is_newest && self.pool.sb.state.get() == CLEAN,
            log_groups: self.log_groups,
            seq: self.seq,
            counts: self.counts,
            findings: self.pool.sink.findings,
            dropped: self.pool.sink.dropped,
            dropped_errors: self.pool.sink.dropped_errors,
            paths,
            owners: self.owners,
        }
    }
}
