//! Which free pages are the two homes of a metablock: of all that are free, each of the lower ones with the one as far up in the
//! order as can be had for all (SPEC S-4.9).
//!
//! Let `far` be the most pairs that lie apart. Then the i-th lowest page and the i-th of the `far` highest do, for each i below
//! `far`, and what is left between has no two that do. Taking some of these pairs leaves the others.

use super::Homes;
use crate::watched::Stray;
use keepfs_format::plog::Run;

/// The most pairs of `pages`, which ascend, with `apart` or more between the two.
pub fn far_pairs(pages: &[u64], apart: u64) -> usize {
    let high = &pages[pages.len().div_ceil(2)..];
    high.iter()
        .fold(0, |far, page| far + usize::from(page - pages[far] >= apart))
}

/// The free pages of chunks by what they can be paired with.
pub struct Sides {
    /// How many there are.
    free: u32,
    /// Pairs that lie apart; with one copy no page needs another.
    far: Option<u32>,
    /// The pages that are in none of them: how many, and the first and last.
    alone: (u32, u64, u64),
}

impl Sides {
    /// How many pages are taken before those of a chunk with `free` free ones, `below` of all being below it. `None`: its own may be
    /// taken at once.
    pub fn before(&self, below: u32, free: u32) -> Option<u32> {
        let Some(far) = self.far else { return Some(below) };
        // Second homes begin here.
        let second = self.free - far;
        match below {
            _ if below + free <= second => Some(below),
            _ if below >= second => Some(below - second),
            _ => None,
        }
    }

    /// Gives back a chunk that is all free, if what is left has pairs enough for `keep` pages, or no fewer than before.
    pub fn give_back(&mut self, run: Run, keep: u64) -> bool {
        let Some(far) = &mut self.far else { return true };
        let (count, first, last) = self.alone;
        if run.count <= count && run.start >= first && run.start + u64::from(run.count) <= last + 1 {
            self.alone.0 -= run.count;
            return true;
        }
        // Each page of it may be one of a pair.
        let left = far.saturating_sub(run.count);
        let is_enough = *far >= run.count && u64::from(left) >= keep.div_ceil(2);
        if is_enough {
            *far = left;
        }
        is_enough
    }
}

impl Homes {
    /// All free pages, with those of `more`, ascending.
    pub fn free_pages(&self, more: &[Run]) -> Result<Vec<u64>, Stray> {
        let mut pages = Vec::with_capacity(self.free as usize);
        for home in self.ascending()? {
            pages.extend(
                (0..home.pages)
                    .filter(|i| !home.is_used(*i))
                    .map(|i| home.start + u64::from(i)),
            );
        }
        if !more.is_empty() {
            pages.extend(more.iter().flat_map(|run| run.start..run.start + u64::from(run.count)));
            pages.sort_unstable();
        }
        Ok(pages)
    }

    /// What the free pages can be paired with. `apart`: `None` with one copy.
    pub fn sides(&self, apart: Option<u64>) -> Result<Sides, Stray> {
        self.sides_without(&[], apart)
    }

    /// The same without the pages of some chunks that are all free.
    pub fn sides_without(&self, given: &[Run], apart: Option<u64>) -> Result<Sides, Stray> {
        let mut pages = match apart {
            Some(_) => self.free_pages(&[])?,
            None => Vec::new(),
        };
        let mut gone: Vec<Run> = given.to_vec();
        gone.sort_unstable_by_key(|run| run.start);
        pages.retain(|page| {
            let before = gone.partition_point(|run| run.start <= *page);
            let last = gone[..before].last();
            last.is_none_or(|run| *page >= run.start + u64::from(run.count))
        });
        let left = given.iter().map(|run| u64::from(run.count)).sum();
        let far = apart.map(|apart| far_pairs(&pages, apart));
        let alone = &pages[far.unwrap_or(0)..pages.len() - far.unwrap_or(0)];
        let ends = (alone.first().copied(), alone.last().copied());
        Ok(Sides {
            free: self.free.saturating_sub(left) as u32,
            far: far.map(|far| far as u32),
            alone: (alone.len() as u32, ends.0.unwrap_or(0), ends.1.unwrap_or(0)),
        })
    }

    /// Two free pages for metadata, `apart` from each other if there are such.
    pub fn take_pair(&mut self, apart: u64) -> Result<Option<[u64; 2]>, Stray> {
        if self.pairs.is_empty() {
            self.pairs = self.make_pairs(apart)?;
        }
        let Some(pair) = self.pairs.pop() else {
            return Ok(None);
        };
        for (nth, page) in pair.into_iter().enumerate() {
            let Some(found) = self.find(page)?.filter(|(_, home, i)| !home.is_used(*i)) else {
                return Err(Stray {
                    address: self.pairs.as_ptr().addr(),
                });
            };
            if nth == 0 {
                self.begin = found.1.start;
            }
            self.take_at(found);
        }
        Ok(Some(pair))
    }

    /// All pairs, in the order in which they are taken from the end.
    fn make_pairs(&self, apart: u64) -> Result<Vec<[u64; 2]>, Stray> {
        let pages = self.free_pages(&[])?;
        let far = far_pairs(&pages, apart);
        let join = |low: &[u64], high: &[u64]| -> Vec<[u64; 2]> {
            low.iter().zip(high).map(|(low, high)| [*low, *high]).collect()
        };
        let mut pairs = join(&pages[..far], &pages[pages.len() - far..]);
        let first = match self.compact {
            true => 0,
            false => pairs.partition_point(|[low, _]| *low < self.begin),
        };
        pairs.rotate_left(first);
        let alone = &pages[far..pages.len() - far];
        let (low, high) = alone.split_at(alone.len() / 2);
        pairs.extend(join(low, high));
        pairs.reverse();
        Ok(pairs)
    }
}

#[cfg(test)]
mod tests;
