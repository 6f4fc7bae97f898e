//! The flash home: metadata lies in pages of a device, twice, where the map of the last checkpoint says; what is newer is in the
//! log, and small data is staged in it (SPEC sections 4 and 8 to 11).
//!
//! It has four parts. What a part can do alone stands with it; what needs several of them, or frames, is a method of [`Flash`]. What
//! runs transactions or hands out pages is its owner's.

use crate::checkpoint::Checkpoints;
use crate::error::Error;
use crate::map::Map;
use crate::segment::{self, Segment};
use crate::staged::{STAGED_MAX, STAGED_SPARE, Staged};
use crate::sync::Log;
use keepfs_format::plog::Run;
use keepfs_format::superblock::Superblock;
use keepfs_frames::Frames;
use keepfs_vault::locks::Mutex;
use std::sync::Arc;

/// A flash home.
pub struct Flash {
    /// Where metablocks lie.
    pub map: Map,
    /// Redo, in memory that outlives the server, and the log that it goes to.
    pub log: Log,
    /// File pages that only the log has.
    pub staged: Staged,
    /// What waits for a checkpoint, and the one in force.
    pub checkpoints: Checkpoints,
    /// Pages that may be used again and that the device was not told of yet.
    pub released: Mutex<Vec<Run>>,
}

impl Flash {
    /// The home that a superblock tells of, with nothing behind it. Errors: there is no memory.
    pub fn of(sb: &Superblock, frames: &Frames) -> Result<Flash, Error> {
        let ground = &frames.ground;
        let (pool, o) = (&ground.pool, &ground.options);
        let limit = ((pool.log.pages / 4) as usize).clamp(4, STAGED_MAX);
        let most = limit + (limit / 8).min(STAGED_SPARE);
        let slots = 2 * most + segment::SPARE_SLOTS;
        let segment = Arc::new(Segment::new(slots, o.guard, o.seal, o.lasting)?);
        segment.note_code(pool.protect);
        let noted = segment.clone();
        let _ = ground
            .ending
            .device_failed
            .set(Box::new(move || noted.note_device_failed()));
        Ok(Flash {
            map: Map::new(sb.roots),
            staged: Staged::new(segment.clone(), limit),
            log: Log::of(sb, segment, most),
            checkpoints: Checkpoints::of(sb, pool.rewrite_most().min(frames.dirty_most())),
            released: Mutex::default(),
        })
    }
}
