//! Changes of bitmaps, reference counts and totals (S-7.3, S-7.5).

use super::equation::Equation;
use super::input::{Change, Transaction};
use super::sink::Sink;
use super::walk::Walk;
use keepfs_format::Space;
use keepfs_format::bitmap::{BITS, COUNTS, TOTAL_INODES, TOTAL_NODES, TOTAL_PAGES, TOTAL_SHARES};
use keepfs_format::metablock::HEADER;

impl<T: Transaction, S: Sink> Walk<'_, T, S> {
    /// Bits of one byte of a bitmap.
    pub(super) fn bits(&mut self, change: &Change<'_>) {
        let id = self.txn.block(change.block).id;
        let (Some(old), Some(new), Some(space)) = (change.old.first(), change.new.first(), id.space()) else {
            return;
        };
        let first = id.index() * BITS + (change.offset.saturating_sub(HEADER) as u64) * 8;
        let mut left = old ^ new;
        while left != 0 {
            // Neighbouring bits that change alike are one run.
            let bit = left.trailing_zeros();
            let set = new >> bit & 1 == 1;
            let alike = if set { left & new } else { left & !new } >> bit;
            let len = alike.trailing_ones();
            left &= !(((1_u16 << len) - 1) << bit) as u8;
            self.bit_run(space, first + u64::from(bit), u64::from(len), set);
        }
    }

    fn bit_run(&mut self, space: Space, start: u64, len: u64, set: bool) {
        let times = if set { 1 } else { -1 };
        if space != Space::Pages {
            self.numbers(space, start, len, set);
        }
        match (space, set) {
            (Space::Pages, true) => {
                if let Some(run) = self.runs.set.more(start, len) {
                    self.tell_set(run);
                }
            }
            (Space::Pages, false) => {
                if let Some(run) = self.runs.cleared.more(start, len) {
                    self.tell_cleared(run);
                }
            }
            (Space::InodeNumbers, _) => {
                self.sink.run(Equation::InodeStates, start, len, -times);
                self.sink.run(Equation::InodesTold, start, len, times);
                self.sink.count(Equation::InodesTotal, times * len as i64);
            }
            (Space::NodeNumbers, _) => {
                self.sink.run(Equation::NodeReferences, start, len, -times);
                self.sink.run(Equation::NodesTold, start, len, times);
                self.sink.count(Equation::NodesTotal, times * len as i64);
            }
            (Space::Orphans, _) => {
                self.spare.orphans.extend((start..start + len).map(|ino| (ino, set)));
                self.sink.run(Equation::OrphansTold, start, len, times);
            }
            _ => {}
        }
    }

    /// A counter of SHARES or TOTALS.
    pub(super) fn counter(&mut self, change: &Change<'_>) {
        let id = self.txn.block(change.block).id;
        let more = value(change.new).wrapping_sub(value(change.old)) as i64;
        match (id.space(), change.offset) {
            (Some(Space::Shares), offset) => {
                let page = id.index() * COUNTS + (offset.saturating_sub(HEADER) / 2) as u64;
                self.share(page, more);
            }
            (Some(Space::Totals), TOTAL_PAGES) => self.sink.count(Equation::PagesTotal, -more),
            (Some(Space::Totals), TOTAL_INODES) => self.sink.count(Equation::InodesTotal, -more),
            (Some(Space::Totals), TOTAL_NODES) => self.sink.count(Equation::NodesTotal, -more),
            (Some(Space::Totals), TOTAL_SHARES) => self.sink.count(Equation::SharesTotal, -more),
            _ => {}
        }
    }

    fn share(&mut self, page: u64, more: i64) {
        self.numbers(Space::Shares, page, 1, more > 0);
        match more > 0 {
            true => self.sink.run(Equation::PagesGained, page, 1, -more),
            false => self.sink.run(Equation::PagesLost, page, 1, more),
        }
        self.sink.run(Equation::SharesTold, page, 1, more);
        self.sink.count(Equation::SharesTotal, more);
    }
}

/// A little-endian number of at most 8 bytes.
fn value(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .take(8)
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}
