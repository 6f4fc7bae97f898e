//! Which data pages a group brings: what must have arrived before the group may be taken (SPEC S-9.3).

use keepfs_format::Space;
use keepfs_format::plog::Record;
use std::collections::BTreeMap;

/// The data pages that a group brings and still names (S-9.3).
#[derive(Default)]
pub(crate) struct Named {
    /// (inode, index) → (page, CRC).
    pub pages: BTreeMap<(u64, u64), (u64, u32)>,
    /// Who named a page so far.
    by_page: BTreeMap<u64, Vec<(u64, u64)>>,
}

impl Named {
    /// Follows one record of the group.
    pub fn see(&mut self, record: &Record) {
        match record {
            Record::MapEntry {
                ino,
                index,
                page,
                count,
                crcs,
                ..
            } => {
                let end = index.saturating_add(u64::from(*count));
                let gone: Vec<_> = self
                    .pages
                    .range((*ino, *index)..(*ino, end))
                    .map(|(at, _)| *at)
                    .collect();
                for at in gone {
                    self.pages.remove(&at);
                }
                for (crc, n) in crcs.iter().zip(0u64..) {
                    self.pages.insert((*ino, index + n), (page + n, *crc));
                    self.by_page.entry(page + n).or_default().push((*ino, index + n));
                }
            }
            Record::Free {
                space: Space::Pages,
                run,
            } => {
                let freed = run.start..run.start.saturating_add(run.count.into());
                let gone: Vec<u64> = self.by_page.range(freed).map(|(page, _)| *page).collect();
                for page in gone {
                    for at in self.by_page.remove(&page).unwrap_or_default() {
                        if self.pages.get(&at).is_some_and(|(named, _)| *named == page) {
                            self.pages.remove(&at);
                        }
                    }
                }
            }
            _ => {}
        }
    }
}
