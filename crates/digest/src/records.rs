//! What the records for the log tell (S-8.5), and whether they cover the bytes that changed.

use crate::equation::Equation;
use crate::input::{Change, Transaction};
use crate::sink::Sink;
use crate::walk::Walk;
use keepfs_format::plog::Record;
use keepfs_format::{MetaId, PAGE, Space};

impl<T: Transaction, S: Sink> Walk<'_, T, S> {
    /// All records, and what is counted in memory.
    pub(crate) fn records(&mut self) {
        let txn = self.txn;
        txn.records().iter().for_each(|record| self.record(record));
        self.sink.count(Equation::PagesUsed, -(txn.pages_used() as i64));
    }

    fn record(&mut self, record: &Record) {
        match record {
            Record::Alloc { space, run } => self.told(*space, run.start, u64::from(run.count), true),
            Record::Free { space, run } => self.told(*space, run.start, u64::from(run.count), false),
            Record::Ref { run, delta } => {
                self.sink.run(
                    Equation::SharesTold,
                    run.start,
                    u64::from(run.count),
                    -i64::from(*delta),
                );
            }
            Record::Birth { id, .. } => self.node(*id, -1),
            Record::Death { id, .. } => self.node(*id, 1),
            Record::Create { ino, born } => self.sink.pair(Equation::LivesTold, *ino, *born, -1),
            Record::Link { ino, dir } => self.sink.pair(Equation::NamesTold, *ino, *dir, -1),
            Record::Unlink { ino, dir, .. } => self.sink.pair(Equation::NamesTold, *ino, *dir, 1),
            Record::MapEntry {
                ino,
                index,
                page,
                count,
                last_len,
                crcs,
                ..
            } if *page != 0 => {
                for at in 0..u64::from(*count) {
                    let crc = crcs.get(at as usize).copied().unwrap_or(0);
                    self.sink.pair(Equation::EntriesTold, page + at, u64::from(crc), -1);
                }
                if !crcs.is_empty() {
                    let last = index.saturating_add(u64::from(*count)).saturating_sub(1);
                    self.end(*ino, last, u64::from(*last_len));
                }
            }
            Record::Tail {
                ino,
                index,
                offset,
                bytes,
                ..
            } => self.end(*ino, *index, u64::from(*offset) + bytes.len() as u64),
            _ => {}
        }
    }

    fn told(&mut self, space: Space, start: u64, len: u64, set: bool) {
        let (equation, times) = match (space, set) {
            (Space::Pages, true) => (Equation::PagesAllocated, -1),
            (Space::Pages, false) => (Equation::PagesFreed, -1),
            (Space::InodeNumbers, true) => (Equation::InodesTold, -1),
            (Space::InodeNumbers, false) => (Equation::InodesTold, 1),
            (Space::Orphans, true) => (Equation::OrphansTold, -1),
            (Space::Orphans, false) => (Equation::OrphansTold, 1),
            _ => return,
        };
        self.sink.run(equation, start, len, times);
    }

    fn node(&mut self, id: MetaId, times: i64) {
        if id.space() == Some(Space::Nodes) {
            self.sink.run(Equation::NodesTold, id.index(), 1, times);
        }
    }

    /// Data of a file ends `len` bytes into page `index`: the size covers it (S-7.6, S-8.8).
    fn end(&mut self, ino: u64, index: u64, len: u64) {
        if !self.sink.wants(Equation::Sizes) {
            return;
        }
        let end = index.saturating_mul(PAGE as u64).saturating_add(len);
        if let Some(size) = self.inode_now(ino, |inode| inode.size.get()) {
            self.equal(Equation::Sizes, ino, end, end.min(size));
        }
    }

    /// Every byte that changed in what is logged as ranges, which is inodes and nodes, is in a range.
    pub(crate) fn redo(&mut self, id: MetaId, index: usize, changes: &[(usize, usize)]) {
        if !self.sink.wants(Equation::RedoRanges) {
            return;
        }
        let (all, ranges) = (self.txn.changes(), self.txn.ranges(index));
        let changes = changes.iter().filter_map(|(_, at)| all.get(*at));
        changes.for_each(|change| self.logged(id, change, ranges));
    }

    /// Every byte of a change that changed is in a range.
    fn logged(&mut self, id: MetaId, change: &Change<'_>, ranges: &[(u16, u16)]) {
        let mut from = change.offset;
        let end = change.offset + change.new.len();
        for (start, stop) in ranges {
            let (start, stop) = (usize::from(*start), usize::from(*stop));
            if stop <= from {
                continue;
            }
            if start >= end {
                break;
            }
            if start > from {
                self.untold(id, change, from..start);
            }
            if stop >= end {
                return;
            }
            from = stop;
        }
        self.untold(id, change, from..end);
    }

    /// Bytes of a change that no range has: they must be equal.
    #[inline(never)]
    fn untold(&mut self, id: MetaId, change: &Change<'_>, bytes: core::ops::Range<usize>) {
        let within = bytes.start - change.offset..bytes.end - change.offset;
        if !within.is_empty() && change.old[within.clone()] != change.new[within] {
            self.sink.pair(Equation::RedoRanges, id.0, bytes.start as u64, 1);
        }
    }
}
