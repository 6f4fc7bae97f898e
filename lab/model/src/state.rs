//! The server's side: what is in memory and what is on its way; transactions, and what may be handed out to them (S-11).

use std::sync::Arc;

use crate::disk::{Cell, Disk, FRESH, Page, Super, Val, Write, bits, sum};
use crate::kernel::Kernel;
use crate::rules::{Rule, Rules};
use crate::tree::{FILES, File, INODES, NODES, Old, Rec, Seen, Tree};

/// Who may write groups.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Lead {
    Free,
    Sync,
    Checkpoint,
}

/// A checkpoint under way.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Checkpoint {
    /// 0: the moment's group is to be flushed; 1: pages and superblock are to be written; 2: the last flush is to come;
    /// 9: the group is cut later than the metadata (without rule 7a).
    pub step: u8,
    /// What will be in force.
    pub sb: Arc<Super>,
    /// Last group that it counts as flushed.
    pub written: u8,
    /// It ends a recovery.
    pub recovery: bool,
    /// What was cut and stands in no group, because the log was full.
    pub unlogged: Vec<(u8, Rec)>,
}

/// How often each thing may happen yet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Budget {
    pub ops: u8,
    pub syncs: u8,
    pub checkpoints: u8,
    pub cuts: u8,
    pub kills: u8,
    pub discards: u8,
    pub bad: u8,
    pub rotten: u8,
    pub losses: u8,
    pub strays: u8,
    pub wrong: u8,
}

/// What the pool is like: nothing changes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    /// Pages for data and metadata.
    pub pages: u8,
    /// Pages of the log.
    pub ring: u8,
    /// Pages of a group.
    pub group: u8,
    /// Pages of a carried group.
    pub carried: u8,
    /// Metadata lies in chunks of several pages, and the last file's by itself.
    pub chunks: bool,
    /// The last file's metadata lies by itself.
    pub apart: bool,
}

/// Everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    pub shape: Shape,
    pub disk: Disk,
    pub flying: Vec<Write>,
    pub tree: Tree,
    pub redo: Vec<(u8, Rec)>,
    /// Redo of groups whose flush has not returned.
    pub logged: Vec<(u8, Rec)>,
    pub quarantine: Vec<(u8, Page)>,
    /// The transaction with the death of each metablock, until its flush.
    pub number_waits: [Option<u8>; NODES],
    /// The transaction that freed each inode number, until its flush.
    pub inode_waits: [Option<u8>; INODES],
    pub young: u8,
    pub last: u8,
    pub durable: u8,
    pub written: u8,
    pub written_seq: u8,
    pub pos: u8,
    pub number: u8,
    pub chain: u32,
    pub tail: u8,
    /// A page of the log was given up: no group goes behind it before a superblock leads there (S-8.12).
    pub given_up: bool,
    pub sb: Arc<Super>,
    /// First pages of the chunks that no file may have pages of.
    pub chunks: Vec<Page>,
    /// The same of those that the checkpoint under way has ended (S-4.7).
    pub leaving: Vec<Page>,
    pub lead: Lead,
    pub checkpoint: Option<Checkpoint>,
    pub recovering: u8,
    /// Redo of a dead server that can be used and was not taken, until its memory is given up.
    pub beyond: Vec<(u8, Rec)>,
    /// What this life has refused of the log: behind which superblock, and from which group on (S-9.9).
    pub refused: Option<(u8, u8)>,
    pub kernel: Kernel,
    pub value: Val,
    pub history: Vec<Seen>,
    pub acked: u8,
    pub left: Budget,
    pub bad: Option<&'static str>,
    /// A metablock was lost under a log: it may be so for good.
    pub costs: bool,
    /// The pool was refused.
    pub closed: bool,
}

impl State {
    /// A pool with one file, durable.
    pub fn first(left: Budget, shape: Shape) -> State {
        let mut tree = Tree::default();
        tree.files[0].page = Some((0, 1));
        tree.used = 1;
        if shape.apart {
            (tree.files[FILES - 1].page, tree.files[FILES - 1].attr) = (Some((1, 2)), 1);
            tree.used |= 2;
        }
        let last = tree.files[FILES - 1];
        let (home, leaf, chunks) = match (shape.chunks, shape.apart) {
            (true, _) => (3, Some((4, sum(&last))), vec![3, 5]),
            (_, true) => (shape.pages - 1, Some((shape.pages - 2, sum(&last))), Vec::new()),
            _ => (shape.pages - 1, None, Vec::new()),
        };
        let mut root = tree.clone();
        if leaf.is_some() {
            root.files[FILES - 1] = File::default();
        }
        let sb = Arc::new(Super {
            generation: 1,
            life: 1,
            seq: 0,
            home,
            sum: sum(&root),
            leaf,
            chunks: chunks.clone(),
            pos: 0,
            group: 1,
            chain: FRESH,
            durable: 0,
        });
        let mut pages = vec![Cell::Blank; shape.pages as usize];
        pages[0] = Cell::Data(1);
        if let Some((p, val)) = last.page {
            pages[p as usize] = Cell::Data(val);
        }
        pages[home as usize] = Cell::Meta(Arc::new(root));
        if let Some((page, _)) = leaf {
            pages[page as usize] = Cell::Leaf(tree.files[FILES - 1]);
        }
        State {
            shape,
            disk: Disk {
                pages,
                ring: vec![None; shape.ring as usize],
                supers: [Some(sb.clone()), None],
                rotten: 0,
                far: None,
                wiped: false,
                unread: 0,
            },
            flying: Vec::new(),
            redo: Vec::new(),
            logged: Vec::new(),
            quarantine: Vec::new(),
            number_waits: [None; NODES],
            inode_waits: [None; INODES],
            young: 0,
            last: 0,
            durable: 0,
            written: 0,
            written_seq: 0,
            pos: 0,
            number: 1,
            chain: FRESH,
            tail: 0,
            given_up: false,
            sb,
            chunks,
            leaving: Vec::new(),
            lead: Lead::Free,
            checkpoint: None,
            recovering: 0,
            beyond: Vec::new(),
            refused: None,
            kernel: Kernel::default(),
            value: 3,
            history: vec![tree.seen()],
            acked: 0,
            left,
            bad: None,
            costs: false,
            closed: false,
            tree,
        }
    }

    /// The device as it is read now.
    pub fn seen(&self) -> Disk {
        let mut disk = self.disk.clone();
        self.flying.iter().for_each(|w| disk.apply(w));
        disk
    }

    /// Pages that no transaction may have, as bits.
    fn system(&self, rules: Rules) -> u16 {
        if self.shape.chunks {
            let waits = if rules.has(Rule::ChunkWaits) {
                bits(&self.leaving)
            } else {
                0
            };
            return bits(&self.chunks) | waits;
        }
        let taken = self.checkpoint.as_ref().filter(|_| rules.has(Rule::Taken));
        self.sb.system() | taken.map_or(0, |c| c.sb.system())
    }

    /// Whether the page may be handed out (S-11.1).
    pub fn is_free(&self, page: Page, rules: Rules) -> bool {
        let waits = self.quarantine.iter().any(|q| q.1 == page);
        self.tree.used >> page & 1 == 0 && self.system(rules) >> page & 1 == 0 && !waits
    }

    /// Pages that may be handed out, of blank ones only the first.
    pub fn free(&self, rules: Rules) -> Vec<Page> {
        let seen = self.seen();
        let mut blank = false;
        let mut first_blank = |p: &Page| {
            let empty = seen.pages[*p as usize] == Cell::Blank && self.disk.pages[*p as usize] == Cell::Blank;
            !empty || !core::mem::replace(&mut blank, true)
        };
        (0..self.shape.pages)
            .filter(|p| self.is_free(*p, rules))
            .filter(|p| first_blank(p))
            .collect()
    }

    /// Whether the log has room for so many pages.
    pub fn has_room(&self, pages: u8) -> bool {
        self.pos - self.tail + pages <= self.shape.ring
    }

    /// What becomes of the page of file `f` when it is named no more.
    pub fn leaves(&self, f: u8, rules: Rules) -> Old {
        match self.tree.files[f as usize].page {
            None => Old::None,
            Some((p, _)) if self.tree.shares[p as usize] > 0 && rules.has(Rule::LastName) => Old::Drops(p),
            Some((p, _)) => Old::Frees(p),
        }
    }

    /// A transaction commits.
    pub fn commit(&mut self, rec: Rec, rules: Rules) {
        let system = match self.shape.chunks {
            true => bits(&self.chunks),
            false => self.sb.system(),
        };
        if let Err(what) = self.tree.replay(rec, system, rules) {
            self.bad = Some(what);
        }
        self.last += 1;
        self.left.ops -= 1;
        let seen = self.history.last().map(|then| self.tree.seen_behind(then));
        self.history.extend(seen);
        self.redo.push((self.last, rec));
        if let Rec::Map { page, .. } = rec {
            self.young |= 1 << page;
        }
        if let Some(page) = rec.frees()
            && self.young >> page & 1 == 0
            && rules.has(Rule::Quarantine)
        {
            self.quarantine.push((self.last, page));
        }
        match rec {
            Rec::Death { n, .. } if rules.has(Rule::Numbers) => self.number_waits[n as usize] = Some(self.last),
            Rec::Free { n } if rules.has(Rule::InodesWait) => self.inode_waits[n as usize] = Some(self.last),
            _ => {}
        }
    }

    /// A reply names inode number `n`.
    pub fn look_up(&mut self, n: u8) {
        if let Err(what) = self.kernel.look_up(n, &self.tree) {
            self.bad = Some(what);
        }
    }

    /// A write goes to a page; `late`: the one that is on its way there arrives behind it.
    pub fn write_page(&mut self, page: Page, cell: Cell, late: bool) {
        let at = self
            .flying
            .iter()
            .position(|w| matches!(w, Write::Page(p, _) if *p == page));
        self.flying.insert(
            at.filter(|_| late).unwrap_or(self.flying.len()),
            Write::Page(page, cell),
        );
    }

    /// The device's flush returns.
    pub fn flush(&mut self) {
        for write in core::mem::take(&mut self.flying) {
            self.disk.apply(&write);
        }
    }

    /// Everything up to transaction `seq` is durable.
    pub fn release(&mut self, seq: u8) {
        self.quarantine.retain(|q| q.0 > seq);
        self.logged.retain(|r| r.0 > seq);
        self.number_waits = self.number_waits.map(|waits| waits.filter(|s| *s > seq));
        self.inode_waits = self.inode_waits.map(|waits| waits.filter(|s| *s > seq));
    }

    /// Who waits for `seq` is answered.
    pub fn answer(&mut self, seq: u8) {
        while self.acked < seq {
            self.history.remove(0);
            self.acked += 1;
        }
    }

    /// The staged page of file `f` is damaged in memory.
    pub fn lose(&mut self, f: u8) {
        self.tree.files[f as usize].lost = true;
        self.left.losses -= 1;
        if let Some(last) = self.history.last_mut() {
            *last = self.tree.seen();
        }
    }
}
