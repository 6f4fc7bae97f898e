//! From metablock to device pages, and from there into a frame (SPEC section 4).

mod copies;

pub use copies::CopiesSeen;
pub(crate) use copies::{AtRest, BadCopy};

use crate::cache::Pin;
use crate::error::{Error, Stop};
use crate::events::Done;
use crate::locks::{Mutex, RwLock};
use crate::newborn::{dead_since, newborn, zero_kind};
use crate::pool::{self, Pool};
use crate::read::Ref;
use crate::{Flash, Store};
use core::sync::atomic::{AtomicBool, Ordering};
use keepfs_codes::crc64;
use keepfs_flash::scratch::with_page;
use keepfs_flash::watched::{Stray, Watched};
use keepfs_format::map::{self, DEAD, FANOUT, HEIGHT_MAX, LIVE, MapEntry, NEVER};
use keepfs_format::superblock::Root;
use keepfs_format::{FromBytes, Header, Kind, MetaId, Space};
use keepfs_vault::arena::{self, FrameNo};
use std::collections::BTreeSet;

/// Locks that keep two fetches of one metablock apart, by level of map page (0 = ordinary metablocks).
const STRIPES: usize = 64;

/// The roots of the maps, by space number, which is the key of each.
pub type Roots = [Watched<Root>; 10];

/// Sets roots.
pub fn watched(roots: &[Root; 10]) -> Roots {
    core::array::from_fn(|space| Watched::new(space as u64, roots[space]))
}

/// The roots, each compared with its sum.
pub fn roots(watched: &Roots) -> Result<[Root; 10], Stray> {
    let mut roots = [Root::default(); 10];
    for (space, root) in roots.iter_mut().enumerate() {
        *root = watched[space].get(space as u64)?;
    }
    Ok(roots)
}

/// Roots of the maps and the locks around them.
pub struct Map {
    /// Read by [`Store::root`]; written with the map pages in the arena when a checkpoint is durable, under this lock.
    pub roots: RwLock<Roots>,
    /// A root that is not what it was set to was told, since they were set.
    pub stray_told: AtomicBool,
    fetching: Vec<Vec<Mutex<()>>>,
}

impl Map {
    /// The map of a superblock.
    pub fn new(roots: [Root; 10]) -> Map {
        let stripes = || (0..STRIPES).map(|_| Mutex::new(())).collect();
        Map {
            roots: RwLock::new(watched(&roots)),
            stray_told: AtomicBool::new(false),
            fetching: (0..=usize::from(HEIGHT_MAX) + 1).map(|_| stripes()).collect(),
        }
    }

    fn stripe(&self, id: MetaId) -> &Mutex<()> {
        let level = id.as_map().map_or(0, |(_, level, _)| usize::from(level) + 1);
        let h = id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58;
        &self.fetching[level.min(self.fetching.len() - 1)][h as usize % STRIPES]
    }
}

/// A place in the map: which entry of which map page, or the root.
struct Place {
    space: Space,
    level: u8,
    number: u64,
}

impl Place {
    fn of(id: MetaId) -> Option<Place> {
        match id.as_map() {
            Some((space, level, number)) => Some(Place {
                space,
                level: level.checked_add(1)?,
                number,
            }),
            None => Some(Place {
                space: id.space()?,
                level: 0,
                number: id.index(),
            }),
        }
    }
}

impl Flash {
    /// Indices of the metablocks of a space that the map names or that were born since.
    pub(crate) fn blocks_of(&self, store: &Store, space: Space) -> Result<BTreeSet<u64>, Error> {
        let mut blocks: BTreeSet<u64> = self.mapped(store, space)?.into_iter().collect();
        let dirty: Result<Vec<[u64; 2]>, _> = self.checkpoints.dirty.lock().iter().collect();
        let dirty = dirty?.into_iter().map(|[id, _]| MetaId(id));
        blocks.extend(dirty.filter(|id| id.space() == Some(space)).map(|id| id.index()));
        Ok(blocks)
    }

    /// Indices of the metablocks of a space that the map names, ascending: as much work as there are map pages, however
    /// far apart they lie (C-8).
    pub(crate) fn mapped(&self, store: &Store, space: Space) -> Result<Vec<u64>, Error> {
        let root = self.root(store, space)?;
        let mut numbers = if root.height == 0 { Vec::new() } else { vec![0] };
        for level in (0..root.height).rev() {
            let mut below = Vec::new();
            for number in numbers {
                if let Some(pin) = store.fetch_known(MetaId::map(space, level, number))? {
                    for n in number * FANOUT..(number + 1) * FANOUT {
                        let id = match level {
                            0 => MetaId::new(space, n),
                            _ => MetaId::map(space, level - 1, n),
                        };
                        let entry = self.entry_in(store, &pin, id, n)?;
                        below.extend(entry.filter(|e| e.state == LIVE).map(|_| n));
                    }
                }
            }
            numbers = below;
        }
        Ok(numbers)
    }

    /// Pins the frame of a metablock, fetching it if need be. `None`: there is no such metablock.
    pub(crate) fn fetch<'s>(&'s self, store: &'s Store, id: MetaId) -> Result<Option<Pin<'s>>, Error> {
        let frames = &store.frames;
        loop {
            if let Some(pin) = frames.cache.pin_and(id, |frame| frames.arena.prefetch(frame)) {
                return Ok(Some(pin));
            }
            if frames.fences.has(id) {
                return Err(Error::Fenced { id }); // N-4
            }
            let entry = self.locate(store, id)?;
            let frame = store.take_frame()?;
            let fetching = self.map.stripe(id).lock();
            if let Some(pin) = frames.cache.pin(id) {
                frames.cache.give_back(frame);
                return Ok(Some(pin));
            }
            let same = |now: Option<MapEntry>| now == entry;
            let is_same = self.locate(store, id).map(same);
            if !is_same.inspect_err(|_| frames.cache.give_back(frame))? {
                frames.cache.give_back(frame);
                continue;
            }
            let filled = self.fill_from(store, id, entry, frame);
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
    pub(crate) fn locate(&self, store: &Store, id: MetaId) -> Result<Option<MapEntry>, Error> {
        let _stable = self.map.roots.read_recursive();
        let Some(place) = Place::of(id) else { return Ok(None) };
        let page = match self.root_or_page(store, &place, id)? {
            Ok(found) => return Ok(found),
            Err(page) => page,
        };
        match store.fetch_known(page)? {
            Some(pin) => self.entry_in(store, &pin, id, place.number),
            None => Ok(None),
        }
    }

    /// The same without reading: `Miss` names the map page to fetch.
    pub(crate) fn locate_in_memory(&self, store: &Store, id: MetaId) -> Result<Option<MapEntry>, Stop> {
        let _stable = self.map.roots.read_recursive();
        let Some(place) = Place::of(id) else { return Ok(None) };
        let page = match self.root_or_page(store, &place, id)? {
            Ok(found) => return Ok(found),
            Err(page) => page,
        };
        if let Some(pin) = store.frames.cache.pin(page) {
            return Ok(self.entry_in(store, &pin, id, place.number)?);
        }
        match self.locate_in_memory(store, page)? {
            Some(_) => Err(Stop::Miss(page)),
            None => Ok(None),
        }
    }

    /// `Ok`: the entry is known from the root; `Err`: it stands in this map page.
    fn root_or_page(
        &self,
        store: &Store,
        place: &Place,
        id: MetaId,
    ) -> Result<Result<Option<MapEntry>, MetaId>, Error> {
        let root = self.root(store, place.space)?;
        if place.level >= root.height {
            let is_root = place.level == root.height && place.number == 0 && id.as_map().is_some();
            return Ok(Ok(is_root.then_some(root.entry)));
        }
        Ok(Err(MetaId::map(place.space, place.level, place.number / FANOUT)))
    }

    /// The root of a space. One that something else changed is read from the device, where the superblock in force has it,
    /// until the next checkpoint sets it (S-13.9).
    pub(crate) fn root(&self, store: &Store, space: Space) -> Result<Root, Error> {
        let held = self.map.roots.read_recursive()[space as usize];
        match held.get(space as u64) {
            Ok(root) => Ok(root),
            Err(stray) => self.root_on_device(store, space, &held, stray),
        }
    }

    #[cold]
    fn root_on_device(&self, store: &Store, space: Space, held: &Watched<Root>, stray: Stray) -> Result<Root, Error> {
        let written = pool::superblocks(&*store.device);
        let mut roots = written.iter().map(|sb| sb.roots[space as usize]);
        let Some(root) = roots.find(|root| held.was(space as u64, root)) else {
            return Err(store.fail(stray.into()));
        };
        if !self.map.stray_told.swap(true, Ordering::Relaxed) {
            let what = format!("the root of the map of {space:?}, taken from the superblock on the device");
            store.watch.events.tell_heap(stray.address, Done::ReadAgain, &what);
        }
        Ok(root)
    }

    /// The sum that the map entry tells, if its page is in memory and right there. Nothing is mended for it, since what is told
    /// here may be the damage of that very page.
    pub(crate) fn crc_at_home(&self, store: &Store, id: MetaId) -> Option<u64> {
        let place = Place::of(id)?;
        let entry = match self.root_or_page(store, &place, id).ok()? {
            Ok(entry) => entry?,
            Err(page) => {
                let (pin, page) = (store.frames.cache.peek(page)?, Ref::shared(page, Kind::Map));
                let (offset, mut bytes) = (map::entry_offset(place.number), [0; size_of::<MapEntry>()]);
                store
                    .frames
                    .arena
                    .load(pin.frame, store.binding(page), offset, &mut bytes)
                    .ok()?;
                MapEntry::read_from_bytes(&bytes).ok()?
            }
        };
        Some(entry.crc.get())
    }

    /// Entry `number` of a map page, which is that of `id`; `None`: it never lived.
    pub(crate) fn entry_in(
        &self,
        store: &Store,
        pin: &Pin<'_>,
        id: MetaId,
        number: u64,
    ) -> Result<Option<MapEntry>, Error> {
        let mut bytes = [0; size_of::<MapEntry>()];
        let page = Ref::shared(pin.slot().id(), Kind::Map);
        store.read(pin, store.binding(page), map::entry_offset(number), &mut bytes)?;
        let entry = MapEntry::read_from_bytes(&bytes).unwrap_or_default();
        store.pool.check_entry(id, &entry)?;
        Ok((entry.state != NEVER).then_some(entry))
    }

    /// The roots of all maps are as they must be (S-4.2).
    pub(crate) fn check_roots(&self, store: &Store) -> Result<(), Error> {
        for space in Space::ALL {
            let root = self.root(store, space)?;
            let id = MetaId::map(space, root.height.max(1) - 1, 0);
            store.pool.check_entry(id, &root.entry)?;
            let state = if root.height == 0 { NEVER } else { LIVE };
            if root.entry.state != state {
                return Err(entry_damage(id, "state"));
            }
        }
        Ok(())
    }

    /// The generation that a NODES metablock is born with now (S-3.4).
    pub(crate) fn next_generation(&self, store: &Store, id: MetaId) -> Result<u32, Stop> {
        if let Some(generation) = self.checkpoints.deaths.get(id)? {
            return Ok(generation.wrapping_add(1).max(1));
        }
        Ok(self
            .locate_in_memory(store, id)?
            .map_or(1, |e| e.generation.get().wrapping_add(1).max(1)))
    }

    /// Fills a frame with a metablock's content. `false`: no such metablock.
    fn fill_from(&self, store: &Store, id: MetaId, entry: Option<MapEntry>, frame: FrameNo) -> Result<bool, Error> {
        if let Some(entry) = self.live(id, entry)? {
            return with_page(|bytes| {
                self.read_copies_to(store, id, &entry, bytes)?;
                store.fill(frame, id, bytes, entry.crc.get());
                Ok(true)
            });
        }
        let unborn = self.content_unborn(store, id, entry)?;
        if let Some((bytes, crc)) = &unborn {
            store.fill(frame, id, bytes, *crc);
        }
        Ok(unborn.is_some())
    }

    /// What a metablock with this map entry, which nobody has changed since the last checkpoint, holds, and its CRC-64.
    pub(crate) fn content_at_home(
        &self,
        store: &Store,
        id: MetaId,
        entry: Option<MapEntry>,
    ) -> Result<Option<(arena::Copy, u64)>, Error> {
        match self.live(id, entry)? {
            Some(entry) => Ok(Some((self.read_copies(store, id, &entry)?, entry.crc.get()))),
            None => self.content_unborn(store, id, entry),
        }
    }

    /// The entry of a metablock that has a home.
    pub(crate) fn live(&self, id: MetaId, entry: Option<MapEntry>) -> Result<Option<MapEntry>, Error> {
        match entry.filter(|e| e.state == LIVE) {
            Some(entry) => Ok((!self.is_dead(id, &entry)?).then_some(entry)),
            None => Ok(None),
        }
    }

    /// What a metablock without a home holds, and its CRC-64, if it is one that is there without having been born.
    fn content_unborn(
        &self,
        store: &Store,
        id: MetaId,
        entry: Option<MapEntry>,
    ) -> Result<Option<(arena::Copy, u64)>, Error> {
        let Some(kind) = zero_kind(id) else { return Ok(None) };
        let bytes = self.first_content(store, id, kind, entry)?;
        let crc = crc64::full(&*bytes);
        Ok(Some((bytes, crc)))
    }

    /// What a metablock without a live entry holds before it is first changed (S-3.3).
    fn first_content(
        &self,
        store: &Store,
        id: MetaId,
        kind: Kind,
        entry: Option<MapEntry>,
    ) -> Result<arena::Copy, Error> {
        let died = self.checkpoints.deaths.get(id)?;
        let last = died.or(entry.map(|e| e.generation.get())).unwrap_or(0);
        let mut bytes = newborn(&Header::new(
            store.pool.tag,
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

    fn is_dead(&self, id: MetaId, entry: &MapEntry) -> Result<bool, Error> {
        let died = self.checkpoints.deaths.get(id)?;
        Ok(died.is_some_and(|generation| generation >= entry.generation.get()))
    }
}

impl Pool {
    /// The entry of `id` is as S-4.3 says: what decides between life and death is never guessed (S-1.3).
    fn check_entry(&self, id: MetaId, entry: &MapEntry) -> Result<(), Error> {
        let (first, second) = (entry.first.get(), entry.second.get());
        let inside = |page: u64| (1..self.pages).contains(&page);
        let nothing = first == 0 && second == 0 && entry.crc.get() == 0;
        let live = entry.state == LIVE;
        let two = self.meta_copies == 2;
        let rules = [
            (matches!(entry.state, LIVE | DEAD | NEVER), "state"),
            (entry.reserved.get() == 0, "reserved field"),
            (live || nothing, "page of a metablock that does not exist"),
            ((entry.generation.get() == 0) == (entry.state == NEVER), "generation"),
            (!live || inside(first), "first page"),
            (
                !live
                    || if two {
                        inside(second) && second != first
                    } else {
                        second == 0
                    },
                "second page",
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, field)) => Err(entry_damage(id, field)),
            None => Ok(()),
        }
    }
}

fn entry_damage(id: MetaId, field: &str) -> Error {
    Error::Damaged(format!("the map entry of {id} has a {field} that is not allowed"))
}

#[cfg(test)]
mod tests;
