//! The server's side: what is in memory, what is on its way, and the steps of syncs, checkpoints, recoveries and resumes.

use std::sync::Arc;

use crate::disk::{Cell, Disk, FILES, Found, Group, NODES, Old, PAGES, Page, RING, Rec, Seen, Slot, Super, Tree};
use crate::disk::{Trust, Val, Write, compacted, recover, sum};
use crate::rules::{Rule, Rules};

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
}

/// What becomes of the group that a step writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    /// It is written.
    Written,
    /// The log has no room for it.
    Full,
    /// Its write fails (S-8.12), and has changed nothing, or has arrived.
    Bad { arrives: bool },
}

/// Everything.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct State {
    pub disk: Disk,
    pub flying: Vec<Write>,
    pub tree: Tree,
    pub redo: Vec<(u8, Rec)>,
    /// Redo of groups whose flush has not returned.
    pub logged: Vec<(u8, Rec)>,
    pub quarantine: Vec<(u8, Page)>,
    /// The transaction with the death of each metablock, until its flush.
    pub number_waits: [Option<u8>; NODES],
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
    pub lead: Lead,
    pub checkpoint: Option<Checkpoint>,
    pub recovering: u8,
    /// What this life has refused of the log: behind which superblock, and from which group on (S-9.9).
    pub refused: Option<(u8, u8)>,
    pub value: Val,
    pub history: Vec<Seen>,
    pub acked: u8,
    pub left: Budget,
    pub bad: Option<&'static str>,
}

impl State {
    /// A pool with one file, durable.
    pub fn first(left: Budget) -> State {
        let mut tree = Tree::default();
        tree.files[0].page = Some((0, 1));
        let home = PAGES as u8 - 1;
        let sb = Super {
            generation: 1,
            life: 1,
            seq: 0,
            home,
            sum: sum(&tree),
            pos: 0,
            group: 1,
            chain: 7,
            durable: 0,
        };
        let mut pages = [const { Cell::Blank }; PAGES];
        pages[0] = Cell::Data(1);
        pages[home as usize] = Cell::Meta(Arc::new(tree.clone()));
        let sb = Arc::new(sb);
        State {
            disk: Disk {
                pages,
                ring: [const { Slot::None }; RING as usize],
                supers: [Some(sb.clone()), None],
            },
            flying: Vec::new(),
            redo: Vec::new(),
            logged: Vec::new(),
            quarantine: Vec::new(),
            number_waits: [None; NODES],
            young: 0,
            last: 0,
            durable: 0,
            written: 0,
            written_seq: 0,
            pos: 0,
            number: 1,
            chain: 7,
            tail: 0,
            given_up: false,
            sb,
            lead: Lead::Free,
            checkpoint: None,
            recovering: 0,
            refused: None,
            value: 2,
            history: vec![tree.seen()],
            acked: 0,
            left,
            bad: None,
            tree,
        }
    }

    /// The device as it is read now.
    pub fn seen(&self) -> Disk {
        let mut disk = self.disk.clone();
        self.flying.iter().for_each(|w| disk.apply(w));
        disk
    }

    /// Pages that may be handed out (S-11.1), of blank ones only the first.
    pub fn free(&self, rules: Rules) -> Vec<Page> {
        let seen = self.seen();
        let mut blank = false;
        let taken = |p: Page| {
            rules.has(Rule::Taken) && self.checkpoint.as_ref().is_some_and(|c| c.sb.home == p) || p == self.sb.home
        };
        let used = |p: &Page| self.tree.names(*p) || taken(*p) || self.quarantine.iter().any(|q| q.1 == *p);
        let mut first_blank = |p: &Page| {
            let empty = seen.pages[*p as usize] == Cell::Blank && self.disk.pages[*p as usize] == Cell::Blank;
            !empty || !core::mem::replace(&mut blank, true)
        };
        (0..PAGES as u8)
            .filter(|p| !used(p))
            .filter(|p| first_blank(p))
            .collect()
    }

    /// Whether the log has room for so many groups.
    pub fn has_room(&self, groups: u8) -> bool {
        self.pos - self.tail + groups <= RING
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
        if let Err(what) = self.tree.replay(rec, self.sb.home, rules) {
            self.bad = Some(what);
        }
        self.last += 1;
        self.left.ops -= 1;
        self.history.push(self.tree.seen());
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
        if let Rec::Death { n, .. } = rec
            && rules.has(Rule::Numbers)
        {
            self.number_waits[n as usize] = Some(self.last);
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

    /// What the next group has.
    pub fn cut(&mut self, rules: Rules) -> Vec<Rec> {
        if rules.has(Rule::YoungCut) {
            self.young = 0;
        }
        let cut = core::mem::take(&mut self.redo);
        self.logged.extend(cut.iter().copied());
        compacted(cut.into_iter().map(|r| r.1).collect())
    }

    /// A group at the log's head whose write fails: its place is given up.
    pub fn append_badly(&mut self, recs: Vec<Rec>, seq: u8, arrives: bool, rules: Rules) {
        let before = (self.number, self.chain, self.written);
        self.append(recs, seq, rules);
        (self.number, self.chain, self.written) = before;
        if !arrives {
            self.flying.pop();
        }
        self.left.bad -= 1;
    }

    /// A sync's group is cut, and its write fails: its transactions wait for a checkpoint.
    pub fn sync_badly(&mut self, arrives: bool, rules: Rules) {
        let (redo, last) = (self.redo.clone(), self.last);
        let logged = self.logged.clone();
        let pending = self.cut(rules);
        self.append_badly(pending, last, arrives, rules);
        (self.redo, self.logged) = (redo, logged);
        self.given_up = rules.has(Rule::GivenUp);
    }

    /// A group at the log's head.
    pub fn append(&mut self, recs: Vec<Rec>, seq: u8, rules: Rules) {
        let durable = if rules.has(Rule::StampTrue) {
            self.durable
        } else {
            self.number
        };
        let life = self
            .checkpoint
            .as_ref()
            .filter(|c| c.recovery)
            .map_or(self.sb.life, |c| c.sb.life);
        let opening = self.left.cuts + self.left.kills;
        let (pos, number, chain, base) = (self.pos, self.number, self.chain, self.sb.generation);
        let group = Arc::new(Group {
            pos,
            number,
            life,
            chain,
            base,
            durable,
            seq,
            opening,
            recs,
        });
        self.chain = sum(&*group);
        self.written = number;
        self.pos += 1;
        self.number += 1;
        self.flying.push(Write::Log(Slot::Whole(group), pos));
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
    }

    /// Who waits for `seq` is answered.
    pub fn answer(&mut self, seq: u8) {
        while self.acked < seq {
            self.history.remove(0);
            self.acked += 1;
        }
    }

    fn ways(write: &Write, rules: Rules, tears: bool) -> u32 {
        match write {
            Write::Page(..) => 2 + u32::from(tears),
            Write::Log(..) => 3,
            Write::Super(..) => 2 + u32::from(!rules.has(Rule::TwoSlots)),
        }
    }

    /// How many states a power cut may leave: of each write that is on its way none, all, or a part.
    pub fn cuts(&self, rules: Rules, tears: bool) -> u32 {
        self.flying.iter().map(|w| State::ways(w, rules, tears)).product()
    }

    /// One of them, and its writes in words.
    pub fn after_cut(&self, mut choice: u32, rules: Rules, tears: bool) -> (Disk, String) {
        let (mut disk, mut words) = (self.disk.clone(), Vec::new());
        for write in &self.flying {
            let ways = State::ways(write, rules, tears);
            let part = match (choice % ways, write) {
                (0, _) => None,
                (1, _) => Some(("", write.clone())),
                (_, Write::Page(p, _)) => Some(("half of ", Write::Page(*p, Cell::Torn))),
                (_, Write::Log(Slot::Whole(g), at)) => Some(("half of ", Write::Log(Slot::Head(g.clone()), *at))),
                (_, Write::Log(..)) => None,
                (_, Write::Super(_, slot)) => {
                    disk.supers[*slot] = None;
                    words.push("half of the superblock".to_owned());
                    None
                }
            };
            if let Some((half, write)) = part {
                disk.apply(&write);
                words.push(match write {
                    Write::Page(p, _) => format!("{half}page {p}"),
                    Write::Log(Slot::Whole(g) | Slot::Head(g), _) => format!("{half}group {}", g.number),
                    Write::Log(..) => String::new(),
                    Write::Super(..) => "the superblock".to_owned(),
                });
            }
            choice /= ways;
        }
        (disk, words.join(", "))
    }

    /// The pool is opened again; `owed` is what a dead server's redo still has.
    pub fn restart(&mut self, disk: Disk, owed: Option<Vec<(u8, Rec)>>, rules: Rules) {
        let read = if owed.is_some() { self.seen() } else { disk.clone() };
        self.disk = disk;
        if let Err(what) = self.reopen(&read, owed, rules) {
            self.bad = Some(what);
        }
    }

    fn reopen(&mut self, read: &Disk, owed: Option<Vec<(u8, Rec)>>, rules: Rules) -> Result<(), &'static str> {
        let resumed = owed.is_some();
        let trust = match resumed {
            true => Trust::Believed(self.refused.filter(|_| rules.has(Rule::ResumeJudges))),
            false => Trust::Judged,
        };
        let mut found = recover(read, rules, trust)?;
        self.refused = found.refused.map(|first| (found.sb.generation, first));
        let logged = found.seq;
        self.quarantine.clear();
        self.number_waits = [None; NODES];
        let missing = |r: &(u8, Rec)| r.0 > logged || !rules.has(Rule::OwedOnce);
        let owed: Vec<_> = owed.into_iter().flatten().filter(missing).collect();
        let owes = !owed.is_empty();
        for &(seq, rec) in &owed {
            found.tree.replay(rec, found.sb.home, rules)?;
            found.seq = seq;
            if let Rec::Map { page, .. } = rec {
                self.quarantine.retain(|q| q.1 != page);
            }
            if let Some(page) = rec.frees().filter(|_| rules.has(Rule::OwedQuarantine)) {
                self.quarantine.push((seq, page));
            }
        }
        if found.seq < self.acked || resumed && found.seq != self.last {
            return Err(if resumed {
                "a dead server's change is lost"
            } else {
                "an answered sync is lost"
            });
        }
        let then = self.history.get((found.seq - self.acked) as usize);
        if !then.is_some_and(|then| found.tree.agrees(then)) {
            return Err("what was recovered is no prefix of the changes");
        }
        self.history.truncate((found.seq - self.acked) as usize + 1);
        if let Some(last) = self.history.last_mut() {
            *last = found.tree.seen();
        }
        self.take(found, owed, rules, owes);
        Ok(())
    }

    fn take(&mut self, found: Found, owed: Vec<(u8, Rec)>, rules: Rules, owes: bool) {
        (self.tree, self.last, self.sb) = (found.tree, found.seq, found.sb);
        (self.redo, self.young) = (owed, 0);
        self.logged.clear();
        (self.durable, self.number, self.chain) = (found.durable, found.number, found.chain);
        (self.tail, self.given_up) = (self.sb.pos, false);
        (self.written, self.written_seq) = (found.number - 1, found.seq);
        (self.lead, self.checkpoint) = (Lead::Free, None);
        self.pos = if rules.has(Rule::NewPlace) {
            found.seen + RING
        } else {
            found.pos
        };
        self.recovering = 1 + u8::from(owes);
        if found.seen == self.sb.pos && !owes {
            self.pos = found.pos;
            self.flush();
            self.quarantine.clear();
            self.recovering = 0;
            let last = self.last;
            self.answer(last);
        }
    }

    /// The metadata of the moment without staged data, and staged data as it is carried.
    fn snapshot(&self, rules: Rules) -> (Tree, Vec<Rec>) {
        let mut tree = self.tree.clone();
        tree.files.iter_mut().for_each(|f| (f.staged, f.lost) = (None, false));
        let of = |f: u8| {
            let file = self.tree.files[f as usize];
            match file.lost {
                true => rules.has(Rule::LostCarried).then_some(Rec::Lost { f }),
                false => file.staged.map(|val| Rec::Carry { f, val }),
            }
        };
        (tree, (0..FILES as u8).filter_map(of).collect())
    }

    /// The staged page of file `f` is damaged in memory.
    pub fn lose(&mut self, f: u8) {
        self.tree.files[f as usize].lost = true;
        self.left.losses -= 1;
        if let Some(last) = self.history.last_mut() {
            *last = self.tree.seen();
        }
    }

    /// A checkpoint's moment (S-10.1), and what becomes of its group and of the carried one.
    pub fn begin(&mut self, home: Page, old: Fate, carry: Fate, rules: Rules) {
        let full = core::mem::take(&mut self.given_up) || old != Fate::Written;
        let (tree, carried) = self.snapshot(rules);
        let (at, mut before) = (self.last, (self.pos, self.number, self.chain));
        let (mut unlogged, mut step, number) = (Vec::new(), 1, self.number);
        if rules.has(Rule::Moment) && full {
            if let Fate::Bad { arrives } = old {
                let pending = compacted(self.redo.iter().map(|r| r.1).collect());
                self.append_badly(pending, at, arrives, rules);
            }
            unlogged = core::mem::take(&mut self.redo);
            self.young = 0;
            if rules.has(Rule::FullChain) {
                self.chain ^= 0x5555_0000;
            }
        } else if rules.has(Rule::Moment) {
            let pending = self.cut(rules);
            if !pending.is_empty() {
                self.append(pending, at, rules);
            }
        } else {
            step = 9;
        }
        let old_group = self.number > number;
        if let Fate::Bad { arrives } = carry {
            self.append_badly(carried.clone(), at, arrives, rules);
            self.given_up = rules.has(Rule::GivenUp);
            self.chain ^= u32::from(rules.has(Rule::FullChain)) << 16;
        }
        if rules.has(Rule::OldInOldLog) {
            before = (self.pos, self.number, self.chain);
        }
        if !carried.is_empty() && rules.has(Rule::Carry) {
            self.append(carried, at, rules);
        }
        if old_group && rules.has(Rule::FlushOld) && !self.given_up {
            step = 0;
        }
        self.written_seq = self.written_seq.max(at);
        let (generation, life) = (self.sb.generation + 1, self.sb.life);
        let (pos, group, chain) = before;
        let sb = Super {
            generation,
            life,
            seq: at,
            home,
            sum: sum(&tree),
            pos,
            group,
            chain,
            durable: 0,
        };
        self.flying.push(Write::Page(home, Cell::Meta(Arc::new(tree))));
        self.lead = if step != 1 || full || core::mem::take(&mut self.given_up) {
            Lead::Checkpoint
        } else {
            Lead::Free
        };
        let written = self.number - 1;
        self.checkpoint = Some(Checkpoint {
            step,
            sb: Arc::new(sb),
            written,
            recovery: false,
            unlogged,
        });
        self.left.checkpoints -= 1;
    }

    /// The checkpoint that ends a recovery (S-9.5).
    pub fn begin_recovery(&mut self, home: Page, carry: Fate, rules: Rules) {
        if rules.has(Rule::RecoveryFlush) {
            self.flush();
        }
        let life = self.sb.life + if rules.has(Rule::Life) { self.recovering } else { 0 };
        let (tree, carried) = self.snapshot(rules);
        self.chain = 7;
        let (generation, seq, group) = (self.sb.generation + 1, self.last, self.number);
        let sb = Super {
            generation,
            life,
            seq,
            home,
            sum: sum(&tree),
            pos: self.pos,
            group,
            chain: 7,
            durable: 0,
        };
        let written = group - 1;
        self.checkpoint = Some(Checkpoint {
            step: 1,
            sb: Arc::new(sb),
            written,
            recovery: true,
            unlogged: Vec::new(),
        });
        if let Fate::Bad { arrives } = carry {
            self.append_badly(carried.clone(), seq, arrives, rules);
            self.chain ^= u32::from(rules.has(Rule::FullChain)) << 16;
            let (pos, chain) = (self.pos, self.chain);
            if let Some(c) = &mut self.checkpoint {
                let sb = Arc::make_mut(&mut c.sb);
                (sb.pos, sb.chain) = (pos, chain);
            }
        }
        if !carried.is_empty() && rules.has(Rule::Carry) {
            self.append(carried, seq, rules);
        }
        let written = self.number - 1;
        if let Some(c) = &mut self.checkpoint {
            c.written = written;
        }
        self.written_seq = seq;
        self.flying.push(Write::Page(home, Cell::Meta(Arc::new(tree))));
        self.lead = Lead::Checkpoint;
    }

    /// The next step of the checkpoint under way.
    pub fn step(&mut self, rules: Rules) {
        let Some(mut c) = self.checkpoint.take() else { return };
        match c.step {
            9 => {
                let (pending, last) = (self.cut(rules), self.last);
                if !pending.is_empty() {
                    self.append(pending, last, rules);
                }
                self.written_seq = last;
                let sb = Arc::make_mut(&mut c.sb);
                (sb.pos, sb.group, sb.chain) = (self.pos, self.number, self.chain);
                c.written = self.number - 1;
                (c.step, self.lead) = (1, Lead::Free);
            }
            0 => {
                self.flush();
                self.durable = self.durable.max(self.written);
                self.release(c.sb.seq);
                self.answer(c.sb.seq);
                (c.step, self.lead) = (1, Lead::Free);
            }
            1 => {
                let sb = Arc::make_mut(&mut c.sb);
                sb.durable = c.written.max(self.durable);
                if !rules.has(Rule::FirstTouch) {
                    let mut tree = self.tree.clone();
                    tree.files.iter_mut().for_each(|f| (f.staged, f.lost) = (None, false));
                    sb.sum = sum(&tree);
                    self.flying.push(Write::Page(c.sb.home, Cell::Meta(Arc::new(tree))));
                }
                if rules.has(Rule::FlushPages) {
                    self.flush();
                }
                let slot = if rules.has(Rule::TwoSlots) {
                    self.sb.generation % 2
                } else {
                    0
                };
                self.flying.push(Write::Super(c.sb.clone(), slot as usize));
                c.step = 2;
                if !rules.has(Rule::FlushSuper) || c.recovery && !rules.has(Rule::RecoverySuper) {
                    return self.install(c, false);
                }
            }
            _ => {
                self.flush();
                return self.install(c, true);
            }
        }
        self.checkpoint = Some(c);
    }

    fn install(&mut self, c: Checkpoint, flushed: bool) {
        self.tail = c.sb.pos;
        self.durable = self.durable.max(c.sb.durable);
        self.release(c.sb.seq);
        if c.recovery {
            self.redo.clear();
            self.quarantine.clear();
            self.recovering = 0;
        }
        if flushed {
            self.answer(c.sb.seq);
        }
        if self.lead == Lead::Checkpoint {
            self.lead = Lead::Free;
        }
        self.sb = c.sb;
    }

    /// A sync's flush returns.
    pub fn sync_flush(&mut self, rules: Rules) {
        let misses = |w: &Write| match w {
            Write::Log(..) => !rules.has(Rule::FlushAfterGroup),
            Write::Page(_, Cell::Data(_)) => !rules.has(Rule::FlushAfterData),
            _ => false,
        };
        let missed = self.flying.iter().rposition(misses).map(|at| self.flying.remove(at));
        self.flush();
        self.flying.extend(missed);
        self.durable = self.durable.max(self.written);
        let seq = self.written_seq;
        self.release(seq);
        self.answer(seq);
        self.lead = Lead::Free;
    }
}
