//! What the operations tell (S-12.5).

use crate::equation::Equation;
use crate::input::Transaction;
use crate::sink::Sink;
use crate::walk::Walk;
use keepfs_format::inode::{Inode, LIVE, XATTR_CHAIN};
use keepfs_format::metablock::HEADER;
use keepfs_format::oplog::{Action, Code, Undecoded};
use keepfs_format::xattr::{ChainHead, TOTAL_MAX};
use keepfs_format::{FromZeros, IntoBytes, MetaId};

impl<T: Transaction, S: Sink> Walk<'_, T, S> {
    /// All operations.
    pub(crate) fn operations(&mut self) {
        let Some(mut rest) = self.txn.operations() else { return };
        // The last word on each list of attributes.
        let mut lists: Vec<(u64, u32)> = Vec::new();
        while let Some((operation, behind)) = Undecoded::split(rest) {
            rest = behind;
            let Undecoded { object, code, data } = operation;
            match code {
                Code::Exchange | Code::Write | Code::Copy | Code::Fallocate | Code::Revise | Code::Truncate => {
                    self.version(object);
                }
                Code::Enter | Code::Leave | Code::Point | Code::Map | Code::Clear => match Action::take(code, data) {
                    Some(action) => self.operation(object, &action),
                    None => break,
                },
                Code::SetXattr | Code::RemoveXattr => {
                    let Some(Action::SetXattr { total, .. } | Action::RemoveXattr { total, .. }) =
                        Action::take(code, data)
                    else {
                        break;
                    };
                    lists.retain(|(had, _)| *had != object);
                    lists.push((object, total));
                }
                // What they tell is on no side.
                _ => {}
            }
        }
        for (object, total) in lists {
            self.list(object, total);
        }
    }

    fn operation(&mut self, object: u64, action: &Action<'_>) {
        match *action {
            Action::Enter { child, .. } => self.names(object, child, 0),
            Action::Leave { child, .. } => self.names(object, 0, child),
            Action::Point { child, was, .. } => self.names(object, child, was),
            Action::Map { was, entries, .. } => {
                let mapped = entries.iter().filter(|e| !e.is_hole()).count() as i64;
                self.sink
                    .pair(Equation::PagesDone, object, 0, (was as i64).wrapping_sub(mapped));
            }
            Action::Clear { freed, .. } => self.sink.pair(Equation::PagesDone, object, 0, freed as i64),
            _ => {}
        }
    }

    /// An entry of a directory names one inode more, or one less; 0 is none.
    fn names(&mut self, dir: u64, more: u64, less: u64) {
        self.version(dir);
        for (child, times) in [(more, -1), (less, 1)] {
            if child != 0 {
                self.sink.pair(Equation::NamesDone, child, dir, times);
            }
        }
    }

    fn version(&mut self, object: u64) {
        self.sink.pair(Equation::Versions, object, 0, -1);
    }

    /// The length of an inode's list of attributes, if all of it was touched.
    fn list(&mut self, object: u64, total: u32) {
        if !self.sink.wants(Equation::XattrLengths) {
            return;
        }
        let list = |inode: &Inode| (inode.state.get() == LIVE).then(|| (inode.xattr.get(), inode.xattrs.get()));
        let Some((len, chain)) = self.inode_now(object, list).flatten() else {
            return;
        };
        let len = match len {
            XATTR_CHAIN => self.chain(chain),
            len => Some(u64::from(len)),
        };
        if let Some(len) = len {
            self.equal(Equation::XattrLengths, object, len, u64::from(total));
        }
    }

    /// Bytes of the payloads of a chain.
    fn chain(&self, first: u64) -> Option<u64> {
        let (mut next, mut len) = (first, 0);
        for _ in 0..TOTAL_MAX {
            if next == 0 {
                return Some(len);
            }
            let mut head = ChainHead::new_zeroed();
            self.txn.load(self.find(MetaId(next))?, HEADER, head.as_mut_bytes());
            len += u64::from(head.used.get());
            next = head.next.get();
        }
        None
    }
}
