//! The walk: every name from the root down, each looked up, read and given back.

use super::{DataHash, Node, Times, TreeError};
use keepfs_vfs::{Attr, Errno, FileKind, Ino, Result, SeekWhence, Vfs};

/// Bytes read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Contents are hashed by pages of this size.
const PAGE_BYTES: u64 = 4096;

/// Called with path, inode and node.
type Visit<'a> = &'a mut dyn FnMut(&[u8], Ino, Node);

/// Visits every name; the order is the file system's.
pub(super) fn walk(vfs: &dyn Vfs, times: Times, visit: Visit<'_>) -> core::result::Result<(), TreeError> {
    let mut walker = Walker {
        vfs,
        times,
        path: Vec::new(),
        doing: "getattr",
        buf: Vec::new(),
    };
    let walked = vfs.getattr(Ino::ROOT).and_then(|root| walker.node(&root, visit));
    walked.map_err(|errno| TreeError {
        path: walker.path.escape_ascii().to_string(),
        doing: walker.doing,
        errno,
    })
}

struct Walker<'a> {
    vfs: &'a dyn Vfs,
    times: Times,
    path: Vec<u8>,
    /// What is being tried, for the error.
    doing: &'static str,
    buf: Vec<u8>,
}

impl Walker<'_> {
    /// Visits a node and, if it is a directory, all below it.
    fn node(&mut self, attr: &Attr, visit: Visit<'_>) -> Result<()> {
        let is_dir = attr.kind() == FileKind::Dir;
        let node = Node {
            kind: attr.kind(),
            mode: attr.mode & 0o7777,
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            size: if attr.kind() == FileKind::File { attr.size } else { 0 },
            data: self.data(attr)?,
            target: self.target(attr)?,
            xattrs: self.xattrs(attr.ino)?,
            flags: attr.flags.0,
            times: (self.times == Times::Keep).then_some((attr.mtime, attr.ctime)),
        };
        visit(&self.path, attr.ino, node);
        if is_dir { self.children(attr.ino, visit) } else { Ok(()) }
    }

    fn children(&mut self, dir: Ino, visit: Visit<'_>) -> Result<()> {
        let mut listed = Vec::new();
        self.doing = "readdir";
        self.vfs.readdir(dir, 0, &mut |e| {
            if e.name != b"." && e.name != b".." {
                listed.push((e.name.to_vec(), e.ino, e.kind));
            }
            true
        })?;
        for (name, ino, kind) in listed {
            let parent_len = self.path.len();
            if parent_len > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(&name);
            self.doing = "lookup of a listed name";
            let attr = self.vfs.lookup(dir, &name)?.attr;
            let visited = if attr.ino == ino && attr.kind() == kind {
                self.node(&attr, visit)
            } else {
                self.doing = "listing and lookup contradict each other";
                Err(Errno::EIO)
            };
            self.vfs.forget(attr.ino, 1);
            visited?;
            self.path.truncate(parent_len);
        }
        Ok(())
    }

    fn target(&mut self, attr: &Attr) -> Result<Vec<u8>> {
        if attr.kind() != FileKind::Symlink {
            return Ok(Vec::new());
        }
        self.doing = "readlink";
        self.vfs.readlink(attr.ino)
    }

    fn xattrs(&mut self, ino: Ino) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.doing = "listxattr";
        let mut names = self.vfs.listxattr(ino)?;
        names.sort();
        self.doing = "getxattr of a listed name";
        names
            .into_iter()
            .map(|name| self.vfs.getxattr(ino, &name).map(|value| (name, value)))
            .collect()
    }

    /// The contents, data by data; holes are skipped.
    fn data(&mut self, attr: &Attr) -> Result<DataHash> {
        let mut hash = DataHash::default();
        if attr.kind() != FileKind::File {
            return Ok(hash);
        }
        let mut at = 0;
        while at < attr.size {
            let Some((start, end)) = self.next_data(attr, at)? else {
                break;
            };
            self.add_data(attr.ino, start, end, &mut hash)?;
            at = end;
        }
        Ok(hash)
    }

    /// The next range of data, widened to pages but not over the size.
    fn next_data(&mut self, attr: &Attr, at: u64) -> Result<Option<(u64, u64)>> {
        if attr.size <= CHUNK_BYTES as u64 {
            return Ok(Some((0, attr.size)));
        }
        self.doing = "seek";
        let start = match self.vfs.seek(attr.ino, at, SeekWhence::Data) {
            Ok(start) => start,
            Err(Errno::ENXIO) => return Ok(None),
            Err(other) => return Err(other),
        };
        let end = self.vfs.seek(attr.ino, start, SeekWhence::Hole)?;
        if start < at || end <= start {
            self.doing = "seek went backwards";
            return Err(Errno::EIO);
        }
        let start = (start - start % PAGE_BYTES).max(at);
        Ok(Some((
            start,
            end.checked_next_multiple_of(PAGE_BYTES)
                .map_or(attr.size, |e| e.min(attr.size)),
        )))
    }

    fn add_data(&mut self, ino: Ino, start: u64, end: u64, hash: &mut DataHash) -> Result<()> {
        self.doing = "read";
        let mut at = start;
        while at < end {
            let len = (end - at).min(CHUNK_BYTES as u64) as usize;
            if self.buf.len() < len {
                self.buf.resize(len, 0);
            }
            if self.vfs.read(ino, at, &mut self.buf[..len])? != len {
                self.doing = "read was short of the size";
                return Err(Errno::EIO);
            }
            hash.add(at, &self.buf[..len]);
            at += len as u64;
        }
        Ok(())
    }
}
