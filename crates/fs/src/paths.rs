//! Paths of inodes, for people who are told of damage: files do not know their names, so the tree is walked, each directory once
//! (S-6.6 lets none have two names, an image may).

use crate::Volume;
use crate::inode;
use keepfs_format::history::{Event, Lasting, PATH_MAX, path_of};
use keepfs_vfs::{FileKind, Ino, Vfs};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Names that a walk looks at, at most.
const NAMES_MAX: usize = 1_000_000;
/// Most bytes of names of directories that a walk remembers; what is beyond is passed over.
const REMEMBERED_MAX: usize = 16 << 20;
/// An inode that no path was found of is not searched for again before.
const SEARCH_AGAIN: Duration = Duration::from_secs(60);
/// Inodes of events whose paths are remembered.
const KNOWN_MAX: usize = 4096;

/// A file that an event is about (S-18.9).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// Its number.
    pub inode: u64,
    /// A path of it, or, if it leads to the inode no more, the one that it had; empty if none is known.
    pub path: Vec<u8>,
    /// Whether the path leads to it now.
    pub is_there: bool,
}

/// What was found when the tree was searched for inodes of events.
#[derive(Default)]
pub(crate) struct KnownPaths(Mutex<BTreeMap<u64, Known>>);

/// A path of an inode.
#[derive(Clone)]
struct Known {
    /// Empty: none was ever found.
    path: Vec<u8>,
    /// Whether it leads there now.
    is_there: bool,
    /// When the inode with this path was made, seconds since 1970.
    born: i64,
    /// When the tree was searched last and no path was found.
    missed: Option<Instant>,
}

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

impl Volume {
    /// A path of each of these inodes that the walk comes upon; directories that cannot be read are passed over.
    pub fn paths_of(&self, wanted: &BTreeSet<u64>) -> BTreeMap<u64, Vec<u8>> {
        self.paths_until(wanted, None).0
    }

    /// The same, and whether the walk was not cut short at `until`.
    fn paths_until(&self, wanted: &BTreeSet<u64>, until: Option<Instant>) -> (BTreeMap<u64, Vec<u8>>, bool) {
        let is_over = || until.is_some_and(|until| Instant::now() >= until);
        let mut found = BTreeMap::new();
        if wanted.contains(&1) {
            found.insert(1, b"/".to_vec());
        }
        let root = Seen {
            ino: 1,
            parent: 0,
            name: Box::default(),
        };
        let (mut seen, mut numbers) = (vec![root], BTreeSet::from([1]));
        let (mut names, mut remembered, mut next) = (0, 0, 0);
        while let Some(ino) = seen.get(next).map(|directory| directory.ino) {
            if found.len() == wanted.len() || names >= NAMES_MAX {
                break;
            }
            if is_over() {
                return (found, false);
            }
            let mut look = |entry: keepfs_vfs::DirEntry<'_>| {
                names += 1;
                if entry.name == b"." || entry.name == b".." {
                    return true;
                }
                let ino = entry.ino.0;
                if wanted.contains(&ino) {
                    found.entry(ino).or_insert_with(|| path_in(&seen, next, entry.name));
                }
                let fits = remembered + entry.name.len() <= REMEMBERED_MAX;
                if entry.kind == FileKind::Dir && fits && numbers.insert(ino) {
                    remembered += entry.name.len();
                    let name = entry.name.into();
                    let parent = next;
                    seen.push(Seen { ino, parent, name });
                }
                names < NAMES_MAX && !(names % 1024 == 0 && is_over())
            };
            // What cannot be listed may be what is damaged.
            let _ = self.readdir(Ino(ino), 0, &mut look);
            next += 1;
        }
        (found, true)
    }

    /// The inode that a path from the root leads to; `None` too if that cannot be read, and of one that is cut. Nobody is counted as
    /// having looked it up.
    fn inode_at(&self, path: &[u8]) -> Option<u64> {
        let path = path.strip_prefix(b"/")?;
        let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
        names.try_fold(1, |parent, name| {
            let _lock = self.locks.shared(parent);
            self.resolve(parent, name).ok()
        })
    }

    /// Gives entries of the list of damages the paths that their inodes have now, and returns the list, each entry with whether it has
    /// that: what another one has leads to another file or nowhere, or is of an earlier life of the number (S-18.11).
    pub fn name_damage(&self) -> Vec<(Lasting, bool)> {
        let history = self.store().history();
        let list = history.damage();
        let of_files = || list.iter().filter(|entry| entry.inode != 0 && !entry.is_of_gone());
        let born: BTreeMap<u64, i64> = of_files().map(|entry| (entry.inode, self.born(entry.inode))).collect();
        let is_of = |entry: &Lasting| born.get(&entry.inode).is_none_or(|born| *born <= entry.last);
        let mut paths = BTreeMap::new();
        for entry in of_files().filter(|entry| !entry.path.is_empty() && is_of(entry)) {
            if !paths.contains_key(&entry.inode) && self.inode_at(&entry.path) == Some(entry.inode) {
                paths.insert(entry.inode, entry.path.clone());
            }
        }
        let lacking = of_files().filter(|entry| is_of(entry)).map(|entry| entry.inode);
        let lacking: BTreeSet<u64> = lacking.filter(|ino| !paths.contains_key(ino)).collect();
        if !lacking.is_empty() {
            paths.extend(self.paths_of(&lacking));
        }
        history.name(&paths, is_of);
        let list = history.damage().into_iter().map(|entry| {
            let is_there = entry.is_of_gone() || paths.contains_key(&entry.inode) && is_of(&entry);
            (entry, is_there)
        });
        list.collect()
    }

    /// The files that each of these events is about, of several those with a path (S-18.9). Paths that are remembered are held against
    /// the tree; for other inodes it is searched, no longer than `patience`.
    pub fn files_of(&self, events: &[Event], patience: Duration) -> Vec<Vec<Named>> {
        let until = Instant::now() + patience;
        let damage = self.store().history().damage();
        let inodes: Vec<Vec<u64>> = events.iter().map(|event| event.inodes(&damage)).collect();
        let wanted: BTreeSet<u64> = inodes.iter().flatten().copied().collect();
        let named = self.named(&wanted, &damage, until);
        let of_event = |(event, inodes): (&Event, Vec<u64>)| {
            let is_one = inodes.len() == 1;
            let file = |inode: u64| match named.get(&inode) {
                // Its number was another file's before.
                Some(known) if known.born > event.seconds => Named {
                    inode,
                    path: earlier(&damage, inode, known.born).to_vec(),
                    is_there: false,
                },
                known => Named {
                    inode,
                    path: known.map_or_else(Vec::new, |known| known.path.clone()),
                    is_there: known.is_some_and(|known| known.is_there),
                },
            };
            let files = inodes.into_iter().map(file);
            files.filter(|file| is_one || !file.path.is_empty()).collect()
        };
        events.iter().zip(inodes).map(of_event).collect()
    }

    /// A path of each of these inodes, as far as one is known.
    fn named(&self, wanted: &BTreeSet<u64>, damage: &[Lasting], until: Instant) -> BTreeMap<u64, Known> {
        // Somebody else may be searching; what is known without is told then.
        let mut remembered = self.known_paths.0.try_lock_until(until);
        let mut named = BTreeMap::new();
        for ino in wanted {
            let known = remembered.as_ref().and_then(|all| all.get(ino));
            let listed = damage.iter().filter(|entry| entry.inode == *ino && !entry.is_of_gone());
            let paths = known.map(|known| &known.path).into_iter();
            let mut paths = paths
                .chain(listed.map(|entry| &entry.path))
                .filter(|path| !path.is_empty());
            let first = paths.clone().next().cloned();
            let right = paths.find(|path| self.inode_at(path) == Some(*ino));
            let known = match (right, known) {
                (Some(path), _) => Some(self.known(*ino, path)),
                (None, Some(known)) => Some(Known {
                    is_there: false,
                    ..known.clone()
                }),
                (None, None) => first.map(|path| Known {
                    path,
                    is_there: false,
                    born: i64::MIN,
                    missed: None,
                }),
            };
            named.extend(known.map(|known| (*ino, known)));
        }
        let Some(remembered) = &mut remembered else {
            return named;
        };
        let is_to_be_found = |ino: &u64| {
            let known = named.get(ino);
            known.is_none_or(|k| !k.is_there && k.missed.is_none_or(|at| at.elapsed() >= SEARCH_AGAIN))
        };
        let lacking: BTreeSet<u64> = wanted.iter().copied().filter(is_to_be_found).collect();
        if lacking.is_empty() {
            return named;
        }
        let (found, is_whole) = self.paths_until(&lacking, Some(until));
        for ino in lacking {
            match found.get(&ino) {
                Some(path) => {
                    named.insert(ino, self.known(ino, path));
                }
                None if is_whole => {
                    let none = Known {
                        path: Vec::new(),
                        is_there: false,
                        born: i64::MIN,
                        missed: None,
                    };
                    named.entry(ino).or_insert(none).missed = Some(Instant::now());
                }
                None => {}
            }
        }
        if remembered.len() + named.len() > KNOWN_MAX {
            remembered.clear();
        }
        remembered.extend(named.iter().map(|(ino, known)| (*ino, known.clone())));
        let is_of = |entry: &Lasting| named.get(&entry.inode).is_none_or(|known| known.born <= entry.last);
        self.store().history().name(&found, is_of);
        named
    }

    /// A path that leads to an inode now.
    fn known(&self, ino: u64, path: &[u8]) -> Known {
        Known {
            path: path.to_owned(),
            is_there: true,
            born: self.born(ino),
            missed: None,
        }
    }

    /// When what has a number now was made, seconds since 1970. What cannot be read is what is damaged, and was there.
    fn born(&self, ino: u64) -> i64 {
        let _lock = self.locks.shared(ino);
        let inode = self.see(|view| inode::live(view, ino));
        inode.map_or(i64::MIN, |inode| inode.btime.get())
    }
}

/// A path that what had the number of an inode before its birth had; empty if none is known.
fn earlier(damage: &[Lasting], ino: u64, born: i64) -> &[u8] {
    let of_it = damage.iter().filter(|entry| entry.inode == ino && !entry.is_of_gone());
    let mut paths = of_it.filter(|entry| entry.last < born).map(|entry| &entry.path[..]);
    paths.rfind(|path| !path.is_empty()).unwrap_or_default()
}
