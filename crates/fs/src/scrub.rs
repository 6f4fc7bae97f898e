//! Scrubs of a volume: what is looked at, how fast, and what is known of the last one (SPEC section 19).
//!
//! Whoever has time calls [`Volume::scrub_turn`]: it does one slice and tells how long to wait for the next. A thread does
//! so for a mounted volume ([`run`]); tests do it themselves.
//!
//! Invariants:
//! V-1 A slice holds no lock but that of one inode, for 64 pages at most.
//! V-2 What a scrub knows when a slice ends is all that the next slice needs, here or in another life of the server.

mod arena;
mod data;
mod nodes;
mod pace;
mod record;
mod run;
mod work;

pub use data::DataPlace;
pub use record::{Phase, Record, State};
pub use work::{Frames, Wish};

use crate::Volume;
use crate::errors::Result;
use arena::Round;
use pace::Pace;
use parking_lot::Mutex;
use std::time::{Duration, Instant};
use work::Work;

pub(crate) use run::Scrubber;

/// When scrubs begin by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubOptions {
    /// The whole arena is looked at once in this time, spread over it; `None`: never.
    pub arena_every: Option<Duration>,
    /// Everything at rest is looked at when the last such scrub is so long ago; `None`: never.
    pub rest_every: Option<Duration>,
}

impl Default for ScrubOptions {
    fn default() -> ScrubOptions {
        ScrubOptions {
            arena_every: Some(Duration::from_secs(300)),
            rest_every: Some(Duration::from_secs(30 * 24 * 3600)),
        }
    }
}

/// Why a scrub cannot be told something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ScrubError {
    /// There is one already.
    #[error("a scrub is under way; `keepfs scrub status` shows it, `keepfs scrub cancel` ends it")]
    Running,
    /// There is none.
    #[error("no scrub is under way")]
    NotRunning,
    /// It waits to be resumed already.
    #[error("the scrub is paused already; `keepfs scrub resume` lets it go on, `keepfs scrub cancel` ends it")]
    Paused,
    /// It does not wait to be resumed.
    #[error("there is no scrub to resume")]
    NothingToResume,
    /// What it shall look at cannot be found.
    #[error("what the scrub shall look at cannot be found")]
    NothingThere,
}

/// What a volume knows of its scrubs.
pub(crate) struct Scrubs {
    now: Mutex<Now>,
    round: Mutex<Round>,
    /// When to begin by itself.
    options: ScrubOptions,
}

#[derive(Default)]
struct Now {
    record: Record,
    /// The rest of the one under way; made anew from the record in another life.
    work: Option<Work>,
    pace: Pace,
    /// What is still to be waited for before the next slice.
    owed: Duration,
    kept_at: Option<Instant>,
}

impl Now {
    /// How much of what is owed is waited for now: no longer than until somebody looks again whether it is still asked for.
    fn wait(&mut self) -> Duration {
        let wait = self.owed.min(IDLE);
        self.owed -= wait;
        self.record.active_ms += wait.as_millis() as u64;
        wait
    }
}

impl Scrubs {
    pub fn new(options: ScrubOptions) -> Scrubs {
        Scrubs {
            now: Mutex::default(),
            round: Mutex::default(),
            options,
        }
    }
}

/// The name of its record in the history.
const RECORD: &str = "scrub";
/// How often what is known of a scrub under way is kept.
const KEEP_EVERY: Duration = Duration::from_secs(5);
/// How long nobody looks whether there is something to do.
const IDLE: Duration = Duration::from_secs(1);

impl Volume {
    /// Begins a scrub. Errors: one is under way; there is nothing to look at.
    pub fn scrub_start(&self, wish: Wish) -> core::result::Result<(), ScrubError> {
        let mut now = self.scrubs.now.lock();
        if matches!(now.record.state, State::Running | State::Paused) {
            return Err(ScrubError::Running);
        }
        let record = Record {
            state: State::Running,
            started_s: self.now().sec,
            total_pages: self.scrub_total(&wish),
            limit: now.record.limit,
            rest_done_s: now.record.rest_done_s,
            phase: wish.first_phase(),
            wish,
            ..Record::default()
        };
        now.work = Some(Work::of(self, &record).map_err(|_| ScrubError::NothingThere)?);
        now.record = record;
        self.scrub_keep(&mut now);
        drop(now);
        self.scrubber.wake();
        Ok(())
    }

    /// Stops a scrub until it is resumed, in this life or another. Errors: none is running.
    pub fn scrub_pause(&self) -> core::result::Result<(), ScrubError> {
        if self.scrub_record().state == State::Paused {
            return Err(ScrubError::Paused);
        }
        self.scrub_becomes(State::Running, State::Paused, ScrubError::NotRunning)
    }

    /// A paused scrub goes on. Errors: none is paused.
    pub fn scrub_resume(&self) -> core::result::Result<(), ScrubError> {
        self.scrub_becomes(State::Paused, State::Running, ScrubError::NothingToResume)?;
        self.scrubber.wake();
        Ok(())
    }

    /// Ends a scrub. Errors: none is running or paused.
    pub fn scrub_cancel(&self) -> core::result::Result<(), ScrubError> {
        let paused = self.scrub_becomes(State::Paused, State::Canceled, ScrubError::NotRunning);
        paused.or_else(|_| self.scrub_becomes(State::Running, State::Canceled, ScrubError::NotRunning))
    }

    fn scrub_becomes(&self, from: State, to: State, or: ScrubError) -> core::result::Result<(), ScrubError> {
        let mut now = self.scrubs.now.lock();
        if now.record.state != from {
            return Err(or);
        }
        now.record.state = to;
        if to == State::Canceled {
            now.record.ended_s = self.now().sec;
            now.work = None;
            now.owed = Duration::ZERO;
        }
        self.scrub_keep(&mut now);
        Ok(())
    }

    /// Most bytes a second that a scrub reads from here on; 0: no limit.
    pub fn scrub_limit(&self, bytes_per_s: u64) {
        let mut now = self.scrubs.now.lock();
        now.record.limit = bytes_per_s;
        now.owed = Duration::ZERO;
        self.scrub_keep(&mut now);
    }

    /// What is known of the scrub under way, or of the last one.
    pub fn scrub_record(&self) -> Record {
        self.scrubs.now.lock().record.clone()
    }

    /// Does what is due now, one slice of it at most. How long to wait for the next.
    pub fn scrub_turn(&self) -> Duration {
        let mut now = self.scrubs.now.lock();
        if now.record.state != State::Running {
            self.scrub_if_due(&now.record.clone(), &mut now);
        }
        if now.record.state != State::Running {
            drop(now);
            return self.scrub_round();
        }
        if now.owed > Duration::ZERO {
            return now.wait();
        }
        let began = Instant::now();
        let read = self.scrub_slice(&mut now);
        let limit = now.record.limit;
        now.owed = now
            .pace
            .after(&self.store, read.as_ref().map_or(0, |pages| *pages), limit);
        if let Err(error) = &read {
            tracing::warn!(%error, "a scrub cannot go on; it is paused");
            now.record.state = State::Paused;
        }
        if now.record.state != State::Running {
            now.owed = Duration::ZERO;
        }
        now.record.active_ms += began.elapsed().as_millis() as u64;
        if now.kept_at.is_none_or(|at| at.elapsed() >= KEEP_EVERY) || now.record.state != State::Running {
            self.scrub_keep(&mut now);
        }
        now.wait()
    }

    /// One slice; pages read from the device.
    fn scrub_slice(&self, now: &mut Now) -> Result<u64> {
        let mut work = match now.work.take() {
            Some(work) => work,
            None => Work::of(self, &now.record)?,
        };
        let slice = work.step(self, &mut now.record)?;
        match slice.over {
            false => now.work = Some(work),
            true => self.scrub_ends(&mut now.record)?,
        }
        Ok(slice.pages)
    }

    /// Everything was looked at: what can be mended is written anew.
    fn scrub_ends(&self, record: &mut Record) -> Result<()> {
        if self.store.has_copies_to_write() && !self.is_read_only() {
            self.store.checkpoint()?;
        }
        record.state = State::Finished;
        record.ended_s = self.now().sec;
        // What is in use was known only about when it began.
        record.total_pages = record.pages();
        if record.wish.is_whole_rest() {
            record.rest_done_s = record.ended_s;
        }
        let (bad, lost) = (record.bad(), record.lost());
        match bad {
            0 => tracing::info!("a scrub ended and found nothing wrong"),
            _ => tracing::warn!(
                bad,
                lost,
                "a scrub ended and found damage; the damaged were told one by one"
            ),
        }
        Ok(())
    }

    /// Begins the scrub of everything at rest if it is due.
    fn scrub_if_due(&self, record: &Record, now: &mut Now) {
        let Some(every) = self.scrubs.options.rest_every else {
            return;
        };
        if record.state == State::Paused || self.is_read_only() {
            return;
        }
        let time = self.now().sec;
        let since = record.rest_done_s.max(self.store.pool().created_s);
        if time.saturating_sub(since) < i64::try_from(every.as_secs()).unwrap_or(i64::MAX) {
            return;
        }
        let wish = Wish {
            rest: true,
            ..Wish::default()
        };
        now.record = Record {
            state: State::Running,
            started_s: time,
            total_pages: self.scrub_total(&wish),
            limit: record.limit,
            rest_done_s: record.rest_done_s,
            phase: wish.first_phase(),
            wish,
            ..Record::default()
        };
        now.work = None;
    }

    /// How much a scrub will look at, pages and frames, from what is in use.
    fn scrub_total(&self, wish: &Wish) -> u64 {
        let frames = u64::from(self.store.arena_figures().0);
        let used = self.store.totals().pages;
        let rest = used.saturating_sub(self.store.pool().log.pages);
        u64::from(wish.arena) * frames + u64::from(wish.rest) * rest
    }

    fn scrub_keep(&self, now: &mut Now) {
        now.kept_at = Some(Instant::now());
        self.keep_record(&now.record.encode());
    }

    /// Takes up what another life of the server knew.
    pub(crate) fn scrub_take_up(&self) {
        if let Some(record) = self.kept_record().as_deref().and_then(Record::decode) {
            self.scrubs.now.lock().record = record;
        }
    }

    /// To where small records outlive the server (S-18.4).
    fn keep_record(&self, bytes: &[u8]) {
        if let Err(error) = self.store.history().put(RECORD, bytes) {
            tracing::debug!(%error, "what is known of the scrub ends with this server");
        }
    }

    fn kept_record(&self) -> Option<Vec<u8>> {
        self.store.history().get(RECORD)
    }
}

#[cfg(test)]
mod tests;
