//! Which data pages a group brings: what must have arrived before the group may be taken (SPEC S-9.3).

use keepfs_format::Space;
use keepfs_format::plog::{Record, Run};
use std::collections::BTreeMap;

/// The data pages that a group brings and still names (S-9.13).
#[derive(Default)]
pub(crate) struct Named {
    /// (inode, index) → (page, CRC).
    pub pages: BTreeMap<(u64, u64), (u64, u32)>,
    /// Who named a page so far.
    by_page: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Runs that got references, and when.
    shared: Vec<(usize, Run)>,
    /// When a named page was freed last.
    freed: BTreeMap<u64, usize>,
    /// Records followed.
    seen: usize,
}

impl Named {
    /// Follows one record of the group.
    pub fn see(&mut self, record: &Record) {
        self.seen += 1;
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
                    self.freed.insert(page, self.seen);
                    for at in self.by_page.remove(&page).unwrap_or_default() {
                        if self.pages.get(&at).is_some_and(|(named, _)| *named == page) {
                            self.pages.remove(&at);
                        }
                    }
                }
            }
            Record::Ref { run, delta: 1.. } => self.shared.push((self.seen, *run)),
            _ => {}
        }
    }

    /// The pages that must have arrived: of those named, not the ones that are named as often as they got a reference,
    /// which were there before; both counted from the last free on.
    pub fn brought(mut self) -> BTreeMap<(u64, u64), (u64, u32)> {
        let mut own: BTreeMap<u64, usize> = self.by_page.iter().map(|(page, by)| (*page, by.len())).collect();
        for (seen, run) in &self.shared {
            let end = run.start.saturating_add(run.count.into());
            for (page, n) in own.range_mut(run.start..end) {
                if self.freed.get(page).is_none_or(|freed| freed < seen) {
                    *n = n.saturating_sub(1);
                }
            }
        }
        self.pages.retain(|_, (page, _)| own.get(page) != Some(&0));
        self.pages
    }
}
