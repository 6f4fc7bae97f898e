//! What is on the device, and what recovery makes of it (S-8, S-9): pages, the ring of the log, two superblocks.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::rules::{Rule, Rules};

/// Pages for data and metadata.
pub const PAGES: usize = 5;
/// Groups that the log holds.
pub const RING: u8 = 4;
/// Files, of one page each.
pub const FILES: usize = 2;
/// Metablocks that are born and die.
pub const NODES: usize = 2;

/// A page's number.
pub type Page = u8;
/// Content: each change makes another one; 0 is zeros.
pub type Val = u8;

/// What a page has.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Cell {
    /// Nothing that was written, or discarded.
    Blank,
    /// Half a write.
    Torn,
    /// A file's data.
    Data(Val),
    /// The same, and it cannot be read until it is written.
    Bad(Val),
    /// The metadata of a checkpoint.
    Meta(Arc<Tree>),
}

/// A file: its page with the content that its CRC tells, and staged content over it (S-8.8).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct File {
    /// The map entry.
    pub page: Option<(Page, Val)>,
    /// The staged page.
    pub staged: Option<Val>,
    /// It is lost: reading it is an error (S-8.8).
    pub lost: bool,
}

impl File {
    /// What it has.
    pub fn shows(self) -> Val {
        self.staged.or(self.page.map(|p| p.1)).unwrap_or(0)
    }
}

/// A metablock that is born and dies (S-3.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Node {
    /// Counts births.
    pub generation: u8,
    /// Between birth and death.
    pub alive: bool,
    /// What updates made.
    pub val: Val,
}

/// All metadata.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tree {
    /// The files.
    pub files: [File; FILES],
    /// References of each page beyond one (S-7.3).
    pub shares: [u8; PAGES],
    /// The metablocks.
    pub nodes: [Node; NODES],
}

/// What users see but for what is lost.
pub type Shows = ([Val; FILES], [(bool, Val); NODES]);

/// What users see, and which files they cannot read.
pub type Seen = (Shows, [bool; FILES]);

/// What becomes of a page that a file no longer names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Old {
    /// There was none.
    None,
    /// The last name: a free record.
    Frees(Page),
    /// Others name it: a ref record of −1.
    Drops(Page),
}

/// A record of the log (S-8.5); one stands for a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rec {
    /// alloc and map-entry.
    Map {
        /// The file.
        f: u8,
        /// Its new page.
        page: Page,
        /// The CRC told.
        val: Val,
        /// What it named before.
        old: Old,
    },
    /// ref of +1 and map-entry.
    Share {
        /// The file.
        f: u8,
        /// The other one's page.
        page: Page,
        /// The CRC told.
        val: Val,
        /// What it named before.
        old: Old,
    },
    /// The file's content goes.
    Unlink {
        /// The file.
        f: u8,
        /// What it named before.
        old: Old,
    },
    /// tail: a part of the page.
    Tail {
        /// The file.
        f: u8,
        /// What the rest of the page is from.
        before: Val,
        /// With these bytes over it.
        val: Val,
    },
    /// lost: staged data that a checkpoint carries over, and that memory has no more.
    Lost {
        /// The file.
        f: u8,
    },
    /// tail, whole: staged data that a checkpoint carries over (S-10.3).
    Carry {
        /// The file.
        f: u8,
        /// The whole content.
        val: Val,
    },
    /// birth.
    Birth {
        /// Its number.
        n: u8,
        /// One more than the last.
        generation: u8,
    },
    /// update; these stand last in a group (S-8.7).
    Update {
        /// Its number.
        n: u8,
        /// Of which metablock.
        generation: u8,
        /// The bytes.
        val: Val,
    },
    /// death.
    Death {
        /// Its number.
        n: u8,
        /// Of which metablock.
        generation: u8,
    },
}

impl Rec {
    /// The page that it stops naming, if that frees it.
    pub fn frees(self) -> Option<Page> {
        match self {
            Rec::Map { old: Old::Frees(p), .. }
            | Rec::Share { old: Old::Frees(p), .. }
            | Rec::Unlink { old: Old::Frees(p), .. } => Some(p),
            _ => None,
        }
    }

    fn names(self) -> Option<(u8, Page, Val)> {
        match self {
            Rec::Map { f, page, val, .. } | Rec::Share { f, page, val, .. } => Some((f, page, val)),
            _ => None,
        }
    }

    fn covers(self) -> Option<u8> {
        match self {
            Rec::Map { f, .. } | Rec::Share { f, .. } | Rec::Unlink { f, .. } => Some(f),
            _ => None,
        }
    }
}

impl Tree {
    /// Whether this may be what users saw then: what was lost may be there again, and nothing else may be lost (S-8.8).
    pub fn agrees(&self, then: &Seen) -> bool {
        let now = self.shows();
        let same = |f: usize| self.files[f].lost && then.1[f] || !self.files[f].lost && now.0[f] == then.0.0[f];
        (0..FILES).all(same) && now.1 == then.0.1
    }

    /// What users see, and which files they cannot read.
    pub fn seen(&self) -> Seen {
        (self.shows(), self.files.map(|f| f.lost))
    }

    /// What users see.
    fn shows(&self) -> Shows {
        (self.files.map(File::shows), self.nodes.map(|n| (n.alive, n.val)))
    }

    /// Whether a file names the page.
    pub fn names(&self, page: Page) -> bool {
        self.files.iter().any(|f| f.page.is_some_and(|p| p.0 == page))
    }

    fn leave(&mut self, f: u8, old: Old) -> Result<(), &'static str> {
        let had = self.files[f as usize].page.map(|p| p.0);
        let shared = |p: Page| self.shares[p as usize] > 0;
        match old {
            Old::None if had.is_none() => {}
            Old::Frees(p) if had == Some(p) && !shared(p) => {}
            Old::Drops(p) if had == Some(p) && shared(p) => self.shares[p as usize] -= 1,
            _ => return Err("a record frees what the file does not have"),
        }
        self.files[f as usize] = File::default();
        Ok(())
    }

    /// Applies a record (S-8.5, S-9.4); what contradicts the state is a finding.
    pub fn replay(&mut self, rec: Rec, home: Page, rules: Rules) -> Result<(), &'static str> {
        match rec {
            Rec::Map { f, page, val, old } => {
                if page == home || self.names(page) {
                    return Err("a page is allocated twice");
                }
                self.leave(f, old)?;
                self.files[f as usize].page = Some((page, val));
            }
            Rec::Share { f, page, val, old } => {
                if !self.files.iter().any(|file| file.page == Some((page, val))) {
                    return Err("a page is shared that nobody has");
                }
                self.shares[page as usize] += 1;
                self.leave(f, old)?;
                self.files[f as usize].page = Some((page, val));
            }
            Rec::Unlink { f, old } => self.leave(f, old)?,
            Rec::Tail { f, before, val } => {
                if !self.files[f as usize].lost && self.files[f as usize].shows() != before {
                    return Err("a staged page lies over another base");
                }
                self.files[f as usize].staged = Some(val);
            }
            Rec::Carry { f, val } => self.files[f as usize].staged = Some(val),
            Rec::Lost { f } => self.files[f as usize].lost = true,
            Rec::Birth { n, generation } => {
                self.nodes[n as usize] = Node {
                    generation,
                    alive: true,
                    val: 0,
                }
            }
            Rec::Update { n, generation, val } => {
                let node = &mut self.nodes[n as usize];
                let older = generation < node.generation || !node.alive;
                if generation > node.generation {
                    return Err("an update is of a metablock that was never born");
                }
                if !older || !rules.has(Rule::OlderSkipped) {
                    node.val = val;
                }
            }
            Rec::Death { n, generation } => {
                let node = &mut self.nodes[n as usize];
                if node.generation != generation || !node.alive {
                    return Err("a metablock dies twice");
                }
                (node.alive, node.val) = (false, 0);
            }
        }
        Ok(())
    }
}

/// A group of two pages; the second has the end.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Group {
    /// Where, counted without the ring's end.
    pub pos: u8,
    /// Its number.
    pub number: u8,
    /// The incarnation.
    pub life: u8,
    /// The sum of the group before it, or the superblock's chain.
    pub chain: u32,
    /// Generation of the superblock in force.
    pub base: u8,
    /// Highest group known to be flushed.
    pub durable: u8,
    /// Last transaction in it.
    pub seq: u8,
    /// Differs with each opening of the pool.
    pub opening: u8,
    /// What it tells.
    pub recs: Vec<Rec>,
}

/// A place of the ring.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Slot {
    /// Never written.
    None,
    /// Only the group's first page.
    Head(Arc<Group>),
    /// Both.
    Whole(Arc<Group>),
}

/// A superblock.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Super {
    /// Counts checkpoints.
    pub generation: u8,
    /// The incarnation.
    pub life: u8,
    /// Last transaction in the checkpoint.
    pub seq: u8,
    /// Where the metadata lies.
    pub home: Page,
    /// Its sum.
    pub sum: u32,
    /// Where the log begins.
    pub pos: u8,
    /// With which group.
    pub group: u8,
    /// The chain's beginning.
    pub chain: u32,
    /// Highest group known to be flushed.
    pub durable: u8,
}

/// A write on its way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Write {
    /// To a page.
    Page(Page, Cell),
    /// To the log.
    Log(Slot, u8),
    /// To a superblock's slot.
    Super(Arc<Super>, usize),
}

/// What is durable.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Disk {
    /// The pages.
    pub pages: [Cell; PAGES],
    /// The log.
    pub ring: [Slot; RING as usize],
    /// The superblocks.
    pub supers: [Option<Arc<Super>>; 2],
}

impl Disk {
    /// The write arrives.
    pub fn apply(&mut self, write: &Write) {
        match write {
            Write::Page(p, cell) => self.pages[*p as usize] = cell.clone(),
            Write::Log(slot, at) => self.ring[(at % RING) as usize] = slot.clone(),
            Write::Super(sb, slot) => self.supers[*slot] = Some(sb.clone()),
        }
    }

    /// Whether the page has this data, or cannot be read: then it is one file's loss.
    pub fn has(&self, page: Page, val: Val) -> bool {
        self.pages[page as usize] == Cell::Data(val) || self.is_bad(page)
    }

    fn is_bad(&self, page: Page) -> bool {
        matches!(self.pages[page as usize], Cell::Bad(_))
    }
}

/// A sum that tells contents apart.
pub fn sum<T: Hash>(of: &T) -> u32 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish() as u32
}

/// The records as a group has them: updates last, each metablock's once (S-8.7).
pub fn compacted(recs: Vec<Rec>) -> Vec<Rec> {
    let mut out: Vec<Rec> = Vec::new();
    let mut updates: Vec<Rec> = Vec::new();
    for rec in recs {
        if let Rec::Update { n, generation, .. } = rec {
            let same = |u: &Rec| matches!(u, Rec::Update { n: m, generation: g, .. } if (*m, *g) == (n, generation));
            updates.retain(|u| !same(u));
            updates.push(rec);
        } else {
            out.push(rec);
        }
    }
    out.extend(updates);
    out
}

/// The data pages that a group brings and still names at its end (S-9.3).
pub fn brought(recs: &[Rec], rules: Rules) -> Vec<(Page, Val)> {
    let mut out = Vec::new();
    for (at, rec) in recs.iter().enumerate() {
        let Some((f, page, val)) = rec.names() else { continue };
        let gone = recs[at + 1..]
            .iter()
            .any(|later| later.covers() == Some(f) || later.frees() == Some(page));
        if gone && rules.has(Rule::CheckedAtEnd) {
            continue;
        }
        let from = recs.iter().rposition(|r| r.frees() == Some(page)).map_or(0, |n| n + 1);
        let named = recs[from..]
            .iter()
            .filter(|r| r.names().is_some_and(|n| n.1 == page))
            .count();
        let is_share = |r: &&Rec| matches!(r, Rec::Share { page: p, .. } if *p == page);
        let raised = recs[from..].iter().filter(is_share).count();
        let was_there = if rules.has(Rule::SharesCounted) {
            named == raised
        } else {
            raised > 0
        };
        if !was_there {
            out.push((page, val));
        }
    }
    out
}

/// What recovery found.
pub struct Found {
    /// The superblock in force.
    pub sb: Arc<Super>,
    /// The state.
    pub tree: Tree,
    /// Its last transaction.
    pub seq: u8,
    /// D (S-9.2).
    pub durable: u8,
    /// Behind the last page accepted.
    pub seen: u8,
    /// Behind the last group taken.
    pub pos: u8,
    /// The next group's number.
    pub number: u8,
    /// What it continues.
    pub chain: u32,
    /// The first group that was not taken.
    pub refused: Option<u8>,
}

/// What recovery believes of groups beyond D.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Power was cut: their data is looked at (S-9.3).
    Judged,
    /// A server died: all are taken, but what it had refused behind a superblock of this generation (S-9.9).
    Believed(Option<(u8, u8)>),
}

/// Reads superblock and log (S-9.1 to S-9.4).
pub fn recover(disk: &Disk, rules: Rules, trust: Trust) -> Result<Found, &'static str> {
    let newest = disk.supers.iter().flatten().max_by_key(|sb| sb.generation);
    let sb = newest.ok_or("there is no superblock")?.clone();
    let mut tree = match &disk.pages[sb.home as usize] {
        Cell::Meta(tree) if sum(&**tree) == sb.sum => (**tree).clone(),
        _ => return Err("the checkpoint's metadata is not there"),
    };
    let mut groups: Vec<Arc<Group>> = Vec::new();
    let (mut chain, mut durable, mut seen) = (sb.chain, sb.durable, sb.pos);
    for pos in (0..RING).map(|i| sb.pos.wrapping_add(i)) {
        let (group, whole) = match &disk.ring[(pos % RING) as usize] {
            Slot::None => break,
            Slot::Head(g) => (g, false),
            Slot::Whole(g) => (g, true),
        };
        let here = group.pos == pos && group.life == sb.life && group.number == sb.group + groups.len() as u8;
        let chained = group.chain == chain || !rules.has(Rule::Chain);
        if !here || !chained || group.base + 1 < sb.generation {
            break;
        }
        if group.base > sb.generation {
            return Err("the newest superblock was lost");
        }
        seen = pos + 1;
        if rules.has(Rule::StampRead) && (whole || rules.has(Rule::StampTorn)) {
            durable = durable.max(group.durable);
        }
        if !whole && rules.has(Rule::WholeGroups) {
            break;
        }
        chain = sum(&**group);
        if whole {
            groups.push(group.clone());
        } else {
            let mut half = (**group).clone();
            half.recs.truncate(half.recs.len() / 2);
            groups.push(Arc::new(half));
        }
    }
    let there = |p: Page, v: Val| disk.has(p, v) && (!disk.is_bad(p) || rules.has(Rule::UnreadTaken));
    let passes = |g: &Group| brought(&g.recs, rules).iter().all(|(p, v)| there(*p, *v));
    let refuses = |g: &Group| match trust {
        Trust::Judged => g.number > durable && rules.has(Rule::DataChecked) && !passes(g),
        Trust::Believed(refused) => refused.is_some_and(|(of, first)| of == sb.generation && g.number >= first),
    };
    let refused = groups.iter().position(|g| refuses(g));
    groups.truncate(refused.unwrap_or(groups.len()));
    for rec in groups.iter().flat_map(|g| g.recs.iter()) {
        tree.replay(*rec, sb.home, rules)?;
    }
    for (p, v) in tree.files.iter().filter_map(|f| f.page) {
        let names = tree.files.iter().filter(|f| f.page.is_some_and(|q| q.0 == p)).count();
        if p == sb.home || names != 1 + tree.shares[p as usize] as usize {
            return Err("a page has two owners");
        }
        if !disk.has(p, v) {
            return Err("a page of recovered data is overwritten or missing");
        }
    }
    Ok(Found {
        tree,
        seq: groups.last().map_or(sb.seq, |g| g.seq),
        durable,
        seen,
        pos: sb.pos + groups.len() as u8,
        number: sb.group + groups.len() as u8,
        chain: groups.last().map_or(sb.chain, |g| sum(&**g)),
        refused: refused.map(|n| sb.group + n as u8),
        sb,
    })
}
