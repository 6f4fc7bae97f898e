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

/// The digests.
pub(super) struct Sums<'k> {
    key: &'k Key,
    equations: Equations,
    digests: [Digest; PLACES],
}

impl<'k> Sums<'k> {
    /// Nothing yet.
    pub fn new(key: &'k Key, equations: Equations) -> Sums<'k> {
        Sums {
            key,
            equations,
            digests: [Digest::default(); PLACES],
        }
    }

    /// Equations whose sides differ. What comes and goes in one transaction counts in neither of E-1 and E-2
    /// (S-17.2).
    pub fn unbalanced(&self) -> Equations {
        let at = |e: Equation| self.digests[e as usize];
        let differs = |e: &Equation| at(*e) != Digest::default();
        let mut found = Equations::NONE;
        for equation in Equation::ALL.iter().filter(|e| differs(e)) {
            found = found.with(*equation);
        }
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

    fn run(&mut self, equation: Equation, start: u64, len: u64, times: i64) {
        if !self.wants(equation) {
            return;
        }
        let digest = &mut self.digests[equation as usize];
        let extent = Extent { start, len };
        match times {
            1 => digest.add_extent(self.key, extent),
            -1 => digest.remove_extent(self.key, extent),
            _ => (start..start.saturating_add(len)).for_each(|item| digest.add_times(self.key, item, times)),
        }
    }

    fn pair(&mut self, equation: Equation, first: u64, second: u64, times: i64) {
        if self.wants(equation) && times != 0 {
            self.digests[equation as usize].add_pair_times(self.key, first, second, times);
        }
    }

    fn count(&mut self, equation: Equation, times: i64) {
        if self.wants(equation) {
            let digest = &mut self.digests[equation as usize];
            digest.count = digest.count.wrapping_add(times);
        }
    }
}
