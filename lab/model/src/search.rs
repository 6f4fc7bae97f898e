//! The machine as stateright searches it: breadth first, so the first failure is a shortest one.

use std::fmt;

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::disk::{Cell, FILES, NODES, PAGES, Page, RING, Rec, Write};
use crate::instances::{Instance, Kind};
use crate::machine::{Fate, Lead, State};
use crate::rules::{Rule, Rules};

/// A write that fails has changed nothing, or arrived.
const BAD: [bool; 2] = [false, true];

/// A step.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    Write { f: u8, page: Page, late: bool },
    Share(u8),
    Unlink(u8),
    Stage(u8),
    Birth(u8),
    Update(u8),
    Death(u8),
    Discard(Page),
    Rot(Page),
    Lose(u8),
    SyncCut,
    SyncBad { arrives: bool },
    SyncFlush,
    Begin { home: Page, old: Fate, carry: Fate },
    Step,
    Recover { home: Page, carry: Fate },
    Cut(u32, String),
    Kill,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Write { f: file, page, late } => {
                let late = if *late { ", whose old write arrives last" } else { "" };
                write!(f, "file {file} is written to page {page}{late}")
            }
            Action::Share(file) => write!(f, "file {file} shares the other's page"),
            Action::Unlink(file) => write!(f, "file {file} is emptied"),
            Action::Stage(file) => write!(f, "a part of file {file} is staged"),
            Action::Birth(n) => write!(f, "metablock {n} is born"),
            Action::Update(n) => write!(f, "metablock {n} is changed"),
            Action::Death(n) => write!(f, "metablock {n} dies"),
            Action::Lose(file) => write!(f, "the staged page of file {file} is damaged in memory"),
            Action::Rot(page) => write!(f, "page {page} becomes unreadable"),
            Action::Discard(page) => write!(f, "page {page} is discarded"),
            Action::SyncCut => write!(f, "a sync writes its group"),
            Action::SyncFlush => write!(f, "its flush returns and it is answered"),
            Action::SyncBad { arrives } => {
                let fate = Fate::Bad { arrives: *arrives };
                write!(f, "a sync cuts its group{}", becomes("it", fate))
            }
            Action::Begin { home, old, carry } => {
                let (old, carry) = (becomes("its group", *old), becomes("the carried group", *carry));
                write!(f, "a checkpoint's moment, home {home}{old}{carry}")
            }
            Action::Step => write!(f, "the checkpoint's next step"),
            Action::Recover { home, carry } => {
                let carry = becomes("the carried group", *carry);
                write!(f, "recovery writes its checkpoint, home {home}{carry}")
            }
            Action::Cut(_, left) if left.is_empty() => write!(f, "power goes, nothing unflushed is left"),
            Action::Cut(_, left) => write!(f, "power goes, of the unflushed is left: {left}"),
            Action::Kill => write!(f, "the server dies and is resumed"),
        }
    }
}

fn becomes(what: &str, fate: Fate) -> String {
    match fate {
        Fate::Written => String::new(),
        Fate::Full => format!(", and {what} does not fit"),
        Fate::Bad { arrives: true } => format!(", and the write of {what} fails, though it arrives"),
        Fate::Bad { arrives: false } => format!(", and the write of {what} fails"),
    }
}

/// An instance under rules.
#[derive(Clone)]
pub struct System {
    /// The rules.
    pub rules: Rules,
    /// The instance.
    pub instance: Instance,
}

impl System {
    fn changes(&self, s: &State, out: &mut Vec<Action>) {
        let kind = self.instance.kind;
        if kind == Kind::Nodes {
            for n in 0..NODES as u8 {
                if s.tree.nodes[n as usize].alive {
                    out.extend([Action::Update(n), Action::Death(n)]);
                } else if s.number_waits[n as usize].is_none() {
                    out.push(Action::Birth(n));
                }
            }
            return;
        }
        let free = s.free(self.rules);
        for f in 0..FILES as u8 {
            // A full log is all that this family is about.
            for &page in free.iter().filter(|_| kind != Kind::Room) {
                out.push(Action::Write { f, page, late: false });
                let late = |w: &Write| match w {
                    Write::Page(p, Cell::Blank) => *p == page && !self.rules.has(Rule::DiscardDone),
                    Write::Page(p, Cell::Data(_)) => *p == page && !self.rules.has(Rule::YoungWrites),
                    _ => false,
                };
                if s.flying.iter().any(late) {
                    out.push(Action::Write { f, page, late: true });
                }
            }
            let file = s.tree.files[f as usize];
            let other = s.tree.files[1 - f as usize];
            if file.page.is_some() || file.staged.is_some() {
                out.push(Action::Unlink(f));
            }
            if matches!(
                kind,
                Kind::Staged | Kind::Room | Kind::Killed | Kind::BadPage | Kind::Lost
            ) {
                out.push(Action::Stage(f));
            }
            if kind == Kind::Shares && other.page.is_some() && other.page != file.page {
                out.push(Action::Share(f));
            }
        }
    }

    /// What may become of the carried group at `pos`: where its write fails there must be room for another one, and for that
    /// of a recovery behind it, which this one may be (S-8.12).
    fn carries(&self, s: &State, pos: u8, left: u8) -> impl Iterator<Item = Fate> {
        let staged = s.tree.files.iter().any(|f| f.staged.is_some());
        let room = if s.recovering > 0 { 2 } else { self.room() };
        // Positions go round: a log that begins anew may lie before the tail.
        let may = left > 0 && staged && pos.wrapping_sub(s.tail).wrapping_add(room) <= RING;
        let bad = BAD.map(|arrives| Fate::Bad { arrives });
        [Fate::Written].into_iter().chain(bad.into_iter().filter(move |_| may))
    }

    fn room(&self) -> u8 {
        2 + u8::from(self.rules.has(Rule::RoomTwice))
    }

    fn cut(&self, s: &State, choice: u32) -> (State, String) {
        let mut next = s.clone();
        let (disk, words) = s.after_cut(choice, self.rules, self.instance.tears);
        next.flying.clear();
        next.restart(disk, None, self.rules);
        next.left.cuts -= 1;
        (next, words)
    }
}

impl Model for System {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(self.instance.left)]
    }

    fn actions(&self, s: &State, out: &mut Vec<Action>) {
        if s.bad.is_some() {
            return;
        }
        if s.left.cuts > 0 {
            for choice in 0..s.cuts(self.rules, self.instance.tears) {
                let (next, words) = self.cut(s, choice);
                // Behind the last cut only what fails at once is of interest.
                if s.left.cuts > 1 || next.bad.is_some() {
                    out.push(Action::Cut(choice, words));
                }
            }
        }
        if s.left.kills > 0 {
            out.push(Action::Kill);
        }
        if s.left.rotten > 0 {
            let has_data = |p: &Page| matches!(s.disk.pages[*p as usize], Cell::Data(_));
            out.extend((0..PAGES as u8).filter(has_data).map(Action::Rot));
        }
        if s.checkpoint.is_some() {
            out.push(Action::Step);
        }
        if s.recovering > 0 {
            if s.checkpoint.is_none() {
                for home in s.free(self.rules) {
                    let fates = self.carries(s, s.pos.wrapping_sub(RING), s.left.bad);
                    out.extend(fates.map(|carry| Action::Recover { home, carry }));
                }
            }
            return;
        }
        if s.left.ops > 0 {
            self.changes(s, out);
        }
        if s.left.discards > 0 {
            let waits = s
                .quarantine
                .iter()
                .map(|q| q.1)
                .filter(|_| !self.rules.has(Rule::DiscardWaits));
            out.extend(s.free(self.rules).into_iter().chain(waits).map(Action::Discard));
        }
        if s.left.losses > 0 {
            let may = |f: &u8| s.tree.files[*f as usize].staged.is_some() && !s.tree.files[*f as usize].lost;
            out.extend((0..FILES as u8).filter(may).map(Action::Lose));
        }
        let idle = s.lead == Lead::Free;
        let useful = !s.redo.is_empty() || !s.quarantine.is_empty() || !s.flying.is_empty();
        let has_room = s.redo.is_empty() || s.has_room(self.room());
        if idle && s.left.syncs > 0 && useful && has_room && !s.given_up {
            out.push(Action::SyncCut);
            if s.left.bad > 0 && !s.redo.is_empty() {
                out.extend(BAD.map(|arrives| Action::SyncBad { arrives }));
            }
        }
        if s.lead == Lead::Sync {
            out.push(Action::SyncFlush);
        }
        if idle && s.left.checkpoints > 0 && s.checkpoint.is_none() {
            for home in s.free(self.rules) {
                let mut olds = Vec::new();
                if has_room && !s.given_up {
                    olds.push(Fate::Written);
                    let bad = BAD.map(|arrives| Fate::Bad { arrives });
                    olds.extend(bad.into_iter().filter(|_| !s.redo.is_empty() && s.left.bad > 0));
                }
                if !s.redo.is_empty() || s.given_up {
                    olds.push(Fate::Full);
                }
                for old in olds {
                    let groups = u8::from(old != Fate::Full && !s.redo.is_empty());
                    let left = s.left.bad - u8::from(matches!(old, Fate::Bad { .. }));
                    let fates = self.carries(s, s.pos + groups, left);
                    out.extend(fates.map(|carry| Action::Begin { home, old, carry }));
                }
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let (mut s, rules) = (last.clone(), self.rules);
        let val = s.value;
        match action {
            Action::Write { f, page, late } => {
                s.value += 1;
                s.write_page(page, Cell::Data(val), late);
                let old = s.leaves(f, rules);
                s.commit(Rec::Map { f, page, val, old }, rules);
            }
            Action::Share(f) => {
                let (page, val) = s.tree.files[1 - f as usize].page?;
                let old = s.leaves(f, rules);
                s.commit(Rec::Share { f, page, val, old }, rules);
            }
            Action::Unlink(f) => {
                let old = s.leaves(f, rules);
                s.commit(Rec::Unlink { f, old }, rules);
            }
            Action::Stage(f) => {
                s.value += 1;
                let before = s.tree.files[f as usize].shows();
                s.commit(Rec::Tail { f, before, val }, rules);
            }
            Action::Birth(n) => {
                let generation = s.tree.nodes[n as usize].generation + 1;
                s.commit(Rec::Birth { n, generation }, rules);
            }
            Action::Update(n) => {
                s.value += 1;
                let generation = s.tree.nodes[n as usize].generation;
                s.commit(Rec::Update { n, generation, val }, rules);
            }
            Action::Death(n) => {
                let generation = s.tree.nodes[n as usize].generation;
                s.commit(Rec::Death { n, generation }, rules);
            }
            Action::Lose(f) => s.lose(f),
            Action::Rot(page) => {
                if let Cell::Data(val) = s.disk.pages[page as usize] {
                    s.disk.pages[page as usize] = Cell::Bad(val);
                }
                s.left.rotten -= 1;
            }
            Action::Discard(page) => {
                s.write_page(page, Cell::Blank, false);
                s.left.discards -= 1;
            }
            Action::SyncCut => {
                if !s.redo.is_empty() {
                    let (pending, last) = (s.cut(rules), s.last);
                    s.append(pending, last, rules);
                    s.written_seq = last;
                }
                s.lead = Lead::Sync;
                s.left.syncs -= 1;
            }
            Action::SyncBad { arrives } => {
                s.sync_badly(arrives, rules);
                s.left.syncs -= 1;
            }
            Action::SyncFlush => s.sync_flush(rules),
            Action::Begin { home, old, carry } => s.begin(home, old, carry, rules),
            Action::Recover { home, carry } => s.begin_recovery(home, carry, rules),
            Action::Step => s.step(rules),
            Action::Cut(choice, _) => s = self.cut(last, choice).0,
            Action::Kill => {
                let mut owed = s.logged.clone();
                owed.extend(s.checkpoint.iter().flat_map(|c| c.unlogged.iter().copied()));
                owed.append(&mut s.redo);
                owed.sort_by_key(|r| r.0);
                let disk = s.disk.clone();
                s.restart(disk, Some(owed), rules);
                s.left.kills -= 1;
            }
        }
        let seen = s.seen();
        let there = |(p, v): (Page, u8)| seen.has(p, v);
        if s.bad.is_none() && !s.tree.files.iter().filter_map(|f| f.page).all(there) {
            s.bad = Some("a page in use is overwritten");
        }
        Some(s)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("kept", |_, s: &State| s.bad.is_none())]
    }
}

/// What a search came to.
pub struct Outcome {
    /// Different states seen.
    pub states: usize,
    /// What went wrong, and the steps to it.
    pub failure: Option<(&'static str, Vec<String>)>,
}

/// Searches an instance to the end, or to its first failure.
pub fn search(instance: Instance, rules: Rules) -> Outcome {
    let checker = System { rules, instance }.checker().threads(1);
    let checker = checker.finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let failure = checker.discovery("kept").map(|path| {
        let what = path.last_state().bad.unwrap_or_default();
        (what, path.into_actions().iter().map(Action::to_string).collect())
    });
    Outcome {
        states: checker.unique_state_count(),
        failure,
    }
}
