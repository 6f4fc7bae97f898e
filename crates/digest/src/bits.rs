//! Changes of bitmaps, reference counts and totals (S-7.3, S-7.5).

use crate::equation::Equation;
use crate::input::{Change, Transaction};
use crate::sink::Sink;
use crate::walk::Walk;
use keepfs_format::bitmap::{BITS, COUNTS, STRIPE, TOTAL_INODES, TOTAL_NODES, TOTAL_PAGES, TOTAL_SHARES};
use keepfs_format::metablock::HEADER;
use keepfs_format::{MetaId, Space};

impl<T: Transaction, S: Sink> Walk<'_, T, S> {
    /// Bits of one byte of a bitmap.
    pub(crate) fn bits(&mut self, change: &Change<'_>) {
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

    /// Bytes of SHARES or TOTALS, which the transaction owns.
    pub(crate) fn counts(&mut self, change: &Change<'_>) {
        let id = self.txn.block(change.block).id;
        let size = if id.space() == Some(Space::Shares) { 2 } else { 8 };
        let end = change.offset + change.old.len().min(change.new.len());
        let mut at = change.offset;
        while at < end {
            // What each byte has more stands at its place in the word, however much of the word was stored.
            let behind = end.min((at / size + 1) * size);
            let part = at - change.offset..behind - change.offset;
            let more = value(&change.new[part.clone()]).wrapping_sub(value(&change.old[part])) << (8 * (at % size));
            self.count(id, at / size * size, more as i64);
            at = behind;
        }
    }

    /// The word at this offset has `more` than it had.
    fn count(&mut self, id: MetaId, offset: usize, more: i64) {
        if more == 0 || offset < HEADER {
            return;
        }
        if id.space() == Some(Space::Shares) {
            return self.share(id.index() * COUNTS + ((offset - HEADER) / 2) as u64, more);
        }
        let equation = match offset % STRIPE {
            TOTAL_PAGES => Equation::PagesTotal,
            TOTAL_INODES => Equation::InodesTotal,
            TOTAL_NODES => Equation::NodesTotal,
            TOTAL_SHARES => Equation::SharesTotal,
            _ => return,
        };
        self.sink.count(equation, more.wrapping_neg());
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
