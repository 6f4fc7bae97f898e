//! A small read-only view of a pool, for `keepfs dump` and for tests: what recovery would see, written nowhere.

mod content;
mod records;
mod salvage;
mod shapes;

pub use content::Xattr;
pub use records::LogGroup;
pub(crate) use salvage::leaves;
pub use salvage::{DIRECTORY, Listing, Needs, Part};
pub use shapes::{DirEntry, InodeView, MapView, PageView, RootView, SuperblockView};

use crate::finding::{Finding, Metablock};
use crate::image::Image;
use crate::inode;
use crate::pool::{Load, Pool, header};
use crate::report::Sink;
use crate::staged::Stage;
use crate::{adrift, dir, index, map, missed, plog, replay, scan, superblock};
use keepfs_format::inode::{DIR, Inode, LIVE};
use keepfs_format::superblock::Superblock;
use keepfs_format::{MetaId, PAGE, Space};
use std::collections::{BTreeSet, HashSet};

/// Why something cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No superblock slot is valid; what was found instead.
    #[error("{0}")]
    NoPool(Finding),
    /// The metablock that holds it cannot be trusted.
    #[error("metablock {0} cannot be read or is damaged")]
    Bad(Metablock),
    /// No such inode.
    #[error("inode {0} is not alive")]
    NotLive(u64),
    /// A directory was asked for.
    #[error("inode {0} is not a directory")]
    NotADirectory(u64),
    /// A data page is lost, or is not what its CRC says.
    #[error("page {index} of inode {ino} cannot be read")]
    Data {
        /// The inode.
        ino: u64,
        /// Page of the file.
        index: u64,
    },
    /// Extended attributes are malformed.
    #[error("the extended attributes of inode {0} are malformed")]
    Attributes(u64),
    /// A part of a path does not exist.
    #[error("no entry of the name {0:?}")]
    NoEntry(String),
}

/// The newest superblock (S-2.3), and nothing else: five pages are read, or nine. `None`: there is no pool.
pub fn superblock_of(image: &dyn Image) -> Option<Box<Superblock>> {
    superblock::choose(image, &mut Sink::new(0))
}

/// A pool after its log was applied in memory.
pub struct View<'i> {
    pool: Pool<'i>,
    stage: Stage,
    groups: Vec<LogGroup>,
    /// Directory leaves by owner, once somebody has asked.
    leaves: Option<salvage::Leaves>,
    /// Owners of nodes that are older than they should be.
    aged: BTreeSet<u64>,
    /// What was lost with a superblock or the log.
    losses: Vec<String>,
    /// Pages that stood in a log which is lost.
    drifted: adrift::Drifted,
}

impl<'i> View<'i> {
    /// Opens the newest superblock, reads the map and replays the log.
    ///
    /// # Errors
    /// [`ReadError::NoPool`]. Damage further on shows when it is read.
    pub fn open(image: &'i dyn Image) -> Result<View<'i>, ReadError> {
        View::of(image, superblock::choose, |_| {})
    }

    /// The same of a pool that is damaged (S-21.2): where the map is lost, and even without any superblock, what the device
    /// holds is found by its headers.
    ///
    /// # Errors
    /// [`ReadError::NoPool`]: no metablock is found either.
    pub fn salvage(image: &'i dyn Image) -> Result<View<'i>, ReadError> {
        let mut view = View::of(image, scan::superblock_of, |pool| {
            if pool.sb.zone_pages.get() == 0 {
                pool.age.is_without_log = true;
                let spaces = keepfs_format::Space::ALL;
                spaces.into_iter().for_each(|space| pool.holes.add(space, 0, 1 << 56));
            }
            let found = scan::fill(pool);
            scan::tell(pool, found);
        })?;
        view.losses = adrift::losses(&view.pool);
        if !view.losses.is_empty() {
            let staged = &view.stage.pages;
            view.drifted = adrift::staged(&view.pool);
            if view.is_carried_lost() {
                view.drifted.extend(missed::pages(&mut view.pool));
            }
            view.drifted.retain(|at| !staged.contains_key(at));
        }
        let rivals = view.pool.age.rivals;
        if rivals > 0 {
            view.losses.push(format!(
                "the map and HOMES are damaged, and {rivals} metablocks were found in several versions: some of what was copied may be \
                 older than it should be"
            ));
        } else if view.may_be_older() {
            view.losses.push(format!(
                "{} pages or entries of the map, which led to files and directories, are lost: what was found by headers in their place may be \
                 older than it was, and some of it missing",
                view.pool.age.unled.len()
            ));
        }
        Ok(view)
    }

    fn of(
        image: &'i dyn Image,
        choose: fn(&dyn Image, &mut Sink) -> Option<Box<Superblock>>,
        complete: fn(&mut Pool<'i>),
    ) -> Result<View<'i>, ReadError> {
        let mut sink = Sink::new(10_000);
        let Some(sb) = choose(image, &mut sink) else {
            // The first finding says most: a slot that breaks a rule comes before the sum of all.
            let first = sink.findings.into_iter().next();
            return Err(ReadError::NoPool(first.unwrap_or(Finding::NoSuperblock {})));
        };
        let mut pool = Pool::new(image, sb, sink);
        map::read(&mut pool);
        complete(&mut pool);
        let log = plog::read(&mut pool);
        let done = replay::replay(&mut pool, &log);
        let groups = log
            .groups
            .iter()
            .zip(0u64..)
            .map(|(group, n)| LogGroup::new(group, n < done.groups))
            .collect();
        let aged = crate::age::owners(&mut pool).into_keys().collect();
        Ok(View {
            pool,
            aged,
            losses: Vec::new(),
            drifted: adrift::Drifted::new(),
            stage: done.stage,
            groups,
            leaves: None,
        })
    }

    /// The newest superblock (S-2.3).
    pub fn superblock(&self) -> &Superblock {
        &self.pool.sb
    }

    /// The newest superblock, to be shown.
    pub fn superblock_view(&self) -> SuperblockView {
        SuperblockView::new(&self.pool.sb)
    }

    /// What was lost with a superblock or the log, of a pool that is salvaged (S-21.24): one sentence each.
    pub fn losses(&self) -> &[String] {
        &self.losses
    }

    /// Whether nothing proves that what is read is all there was, and the newest of it: a part of the map is lost (S-21.24).
    pub fn may_be_older(&self) -> bool {
        self.pool.age.rivals > 0 || !self.pool.age.unled.is_empty()
    }

    /// Whether small writes are lost that were synced before the last checkpoint, of which files is not known (S-21.25).
    pub fn is_carried_lost(&self) -> bool {
        missed::is_carried_lost(&self.pool.sink.findings)
    }

    /// What was wrong on the way here: superblocks, map, log. [`crate::walk()`] finds much more.
    pub fn findings(&self) -> &[Finding] {
        &self.pool.sink.findings
    }

    /// The groups of the log, whole ones only, taken or not.
    pub fn groups(&self) -> &[LogGroup] {
        &self.groups
    }

    /// The bytes of a metablock after the log; None if it is not alive.
    ///
    /// # Errors
    /// [`ReadError::Bad`].
    pub fn metablock(&mut self, id: MetaId) -> Result<Option<[u8; PAGE]>, ReadError> {
        match self.pool.load(id) {
            Load::Live(bytes) => Ok(Some(*bytes)),
            Load::Gone(_) => Ok(None),
            Load::Bad => Err(ReadError::Bad(id.into())),
        }
    }

    /// Where the checkpoint has a metablock; None if the map has no entry. The log may have changed its bytes since.
    pub fn lookup(&self, id: MetaId) -> Option<MapView> {
        let rows = &self.pool.rows[id.space()? as usize];
        let at = rows.binary_search_by_key(&id.index(), |row| row.index).ok()?;
        Some(MapView::new(id, &rows[at].entry))
    }

    /// Every map entry of a space, live or dead, ascending.
    pub fn map(&self, space: Space) -> Vec<MapView> {
        let rows = self.pool.rows[space as usize].iter();
        rows.map(|row| MapView::new(MetaId::new(space, row.index), &row.entry))
            .collect()
    }

    /// The inode as it stands in its metablock.
    ///
    /// # Errors
    /// [`ReadError::NotLive`], [`ReadError::Bad`].
    pub fn inode(&mut self, ino: u64) -> Result<Inode, ReadError> {
        let id = keepfs_format::inode::block_of(ino);
        let bytes = self.metablock(id)?.ok_or(ReadError::NotLive(ino))?;
        inode::at(&bytes, ino)
            .filter(|inode| inode.state.get() == LIVE)
            .ok_or(ReadError::NotLive(ino))
    }

    /// The inode, to be shown.
    ///
    /// # Errors
    /// As [`View::inode`].
    pub fn inode_view(&mut self, ino: u64) -> Result<InodeView, ReadError> {
        let inode = self.inode(ino)?;
        let staged = self
            .stage
            .pages
            .range((ino, 0)..=(ino, u64::MAX))
            .map(|((_, index), _)| *index)
            .collect();
        Ok(InodeView::new(ino, &inode, staged))
    }

    /// The entries of a directory, by cookie.
    ///
    /// # Errors
    /// [`ReadError::NotADirectory`], [`ReadError::NotLive`], [`ReadError::Bad`] if one of its nodes is damaged.
    pub fn list(&mut self, ino: u64) -> Result<Vec<DirEntry>, ReadError> {
        let inode = self.inode(ino)?;
        if inode.mode.get() >> 12 != u32::from(DIR) {
            return Err(ReadError::NotADirectory(ino));
        }
        let mut list = Vec::new();
        let mut seen = HashSet::new();
        let mut nodes = vec![inode.root.get()];
        while let Some(node) = nodes.pop() {
            if node == 0 || !seen.insert(node) {
                continue;
            }
            let bytes = self
                .metablock(MetaId(node))?
                .ok_or(ReadError::Bad(MetaId(node).into()))?;
            if index::is_index(header(&bytes).kind) {
                nodes.extend(index::children(&bytes));
            } else {
                list.extend(dir::entries(&bytes).into_iter().map(DirEntry::new));
            }
        }
        list.sort_by_key(|entry| entry.cookie);
        Ok(list)
    }

    /// The inode that a path from the root leads to. Symlinks are not followed.
    ///
    /// # Errors
    /// [`ReadError::NoEntry`], and as [`View::list`].
    pub fn resolve(&mut self, path: &[u8]) -> Result<u64, ReadError> {
        let mut ino = 1;
        for name in path.split(|b| *b == b'/').filter(|name| !name.is_empty()) {
            let found = self.list(ino)?.into_iter().find(|entry| entry.raw == name);
            ino = found
                .ok_or_else(|| ReadError::NoEntry(keepfs_format::shown::shown(name).into_owned()))?
                .ino;
        }
        Ok(ino)
    }
}
