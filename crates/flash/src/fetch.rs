//! From metablock to device pages, and from there into a frame (SPEC section 4).

use crate::error::{Error, Stop};
use crate::home::Flash;
use crate::map::Place;
use crate::watched::{Stray, Watched};
use core::sync::atomic::Ordering;
use keepfs_codes::crc64;
use keepfs_format::map::{self, FANOUT, LIVE, MapEntry, NEVER};
use keepfs_format::superblock::Root;
use keepfs_format::{FromBytes, Header, Kind, MetaId, Space};
use keepfs_frames::newborn::{dead_since, newborn, zero_kind};
use keepfs_frames::scratch::with_page;
use keepfs_frames::{Frames, Pin, Ref};
use keepfs_pool::entry_damage;
use keepfs_pool::events::Done;
use keepfs_vault::arena::{self, FrameNo};
use std::collections::BTreeSet;

impl Flash {
    /// Pins the frame of a metablock that must exist, since it is named.
    pub fn fetch_named<'s>(&'s self, frames: &'s Frames, id: MetaId) -> Result<Pin<'s>, Error> {
        let found = self.fetch(frames, id)?;
        found.ok_or_else(|| Error::damaged(id, format!("{id} is named but does not exist")))
    }

    /// Indices of the metablocks of a space that the map names or that were born since.
    pub fn blocks_of(&self, frames: &Frames, space: Space) -> Result<BTreeSet<u64>, Error> {
        let mut blocks: BTreeSet<u64> = self.mapped(frames, space)?.into_iter().collect();
        let dirty: Result<Vec<[u64; 2]>, _> = self.checkpoints.dirty.lock().iter().collect();
        let dirty = dirty?.into_iter().map(|[id, _]| MetaId(id));
        blocks.extend(dirty.filter(|id| id.space() == Some(space)).map(|id| id.index()));
        Ok(blocks)
    }

    /// Indices of the metablocks of a space that the map names, ascending: as much work as there are map pages, however
    /// far apart they lie (C-8).
    pub fn mapped(&self, frames: &Frames, space: Space) -> Result<Vec<u64>, Error> {
        let root = self.root(frames, space)?;
        let mut numbers = if root.height == 0 { Vec::new() } else { vec![0] };
        for level in (0..root.height).rev() {
            let mut below = Vec::new();
            for number in numbers {
                if let Some(pin) = self.fetch(frames, MetaId::map(space, level, number))? {
                    for n in number * FANOUT..(number + 1) * FANOUT {
                        let id = match level {
                            0 => MetaId::new(space, n),
                            _ => MetaId::map(space, level - 1, n),
                        };
                        let entry = self.entry_in(frames, &pin, id, n)?;
                        below.extend(entry.filter(|e| e.state == LIVE).map(|_| n));
                    }
                }
            }
            numbers = below;
        }
        Ok(numbers)
    }

    /// Pins the frame of a metablock, fetching it if need be. `None`: there is no such metablock.
    pub fn fetch<'s>(&'s self, frames: &'s Frames, id: MetaId) -> Result<Option<Pin<'s>>, Error> {
        loop {
            if let Some(pin) = frames.cache.pin_and(id, |frame| frames.arena.prefetch(frame)) {
                return Ok(Some(pin));
            }
            if frames.fences.has(id) {
                return Err(Error::Fenced { id }); // N-4
            }
            let entry = self.locate(frames, id)?;
            let frame = frames.take_frame()?;
            let fetching = self.map.stripe(id).lock();
            if let Some(pin) = frames.cache.pin(id) {
                frames.cache.give_back(frame);
                return Ok(Some(pin));
            }
            let same = |now: Option<MapEntry>| now == entry;
            let is_same = self.locate(frames, id).map(same);
            if !is_same.inspect_err(|_| frames.cache.give_back(frame))? {
                frames.cache.give_back(frame);
                continue;
            }
            let filled = self.fill_from(frames, id, entry, frame);
            if !filled.inspect_err(|_| frames.cache.give_back(frame))? {
                frames.cache.give_back(frame);
                return Ok(None);
            }
            let pin = frames.cache.insert(id, frame);
            drop(fetching);
            match pin {
                Some(pin) => return Ok(Some(pin)),
                None => frames.cache.give_back(frame),
            }
        }
    }

    /// The map entry of a metablock or map page as of the last checkpoint; reads map pages from the device.
    pub fn locate(&self, frames: &Frames, id: MetaId) -> Result<Option<MapEntry>, Error> {
        let _stable = self.map.roots.read_recursive();
        let Some(place) = Place::of(id) else { return Ok(None) };
        let page = match self.root_or_page(frames, &place, id)? {
            Ok(found) => return Ok(found),
            Err(page) => page,
        };
        match self.fetch(frames, page)? {
            Some(pin) => self.entry_in(frames, &pin, id, place.number),
            None => Ok(None),
        }
    }

    /// The same without reading: `Miss` names the map page to fetch.
    pub fn locate_in_memory(&self, frames: &Frames, id: MetaId) -> Result<Option<MapEntry>, Stop> {
        let _stable = self.map.roots.read_recursive();
        let Some(place) = Place::of(id) else { return Ok(None) };
        let page = match self.root_or_page(frames, &place, id)? {
            Ok(found) => return Ok(found),
            Err(page) => page,
        };
        if let Some(pin) = frames.cache.pin(page) {
            return Ok(self.entry_in(frames, &pin, id, place.number)?);
        }
        match self.locate_in_memory(frames, page)? {
            Some(_) => Err(Stop::Miss(page)),
            None => Ok(None),
        }
    }

    /// `Ok`: the entry is known from the root; `Err`: it stands in this map page.
    pub(crate) fn root_or_page(
        &self,
        frames: &Frames,
        place: &Place,
        id: MetaId,
    ) -> Result<Result<Option<MapEntry>, MetaId>, Error> {
        let root = self.root(frames, place.space)?;
        if place.level >= root.height {
            let is_root = place.level == root.height && place.number == 0 && id.as_map().is_some();
            return Ok(Ok(is_root.then_some(root.entry)));
        }
        Ok(Err(MetaId::map(place.space, place.level, place.number / FANOUT)))
    }

    /// The root of a space. One that something else changed is read from the device, where the superblock in force has it,
    /// until the next checkpoint sets it (S-13.9).
    pub fn root(&self, frames: &Frames, space: Space) -> Result<Root, Error> {
        let held = self.map.roots.read_recursive()[space as usize];
        match held.get(space as u64) {
            Ok(root) => Ok(root),
            Err(stray) => self.root_on_device(frames, space, &held, stray),
        }
    }

    #[cold]
    pub(crate) fn root_on_device(
        &self,
        frames: &Frames,
        space: Space,
        held: &Watched<Root>,
        stray: Stray,
    ) -> Result<Root, Error> {
        let written = keepfs_pool::superblocks(&*frames.ground.device);
        let mut roots = written.iter().map(|sb| sb.roots[space as usize]);
        let Some(root) = roots.find(|root| held.was(space as u64, root)) else {
            return Err(frames.ground.fail(stray.into()));
        };
        if !self.map.stray_told.swap(true, Ordering::Relaxed) {
            let what = format!("the root of the map of {space:?}, taken from the superblock on the device");
            frames.ground.events.tell_heap(stray.address, Done::ReadAgain, &what);
        }
        Ok(root)
    }

    /// The sum that the map entry tells, if its page is in memory and right there. Nothing is mended for it, since what is told
    /// here may be the damage of that very page.
    pub fn crc_at_home(&self, frames: &Frames, id: MetaId) -> Option<u64> {
        let place = Place::of(id)?;
        let entry = match self.root_or_page(frames, &place, id).ok()? {
            Ok(entry) => entry?,
            Err(page) => {
                let (pin, page) = (frames.cache.peek(page)?, Ref::shared(page, Kind::Map));
                let (offset, mut bytes) = (map::entry_offset(place.number), [0; size_of::<MapEntry>()]);
                frames
                    .arena
                    .load(pin.frame, frames.binding(page), offset, &mut bytes)
                    .ok()?;
                MapEntry::read_from_bytes(&bytes).ok()?
            }
        };
        Some(entry.crc.get())
    }

    /// Entry `number` of a map page, which is that of `id`; `None`: it never lived.
    pub fn entry_in(&self, frames: &Frames, pin: &Pin<'_>, id: MetaId, number: u64) -> Result<Option<MapEntry>, Error> {
        let mut bytes = [0; size_of::<MapEntry>()];
        let page = Ref::shared(pin.slot().id(), Kind::Map);
        self.read(frames, pin, frames.binding(page), map::entry_offset(number), &mut bytes)?;
        let entry = MapEntry::read_from_bytes(&bytes).unwrap_or_default();
        frames.ground.pool.check_entry(id, &entry)?;
        Ok((entry.state != NEVER).then_some(entry))
    }

    /// The roots of all maps are as they must be (S-4.2).
    pub fn check_roots(&self, frames: &Frames) -> Result<(), Error> {
        for space in Space::ALL {
            let root = self.root(frames, space)?;
            let id = MetaId::map(space, root.height.max(1) - 1, 0);
            frames.ground.pool.check_entry(id, &root.entry)?;
            let state = if root.height == 0 { NEVER } else { LIVE };
            if root.entry.state != state {
                return Err(entry_damage(id, "state"));
            }
        }
        Ok(())
    }

    /// The generation that a NODES metablock is born with now (S-3.4).
    pub fn next_generation(&self, frames: &Frames, id: MetaId) -> Result<u32, Stop> {
        if let Some(generation) = self.checkpoints.deaths.get(id)? {
            return Ok(generation.wrapping_add(1).max(1));
        }
        Ok(self
            .locate_in_memory(frames, id)?
            .map_or(1, |e| e.generation.get().wrapping_add(1).max(1)))
    }

    /// Fills a frame with a metablock's content. `false`: no such metablock.
    pub(crate) fn fill_from(
        &self,
        frames: &Frames,
        id: MetaId,
        entry: Option<MapEntry>,
        frame: FrameNo,
    ) -> Result<bool, Error> {
        if let Some(entry) = self.live(id, entry)? {
            return with_page(|bytes| {
                self.read_copies_to(frames, id, &entry, bytes)?;
                frames.fill(frame, id, bytes, entry.crc.get());
                Ok(true)
            });
        }
        let unborn = self.content_unborn(frames, id, entry)?;
        if let Some((bytes, crc)) = &unborn {
            frames.fill(frame, id, bytes, *crc);
        }
        Ok(unborn.is_some())
    }

    /// What a metablock with this map entry, which nobody has changed since the last checkpoint, holds, and its CRC-64.
    pub fn content_at_home(
        &self,
        frames: &Frames,
        id: MetaId,
        entry: Option<MapEntry>,
    ) -> Result<Option<(arena::Copy, u64)>, Error> {
        match self.live(id, entry)? {
            Some(entry) => Ok(Some((self.read_copies(frames, id, &entry)?, entry.crc.get()))),
            None => self.content_unborn(frames, id, entry),
        }
    }

    /// The entry of a metablock that has a home.
    pub fn live(&self, id: MetaId, entry: Option<MapEntry>) -> Result<Option<MapEntry>, Error> {
        match entry.filter(|e| e.state == LIVE) {
            Some(entry) => Ok((!self.is_dead(id, &entry)?).then_some(entry)),
            None => Ok(None),
        }
    }

    /// What a metablock without a home holds, and its CRC-64, if it is one that is there without having been born.
    pub(crate) fn content_unborn(
        &self,
        frames: &Frames,
        id: MetaId,
        entry: Option<MapEntry>,
    ) -> Result<Option<(arena::Copy, u64)>, Error> {
        let Some(kind) = zero_kind(id) else { return Ok(None) };
        let bytes = self.first_content(frames, id, kind, entry)?;
        let crc = crc64::full(&*bytes);
        Ok(Some((bytes, crc)))
    }

    /// What a metablock without a live entry holds before it is first changed (S-3.3).
    pub(crate) fn first_content(
        &self,
        frames: &Frames,
        id: MetaId,
        kind: Kind,
        entry: Option<MapEntry>,
    ) -> Result<arena::Copy, Error> {
        let died = self.checkpoints.deaths.get(id)?;
        let last = died.or(entry.map(|e| e.generation.get())).unwrap_or(0);
        let mut bytes = newborn(&Header::new(
            frames.ground.pool.tag,
            id,
            kind,
            0,
            0,
            last.wrapping_add(1).max(1),
        ));
        if kind == Kind::Inodes && last > 0 {
            dead_since(&mut bytes, last);
        }
        Ok(bytes)
    }

    pub(crate) fn is_dead(&self, id: MetaId, entry: &MapEntry) -> Result<bool, Error> {
        let died = self.checkpoints.deaths.get(id)?;
        Ok(died.is_some_and(|generation| generation >= entry.generation.get()))
    }
}
