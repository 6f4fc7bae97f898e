//! Paths of inodes, for people who are told of damage: files do not know their names, so the tree is walked, each directory once
//! (S-6.6 lets none have two names, an image may).

use crate::volume::Volume;
use keepfs_vfs::{FileKind, Ino, Vfs};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Names that a walk looks at, at most.
const NAMES_MAX: usize = 1_000_000;
/// Longest path that is told, bytes.
const PATH_MAX: usize = 1024;
/// Most bytes of paths of directories that wait to be looked at; what is beyond is passed over.
const WAITING_MAX: usize = 16 << 20;

impl Volume {
    /// A path of each of these inodes that the walk comes upon; directories that cannot be read are passed over.
    pub fn paths_of(&self, wanted: &BTreeSet<u64>) -> BTreeMap<u64, String> {
        let mut found = BTreeMap::new();
        if wanted.contains(&1) {
            found.insert(1, "/".to_owned());
        }
        let mut names = 0;
        let mut directories = VecDeque::from([(1, String::new())]);
        let (mut seen, mut waiting) = (BTreeSet::from([1]), 0);
        while let Some((ino, path)) = directories.pop_front() {
            waiting -= path.len();
            if found.len() == wanted.len() || names >= NAMES_MAX {
                break;
            }
            let mut look = |entry: keepfs_vfs::DirEntry<'_>| {
                names += 1;
                if entry.name == b"." || entry.name == b".." {
                    return true;
                }
                let path = format!("{path}/{}", String::from_utf8_lossy(entry.name));
                if wanted.contains(&entry.ino.0) {
                    found.entry(entry.ino.0).or_insert_with(|| path.clone());
                }
                let fits = path.len() < PATH_MAX && waiting + path.len() <= WAITING_MAX;
                if entry.kind == FileKind::Dir && fits && seen.insert(entry.ino.0) {
                    waiting += path.len();
                    directories.push_back((entry.ino.0, path));
                }
                names < NAMES_MAX
            };
            // What cannot be listed may be what is damaged.
            let _ = self.readdir(Ino(ino), 0, &mut look);
        }
        found
    }

    /// The inode that a path from the root leads to; `None` too if that cannot be read. Nobody is counted as having looked it up.
    fn inode_at(&self, path: &str) -> Option<u64> {
        let mut names = path.split('/').filter(|name| !name.is_empty());
        names.try_fold(1, |parent, name| {
            let _lock = self.locks.shared(parent);
            self.resolve(parent, name.as_bytes()).ok()
        })
    }

    /// Gives entries of the list of damages the paths that their inodes have now, and returns these inodes. Of the others none was
    /// found, and what an entry has leads to another file or nowhere (S-18.6).
    pub fn name_damage(&self) -> BTreeSet<u64> {
        let history = self.store().history();
        let list = history.damage();
        let of_files = || list.iter().filter(|entry| entry.inode != 0 && !entry.is_of_gone());
        let mut paths = BTreeMap::new();
        for entry in of_files().filter(|entry| !entry.path.is_empty()) {
            if !paths.contains_key(&entry.inode) && self.inode_at(&entry.path) == Some(entry.inode) {
                paths.insert(entry.inode, entry.path.clone());
            }
        }
        let lacking = of_files().map(|entry| entry.inode);
        let lacking: BTreeSet<u64> = lacking.filter(|ino| !paths.contains_key(ino)).collect();
        if !lacking.is_empty() {
            paths.extend(self.paths_of(&lacking));
        }
        history.name(&paths);
        paths.into_keys().collect()
    }
}
