//! Where a writer's pages come from: from which open zone first, and which of those freed young (S-11.2).

use super::{Inner, Run};
use keepfs_vault::{STRIPES, stripe};

/// Which of the open zones pages are taken from first. Two writers at a time take theirs from different ones, so that they do
/// not change the same metablock of the page bitmap; a file stays where it is (decision 0667).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Near {
    /// The one of this page, if it is open, else that of the thread.
    Page(u64),
    /// The one of the thread: threads are spread in the order in which they ask first.
    Thread,
    /// The current one.
    Current,
}

/// Which zone the threads of a stripe begin with.
#[derive(Default)]
pub(super) struct Sides {
    /// 1 + its place; 0: they have not asked yet.
    of: [u8; STRIPES],
    /// Stripes that have asked.
    count: u8,
}

impl Sides {
    fn of(&mut self, stripe: usize) -> usize {
        if self.of[stripe] == 0 {
            self.of[stripe] = 1 + self.count % 2;
            self.count += 1;
        }
        usize::from(self.of[stripe]) - 1
    }
}

impl Inner {
    /// Place of the zone that is asked first. The next zone only up to its half: when the current one is full, there is as much
    /// for the time that a checkpoint takes.
    pub(super) fn side(&mut self, near: Near) -> usize {
        let side = match near {
            Near::Current => 0,
            Near::Thread => self.sides.of(stripe()),
            Near::Page(page) => {
                let at = self.zones.iter().position(|zone| zone.index_of(page).is_some());
                at.unwrap_or_else(|| self.sides.of(stripe()))
            }
        };
        if self.zones[side].is_half_used() { 0 } else { side }
    }

    /// A run freed young in the zone at `side` that has room for all of `want`: the latest, whose bytes are the least likely to
    /// have left.
    pub(super) fn take_again(&mut self, want: u32, side: usize) -> Option<Run> {
        for at in (0..self.again.len()).rev() {
            let run = self.again[at];
            if run.count < want || self.zones[side].index_of(run.start).is_none() {
                continue;
            }
            let taken = self.zones[side].take_run(run, want);
            if taken.is_none() || run.count == want {
                self.again.remove(at);
            } else {
                self.again[at].start += u64::from(want);
                self.again[at].count -= want;
            }
            if taken.is_some() {
                return taken;
            }
        }
        None
    }
}
