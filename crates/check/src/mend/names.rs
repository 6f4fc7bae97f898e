//! Names against inodes: every live inode has its names, its count of them, and a way from the root (S-21.4).

use super::edit::ROOT;
use super::tree::Name;
use super::{Mender, Refusal};
use crate::dir;
use crate::index;
use crate::pool::header;
use crate::read::leaves;
use keepfs_format::inode::{DIR, Inode};
use keepfs_format::rules::is_name;
use keepfs_format::shown::shown;
use keepfs_format::{Kind, MetaId};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Where goes what no name leads to.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// All names of a pool.
#[derive(Default)]
pub(super) struct Model {
    /// Names by directory.
    names: BTreeMap<u64, Vec<Name>>,
    /// Directories whose nodes are made anew.
    dirty: BTreeSet<u64>,
    /// mode >> 12 of every live inode.
    pub kinds: HashMap<u64, u8>,
    /// No directory lacked a node.
    pub is_whole: bool,
    /// An inode was freed.
    pub is_buried: bool,
}

impl Mender<'_> {
    /// Puts names right; `flagged` are directories that have something wrong. Whether anything was changed.
    pub fn names(&mut self, flagged: &BTreeSet<u64>) -> Result<bool, Refusal> {
        let mut model = Model::default();
        for (ino, facts) in &self.walk.inodes {
            model.kinds.insert(*ino, facts.kind);
        }
        self.collect(&mut model, flagged);
        self.given().learn(&model);
        self.prune(&mut model);
        self.adopt(&mut model);
        let counted = self.count(&model);
        for ino in &model.dirty {
            self.rebuild(*ino, model.names.get(ino).map_or(&[], Vec::as_slice));
        }
        // What is told of since, and what has a name only now.
        self.given().learn(&model);
        Ok(counted || model.is_buried || !model.dirty.is_empty())
    }

    /// Reads every directory; of one with a missing node, what its leaves have.
    fn collect(&mut self, model: &mut Model, flagged: &BTreeSet<u64>) {
        let mut directories: Vec<(u64, u64)> = self
            .walk
            .inodes
            .iter()
            .filter(|(_, facts)| facts.is_dir())
            .map(|(ino, facts)| (*ino, facts.root))
            .collect();
        directories.sort_unstable();
        let mut owned = None;
        model.is_whole = flagged.is_empty() && self.flagged.is_empty();
        for (ino, root) in directories {
            let (mut names, mut seen) = (Vec::new(), HashSet::new());
            let mut is_whole = self.read_directory(ino, root, &mut names, &mut seen);
            // A directory that was made again has no root yet.
            is_whole &= !self.flagged.remove(&ino);
            model.is_whole &= is_whole;
            if !is_whole {
                let owned = owned.get_or_insert_with(|| leaves(self.pool()));
                for id in owned.get(&ino).cloned().unwrap_or_default() {
                    if seen.insert(id.0) {
                        self.read_leaf(ino, id, &mut names);
                    }
                }
            }
            if !is_whole || flagged.contains(&ino) {
                model.dirty.insert(ino);
            }
            model.names.insert(ino, names);
        }
    }

    fn read_directory(&mut self, ino: u64, root: u64, names: &mut Vec<Name>, seen: &mut HashSet<u64>) -> bool {
        let (mut left, mut is_whole) = (vec![root], true);
        while let Some(node) = left.pop() {
            if node == 0 || !seen.insert(node) {
                continue;
            }
            let id = MetaId(node);
            if let Some((_, bytes)) = self.node(id, Kind::DirIndex, ino) {
                left.extend(index::children(&bytes));
            } else {
                is_whole &= self.read_leaf(ino, id, names);
            }
        }
        is_whole
    }

    fn read_leaf(&mut self, ino: u64, id: MetaId, names: &mut Vec<Name>) -> bool {
        let Some((_, bytes)) = self.node(id, Kind::DirLeaf, ino) else {
            return false;
        };
        debug_assert_eq!(header(&bytes).owner.get(), ino);
        let entries = dir::entries(&bytes).into_iter();
        names.extend(entries.map(|(ino, kind, _, name)| Name { name, ino, kind }));
        true
    }

    /// Takes away names that lead to nothing, that stand twice, or that are second ones of directories.
    fn prune(&mut self, model: &mut Model) {
        let (mut actions, mut gone) = (Vec::new(), Vec::new());
        let mut homes: HashMap<u64, u64> = HashMap::new();
        // Of several names of a directory the one counts that it says itself.
        for (dir, names) in &model.names {
            for name in names.iter().filter(|name| model.kinds.get(&name.ino) == Some(&DIR)) {
                let is_told = self
                    .walk
                    .inodes
                    .get(&name.ino)
                    .is_some_and(|facts| facts.parent == *dir);
                let home = homes.entry(name.ino).or_insert(*dir);
                if is_told {
                    *home = *dir;
                }
            }
        }
        let mut named = HashSet::new();
        for (dir, names) in &mut model.names {
            let mut taken = HashSet::new();
            names.retain_mut(|name| {
                let kind = model.kinds.get(&name.ino).copied();
                let is_directory = kind == Some(DIR);
                let why = if !is_name(&name.name) {
                    Some("it is none that a file can have")
                } else if kind.is_none() {
                    Some("what it leads to is lost")
                } else if !taken.insert(name.name.clone()) {
                    Some("there is another entry of this name")
                } else if is_directory
                    && (name.ino == ROOT || homes.get(&name.ino) != Some(dir) || !named.insert(name.ino))
                {
                    Some("the directory has another name")
                } else {
                    None
                };
                if let Some(why) = why {
                    let is_gone = kind.is_none() && is_name(&name.name);
                    if is_gone {
                        gone.push((name.ino, (*dir, name.name.clone())));
                    }
                    let shown = shown(&name.name).into_owned();
                    let about = if is_gone { name.ino } else { *dir };
                    actions.push((
                        about,
                        format!(
                            "name \"{shown}\" of directory {dir} (inode {}) is removed: {why}",
                            name.ino
                        ),
                    ));
                    model.dirty.insert(*dir);
                    return false;
                }
                if kind.is_some_and(|kind| kind != name.kind) {
                    name.kind = kind.unwrap_or_default();
                    model.dirty.insert(*dir);
                }
                true
            });
        }
        for (about, action) in actions {
            self.act_on(about, action);
        }
        for (ino, name) in gone {
            self.given().file(ino, Some(name));
        }
    }

    /// Gives a name in lost+found to whatever the root does not lead to.
    fn adopt(&mut self, model: &mut Model) {
        let mut reached = HashSet::new();
        reach(model, ROOT, &mut reached);
        let linked = |mender: &Mender<'_>, ino: &u64| mender.walk.inodes.get(ino).is_some_and(|f| f.nlink > 0);
        loop {
            let named: HashSet<u64> = all_names(model).map(|(_, name)| name.ino).collect();
            let mut lost: Vec<u64> = model.kinds.keys().copied().collect();
            lost.retain(|ino| *ino != ROOT && linked(self, ino));
            // What has no name at all first; then, of rings of directories, the least.
            let mut nameless: Vec<u64> = lost.iter().copied().filter(|ino| !named.contains(ino)).collect();
            self.bury(model, &mut nameless);
            lost.retain(|ino| model.kinds.contains_key(ino));
            let ring = || {
                let of_ring = lost
                    .iter()
                    .filter(|ino| model.kinds.get(ino) == Some(&DIR) && !reached.contains(*ino));
                of_ring.min().copied().into_iter().collect()
            };
            let mut next: Vec<u64> = if nameless.is_empty() { ring() } else { nameless };
            if next.is_empty() {
                return;
            }
            next.sort_unstable();
            for ino in next {
                for (dir, names) in &mut model.names {
                    let before = names.len();
                    names.retain(|name| name.ino != ino || model.kinds.get(&ino) != Some(&DIR));
                    if names.len() != before {
                        model.dirty.insert(*dir);
                    }
                }
                self.shelve(model, ino, &mut reached);
            }
        }
    }

    fn shelve(&mut self, model: &mut Model, ino: u64, reached: &mut HashSet<u64>) {
        let (shelf, shelf_name) = self.lost_and_found(model, reached);
        let kind = model.kinds.get(&ino).copied().unwrap_or_default();
        let mut name = format!("#{ino}").into_bytes();
        let names = model.names.entry(shelf).or_default();
        while names.iter().any(|other| other.name == name) {
            name.push(b'~');
        }
        let text = shown(&name).into_owned();
        names.push(Name { name, ino, kind });
        model.dirty.insert(shelf);
        if kind == DIR {
            reach(model, ino, reached);
        }
        let doubt = match self.is_unproved(ino) {
            true => ": its metablock may be older than the names, it may have been removed",
            false => "",
        };
        self.act(format!(
            "inode {ino} has no name left and becomes {shelf_name}/{text}{doubt}"
        ));
    }

    /// The directory lost+found, made if need be. One that others may enter is another: what comes here may have lain where only
    /// its owner could. Its number and name.
    fn lost_and_found(&mut self, model: &mut Model, reached: &mut HashSet<u64>) -> (u64, String) {
        let mut name = LOST_AND_FOUND.to_vec();
        while let Some(there) = model
            .names
            .entry(ROOT)
            .or_default()
            .iter()
            .find(|other| other.name == name)
        {
            let (ino, kind) = (there.ino, there.kind);
            let is_private = |inode: &Inode| inode.uid.get() == 0 && inode.mode.get() & 0o077 == 0;
            if kind == DIR && self.inode(ino).as_ref().is_some_and(is_private) {
                return (ino, shown(&name).into_owned());
            }
            name.push(b'~');
        }
        let root = model.names.entry(ROOT).or_default();
        let ino = self.free_number();
        self.new_directory(ino, u32::from(DIR) << 12 | 0o700, ROOT);
        let told = shown(&name).into_owned();
        root.push(Name { name, ino, kind: DIR });
        model.dirty.extend([ROOT, ino]);
        model.kinds.insert(ino, DIR);
        model.names.insert(ino, Vec::new());
        reached.insert(ino);
        (ino, told)
    }

    /// Link counts, parents and numbers of entries as the names are.
    fn count(&mut self, model: &Model) -> bool {
        let mut links: HashMap<u64, u32> = HashMap::new();
        let mut parents: HashMap<u64, u64> = HashMap::from([(ROOT, ROOT)]);
        for (dir, name) in all_names(model) {
            *links.entry(name.ino).or_default() += 1;
            if name.kind == DIR {
                parents.insert(name.ino, dir);
                *links.entry(dir).or_default() += 0;
            }
        }
        let mut subdirectories: HashMap<u64, u32> = HashMap::new();
        for (dir, name) in all_names(model) {
            *subdirectories.entry(dir).or_default() += u32::from(name.kind == DIR);
        }
        let mut is_changed = false;
        let mut all: Vec<(u64, u8)> = model.kinds.iter().map(|(ino, kind)| (*ino, *kind)).collect();
        all.sort_unstable();
        for (ino, kind) in all {
            let Some(mut inode) = self.inode(ino) else { continue };
            let names = links.get(&ino).copied().unwrap_or_default();
            let before = inode;
            if kind == DIR {
                let below = subdirectories.get(&ino).copied().unwrap_or_default();
                let is_named = ino == ROOT || names > 0;
                inode.nlink = if is_named { 2 + below } else { 0 }.into();
                if let Some(parent) = parents.get(&ino) {
                    inode.parent = (*parent).into();
                }
                inode.entries = (model.names.get(&ino).map_or(0, Vec::len) as u64).into();
            } else {
                inode.nlink = names.into();
            }
            if inode != before {
                is_changed = true;
                self.store(ino, &inode);
                if inode.nlink != before.nlink && self.walk.inodes.contains_key(&ino) {
                    let (now, was) = (inode.nlink.get(), before.nlink.get());
                    self.act_on(ino, format!("inode {ino} has {now} links, not {was}"));
                }
            }
        }
        is_changed
    }

    fn rebuild(&mut self, ino: u64, names: &[Name]) {
        let Some(mut inode) = self.inode(ino) else { return };
        inode.cur = inode.cur.get().saturating_add(1).into();
        let root = self.directory_tree(ino, names, inode.cur.get() as u32);
        inode.root = root.into();
        inode.entries = (names.len() as u64).into();
        self.store(ino, &inode);
        self.act_on(ino, format!("directory {ino} is made anew with {} names", names.len()));
    }
}

pub(super) fn all_names(model: &Model) -> impl Iterator<Item = (u64, &Name)> {
    let directories = model.names.iter();
    directories.flat_map(|(dir, names)| names.iter().map(move |name| (*dir, name)))
}

/// Adds every directory below `from`.
fn reach(model: &Model, from: u64, reached: &mut HashSet<u64>) {
    let mut left = vec![from];
    while let Some(ino) = left.pop() {
        if !reached.insert(ino) {
            continue;
        }
        let names = model.names.get(&ino).map_or(&[][..], Vec::as_slice);
        left.extend(names.iter().filter(|name| name.kind == DIR).map(|name| name.ino));
    }
}
