//! Where everything of one checkpoint goes: homes for metablocks, HOMES and map pages, and the new map.
//!
//! What it decides stays in the heap until the superblock: each decision is watched (C-3), and one that is not what it was
//! stops the checkpoint before the write that it would lead astray.

use crate::checkpoint::{dead_entry, live_entry, lost_entry};
use crate::error::Error;
use crate::home::Flash;
use crate::homes::Homes;
use crate::map::{Roots, watched};
use crate::watched::{Watched, WatchedMap};
use keepfs_codes::crc64;
use keepfs_format::PAGE;
use keepfs_format::map::{self, FANOUT, HEIGHT_MAX, LIVE, MapEntry};
use keepfs_format::superblock::Root;
use keepfs_format::{Header, IntoBytes, Kind, MetaId, Space};
use keepfs_frames::Frames;
use keepfs_frames::newborn::newborn;
use keepfs_media::Class;
use keepfs_vault::arena::{self, FrameNo};

/// Pages written together at most.
pub(crate) const BATCH: usize = 256;

/// Most new map pages that wait in memory for the superblock (P-9).
const KEPT_MAX: usize = 1024;

/// The plan of one checkpoint.
pub struct Plan<'s> {
    flash: &'s Flash,
    frames: &'s Frames,
    /// Pages that hold metadata, as they will be.
    pub homes: Homes,
    /// New entries of metablocks.
    entries: WatchedMap<MapEntry>,
    /// Homes of HOMES metablocks and map pages, allocated before their content is known.
    places: WatchedMap<[u64; 2]>,
    /// New map pages that are not written yet: id, content, CRC.
    batch: Vec<(MetaId, arena::Copy, u64)>,
    /// New map pages, written, that take the place of the old ones in the arena: at most `KEPT_MAX`.
    pub kept: Vec<(MetaId, arena::Copy, u64)>,
    /// The others; they are read again when they are needed.
    pub dropped: Vec<MetaId>,
    /// Frames whose content is being written.
    pub flying: Vec<(MetaId, FrameNo)>,
    /// Metablocks that a planted bug writes too late; empty otherwise.
    pub late: Vec<(MapEntry, arena::Copy)>,
    /// New roots.
    pub roots: Roots,
    old_roots: Roots,
}

/// What a test changes in a plan.
#[cfg(any(test, feature = "strays"))]
pub struct Innards<'p> {
    /// New entries of metablocks.
    pub entries: &'p mut WatchedMap<MapEntry>,
    /// Homes of HOMES metablocks and map pages.
    pub places: &'p mut WatchedMap<[u64; 2]>,
    /// The roots before.
    pub old_roots: &'p mut Roots,
}

impl<'s> Plan<'s> {
    /// For tests of what becomes of a plan that something else changes.
    #[cfg(any(test, feature = "strays"))]
    pub fn innards(&mut self) -> Innards<'_> {
        Innards {
            entries: &mut self.entries,
            places: &mut self.places,
            old_roots: &mut self.old_roots,
        }
    }

    /// An empty plan.
    pub fn new(flash: &'s Flash, frames: &'s Frames, homes: Homes) -> Result<Plan<'s>, Error> {
        let mut old_roots = watched(&Default::default());
        for space in Space::ALL {
            old_roots[space as usize] = Watched::new(space as u64, flash.root(frames, space)?);
        }
        Ok(Plan {
            flash,
            frames,
            homes,
            entries: WatchedMap::default(),
            places: WatchedMap::default(),
            batch: Vec::new(),
            kept: Vec::new(),
            dropped: Vec::new(),
            flying: Vec::new(),
            late: Vec::new(),
            roots: old_roots,
            old_roots,
        })
    }

    /// Free pages for all copies of a metablock (S-4.9).
    fn home(&mut self) -> Result<(u64, u64), Error> {
        let none = || Error::Logic("the reserve for checkpoints was too small".into());
        match self.frames.ground.pool.apart() {
            None => Ok((self.homes.take()?.ok_or_else(none)?, 0)),
            Some(apart) => {
                let [first, second] = self.homes.take_pair(apart)?.ok_or_else(none)?;
                Ok((first, second))
            }
        }
    }

    fn leave_old_home(&mut self, id: MetaId) -> Result<(), Error> {
        let Some(old) = self.flash.locate(self.frames, id)?.filter(|e| e.state == LIVE) else {
            return Ok(());
        };
        for page in [old.first.get(), old.second.get()].into_iter().filter(|p| *p != 0) {
            self.homes.release(page)?;
        }
        Ok(())
    }

    /// A metablock with new content; returns where it goes.
    pub fn live(&mut self, id: MetaId, content: &[u8; PAGE]) -> Result<MapEntry, Error> {
        let reborn = self.entries.has(id.0);
        if !reborn {
            self.leave_old_home(id)?;
        }
        let (first, second) = self.home()?;
        let entry = live_entry(first, second, content)?;
        self.entries.insert(id.0, entry);
        Ok(entry)
    }

    /// A metablock that died.
    pub fn dead(&mut self, id: MetaId, generation: u32) -> Result<(), Error> {
        self.leave_old_home(id)?;
        self.entries.insert(id.0, dead_entry(generation));
        Ok(())
    }

    /// A metablock that a recovery could not read: from here on its content is lost (S-4.8, S-9.10).
    pub fn lost(&mut self, id: MetaId) -> Result<(), Error> {
        if let Some(entry) = self.flash.locate(self.frames, id)?.filter(|e| e.state == LIVE) {
            self.entries.insert_first(id.0, lost_entry(entry));
        }
        Ok(())
    }

    /// A metablock whose frame is damaged, and of which nobody else tells all: it lives, and its content is lost (S-4.8,
    /// S-15.25). Where it has no home it gets one: what to write there.
    pub fn given_up(&mut self, id: MetaId, kind: u8) -> Result<Option<(MapEntry, arena::Copy)>, Error> {
        let before = match self.entries.get(id.0)? {
            None => self.flash.locate(self.frames, id)?,
            entry => entry,
        };
        if let Some(entry) = before.filter(|entry| entry.state == LIVE) {
            self.entries.insert(id.0, lost_entry(entry));
            return Ok(None);
        }
        // The generation that it was born with (S-3.3, S-3.4).
        let last = before.map_or(0, |entry| entry.generation.get());
        let kind = Kind::of(kind).ok_or_else(|| Error::Logic(format!("kind {kind} of {id}")))?;
        let header = Header::new(self.frames.ground.pool.tag, id, kind, 0, 0, last.wrapping_add(1).max(1));
        let content = newborn(&header);
        let entry = self.live(id, &content)?;
        self.entries.insert(id.0, lost_entry(entry));
        Ok(Some((entry, content)))
    }

    /// Writes a map page (and those above it) anew: one entry below it is put where it is again.
    pub fn rewrite_map_page(&mut self, id: MetaId) -> Result<(), Error> {
        let Some((space, mut level, mut number)) = id.as_map() else {
            return Ok(());
        };
        loop {
            let below = |n: u64| match level {
                0 => MetaId::new(space, n),
                _ => MetaId::map(space, level - 1, n),
            };
            let mut found = None;
            for n in number * FANOUT..(number + 1) * FANOUT {
                if let Some(entry) = self.flash.locate(self.frames, below(n))? {
                    found = Some((n, entry));
                    break;
                }
            }
            let Some((n, entry)) = found else { return Ok(()) };
            if level == 0 {
                self.entries.insert_first(MetaId::new(space, n).0, entry);
                return Ok(());
            }
            (level, number) = (level - 1, n);
        }
    }

    /// Everything is allocated: HOMES and map pages are laid out and written.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.place_everything()?;
        self.homes.settle()?;
        let mut contents: Vec<(MetaId, arena::Copy, u64)> = Vec::new();
        for block in self.homes.changed()? {
            let id = MetaId::new(Space::Homes, block);
            let (bytes, entry) = self.twice(id, || {
                let mut bytes = newborn(&self.header(id, Kind::Homes, 0));
                self.homes.store(block, &mut bytes)?;
                Ok(bytes)
            })?;
            self.entries.insert(id.0, entry);
            contents.push((id, bytes, entry.crc.get()));
        }
        self.write_homes(&contents)?;
        for space in Space::ALL {
            self.build_map(space)?;
        }
        self.write_batch()?;
        // None of them was lost on the way.
        self.entries.all()?;
        self.places.all()?;
        Ok(())
    }

    /// Makes the content of `id` and its entry, and then the content once more: what else would tell of a change before the
    /// entry has its CRC?
    fn twice(
        &self,
        id: MetaId,
        make: impl Fn() -> Result<arena::Copy, Error>,
    ) -> Result<(arena::Copy, MapEntry), Error> {
        let bytes = make()?;
        let (first, second) = self.place_of(id)?;
        let entry = live_entry(first, second, &bytes)?;
        match crc64::full(&make()?[..]) == entry.crc.get() {
            true => Ok((bytes, entry)),
            false => Err(Error::Damaged(format!("{id} was changed in memory while it was made"))),
        }
    }

    fn header(&self, id: MetaId, kind: Kind, level: u8) -> Header {
        Header::new(self.frames.ground.pool.tag, id, kind, level, 0, 1)
    }

    fn place_of(&self, id: MetaId) -> Result<(u64, u64), Error> {
        let place = self.places.get(id.0)?;
        place
            .map(|[first, second]| (first, second))
            .ok_or_else(|| Error::Logic(format!("{id} has no home in the plan")))
    }

    /// Gives homes to HOMES metablocks and map pages until no allocation changes another one.
    fn place_everything(&mut self) -> Result<(), Error> {
        loop {
            let changed = self.homes.changed()?;
            let homes: Vec<MetaId> = changed.iter().map(|b| MetaId::new(Space::Homes, *b)).collect();
            let mut missing: Vec<MetaId> = homes.iter().copied().filter(|id| !self.places.has(id.0)).collect();
            for space in Space::ALL {
                let ids = self.indices(space, &homes)?;
                let pages = self.map_pages(space, ids)?;
                missing.extend(pages.into_iter().filter(|id| !self.places.has(id.0)));
            }
            if missing.is_empty() {
                return Ok(());
            }
            for id in missing {
                self.leave_old_home(id)?;
                let (first, second) = self.home()?;
                self.places.insert(id.0, [first, second]);
            }
        }
    }

    /// The entries of a space that change, ascending by index.
    fn changes(&self, space: Space) -> Result<Vec<(u64, MapEntry)>, Error> {
        let range = MetaId::new(space, 0).0..=MetaId::new(space, u64::MAX).0;
        let entries = self.entries.range(range)?;
        Ok(entries.into_iter().map(|(id, e)| (MetaId(id).index(), e)).collect())
    }

    /// Indices of a space whose entries change.
    fn indices(&self, space: Space, homes: &[MetaId]) -> Result<Vec<u64>, Error> {
        let mut indices: Vec<u64> = self.changes(space)?.iter().map(|(index, _)| *index).collect();
        if space == Space::Homes {
            indices.extend(homes.iter().map(|id| id.index()));
            indices.sort_unstable();
            indices.dedup();
        }
        Ok(indices)
    }

    fn old_root(&self, space: Space) -> Result<Root, Error> {
        Ok(self.old_roots[space as usize].get(space as u64)?)
    }

    /// The new height of a space's map with an entry for `index`.
    fn height(&self, space: Space, index: u64) -> Result<u8, Error> {
        let mut height = self.old_root(space)?.height.max(1);
        while height < HEIGHT_MAX && index >= FANOUT.saturating_pow(u32::from(height)) {
            height += 1;
        }
        Ok(height)
    }

    /// The map pages on the way from these indices to the root.
    fn map_pages(&self, space: Space, indices: Vec<u64>) -> Result<Vec<MetaId>, Error> {
        let Some(last) = indices.last() else {
            return Ok(Vec::new());
        };
        let height = self.height(space, *last)?;
        let mut pages = Vec::new();
        let mut numbers = indices;
        for level in 0..height {
            numbers.iter_mut().for_each(|n| *n /= FANOUT);
            if self.grows_over(space, level)? {
                numbers.insert(0, 0);
            }
            numbers.dedup();
            pages.extend(numbers.iter().map(|n| MetaId::map(space, level, *n)));
        }
        Ok(pages)
    }

    /// Whether `level` is above the old root, so that page 0 of it must exist to keep the old tree.
    fn grows_over(&self, space: Space, level: u8) -> Result<bool, Error> {
        let old = self.old_root(space)?.height;
        Ok(old > 0 && level >= old)
    }

    /// Builds the changed map pages of a space, bottom up, and its root.
    fn build_map(&mut self, space: Space) -> Result<(), Error> {
        let mut changes = self.changes(space)?;
        let Some((last, _)) = changes.last() else { return Ok(()) };
        let (old, height) = (self.old_root(space)?, self.height(space, *last)?);
        for level in 0..height {
            if level == old.height && old.height > 0 && changes.first().is_none_or(|(n, _)| *n != 0) {
                changes.insert(0, (0, old.entry));
            }
            let mut above = Vec::new();
            for group in changes.chunk_by(|a, b| a.0 / FANOUT == b.0 / FANOUT) {
                let number = group[0].0 / FANOUT;
                above.push((number, self.build_page(space, level, number, group)?));
            }
            changes = above;
        }
        if let Some((0, entry)) = changes.first().copied() {
            let reserved = [0; 7];
            let root = Root {
                entry,
                height,
                reserved,
            };
            self.roots[space as usize] = Watched::new(space as u64, root);
        }
        Ok(())
    }

    fn build_page(
        &mut self,
        space: Space,
        level: u8,
        number: u64,
        changes: &[(u64, MapEntry)],
    ) -> Result<MapEntry, Error> {
        let id = MetaId::map(space, level, number);
        let before = self.flash.fetch(self.frames, id)?;
        let (bytes, entry) = self.twice(id, || {
            let mut bytes = newborn(&self.header(id, Kind::Map, level));
            if let Some(pin) = &before {
                self.flash.verified_copy(self.frames, pin, &mut bytes)?;
            }
            for (n, entry) in changes {
                let at = map::entry_offset(*n);
                bytes[at..at + size_of::<MapEntry>()].copy_from_slice(entry.as_bytes());
            }
            Ok(bytes)
        })?;
        self.batch.push((id, bytes, entry.crc.get()));
        if self.batch.len() >= BATCH {
            self.write_batch()?;
        }
        Ok(entry)
    }

    fn write_homes(&self, homes: &[(MetaId, arena::Copy, u64)]) -> Result<(), Error> {
        let mut writes = Vec::new();
        for (id, bytes, _) in homes {
            self.put_at(*id, bytes, &mut writes)?;
        }
        self.flash.write_runs(self.frames, &mut writes, Class::Map)?;
        homes.iter().try_for_each(|(_, bytes, crc)| unchanged(bytes, *crc))
    }

    fn put_at<'b>(&self, id: MetaId, bytes: &'b [u8; PAGE], writes: &mut Vec<(u64, &'b [u8])>) -> Result<(), Error> {
        let (first, second) = self.place_of(id)?;
        let places = [first, second].into_iter().filter(|page| *page != 0);
        writes.extend(places.map(|page| (page, &bytes[..])));
        Ok(())
    }

    /// Writes the map pages built so far, and checks the buffers once more.
    fn write_batch(&mut self) -> Result<(), Error> {
        let mut writes = Vec::new();
        for (id, bytes, _) in &self.batch {
            self.put_at(*id, bytes, &mut writes)?;
        }
        self.flash.write_runs(self.frames, &mut writes, Class::Map)?;
        for (id, bytes, crc) in core::mem::take(&mut self.batch) {
            unchanged(&bytes, crc)?;
            match self.kept.len() < KEPT_MAX {
                true => self.kept.push((id, bytes, crc)),
                false => self.dropped.push(id),
            }
        }
        Ok(())
    }
}

/// A buffer that was written is still what it was made as (S-13.15).
fn unchanged(bytes: &[u8; PAGE], crc: u64) -> Result<(), Error> {
    match crc64::full(bytes) == crc {
        true => Ok(()),
        false => Err(Error::Damaged("a map buffer was changed while it was written".into())),
    }
}
