//! Staged pages go from the old log to the new one (S-10.3).

use crate::error::Error;
use crate::home::Flash;
use crate::log::{self, Head, Stamp};
use crate::moment::Moment;
use core::sync::atomic::Ordering;
use keepfs_format::PAGE;
use keepfs_format::plog::Record;
use keepfs_frames::{Frames, Looked};
use keepfs_pool::events::{Done, Place, Seen, Told};

impl Flash {
    /// Staged pages whole, in a group of their own (S-10.3), behind what had to be given up (S-8.14). Returns where they begin.
    pub fn write_carried(
        &self,
        frames: &Frames,
        moment: &Moment,
        recovers: bool,
        generation: u64,
    ) -> Result<Head, Error> {
        let mut payload = Vec::new();
        for carried in &moment.carried {
            let mut record = carried.record(&self.log.segment);
            if matches!(record, Record::Lost { .. }) {
                match self.mend_carried(frames, carried, moment.seq) {
                    Some(mended) => record = mended,
                    None => self.lose_carried(frames, carried),
                }
            }
            record.encode(&mut payload);
        }
        let mut state = self.log.end.lock();
        let (most, whole, bare) = (
            frames.ground.pool.log.pages,
            log::pages_of_carried(payload.len()),
            log::pages_of(payload.len()),
        );
        // Parity is left out where there is no room for it (S-10.3).
        let mut pages = if state.head.sequence - state.tail + whole > most {
            bare
        } else {
            whole
        };
        if state.head.sequence - state.tail + pages > most {
            // The limit of staged pages and the room kept in the log for them exclude it (S-10.8).
            if !recovers || pages > most {
                return Err(Error::Logic("the log cannot hold the staged pages".into()));
            }
            // But in a log that was written by a version that kept less room.
            tracing::warn!("the log is too full for the staged pages: this recovery must not be cut");
        }
        let stamp = Stamp {
            incarnation: state.incarnation,
            durable: state.durable,
            base: state.base,
            seq: moment.seq,
            flags: 0,
        };
        loop {
            let before = state.head;
            let mut head = before;
            let (device, region) = (&*frames.ground.device, &frames.ground.pool.log);
            let written = match pages == whole {
                true => log::append_carried(device, region, &mut head, &stamp, &payload),
                false => {
                    log::append_pages(device, region, &mut head, &stamp, &payload, bare, &mut Vec::new()).map(drop)
                }
            };
            let Err(error) = written else {
                state.wrote();
                state.head = head;
                state.written = before.group;
                let bytes = pages * PAGE as u64;
                frames.ground.stats.bytes_checkpoint.fetch_add(bytes, Ordering::Relaxed);
                return Ok(before);
            };
            let behind = if recovers {
                0
            } else {
                self.log.carry_room.saturating_sub(whole - bare)
            };
            let used = head.sequence - state.tail + behind;
            pages = if used + whole > most { bare } else { whole };
            if used + pages > most || !state.give_up(head.sequence, &error) {
                return Err(error);
            }
            state.is_broken = false;
            state.begin_chain(generation);
            keepfs_vault::locks::AwaitedGuard::unlocked(&mut state, || {
                self.tell_given_up(frames, before.group, &error)
            });
        }
    }

    /// Looks at what leads to redo and staged pages, for a scrub. It counts as no page.
    pub fn scrub_page_0(&self, frames: &Frames) -> Looked {
        let redo = self.log.redo.lock();
        let made = self.log.segment.make_twice();
        drop(redo);
        for what in &made {
            frames.ground.events.tell_of(&Told {
                place: Place::Outside(self.log.segment.region().shown_address() as u64),
                seen: &Seen::Checksum,
                done: Done::OtherCopy,
                owner: 0,
                inodes: &[],
                window_ms: None,
                more: format!(
                    "page 0 of the memory of redo and staged pages: its {what} was changed at one of two places"
                ),
            });
        }
        let count = made.len() as u64;
        Looked {
            pages: 0,
            bad: count,
            mended: count,
        }
    }
}
