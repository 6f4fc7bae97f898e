//! A metablock as the device tells it: its last durable page with the log since (the first half of the witness, L-2).

use crate::newborn::{dead_since, newborn, zero_kind};
use crate::{Flash, Store};
use keepfs_flash::log::{self, Head};
use keepfs_format::bitmap::{self, BITS, COUNTS};
use keepfs_format::plog::{self, Record, Run};
use keepfs_format::superblock::Superblock;
use keepfs_format::{FromBytes, Header, Kind, MetaId, Space};
use keepfs_vault::arena;
use keepfs_vault::planted::{self, Rung};
use std::time::Duration;

/// Where the log behind the checkpoint in force begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogStart {
    /// Its first page.
    pub head: Head,
    /// Last transaction before it.
    pub seq: u64,
    /// Which life of the log.
    pub incarnation: u64,
    /// Generation of the superblock.
    pub base: u64,
}

impl LogStart {
    /// As a superblock tells it.
    pub fn of(sb: &Superblock) -> LogStart {
        LogStart {
            head: Head {
                sequence: sb.log_seq.get(),
                group: sb.group.get(),
                chain: sb.chain.get(),
            },
            seq: sb.seq.get(),
            incarnation: sb.incarnation.get(),
            base: sb.generation.get(),
        }
    }
}

/// The content of a metablock after some transaction.
pub(crate) struct Past {
    /// `None`: it does not exist then.
    pub content: Option<arena::Copy>,
    /// That transaction.
    pub seq: u64,
}

impl Past {
    /// Applies a record that concerns metablock `id` (S-8.5). Records are of logs and redo that were checked.
    pub fn apply(&mut self, tag: u32, id: MetaId, record: &Record) {
        match record {
            Record::Update {
                id: of,
                generation,
                ranges,
            } if *of == id => self.update(*generation, ranges),
            Record::Birth {
                id: of,
                generation,
                kind,
                level,
                owner,
            } => {
                if *of == id
                    && let Some(kind) = Kind::of(*kind)
                {
                    self.content = Some(newborn(&Header::new(tag, id, kind, *level, *owner, *generation)));
                }
                self.bits(id, Space::NodeNumbers, one(of.index()), true);
            }
            Record::Death { id: of, generation } => {
                if *of == id {
                    self.death(tag, id, *generation);
                }
                if of.space() == Some(Space::Nodes) {
                    self.bits(id, Space::NodeNumbers, one(of.index()), false);
                }
            }
            Record::Alloc { space, run } => self.bits(id, *space, *run, true),
            Record::Free { space, run } => self.bits(id, *space, *run, false),
            Record::Ref { run, delta } => self.shares(id, *run, *delta),
            _ => {}
        }
    }

    fn generation(&self) -> Option<u32> {
        let (header, _) = Header::read_from_prefix(&self.content.as_ref()?[..]).ok()?;
        Some(header.generation.get())
    }

    fn update(&mut self, generation: u32, ranges: &[(u16, Vec<u8>)]) {
        if self.generation() != Some(generation) {
            return;
        }
        let Some(content) = &mut self.content else { return };
        for (offset, bytes) in ranges {
            if let Some(to) = content.get_mut(usize::from(*offset)..usize::from(*offset) + bytes.len()) {
                to.copy_from_slice(bytes);
            }
        }
    }

    fn death(&mut self, tag: u32, id: MetaId, generation: u32) {
        if self.generation() != Some(generation) {
            return;
        }
        self.content = zero_kind(id)
            .filter(|kind| *kind == Kind::Inodes)
            .map(|kind| reborn(tag, id, kind, generation));
    }

    fn bits(&mut self, id: MetaId, space: Space, run: Run, on: bool) {
        if id.space() != Some(space) {
            return;
        }
        let Some(content) = &mut self.content else { return };
        let own = id.index() * BITS..(id.index() + 1) * BITS;
        let (from, to) = (
            run.start.max(own.start),
            (run.start + u64::from(run.count)).min(own.end),
        );
        for number in from..to {
            let (_, offset, mask) = bitmap::bit(space, number);
            match on {
                true => content[offset] |= mask,
                false => content[offset] &= !mask,
            }
        }
    }

    fn shares(&mut self, id: MetaId, run: Run, delta: i32) {
        if id.space() != Some(Space::Shares) {
            return;
        }
        let Some(content) = &mut self.content else { return };
        let own = id.index() * COUNTS..(id.index() + 1) * COUNTS;
        let (from, to) = (
            run.start.max(own.start),
            (run.start + u64::from(run.count)).min(own.end),
        );
        for page in from..to {
            let (_, at) = bitmap::share(page);
            let count = u16::from_le_bytes([content[at], content[at + 1]]);
            content[at..at + 2].copy_from_slice(&count.wrapping_add_signed(delta as i16).to_le_bytes());
        }
    }
}

fn one(start: u64) -> Run {
    Run { start, count: 1 }
}

/// What a metablock of inodes holds behind its death in `generation` (S-3.3).
fn reborn(tag: u32, id: MetaId, kind: Kind, generation: u32) -> arena::Copy {
    let mut bytes = newborn(&Header::new(tag, id, kind, 0, 0, generation.wrapping_add(1).max(1)));
    dead_since(&mut bytes, generation);
    bytes
}

/// Why the witness tells nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Untold {
    /// A part of it is damaged or missing.
    Nothing,
    /// What it is read from moved on meanwhile: a checkpoint came, a group was being written, redo was given up.
    Moved,
}

/// How often the witness is asked if what it is read from moves on, and how long the log gets for the group that it is writing.
const ASKED: u32 = 16;
const GROUP: Duration = Duration::from_millis(1);

/// What the witness tells, asked until it is read from what stands still (S-15.16).
pub(crate) fn told<T>(mut ask: impl FnMut() -> Result<T, Untold>) -> Option<T> {
    for _ in 0..ASKED {
        match ask() {
            Ok(told) => return Some(told),
            Err(Untold::Nothing) => return None,
            Err(Untold::Moved) => std::thread::sleep(GROUP),
        }
    }
    None
}

impl Flash {
    /// What the device has of a metablock.
    pub(crate) fn past(&self, store: &Store, id: MetaId) -> Result<Past, Untold> {
        self.past_until(store, id, u64::MAX)
    }

    /// The same behind transaction `up_to`, with which a group ends.
    pub(super) fn past_until(&self, store: &Store, id: MetaId, up_to: u64) -> Result<Past, Untold> {
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
            .locate(store, id)
            .and_then(|entry| self.content_at_home(store, id, entry));
        let Ok(content) = content else {
            return Err(if stands_still() { Untold::Nothing } else { Untold::Moved });
        };
        let mut past = Past {
            content: content.map(|(bytes, _)| bytes),
            seq: start.seq,
        };
        if !planted::ignores(Rung::LogIgnored) {
            let logged = self.each_logged(store, &start, up_to, |record| past.apply(store.pool.tag, id, record))?;
            past.seq = past.seq.max(logged);
        }
        match stands_still() {
            true => Ok(past),
            false => Err(Untold::Moved),
        }
    }

    /// The log behind the checkpoint in force, up to transaction `up_to`: its records in their order, and the last transaction.
    /// Errors: `Moved`, if a checkpoint came meanwhile, too.
    pub(crate) fn logged(&self, store: &Store, up_to: u64, each: impl FnMut(&Record)) -> Result<u64, Untold> {
        if !self.log.is_witnessed.load(core::sync::atomic::Ordering::Acquire) {
            return Err(Untold::Nothing);
        }
        let start = self.log.end.lock().start;
        let logged = self.each_logged(store, &start, up_to, each)?;
        match self.log.end.lock().start.base == start.base {
            true => Ok(logged),
            false => Err(Untold::Moved),
        }
    }

    fn each_logged(
        &self,
        store: &Store,
        start: &LogStart,
        up_to: u64,
        mut each: impl FnMut(&Record),
    ) -> Result<u64, Untold> {
        let before = log::Before {
            incarnation: start.incarnation,
            bases: start.base.saturating_sub(1)..start.base + 1,
            seq: start.seq,
            durable: 0,
        };
        // A page that does not continue the log may be one of the group that is being written.
        let scan = log::scan(&*store.device, &store.pool.log, start.head, &before).map_err(|_| Untold::Moved)?;
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
}
