//! A superblock that its device drops behind the flush, and what tells of it (S-9.12, S-9.20, S-9.28, S-9.29).

use std::sync::Arc;

use crate::disk::{Disk, FRESH, LogPage, Super, sum};
use crate::recover;
use crate::rules::Rules;
use crate::state::State;

/// What a page tells that was written behind a newer superblock: the opening ends there.
pub const NEWER: &str = "the newest superblock was lost";

/// Incarnations, from the superblock's on, of which a page is known to be whole. They stand for the eight of S-9.28, so one change
/// that a dead server owed stands for seven.
const LIVES: u8 = 2;

impl Disk {
    /// The superblock in force.
    pub fn newest(&self) -> Option<&Arc<Super>> {
        self.supers.iter().flatten().max_by_key(|sb| sb.generation)
    }

    /// Whether a page tells of a newer superblock than `sb`, whose log ends at `pos`, where a page of group `number` should be.
    pub fn tells_of_newer(&self, sb: &Super, pos: u8, number: u8, rules: Rules) -> bool {
        let end = sb.pos + self.ring.len() as u8;
        let at = |place: u8| self.log(place, sb, rules);
        let is_newer = |page: &LogPage| page.base > sb.generation;
        let is_whole = |page: &LogPage| {
            let continues = || at(page.pos.wrapping_sub(1)).map(sum) == Some(page.chain);
            (sb.life..sb.life + LIVES).contains(&page.life) && (page.chain == FRESH || continues())
        };
        // Pages of a later log, one behind another, from the place where this one ends or the next.
        let later = |first: u8| {
            let ahead = at(first).map_or(0, |page| page.pos.saturating_sub(first));
            let places = (first..end).filter(move |_| ahead > 0);
            places.map_while(move |place| at(place).filter(|page| page.pos == place + ahead))
        };
        later(pos)
            .chain(later(pos + 1))
            .any(|page| is_newer(page) && page.number > number)
            || (pos..end)
                .filter_map(at)
                .any(|page| is_newer(page) && page.pos >= pos && is_whole(page))
    }
}

impl State {
    /// The newest superblock was flushed, and is not the only one: it may be dropped.
    pub fn may_drop(&self) -> bool {
        self.disk.newest() == Some(&self.sb) && self.disk.supers.iter().flatten().count() > 1
    }

    /// `disk` is what power left of a device that dropped the newest superblock. If a group was flushed behind that, the log tells of
    /// it; else what it alone had may be gone, untold (S-9.12), and where nothing is the next server goes on.
    pub fn drop_newest(&mut self, mut disk: Disk, rules: Rules) {
        let flushed = self.sb.group..=self.durable;
        let is_behind = |page: &Arc<LogPage>| page.base == self.sb.generation && flushed.contains(&page.number);
        let must_tell = self.disk.ring.iter().flatten().any(is_behind);
        let is_replaced = disk.newest() != Some(&self.sb);
        for slot in &mut disk.supers {
            slot.take_if(|sb| *sb == self.sb);
        }
        if is_replaced || recover::is_newer_told(&disk, rules) {
            self.closed = true;
        } else if must_tell {
            self.bad = Some("what was flushed behind a dropped superblock does not tell of it");
        } else {
            self.restart(disk, None, rules);
            self.closed |= self.bad.take().is_some();
        }
    }
}
