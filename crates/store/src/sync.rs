//! Making transactions durable: groups cut from redo, one flush shared by all who wait.

mod state;

pub use state::{Log, SeenLog};

use crate::error::Error;
use crate::events::{Done, Place, Seen, Told};
use crate::fence::unless_fenced;
use crate::locks::{Condvar, Mutex};
use crate::{Flash, Store};
use core::sync::atomic::Ordering;
use keepfs_flash::log::{self, Stamp};
use keepfs_flash::redo::Updates;
use keepfs_flash::redo::{Group, Piece, Redo, RedoDamage, Span, Spare, compact};
use keepfs_flash::segment::RING;
use keepfs_format::PAGE;
use keepfs_format::metablock::HEADER;
use keepfs_format::plog::{self, FLAG_DATA_FLUSHED, Record};
use keepfs_media::Device;
use keepfs_vault::planted::{self, Bug};

/// Data written since the last flush above which a group is preceded by a flush of its own.
const UNFLUSHED_MAX: u64 = 64 << 20;

/// Most pages of a group that syncs write (S-8.10): the whole ring of redo, and compaction only makes it shorter.
pub const fn group_pages_max() -> u64 {
    log::pages_of(RING)
}

/// Log pages of staged data that weighs so many whole pages: four small ones with their heads take more than a whole one.
pub const fn carry_pages(weight: usize) -> u64 {
    log::pages_of_carried(weight * (PAGE + 4 * 48))
}

/// Log pages that are kept for what a recovery carries over, whatever is staged (S-10.8).
pub fn carry_room(staged_most: usize) -> u64 {
    match planted::is(Bug::RoomOnce) {
        true => 0,
        false => carry_pages(staged_most),
    }
}

/// Who is cutting a group, and up to which transaction everything is durable.
#[derive(Default)]
pub struct Sync {
    state: Mutex<SyncState>,
    turn: Condvar,
    /// For who has the lead.
    spare: Spare,
}

#[derive(Default)]
struct SyncState {
    running: bool,
    durable: u64,
}

/// The right to cut groups; only one thread has it.
pub struct Lead<'s>(&'s Sync);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.state.lock().running = false;
        self.0.turn.notify_all();
    }
}

impl Sync {
    /// The right to cut groups, if nobody has it.
    pub fn try_lead(&self) -> Option<Lead<'_>> {
        let mut state = self.state.lock();
        // Made only if it is given: a Lead that is dropped here would lock `state` again and end another's lead.
        (!core::mem::replace(&mut state.running, true)).then(|| Lead(self))
    }

    /// Waits for the right to cut groups.
    pub fn lead(&self) -> Lead<'_> {
        let mut state = self.state.lock();
        while state.running {
            self.turn.wait(&mut state);
        }
        state.running = true;
        Lead(self)
    }

    /// Everything up to transaction `seq` is durable.
    pub fn reached(&self, seq: u64) {
        let mut state = self.state.lock();
        state.durable = state.durable.max(seq);
    }

    /// Up to which transaction everything is durable.
    pub fn durable(&self) -> u64 {
        self.state.lock().durable
    }

    /// `None` when `target` is durable, else the right to make it so.
    fn wait_or_lead(&self, target: u64) -> Option<Lead<'_>> {
        let mut state = self.state.lock();
        while state.durable < target {
            if !state.running {
                state.running = true;
                return Some(Lead(self));
            }
            self.turn.wait(&mut state);
        }
        None
    }
}

impl Store {
    /// The ranges are replaced by whole frames as they are now.
    fn cut_from_frames(&self, records: &mut [Record]) {
        for record in records {
            let Record::Update { id, ranges, .. } = record else {
                continue;
            };
            if let Some(pin) = self.frames.cache.pin(*id) {
                let mut bytes = vec![0; PAGE - HEADER];
                self.frames.arena.load_raw(pin.frame, HEADER, &mut bytes);
                *ranges = vec![(HEADER as u16, bytes)];
            }
        }
    }
}

impl Flash {
    /// See [`Store::log_fill`].
    pub(crate) fn log_fill(&self, store: &Store) -> (u64, u64) {
        let state = self.log.end.lock();
        let used = state.head.sequence - state.tail;
        let kept = self.log.carry_room + state.carry;
        (used, store.pool.log.pages.saturating_sub(kept))
    }

    /// See [`Store::sync`].
    pub(crate) fn sync(&self, store: &Store) -> Result<(), Error> {
        let target = self.log.redo.lock().last;
        loop {
            store.alive()?;
            let Some(lead) = self.log.sync.wait_or_lead(target) else {
                return store.alive();
            };
            match self.cut_and_flush(store) {
                Ok(Cut::Durable) => {
                    drop(lead);
                    self.note_log_fill(store);
                }
                Ok(Cut::Full) => {
                    drop(lead);
                    self.checkpoint(store)?;
                }
                Err(e) => return Err(store.fail(e)),
            }
        }
    }

    /// One group of all that is committed, and a flush. The caller leads.
    pub(crate) fn cut_and_flush(&self, store: &Store) -> Result<Cut, Error> {
        // Who led before may have failed with what it had cut: a group behind that would leave it out (S-15.27).
        store.alive()?;
        let pending = self.cut(store, &mut self.log.redo.lock());
        if !pending.is_empty() {
            let group = self.unless_redo_is_damaged(store, self.prepare(store, &pending))?;
            let group = group.filter(|group| self.log_has_room(store, group.pages()));
            if !self.write_whole_group(store, group)? {
                self.log.redo.lock().give_back(pending);
                return Ok(Cut::Full);
            }
        }
        self.flush_log(store).map(|()| Cut::Durable)
    }

    /// Takes all redo for a group. Under the lock of redo, so that each transaction is before the cut with its number, its
    /// allocations and its frees, or behind it with all of them (S-11.2).
    pub(crate) fn cut(&self, store: &Store, redo: &mut Redo) -> Span {
        if !planted::is(Bug::YoungForever) {
            store.alloc.space.cut();
        }
        self.log.end.lock().carry = carry_pages(self.staged.weight.pages());
        redo.take()
    }

    /// Compacts and verifies: every entry must be what its checksum says (S-14.4), and every frame that the group touches
    /// what its rolling checksum says (C-3).
    pub(crate) fn prepare(&self, store: &Store, pending: &Span) -> Result<Prepared, Error> {
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
            self.spoil(store, &mut group);
        }
        let mut copy = [0; PAGE];
        for (id, _) in &group.touched {
            if let Some(pin) = store.frames.cache.pin(*id) {
                unless_fenced(store.verified_copy(&pin, &mut copy))?;
            }
        }
        let pages = match store.life.options.compact {
            true => log::pages_of(group.payload.len()),
            false => pages_uncompacted(group.payload.len(), &group.updates),
        };
        Ok(Prepared { group, pages })
    }

    /// `None`: redo is not what its checksum says, so this group is not written; a checkpoint, which needs no redo, makes
    /// durable what it should hold (S-14.4).
    pub(crate) fn unless_redo_is_damaged(
        &self,
        store: &Store,
        prepared: Result<Prepared, Error>,
    ) -> Result<Option<Prepared>, Error> {
        match prepared {
            Ok(prepared) => Ok(Some(prepared)),
            Err(Error::Redo { seq }) => {
                store.watch.events.tell_of(&Told {
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
    fn spoil(&self, store: &Store, group: &mut Group) {
        let Ok(mut records) = plog::decode(&group.payload) else {
            return;
        };
        match planted::is(Bug::GroupFromFrames) {
            true => store.cut_from_frames(&mut records),
            false => {
                let last = records.iter().rposition(|r| matches!(r, Record::Tail { .. }));
                last.map(|at| records.remove(at));
            }
        }
        group.payload = log::encode(records);
    }

    /// Writes a prepared group, if there is one that fits, and keeps the memory that it was made in. `false`: it is not in the
    /// log.
    pub(crate) fn write_whole_group(&self, store: &Store, prepared: Option<Prepared>) -> Result<bool, Error> {
        let Some(prepared) = prepared.filter(|_| !self.log.end.lock().is_broken) else {
            return Ok(false);
        };
        let written = self.write_group(store, &prepared)?;
        self.log.sync.spare.give(Piece::Payload, prepared.group.payload);
        Ok(written)
    }

    /// Writes a prepared group at the head of the log, without flush. The caller leads. `false`: a page of it was given up
    /// (S-8.12).
    fn write_group(&self, store: &Store, prepared: &Prepared) -> Result<bool, Error> {
        let mut flags = 0;
        if self.log.given.unflushed() > UNFLUSHED_MAX {
            self.flush_device(store)?;
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
        let log = &store.pool.log;
        let mut buffer = self.log.sync.spare.take(Piece::Whole);
        let payload = &prepared.group.payload;
        let pages = log::append_pages(
            &*store.device,
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
                self.tell_given_up(store, before.group, &error);
                if planted::is(Bug::GivenUpSteppedOver) {
                    return self.write_group(store, prepared);
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
        store.watch.stats.persisted(group.payload.len(), pages, &group.updates);
        Ok(true)
    }

    /// A page of a group could not be written (S-8.12).
    pub(crate) fn tell_given_up(&self, store: &Store, group: u64, error: &keepfs_flash::Error) {
        store.watch.events.tell_of(&Told {
            place: Place::Log(group),
            seen: &Seen::Medium,
            done: Done::Dropped,
            owner: 0,
            inodes: &[],
            window_ms: None,
            more: format!("{error}; a checkpoint makes durable what it should hold, and the log goes on behind it"),
        });
        self.checkpoints.wanted.set();
    }

    /// See [`Store::write_durable`].
    pub(crate) fn write_durable(&self, store: &Store) -> Result<(), Error> {
        let Some(lead) = self.log.sync.try_lead() else {
            return Ok(());
        };
        store.alive()?;
        let seq = {
            let state = self.log.end.lock();
            if state.told >= state.durable || state.is_broken || store.life.is_read_only() {
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
        if self.log_has_room(store, 1) {
            self.write_group(store, &empty).map_err(|e| store.fail(e))?;
        }
        drop(lead);
        Ok(())
    }

    /// Flushes; everything up to the last transaction written is durable then. The caller leads.
    pub(crate) fn flush_log(&self, store: &Store) -> Result<(), Error> {
        let (group, seq) = {
            let state = self.log.end.lock();
            (state.written, state.written_seq)
        };
        self.flush_device(store)?;
        store.watch.stats.flushes.fetch_add(1, Ordering::Relaxed);
        let mut state = self.log.end.lock();
        state.durable = state.durable.max(group);
        drop(state);
        self.release_up_to(store, seq);
        self.log.sync.reached(seq);
        self.checkpoints.wanted.flushed();
        Ok(())
    }

    /// Frees pages and numbers whose free is durable (S-11.1).
    pub(crate) fn release_up_to(&self, store: &Store, seq: u64) {
        let released = store.alloc.space.release(seq);
        self.note_released(store, &released);
        store.alloc.nodes.release(seq);
        store.alloc.inos.release(seq);
        self.log.redo.lock().release(seq);
    }

    /// Whether a group of `pages` pages fits and leaves room for staged pages to be carried over (S-10.8).
    pub(crate) fn log_has_room(&self, store: &Store, pages: u64) -> bool {
        let (used, most) = self.log_fill(store);
        used + pages <= most
    }

    /// Flushes the device; data written before the call is durable after it.
    pub(crate) fn flush_device(&self, store: &Store) -> Result<(), Error> {
        let covered = self.log.given.before_flush();
        store.device.flush()?;
        self.log.given.flushed(covered);
        Ok(())
    }

    /// Asks for a checkpoint when the log is nearly full (5 % left, S-10 and ReconFS section 4).
    fn note_log_fill(&self, store: &Store) {
        let (used, most) = self.log_fill(store);
        let free = most.saturating_sub(used);
        if free * 100 <= store.pool.log.pages * u64::from(store.life.options.log_free_percent) {
            self.checkpoints.wanted.set();
        }
    }
}

/// How cutting a group ended.
pub(crate) enum Cut {
    /// It is durable.
    Durable,
    /// The log has no room, or redo is damaged: a checkpoint must make everything durable.
    Full,
}

/// A group ready to be written.
pub(crate) struct Prepared {
    pub(crate) group: Group,
    /// Log pages it takes; more than the payload needs if nothing is compacted.
    pages: u64,
}

/// Log pages of a group of `payload` bytes that has the metablocks of `updates` whole instead of their ranges, within
/// S-8.10.
fn pages_uncompacted(payload: usize, updates: &Updates) -> u64 {
    let whole = payload - updates.bytes as usize + updates.pages as usize * PAGE;
    log::pages_of(whole).min(group_pages_max()).max(log::pages_of(payload))
}

impl Prepared {
    /// Log pages it takes.
    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }
}

#[cfg(test)]
mod tests;
