//! Whose a lost metablock is, where the list of damages does not tell: whoever meets one that is bad in every copy learns nothing from its
//! bytes. The inodes in one of them are those to whose numbers names lead; a node is of the inode that refers to it (S-18.6).

use crate::Volume;
use crate::names;
use crate::paths::SEARCH_AGAIN;
use keepfs_format::history::Lasting;
use keepfs_format::{MetaId, PAGE, Space, inode};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// Lost metablocks whose owners were searched for in vain, and when.
#[derive(Default)]
pub(crate) struct Searched(Mutex<BTreeMap<u64, Instant>>);

/// A lost metablock's inode, and the first byte and the length of what it has there.
type Owner = (u64, u64, u64);

/// An inode that lives in a metablock.
fn slot(ino: u64) -> Owner {
    (ino, inode::offset_of(ino) as u64, inode::SIZE as u64)
}

impl Volume {
    /// Gives entries of the list of damages that are nobody's to whom they are, as far as a walk until `until` finds that.
    pub(crate) fn own_damage(&self, until: Instant) {
        let Some(mut searched) = self.searched.0.try_lock_until(until) else {
            return;
        };
        let history = self.store().history();
        searched.retain(|_, at| at.elapsed() < SEARCH_AGAIN);
        let list = history.damage().into_iter();
        let nobodys = list.filter(|entry| entry.is_nobodys() && !searched.contains_key(&entry.id));
        let mut lost: BTreeSet<u64> = nobodys.map(|entry: Lasting| entry.id).collect();
        if lost.is_empty() {
            return;
        }
        let nodes: BTreeSet<MetaId> = lost.iter().map(|id| MetaId(*id)).collect();
        let nodes: BTreeSet<MetaId> = nodes
            .into_iter()
            .filter(|id| id.space() == Some(Space::Nodes))
            .collect();
        let (mut inodes, mut numbers) = (BTreeMap::<u64, BTreeSet<u64>>::new(), BTreeSet::new());
        let mut is_whole = names::each(
            Some(until),
            |ino, take| self.names_in(ino, take),
            |ino, _| {
                let block = inode::block_of(ino).0;
                match lost.contains(&block) {
                    true => drop(inodes.entry(block).or_default().insert(ino)),
                    false if !nodes.is_empty() => drop(numbers.insert(ino)),
                    false => {}
                }
                true
            },
        );
        for (id, inodes) in &inodes {
            let owners: Vec<Owner> = inodes.iter().copied().map(slot).collect();
            history.own(*id, &owners);
            lost.remove(id);
        }
        let mut left = nodes.len();
        for ino in numbers {
            if left == 0 {
                break;
            }
            if Instant::now() >= until {
                is_whole = false;
                break;
            }
            for id in self.nodes_within_reach(ino) {
                if nodes.contains(&id) && lost.remove(&id.0) {
                    history.own(id.0, &[(ino, 0, PAGE as u64)]);
                    left -= 1;
                }
            }
        }
        if is_whole {
            searched.extend(lost.into_iter().map(|id| (id, Instant::now())));
        }
    }
}
