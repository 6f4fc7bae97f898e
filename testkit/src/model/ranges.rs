//! A set of numbers kept as disjoint ranges: which pages of a file are allocated.

use std::collections::BTreeMap;

/// Disjoint, non-touching half-open ranges, by their starts.
#[derive(Clone, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds `start..end`.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let touching: Vec<(u64, u64)> = self
            .0
            .range(..=end)
            .rev()
            .take_while(|&(_, &e)| e >= start)
            .map(|(&s, &e)| (s, e))
            .collect();
        let (mut low, mut high) = (start, end);
        for (s, e) in touching {
            self.0.remove(&s);
            low = low.min(s);
            high = high.max(e);
        }
        self.0.insert(low, high);
    }

    /// Removes `start..end`.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        let cut: Vec<(u64, u64)> = self
            .0
            .range(..end)
            .rev()
            .take_while(|&(_, &e)| e > start)
            .map(|(&s, &e)| (s, e))
            .collect();
        for (s, e) in cut {
            self.0.remove(&s);
            if s < start {
                self.0.insert(s, start);
            }
            if e > end {
                self.0.insert(end, e);
            }
        }
    }

    /// The first member that is at least `from`.
    pub(super) fn first_member(&self, from: u64) -> Option<u64> {
        match self.0.range(..=from).next_back() {
            Some((_, &end)) if end > from => Some(from),
            _ => self.0.range(from..).next().map(|(&start, _)| start),
        }
    }

    /// The first number at least `from` that is no member.
    pub(super) fn first_gap(&self, from: u64) -> u64 {
        match self.0.range(..=from).next_back() {
            Some((_, &end)) if end > from => end,
            _ => from,
        }
    }

    /// How many members there are.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|(s, e)| e - s).sum()
    }
}
