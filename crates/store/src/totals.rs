//! TOTALS: a stripe for each undo slot (SPEC S-7.5, S-13.4, S-15.23), and what they are known to be (S-17.6).
//!
//! Invariants:
//! O-1 A stripe is changed in its metablock by the transaction that has its slot, and here when that one commits, under the
//!     lock of redo: whoever has that lock sees the records of an open transaction, or what they came to.
//! O-2 What is known here is compared with the metablocks while no transaction is open: a stray write here, or a stripe that
//!     another transaction changed there, shows at the next checkpoint, which is refused.

use crate::Store;
use crate::cache::Pin;
use crate::error::Error;
use crate::events::Done;
use crate::gate::Closed;
use crate::pool::Pool;
use core::sync::atomic::{AtomicU64, Ordering};
use keepfs_flash::scratch::with_page;
use keepfs_format::bitmap::{
    self, STRIPES, TOTAL_INODES, TOTAL_NODES, TOTAL_PAGES, TOTAL_SHARES, TOTALS, TOTALS_BLOCKS,
};
use keepfs_format::{MetaId, PAGE};
use keepfs_vault::arena;

/// Where the counters stand in the first stripe, in their order.
pub(crate) const WHICH: [usize; 4] = [TOTAL_PAGES, TOTAL_INODES, TOTAL_NODES, TOTAL_SHARES];
/// Smaller pools have one TOTALS metablock, because each may need a home (S-10.5).
const PAGES_OF_MANY: u64 = 1 << 16;
/// Words of a metablock.
const WORDS: usize = PAGE / 8;

const _: () = assert!(STRIPES >= keepfs_vault::undo::SLOTS);

/// Counters of the pool (S-7.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Pages in use.
    pub pages: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// NODES metablocks in use.
    pub nodes: u64,
    /// Sum of the extra references.
    pub shares: u64,
}

/// All TOTALS metablocks, without what open transactions have changed.
pub(crate) struct Known {
    words: Vec<AtomicU64>,
    /// What all stripes come to, in the order of `WHICH`: who overwrites a page asks for it, and a stripe has one of 2,048 words.
    sums: [AtomicU64; 4],
}

impl Default for Known {
    fn default() -> Known {
        let words = TOTALS_BLOCKS as usize * WORDS;
        Known {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            sums: Default::default(),
        }
    }
}

impl Known {
    fn words(&self, id: MetaId) -> &[AtomicU64] {
        let first = id.index() as usize * WORDS;
        &self.words[first..first + WORDS]
    }

    fn word(&self, (id, stripe): (MetaId, usize), which: usize) -> &AtomicU64 {
        &self.words(id)[bitmap::in_stripe(stripe, which) / 8]
    }

    /// The transaction that has this stripe commits, with these additions (O-1).
    pub fn add(&self, stripe: (MetaId, usize), more: &[i64; 4]) {
        let counters = WHICH.into_iter().zip(&self.sums).zip(more);
        for ((which, sum), more) in counters.filter(|(_, more)| **more != 0) {
            self.word(stripe, which).fetch_add(*more as u64, Ordering::Relaxed);
            sum.fetch_add(*more as u64, Ordering::Relaxed);
        }
    }

    /// What a metablock holds.
    pub fn content(&self, id: MetaId) -> arena::Copy {
        let mut bytes: arena::Copy = Box::new([0; PAGE]);
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.words(id)) {
            to.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        bytes
    }

    fn set(&self, id: MetaId, bytes: &[u8; PAGE]) {
        for (word, from) in self.words(id).iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_le_bytes(*from), Ordering::Relaxed);
        }
    }

    /// What all stripes come to, added up.
    fn added_up(&self) -> [u64; 4] {
        let stripes = (0..TOTALS_BLOCKS).flat_map(|number| (0..STRIPES).map(move |i| (bitmap::totals(number), i)));
        let all = stripes.map(|stripe| WHICH.map(|which| self.word(stripe, which).load(Ordering::Relaxed)));
        all.fold([0; 4], |sum: [u64; 4], stripe| {
            core::array::from_fn(|i| sum[i].wrapping_add(stripe[i]))
        })
    }

    fn sums(&self) -> [u64; 4] {
        self.sums.each_ref().map(|sum| sum.load(Ordering::Relaxed))
    }

    /// A stray write changes the sum of a counter.
    #[cfg(test)]
    pub fn scribble_sum(&self, which: usize, more: u64) {
        let sums = WHICH.iter().zip(&self.sums);
        sums.filter(|(counter, _)| **counter == which).for_each(|(_, sum)| {
            sum.fetch_add(more, Ordering::Relaxed);
        });
    }
}

impl Pool {
    /// TOTALS metablocks whose stripes this version changes; it reads all that there may be.
    pub(crate) fn totals_blocks(&self) -> u64 {
        if self.pages < PAGES_OF_MANY { 1 } else { TOTALS_BLOCKS }
    }

    /// The metablock, and its stripe, that the transaction in an undo slot changes (S-13.4).
    pub(crate) fn stripe_of(&self, slot: u16) -> (MetaId, usize) {
        let blocks = self.totals_blocks();
        (
            bitmap::totals(u64::from(slot) % blocks),
            (u64::from(slot) / blocks) as usize,
        )
    }
}

impl Store {
    /// Counters of the pool.
    pub fn totals(&self) -> Totals {
        let [pages, inodes, nodes, shares] = self.txns.known.sums();
        Totals {
            pages,
            inodes,
            nodes,
            shares,
        }
    }

    /// NODES metablocks in use, but for what TOTALS may say (C-8): no pool has more than 2^40.
    pub(crate) fn nodes_in_use(&self) -> u64 {
        self.totals().nodes.min(1 << 40)
    }

    /// Pins the metablocks of TOTALS that may be changed, and right: what a checkpoint changes there is in no redo.
    pub(crate) fn pin_totals(&self) -> Result<Vec<Pin<'_>>, Error> {
        let numbers = 0..self.pool.totals_blocks();
        numbers.map(|number| self.pin_right(bitmap::totals(number))).collect()
    }

    /// Learns what all TOTALS are; nobody else is there.
    pub(crate) fn load_totals(&self) -> Result<(), Error> {
        for id in (0..TOTALS_BLOCKS).map(bitmap::totals) {
            let pin = self.fetch(id)?;
            with_page(|copy| self.verified_copy(&pin, copy).map(|()| self.txns.known.set(id, copy)))?;
        }
        for (sum, is) in self.txns.known.sums.iter().zip(self.txns.known.added_up()) {
            sum.store(is, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The metablocks of TOTALS are what they are known to be, and their sum is what all transactions since the last
    /// checkpoint told (S-17.6). Errors: `Damaged`, and nothing is written any more.
    pub(crate) fn check_totals(&self, _shut: &Closed<'_>, pins: &[Pin<'_>]) -> Result<(), Error> {
        for pin in pins {
            let (id, differs) = (pin.slot().id(), |bytes: &[u8; PAGE]| {
                let known = self.txns.known.content(pin.slot().id());
                (0..PAGE).find(|at| bytes[*at] != known[*at])
            });
            if let Some(at) = with_page(|copy| self.verified_copy(pin, copy).map(|()| differs(copy)))? {
                let stripe = at / bitmap::STRIPE;
                return self.wrong_totals(
                    id,
                    format!("stripe {stripe} of {id} is not what its transactions made it (S-17.6)"),
                );
            }
        }
        let (sums, added_up) = (self.txns.known.sums(), self.txns.known.added_up());
        if sums != added_up {
            return self.wrong_totals(
                TOTALS,
                format!("the pool's totals were kept as {sums:?}, but its stripes come to {added_up:?} (S-17.6)"),
            );
        }
        let found = self.totals();
        match self
            .watch
            .audits
            .auditor()
            .map(|_| self.watch.audits.ledger.check(found))
        {
            Some(Err(expected)) => self.wrong_totals(
                TOTALS,
                format!("the pool's totals are {found:?}, but transactions told {expected:?} (S-17.6)"),
            ),
            _ => Ok(()),
        }
    }

    fn wrong_totals(&self, id: MetaId, what: String) -> Result<(), Error> {
        self.watch.events.tell_logic((id.0, 0), Done::Ended, what.clone());
        Err(self.fail(Error::Damaged(what)))
    }
}
