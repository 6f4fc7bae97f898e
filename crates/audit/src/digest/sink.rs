//! Where the items of both sides go: one multiset digest an equation (S-15.12), the left side in, the right side out.

use super::equation::{Equation, Equations};
use keepfs_codes::digest::{Digest, Extent, Key};

/// Takes items. `times` is how often an item comes in; negative: it goes out.
pub(super) trait Sink {
    /// Whether the equation is looked at.
    fn wants(&self, equation: Equation) -> bool;
    /// Consecutive numbers.
    fn run(&mut self, equation: Equation, start: u64, len: u64, times: i64);
    /// A number with another one: an object and what it has.
    fn pair(&mut self, equation: Equation, first: u64, second: u64, times: i64);
    /// A count without objects.
    fn count(&mut self, equation: Equation, times: i64);
}

/// Most equations, and one place that is not used.
const PLACES: usize = Equation::ALL.len() + 1;

/// An item that is in no digest yet: a run if it has a length, else a pair.
#[derive(Clone, Copy, Default)]
struct Waiting {
    first: u64,
    second: u64,
    len: u64,
    times: i64,
}

impl Waiting {
    fn is_same(&self, other: &Waiting) -> bool {
        (self.first, self.second, self.len) == (other.first, other.second, other.len)
    }
}

/// The digests. The last item of each equation waits: when it comes from the other side, too, it is taken off by itself,
/// and its keyed value need not be known. Most transactions have one object an equation (decision 0560).
pub(super) struct Sums<'k> {
    key: &'k Key,
    equations: Equations,
    /// Equations that have anything in the two below.
    told: Equations,
    waiting: [Waiting; PLACES],
    digests: [Digest; PLACES],
}

impl<'k> Sums<'k> {
    /// Nothing yet.
    pub fn new(key: &'k Key, equations: Equations) -> Sums<'k> {
        Sums {
            key,
            equations,
            told: Equations::NONE,
            waiting: [Waiting::default(); PLACES],
            digests: [Digest::default(); PLACES],
        }
    }

    #[inline]
    fn tell(&mut self, equation: Equation, item: Waiting) {
        if !self.wants(equation) || item.times == 0 {
            return;
        }
        self.told = self.told.with(equation);
        let waiting = &mut self.waiting[equation as usize];
        if waiting.is_same(&item) {
            waiting.times = waiting.times.wrapping_add(item.times);
            return;
        }
        let before = core::mem::replace(waiting, item);
        self.digest(equation, before);
    }

    /// An item that waited goes into its digest.
    fn digest(&mut self, equation: Equation, item: Waiting) {
        let (digest, key) = (&mut self.digests[equation as usize], self.key);
        let Waiting {
            first,
            second,
            len,
            times,
        } = item;
        let extent = Extent { start: first, len };
        match (times, len) {
            (0, _) => {}
            (_, 0) => digest.add_pair_times(key, first, second, times),
            (1, _) => digest.add_extent(key, extent),
            (-1, _) => digest.remove_extent(key, extent),
            _ => (first..first.saturating_add(len)).for_each(|item| digest.add_times(key, item, times)),
        }
    }

    /// Equations whose sides differ. What comes and goes in one transaction counts in neither of E-1 and E-2
    /// (S-17.2).
    pub fn unbalanced(&mut self) -> Equations {
        let mut found = Equations::NONE;
        for equation in self.told.iter() {
            let waiting = core::mem::take(&mut self.waiting[equation as usize]);
            self.digest(equation, waiting);
            if self.digests[equation as usize] != Digest::default() {
                found = found.with(equation);
            }
        }
        let at = |e: Equation| self.digests[e as usize];
        if both_pages(self.equations) && at(Equation::PagesGained) == at(Equation::PagesLost) {
            found = found.without(Equation::PagesGained).without(Equation::PagesLost);
        }
        // The exact look needs both of them to cancel what comes and goes.
        match found.has(Equation::PagesGained) || found.has(Equation::PagesLost) {
            true if both_pages(self.equations) => found.with(Equation::PagesGained).with(Equation::PagesLost),
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
            times: if len == 0 { 0 } else { times },
        };
        self.tell(equation, item);
    }

    #[inline]
    fn pair(&mut self, equation: Equation, first: u64, second: u64, times: i64) {
        let item = Waiting {
            first,
            second,
            len: 0,
            times,
        };
        self.tell(equation, item);
    }

    #[inline]
    fn count(&mut self, equation: Equation, times: i64) {
        if self.wants(equation) && times != 0 {
            self.told = self.told.with(equation);
            let digest = &mut self.digests[equation as usize];
            digest.count = digest.count.wrapping_add(times);
        }
    }
}
