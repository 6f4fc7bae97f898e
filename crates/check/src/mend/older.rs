//! What is older than it should be, as far as that is known, is named, and what was removed before does not come back (S-21.19).

use super::Mender;
use super::names::Model;
use crate::pool::Load;
use crate::{age, inode};
use keepfs_format::inode::{DEAD, DIR, Inode, LIVE, PER_BLOCK, block_of};
use keepfs_format::{FromZeros, Kind, MetaId, Space, bitmap};

impl Mender<'_> {
    /// Names what is told to be older. Bodies of files are looked at in the first round.
    pub fn older(&mut self) {
        for (ino, parts) in age::owners(self.pool()) {
            for (kind, what) in [
                (Kind::DirLeaf, "a part of directory"),
                (Kind::DirIndex, "a part of directory"),
                (Kind::BlockMap, "a part of the block map of inode"),
                (Kind::Xattr, "a part of the extended attributes of inode"),
            ] {
                if parts.kinds.contains(&(kind as u8)) {
                    self.given().metadata(ino, block_of(ino).0);
                    self.act_on(ino, format!("{what} {ino} is an older version, the newest one is lost"));
                }
            }
            if parts.kinds.contains(&(Kind::BlockMap as u8)) {
                self.aged.insert(ino);
            }
        }
        if self.pool().age.is_without_log {
            self.unstaged();
        }
        let blocks = self.pool().age.older.clone().into_iter().map(MetaId);
        for id in blocks.filter(|id| id.space() == Some(Space::Inodes)) {
            let Load::Live(bytes) = self.pool().load(id) else {
                continue;
            };
            let first = id.index().saturating_mul(PER_BLOCK);
            let slots = first..first.saturating_add(PER_BLOCK);
            let is_live = |ino: &u64| inode::at(&bytes, *ino).is_some_and(|inode| inode.state.get() == LIVE);
            let live: Vec<u64> = slots.filter(is_live).collect();
            self.aged.extend(&live);
            live.iter().for_each(|ino| self.given().metadata(*ino, id.0));
            let live: Vec<String> = live.iter().map(ToString::to_string).collect();
            self.act(format!(
                "metablock {id} is an older version, the newest one is lost: inodes {} may be older than they should be",
                live.join(", ")
            ));
        }
    }

    /// Files that may have lost what was staged with the log are looked at.
    fn unstaged(&mut self) {
        for index in self.pool().live(Space::Inodes) {
            let Load::Live(bytes) = self.pool().load(MetaId::new(Space::Inodes, index)) else {
                continue;
            };
            let first = index.saturating_mul(PER_BLOCK);
            for ino in first..first.saturating_add(PER_BLOCK) {
                let live = inode::at(&bytes, ino).filter(|inode| inode.state.get() == LIVE);
                if live.is_some_and(|inode| !age::lacking(self.pool(), ino, &inode).is_empty()) {
                    self.aged.insert(ino);
                }
            }
        }
    }

    /// An inode of an older metablock that has no name, though every directory is whole, and whose number is free, was removed.
    pub(super) fn bury(&mut self, model: &mut Model, nameless: &mut Vec<u64>) {
        nameless.retain(|ino| {
            let is_directory = model.kinds.get(ino) == Some(&DIR);
            let is_removed = model.is_whole && !is_directory && age::is_old(self.pool(), *ino) && self.is_free(*ino);
            let Some(old) = self.inode(*ino).filter(|_| is_removed) else {
                return true;
            };
            let mut dead = Inode::new_zeroed();
            (dead.state, dead.cur) = (DEAD.into(), old.cur);
            self.store(*ino, &dead);
            model.kinds.remove(ino);
            model.is_buried = true;
            self.act(format!(
                "inode {ino}, which an older version of its metablock has, was removed since: it is freed"
            ));
            false
        });
    }

    /// Whether nothing proves that the inode is the newest version.
    pub(super) fn is_unproved(&mut self, ino: u64) -> bool {
        self.pool().age.unproved.contains(&block_of(ino).0)
    }

    /// The bitmap calls the number free.
    fn is_free(&mut self, ino: u64) -> bool {
        let (id, at, mask) = bitmap::bit(Space::InodeNumbers, ino);
        matches!(self.pool().load(id), Load::Live(bytes) if bytes[at] & mask == 0)
    }
}
