//! What a carried group that is lost had: where it is known, reading it is an error from now on, and no older bytes are given out
//! (S-21.25).

use super::Mender;
use crate::missed;
use keepfs_format::PAGE;
use keepfs_format::inode::FILE;
use std::collections::BTreeMap;

impl Mender<'_> {
    /// Learns what stood in the group, before names are looked for.
    pub(super) fn carried(&mut self) {
        self.carried = missed::pages(self.pool());
        let files = self.carried.iter().map(|(ino, _)| *ino);
        files.for_each(|ino| self.given.wants(ino));
    }

    /// Makes lost what of it belongs to a file still.
    pub(super) fn lose_carried(&mut self) {
        let mut lost: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (ino, index) in core::mem::take(&mut self.carried) {
            let is_in_it = self.walk.inodes.get(&ino).is_some_and(|facts| {
                let is_hole = (facts.hole.0..facts.hole.1).contains(&index);
                facts.kind == FILE && index < facts.size.div_ceil(PAGE as u64) && !is_hole
            });
            if is_in_it && !self.stage().pages.contains_key(&(ino, index)) {
                self.walk.stage.lost((ino, index));
                lost.entry(ino).or_default().push(index);
            }
        }
        for (ino, pages) in lost {
            let (Some(first), Some(last)) = (pages.first(), pages.last()) else {
                continue;
            };
            self.given.pages(ino, *first, *last);
            self.act_on(
                ino,
                format!(
                    "small writes to inode {ino} are among them: {} pages, from page {first} to {last}, are lost from now on, and reading \
                     them gives EIO",
                    pages.len()
                ),
            );
        }
    }
}
