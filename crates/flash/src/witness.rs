//! The witness of a frame: what device, log and redo tell of its metablock, with the records of open transactions over it
//! (S-15.16). It takes nothing from the frame that it judges, nor from anything that was copied out of it (L-2).

use crate::home::Flash;
use crate::log;
use crate::past::{LogStart, Past};
use keepfs_format::plog::{self, Record};
use keepfs_format::{FromBytes, Header, MetaId, PAGE, Space};
use keepfs_frames::Frames;
use keepfs_frames::evidence::{Evidence, Untold, told};
use keepfs_frames::newborn::newborn;
use keepfs_vault::arena::{self, FrameNo};
use keepfs_vault::planted::{self, Rung};

impl Flash {
    /// What the device has of a metablock.
    pub fn past(&self, frames: &Frames, id: MetaId) -> Result<Past, Untold> {
        self.past_until(frames, id, u64::MAX)
    }

    /// The same behind transaction `up_to`, with which a group ends.
    pub fn past_until(&self, frames: &Frames, id: MetaId, up_to: u64) -> Result<Past, Untold> {
        if !self.log.is_witnessed.load(core::sync::atomic::Ordering::Acquire) || id.as_map().is_some() {
            return Err(Untold::Nothing);
        }
        if id.space() == Some(Space::Totals) {
            // Who has the lock of redo knows it (S-17.6).
            return Ok(Past { content: None, seq: 0 });
        }
        // The start of the log before the map: if a checkpoint comes between, its log is read over a newer page, and
        // what bytes and bits are set to last is the same.
        let start = self.log.end.lock().start;
        let stands_still = || self.log.end.lock().start.base == start.base;
        let content = self
            .locate(frames, id)
            .and_then(|entry| self.content_at_home(frames, id, entry));
        let Ok(content) = content else {
            return Err(if stands_still() { Untold::Nothing } else { Untold::Moved });
        };
        let mut past = Past {
            content: content.map(|(bytes, _)| bytes),
            seq: start.seq,
        };
        if !planted::ignores(Rung::LogIgnored) {
            let logged = self.each_logged(frames, &start, up_to, |record| {
                past.apply(frames.ground.pool.tag, id, record)
            })?;
            past.seq = past.seq.max(logged);
        }
        match stands_still() {
            true => Ok(past),
            false => Err(Untold::Moved),
        }
    }

    /// The log behind the checkpoint in force, up to transaction `up_to`: its records in their order, and the last transaction.
    /// Errors: `Moved`, if a checkpoint came meanwhile, too.
    pub fn logged(&self, frames: &Frames, up_to: u64, each: impl FnMut(&Record)) -> Result<u64, Untold> {
        if !self.log.is_witnessed.load(core::sync::atomic::Ordering::Acquire) {
            return Err(Untold::Nothing);
        }
        let start = self.log.end.lock().start;
        let logged = self.each_logged(frames, &start, up_to, each)?;
        match self.log.end.lock().start.base == start.base {
            true => Ok(logged),
            false => Err(Untold::Moved),
        }
    }

    pub(crate) fn each_logged(
        &self,
        frames: &Frames,
        start: &LogStart,
        up_to: u64,
        mut each: impl FnMut(&Record),
    ) -> Result<u64, Untold> {
        let before = log::Before {
            incarnation: start.incarnation,
            bases: start.base.saturating_sub(1)..start.base + 1,
            seq: start.seq,
            durable: 0,
            is_other_lost: false,
        };
        // A page that does not continue the log may be one of the group that is being written.
        let scan = log::scan(&*frames.ground.device, &frames.ground.pool.log, start.head, &before)
            .map_err(|_| Untold::Moved)?;
        if scan.cut.is_some() {
            return Err(Untold::Moved);
        }
        let last = self.log.redo.lock().last.min(up_to);
        let mut logged = start.seq;
        // A group beyond the last transaction was not taken by the recovery (S-9.3).
        for group in scan.groups.iter().filter(|group| group.seq <= last) {
            let records = plog::decode(&group.payload).map_err(|_| Untold::Moved)?;
            records.iter().for_each(&mut each);
            logged = logged.max(group.seq);
        }
        Ok(logged)
    }

    /// What the frame of `id`, which the caller holds, may contain.
    pub fn evidence(
        &self,
        frames: &Frames,
        id: MetaId,
        frame: FrameNo,
        mut past: Past,
        live: &[u8; PAGE],
    ) -> Result<Evidence, Untold> {
        // While this is locked nobody commits: a transaction's records are in its slot, or in the redo, or in the past.
        let redo = self.log.redo.lock();
        let mut since = match id.space() {
            // No record tells a stripe.
            Some(Space::Totals) => {
                past.content = Some(frames.known.content(id));
                Vec::new()
            }
            _ => {
                let since = redo.beyond(past.seq).ok_or(Untold::Moved)?;
                since.read(&self.log.segment).map_err(|_| Untold::Nothing)?
            }
        };
        let mut parts = frames.open_parts(frame).ok_or(Untold::Nothing)?;
        drop(redo);
        if planted::ignores(Rung::RedoIgnored) {
            since.clear();
        }
        if planted::ignores(Rung::OpenIgnored) {
            parts.clear();
        }
        for record in since.iter().flat_map(|txn| &txn.records) {
            past.apply(frames.ground.pool.tag, id, record);
        }
        let is_known = past.content.is_some();
        let first = past.content.or_else(|| unborn(id, live));
        let is_whole = is_known && matches!(id.space(), Some(Space::Nodes | Space::Inodes));
        Evidence::of(first.ok_or(Untold::Nothing)?, &parts, is_whole).ok_or(Untold::Nothing)
    }

    /// What device, log and the redo before the first entry that is damaged tell of a metablock behind transaction `up_to`, and
    /// the last transaction that they have.
    pub fn told_content(&self, frames: &Frames, id: MetaId, up_to: u64) -> Option<(arena::Copy, u64)> {
        told(|| {
            let mut past = self.past_until(frames, id, up_to)?;
            let mut since = Vec::new();
            // Redo that the log has may be given up.
            if past.seq < up_to {
                let redo = self.log.redo.lock();
                since = redo
                    .beyond(past.seq)
                    .ok_or(Untold::Moved)?
                    .read_whole(&self.log.segment);
                since.retain(|txn| txn.seq <= up_to);
            }
            for record in since.iter().flat_map(|txn| &txn.records) {
                past.apply(frames.ground.pool.tag, id, record);
            }
            let last = since.last().map_or(past.seq, |txn| txn.seq);
            Ok((past.content.ok_or(Untold::Nothing)?, last))
        })
    }
}

/// A node that an open transaction has made: only its frame has the header, which its sum must confirm.
fn unborn(id: MetaId, live: &[u8; PAGE]) -> Option<arena::Copy> {
    let (header, _) = Header::read_from_prefix(&live[..]).ok()?;
    (header.id.get() == id.0 && id.space() == Some(Space::Nodes)).then(|| newborn(&header))
}
