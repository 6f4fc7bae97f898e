//! Telling the device which pages are not needed: fstrim(8), and `discard` after each checkpoint (S-11.1).
//!
//! A freed page is discardable under the rule under which it may be used again (S-11.1). So
//! discarding is using: free pages are held like a writer's, the device is told, they are given back.

use crate::error::Error;
use crate::space::{Holder, Purpose};
use crate::{Flash, Store};
use core::ops::Range;
use keepfs_format::plog::Run;
use keepfs_media::{Device, DeviceError, PageNo};

/// Most pages held at a time (16 MiB), so that writers find others.
const HELD_MAX: u64 = 4096;
/// Of the pages that new data may have, at most one in so many is held.
const SHARE: u64 = 4;
/// Shortest run of pages that is discarded after a checkpoint (64 KiB): shorter ones cost more than they give back.
const ONLINE_MIN: u64 = 16;

impl Flash {
    /// See [`Store::trim`].
    pub(crate) fn trim(&self, store: &Store, range: Range<u64>, least: u64) -> Result<Option<u64>, Error> {
        store.ground.unless_read_only()?;
        if store.ground.pool.is_preallocated {
            return Ok(Some(0));
        }
        // What was freed before is free after a flush.
        self.sync(store)?;
        self.discard_free(store, range, least)
    }

    pub(crate) fn discard_free(&self, store: &Store, range: Range<u64>, least: u64) -> Result<Option<u64>, Error> {
        let end = range.end.min(store.ground.pool.pages);
        let (mut at, mut given) = (range.start, 0);
        while at < end {
            let (start, len) = store.ground.pool.zone(at / store.ground.pool.zone_pages);
            let part_end = end.min(start + u64::from(len)).min(at + HELD_MAX);
            match self.discard_part(store, at..part_end, least)? {
                Some(pages) => given += pages,
                None => return Ok(None),
            }
            at = part_end;
        }
        Ok(Some(given))
    }

    /// Discards the free pages of a part of one zone.
    fn discard_part(&self, store: &Store, part: Range<u64>, least: u64) -> Result<Option<u64>, Error> {
        let holder = store.alloc.space.holder();
        let runs = self.hold_free(store, holder, part)?;
        let mut discarded = Ok(Some(0));
        for run in runs.iter().filter(|run| u64::from(run.count) >= least) {
            let told = store.ground.device.discard(PageNo(run.start), u64::from(run.count));
            discarded = match (discarded, told) {
                (Ok(Some(sum)), Ok(())) => Ok(Some(sum + u64::from(run.count))),
                (_, Err(DeviceError::NoDiscard { .. })) => Ok(None),
                (_, Err(error)) => Err(Error::from(error)),
                (stopped, Ok(())) => stopped,
            };
            if !matches!(discarded, Ok(Some(_))) {
                break;
            }
        }
        store.alloc.space.give_back(holder, &runs);
        discarded
    }

    /// Takes free pages of a part of one zone out of everybody's reach.
    fn hold_free(&self, store: &Store, holder: Holder, part: Range<u64>) -> Result<Vec<Run>, Error> {
        let most = (store.alloc.space.figures().available(Purpose::New) / SHARE).min(HELD_MAX) as u32;
        let mut claim = store.alloc.space.claim_some(holder, most, Purpose::New);
        let run = Run {
            start: part.start,
            count: (part.end - part.start) as u32,
        };
        self.settled(store, &[run], |shut| {
            Ok(store
                .alloc
                .space
                .take_settled(&mut claim, self.read_settled(store, shut, run)?))
        })
    }

    /// Notes pages that may be used again, to be discarded after the next checkpoint.
    pub(crate) fn note_released(&self, store: &Store, released: &[Run]) {
        if store.ground.options.discard && !store.ground.pool.is_preallocated {
            self.released.lock().extend(released);
        }
    }

    /// See [`Store::discard_released`].
    pub(crate) fn discard_released(&self, store: &Store) -> Result<(), Error> {
        for run in merged(core::mem::take(&mut *self.released.lock())) {
            if u64::from(run.count) < ONLINE_MIN {
                continue;
            }
            let told = self.discard_free(store, run.start..run.start + u64::from(run.count), ONLINE_MIN)?;
            if told.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// Runs in order, those that touch made one.
fn merged(mut runs: Vec<Run>) -> Vec<Run> {
    runs.sort_unstable_by_key(|run| run.start);
    let mut all: Vec<Run> = Vec::new();
    for run in runs {
        match all.last_mut() {
            Some(last) if run.start <= last.start + u64::from(last.count) => {
                let end = (run.start + u64::from(run.count)).max(last.start + u64::from(last.count));
                last.count = (end - last.start).min(u64::from(u32::MAX)) as u32;
            }
            _ => all.push(run),
        }
    }
    all
}

#[cfg(test)]
mod tests;
