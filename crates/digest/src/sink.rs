//! Where the items of both sides go: one multiset digest an equation (S-15.12), the left side in, the right side out.

use crate::equation::{Equation, Equations};
use keepfs_codes::digest::{Digest, Extent, Key};
use std::cell::Cell;

/// Takes items. `times` is how often an item comes in; negative: it goes out.
pub(crate) trait Sink {
    /// Whether the equation is looked at.
    fn wants(&self, equation: Equation) -> bool;
    /// Consecutive numbers.
    fn run(&mut self, equation: Equation, start: u64, len: u64, times: i64);
    /// A number with another one: an object and what it has.
    fn pair(&mut self, equation: Equation, first: u64, second: u64, times: i64);
    /// A count without objects.
    fn count(&mut self, equation: Equation, times: i64);
    /// A local rule does not hold: `field` of an object, at a place in it.
    fn breach(&mut self, equation: Equation, object: u64, value: u64, field: &'static str);
}

/// Most equations, and one place that is not used.
const PLACES: usize = Equation::ALL.len() + 1;

/// An item that is in no digest yet: a run if it has a length, else a pair.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Waiting {
    first: u64,
    second: u64,
    len: u64,
}

/// The digests. The last item of each equation waits: when it comes from the other side, too, it is taken off by itself,
/// and its keyed value need not be known. Most transactions have one object an equation (decision 0510).
pub(crate) struct Sums<'k> {
    key: &'k Key,
    equations: Equations,
    /// Equations of which something is or was in the digest.
    digested: Equations,
    places: Box<Places>,
}

/// One place an equation.
struct Places {
    waiting: [Waiting; PLACES],
    /// How often what waits comes in more than it goes out; 0: nothing waits.
    times: [i64; PLACES],
    digests: [Digest; PLACES],
}

thread_local! {
    /// Places with nothing in them, for the next transaction of the thread.
    static SPARE: Cell<Option<Box<Places>>> = const { Cell::new(None) };
}

impl Places {
    fn take() -> Box<Places> {
        let empty = || Places {
            waiting: [Waiting::default(); PLACES],
            times: [0; PLACES],
            digests: [Digest::default(); PLACES],
        };
        SPARE.take().unwrap_or_else(|| Box::new(empty()))
    }
}

impl Sums<'_> {
    /// Leaves empty places to the next transaction.
    fn give(mut self) {
        // Nothing waits any more: what stands there comes no times.
        for equation in self.digested.iter() {
            self.places.digests[equation as usize] = Digest::default();
        }
        SPARE.set(Some(self.places));
    }
}

impl<'k> Sums<'k> {
    /// Nothing yet.
    pub fn new(key: &'k Key, equations: Equations) -> Sums<'k> {
        Sums {
            key,
            equations,
            digested: Equations::NONE,
            places: Places::take(),
        }
    }

    #[inline]
    fn tell(&mut self, equation: Equation, item: Waiting, more: i64) {
        if !self.wants(equation) || more == 0 {
            return;
        }
        let places = &mut *self.places;
        let (waiting, times) = (
            &mut places.waiting[equation as usize],
            &mut places.times[equation as usize],
        );
        if *waiting == item {
            *times = times.wrapping_add(more);
            return;
        }
        let before = (core::mem::replace(waiting, item), core::mem::replace(times, more));
        if before.1 != 0 {
            self.digest(equation, before.0, before.1);
        }
    }

    /// An item that waited goes into its digest.
    #[inline(never)]
    fn digest(&mut self, equation: Equation, item: Waiting, times: i64) {
        self.digested = self.digested.with(equation);
        let (digest, key) = (&mut self.places.digests[equation as usize], self.key);
        let Waiting { first, second, len } = item;
        let extent = Extent { start: first, len };
        match (times, len) {
            (0, _) => {}
            (_, 0) => digest.add_pair_times(key, first, second, times),
            (1, _) => digest.add_extent(key, extent),
            (-1, _) => digest.remove_extent(key, extent),
            _ => (first..first.saturating_add(len)).for_each(|item| digest.add_times(key, item, times)),
        }
    }

    /// What waits goes into its digest.
    #[inline(never)]
    fn digest_waiting(&mut self) {
        for equation in self.equations.iter() {
            let times = core::mem::take(&mut self.places.times[equation as usize]);
            if times != 0 {
                self.digest(equation, self.places.waiting[equation as usize], times);
            }
        }
    }

    /// Equations whose sides differ. What comes and goes in one transaction counts in neither of E-1 and E-2
    /// (S-17.2).
    pub fn unbalanced(mut self) -> Equations {
        let mut found = Equations::NONE;
        let waits = self.places.times.iter().fold(0, |any, times| any | times) != 0;
        if !waits && self.digested.is_empty() {
            self.give();
            return found;
        }
        self.digest_waiting();
        for equation in self.digested.iter() {
            if self.places.digests[equation as usize] != Digest::default() {
                found = found.with(equation);
            }
        }
        let at = |e: Equation| self.places.digests[e as usize];
        if both_pages(self.equations) && at(Equation::PagesGained) == at(Equation::PagesLost) {
            found = found.without(Equation::PagesGained).without(Equation::PagesLost);
        }
        let both = both_pages(self.equations);
        self.give();
        // The exact look needs both of them to cancel what comes and goes.
        match found.has(Equation::PagesGained) || found.has(Equation::PagesLost) {
            true if both => found.with(Equation::PagesGained).with(Equation::PagesLost),
            _ => found,
        }
    }
}

fn both_pages(equations: Equations) -> bool {
    equations.has(Equation::PagesGained) && equations.has(Equation::PagesLost)
}

impl Sink for Sums<'_> {
    #[inline]
    fn wants(&self, equation: Equation) -> bool {
        self.equations.has(equation)
    }

    #[inline]
    fn run(&mut self, equation: Equation, start: u64, len: u64, times: i64) {
        let item = Waiting {
            first: start,
            second: 0,
            len,
        };
        self.tell(equation, item, if len == 0 { 0 } else { times });
    }

    #[inline]
    fn pair(&mut self, equation: Equation, first: u64, second: u64, times: i64) {
        let item = Waiting { first, second, len: 0 };
        self.tell(equation, item, times);
    }

    #[inline]
    fn count(&mut self, equation: Equation, times: i64) {
        self.tell(equation, Waiting::default(), times);
    }

    #[cold]
    fn breach(&mut self, equation: Equation, _object: u64, _value: u64, _field: &'static str) {
        self.count(equation, 1);
    }
}
