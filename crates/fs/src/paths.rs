//! Paths of inodes, for people who are told of damage (S-18.9, S-18.11).

use crate::Volume;
use crate::inode;
use crate::names;
use keepfs_format::history::{Event, Lasting};
use keepfs_vfs::{FileKind, Ino, Vfs};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long the tree is searched for whose damage is while somebody waits (S-18.15).
const SEARCHED: Duration = Duration::from_secs(1);
/// What was not found is not searched for again before.
pub(crate) const SEARCH_AGAIN: Duration = Duration::from_secs(60);
/// Inodes of events whose paths are remembered.
const KNOWN_MAX: usize = 4096;

/// When an inode was made, seconds since 1970 and nanoseconds.
type Born = (i64, u32);
/// Of what is not known to have been made.
const LONG_AGO: Born = (i64::MIN, 0);

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
    /// When the inode with this path was made.
    born: Born,
    /// When the tree was searched last and no path was found.
    missed: Option<Instant>,
}

impl Volume {
    /// A path of each of these inodes that the walk comes upon; directories that cannot be read are passed over.
    pub fn paths_of(&self, wanted: &BTreeSet<u64>) -> BTreeMap<u64, Vec<u8>> {
        self.paths_until(wanted, None).0
    }

    /// The same, and whether the walk was not cut short at `until`.
    fn paths_until(&self, wanted: &BTreeSet<u64>, until: Option<Instant>) -> (BTreeMap<u64, Vec<u8>>, bool) {
        names::paths(wanted, until, |ino, take| self.names_in(ino, take))
    }

    /// The names of a directory; what cannot be listed may be what is damaged.
    pub(crate) fn names_in(&self, ino: u64, take: names::Take<'_>) {
        let mut look = |entry: keepfs_vfs::DirEntry<'_>| take(entry.ino.0, entry.kind == FileKind::Dir, entry.name);
        let _ = self.readdir(Ino(ino), 0, &mut look);
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
        self.own_damage(Instant::now() + SEARCHED);
        let history = self.store().history();
        let list = history.damage();
        let of_files = || list.iter().filter(|entry| entry.inode != 0 && !entry.is_of_gone());
        let born: BTreeMap<u64, Born> = of_files().map(|entry| (entry.inode, self.born(entry.inode))).collect();
        let is_of = |entry: &Lasting| born.get(&entry.inode).is_none_or(|born| !entry.is_before(*born));
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
        self.own_damage(until);
        let damage = self.store().history().damage();
        let inodes: Vec<Vec<u64>> = events.iter().map(|event| event.inodes(&damage)).collect();
        let wanted: BTreeSet<u64> = inodes.iter().flatten().copied().collect();
        let named = self.named(&wanted, &damage, until);
        let of_event = |(event, inodes): (&Event, Vec<u64>)| {
            let is_one = inodes.len() == 1;
            let file = |inode: u64| match named.get(&inode) {
                // Its number was another file's before.
                Some(known) if known.born > (event.seconds, event.nanoseconds) => Named {
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
                    born: LONG_AGO,
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
                        born: LONG_AGO,
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
        let is_of = |entry: &Lasting| named.get(&entry.inode).is_none_or(|known| !entry.is_before(known.born));
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

    /// When what has a number now was made. What cannot be read is what is damaged, and was there.
    fn born(&self, ino: u64) -> Born {
        let _lock = self.locks.shared(ino);
        let inode = self.see(|view| inode::live(view, ino));
        inode.map_or(LONG_AGO, |inode| (inode.btime.get(), inode.btime_nsec.get()))
    }
}

/// A path that what had the number of an inode before its birth had; empty if none is known.
fn earlier(damage: &[Lasting], ino: u64, born: Born) -> &[u8] {
    let of_it = damage.iter().filter(|entry| entry.inode == ino && !entry.is_of_gone());
    let mut paths = of_it.filter(|entry| entry.is_before(born)).map(|entry| &entry.path[..]);
    paths.rfind(|path| !path.is_empty()).unwrap_or_default()
}
