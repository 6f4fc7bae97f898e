//! Where paths lead on a device that nobody serves, for people who wait (S-18.15): a list of damages has hundreds in directories that
//! may be large, and an image may have directories that lead to themselves.

use super::SEARCHED;
use keepfs_check::read::DirEntry;
use std::collections::HashMap;
use std::time::Instant;

/// The root directory.
const ROOT: u64 = 1;
/// Most names that are remembered, but for those of one directory.
const NAMES_MAX: usize = 1_000_000;

/// Directories that were read.
#[derive(Default)]
pub struct Led {
    names: HashMap<u64, HashMap<Vec<u8>, u64>>,
    /// How many there are.
    count: usize,
    /// No other directory is read from then on.
    until: Option<Instant>,
}

impl Led {
    /// The inode that a path leads to; `None`: none, or it is not known in time. `list` reads a directory.
    pub fn to(&mut self, path: &[u8], mut list: impl FnMut(u64) -> Vec<DirEntry>) -> Option<u64> {
        let until = *self.until.get_or_insert_with(|| Instant::now() + SEARCHED);
        let mut at = ROOT;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            if !self.names.contains_key(&at) {
                if Instant::now() >= until {
                    return None;
                }
                self.remember(at, list(at));
            }
            at = *self.names.get(&at)?.get(name)?;
        }
        Some(at)
    }

    fn remember(&mut self, dir: u64, entries: Vec<DirEntry>) {
        if self.count + entries.len() > NAMES_MAX {
            self.names.clear();
            self.count = 0;
        }
        self.count += entries.len();
        // Of two that are the same the first one counts.
        let entries = entries.into_iter().rev().map(|entry| (entry.raw, entry.ino));
        self.names.insert(dir, entries.collect());
    }
}

#[cfg(test)]
mod tests;
