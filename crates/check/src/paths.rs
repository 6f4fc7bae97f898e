//! Paths of the inodes that findings are about, for people: from the names that a walk met, without a second look at the whole tree
//! (S-21.12).

use crate::pool::{Load, header};
use crate::report::Sink;
use crate::walk::Walk;
use crate::{dir, index};
use keepfs_format::MetaId;
use keepfs_format::history::{PATH_MAX, path_of};
use keepfs_format::inode::DIR;
use keepfs_format::rules::is_name;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The root directory.
const ROOT: u64 = 1;
/// Inodes whose paths are looked for at most.
const WANTED_MAX: usize = 10_000;
/// Names that lead to no inode, and are remembered.
const DANGLING_MAX: usize = 100_000;

/// Directories by the number of what a name in them leads to, of what is not known to live.
#[derive(Debug, Default)]
pub(crate) struct Dangling(BTreeMap<u64, u64>);

impl Dangling {
    pub fn add(&mut self, ino: u64, dir: u64) {
        if self.0.len() < DANGLING_MAX {
            self.0.entry(ino).or_insert(dir);
        }
    }
}

/// A path of each of these inodes to which names lead from the root.
pub(crate) fn of(walk: &mut Walk<'_>, wanted: &BTreeSet<u64>) -> BTreeMap<u64, Vec<u8>> {
    // What is read here was judged before.
    let sink = core::mem::replace(&mut walk.pool.sink, Sink::new(0));
    let wanted = || wanted.iter().copied().take(WANTED_MAX);
    let mut children: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    for ino in wanted() {
        let mut at = ino;
        while at != ROOT
            && let Some(dir) = named_in(walk, at)
            && children.entry(dir).or_default().insert(at)
        {
            at = dir;
        }
    }
    let mut names = BTreeMap::new();
    for (dir, children) in &children {
        read_names(walk, *dir, children, &mut names);
    }
    walk.pool.sink = sink;
    let paths = wanted().filter_map(|ino| Some((ino, path(walk, &names, ino)?)));
    paths.collect()
}

/// The directory that names an inode first.
fn named_in(walk: &Walk<'_>, ino: u64) -> Option<u64> {
    let known = walk.inodes.get(&ino).map(|facts| facts.named_in);
    known
        .filter(|dir| *dir != 0)
        .or_else(|| walk.dangling.0.get(&ino).copied())
}

/// The names of these children in their directory.
fn read_names(walk: &mut Walk<'_>, ino: u64, children: &BTreeSet<u64>, names: &mut BTreeMap<u64, Vec<u8>>) {
    let Some(facts) = walk.inodes.get(&ino).filter(|facts| facts.kind == DIR) else {
        return;
    };
    let (mut nodes, mut seen, mut found) = (vec![facts.root], HashSet::new(), 0);
    while let Some(node) = nodes.pop().filter(|_| found < children.len()) {
        if node == 0 || !seen.insert(node) {
            continue;
        }
        let Load::Live(bytes) = walk.pool.load(MetaId(node)) else {
            continue;
        };
        if index::is_index(header(&bytes).kind) {
            nodes.extend(index::children(&bytes));
            continue;
        }
        for (child, _, _, name) in dir::entries(&bytes) {
            if children.contains(&child) && is_name(&name) && !names.contains_key(&child) {
                names.insert(child, name);
                found += 1;
            }
        }
    }
}

/// Names from the root to an inode. Of rings there is none.
fn path(walk: &Walk<'_>, names: &BTreeMap<u64, Vec<u8>>, ino: u64) -> Option<Vec<u8>> {
    let (mut parts, mut at, mut seen) = (Vec::new(), ino, HashSet::new());
    while at != ROOT {
        if !seen.insert(at) {
            return None;
        }
        parts.push(names.get(&at)?);
        at = named_in(walk, at)?;
    }
    Some(path_of(parts, PATH_MAX))
}
