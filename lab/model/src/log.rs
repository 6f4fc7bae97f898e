//! Groups: cut from the redo, written to the log, flushed by a sync (S-8).

use std::sync::Arc;

use crate::disk::{Cell, LogPage, Write, sum};
use crate::rules::{Rule, Rules};
use crate::state::{Lead, State};
use crate::tree::{Rec, compacted};

impl State {
    /// What the next group has.
    pub fn cut(&mut self, rules: Rules) -> Vec<Rec> {
        if rules.has(Rule::YoungCut) {
            self.young = 0;
        }
        let cut = core::mem::take(&mut self.redo);
        self.logged.extend(cut.iter().copied());
        compacted(cut.into_iter().map(|r| r.1).collect())
    }

    /// What a page of the log tells now, wherever it stands: life, generation of the superblock, highest group that was flushed.
    pub fn tells(&self) -> (u8, u8, u8) {
        (self.sb.life, self.sb.generation, self.durable)
    }

    /// Whether what is durable is told, by the log's last page or the superblock.
    pub fn is_told(&self) -> bool {
        let is_last = |page: &&LogPage| page.pos.wrapping_add(1) == self.pos && page.life == self.sb.life;
        let flying = self.flying.iter().filter_map(|w| match w {
            Write::Log(page) => Some(&**page),
            _ => None,
        });
        let pages = self.disk.ring.iter().flatten().map(|page| &**page);
        let last = pages.chain(flying).filter(is_last).map(|page| page.durable).max();
        let is_gone = last.is_none() && self.disk.wiped;
        is_gone || last.unwrap_or(0).max(self.sb.durable) >= self.durable
    }

    /// A group at the log's head whose write fails: its places are given up.
    pub fn append_badly(&mut self, (recs, pages): (Vec<Rec>, u8), seq: u8, arrives: bool, rules: Rules) {
        let before = (self.number, self.chain, self.written);
        let flying = self.flying.len();
        self.append((recs, pages), seq, rules);
        (self.number, self.chain, self.written) = before;
        if !arrives {
            self.flying.truncate(flying);
        }
        self.left.bad -= 1;
    }

    /// A sync's group is cut, and its write fails: its transactions wait for a checkpoint.
    pub fn sync_badly(&mut self, arrives: bool, rules: Rules) {
        let (redo, last) = (self.redo.clone(), self.last);
        let logged = self.logged.clone();
        let pending = self.cut(rules);
        self.append_badly((pending, self.shape.group), last, arrives, rules);
        (self.redo, self.logged) = (redo, logged);
        self.given_up = rules.has(Rule::GivenUp);
    }

    /// A group at the log's head, of so many pages; the first ones are full.
    pub fn append(&mut self, (recs, pages): (Vec<Rec>, u8), seq: u8, rules: Rules) {
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
        let from = |page: u8| (recs.len() * page as usize).div_ceil(pages as usize);
        for page in 0..pages {
            let page = Arc::new(LogPage {
                pos: self.pos,
                number: self.number,
                life,
                chain: self.chain,
                base: self.sb.generation,
                durable,
                seq,
                last: page + 1 == pages,
                recs: recs[from(page)..from(page + 1)].to_vec(),
            });
            self.chain = sum(&*page);
            self.pos += 1;
            self.flying.push(Write::Log(page));
        }
        self.written = self.number;
        self.number += 1;
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
