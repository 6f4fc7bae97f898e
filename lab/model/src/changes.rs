//! Which transactions there may be in each family of instances, and what they do.

use crate::action::{Action, Op};
use crate::disk::{Cell, Page, Write};
use crate::instances::Kind;
use crate::rules::{Rule, Rules};
use crate::state::State;
use crate::tree::{FILES, File, Gone, INODES, NODES, Rec};

impl State {
    /// Transactions that may come next, and what the kernel may do besides.
    pub fn may(&self, kind: Kind, rules: Rules) -> Vec<Action> {
        match kind {
            Kind::Nodes => self.may_with_nodes(),
            Kind::Inodes => self.may_with_inodes(rules),
            _ => self.may_with_files(kind, rules),
        }
    }

    fn may_with_nodes(&self) -> Vec<Action> {
        let of = |n: u8| match self.tree.nodes[n as usize].alive {
            true => vec![Op::Update(n), Op::Death(n)],
            false if self.number_waits[n as usize].is_none() => vec![Op::Birth(n)],
            false => Vec::new(),
        };
        (0..NODES as u8).flat_map(of).map(Action::Op).collect()
    }

    /// Whoever changes a file has looked it up.
    fn may_with_inodes(&self, rules: Rules) -> Vec<Action> {
        let mut out = Vec::new();
        for n in 0..INODES as u8 {
            let is_held = self.kernel.held[n as usize].is_some();
            if is_held {
                out.push(Action::Forget(n));
            }
            if self.tree.inodes[n as usize].file.is_some() {
                out.push(match is_held {
                    true => Action::Op(Op::Change(n)),
                    false => Action::LookUp(n),
                });
                if !is_held || !rules.has(Rule::HeldStays) {
                    out.push(Action::Op(Op::Free(n)));
                }
            } else if self.inode_waits[n as usize].is_none() && !self.kernel.keeps(n, rules) {
                out.push(Action::Op(Op::Create(n)));
            }
        }
        out
    }

    fn may_with_files(&self, kind: Kind, rules: Rules) -> Vec<Action> {
        let mut out = Vec::new();
        let free = self.free(rules);
        let stages = [
            Kind::Staged,
            Kind::Room,
            Kind::Killed,
            Kind::Dropped,
            Kind::BadPage,
            Kind::Lost,
            Kind::PagesStaged,
            Kind::Redo,
            Kind::RottenCarried,
            Kind::RottenMeta,
            Kind::WrongStaged,
        ];
        let may = |f: &u8| self.tree.files[*f as usize].gone == Gone::No || !rules.has(Rule::Fenced);
        for f in (0..FILES as u8).filter(may) {
            // A full log is all that this family is about.
            for &page in free.iter().filter(|_| kind != Kind::Room) {
                out.push(Op::Write { f, page, late: false });
                if self.may_arrive_late(page, rules) {
                    out.push(Op::Write { f, page, late: true });
                }
            }
            let file = self.tree.files[f as usize];
            let other = self.tree.files[1 - f as usize];
            if file.page.is_some() || file.staged.is_some() {
                out.push(Op::Unlink(f));
            }
            if stages.contains(&kind) {
                out.push(Op::Stage(f));
            }
            if kind == Kind::RottenMeta {
                out.push(Op::Attr(f));
            }
            if matches!(kind, Kind::Shares | Kind::WrongStaged) && other.page.is_some() && other.page != file.page {
                out.push(Op::Share(f));
            }
        }
        out.into_iter().map(Action::Op).collect()
    }

    /// Whether something is on its way to the page that may arrive behind the next write.
    fn may_arrive_late(&self, page: Page, rules: Rules) -> bool {
        let late = |w: &Write| match w {
            Write::Page(p, Cell::Blank) => *p == page && !rules.has(Rule::DiscardDone),
            Write::Page(p, Cell::Data(_)) => *p == page && !rules.has(Rule::YoungWrites),
            _ => false,
        };
        self.flying.iter().any(late)
    }

    /// A transaction; its values are its own.
    pub fn transact(&mut self, op: Op, rules: Rules) -> Option<()> {
        let val = self.value;
        let gone = op.file().filter(|f| self.tree.files[*f as usize].gone != Gone::No);
        // Whoever changes what is gone takes zeros for it.
        let had = gone.map(|f| core::mem::take(&mut self.tree.files[f as usize]));
        if !matches!(
            op,
            Op::Share(_) | Op::Unlink(_) | Op::Birth(_) | Op::Death(_) | Op::Free(_)
        ) {
            self.value += 1;
        }
        let generation = |n: u8| self.tree.nodes[n as usize].generation;
        let rec = match op {
            Op::Write { f, page, .. } => Rec::Map {
                f,
                page,
                val,
                old: self.leaves(f, rules),
            },
            Op::Share(f) => {
                let (page, val) = self.tree.files[1 - f as usize].page?;
                let old = self.leaves(f, rules);
                Rec::Share { f, page, val, old }
            }
            Op::Unlink(f) => Rec::Unlink {
                f,
                old: self.leaves(f, rules),
            },
            Op::Stage(f) => Rec::Tail {
                f,
                before: self.tree.files[f as usize].shows(),
                val,
            },
            Op::Attr(f) => Rec::Attr { f, val },
            Op::Birth(n) => Rec::Birth {
                n,
                generation: generation(n) + 1,
            },
            Op::Update(n) => Rec::Update {
                n,
                generation: generation(n),
                val,
            },
            Op::Death(n) => Rec::Death {
                n,
                generation: generation(n),
            },
            Op::Create(n) => Rec::Create { n, file: val },
            Op::Change(n) => Rec::Change { n, val },
            Op::Free(n) => Rec::Free { n },
        };
        if let Op::Write { page, late, .. } = op {
            self.write_page(page, Cell::Data(val), late);
        }
        self.commit(rec, rules);
        if let (Some(f), Some(had)) = (gone, had) {
            self.judge_made(op, self.tree.files[f as usize], had);
        }
        if let Op::Create(n) | Op::Change(n) = op {
            self.look_up(n);
        }
        Some(())
    }

    /// What `op` did not change of a file that had been gone is what it was.
    fn judge_made(&mut self, op: Op, file: File, had: File) {
        let same = match op {
            Op::Attr(_) => file.shows() == had.shows(),
            _ => file.attr == had.attr,
        };
        if !same {
            self.bad = Some("a file that is gone shows what it never had");
        }
    }
}
