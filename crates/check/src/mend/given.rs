//! What a repair gives up, with the names by which people know it, for the pool's own list of damages (S-21.11).

use super::Mender;
use super::edit::ROOT;
use super::names::Model;
use keepfs_format::PAGE;
use keepfs_format::history::{GIVEN_UP, Lasting, PATH_MAX, REPAIR, path_of};
use keepfs_format::inode::DIR;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The place of the log, and the deed that leaves it as it is (S-18.5).
const LOG: u8 = 6;
const NOTHING: u8 = 10;
/// Nothing tells what it was (S-18.5).
pub(super) const UNKNOWN: u8 = 11;

/// What was given up: inode (0: of no single file), metablock (0: content) and first byte.
type Key = (u64, u64, u64);
/// What is lost with the log: the length of its entry (S-18.12).
#[derive(Clone, Copy)]
pub(super) enum LogLoss {
    Perhaps = 0,
    Synced = 1,
    /// What the last checkpoint carried over, too.
    Carried = 2,
}

/// A directory and a name in it.
type Place = (u64, Vec<u8>);

/// What a repair gives up.
#[derive(Default)]
pub(super) struct Given {
    /// Bytes; of content, 0 is all of the file.
    parts: BTreeMap<Key, u64>,
    /// The first name that was met of a directory, or of an inode of which something is given up.
    names: HashMap<u64, Place>,
    log: Option<(u64, u64)>,
    /// Inodes that people are told of, though nothing of them is given up.
    wanted: BTreeSet<u64>,
}

impl Given {
    /// All of a file or directory, known by this name.
    pub fn file(&mut self, ino: u64, name: Option<Place>) {
        self.parts.insert((ino, 0, 0), 0);
        if let Some(name) = name {
            self.names.entry(ino).or_insert(name);
        }
    }

    /// Pages `first` to `last` of a file; whole ones may be between.
    pub fn pages(&mut self, ino: u64, first: u64, last: u64) {
        let bytes = |pages: u64| pages.saturating_mul(PAGE as u64);
        let from = bytes(first);
        let length = bytes((last - first).saturating_add(1)).min(u64::MAX - from);
        let known = self.parts.entry((ino, 0, from)).or_insert(length);
        // All of it stays all of it.
        if *known != 0 {
            *known = length.max(*known);
        }
    }

    /// Metadata of an inode, or of none that is known (0).
    pub fn metadata(&mut self, ino: u64, id: u64) {
        self.parts.insert((ino, id, 0), PAGE as u64);
    }

    /// What was synced behind a group of the log; the worst that is told stays.
    pub fn log(&mut self, group: u64, loss: LogLoss) {
        let known = self.log.map_or(0, |(_, loss)| loss);
        self.log = Some((group, known.max(loss as u64)));
    }

    /// People are told of this inode.
    pub fn wants(&mut self, ino: u64) {
        self.wanted.insert(ino);
    }

    /// Learns names; those that were learned before, when none was taken away yet, stay.
    pub fn learn(&mut self, model: &Model) {
        let given = self.parts.keys().map(|(ino, ..)| *ino);
        let wanted: HashSet<u64> = given.chain(self.wanted.iter().copied()).collect();
        for (dir, name) in super::names::all_names(model) {
            if model.kinds.get(&name.ino) == Some(&DIR) || wanted.contains(&name.ino) {
                self.names.entry(name.ino).or_insert_with(|| (dir, name.name.clone()));
            }
        }
    }

    /// The path of an inode; empty if no names lead to it from the root.
    pub fn path(&self, ino: u64) -> Vec<u8> {
        let (mut parts, mut at, mut seen) = (Vec::new(), ino, HashSet::new());
        while at != ROOT {
            let Some((dir, name)) = self.names.get(&at).filter(|_| seen.insert(at)) else {
                return Vec::new();
            };
            parts.push(name);
            at = *dir;
        }
        path_of(parts, PATH_MAX)
    }

    /// Entries of the list of damages, without times; log first, then by inode.
    pub fn entries(&self) -> Vec<Lasting> {
        let entry = |(place, done), inode, id, from, length| Lasting {
            place,
            verdict: UNKNOWN,
            done,
            inode,
            id,
            from,
            length,
            count: 1,
            path: if inode == 0 { Vec::new() } else { self.path(inode) },
            ..Lasting::default()
        };
        let log = self
            .log
            .map(|(group, length)| entry((LOG, NOTHING), 0, 0, group, length));
        let is_gone = |ino: u64| ino != 0 && self.parts.get(&(ino, 0, 0)) == Some(&0);
        let parts = self
            .parts
            .iter()
            .filter(|((ino, id, from), _)| !is_gone(*ino) || (*id, *from) == (0, 0));
        let parts = parts.map(|((ino, id, from), length)| entry((REPAIR, GIVEN_UP), *ino, *id, *from, *length));
        log.into_iter().chain(parts).collect()
    }
}

/// What a repair gave up, in a sentence for people.
pub(super) fn sentence(given: &[Lasting]) -> String {
    let is_file = |entry: &Lasting| entry.place == REPAIR && entry.length == 0;
    let files = given.iter().filter(|entry| is_file(entry)).count();
    let parts = given.len() - files;
    format!(
        "keepfs check --repair gave up {files} files and directories, and {parts} parts of others: `keepfs damage list` names them"
    )
}

impl Mender<'_> {
    /// What this repair gives up.
    pub(super) fn given(&mut self) -> &mut Given {
        &mut self.given
    }
}
