//! What lies at rest: superblocks, map pages and metablocks, both copies of each (S-19.3, S-19.4).

use super::Looked;
use crate::Store;
use crate::error::{Error, Stop};
use crate::events::Done;
use crate::map::AtRest;
use crate::pool::{self, superblock_bytes};
use core::sync::atomic::Ordering;
use keepfs_format::bitmap::BITS;
use keepfs_format::map::{FANOUT, LIVE, MapEntry};
use keepfs_format::superblock::{slot_page, slots_of};
use keepfs_format::{MetaId, PAGE, Space};
use keepfs_media::{Device, PageNo};

/// Metablocks that one slice looks at, at most.
const SLICE: u64 = 16;
/// How often a metablock that moves is looked at again; then it is the checkpoint's, which verifies it itself.
const TRIES: u32 = 3;

/// How far a scrub of metadata at rest is: the metablock to look at next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RestPlace {
    /// Number of its space (S-3.1).
    pub space: u8,
    /// Its index.
    pub index: u64,
}

impl RestPlace {
    /// Where it begins.
    pub const START: RestPlace = RestPlace { space: 1, index: 0 };

    /// The first metablock of the next space; `None` behind the last.
    fn next_space(self) -> Option<RestPlace> {
        let space = Space::of(self.space + 1)? as u8;
        Some(RestPlace { space, index: 0 })
    }
}

impl Store {
    /// Looks at the superblock in force and its copy. A bad copy is replaced by the next checkpoint's.
    pub fn scrub_superblocks(&self) -> Looked {
        let mut keeper = self.keeper.lock();
        let Ok(in_force) = self.superblock_in_force(&mut keeper) else {
            return Looked::default();
        };
        let right = superblock_bytes(&in_force);
        let mut looked = Looked::default();
        for slot in slots_of(in_force.generation.get()) {
            let page = slot_page(slot, self.pool.slots_by);
            let mut found = [0; PAGE];
            let read = self.device.read_fresh(PageNo(page), &mut found);
            looked.pages += 1;
            if read.is_err() || found != *right {
                tracing::warn!(slot, page, "a superblock on the device is not the one that was written");
                looked.bad += 1;
                looked.mended += u64::from(!self.is_read_only());
            }
        }
        looked
    }

    /// Looks at some metablocks from `place` on and at the map pages that lead to them, each copy. Where to go on; `None`:
    /// that was the last.
    pub fn scrub_rest(&self, place: RestPlace) -> Result<(Looked, Option<RestPlace>), Error> {
        let mut looked = Looked::default();
        let Some(space) = Space::of(place.space) else {
            return Ok((looked, None));
        };
        if place.index == 0 {
            looked += self.look_at_roots(space)?;
        }
        let mut from = place.index;
        for _ in 0..SLICE {
            let Some(index) = self.next_live(space, from, &mut looked)? else {
                return Ok((looked, place.next_space()));
            };
            looked += self.look_above(space, from.checked_sub(1), index)?;
            looked += self.look_at_rest(MetaId::new(space, index))?;
            from = index + 1;
        }
        Ok((looked, Some(RestPlace { index: from, ..place })))
    }

    /// Looks at each copy of one metablock; nothing if it does not live on the device.
    pub fn scrub_copies(&self, id: MetaId) -> Result<Looked, Error> {
        self.look_at_rest(id)
    }

    /// Whether something waits for a checkpoint because of its copies: one of them is bad, or they lie too close to each other.
    pub fn has_copies_to_write(&self) -> bool {
        !self.bad_copies.lock().is_empty() || self.moves.load(Ordering::Relaxed)
    }

    /// Up to `limit` inode numbers in use from `from` on, ascending.
    pub fn inodes_in_use(&self, from: u64, limit: usize) -> Result<Vec<u64>, Error> {
        let mut found = Vec::new();
        for block in self.blocks_of(Space::InodeNumbers)?.range(from / BITS..) {
            let mut numbers = Vec::new();
            self.set_bits(Space::InodeNumbers, *block, &mut numbers)?;
            found.extend(numbers.into_iter().filter(|number| *number >= from));
            if found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// The map page that the root names.
    fn look_at_roots(&self, space: Space) -> Result<Looked, Error> {
        match self.root(space)?.height {
            0 => Ok(Looked::default()),
            height => self.look_at_rest(MetaId::map(space, height - 1, 0)),
        }
    }

    /// The map pages on the way to a metablock that do not lead to the one `before` it too; the root's has been looked at.
    fn look_above(&self, space: Space, before: Option<u64>, index: u64) -> Result<Looked, Error> {
        let height = self.root(space)?.height;
        let mut looked = Looked::default();
        for level in 0..height.saturating_sub(1) {
            let number = |index: u64| index / FANOUT.saturating_pow(u32::from(level) + 1);
            if before.map(number) == Some(number(index)) {
                break;
            }
            looked += self.look_at_rest(MetaId::map(space, level, number(index)))?;
        }
        Ok(looked)
    }

    /// The next metablock from `from` on that the map names. A map page that cannot be read is passed over: it has been
    /// told, and what it leads to cannot be found.
    fn next_live(&self, space: Space, from: u64, looked: &mut Looked) -> Result<Option<u64>, Error> {
        let height = self.root(space)?.height;
        match height {
            0 => Ok(None),
            height => self.next_below(space, (height - 1, 0), from, looked),
        }
    }

    fn next_below(
        &self,
        space: Space,
        (level, number): (u8, u64),
        from: u64,
        looked: &mut Looked,
    ) -> Result<Option<u64>, Error> {
        let pin = match self.fetch_known(MetaId::map(space, level, number)) {
            Ok(Some(pin)) => pin,
            Ok(None) => return Ok(None),
            Err(Error::Damaged(_)) => {
                looked.bad += 1;
                return Ok(None);
            }
            Err(e) => return Err(e),
        };
        let first = from / FANOUT.saturating_pow(u32::from(level));
        for n in first.max(number * FANOUT)..(number + 1) * FANOUT {
            let id = match level {
                0 => MetaId::new(space, n),
                _ => MetaId::map(space, level - 1, n),
            };
            if self.entry_in(&pin, id, n)?.is_none_or(|entry| entry.state != LIVE) {
                continue;
            }
            if level == 0 {
                return Ok(Some(n));
            }
            if let Some(found) = self.next_below(space, (level - 1, n), from, looked)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Looks at the copies of one metablock or map page (U-1).
    fn look_at_rest(&self, id: MetaId) -> Result<Looked, Error> {
        for _ in 0..TRIES {
            let Some(entry) = self.live_entry_of(id)? else {
                return Ok(Looked::default());
            };
            let seen = self.copies_at_rest(id, &entry);
            if self.live_entry_of(id)? == Some(entry) {
                if seen.bad.is_empty() && self.is_close(&entry) {
                    self.move_apart(id)?;
                }
                return Ok(self.found_at_rest(id, &seen));
            }
        }
        Ok(Looked::default())
    }

    /// Whether the copies of a metablock lie closer to each other than they should (S-4.9).
    fn is_close(&self, entry: &MapEntry) -> bool {
        let between = entry.first.get().abs_diff(entry.second.get());
        self.pool.apart().is_some_and(|apart| between < apart)
    }

    /// The next checkpoint writes a metablock or map page elsewhere, as if it had been changed.
    fn move_apart(&self, id: MetaId) -> Result<(), Error> {
        if self.is_read_only() {
            return Ok(());
        }
        // A map page moves with anything that it leads to.
        let found = match id.as_map() {
            None => id.space().map(|space| (space, Some(id.index()))),
            Some((space, level, number)) => {
                let each = FANOUT.saturating_pow(u32::from(level) + 1);
                let found = self.next_live(space, number * each, &mut Looked::default())?;
                Some((space, found.filter(|index| index / each == number)))
            }
        };
        let Some((space, Some(index))) = found else {
            return Ok(());
        };
        if space == Space::Homes {
            self.keeper.lock().homes.change(index);
            self.moves.store(true, Ordering::Relaxed);
            return Ok(());
        }
        self.ready()?;
        let id = MetaId::new(space, index);
        let Some(pin) = self.fetch_known(id)? else {
            return Ok(());
        };
        let _inside = self.gate.enter(&self.stats.gate);
        if self.is_read_only() {
            return Ok(());
        }
        match self.before_first_write(id, &pin, true) {
            Ok(()) => self.moves.store(true, Ordering::Relaxed),
            // There is no room for more before a checkpoint; the next scrub looks at it again.
            Err(Stop::Pressure(_)) => {}
            Err(stop) => return Err(pool::stopped(stop)),
        }
        Ok(())
    }

    fn live_entry_of(&self, id: MetaId) -> Result<Option<MapEntry>, Error> {
        let entry = match self.locate(id) {
            // What leads to it is damaged, which was told.
            Err(Error::Damaged(_)) => None,
            other => other?,
        };
        self.live(id, entry)
    }

    /// What to do about it: the next checkpoint writes it anew if its content is anywhere. It is told, and the history
    /// keeps it (S-18.5).
    fn found_at_rest(&self, id: MetaId, seen: &AtRest) -> Looked {
        let bad = seen.bad.len() as u64;
        let mut looked = Looked {
            pages: bad + u64::from(seen.good),
            bad,
            mended: 0,
        };
        if bad == 0 {
            return looked;
        }
        let held = seen.right.is_some() || self.cache.peek(id).is_some();
        let done = if held { Done::OtherCopy } else { Done::Nothing };
        seen.bad
            .iter()
            .for_each(|found| self.tell_copy(found, seen.right.as_deref(), done));
        if held && !self.is_read_only() {
            self.rewrite_found(&seen.bad);
            looked.mended = bad;
        }
        looked
    }
}
