//! Whether the file system was unmounted, asked by every request.
//!
//! Every request holds a lock for reading, so that the end waits for those under way. One lock would be a cache line that
//! all CPUs write at every request; so there is one for each of a few groups of threads, and the end takes them all.

use crate::group::{self, GROUPS};
use keepfs_vfs::Errno;
use parking_lot::{RwLock, RwLockReadGuard};

/// How the file system was unmounted, once it was.
type State = Option<Result<(), Errno>>;

/// A lock with a pair of cache lines to itself (processors fetch them in pairs).
#[derive(Default)]
#[repr(align(128))]
struct Group(RwLock<State>);

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Ended {
    groups: [Group; GROUPS],
}

impl Ended {
    /// Holds the end off until the guard is dropped; it says whether the end has come.
    pub(crate) fn hold_off(&self) -> RwLockReadGuard<'_, State> {
        self.groups[group::mine()].0.read()
    }

    /// Runs `end` when no request is under way any more; the first call decides, later ones repeat its result.
    pub(crate) fn come(&self, end: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        let mut groups: Vec<_> = self.groups.iter().map(|group| group.0.write()).collect();
        if let Some(result) = groups.first().and_then(|state| **state) {
            return result;
        }
        let result = end();
        groups.iter_mut().for_each(|state| **state = Some(result));
        result
    }
}

#[cfg(test)]
mod tests;
