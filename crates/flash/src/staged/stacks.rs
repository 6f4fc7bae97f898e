//! Free slots: a thread takes again what it freed last, whose bytes are in the cache of its processor (decision 0667).

use keepfs_vault::{STRIPES, stripe};

/// Most slots that wait for a stripe of threads.
const OWN_MAX: usize = 64;

/// Numbers of free slots.
pub struct Stacks {
    /// For each stripe of threads, those that it freed last.
    own: [Vec<u32>; STRIPES],
    common: Vec<u32>,
    len: usize,
}

impl Stacks {
    /// These, the last first.
    pub fn of(common: Vec<u32>) -> Stacks {
        Stacks {
            own: Default::default(),
            len: common.len(),
            common,
        }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// One of them: one that this stripe freed, else one of all, else one of another stripe.
    pub fn pop(&mut self) -> Option<u32> {
        self.pop_by(stripe())
    }

    /// The same for a stripe.
    fn pop_by(&mut self, stripe: usize) -> Option<u32> {
        let Stacks { own, common, .. } = self;
        let mine = own[stripe].pop().or_else(|| common.pop());
        let slot = mine.or_else(|| own.iter_mut().find_map(Vec::pop))?;
        self.len -= 1;
        Some(slot)
    }

    /// One more.
    pub fn push(&mut self, slot: u32) {
        self.push_by(stripe(), slot);
    }

    /// The same for a stripe.
    fn push_by(&mut self, stripe: usize, slot: u32) {
        let own = &mut self.own[stripe];
        let stack = if own.len() < OWN_MAX { own } else { &mut self.common };
        stack.push(slot);
        self.len += 1;
    }

    /// All of them, ascending, for tests.
    #[cfg(test)]
    pub fn all(&self) -> Vec<u32> {
        let mut all = [self.own.concat(), self.common.clone()].concat();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests;
