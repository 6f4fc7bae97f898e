//! Free numbers of metablocks and inodes (SPEC S-7.5, S-11.1).
//!
//! The truth is the bitmap; here lies a stock of numbers that were clear when last looked, those handed out to open
//! transactions taken away, and those freed but not durably. Each stripe of threads has a hand of numbers of one metablock,
//! so that what two threads make at the same time lies in different frames (decision 0667).

use crate::locks::{Mutex, MutexGuard, held};
use keepfs_vault::{STRIPES, stripe};
use std::collections::{HashSet, VecDeque};

/// How many numbers one look into a bitmap fetches.
pub const STOCK: usize = 512;
/// After so many numbers became free again, the search starts from the lowest of them.
const REWIND: u64 = 1024;

#[derive(Default)]
struct Inner {
    /// Clear bits, ascending; the next to hand out first.
    stock: VecDeque<u64>,
    /// Taken out of the stock for the threads of a stripe, in the same order.
    hands: [VecDeque<u64>; STRIPES],
    /// Where the next look begins.
    cursor: u64,
    /// Freed by a transaction (seq, number).
    quarantine: VecDeque<(u64, u64)>,
    /// The numbers in `quarantine`, and those that open transactions take or free.
    busy: HashSet<u64>,
    /// Metablocks whose numbers nobody gets.
    avoided: HashSet<u64>,
    released: u64,
    lowest: u64,
}

impl Inner {
    /// The next number of a stripe, whose empty hand gets those of the next metablock first.
    fn draw(&mut self, stripe: usize, group: u64) -> Option<u64> {
        let Inner { stock, hands, .. } = self;
        let hand = &mut hands[stripe];
        if hand.is_empty() {
            let block = stock.front()? / group;
            let count = stock.iter().take_while(|number| *number / group == block).count();
            hand.extend(stock.drain(..count));
        }
        hand.pop_front()
    }
}

/// The allocator of one family of numbers.
pub struct Numbers {
    inner: Mutex<Inner>,
    /// Least number ever handed out.
    first: u64,
    /// Numbers of one metablock.
    group: u64,
}

impl Numbers {
    /// Hands out numbers from `first` on, of which `group` lie in one metablock.
    pub fn new(first: u64, group: u64) -> Numbers {
        Numbers {
            inner: Mutex::new(Inner {
                cursor: first,
                lowest: u64::MAX,
                ..Inner::default()
            }),
            first,
            group,
        }
    }

    /// Bitmaps are looked at under this lock: who takes it is no writer of a frame (S-15.19).
    fn lock(&self) -> MutexGuard<'_, Inner> {
        held::takes_lock();
        self.inner.lock()
    }

    /// Takes the lock, for a search that breaks a rule.
    #[cfg(test)]
    pub fn lock_and_go(&self) {
        drop(self.lock());
    }

    /// A number to try, or where to look for more.
    pub fn take(&self) -> Result<u64, u64> {
        self.take_by(stripe())
    }

    /// The same for a stripe.
    fn take_by(&self, stripe: usize) -> Result<u64, u64> {
        let mut inner = self.lock();
        if let Some(number) = inner.draw(stripe, self.group) {
            inner.busy.insert(number);
            return Ok(number);
        }
        if inner.released > REWIND {
            inner.cursor = inner.lowest.max(self.first);
            (inner.released, inner.lowest) = (0, u64::MAX);
        }
        Err(inner.cursor)
    }

    /// Fills an empty stock with the numbers that `scan` finds clear in the bitmap, and begins there next time: it gives
    /// both. It runs under the lock: what is clear meanwhile and not free is busy. `false`: it gave nothing, and nothing
    /// is changed.
    pub fn look(&self, scan: impl FnOnce() -> Option<(Vec<u64>, u64)>) -> bool {
        let mut inner = self.lock();
        if inner.stock.is_empty() {
            let Some((found, next)) = scan() else { return false };
            let Inner {
                stock,
                hands,
                busy,
                avoided,
                ..
            } = &mut *inner;
            let is_held = |n: &u64| {
                busy.contains(n) || avoided.contains(&(n / self.group)) || hands.iter().any(|hand| hand.contains(n))
            };
            stock.extend(found.iter().filter(|n| !is_held(n)));
            inner.cursor = next;
        }
        true
    }

    /// A transaction that took `number` was rolled back.
    pub fn put_back(&self, number: u64) {
        let mut inner = self.lock();
        inner.busy.remove(&number);
        if !inner.avoided.contains(&(number / self.group)) {
            inner.hands[stripe()].push_front(number);
        }
    }

    /// Nobody gets a number of this metablock, which cannot be read or written, while the pool is in use.
    pub fn avoid(&self, block: u64) {
        let mut inner = self.inner.lock();
        inner.avoided.insert(block);
        let Inner { stock, hands, .. } = &mut *inner;
        stock.retain(|n| n / self.group != block);
        hands
            .iter_mut()
            .for_each(|hand| hand.retain(|n| n / self.group != block));
    }

    /// A transaction that took `number` committed.
    pub fn used(&self, number: u64) {
        self.lock().busy.remove(&number);
    }

    /// An open transaction is about to clear the bit of `number`: nobody may have it, whether that commits or not.
    pub fn freeing(&self, number: u64) {
        self.lock().busy.insert(number);
    }

    /// That transaction was rolled back, and the bit is set again.
    pub fn not_freed(&self, number: u64) {
        self.lock().busy.remove(&number);
    }

    /// Transaction `seq` freed `number`.
    pub fn freed(&self, seq: u64, number: u64) {
        let mut inner = self.lock();
        inner.busy.insert(number);
        inner.quarantine.push_back((seq, number));
    }

    /// Nobody gets `number`, whatever its bit says, before it was freed once more.
    pub fn keep(&self, number: u64) {
        let mut inner = self.lock();
        inner.busy.insert(number);
        let Inner { stock, hands, .. } = &mut *inner;
        stock.retain(|n| *n != number);
        hands.iter_mut().for_each(|hand| hand.retain(|n| *n != number));
    }

    /// Everything up to transaction `seq` is durable.
    pub fn release(&self, seq: u64) {
        let mut inner = self.lock();
        while inner.quarantine.front().is_some_and(|(s, _)| *s <= seq) {
            let Some((_, number)) = inner.quarantine.pop_front() else {
                break;
            };
            inner.busy.remove(&number);
            inner.released += 1;
            inner.lowest = inner.lowest.min(number);
        }
    }
}

#[cfg(test)]
mod tests;
