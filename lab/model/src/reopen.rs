//! Power cuts and deaths, and what the next server makes of them (S-9, S-16.5).

use crate::disk::{Cell, Disk, LOST, Write};
use crate::kernel::Kernel;
use crate::recover::{Found, Trust, recover};
use crate::rotten::CLOSED;
use crate::rules::{Rule, Rules};
use crate::state::{Lead, State};
use crate::tree::{FILES, Gone, INODES, NODES, Rec, brought};

/// What a dead server left.
pub struct Owed {
    /// Its redo that can be used.
    pub redo: Vec<(u8, Rec)>,
    /// The rest is damaged, now or since a death before.
    pub damaged: bool,
    /// How many of its entries are damaged now.
    pub lost: u8,
}

fn ways(write: &Write, rules: Rules, tears: bool) -> u32 {
    match write {
        Write::Page(..) => 2 + u32::from(tears),
        Write::Log(..) => 2,
        Write::Super(..) => 2 + u32::from(!rules.has(Rule::TwoSlots)),
    }
}

/// How many of the entries are taken where those behind them are damaged: as many as can be with each page there that they bring,
/// as it is named behind them (S-16.19).
fn there(redo: &[(u8, Rec)], read: &Disk, rules: Rules) -> usize {
    let recs: Vec<Rec> = redo.iter().map(|r| r.1).collect();
    let passes = |n: &usize| brought(&recs[..*n], rules).iter().all(|(p, v)| read.passes(*p, *v));
    (0..=recs.len()).rev().find(passes).unwrap_or(0)
}

impl State {
    /// How many states a power cut may leave: of each write that is on its way none, all, or a part.
    pub fn cuts(&self, rules: Rules, tears: bool) -> u32 {
        self.flying.iter().map(|w| ways(w, rules, tears)).product()
    }

    /// One of them, and its writes in words.
    pub fn after_cut(&self, mut choice: u32, rules: Rules, tears: bool) -> (Disk, String) {
        let (mut disk, mut words) = (self.disk.clone(), Vec::new());
        for write in &self.flying {
            let ways = ways(write, rules, tears);
            let part = match (choice % ways, write) {
                (0, _) => None,
                (1, _) => Some(("", write.clone())),
                (_, Write::Page(p, _)) => Some(("half of ", Write::Page(*p, Cell::Torn))),
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
                    Write::Log(page) => format!("log page {} of group {}", page.pos, page.number),
                    Write::Super(..) => "the superblock".to_owned(),
                });
            }
            choice /= ways;
        }
        (disk, words.join(", "))
    }

    /// What the server leaves that dies now, with redo from the last `lost` entries on damaged.
    pub fn owed(&self, lost: u8) -> Owed {
        let mut redo = self.logged.clone();
        redo.extend(self.checkpoint.iter().flat_map(|c| c.unlogged.iter().copied()));
        redo.extend(self.redo.iter().copied());
        redo.extend(self.beyond.iter().copied());
        redo.sort_by_key(|r| r.0);
        redo.truncate(redo.len().saturating_sub(lost as usize));
        let damaged = lost > 0 || !self.beyond.is_empty();
        Owed { redo, damaged, lost }
    }

    /// The pool is opened again; `owed` is what a dead server left.
    pub fn restart(&mut self, disk: Disk, owed: Option<Owed>, rules: Rules) {
        let read = if owed.is_some() { self.seen() } else { disk.clone() };
        self.disk = disk;
        match self.reopen(&read, owed, rules) {
            Err(CLOSED) => self.closed = true,
            Err(what) => self.bad = Some(what),
            Ok(()) => {}
        }
    }

    fn reopen(&mut self, read: &Disk, owed: Option<Owed>, rules: Rules) -> Result<(), &'static str> {
        let resumed = owed.is_some();
        let (damaged, lost) = owed.as_ref().map_or((false, 0), |owed| (owed.damaged, owed.lost));
        let trust = match resumed {
            true => Trust::Believed(self.refused.filter(|_| rules.has(Rule::ResumeJudges))),
            false => Trust::Judged,
        };
        let mut found = recover(read, rules, trust)?;
        let is_untold = || read.wiped && found.told < found.number;
        if !resumed && found.seq < self.acked && (is_untold() || read.is_wrong_alone(self.acked, rules)) {
            return Err(CLOSED);
        }
        if !found.is_whole {
            return Err("a page of recovered data is overwritten or missing");
        }
        self.refused = found.refused.map(|first| (found.sb.generation, first));
        let logged = found.seq;
        self.quarantine.clear();
        if rules.has(Rule::JudgedQuarantine) {
            self.quarantine.append(&mut found.freed);
        }
        (self.number_waits, self.inode_waits) = ([None; NODES], [None; INODES]);
        let missing = |r: &(u8, Rec)| r.0 > logged || !rules.has(Rule::OwedOnce);
        let mut redo: Vec<_> = owed.into_iter().flat_map(|owed| owed.redo).filter(missing).collect();
        let taken = match damaged && rules.has(Rule::OwedThere) {
            true => there(&redo, read, rules),
            false => redo.len(),
        };
        self.beyond = redo.split_off(taken);
        let system = found.sb.system();
        for &(seq, rec) in &redo {
            found.tree.replay_log(rec, system, rules)?;
            found.seq = seq;
            if let Rec::Map { page, .. } = rec {
                self.quarantine.retain(|q| q.1 != page);
            }
            if let Some(page) = rec.frees().filter(|_| rules.has(Rule::OwedQuarantine)) {
                self.quarantine.push((seq, page));
            }
        }
        if found.seq < self.acked || resumed && lost == 0 && found.seq != self.last {
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
        self.judge_gone(&found, read)?;
        self.history.truncate((found.seq - self.acked) as usize + 1);
        if let Some(last) = self.history.last_mut() {
            *last = found.tree.seen_behind(last);
        }
        match resumed {
            true => self.kernel.resumed(found.seq < self.last, rules),
            false => self.kernel = Kernel::default(),
        }
        self.take(found, redo, rules);
        Ok(())
    }

    /// A metablock costs itself only where it cannot be read, or could not be when the log had changes for it (S-9.10).
    fn judge_gone(&mut self, found: &Found, read: &Disk) -> Result<(), &'static str> {
        let Some((page, told)) = found.sb.leaf else {
            return Ok(());
        };
        let (gone, is_unread) = (found.tree.files[FILES - 1].gone, read.is_unread(page));
        if gone == Gone::No {
            self.costs = false;
        } else if gone == Gone::Lost && told != LOST {
            self.costs = true;
        }
        match gone != Gone::No && !is_unread && !self.costs {
            true => Err("a metablock is lost that is whole"),
            false => Ok(()),
        }
    }

    fn take(&mut self, found: Found, owed: Vec<(u8, Rec)>, rules: Rules) {
        let owes = owed.len() as u8;
        (self.tree, self.last, self.sb) = (found.tree, found.seq, found.sb);
        (self.redo, self.young) = (owed, 0);
        (self.chunks, self.leaving) = (self.sb.chunks.clone(), Vec::new());
        self.logged.clear();
        (self.durable, self.number, self.chain) = (found.durable, found.next, found.chain);
        (self.tail, self.given_up) = (self.sb.pos, false);
        (self.written, self.written_seq) = (found.next - 1, found.seq);
        (self.lead, self.checkpoint) = (Lead::Free, None);
        self.pos = if rules.has(Rule::NewPlace) {
            found.seen + self.shape.ring
        } else {
            found.pos
        };
        self.recovering = 1 + owes;
        if found.seen == self.sb.pos && owes == 0 && !rules.has(Rule::EachOpening) {
            self.pos = found.pos;
            self.flush();
            self.quarantine.clear();
            self.recovering = 0;
            let last = self.last;
            self.answer(last);
        }
    }
}
