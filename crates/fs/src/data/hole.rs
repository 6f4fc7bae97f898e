//! A hole of many pages: one transaction makes it for whoever looks, further ones free what it had (S-5.8, S-5.10).
//!
//! Nobody sees the pages of a pending hole again: looking at entries hides them ([`blockmap::get`], [`blockmap::next`]), and
//! what is pending is finished before the next change ([`Volume::settled`]).

use super::splice::make_holes;
use crate::Volume;
use crate::blockmap;
use crate::errors::Step;
use crate::inode::{Held, hide, pending_hole, unhide};
use keepfs_format::inode::{Hole, Inode};
use keepfs_format::oplog::Action;
use keepfs_store::Txn;
use keepfs_store::planted::{self, Bug};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Pages `from .. to` of the tree are a hole from this transaction on. None is pending yet, and no cut is.
pub(super) fn begin(txn: &mut Txn<'_>, file: &mut Held, from: u64, to: u64) -> Step<()> {
    set(txn, file, from, to)?;
    hide(txn, file)
}

/// Whoever looks without a lock never sees the hole of an inode that is not listed.
fn end(txn: &mut Txn<'_>, file: &mut Held) -> Step<()> {
    set(txn, file, 0, 0)?;
    file.put(txn)?;
    unhide(txn, file)
}

fn set(txn: &mut Txn<'_>, file: &mut Held, from: u64, to: u64) -> Step<()> {
    txn.op(file.ino, Action::Hole { from, to })?;
    let (from, to) = (from.into(), to.into());
    file.now.set_hole((from != to).then_some(Hole { from, to }));
    Ok(())
}

/// One transaction of finishing the pending hole; the last one ends it.
pub(super) fn step(txn: &mut Txn<'_>, mut file: Held, recovers: bool) -> Step<bool> {
    let hole = pending_hole(&file.now);
    let forgets = recovers && planted::is(Bug::HoleForgotten);
    let done = forgets || make_holes(txn, &mut file, hole.start, hole.end - hole.start)?;
    if done {
        end(txn, &mut file)?;
    }
    file.put(txn)?;
    Ok(done)
}

impl Volume {
    /// Page entries that a pending hole hides and the inode still counts. Counted once as long as it has the hole and as many
    /// pages (S-20.12); none while they become fewer, or if the map is damaged.
    pub(crate) fn hidden_pages(&self, ino: u64, inode: &Inode) -> u64 {
        let hole = pending_hole(inode);
        if hole.is_empty() || self.orphans.is_trimming(ino) {
            return 0;
        }
        let of = [hole.start, hole.end, inode.pages.get(), inode.born.get()];
        if let Some(count) = self.hidden.get(ino, of) {
            return count;
        }
        let count = self.see(|view| blockmap::count(view, ino, inode, hole.start, hole.end));
        let count = match count {
            Err(error) if error.is_damage() => {
                tracing::error!(%error, "what a hole hides cannot be counted");
                0
            }
            Err(_) => return 0,
            Ok(count) => count,
        };
        self.hidden.keep(ino, of, count);
        count
    }
}

/// A pending hole, the pages of its inode, and its birth.
type Hiding = [u64; 4];

/// What pending holes hide, as it was counted.
#[derive(Default)]
pub(crate) struct Hidden(Mutex<BTreeMap<u64, (Hiding, u64)>>);

/// Inodes of which it is kept.
const HIDDEN_MAX: usize = 4096;

impl Hidden {
    fn get(&self, ino: u64, of: Hiding) -> Option<u64> {
        let kept = self.0.lock().get(&ino).copied();
        kept.filter(|(was, _)| *was == of).map(|(_, count)| count)
    }

    fn keep(&self, ino: u64, of: Hiding, count: u64) {
        let mut kept = self.0.lock();
        if kept.len() >= HIDDEN_MAX {
            kept.clear();
        }
        kept.insert(ino, (of, count));
    }
}
