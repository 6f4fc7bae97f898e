//! The log's end in memory, and what is not in the log yet.

use super::{Sync, carry_room};
use crate::cutter::Cutter;
use crate::error::Error;
use crate::log::{self, Head};
use crate::past::LogStart;
use crate::redo::Redo;
use crate::segment::Segment;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use keepfs_format::superblock::Superblock;
use keepfs_vault::Padded;
use keepfs_vault::locks::{Awaited, Mutex};
use keepfs_vault::planted::{self, Bug};
use std::sync::{Arc, OnceLock};

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
    pub fn before_flush(&self) -> u64 {
        self.all.load(Ordering::Acquire)
    }

    /// The flush that covers so many has returned.
    pub fn flushed(&self, covered: u64) {
        self.flushed.fetch_max(covered, Ordering::AcqRel);
    }
}

/// A log that was applied in memory, or there was none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenLog {
    /// The sequence number behind its last page.
    pub sequence: u64,
    /// The number of the next group.
    pub group: u64,
    /// Transactions that only the redo of a dead server had.
    pub owed: u64,
}

/// The log, and the redo that is not in it yet.
pub struct Log {
    /// Guarded memory of redo and staged pages (S-14).
    pub segment: Arc<Segment>,
    /// Redo of committed transactions.
    pub redo: Padded<Awaited<Redo>>,
    /// Who makes it durable.
    pub sync: Sync,
    /// Where the log ends.
    pub end: Awaited<LogState>,
    /// Data that the device has and may not have flushed.
    pub given: Padded<Given>,
    /// The thread that makes redo durable before its ring is full.
    pub cutter: Arc<Cutter>,
    /// Log pages that the most staged pages take when they are carried over (S-10.8).
    pub carry_room: u64,
    /// The log that a read-only opening applied in memory.
    pub seen: Mutex<Option<SeenLog>>,
    /// Where it was cut when the pool was opened (S-9.7).
    pub cut: OnceLock<log::Cut>,
    /// Which pages of it were bad and mended then (S-9.11, S-9.24).
    pub mended: OnceLock<Vec<log::Mended>>,
    /// Redo and undo tell all that frames have beyond the log: not while a recovery applies it.
    pub is_witnessed: AtomicBool,
}

impl Log {
    /// Of a pool with this superblock and nothing behind it; `staged_most` pages may be staged.
    pub fn of(sb: &Superblock, segment: Arc<Segment>, staged_most: usize) -> Log {
        Log {
            redo: Padded::new(Awaited::new(Redo::new(segment.clone(), sb.seq.get()))),
            segment,
            sync: Sync::default(),
            end: Awaited::new(LogState::of(sb)),
            given: Padded::default(),
            cutter: Arc::default(),
            carry_room: carry_room(staged_most),
            seen: Mutex::default(),
            cut: OnceLock::new(),
            mended: OnceLock::new(),
            is_witnessed: AtomicBool::new(false),
        }
    }
}
