//! Listing a directory: one leaf is read under the lock, told without it. It comes to each leaf once, whatever the indexes say
//! (S-6.7).

use crate::Volume;
use crate::blockmap::Passed;
use crate::create::directory;
use crate::dir::{self, Listing};
use crate::errors::{Error, Result, refuse, seen};
use keepfs_format::dir::{COOKIE_DOT, COOKIE_DOTDOT};
use keepfs_format::inode::Inode;
use keepfs_vfs::{DirEntry, Errno, FileKind, Ino};

/// Leaves after which a listing that has told a name may end (S-20.12).
const LEAVES_AT_A_TIME: usize = 64;

/// How much of a directory a caller wants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Much {
    /// All that it takes.
    All,
    /// Some names at least, if there are any.
    Some,
}

impl Volume {
    /// Lists from behind `cookie` on. Errors: `ENOTDIR`; `ENOENT` for a removed directory.
    pub(crate) fn do_readdir(
        &self,
        ino: u64,
        cookie: u64,
        much: Much,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        let (inode, mut listing) = self.leaf_from(ino, cookie.saturating_add(1))?;
        self.accessed(ino, &inode)?;
        let dots = [
            (COOKIE_DOT, ino, &b"."[..]),
            (COOKIE_DOTDOT, inode.parent.get(), &b".."[..]),
        ];
        for (dot, ino, name) in dots {
            if dot > cookie
                && !sink(DirEntry {
                    ino: Ino(ino),
                    kind: FileKind::Dir,
                    name,
                    cookie: dot,
                })
            {
                return Ok(());
            }
        }
        let (mut leaves, mut names, mut passed) = (0, 0, Passed::default());
        while let Some(leaf) = listing {
            let before = names;
            for entry in leaf.entries() {
                if !sink(entry) {
                    return Ok(());
                }
                names += 1;
            }
            // One with names stands where they lead; of others nothing but their number tells that they come again.
            if names == before {
                seen(passed.add(leaf.r, leaf.birth))?;
            }
            leaves += 1;
            if much == Much::Some && names > 0 && leaves >= LEAVES_AT_A_TIME {
                return Ok(());
            }
            listing = match leaf.next {
                Some(from) => self.leaf_from(ino, from)?.1,
                None => None,
            };
        }
        Ok(())
    }

    /// What a directory that has entries says to who removes it. Errors: `ENOTEMPTY`; damage, if none of them can be seen for that, as
    /// nobody can empty it then.
    pub(crate) fn not_empty(&self, ino: u64) -> Error {
        let (mut from, mut passed) = (Some(0), Passed::default());
        while let Some(key) = from {
            let leaf = match self.leaf_from(ino, key) {
                Err(error) if error.is_damage() => return error,
                Ok((_, Some(leaf))) if leaf.entries().next().is_none() => leaf,
                _ => break,
            };
            if let Err(error) = seen(passed.add(leaf.r, leaf.birth)) {
                return error;
            }
            from = leaf.next;
        }
        Errno::ENOTEMPTY.into()
    }

    /// The inode, and the leaf that holds the least key from `from` on, if the directory has any.
    fn leaf_from(&self, ino: u64, from: u64) -> Result<(Inode, Option<Listing>)> {
        let _lock = self.locks.shared(ino);
        self.see(|view| {
            let inode = self.usable(view, ino)?;
            directory(&inode)?;
            if inode.nlink.get() == 0 {
                return refuse(Errno::ENOENT);
            }
            let root = inode.root.get();
            let listing = if root == 0 || from >= 1 << 63 {
                None
            } else {
                Some(dir::list(view, ino, root, from)?)
            };
            Ok((inode, listing))
        })
    }
}
