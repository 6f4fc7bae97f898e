//! Checkpoints as a flash home has them: the one in force, and what waits for the next (SPEC section 10).

use crate::bad::BadCopy;
use crate::error::Error;
use crate::homes::Homes;
use crate::log::Head;
use crate::moment::{Deaths, Dirty, Stash};
use crate::rewrites::Rewrites;
use crate::wanted::Wanted;
use crate::watched::{Watched, WatchedList};
use core::sync::atomic::{AtomicBool, AtomicU64};
use keepfs_codes::crc64;
use keepfs_format::map::{DEAD, LIVE, LOST, MapEntry};
use keepfs_format::superblock::Superblock;
use keepfs_format::{FromBytes, Header, PAGE};
use keepfs_pool::Pool;
use keepfs_vault::locks::Mutex;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What only the checkpointer touches.
pub struct Keeper {
    /// The superblock in force, or, while settings change, what it shall be.
    pub superblock: Watched<Superblock>,
    /// Pages that hold metadata.
    pub homes: Homes,
}

impl Keeper {
    /// A superblock as it is kept: without its CRC, since the sum of bytes that end with their CRC is always the same.
    pub fn of(superblock: &Superblock) -> Watched<Superblock> {
        Watched::new(0, Keeper::plain(superblock))
    }

    /// The superblock without its CRC.
    pub fn plain(superblock: &Superblock) -> Superblock {
        Superblock {
            crc: 0.into(),
            ..*superblock
        }
    }
}

/// Checkpoints, and what waits for one.
pub struct Checkpoints {
    /// The one in force.
    pub keeper: Mutex<Keeper>,
    /// As the superblock in force tells it; who asks waits for no checkpoint.
    pub in_force: Mutex<Pool>,
    /// When it was written.
    pub at: Mutex<Instant>,
    /// Why the state that was opened may not be the newest (S-21.22).
    pub superblocks_lost: OnceLock<String>,
    /// Counts them; frames remember in which one they became dirty.
    pub epoch: AtomicU64,
    /// What became dirty since the last moment.
    pub dirty: Mutex<WatchedList<Dirty>>,
    /// Metablocks that died and whose death is in no checkpoint yet.
    pub deaths: Deaths,
    /// Indices of INODES metablocks of which an inode was freed.
    pub emptied: Mutex<BTreeSet<u64>>,
    /// Copies of frames as of the moment.
    pub stash: Stash,
    /// Frames whose content is being written.
    pub in_flight: AtomicU64,
    /// Copies on the device that are bad, or lie where they shall not.
    pub bad_copies: Mutex<Vec<BadCopy>>,
    /// A scrub has marked what is to be written elsewhere, and no checkpoint has done so since.
    pub moves: AtomicBool,
    /// Map pages that the next one writes anew.
    pub rewrites: Rewrites,
    /// Most metablocks and map pages that wait for one (SPEC S-10.5).
    pub rewrite_limit: u64,
    /// The same, but no more than the free pages of the pool allow now.
    pub rewrite_now: AtomicU64,
    /// The thread that writes them.
    pub wanted: Arc<Wanted>,
}

impl Checkpoints {
    /// One is in force, of this superblock. At most so much waits for the next.
    pub fn of(sb: &Superblock, rewrite_limit: u64) -> Checkpoints {
        Checkpoints {
            keeper: Mutex::new(Keeper {
                superblock: Keeper::of(sb),
                homes: Homes::default(),
            }),
            in_force: Mutex::new(Pool::of(sb)),
            at: Mutex::new(Instant::now()),
            superblocks_lost: OnceLock::new(),
            epoch: AtomicU64::new(1),
            dirty: Mutex::default(),
            deaths: Deaths::default(),
            emptied: Mutex::default(),
            stash: Stash::default(),
            in_flight: AtomicU64::new(0),
            bad_copies: Mutex::default(),
            moves: AtomicBool::new(false),
            rewrites: Rewrites::default(),
            rewrite_limit,
            rewrite_now: AtomicU64::new(u64::MAX),
            wanted: Arc::default(),
        }
    }
}

/// What a checkpoint shall be besides an ordinary one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// The pool is closed with it.
    pub clean: bool,
    /// It ends a recovery: a new life of the log begins.
    pub new_log: Option<NewLog>,
}

/// A new life of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewLog {
    /// Where it begins.
    pub head: Head,
    /// By how much its incarnation is greater than that of the log before.
    pub lives: u64,
}

/// A live entry for `content`.
pub fn live_entry(first: u64, second: u64, content: &[u8; PAGE]) -> Result<MapEntry, Error> {
    let (header, _) = Header::read_from_prefix(content).map_err(|e| Error::Logic(e.to_string()))?;
    Ok(MapEntry {
        first: first.into(),
        second: second.into(),
        crc: crc64::full(content).into(),
        generation: header.generation,
        kind: header.kind,
        state: LIVE,
        reserved: 0.into(),
    })
}

/// A dead entry.
pub fn dead_entry(generation: u32) -> MapEntry {
    MapEntry {
        generation: generation.into(),
        state: DEAD,
        ..MapEntry::default()
    }
}

/// The entry of a metablock that lives and whose content is lost.
pub fn lost_entry(entry: MapEntry) -> MapEntry {
    MapEntry {
        crc: LOST.into(),
        ..entry
    }
}
