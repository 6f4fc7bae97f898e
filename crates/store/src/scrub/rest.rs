//! What lies at rest: superblocks, map pages and metablocks, both copies of each (S-19.3).

use crate::error::{Error, Stop, stopped};
use crate::{Flash, Store};
use core::sync::atomic::Ordering;
use keepfs_flash::bad::AtRest;
use keepfs_format::bitmap::BITS;
use keepfs_format::map::{FANOUT, LIVE, MapEntry};
use keepfs_format::{MetaId, Space};
use keepfs_frames::Looked;
use keepfs_pool::events::Done;

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

impl Flash {
    /// See [`Store::scrub_rest`].
    pub(crate) fn scrub_rest(&self, store: &Store, place: RestPlace) -> Result<(Looked, Option<RestPlace>), Error> {
        let mut looked = Looked::default();
        let Some(space) = Space::of(place.space) else {
            return Ok((looked, None));
        };
        if place.index == 0 {
            looked += self.look_at_roots(store, space)?;
        }
        let mut from = place.index;
        for _ in 0..SLICE {
            let Some(index) = self.next_live(store, space, from, &mut looked)? else {
                return Ok((looked, place.next_space()));
            };
            looked += self.look_above(store, space, from.checked_sub(1), index)?;
            looked += self.look_at_rest(store, MetaId::new(space, index))?;
            from = index + 1;
        }
        Ok((looked, Some(RestPlace { index: from, ..place })))
    }

    /// See [`Store::scrub_copies`].
    pub(crate) fn scrub_copies(&self, store: &Store, id: MetaId) -> Result<Looked, Error> {
        self.look_at_rest(store, id)
    }

    /// See [`Store::inodes_in_use`].
    pub(crate) fn inodes_in_use(&self, store: &Store, from: u64, limit: usize) -> Result<Vec<u64>, Error> {
        let mut found = Vec::new();
        for block in self.blocks_of(&store.frames, Space::InodeNumbers)?.range(from / BITS..) {
            let mut numbers = Vec::new();
            store.set_bits(Space::InodeNumbers, *block, &mut numbers)?;
            found.extend(numbers.into_iter().filter(|number| *number >= from));
            if found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// The map page that the root names.
    fn look_at_roots(&self, store: &Store, space: Space) -> Result<Looked, Error> {
        match self.root(&store.frames, space)?.height {
            0 => Ok(Looked::default()),
            height => self.look_at_rest(store, MetaId::map(space, height - 1, 0)),
        }
    }

    /// The map pages on the way to a metablock that do not lead to the one `before` it too; the root's has been looked at.
    fn look_above(&self, store: &Store, space: Space, before: Option<u64>, index: u64) -> Result<Looked, Error> {
        let height = self.root(&store.frames, space)?.height;
        let mut looked = Looked::default();
        for level in 0..height.saturating_sub(1) {
            let number = |index: u64| index / FANOUT.saturating_pow(u32::from(level) + 1);
            if before.map(number) == Some(number(index)) {
                break;
            }
            looked += self.look_at_rest(store, MetaId::map(space, level, number(index)))?;
        }
        Ok(looked)
    }

    /// The next metablock from `from` on that the map names. A map page that cannot be read is passed over: it has been
    /// told, and what it leads to cannot be found.
    fn next_live(&self, store: &Store, space: Space, from: u64, looked: &mut Looked) -> Result<Option<u64>, Error> {
        let height = self.root(&store.frames, space)?.height;
        match height {
            0 => Ok(None),
            height => self.next_below(store, space, (height - 1, 0), from, looked),
        }
    }

    fn next_below(
        &self,
        store: &Store,
        space: Space,
        (level, number): (u8, u64),
        from: u64,
        looked: &mut Looked,
    ) -> Result<Option<u64>, Error> {
        let pin = match store.fetch_known(MetaId::map(space, level, number)) {
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
            if self
                .entry_in(&store.frames, &pin, id, n)?
                .is_none_or(|entry| entry.state != LIVE)
            {
                continue;
            }
            if level == 0 {
                return Ok(Some(n));
            }
            if let Some(found) = self.next_below(store, space, (level - 1, n), from, looked)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Looks at the copies of one metablock or map page (U-1).
    fn look_at_rest(&self, store: &Store, id: MetaId) -> Result<Looked, Error> {
        for _ in 0..TRIES {
            let Some(entry) = self.live_entry_of(store, id)? else {
                return Ok(Looked::default());
            };
            let seen = self.copies_at_rest(&store.frames, id, &entry);
            if self.live_entry_of(store, id)? == Some(entry) {
                if seen.bad.is_empty() && self.is_close(store, &entry) {
                    self.move_apart(store, id)?;
                }
                return Ok(self.found_at_rest(store, id, &seen));
            }
        }
        Ok(Looked::default())
    }

    /// Whether the copies of a metablock lie closer to each other than they should (S-4.9).
    fn is_close(&self, store: &Store, entry: &MapEntry) -> bool {
        let between = entry.first.get().abs_diff(entry.second.get());
        store.ground.pool.apart().is_some_and(|apart| between < apart)
    }

    /// The next checkpoint writes a metablock or map page elsewhere, as if it had been changed.
    fn move_apart(&self, store: &Store, id: MetaId) -> Result<(), Error> {
        if store.ground.is_read_only() {
            return Ok(());
        }
        // A map page moves with anything that it leads to.
        let found = match id.as_map() {
            None => id.space().map(|space| (space, Some(id.index()))),
            Some((space, level, number)) => {
                let each = FANOUT.saturating_pow(u32::from(level) + 1);
                let found = self.next_live(store, space, number * each, &mut Looked::default())?;
                Some((space, found.filter(|index| index / each == number)))
            }
        };
        let Some((space, Some(index))) = found else {
            return Ok(());
        };
        if space == Space::Homes {
            self.checkpoints.keeper.lock().homes.change(index);
            self.checkpoints.moves.store(true, Ordering::Relaxed);
            return Ok(());
        }
        store.ready()?;
        let id = MetaId::new(space, index);
        let Some(pin) = store.fetch_known(id)? else {
            return Ok(());
        };
        let _inside = store.txns.gate.enter(&store.ground.stats.gate);
        if store.ground.is_read_only() {
            return Ok(());
        }
        match self.before_first_write(&store.frames, id, &pin, true) {
            Ok(()) => self.checkpoints.moves.store(true, Ordering::Relaxed),
            // There is no room for more before a checkpoint; the next scrub looks at it again.
            Err(Stop::Pressure(_)) => {}
            Err(stop) => return Err(stopped(stop)),
        }
        Ok(())
    }

    fn live_entry_of(&self, store: &Store, id: MetaId) -> Result<Option<MapEntry>, Error> {
        let entry = match self.locate(&store.frames, id) {
            // What leads to it is damaged, which was told.
            Err(Error::Damaged(_)) => None,
            other => other?,
        };
        self.live(id, entry)
    }

    /// What to do about it: the next checkpoint writes it anew if its content is anywhere. It is told, and the history
    /// keeps it (S-18.5).
    fn found_at_rest(&self, store: &Store, id: MetaId, seen: &AtRest) -> Looked {
        let bad = seen.bad.len() as u64;
        let mut looked = Looked {
            pages: bad + u64::from(seen.good),
            bad,
            mended: 0,
        };
        if bad == 0 {
            return looked;
        }
        let held = seen.right.is_some() || store.frames.cache.peek(id).is_some();
        let done = if held { Done::OtherCopy } else { Done::Nothing };
        seen.bad
            .iter()
            .for_each(|found| self.tell_copy(&store.frames, found, seen.right.as_deref(), done));
        if held && !store.ground.is_read_only() {
            self.rewrite_found(&seen.bad);
            looked.mended = bad;
        }
        looked
    }
}
