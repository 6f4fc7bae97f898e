//! The superblock in force and the next one (SPEC section 2, S-10.2).

use crate::checkpoint::{Keeper, Wish};
use crate::error::Error;
use crate::home::Flash;
use crate::log::Head;
use crate::map;
use crate::moment::Moment;
use crate::past::LogStart;
use crate::plan::Plan;
use core::sync::atomic::Ordering;
use keepfs_format::PAGE;
use keepfs_format::superblock::{self, Superblock, slot_page, slots_of};
use keepfs_frames::{Frames, Looked};
use keepfs_media::{Class, Device, PageNo};
use keepfs_pool::events::Done;
use keepfs_pool::{Pool, superblock_bytes};
use keepfs_vault::planted::{self, Bug, Point};

/// What a superblock tells besides the plan, read once: others may change it while one is made.
pub struct Beside {
    /// Where the new log begins.
    pub tail: Head,
    /// Which life of the log.
    pub incarnation: u64,
    /// Highest group that is flushed.
    pub durable: u64,
    /// The zones that it lists.
    pub zones: [u64; 2],
}

impl Flash {
    /// The superblock in force. One that something else changed is read from the device; Errors: it is not there either
    /// (settings were about to change), and writing has ended.
    pub fn superblock_in_force(&self, frames: &Frames, keeper: &mut Keeper) -> Result<Superblock, Error> {
        let stray = match keeper.superblock.get(0) {
            Ok(superblock) => return Ok(superblock),
            Err(stray) => stray,
        };
        let mut written = keepfs_pool::superblocks(&*frames.ground.device)
            .into_iter()
            .map(|sb| Keeper::plain(&sb));
        let Some(superblock) = written.find(|sb| keeper.superblock.was(0, sb)) else {
            return Err(frames.ground.fail(stray.into()));
        };
        frames
            .ground
            .events
            .tell_heap(stray.address, Done::ReadAgain, "the superblock in force");
        keeper.superblock = Keeper::of(&superblock);
        Ok(superblock)
    }

    /// The next superblock, by this plan and moment.
    pub fn next_superblock(
        &self,
        frames: &Frames,
        keeper: &mut Keeper,
        plan: &Plan<'_>,
        moment: &Moment,
        beside: &Beside,
        wish: Wish,
    ) -> Result<Superblock, Error> {
        let mut sb = self.superblock_in_force(frames, keeper)?;
        sb.generation = (sb.generation.get() + 1).into();
        // S-2.10
        sb.incompat = (sb.incompat.get() | superblock::INCOMPAT_STRIPES).into();
        sb.seq = moment.seq.into();
        sb.roots = map::roots(&plan.roots)?;
        sb.log_seq = beside.tail.sequence.into();
        sb.group = beside.tail.group.into();
        sb.chain = beside.tail.chain.into();
        sb.incarnation = beside.incarnation.into();
        sb.durable = beside.durable.into();
        sb.state = if wish.clean {
            superblock::CLEAN
        } else {
            superblock::OPEN
        }
        .into();
        (sb.zone_current, sb.zone_next) = (beside.zones[0].into(), beside.zones[1].into());
        Ok(sb)
    }

    /// The commit point: one slot, flush; then its copy without a flush of its own (S-2.1, S-10.2).
    pub fn put_superblock(&self, frames: &Frames, sb: &Superblock) -> Result<(), Error> {
        let bytes = keepfs_pool::superblock_bytes(sb);
        let slots = superblock::slots_of(sb.generation.get());
        for (i, slot) in slots.into_iter().enumerate() {
            let slot = if planted::is(Bug::SuperblockInPlace) { 0 } else { slot };
            let page = PageNo(superblock::slot_page(slot, frames.ground.pool.slots_by));
            frames.ground.device.write(page, &bytes[..], Class::Superblock)?;
            planted::step(Point::SuperblockWritten);
            if i == 0 && !planted::is(Bug::NoSecondFlush) {
                frames.ground.device.flush()?;
                planted::step(Point::SuperblockFlushed);
            }
        }
        match bytes == keepfs_pool::superblock_bytes(sb) {
            true => Ok(()),
            false => Err(Error::Damaged("a superblock was changed while it was written".into())),
        }
    }

    /// The log begins where the superblock, which is durable, says.
    pub fn install_log(&self, superblock: &Superblock, tail: Head) {
        let mut state = self.log.end.lock();
        state.tail = tail.sequence;
        state.base = superblock.generation.get();
        state.start = LogStart::of(superblock);
        state.durable = state.durable.max(superblock.durable.get());
        // The superblock tells it too (S-9.2), so no empty group needs to.
        state.told = state.told.max(superblock.durable.get());
    }

    /// The pool as the superblock in force tells it. Waits for no checkpoint.
    pub fn pool_in_force(&self) -> Pool {
        let _waits = planted::is(Bug::SettingsWait).then(|| self.checkpoints.keeper.lock());
        self.checkpoints.in_force.lock().clone()
    }

    /// Whether nothing happened since the superblock in force, which says CLEAN.
    pub fn is_closed(&self, frames: &Frames) -> bool {
        let in_force = self.superblock_in_force(frames, &mut self.checkpoints.keeper.lock());
        in_force.is_ok_and(|sb| {
            sb.state.get() == keepfs_format::superblock::CLEAN
                && self.log.redo.lock().last == sb.seq.get()
                && self.log.end.lock().head.sequence == sb.log_seq.get()
                && frames.cache.dirty.load(Ordering::Relaxed) == 0
        })
    }

    /// Looks at the superblock in force and its copy. A bad copy is replaced by the next checkpoint's.
    pub fn scrub_superblocks(&self, frames: &Frames) -> Looked {
        let mut keeper = self.checkpoints.keeper.lock();
        let Ok(in_force) = self.superblock_in_force(frames, &mut keeper) else {
            return Looked::default();
        };
        let right = superblock_bytes(&in_force);
        let mut looked = Looked::default();
        for slot in slots_of(in_force.generation.get()) {
            let page = slot_page(slot, frames.ground.pool.slots_by);
            let mut found = [0; PAGE];
            let read = frames.ground.device.read_fresh(PageNo(page), &mut found);
            looked.pages += 1;
            if read.is_err() || found != *right {
                tracing::warn!(slot, page, "a superblock on the device is not the one that was written");
                looked.bad += 1;
                looked.mended += u64::from(!frames.ground.is_read_only());
            }
        }
        looked
    }

    /// Whether something waits for a checkpoint because of its copies: one is bad, or they lie too close to each other.
    pub fn has_copies_to_write(&self) -> bool {
        !self.checkpoints.bad_copies.lock().is_empty() || self.checkpoints.moves.load(Ordering::Relaxed)
    }
}
