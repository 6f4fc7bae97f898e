//! The metablocks of one inode at rest, for a scrub of a part of the tree (S-19.3): its own, those of its block map or
//! directory, and those of its attributes.

use crate::Volume;
use crate::errors::{Error, Result, Step, damaged};
use crate::inode;
use crate::xattr;
use keepfs_format::blockmap::{Child, FANOUT, entry_offset};
use keepfs_format::dir::{CHILDREN, child_offset};
use keepfs_format::inode::{BODY_TREE, XATTR_CHAIN, block_of};
use keepfs_format::{FromZeros, IntoBytes, Kind, MetaId, Space};
use keepfs_store::{Error as StoreError, Looked, Ref, Source};
use keepfs_vfs::{Errno, FileKind};
use std::collections::HashSet;

impl Volume {
    /// Looks at each copy of the metablocks of an inode; those of its slot's neighbours in the same metablock with them. One
    /// that cannot be followed counts as bad. Errors: those that end a scrub.
    pub(crate) fn scrub_metablocks(&self, ino: u64) -> Result<Looked> {
        let listed = {
            let _lock = self.locks.shared(ino);
            self.see(|view| {
                let mut nodes = Nodes::new(ino);
                nodes.all(view)?;
                Ok(nodes.ids)
            })
        };
        let mut looked = Looked::default();
        match listed {
            Ok(ids) => {
                for id in ids {
                    looked += self.store.scrub_copies(id)?;
                }
            }
            Err(Error::Posix(Errno::ESTALE)) => {}
            // What is damaged was told where it was met.
            Err(Error::Store(StoreError::Damaged(_))) => looked.bad = 1,
            Err(error) if error.is_of_one() => looked.bad = 1,
            Err(error) => return Err(error),
        }
        Ok(looked)
    }

    /// The metablocks to which an inode leads up to the first that cannot be read, with that.
    pub(crate) fn nodes_within_reach(&self, ino: u64) -> Vec<MetaId> {
        let mut nodes = Nodes::new(ino);
        let _lock = self.locks.shared(ino);
        let _ = self.see(|view| {
            nodes = Nodes::new(ino);
            nodes.all(view)
        });
        nodes.ids
    }
}

/// A list of metablocks that grows.
struct Nodes {
    ino: u64,
    ids: Vec<MetaId>,
    /// The same: none stands in two places (S-6.7, S-7.7).
    seen: HashSet<MetaId>,
}

impl Nodes {
    fn new(ino: u64) -> Nodes {
        Nodes {
            ino,
            ids: Vec::new(),
            seen: HashSet::new(),
        }
    }

    /// Adds all; each before it is read.
    fn all(&mut self, source: &mut impl Source) -> Step<()> {
        let inode = inode::live(source, self.ino)?;
        self.ids.push(block_of(self.ino));
        match inode::kind(&inode) {
            FileKind::Dir if inode.root.get() != 0 => self.directory(source, inode.root.get())?,
            _ if inode.body == BODY_TREE => self.map(source, inode.root.get(), inode.height)?,
            _ => {}
        }
        if inode.xattr.get() == XATTR_CHAIN {
            self.add(MetaId(inode.xattrs.get()))?;
        }
        for (r, _) in xattr::chain(source, self.ino, &inode)?.into_iter().skip(1) {
            self.add(r.id)?;
        }
        Ok(())
    }

    /// What a damaged pool names without end is no list.
    fn add(&mut self, id: MetaId) -> Step<()> {
        if id.space() != Some(Space::Nodes) || !self.seen.insert(id) {
            return Err(damaged(self.ino, "its nodes cannot be followed (S-6.4, S-7.1)"));
        }
        self.ids.push(id);
        Ok(())
    }

    /// A node of a block map and what is below it; levels fall with each step.
    fn map(&mut self, source: &mut impl Source, id: u64, level: u8) -> Step<()> {
        self.add(MetaId(id))?;
        if level <= 1 {
            return Ok(());
        }
        let mut children = [Child::new_zeroed(); FANOUT as usize];
        let r = Ref::node(MetaId(id), Kind::BlockMap, self.ino);
        source.read(r, entry_offset(0), children.as_mut_bytes())?;
        let named = children.iter().map(|child| child.id.get()).filter(|id| *id != 0);
        named.into_iter().try_for_each(|id| self.map(source, id, level - 1))
    }

    /// A leaf, or an index and what is below it.
    fn directory(&mut self, source: &mut impl Source, root: u64) -> Step<()> {
        let mut left = vec![root];
        while let Some(id) = left.pop() {
            self.add(MetaId(id))?;
            let node = source.node(MetaId(id), self.ino)?;
            if node.kind != Kind::DirIndex {
                continue;
            }
            let mut slots = [[0; 8]; CHILDREN];
            source.read(node, child_offset(0), slots.as_mut_bytes())?;
            let mut children = slots.map(u64::from_le_bytes).to_vec();
            children.dedup();
            left.extend(children);
        }
        Ok(())
    }
}
