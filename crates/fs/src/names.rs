//! All names of a tree, each directory once (S-6.6 lets none have two names, an image may): for people who are told of damage, as files
//! do not know their names.

use keepfs_format::history::{PATH_MAX, path_of};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// The root directory.
const ROOT: u64 = 1;
/// Names that a walk looks at, at most.
const NAMES_MAX: usize = 1_000_000;
/// Most bytes of names of directories that a walk remembers; what is beyond is passed over.
const REMEMBERED_MAX: usize = 16 << 20;

/// Takes a name of a directory: the number that it leads to, whether that is a directory, the name. `false`: it is enough.
pub type Take<'t> = &'t mut dyn FnMut(u64, bool, &[u8]) -> bool;

/// A directory that a walk came upon.
struct Seen {
    ino: u64,
    /// Its place among those that were seen; of the root its own.
    parent: usize,
    name: Box<[u8]>,
}

/// A path of what has this name in one of the directories that were seen.
fn path_in(seen: &[Seen], parent: usize, name: &[u8]) -> Vec<u8> {
    let mut at = parent;
    let above = core::iter::from_fn(|| {
        let directory = seen.get(at).filter(|_| at != 0)?;
        at = directory.parent;
        Some(&directory.name[..])
    });
    path_of(core::iter::once(name).chain(above), PATH_MAX)
}

/// Tells `met` the number of the root, then what each name leads to, with its path, until that says `false`. `list` gives the names of a
/// directory, as far as it can be read. Returns whether the walk was not cut short at `until`.
pub fn each(
    until: Option<Instant>,
    mut list: impl FnMut(u64, Take<'_>),
    mut met: impl FnMut(u64, &dyn Fn() -> Vec<u8>) -> bool,
) -> bool {
    let is_over = || until.is_some_and(|until| Instant::now() >= until);
    if !met(ROOT, &|| b"/".to_vec()) {
        return true;
    }
    let root = Seen {
        ino: ROOT,
        parent: 0,
        name: Box::default(),
    };
    let (mut seen, mut numbers) = (vec![root], BTreeSet::from([ROOT]));
    let (mut names, mut remembered, mut next) = (0, 0, 0);
    while let Some(ino) = seen.get(next).map(|directory| directory.ino) {
        if names >= NAMES_MAX {
            break;
        }
        if is_over() {
            return false;
        }
        let mut is_enough = false;
        let mut take = |ino: u64, is_dir: bool, name: &[u8]| {
            names += 1;
            if name == b"." || name == b".." {
                return true;
            }
            is_enough = !met(ino, &|| path_in(&seen, next, name));
            if is_dir && remembered + name.len() <= REMEMBERED_MAX && numbers.insert(ino) {
                remembered += name.len();
                let (name, parent) = (name.into(), next);
                seen.push(Seen { ino, parent, name });
            }
            !is_enough && names < NAMES_MAX && !(names % 1024 == 0 && is_over())
        };
        list(ino, &mut take);
        if is_enough {
            return true;
        }
        next += 1;
    }
    true
}

/// A path of each of these inodes that the walk comes upon, and whether it was not cut short at `until`.
pub fn paths(
    wanted: &BTreeSet<u64>,
    until: Option<Instant>,
    list: impl FnMut(u64, Take<'_>),
) -> (BTreeMap<u64, Vec<u8>>, bool) {
    let mut found = BTreeMap::new();
    if wanted.is_empty() {
        return (found, true);
    }
    let is_whole = each(until, list, |ino, path| {
        if wanted.contains(&ino) {
            found.entry(ino).or_insert_with(path);
        }
        found.len() < wanted.len()
    });
    (found, is_whole)
}
