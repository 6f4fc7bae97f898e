//! The steps of a checkpoint, and of the one that ends a recovery (S-10, S-9.5).

use std::sync::Arc;

use crate::chunks::Place;
use crate::disk::{ANEW, Cell, FRESH, LOST, Super, Write, sum};
use crate::rules::{Rule, Rules};
use crate::state::{Checkpoint, Lead, State};
use crate::tree::{FILES, File, Gone, Rec, Tree, compacted};

/// The sum of what is not written yet.
const UNKNOWN: u32 = 0;

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

impl State {
    /// The metadata of the moment without staged data, and staged data as it is carried.
    fn snapshot(&self, rules: Rules) -> (Tree, Vec<Rec>) {
        let of = |f: u8| {
            let file = self.tree.files[f as usize];
            if file.gone != Gone::No && !rules.has(Rule::StagedStays) {
                return None;
            }
            match file.lost {
                true => rules.has(Rule::LostCarried).then_some(Rec::Lost { f }),
                false => file.staged.map(|val| Rec::Carry { f, val }),
            }
        };
        (self.tree.without_staged(), (0..FILES as u8).filter_map(of).collect())
    }

    /// The superblock to come, as far as it is known, its log beginning at (position, group, chain).
    fn next_super(&self, place: Place, life: u8, (pos, group, chain): (u8, u8, u32), rules: Rules) -> Super {
        let mut leaf = place.leaf.map(|page| (page, UNKNOWN)).or(self.sb.leaf);
        let is_lost = match self.tree.files[FILES - 1].gone {
            Gone::No => false,
            Gone::Unread => !rules.has(Rule::OnlyChanged),
            Gone::Lost => rules.has(Rule::LostForGood),
        };
        if is_lost && let Some((_, told)) = &mut leaf {
            *told = LOST;
        }
        Super {
            generation: self.sb.generation + 1,
            life,
            seq: self.last,
            home: place.home,
            sum: 0,
            leaf,
            chunks: self.chunks.clone(),
            pos,
            group,
            chain,
            durable: 0,
        }
    }

    /// Metadata goes to its homes; what lies by itself only if it goes to another one.
    fn write_metadata(&mut self, sb: &mut Super, mut tree: Tree) {
        if let Some((page, told)) = &mut sb.leaf {
            let file: File = core::mem::take(&mut tree.files[FILES - 1]);
            if *told == UNKNOWN {
                *told = sum(&file);
                self.flying.push(Write::Page(*page, Cell::Leaf(file)));
            }
        }
        sb.sum = sum(&tree);
        self.flying.push(Write::Page(sb.home, Cell::Meta(Arc::new(tree))));
    }

    /// A checkpoint's moment (S-10.1), and what becomes of its group and of the carried one.
    pub fn begin(&mut self, place: Place, old: Fate, carry: Fate, rules: Rules) {
        let full = core::mem::take(&mut self.given_up) || old != Fate::Written;
        let (tree, carried) = self.snapshot(rules);
        self.move_chunks(place);
        let (at, mut before) = (self.last, (self.pos, self.number, self.chain));
        let (mut unlogged, mut step, number) = (Vec::new(), 1, self.number);
        let (group, carries) = (self.shape.group, self.shape.carried);
        if rules.has(Rule::Moment) && full {
            if let Fate::Bad { arrives } = old {
                let pending = compacted(self.redo.iter().map(|r| r.1).collect());
                self.append_badly((pending, group), at, arrives, rules);
            }
            unlogged = core::mem::take(&mut self.redo);
            self.young = 0;
            if rules.has(Rule::FullChain) {
                self.chain ^= ANEW;
            }
        } else if rules.has(Rule::Moment) {
            let pending = self.cut(rules);
            if !pending.is_empty() {
                self.append((pending, group), at, rules);
            }
        } else {
            step = 9;
        }
        let old_group = self.number > number;
        if let Fate::Bad { arrives } = carry {
            self.append_badly((carried.clone(), carries), at, arrives, rules);
            self.given_up = rules.has(Rule::GivenUp);
            self.chain ^= u32::from(rules.has(Rule::FullChain)) << 16;
        }
        if rules.has(Rule::OldInOldLog) {
            before = (self.pos, self.number, self.chain);
        }
        if !carried.is_empty() && rules.has(Rule::Carry) {
            self.append((carried, carries), at, rules);
        }
        if old_group && rules.has(Rule::FlushOld) && !self.given_up {
            step = 0;
        }
        self.written_seq = self.written_seq.max(at);
        let mut sb = self.next_super(place, self.sb.life, before, rules);
        self.write_metadata(&mut sb, tree);
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
    pub fn begin_recovery(&mut self, place: Place, carry: Fate, rules: Rules) {
        if rules.has(Rule::RecoveryFlush) {
            self.flush();
        }
        let life = self.sb.life + if rules.has(Rule::Life) { self.recovering } else { 0 };
        let (tree, carried) = self.snapshot(rules);
        self.move_chunks(place);
        self.chain = FRESH;
        self.number += u8::from(carried.is_empty() && rules.has(Rule::LaterGroup));
        let (seq, carries) = (self.last, self.shape.carried);
        let mut sb = self.next_super(place, life, (self.pos, self.number, self.chain), rules);
        self.write_metadata(&mut sb, tree);
        self.checkpoint = Some(Checkpoint {
            step: 1,
            sb: Arc::new(sb),
            written: 0,
            recovery: true,
            unlogged: Vec::new(),
        });
        if let Fate::Bad { arrives } = carry {
            self.append_badly((carried.clone(), carries), seq, arrives, rules);
            self.chain ^= u32::from(rules.has(Rule::FullChain)) << 16;
            let (pos, chain) = (self.pos, self.chain);
            if let Some(c) = &mut self.checkpoint {
                let sb = Arc::make_mut(&mut c.sb);
                (sb.pos, sb.chain) = (pos, chain);
            }
        }
        if !carried.is_empty() && rules.has(Rule::Carry) {
            self.append((carried, carries), seq, rules);
        }
        let written = self.number - 1;
        if let Some(c) = &mut self.checkpoint {
            c.written = written;
        }
        self.written_seq = seq;
        self.lead = Lead::Checkpoint;
    }

    /// The next step of the checkpoint under way.
    pub fn step(&mut self, rules: Rules) {
        let Some(mut c) = self.checkpoint.take() else { return };
        match c.step {
            9 => {
                let (pending, last) = (self.cut(rules), self.last);
                if !pending.is_empty() {
                    self.append((pending, self.shape.group), last, rules);
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
                //
                if !rules.has(Rule::FirstTouch) {
                    let tree = self.tree.without_staged();
                    self.write_metadata(sb, tree);
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
        self.leaving.clear();
        if c.recovery {
            self.redo.clear();
            self.beyond.clear();
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
}
