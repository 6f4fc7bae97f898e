//! What users have, and the records that change it (S-7, S-8.5): files, metablocks, inodes.

use crate::disk::{Page, Val};
use crate::rules::{Rule, Rules};

/// Pages for data and metadata, at most.
pub const PAGES: usize = 7;
/// Files, of one page each.
pub const FILES: usize = 2;
/// Metablocks that are born and die.
pub const NODES: usize = 2;
/// Inode numbers.
pub const INODES: usize = 2;

/// Whether a file's metablock can be had (S-9.10).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Gone {
    /// It can.
    #[default]
    No,
    /// No copy of it could be read when the pool was opened; the checkpoint has it as it was.
    Unread,
    /// The same, and the log had changes for it, or a checkpoint says that it is lost (S-4.8).
    Lost,
}

/// A file: its page with the content that its CRC tells, and staged content over it (S-8.8). Of one that is gone the server
/// knows nothing: what stands here is the judge's, but for staged content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct File {
    /// The map entry.
    pub page: Option<(Page, Val)>,
    /// The staged page.
    pub staged: Option<Val>,
    /// It is lost: reading it is an error (S-8.8).
    pub lost: bool,
    /// Its attributes: what its metablock has besides.
    pub attr: Val,
    /// Using it is an error.
    pub gone: Gone,
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

/// What an inode number is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Inode {
    /// Which file; each that is made is another one. `None`: the number is free.
    pub file: Option<Val>,
    /// Its bytes and attributes.
    pub val: Val,
}

/// All metadata.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Tree {
    /// The files.
    pub files: [File; FILES],
    /// The page bitmap: pages that files have, as bits.
    pub used: u16,
    /// References of each page beyond one (S-7.3).
    pub shares: [u8; PAGES],
    /// The metablocks.
    pub nodes: [Node; NODES],
    /// The inodes.
    pub inodes: [Inode; INODES],
}

/// What users see but for what is lost.
pub type Shows = ([(Val, Val); FILES], [(bool, Val); NODES], [Inode; INODES]);

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
    /// update of the file's attributes.
    Attr {
        /// The file.
        f: u8,
        /// The bytes.
        val: Val,
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
    /// alloc of an inode number, and create.
    Create {
        /// The number.
        n: u8,
        /// The file.
        file: Val,
    },
    /// A change of the file that has this number.
    Change {
        /// The number.
        n: u8,
        /// The bytes.
        val: Val,
    },
    /// free of an inode number, and unlink.
    Free {
        /// The number.
        n: u8,
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

    /// The file whose metablock it changes.
    fn changes(self) -> Option<u8> {
        match self {
            Rec::Attr { f, .. } | Rec::Tail { f, .. } => Some(f),
            _ => self.covers(),
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
        (0..FILES).all(|f| self.files[f].gone != Gone::No || same(f)) && (now.1, now.2) == (then.0.1, then.0.2)
    }

    /// What users see, and which files they cannot read.
    pub fn seen(&self) -> Seen {
        (self.shows(), self.files.map(|f| f.lost))
    }

    /// The same where it was `then`: a file that is gone stays what it was, to whoever finds it again.
    pub fn seen_behind(&self, then: &Seen) -> Seen {
        let mut seen = self.seen();
        for (f, file) in self.files.iter().enumerate() {
            if file.gone != Gone::No {
                (seen.0.0[f], seen.1[f]) = (then.0.0[f], then.1[f]);
            }
        }
        seen
    }

    /// The files of which the server has the metablock.
    pub fn known(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|f| f.gone == Gone::No)
    }

    /// What users see.
    fn shows(&self) -> Shows {
        let nodes = self.nodes.map(|n| (n.alive, n.val));
        (self.files.map(|f| (f.shows(), f.attr)), nodes, self.inodes)
    }

    /// Without staged data: what a checkpoint has.
    pub fn without_staged(&self) -> Tree {
        let mut tree = self.clone();
        tree.files.iter_mut().for_each(|f| (f.staged, f.lost) = (None, false));
        tree
    }

    fn leave(&mut self, f: u8, old: Old) -> Result<(), &'static str> {
        let File { page, attr, gone, .. } = self.files[f as usize];
        let had = page.map(|p| p.0);
        let shared = |p: Page| self.shares[p as usize] > 0;
        match old {
            Old::None if had.is_none() => {}
            Old::Frees(p) if had == Some(p) && !shared(p) => self.used &= !(1 << p),
            Old::Drops(p) if had == Some(p) && shared(p) => self.shares[p as usize] -= 1,
            _ => return Err("a record frees what the file does not have"),
        }
        self.files[f as usize] = File {
            attr,
            gone,
            ..File::default()
        };
        Ok(())
    }

    /// Applies a record, as `replay` does, where the metablock that it changes may be gone (S-9.10).
    pub fn replay_log(&mut self, rec: Rec, system: u16, rules: Rules) -> Result<(), &'static str> {
        let gone = rec.changes().filter(|f| self.files[*f as usize].gone != Gone::No);
        let Some(f) = gone.map(usize::from) else {
            return self.replay(rec, system, rules);
        };
        if !rules.has(Rule::PassedOver) {
            self.files[f] = File::default();
            return self.replay(rec, system, rules);
        }
        let used = self.used;
        self.replay(rec, system, rules)?;
        self.files[f].gone = Gone::Lost;
        if !rules.has(Rule::BitmapsTake) {
            self.used = used;
        }
        Ok(())
    }

    /// Applies a record (S-8.5, S-9.4), where these pages are the system's; what contradicts the state is a finding.
    pub fn replay(&mut self, rec: Rec, system: u16, rules: Rules) -> Result<(), &'static str> {
        match rec {
            Rec::Map { f, page, val, old } => {
                if (system | self.used) >> page & 1 == 1 {
                    return Err("a page is allocated twice");
                }
                self.leave(f, old)?;
                self.used |= 1 << page;
                self.files[f as usize].page = Some((page, val));
            }
            Rec::Attr { f, val } => self.files[f as usize].attr = val,
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
            Rec::Birth { .. } | Rec::Update { .. } | Rec::Death { .. } => self.replay_node(rec, rules)?,
            Rec::Create { .. } | Rec::Change { .. } | Rec::Free { .. } => self.replay_inode(rec)?,
        }
        Ok(())
    }

    fn replay_node(&mut self, rec: Rec, rules: Rules) -> Result<(), &'static str> {
        match rec {
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
            _ => {}
        }
        Ok(())
    }

    fn replay_inode(&mut self, rec: Rec) -> Result<(), &'static str> {
        match rec {
            Rec::Create { n, file } => {
                let inode = &mut self.inodes[n as usize];
                if inode.file.is_some() {
                    return Err("an inode number is allocated twice");
                }
                let file = Some(file);
                *inode = Inode { file, val: 0 };
            }
            Rec::Change { n, val } => {
                let inode = &mut self.inodes[n as usize];
                if inode.file.is_none() {
                    return Err("a file is changed that is not there");
                }
                inode.val = val;
            }
            Rec::Free { n } => {
                let inode = core::mem::take(&mut self.inodes[n as usize]);
                if inode.file.is_none() {
                    return Err("an inode number is freed twice");
                }
            }
            _ => {}
        }
        Ok(())
    }
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
