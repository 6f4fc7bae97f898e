//! The machine as stateright searches it: breadth first, so the first failure is a shortest one.

use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::action::Action;
use crate::checkpoint::Fate;
use crate::disk::{Cell, Page, Write};
use crate::instances::{Instance, Kind, shape};
use crate::rules::{Rule, Rules};
use crate::state::{Lead, State};
use crate::tree::FILES;

/// A write that fails has changed nothing, or arrived.
const BAD: [bool; 2] = [false, true];

/// An instance under rules.
#[derive(Clone)]
pub struct System {
    /// The rules.
    pub rules: Rules,
    /// The instance.
    pub instance: Instance,
}

impl System {
    /// What goes wrong.
    fn faults(&self, s: &State, out: &mut Vec<Action>) {
        if s.left.cuts > 0 {
            self.power_cuts(s, false, out);
        }
        let may_drop = matches!(self.instance.kind, Kind::Dropped | Kind::PagesDropped);
        if s.left.cuts > 0 && may_drop && s.may_drop() {
            self.power_cuts(s, true, out);
        }
        if s.left.kills > 0 {
            out.push(Action::Kill { lost: 0 });
            if s.left.strays > 0 {
                let redo = s.owed(0).redo.len() as u8;
                out.extend((1..=redo).map(|lost| Action::Kill { lost }));
            }
        }
        if s.left.rotten > 0
            && matches!(
                self.instance.kind,
                Kind::RottenLog | Kind::RottenCarried | Kind::WrongLog
            )
        {
            let has_page = |place: &u8| s.disk.ring[*place as usize].is_some();
            out.extend((0..s.shape.ring).filter(has_page).map(Action::RotLog));
        } else if matches!(self.instance.kind, Kind::RottenEnd | Kind::Wrong | Kind::WrongStaged) {
            self.bad_ends(s, out);
        } else if self.instance.kind == Kind::RottenMeta {
            self.metadata_faults(s, out);
        } else if s.left.rotten > 0 {
            let has_data = |p: &Page| matches!(s.disk.pages[*p as usize], Cell::Data(_));
            out.extend((0..s.shape.pages).filter(has_data).map(Action::Rot));
        }
        if s.left.wrong > 0 {
            let has_data = |p: &Page| matches!(s.disk.pages[*p as usize], Cell::Data(_));
            out.extend((0..s.shape.pages).filter(has_data).map(Action::Flip));
        }
    }

    /// The page far away reaches the medium; then the log goes bad up to its end, if each answered sync is told there.
    fn bad_ends(&self, s: &State, out: &mut Vec<Action>) {
        let told = s.tells();
        if s.lead == Lead::Free && s.recovering == 0 && s.durable > 0 && s.disk.far != Some(told) {
            out.push(Action::Tell);
        }
        let has_records = |w: &Write| matches!(w, Write::Log(page) if !page.recs.is_empty());
        let is_told = s.disk.far.is_some_and(|far| far.2 >= s.durable) && !s.flying.iter().any(has_records);
        let is_still = s.lead == Lead::Free && s.recovering == 0 && s.checkpoint.is_none();
        if s.left.rotten > 0 && is_told && is_still {
            let places = (0..s.pos.wrapping_sub(s.sb.pos)).map(|i| s.sb.pos.wrapping_add(i));
            out.extend(places.map(Action::Wipe));
        }
    }

    /// Pages of metadata that a superblock leads to.
    fn metadata_faults(&self, s: &State, out: &mut Vec<Action>) {
        let leads = |p: &Page| s.disk.supers.iter().flatten().any(|sb| sb.uses(*p));
        for page in (0..s.shape.pages).filter(leads) {
            if s.disk.is_unread(page) {
                out.push(Action::Mend(page));
            } else if s.left.rotten > 0 && matches!(s.disk.pages[page as usize], Cell::Leaf(_) | Cell::Meta(_)) {
                out.push(Action::RotMeta(page));
            }
        }
    }

    /// A checkpoint's moment; `may_write`: its group may be written.
    fn moments(&self, s: &State, may_write: bool, out: &mut Vec<Action>) {
        for place in s.places(self.rules) {
            let mut olds = Vec::new();
            if may_write {
                olds.push(Fate::Written);
                let bad = BAD.map(|arrives| Fate::Bad { arrives });
                olds.extend(bad.into_iter().filter(|_| !s.redo.is_empty() && s.left.bad > 0));
            }
            if !s.redo.is_empty() || s.given_up {
                olds.push(Fate::Full);
            }
            for old in olds {
                let pages = s.shape.group * u8::from(old != Fate::Full && !s.redo.is_empty());
                let left = s.left.bad - u8::from(matches!(old, Fate::Bad { .. }));
                let fates = self.carries(s, s.pos + pages, left);
                out.extend(fates.map(|carry| Action::Begin { place, old, carry }));
            }
        }
    }

    /// What may become of the carried group at `pos`: where its write fails there must be room for another one, and for that
    /// of a recovery behind it, which this one may be (S-8.12).
    fn carries(&self, s: &State, pos: u8, left: u8) -> impl Iterator<Item = Fate> {
        let staged = s.tree.files.iter().any(|f| f.staged.is_some());
        let carried = if s.recovering > 0 { 2 } else { 2 + self.behind() };
        let room = carried * s.shape.carried;
        // Positions go round: a log that begins anew may lie before the tail.
        let may = left > 0 && staged && pos.wrapping_sub(s.tail).wrapping_add(room) <= s.shape.ring;
        let bad = BAD.map(|arrives| Fate::Bad { arrives });
        [Fate::Written].into_iter().chain(bad.into_iter().filter(move |_| may))
    }

    /// Groups that a recovery may carry behind what a checkpoint carries, and there is room for.
    fn behind(&self) -> u8 {
        u8::from(self.rules.has(Rule::RoomTwice))
    }

    /// Pages of the log that a group takes, with those that must be left behind it.
    fn room(&self, s: &State) -> u8 {
        s.shape.group + (1 + self.behind()) * s.shape.carried
    }

    /// Power cuts; `drops`: in them the device drops the newest superblock.
    fn power_cuts(&self, s: &State, drops: bool, out: &mut Vec<Action>) {
        for choice in 0..s.cuts(self.rules, self.instance.tears) {
            let (next, words) = self.cut(s, choice, drops);
            // Behind the last cut only what fails at once is of interest, and nothing behind a drop that is told.
            if s.left.cuts > 1 && !(drops && next.closed) || next.bad.is_some() {
                out.push(Action::Cut { choice, drops, words });
            }
        }
    }

    fn cut(&self, s: &State, choice: u32, drops: bool) -> (State, String) {
        let mut next = s.clone();
        let (disk, words) = s.after_cut(choice, self.rules, self.instance.tears);
        next.flying.clear();
        match drops {
            true => next.drop_newest(disk, self.rules),
            false => next.restart(disk, None, self.rules),
        }
        next.left.cuts -= 1;
        (next, words)
    }
}

impl Model for System {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(self.instance.left, shape(self.instance.kind))]
    }

    fn actions(&self, s: &State, out: &mut Vec<Action>) {
        if s.bad.is_some() || s.closed {
            return;
        }
        self.faults(s, out);
        if s.checkpoint.is_some() {
            out.push(Action::Step);
        }
        if s.recovering > 0 {
            if s.checkpoint.is_none() {
                for place in s.places(self.rules) {
                    let fates = self.carries(s, s.pos.wrapping_sub(s.shape.ring), s.left.bad);
                    out.extend(fates.map(|carry| Action::Recover { place, carry }));
                }
            }
            return;
        }
        if s.left.ops > 0 {
            out.extend(s.may(self.instance.kind, self.rules));
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
        let tells = matches!(self.instance.kind, Kind::Wrong | Kind::WrongStaged | Kind::WrongLog);
        if tells && idle && !s.given_up && !s.is_told() && s.has_room(self.room(s) - s.shape.group + 1) {
            out.push(Action::TellNear);
        }
        let useful = !s.redo.is_empty() || !s.quarantine.is_empty() || !s.flying.is_empty();
        let has_room = s.redo.is_empty() || s.has_room(self.room(s));
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
            self.moments(s, has_room && !s.given_up, out);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let (mut s, rules) = (last.clone(), self.rules);
        match action {
            Action::Op(op) => s.transact(op, rules)?,
            Action::Lose(f) => s.lose(f),
            Action::Rot(page) => {
                if let Cell::Data(val) = s.disk.pages[page as usize] {
                    s.disk.pages[page as usize] = Cell::Bad(val);
                }
                s.left.rotten -= 1;
            }
            Action::Flip(page) => {
                if let Cell::Data(val) = s.disk.pages[page as usize] {
                    s.disk.pages[page as usize] = Cell::Wrong(val);
                }
                s.left.wrong -= 1;
            }
            Action::TellNear => s.append((Vec::new(), 1), s.written_seq, rules),
            Action::RotLog(place) => {
                s.disk.rotten |= 1 << place;
                s.left.rotten -= 1;
            }
            Action::Tell => s.disk.far = Some(s.tells()),
            Action::Wipe(from) => {
                let places = (0..s.pos.wrapping_sub(from)).map(|i| from.wrapping_add(i) as usize % s.disk.ring.len());
                for place in places.collect::<Vec<_>>() {
                    s.disk.ring[place] = None;
                }
                s.disk.wiped = true;
                s.left.rotten -= 1;
            }
            Action::RotMeta(page) => {
                s.disk.unread |= 1 << page;
                s.left.rotten -= 1;
            }
            Action::Mend(page) => s.disk.unread &= !(1 << page),
            Action::Discard(page) => {
                s.write_page(page, Cell::Blank, false);
                s.left.discards -= 1;
            }
            Action::SyncCut => {
                if !s.redo.is_empty() {
                    let (pending, last) = (s.cut(rules), s.last);
                    s.append((pending, s.shape.group), last, rules);
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
            Action::Begin { place, old, carry } => s.begin(place, old, carry, rules),
            Action::Recover { place, carry } => s.begin_recovery(place, carry, rules),
            Action::Step => s.step(rules),
            Action::Cut { choice, drops, .. } => s = self.cut(last, choice, drops).0,
            Action::LookUp(n) => s.look_up(n),
            Action::Forget(n) => s.kernel.held[n as usize] = None,
            Action::Kill { lost } => {
                let (owed, disk) = (s.owed(lost), s.disk.clone());
                s.restart(disk, Some(owed), rules);
                s.left.kills -= 1;
                s.left.strays -= u8::from(lost > 0);
            }
        }
        if s.closed {
            return Some(s);
        }
        let seen = s.seen();
        let there = |(p, v): (Page, u8)| seen.has(p, v);
        if s.bad.is_none() && !s.tree.known().filter_map(|f| f.page).all(there) {
            s.bad = Some("a page in use is overwritten");
        }
        if let (None, Err(what)) = (s.bad, s.kernel.is_right(&s.tree)) {
            s.bad = Some(what);
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
