//! Making transactions durable: groups cut from redo, one flush shared by all who wait.

use crate::error::Error;
use crate::events::{Done, Place, Seen, Told};
use crate::ladder::LogStart;
use crate::locks::{Condvar, Mutex};
use crate::log::{self, Head, Stamp};
use crate::redo::{Group, Piece, Redo, RedoDamage, Span, Spare, compact};
use crate::segment::RING;
use crate::stats::Updates;
use crate::{Store, UNFLUSHED_MAX};
use core::sync::atomic::{AtomicU64, Ordering};
use keepfs_format::PAGE;
use keepfs_format::metablock::HEADER;
use keepfs_format::plog::{self, FLAG_DATA_FLUSHED, Record};
use keepfs_format::superblock::Superblock;
use keepfs_media::Device;
use keepfs_vault::planted::{self, Bug};

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

/// The log's end in memory.
pub struct LogState {
    /// Where the next group goes.
    pub head: Head,
    /// Sequence number of the first page that recovery still needs.
    pub tail: u64,
    /// Where the log behind the checkpoint in force begins, for the witness (S-15.16).
    pub start: LogStart,
    /// Highest group whose flush returned.
    pub durable: u64,
    /// The `durable` that the last page written tells.
    pub told: u64,
    /// Last group written, flushed or not.
    pub written: u64,
    /// Last group written that transactions brought records, flushed or not: no other one may follow it before (S-8.11).
    pub with_records: u64,
    /// Last transaction written, flushed or not.
    pub written_seq: u64,
    /// Pages that the staged data of the last cut takes when it is carried over.
    pub carry: u64,
    /// Which life of the log.
    pub incarnation: u64,
    /// Generation of the superblock in force.
    pub base: u64,
    /// The page before the head was given up: no group goes there before a superblock leads past it (S-8.12).
    pub is_broken: bool,
    /// Writes that failed since one went well.
    pub failed: u32,
}

/// So many writes to the log in a row may fail (S-8.14).
const FAILED_MOST: u32 = 8;

impl LogState {
    /// Of a pool with this superblock and nothing behind it.
    pub fn of(sb: &Superblock) -> LogState {
        let head = Head {
            sequence: sb.log_seq.get(),
            group: sb.group.get(),
            chain: sb.chain.get(),
        };
        LogState {
            head,
            tail: head.sequence,
            start: LogStart::of(sb),
            durable: sb.durable.get(),
            told: sb.durable.get(),
            written: head.group - 1,
            with_records: 0,
            carry: 0,
            written_seq: sb.seq.get(),
            incarnation: sb.incarnation.get(),
            base: sb.generation.get(),
            is_broken: false,
            failed: 0,
        }
    }

    /// A write has failed, of pages up to `behind`. Returns whether they are given up; else the failure ends writing.
    pub fn give_up(&mut self, behind: u64, error: &Error) -> bool {
        self.failed += 1;
        if !error.is_device_io() || self.failed > FAILED_MOST {
            return false;
        }
        self.head.sequence = behind;
        self.is_broken = !planted::is(Bug::GivenUpSteppedOver);
        true
    }

    /// A write went well.
    pub fn wrote(&mut self) {
        self.failed = 0;
    }

    /// The next page goes on from no page of the log: only the superblock of `generation` leads to it (S-10.7, S-11.8).
    pub fn begin_chain(&mut self, generation: u64) {
        self.head.chain = log::begun_anew(self.head.chain, generation);
    }
}

/// Bytes of data given to the device, since the store was opened.
#[derive(Default)]
pub struct Given {
    all: AtomicU64,
    flushed: AtomicU64,
}

impl Given {
    /// More of them.
    pub fn add(&self, bytes: u64) {
        self.all.fetch_add(bytes, Ordering::AcqRel);
    }

    /// So many that no flush has covered.
    pub fn unflushed(&self) -> u64 {
        let flushed = self.flushed.load(Ordering::Acquire);
        self.all.load(Ordering::Acquire) - flushed
    }

    /// A flush begins: what it covers, for [`Given::flushed`]. Two may be under way at one time.
    fn before_flush(&self) -> u64 {
        self.all.load(Ordering::Acquire)
    }

    /// The flush that covers so many has returned.
    fn flushed(&self, covered: u64) {
        self.flushed.fetch_max(covered, Ordering::AcqRel);
    }
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
    /// Makes everything committed so far durable: at most one group and one flush, shared with whoever waits too.
    pub fn sync(&self) -> Result<(), Error> {
        let target = self.redo.lock().last;
        loop {
            self.alive()?;
            let Some(lead) = self.sync.wait_or_lead(target) else {
                return self.alive();
            };
            match self.cut_and_flush() {
                Ok(Cut::Durable) => {
                    drop(lead);
                    self.note_log_fill();
                }
                Ok(Cut::Full) => {
                    drop(lead);
                    self.checkpoint()?;
                }
                Err(e) => return Err(self.fail(e)),
            }
        }
    }

    /// One group of all that is committed, and a flush. The caller leads.
    pub(crate) fn cut_and_flush(&self) -> Result<Cut, Error> {
        // Who led before may have failed with what it had cut: a group behind that would leave it out (S-15.27).
        self.alive()?;
        let pending = self.cut(&mut self.redo.lock());
        if !pending.is_empty() {
            let group = self.unless_redo_is_damaged(self.prepare(&pending))?;
            let group = group.filter(|group| self.log_has_room(group.pages()));
            if !self.write_whole_group(group)? {
                self.redo.lock().give_back(pending);
                return Ok(Cut::Full);
            }
        }
        self.flush_log().map(|()| Cut::Durable)
    }

    /// Takes all redo for a group. Under the lock of redo, so that each transaction is before the cut with its number, its
    /// allocations and its frees, or behind it with all of them (S-11.2).
    pub(crate) fn cut(&self, redo: &mut Redo) -> Span {
        if !planted::is(Bug::YoungForever) {
            self.space.cut();
        }
        self.log.lock().carry = carry_pages(self.staged_weight.pages());
        redo.take()
    }

    /// Compacts and verifies: every entry must be what its checksum says (S-14.4), and every frame that the group touches
    /// what its rolling checksum says (C-3).
    pub(crate) fn prepare(&self, pending: &Span) -> Result<Prepared, Error> {
        let mut buffer = self.sync.spare.take(Piece::Whole);
        let read = pending.records(&self.segment, &mut buffer);
        let (records, count) = read.map_err(|RedoDamage { seq }| Error::Redo { seq })?;
        let seq = pending.last();
        let spare = &self.sync.spare;
        let payload = spare.take(Piece::Payload);
        let group = spare.with_work(|work| compact(seq, records, count, payload, work));
        let mut group = group.ok_or(Error::Redo { seq })?;
        self.sync.spare.give(Piece::Whole, buffer);
        if planted::is(Bug::GroupFromFrames) || planted::is(Bug::TailDropped) {
            self.spoil(&mut group);
        }
        let mut copy = [0; PAGE];
        for (id, _) in &group.touched {
            if let Some(pin) = self.cache.pin(*id) {
                self.unless_fenced(self.verified_copy(&pin, &mut copy))?;
            }
        }
        let pages = match self.options.compact {
            true => log::pages_of(group.payload.len()),
            false => pages_uncompacted(group.payload.len(), &group.updates),
        };
        Ok(Prepared { group, pages })
    }

    /// `None`: redo is not what its checksum says, so this group is not written; a checkpoint, which needs no redo, makes
    /// durable what it should hold (S-14.4).
    pub(crate) fn unless_redo_is_damaged(&self, prepared: Result<Prepared, Error>) -> Result<Option<Prepared>, Error> {
        match prepared {
            Ok(prepared) => Ok(Some(prepared)),
            Err(Error::Redo { seq }) => {
                self.tell_of(&Told {
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
    fn spoil(&self, group: &mut Group) {
        let Ok(mut records) = plog::decode(&group.payload) else {
            return;
        };
        match planted::is(Bug::GroupFromFrames) {
            true => self.cut_from_frames(&mut records),
            false => {
                let last = records.iter().rposition(|r| matches!(r, Record::Tail { .. }));
                last.map(|at| records.remove(at));
            }
        }
        group.payload = log::encode(records);
    }

    /// The ranges are replaced by whole frames as they are now.
    fn cut_from_frames(&self, records: &mut [Record]) {
        for record in records {
            let Record::Update { id, ranges, .. } = record else {
                continue;
            };
            if let Some(pin) = self.cache.pin(*id) {
                let mut bytes = vec![0; PAGE - HEADER];
                self.arena.load_raw(pin.frame, HEADER, &mut bytes);
                *ranges = vec![(HEADER as u16, bytes)];
            }
        }
    }

    /// Writes a prepared group, if there is one that fits, and keeps the memory that it was made in. `false`: it is not in the
    /// log.
    pub(crate) fn write_whole_group(&self, prepared: Option<Prepared>) -> Result<bool, Error> {
        let Some(prepared) = prepared.filter(|_| !self.log.lock().is_broken) else {
            return Ok(false);
        };
        let written = self.write_group(&prepared)?;
        self.sync.spare.give(Piece::Payload, prepared.group.payload);
        Ok(written)
    }

    /// Writes a prepared group at the head of the log, without flush. The caller leads. `false`: a page of it was given up
    /// (S-8.12).
    fn write_group(&self, prepared: &Prepared) -> Result<bool, Error> {
        let mut flags = 0;
        if self.given.unflushed() > UNFLUSHED_MAX {
            self.flush_device()?;
            flags = FLAG_DATA_FLUSHED;
        }
        let mut state = self.log.lock();
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
        let log = &self.pool.log;
        let mut buffer = self.sync.spare.take(Piece::Whole);
        let payload = &prepared.group.payload;
        let pages = log::append_pages(
            &*self.device,
            log,
            &mut head,
            &stamp,
            payload,
            prepared.pages,
            &mut buffer,
        );
        self.sync.spare.give(Piece::Whole, buffer);
        let pages = match pages {
            Err(error) if state.give_up(head.sequence, &error) => {
                drop(state);
                self.tell_given_up(before.group, &error);
                if planted::is(Bug::GivenUpSteppedOver) {
                    return self.write_group(prepared);
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
        self.stats.persisted(group.payload.len(), pages, &group.updates);
        Ok(true)
    }

    /// A page of a group could not be written (S-8.12).
    pub(crate) fn tell_given_up(&self, group: u64, error: &Error) {
        self.tell_of(&Told {
            place: Place::Log(group),
            seen: &Seen::Medium,
            done: Done::Dropped,
            owner: 0,
            inodes: &[],
            window_ms: None,
            more: format!("{error}; a checkpoint makes durable what it should hold, and the log goes on behind it"),
        });
        self.want_checkpoint();
    }

    /// After a while without syncs: an empty group tells that the last one was flushed, so that recovery takes it as
    /// it is (S-9.2). It needs no flush itself. If somebody is cutting a group, that one tells it.
    pub fn write_durable(&self) -> Result<(), Error> {
        let Some(lead) = self.sync.try_lead() else {
            return Ok(());
        };
        self.alive()?;
        let seq = {
            let state = self.log.lock();
            if state.told >= state.durable || state.is_broken || self.is_read_only() {
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
        if self.log_has_room(1) {
            self.write_group(&empty).map_err(|e| self.fail(e))?;
        }
        drop(lead);
        Ok(())
    }

    /// Flushes; everything up to the last transaction written is durable then. The caller leads.
    pub(crate) fn flush_log(&self) -> Result<(), Error> {
        let (group, seq) = {
            let state = self.log.lock();
            (state.written, state.written_seq)
        };
        self.flush_device()?;
        self.stats.flushes.fetch_add(1, Ordering::Relaxed);
        let mut state = self.log.lock();
        state.durable = state.durable.max(group);
        drop(state);
        self.release_up_to(seq);
        self.sync.reached(seq);
        self.wanted.flushed();
        Ok(())
    }

    /// Frees pages and numbers whose free is durable (S-11.1).
    pub(crate) fn release_up_to(&self, seq: u64) {
        let released = self.space.release(seq);
        self.note_released(&released);
        self.nodes.release(seq);
        self.inos.release(seq);
        self.redo.lock().release(seq);
    }

    /// Whether a group of `pages` pages fits and leaves room for staged pages to be carried over (S-10.8).
    pub(crate) fn log_has_room(&self, pages: u64) -> bool {
        let (used, most) = self.log_fill();
        used + pages <= most
    }

    /// Flushes the device; data written before the call is durable after it.
    pub(crate) fn flush_device(&self) -> Result<(), Error> {
        let covered = self.given.before_flush();
        self.device.flush()?;
        self.given.flushed(covered);
        Ok(())
    }

    /// Asks for a checkpoint when the log is nearly full (5 % left, S-10 and ReconFS section 4).
    fn note_log_fill(&self) {
        let (used, most) = self.log_fill();
        let free = most.saturating_sub(used);
        if free * 100 <= self.pool.log.pages * u64::from(self.options.log_free_percent) {
            self.want_checkpoint();
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
