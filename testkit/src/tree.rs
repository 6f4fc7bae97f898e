//! Trees as comparable values: everything a user can see below the root of a [`Vfs`], and its hash.
//!
//! Two file systems hold the same tree if their [`Snapshot`]s are equal; [`diff`] says in words where they are not.
//! Holes count as zeros. Not compared: inode numbers, sizes of directories, allocated blocks, access times, cookies.

mod hash;
mod walk;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::{self, Write};

pub use hash::DataHash;
use hash::TreeHash;
use keepfs_vfs::{Errno, FileKind, Time, Vfs};

/// Whether a walk keeps times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Times {
    /// Times are not part of the tree.
    #[default]
    Ignore,
    /// mtime and ctime are part of it.
    Keep,
}

/// What one name leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits, without the type.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of device nodes.
    pub rdev: u32,
    /// Bytes of a regular file, 0 for all else.
    pub size: u64,
    /// Hash of the contents of a regular file.
    pub data: DataHash,
    /// Target of a symbolic link.
    pub target: Vec<u8>,
    /// Extended attributes, ACLs included, sorted by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// chattr(1) flags.
    pub flags: u32,
    /// mtime and ctime, if asked for.
    pub times: Option<(Time, Time)>,
}

/// A node, the path it was found at (without a leading slash, empty for the root) and a number that all names of
/// its inode share.
pub type Found = (Vec<u8>, u64, Node);

/// A whole tree.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    nodes: BTreeMap<Vec<u8>, Node>,
    /// Path of a file with several names to the first of its paths.
    first_names: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A walk that failed: what every tree can do, this one could not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeError {
    /// Where, as a path from the root.
    pub path: String,
    /// What was tried.
    pub doing: &'static str,
    /// What came back; `EIO` also if the answers contradict each other.
    pub errno: Errno,
}

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}: {}: {}", self.path, self.doing, self.errno)
    }
}

impl std::error::Error for TreeError {}

/// The tree of `vfs` without times. Errors: whatever the file system answers to lookup, readdir, getattr, read,
/// readlink and the xattr calls, which never fail on a sound one.
pub fn snapshot(vfs: &dyn Vfs) -> Result<Snapshot, TreeError> {
    snapshot_with(vfs, Times::Ignore)
}

/// The tree of `vfs`. Errors: as [`snapshot`].
pub fn snapshot_with(vfs: &dyn Vfs, times: Times) -> Result<Snapshot, TreeError> {
    let mut found = Vec::new();
    walk::walk(vfs, times, &mut |path, ino, node| {
        found.push((path.to_vec(), ino.0, node))
    })?;
    Ok(Snapshot::of(found))
}

/// The hash of the tree of `vfs`, equal to [`Snapshot::hash`] of its snapshot but without building maps.
/// Errors: as [`snapshot`].
pub fn hash_tree(vfs: &dyn Vfs, times: Times) -> Result<u64, TreeError> {
    let mut hash = TreeHash::default();
    walk::walk(vfs, times, &mut |path, ino, node| hash.add(path, ino.0, &node))?;
    Ok(hash.finish())
}

impl Snapshot {
    /// A snapshot of what was found, in any order.
    pub fn of(found: Vec<Found>) -> Snapshot {
        let mut names: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
        for (path, identity, node) in &found {
            if has_more_names(node) {
                names.entry(*identity).or_default().push(path.clone());
            }
        }
        let mut first_names = BTreeMap::new();
        for mut paths in names.into_values() {
            paths.sort();
            for path in &paths {
                first_names.insert(path.clone(), paths[0].clone());
            }
        }
        Snapshot {
            nodes: found.into_iter().map(|(path, _, node)| (path, node)).collect(),
            first_names,
        }
    }

    /// Paths and nodes in byte order of the paths.
    pub fn nodes(&self) -> impl Iterator<Item = (&[u8], &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_slice(), node))
    }

    /// The node at a path (without a leading slash; empty for the root).
    pub fn get(&self, path: &[u8]) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// The same tree without times.
    pub fn without_times(mut self) -> Snapshot {
        self.nodes.values_mut().for_each(|node| node.times = None);
        self
    }

    /// A number that differs for trees that differ (but for chance); the same in every run and build.
    pub fn hash(&self) -> u64 {
        let mut hash = TreeHash::default();
        let mut numbers: BTreeMap<&[u8], u64> = BTreeMap::new();
        for (path, node) in &self.nodes {
            let next = numbers.len() as u64;
            let first = self.first_names.get(path).unwrap_or(path);
            hash.add(path, *numbers.entry(first).or_insert(next), node);
        }
        hash.finish()
    }
}

/// The first differences between two trees in plain words, one a line; empty if they are equal.
pub fn diff(a: &Snapshot, b: &Snapshot) -> String {
    const MOST_LINES: usize = 12;
    let mut lines = Vec::new();
    for (path, node) in &a.nodes {
        match b.nodes.get(path) {
            None => lines.push(format!("{}: only in the first ({:?})", shown(path), node.kind)),
            Some(other) => diff_nodes(path, node, other, &mut lines),
        }
        if b.nodes.contains_key(path) && a.first_names.get(path) != b.first_names.get(path) {
            let first = |s: &Snapshot| s.first_names.get(path).map_or("itself".into(), |p| shown(p));
            lines.push(format!(
                "{}: the same file as {} and {}",
                shown(path),
                first(a),
                first(b)
            ));
        }
    }
    for (path, node) in b.nodes.iter().filter(|(path, _)| !a.nodes.contains_key(*path)) {
        lines.push(format!("{}: only in the second ({:?})", shown(path), node.kind));
    }
    if lines.len() > MOST_LINES {
        let rest = lines.len() - MOST_LINES;
        lines.truncate(MOST_LINES);
        lines.push(format!("and {rest} more"));
    }
    lines.join("\n")
}

/// Whether another path may lead to the same inode.
fn has_more_names(node: &Node) -> bool {
    node.nlink > 1 && node.kind != FileKind::Dir
}

fn diff_nodes(path: &[u8], a: &Node, b: &Node, lines: &mut Vec<String>) {
    let mut say = |what: &str, x: String, y: String| {
        if x != y {
            lines.push(format!("{}: {what} {x} and {y}", shown(path)));
        }
    };
    say("kind", format!("{:?}", a.kind), format!("{:?}", b.kind));
    say("mode", format!("{:04o}", a.mode), format!("{:04o}", b.mode));
    say("nlink", a.nlink.to_string(), b.nlink.to_string());
    say("owner", format!("{}:{}", a.uid, a.gid), format!("{}:{}", b.uid, b.gid));
    say("device", a.rdev.to_string(), b.rdev.to_string());
    say("size", a.size.to_string(), b.size.to_string());
    say("data", a.data.to_string(), b.data.to_string());
    say("target", shown(&a.target), shown(&b.target));
    say("xattrs", shown_xattrs(a), shown_xattrs(b));
    say("flags", format!("{:#x}", a.flags), format!("{:#x}", b.flags));
    say("times", format!("{:?}", a.times), format!("{:?}", b.times));
}

fn shown(path: &[u8]) -> String {
    format!("/{}", path.escape_ascii())
}

fn shown_xattrs(node: &Node) -> String {
    let mut text = String::from("[");
    for (name, value) in &node.xattrs {
        // Writing to a String cannot fail.
        let _ = write!(text, " {}={}", name.escape_ascii(), value.escape_ascii());
    }
    text + " ]"
}
