//! Names against inodes: link counts, parents, the hidden list, and that the root leads to every directory (S-5.6).

use crate::finding::Finding;
use crate::inode::Facts;
use crate::walk::Walk;
use keepfs_format::inode::{BODY_DIRECT, BODY_TREE, FILE};
use std::collections::HashSet;

/// The root directory.
const ROOT: u64 = 1;

/// Checks what only the whole set of directories can tell.
pub(crate) fn check(walk: &mut Walk<'_>) {
    let mut numbers: Vec<u64> = walk.inodes.keys().copied().collect();
    numbers.sort_unstable();
    // A pool that nobody has opened yet has no inode at all.
    let is_root = walk.inodes.get(&ROOT).is_some_and(|f| f.is_dir() && f.nlink > 0);
    if !is_root && !numbers.is_empty() && !walk.is_hidden(ROOT) {
        walk.finding(Finding::RootMissing {});
        walk.blind.names = true;
    }
    for ino in &numbers {
        if let Some(facts) = walk.inodes.get(ino).copied() {
            one(walk, *ino, &facts);
        }
    }
    let orphans = core::mem::take(&mut walk.orphans);
    orphans.iter().for_each(|ino| orphan(walk, ino));
    walk.orphans = orphans;
    if !walk.blind.names {
        reach(walk, &numbers);
    }
}

fn one(walk: &mut Walk<'_>, ino: u64, facts: &Facts) {
    let stored = u64::from(facts.nlink);
    let found = match (facts.is_dir(), ino == ROOT || facts.names > 0) {
        (true, true) => 2 + facts.subdirs,
        _ => facts.names,
    };
    // What is missing may be in what could not be read; what is too much cannot.
    if stored != found && !(walk.blind.names && found < stored) {
        walk.finding(Finding::LinkCount { ino, stored, found });
    }
    if stored == 0 && !walk.orphans.has(ino) && !walk.blind.orphans {
        walk.finding(Finding::OrphanClear { ino });
    }
    let parent = if ino == ROOT { ROOT } else { facts.named_in };
    if facts.is_dir() && stored > 0 && parent != 0 && facts.parent != parent {
        walk.finding(Finding::Parent {
            ino,
            stored: facts.parent,
            found: parent,
        });
    }
}

/// S-5.6: on the hidden list are inodes without name, and files whose pages are still being freed.
fn orphan(walk: &mut Walk<'_>, ino: u64) {
    walk.counts.orphans += 1;
    let allowed = match walk.inodes.get(&ino) {
        Some(facts) => facts.nlink == 0 || facts.kind == FILE && [BODY_DIRECT, BODY_TREE].contains(&facts.body),
        None => walk.is_hidden(ino),
    };
    if !allowed {
        walk.finding(Finding::OrphanSet { ino });
    }
}

/// Directories that have a name but hang in a ring of their own.
fn reach(walk: &mut Walk<'_>, numbers: &[u64]) {
    let mut reached: HashSet<u64> = HashSet::from([ROOT]);
    let mut lost: HashSet<u64> = HashSet::new();
    for ino in numbers {
        let Some(facts) = walk.inodes.get(ino).filter(|f| f.is_dir() && f.named_in != 0) else {
            continue;
        };
        let (mut path, mut at) = (vec![*ino], facts.named_in);
        let mut on_path = HashSet::from([*ino]);
        let ends = loop {
            if reached.contains(&at) || lost.contains(&at) || !on_path.insert(at) {
                break reached.contains(&at);
            }
            path.push(at);
            match walk.inodes.get(&at).map_or(0, |f| f.named_in) {
                0 => break false,
                above => at = above,
            }
        };
        if reached.contains(ino) || lost.contains(ino) {
            continue;
        }
        if ends { &mut reached } else { &mut lost }.extend(path);
    }
    // A directory without name, and what is below it, is told by its link count.
    for ino in numbers.iter().filter(|ino| lost.contains(ino)) {
        if walk.inodes.get(ino).is_some_and(|f| f.named_in != 0) {
            walk.finding(Finding::Unreached { ino: *ino });
        }
    }
}
