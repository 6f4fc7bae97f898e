//! The roots of the maps in memory, and where in a map the entry of a metablock stands (SPEC section 4).

use crate::watched::{Stray, Watched};
use core::sync::atomic::AtomicBool;
use keepfs_format::map::HEIGHT_MAX;
use keepfs_format::superblock::Root;
use keepfs_format::{MetaId, Space};
use keepfs_vault::locks::{Mutex, RwLock};

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
    /// Written with the map pages in the arena when a checkpoint is durable, under this lock.
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

    /// The lock under which it is fetched.
    pub fn stripe(&self, id: MetaId) -> &Mutex<()> {
        let level = id.as_map().map_or(0, |(_, level, _)| usize::from(level) + 1);
        let h = id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58;
        &self.fetching[level.min(self.fetching.len() - 1)][h as usize % STRIPES]
    }
}

/// A place in the map: which entry of which map page, or the root.
pub struct Place {
    /// Of which map.
    pub space: Space,
    /// Level of the map page.
    pub level: u8,
    /// Number of the entry among those of its level.
    pub number: u64,
}

impl Place {
    /// The place of a metablock or map page.
    #[inline]
    pub fn of(id: MetaId) -> Option<Place> {
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
