//! What TOTALS are known to be, without what open transactions have changed (S-7.5, S-17.6).

use core::sync::atomic::{AtomicU64, Ordering};
use keepfs_format::bitmap::{self, STRIPES, TOTAL_INODES, TOTAL_NODES, TOTAL_PAGES, TOTAL_SHARES, TOTALS_BLOCKS};
use keepfs_format::{MetaId, PAGE};
use keepfs_vault::arena;

/// Where the counters stand in the first stripe, in their order.
pub const WHICH: [usize; 4] = [TOTAL_PAGES, TOTAL_INODES, TOTAL_NODES, TOTAL_SHARES];
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
pub struct Known {
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

    /// It is this now.
    pub fn set(&self, id: MetaId, bytes: &[u8; PAGE]) {
        for (word, from) in self.words(id).iter().zip(bytes.as_chunks().0) {
            word.store(u64::from_le_bytes(*from), Ordering::Relaxed);
        }
    }

    /// What all stripes come to, added up.
    /// What they come to one by one.
    pub fn added_up(&self) -> [u64; 4] {
        let stripes = (0..TOTALS_BLOCKS).flat_map(|number| (0..STRIPES).map(move |i| (bitmap::totals(number), i)));
        let all = stripes.map(|stripe| WHICH.map(|which| self.word(stripe, which).load(Ordering::Relaxed)));
        all.fold([0; 4], |sum: [u64; 4], stripe| {
            core::array::from_fn(|i| sum[i].wrapping_add(stripe[i]))
        })
    }

    /// What all stripes come to, as it is kept.
    pub fn sums(&self) -> [u64; 4] {
        self.sums.each_ref().map(|sum| sum.load(Ordering::Relaxed))
    }

    /// The sums are what the stripes come to.
    pub fn add_up(&self) {
        for (sum, is) in self.sums.iter().zip(self.added_up()) {
            sum.store(is, Ordering::Relaxed);
        }
    }

    /// Counters of the pool.
    pub fn totals(&self) -> Totals {
        let [pages, inodes, nodes, shares] = self.sums();
        Totals {
            pages,
            inodes,
            nodes,
            shares,
        }
    }

    /// NODES metablocks in use, but for what TOTALS may say (C-8): no pool has more than 2^40.
    pub fn nodes_in_use(&self) -> u64 {
        self.totals().nodes.min(1 << 40)
    }

    /// A stray write changes the sum of a counter.
    #[cfg(any(test, feature = "strays"))]
    pub fn scribble_sum(&self, which: usize, more: u64) {
        let sums = WHICH.iter().zip(&self.sums);
        sums.filter(|(counter, _)| **counter == which).for_each(|(_, sum)| {
            sum.fetch_add(more, Ordering::Relaxed);
        });
    }
}
