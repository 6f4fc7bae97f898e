//! Repair: what a walk can compute is made anew in memory, and laid out as the pages of the next checkpoint (S-21.3, S-21.16).
//!
//! [`plan`] reads and changes nothing. What it gives is pages to be written, in an order that leaves the pool as it was until
//! the superblock stands, and the sentences that say what will be different. It is given only if a walk over the pool as it
//! would be then finds no error.

mod bodies;
mod carried;
mod edit;
mod given;
mod layout;
mod made;
mod names;
mod older;
mod over;
mod space;
mod told;
mod tree;

use crate::finding::{Finding, Severity};
use crate::image::Image;
use crate::pool::{Load, Pool};
use crate::replay::{self, Replayed};
use crate::report::{Report, Sink};
use crate::sentence::{about, whose};
use crate::staged::Stage;
use crate::walk::{Options, Walk};
use crate::{adrift, history, map, missed, plog, scan, superblock, walk};
use keepfs_format::history::{Event, GIVEN_UP, Lasting, REPAIR};
use keepfs_format::shown::shown;
use keepfs_format::superblock::Superblock;
use keepfs_format::{FromBytes, Kind, MetaId, PAGE, PoolId, Space, mmp};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use given::Given;
pub use layout::Write;
use over::Over;

/// What a repair would do.
#[derive(Debug)]
pub struct Plan {
    /// What is wrong, as a check tells it.
    pub before: Report,
    /// What will be different, one sentence each.
    pub actions: Vec<String>,
    /// What cannot be brought back, for the list of damages (S-21.11); without times.
    pub given_up: Vec<Lasting>,
    /// The pages to be written; empty if there is nothing to do.
    pub writes: Vec<Write>,
    /// Generation of the superblock that stands when all is written.
    pub generation: u64,
    /// Id of the pool.
    pub pool: PoolId,
    /// Pages of the pool.
    pub pages: u64,
    /// There was no superblock any more.
    pub is_made: bool,
    /// Files may be lost, or older than they were, that nothing names: a part of the map, every superblock or a carried group is lost.
    pub may_be_older: bool,
    /// That is so because of a carried group (S-21.25).
    pub is_carried_lost: bool,
    /// What a check finds then.
    pub after: Report,
    superblock: Box<Superblock>,
}

impl Plan {
    /// Writes what is given up into the pool's own history too, told at that time since 1970 (S-21.11).
    pub fn tell(&mut self, image: &dyn Image, now: Duration) {
        if self.given_up.is_empty() {
            return;
        }
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        for entry in &mut self.given_up {
            (entry.first, entry.last) = (seconds, seconds);
        }
        let event = Event {
            seconds,
            nanoseconds: now.subsec_nanos(),
            place: REPAIR,
            verdict: given::UNKNOWN,
            done: GIVEN_UP,
            window_ms: u32::MAX,
            text: given::sentence(&self.given_up),
            ..Event::default()
        };
        let pages = history::with(image, &self.superblock, event, &self.given_up);
        let writes = pages.into_iter().map(|(page, bytes)| Write {
            page,
            bytes,
            is_superblock: false,
        });
        self.writes.splice(0..0, writes);
    }
}

/// Why a pool cannot be repaired.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No superblock is valid, and none can be made.
    #[error("{0}; what can be read comes out with `keepfs salvage`")]
    NoPool(Finding),
    /// A version that this one does not know may have written it.
    #[error("{0}: repairing it might undo what a later Keepfs knows of")]
    Unknown(Finding),
    /// Another machine may have it.
    #[error(
        "{host} has the pool or had it when it failed: only a mount can tell; what can be read comes out with `keepfs salvage`"
    )]
    Claimed {
        /// What the machine calls itself.
        host: String,
    },
    /// It needs more pages than are free.
    #[error(
        "the repair needs {needed} free pages and the pool has {free}; what can be read comes out with `keepfs salvage`"
    )]
    NoRoom {
        /// Pages needed.
        needed: u64,
        /// Pages free.
        free: u64,
    },
    /// What was planned would leave an error.
    #[error("this cannot be repaired: {0}; what can be read comes out with `keepfs salvage`")]
    Left(Finding),
    /// A walk of what is left would not end.
    #[error("{0}")]
    Other(&'static str),
    /// Each round of it found something else.
    #[error(
        "the repair comes to no end (at last: {0}): this is a bug, tell its makers; what can be read comes out with `keepfs salvage`"
    )]
    Endless(String),
}

/// Rounds in which what follows from a repair is repaired.
const ROUNDS: usize = 6;

/// Plans the repair of a pool.
///
/// # Errors
/// [`Refusal`]: nothing can be done, and nothing was.
pub fn plan(image: &dyn Image) -> Result<Plan, Refusal> {
    let before = walk(image, &Options::default());
    judge(&before)?;
    let mut made = None;
    if let Some(finding) = before.findings.iter().find(|f| matches!(f, Finding::NoSuperblock {})) {
        made = Some(made::superblock(image).ok_or_else(|| Refusal::NoPool(finding.clone()))?);
    }
    let known = made.clone().or_else(|| superblock::choose(image, &mut Sink::new(0)));
    let sb = known.ok_or(Refusal::NoPool(Finding::NoSuperblock {}))?;
    let (pool, pages, is_made) = (PoolId(sb.pool), sb.pages.get(), made.is_some());
    if before.is_sound() && !before.findings.iter().any(is_mended) {
        return Ok(Plan {
            after: before.clone(),
            generation: before.generation,
            pool,
            pages,
            is_made,
            may_be_older: false,
            is_carried_lost: false,
            before,
            actions: Vec::new(),
            given_up: Vec::new(),
            writes: Vec::new(),
            superblock: sb,
        });
    }
    let laid = match laid_out(image, &before, made.as_deref(), None) {
        // What marks lost pages is what can be done without.
        Err(Refusal::NoRoom { .. }) => laid_out(image, &before, made.as_deref(), Some(0))?,
        other => other?,
    };
    let over = Over {
        image,
        pages: laid.writes.iter().map(|write| (write.page, &*write.bytes)).collect(),
    };
    let after = walk(&over, &Options::default());
    let is_carried_lost = missed::is_carried_lost(&before.findings);
    if let Some(left) = after.errors().next() {
        return Err(Refusal::Left(left.clone()));
    }
    Ok(Plan {
        generation: after.generation,
        pool,
        pages,
        is_made,
        may_be_older: is_made || laid.is_unled || is_carried_lost,
        is_carried_lost,
        before,
        actions: laid.actions,
        given_up: laid.given_up,
        writes: laid.writes,
        after,
        superblock: sb,
    })
}

/// What a repair does, gives up and writes.
struct Laid {
    actions: Vec<String>,
    given_up: Vec<Lasting>,
    writes: Vec<Write>,
    /// A part of the map was lost that led to files.
    is_unled: bool,
}

/// What is done and written, with so many nodes to mark lost pages.
fn laid_out(
    image: &dyn Image,
    before: &Report,
    made: Option<&Superblock>,
    marks: Option<u64>,
) -> Result<Laid, Refusal> {
    let mut mender = Mender::open(image, made)?;
    unclaimed(image, &mender.walk.pool.sb)?;
    mender.marks = marks;
    mender.told(before);
    mender.blocks();
    mender.older();
    mender.rounds()?;
    mender.lose_carried();
    let writes = layout::lay_out(&mut mender)?;
    Ok(Laid {
        given_up: mender.given.entries(),
        actions: mender.sentences(),
        is_unled: !mender.pool().age.unled.is_empty(),
        writes,
    })
}

/// Warnings that a repair is for (S-21.18): what is lost is cut off, and what has one good copy gets two. Not pages of the log that are
/// mended: what it carries over is without parity (S-21.5), a mount's is not.
fn is_mended(finding: &Finding) -> bool {
    matches!(
        finding,
        Finding::MetaLost { .. }
            | Finding::MetaCopy { .. }
            | Finding::SuperblockCopy { .. }
            | Finding::SuperblockFlipped { .. }
            | Finding::SuperblockBeside { .. }
            | Finding::SuperblockNewer { .. }
    )
}

fn judge(before: &Report) -> Result<(), Refusal> {
    let unknown = |f: &&Finding| {
        matches!(
            f,
            Finding::SuperblockField { .. } | Finding::SuperblockFeatures { .. } | Finding::SuperblockCut { .. }
        )
    };
    if let Some(finding) = before.findings.iter().find(unknown) {
        return Err(Refusal::Unknown(finding.clone()));
    }
    Ok(())
}

/// S-2.24: a pool that a machine has, as far as the block says, is not written to.
fn unclaimed(image: &dyn Image, sb: &Superblock) -> Result<(), Refusal> {
    let Some(page) = superblock::mmp_page(sb) else {
        return Ok(());
    };
    let mut bytes = [0; PAGE];
    let is_read = image.read(page, &mut bytes).is_ok();
    let block = mmp::Block::read_from_prefix(&bytes).ok().filter(|_| is_read);
    match block {
        Some((block, _)) if block.magic == mmp::MAGIC && block.state.get() == mmp::USED => {
            let host = block.host.split(|byte| *byte == 0).next().unwrap_or_default();
            let host = String::from_utf8_lossy(host).into_owned();
            Err(Refusal::Claimed { host })
        }
        _ => Ok(()),
    }
}

/// A pool while it is repaired in memory.
pub(crate) struct Mender<'i> {
    /// None only while a walk has it.
    walk: Walk<'i>,
    log: LogEnd,
    /// Greatest generation of a superblock that anything tells of.
    generation: u64,
    actions: Vec<Action>,
    given: Given,
    /// Inodes that a walk found something wrong about.
    flagged: BTreeSet<u64>,
    /// Files with a node that is older than it should be.
    aged: BTreeSet<u64>,
    seq: u64,
    /// Pages of files that stood in a carried group that is lost.
    carried: adrift::Drifted,
    /// Nodes that may still be made to mark lost pages; None: not yet known.
    marks: Option<u64>,
}

/// Something that will be different.
struct Action {
    sentence: String,
    /// The inode that it is about.
    ino: Option<u64>,
}

/// Where the log ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogEnd {
    /// Pages that were accepted.
    pub seen: u64,
    /// Number of the group that would come next.
    pub group: u64,
    /// Greatest group told as durable.
    pub durable: u64,
}

impl<'i> Mender<'i> {
    fn open(image: &'i dyn Image, made: Option<&Superblock>) -> Result<Self, Refusal> {
        let mut sink = Sink::new(usize::MAX);
        let known = made
            .map(|sb| Box::new(*sb))
            .or_else(|| superblock::choose(image, &mut sink));
        let sb = known.ok_or(Refusal::NoPool(Finding::NoSuperblock {}))?;
        let mut generation = sb.generation.get();
        let mut pool = Pool::new(image, sb, sink);
        map::read(&mut pool);
        if made.is_some() {
            pool.age.is_without_log = true;
            let spaces = Space::ALL.into_iter();
            spaces.for_each(|space| pool.holes.add(space, 0, 1 << 56));
        }
        let found = scan::fill(&mut pool);
        let log = plog::read(&mut pool);
        for finding in adrift::beside(&pool).iter().chain(&pool.sink.findings) {
            generation = generation.max(finding.lost_superblock().unwrap_or(0));
        }
        let replayed = replay::replay(&mut pool, &log);
        let seq = replayed.seq;
        let mut mender = Mender {
            log: LogEnd {
                seen: log.seen,
                group: log.next,
                durable: log.durable,
            },
            generation,
            actions: Vec::new(),
            given: Given::default(),
            flagged: BTreeSet::new(),
            aged: BTreeSet::new(),
            seq,
            carried: adrift::Drifted::new(),
            marks: None,
            walk: Walk::new(pool, replayed, Options::default()),
        };
        if made.is_some() {
            mender.born();
        }
        let unled = mender.pool().age.unled.clone();
        unled.iter().for_each(|id| mender.given.metadata(0, *id));
        if found > 0 || !unled.is_empty() {
            let age = match unled.is_empty() && mender.pool().age.unproved.is_empty() {
                true => "",
                false => ", and some may be older than they should be, or missing",
            };
            mender.act(format!(
                "the map is made anew with {found} metablocks that were found by their headers{age}"
            ));
        }
        Ok(mender)
    }

    pub fn act(&mut self, sentence: String) {
        self.actions.push(Action { sentence, ino: None });
    }

    /// Something about an inode, which is told with its path.
    pub fn act_on(&mut self, ino: u64, sentence: String) {
        self.given.wants(ino);
        self.actions.push(Action {
            sentence,
            ino: Some(ino),
        });
    }

    /// What will be different, with the paths of before.
    fn sentences(&self) -> Vec<String> {
        let sentence = |action: &Action| {
            let file = action.ino.map(|ino| whose(ino, &shown(&self.given.path(ino))));
            about(file.into_iter().collect(), &action.sentence)
        };
        self.actions.iter().map(sentence).collect()
    }

    pub fn pool(&mut self) -> &mut Pool<'i> {
        &mut self.walk.pool
    }

    /// Metablocks of which no copy is good end here: what they held is missing from now on, and is looked after as that.
    fn blocks(&mut self) {
        for space in Space::ALL {
            for index in self.pool().live(space) {
                let id = MetaId::new(space, index);
                if matches!(self.pool().load(id), Load::Bad) {
                    let generation = self.pool().last_generation(id);
                    self.pool().remove(id, generation);
                    self.lost(id);
                }
            }
        }
        self.headless();
    }

    fn lost(&mut self, id: MetaId) {
        let (space, index) = (id.space(), id.index());
        if matches!(space, Some(Space::Inodes | Space::Nodes)) {
            self.given.metadata(0, id.0);
        }
        let text = match space {
            Some(Space::Inodes) => {
                let first = index.saturating_mul(keepfs_format::inode::PER_BLOCK);
                format!(
                    "metablock {id} is lost, inodes {first} to {} with it",
                    first.saturating_add(14)
                )
            }
            Some(Space::Nodes) => format!("metablock {id} is lost, what it led to is cut off"),
            _ => format!("metablock {id} is computed anew"),
        };
        self.act(text);
    }

    /// Walks, and repairs what is found, until nothing is.
    fn rounds(&mut self) -> Result<(), Refusal> {
        for round in 0..ROUNDS {
            let findings = self.look();
            let before = self.actions.len();
            let is_done = self.one_round(&findings)? && round > 0;
            if is_done && self.actions.len() == before {
                return Ok(());
            }
        }
        let findings = self.look();
        let errors = findings.iter().filter(|f| f.severity() == Severity::Error);
        let mut left: Vec<String> = errors.take(3).map(ToString::to_string).collect();
        left.extend(self.actions.iter().rev().take(3).map(|action| action.sentence.clone()));
        Err(Refusal::Endless(left.join("; ")))
    }

    /// Walks what stands in memory.
    fn look(&mut self) -> Vec<Finding> {
        let stage = core::mem::take(&mut self.walk.stage);
        let image = self.walk.pool.image;
        let sb = self.walk.pool.sb.clone();
        let mut pool = core::mem::replace(&mut self.walk.pool, Pool::new(image, sb, Sink::default()));
        pool.sink = Sink::of_errors();
        let replayed = Replayed {
            stage,
            seq: self.seq,
            ..Replayed::default()
        };
        self.walk = Walk::new(pool, replayed, Options::default());
        self.walk.run_for_repair();
        core::mem::take(&mut self.walk.pool.sink.findings)
    }

    /// True if nothing that was found is left to be repaired before space is looked at.
    fn one_round(&mut self, findings: &[Finding]) -> Result<bool, Refusal> {
        let is_file = |mender: &Mender<'_>, ino: &u64| mender.walk.inodes.get(ino).is_some_and(|f| !f.is_dir());
        let mut files = core::mem::take(&mut self.aged);
        let mut directories = BTreeSet::new();
        let mut fields: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
        for finding in findings.iter().filter(|f| f.severity() == Severity::Error) {
            match finding {
                Finding::Inode { ino, field } => fields.entry(*ino).or_default().push(field),
                Finding::Reserved { id, .. } | Finding::Header { id, .. } => self.frame(id.0),
                Finding::Staged { ino, index, .. } => self.unstage(*ino, *index),
                Finding::HoleUnlisted { ino } => self.hide(*ino),
                Finding::Leaf { dir, .. }
                | Finding::Entry { dir, .. }
                | Finding::EntryInode { dir, .. }
                | Finding::Slot { dir, .. } => {
                    directories.insert(*dir);
                }
                Finding::Entries { ino, .. } => {
                    directories.insert(*ino);
                }
                Finding::NodeMissing { owner: ino, .. }
                | Finding::NodeTwice { owner: ino, .. }
                | Finding::Node { owner: ino, .. } => {
                    files.insert(*ino);
                    if !is_file(self, ino) {
                        directories.insert(*ino);
                    }
                }
                Finding::PageEntry { ino, .. }
                | Finding::PageSystem { ino, .. }
                | Finding::PageBeyond { ino, .. }
                | Finding::InodePages { ino, .. }
                | Finding::Hole { ino, .. }
                | Finding::Xattr { ino, .. } => {
                    files.insert(*ino);
                }
                _ => {}
            }
        }
        for (ino, fields) in fields {
            self.fields(ino, &fields);
        }
        for ino in &files {
            self.body(*ino);
        }
        let changed = self.names(&directories)?;
        Ok(files.is_empty() && !changed)
    }

    /// Puts an inode on the hidden list.
    fn hide(&mut self, ino: u64) {
        let (id, at, mask) = keepfs_format::bitmap::bit(Space::Orphans, ino);
        if let Some(bytes) = self.pool().edit(id, Some(Kind::Bitmap)) {
            bytes[at] |= mask;
        }
    }

    fn unstage(&mut self, ino: u64, index: u64) {
        if self.walk.stage.pages.remove(&(ino, index)).is_some() {
            self.given.pages(ino, index, index);
            self.act_on(
                ino,
                format!("page {index} of inode {ino}, which the log has, belongs to no file and is dropped"),
            );
        }
    }

    pub fn stage(&self) -> &Stage {
        &self.walk.stage
    }
}
