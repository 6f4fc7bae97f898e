//! A group of the log: made of redo, compared with the frames that it touches, written.

use crate::error::Error;
use crate::home::Flash;
use crate::log::{self, Stamp};
use crate::redo::{Group, Piece, RedoDamage, Span, compact};
use keepfs_format::PAGE;
use keepfs_format::metablock::HEADER;
use keepfs_format::plog::{self, FLAG_DATA_FLUSHED, Record};
use keepfs_frames::Frames;
use keepfs_frames::fence::unless_fenced;
use keepfs_media::Device;
use keepfs_pool::events::{Done, Place, Seen, Told};
use keepfs_vault::planted::{self, Bug};

/// Data written since the last flush above which a group is preceded by a flush of its own.
const UNFLUSHED_MAX: u64 = 64 << 20;

impl Flash {
    /// Pages of the log in use, and how many may be before a checkpoint must empty it.
    pub fn log_fill(&self, frames: &Frames) -> (u64, u64) {
        let state = self.log.end.lock();
        let used = state.head.sequence - state.tail;
        let kept = self.log.carry_room + state.carry;
        (used, frames.ground.pool.log.pages.saturating_sub(kept))
    }

    /// Compacts and verifies: every entry must be what its checksum says (S-14.4), and every frame that the group touches
    /// what its rolling checksum says (C-3).
    pub fn prepare(&self, frames: &Frames, pending: &Span) -> Result<Prepared, Error> {
        let mut buffer = self.log.sync.spare.take(Piece::Whole);
        let read = pending.records(&self.log.segment, &mut buffer);
        let (records, count) = read.map_err(|RedoDamage { seq }| Error::Redo { seq })?;
        let seq = pending.last();
        let spare = &self.log.sync.spare;
        let payload = spare.take(Piece::Payload);
        let group = spare.with_work(|work| compact(seq, records, count, payload, work));
        let mut group = group.ok_or(Error::Redo { seq })?;
        self.log.sync.spare.give(Piece::Whole, buffer);
        if planted::is(Bug::GroupFromFrames) || planted::is(Bug::TailDropped) {
            self.spoil(frames, &mut group);
        }
        let mut copy = [0; PAGE];
        for (id, _) in &group.touched {
            if let Some(pin) = frames.cache.pin(*id) {
                unless_fenced(self.verified_copy(frames, &pin, &mut copy))?;
            }
        }
        #[cfg(feature = "comparison")]
        if !frames.ground.options.compact {
            let pages = pages_uncompacted(group.payload.len(), &group.updates);
            return Ok(Prepared { group, pages });
        }
        let pages = log::pages_of(group.payload.len());
        Ok(Prepared { group, pages })
    }

    /// `None`: redo is not what its checksum says, so this group is not written; a checkpoint, which needs no redo, makes
    /// durable what it should hold (S-14.4).
    pub fn unless_redo_is_damaged(
        &self,
        frames: &Frames,
        prepared: Result<Prepared, Error>,
    ) -> Result<Option<Prepared>, Error> {
        match prepared {
            Ok(prepared) => Ok(Some(prepared)),
            Err(Error::Redo { seq }) => {
                frames.ground.events.tell_of(&Told {
                    place: Place::Redo(seq),
                    seen: &Seen::Checksum,
                    done: Done::Dropped,
                    owner: 0,
                    inodes: &[],
                    window_ms: None,
                    more: "a checkpoint makes the transaction durable instead".into(),
                });
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What [`Bug::GroupFromFrames`] and [`Bug::TailDropped`] do to a group.
    pub(crate) fn spoil(&self, frames: &Frames, group: &mut Group) {
        let Ok(mut records) = plog::decode(&group.payload) else {
            return;
        };
        match planted::is(Bug::GroupFromFrames) {
            true => cut_from_frames(frames, &mut records),
            false => {
                let last = records.iter().rposition(|r| matches!(r, Record::Tail { .. }));
                last.map(|at| records.remove(at));
            }
        }
        group.payload = log::encode(records);
    }

    /// Writes a prepared group, if there is one that fits, and keeps the memory that it was made in. `false`: it is not in the
    /// log.
    pub fn write_whole_group(&self, frames: &Frames, prepared: Option<Prepared>) -> Result<bool, Error> {
        let Some(prepared) = prepared.filter(|_| !self.log.end.lock().is_broken) else {
            return Ok(false);
        };
        let written = self.write_group(frames, &prepared)?;
        self.log.sync.spare.give(Piece::Payload, prepared.group.payload);
        Ok(written)
    }

    /// Writes a prepared group at the head of the log, without flush. The caller leads. `false`: a page of it was given up
    /// (S-8.12).
    pub(crate) fn write_group(&self, frames: &Frames, prepared: &Prepared) -> Result<bool, Error> {
        let mut flags = 0;
        if self.log.given.unflushed() > UNFLUSHED_MAX {
            self.flush_device(frames)?;
            flags = FLAG_DATA_FLUSHED;
        }
        let mut state = self.log.end.lock();
        let before = state.head;
        let mut head = before;
        let has_records = !prepared.group.payload.is_empty();
        if has_records && state.with_records > state.durable && !planted::is(Bug::LeadGivenEarly) {
            // Recovery can judge one group beyond the last that it knows to be durable, not two (S-8.11, S-11.6).
            return Err(Error::Logic(format!(
                "group {} would follow group {}, which was not flushed",
                before.group, state.with_records
            )));
        }
        let stamp = Stamp {
            incarnation: state.incarnation,
            durable: if planted::is(Bug::DurableOverstated) {
                before.group
            } else {
                state.durable
            },
            base: state.base,
            seq: prepared.group.seq,
            flags,
        };
        let log = &frames.ground.pool.log;
        let mut buffer = self.log.sync.spare.take(Piece::Whole);
        let payload = &prepared.group.payload;
        let pages = log::append_pages(
            &*frames.ground.device,
            log,
            &mut head,
            &stamp,
            payload,
            prepared.pages,
            &mut buffer,
        );
        self.log.sync.spare.give(Piece::Whole, buffer);
        let pages = match pages {
            Err(error) if state.give_up(head.sequence, &error) => {
                drop(state);
                self.tell_given_up(frames, before.group, &error);
                if planted::is(Bug::GivenUpSteppedOver) {
                    return self.write_group(frames, prepared);
                }
                return Ok(false);
            }
            pages => pages?,
        };
        state.wrote();
        state.told = state.durable;
        state.head = head;
        state.written = before.group;
        if has_records {
            state.with_records = before.group;
        }
        state.written_seq = prepared.group.seq;
        let group = &prepared.group;
        frames
            .ground
            .stats
            .persisted(group.payload.len(), pages, &group.updates);
        Ok(true)
    }

    /// A page of a group could not be written (S-8.12).
    pub fn tell_given_up(&self, frames: &Frames, group: u64, error: &Error) {
        frames.ground.events.tell_of(&Told {
            place: Place::Log { group, page: 0 },
            seen: &Seen::Medium,
            done: Done::Dropped,
            owner: 0,
            inodes: &[],
            window_ms: None,
            more: format!("{error}; a checkpoint makes durable what it should hold, and the log goes on behind it"),
        });
        self.checkpoints.wanted.set();
    }

    /// An empty group tells that the last one was flushed, so that recovery takes it as it is (S-9.2). It needs no flush itself. If
    /// somebody is cutting a group, that one tells it.
    pub fn write_durable(&self, frames: &Frames) -> Result<(), Error> {
        let Some(lead) = self.log.sync.try_lead() else {
            return Ok(());
        };
        frames.ground.alive()?;
        let seq = {
            let state = self.log.end.lock();
            if state.told >= state.durable || state.is_broken || frames.ground.is_read_only() {
                return Ok(());
            }
            state.written_seq
        };
        let empty = Prepared {
            group: Group {
                seq,
                ..Group::default()
            },
            pages: 1,
        };
        if self.log_has_room(frames, 1) {
            self.write_group(frames, &empty).map_err(|e| frames.ground.fail(e))?;
        }
        self.tell_far(frames);
        drop(lead);
        Ok(())
    }

    /// Tells what is durable far from the log's end, too (S-8.15). Nobody waits for it: where it cannot be written, the next one is
    /// tried.
    fn tell_far(&self, frames: &Frames) {
        let state = self.log.end.lock();
        let log = &frames.ground.pool.log;
        let Some(place) = log::far::place(log, state.head.sequence, state.tail) else {
            return;
        };
        let stamp = Stamp {
            incarnation: state.incarnation,
            durable: state.durable,
            base: state.base,
            seq: state.written_seq,
            flags: 0,
        };
        let _next_time = log::far::write(&*frames.ground.device, log, place, state.head.group, &stamp);
    }

    /// Whether a group of `pages` pages fits and leaves room for staged pages to be carried over (S-10.8).
    pub fn log_has_room(&self, frames: &Frames, pages: u64) -> bool {
        let (used, most) = self.log_fill(frames);
        used + pages <= most
    }

    /// Flushes the device; data written before the call is durable after it.
    pub fn flush_device(&self, frames: &Frames) -> Result<(), Error> {
        let covered = self.log.given.before_flush();
        frames.ground.device.flush()?;
        self.log.given.flushed(covered);
        Ok(())
    }

    /// Asks for a checkpoint when the log is nearly full (5 % left, S-10 and ReconFS section 4).
    pub fn note_log_fill(&self, frames: &Frames) {
        let (used, most) = self.log_fill(frames);
        let free = most.saturating_sub(used);
        if free * 100 <= frames.ground.pool.log.pages * u64::from(frames.ground.options.log_free_percent) {
            self.checkpoints.wanted.set();
        }
    }
}

/// The ranges are replaced by whole frames as they are now.
fn cut_from_frames(frames: &Frames, records: &mut [Record]) {
    for record in records {
        let Record::Update { id, ranges, .. } = record else {
            continue;
        };
        if let Some(pin) = frames.cache.pin(*id) {
            let mut bytes = vec![0; PAGE - HEADER];
            frames.arena.load_raw(pin.frame, HEADER, &mut bytes);
            *ranges = vec![(HEADER as u16, bytes)];
        }
    }
}

/// Log pages of a group of `payload` bytes that has the metablocks of `updates` whole instead of their ranges, within
/// S-8.10.
#[cfg(feature = "comparison")]
fn pages_uncompacted(payload: usize, updates: &keepfs_pool::stats::Updates) -> u64 {
    let whole = payload - updates.bytes as usize + updates.pages as usize * PAGE;
    log::pages_of(whole)
        .min(crate::sync::group_pages_max())
        .max(log::pages_of(payload))
}

/// A group ready to be written.
pub struct Prepared {
    /// It.
    pub group: Group,
    /// Log pages it takes; more than the payload needs if nothing is compacted.
    pages: u64,
}

impl Prepared {
    /// Log pages it takes.
    pub fn pages(&self) -> u64 {
        self.pages
    }
}
