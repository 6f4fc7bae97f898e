//! The second life of a mounted pool: a restarted server finishes the sync that the dead one owed, and recovers as after a
//! power cut (SPEC section 16; decision 0520).
//!
//! Invariants:
//! Z-1 Of the dead server's memory only redo, requests and lookup counts are used, each by its own checksum or rule; the
//!     arena is evidence.
//! Z-2 A death anywhere in here repeats it with the same memory and comes to the same state: the memory that the keeper
//!     holds changes only in ways that say the same again, and the device by the recovery's checkpoint alone.
//! Z-3 Where a mount for writing would be refused for what all share (S-9.22), or the device does not take what the resume
//!     writes (S-16.33), the pool is read: who has it mounted has a server.

mod evidence;

pub use evidence::Evidence;

use crate::error::Error;
use crate::home::Home;
use crate::mmp::{self, claim::Why};
use crate::remains::{ARENA, PARITY, REQUESTS, SESSION, STAGING, SUMS};
use crate::requests::{Left, Met};
use crate::{Pool, Protection, Remains, Store, StoreOptions};
use keepfs_flash::adopted::{self, Adopted};
use keepfs_flash::redo::ENTRIES_MAX;
use keepfs_flash::segment::Segment;
use keepfs_media::Device;
use keepfs_vault::arena::Arena;
use keepfs_vault::planted::{self, Bug, Point, Second};
use keepfs_vault::undo::UndoLog;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A request that the dead server had executed and perhaps not answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answered {
    /// The kernel's number of it, without the resend bit.
    pub unique: u64,
    /// The inode that its reply names.
    pub ino: Option<u64>,
}

/// What the parts of a resume took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parts {
    /// Mapping what was left, and the flush before anything is read.
    pub adopt: Duration,
    /// Rolling the old arena back.
    pub roll_back: Duration,
    /// Log and redo.
    pub recover: Duration,
    /// The checkpoint behind them: write, flush, superblock, flush.
    pub checkpoint: Duration,
    /// Looking at every frame of the old arena.
    pub evidence: Duration,
    /// Requests and lookup counts.
    pub requests: Duration,
    /// What the floor above does: the hidden list.
    pub volume: Duration,
}

impl Parts {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.adopt + self.roll_back + self.recover + self.checkpoint + self.evidence + self.requests + self.volume
    }
}

/// What a resume found and did.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Resumed {
    /// Transactions that were acknowledged, perhaps, and could not be recovered: the redo ring was damaged. 0: nothing is
    /// lost.
    pub lost: u64,
    /// Transactions that were open, and are as if they had never begun.
    pub open: usize,
    /// Transactions committed beyond the log.
    pub beyond: u64,
    /// What was wrong in the memory that the dead server left.
    pub findings: Vec<Evidence>,
    /// Requests that were executed; see [`Store::request_again`].
    pub answered: Vec<Answered>,
    /// Requests that were begun and not executed, and in how many lives.
    pub begun: Vec<(u64, u32)>,
    /// The device failed, in the life before or when this one was to write: it does not write.
    pub device_failed: bool,
    /// How long it took.
    pub parts: Parts,
}

/// What could be mapped of what a dead server left.
struct Dead {
    undo: Option<UndoLog>,
    arena: Option<Arena>,
    adopted: Option<Adopted>,
    requests: Option<Left>,
    /// The segment whose header is lost: nothing of it is used, but for what its ring shows (S-14.17).
    headless: Option<Segment>,
}

impl Dead {
    fn adopt(mut remains: Remains, options: &StoreOptions, code: Protection, findings: &mut Vec<Evidence>) -> Dead {
        let guard = options.guard;
        let mut twice = Vec::new();
        let mut right = |what: &'static str, result: Option<Result<(), Error>>| match result {
            Some(Ok(())) => {}
            Some(Err(error)) => findings.push(Evidence::Memory(what, error.to_string())),
            None => findings.push(Evidence::Memory(what, "it is missing".into())),
        };
        let undo = remains.take(SESSION).map(|memory| UndoLog::adopt(memory, guard, false));
        let (undo, told) = apart(undo);
        right(SESSION, told);
        let staging = remains.take(STAGING);
        let again = staging.as_ref().and_then(|memory| memory.try_clone().ok());
        let adopted = staging.map(|memory| Adopted::new(memory, guard, undo.as_ref()));
        let (adopted, told) = apart(adopted);
        right(STAGING, told);
        let incarnation = adopted.as_ref().map(Adopted::incarnation);
        let requests = remains
            .take(REQUESTS)
            .map(|memory| Left::adopt(memory, guard, incarnation));
        let (requests, told) = apart(requests);
        right(REQUESTS, told);
        let again = again.filter(|_| adopted.is_none()).zip(requests.as_ref());
        let headless = again.and_then(|(memory, left)| Segment::headless(memory, guard, left.incarnation).ok());
        let changed = adopted.iter().flat_map(Adopted::changed);
        let changed = changed.map(|(what, is_known)| Evidence::Twice(STAGING, what, is_known));
        let header = requests.as_ref().is_some_and(|left| left.header_changed);
        let header = header.then_some(Evidence::Twice(REQUESTS, "header", true));
        let layout = undo
            .as_ref()
            .filter(|undo| undo.is_readable() && !undo.is_layout_whole());
        let layout = layout.map(|_| Evidence::Twice(SESSION, "layout", true));
        twice.extend(changed.chain(header).chain(layout));
        let frames = [ARENA, SUMS, PARITY].map(|name| remains.take(name));
        // The superblock may have another one by now (S-2.9).
        let code = adopted.as_ref().and_then(Adopted::code).unwrap_or(code);
        let arena = match frames {
            // What its open transactions had changed is not known (S-13.2).
            _ if undo.as_ref().is_some_and(|undo| !undo.is_readable()) => {
                let why = "the layout of its undo records is not known: another version's server, or stray writes";
                Some(Err(Error::Damaged(why.into())))
            }
            [Some(frames), Some(sums), Some(parity)] => {
                Some(Arena::adopt([frames, sums, parity], guard, code).map_err(Error::from))
            }
            _ => None,
        };
        let (arena, told) = apart(arena);
        right(ARENA, told);
        findings.extend(twice);
        Dead {
            undo,
            arena,
            adopted,
            requests,
            headless,
        }
    }

    /// Whether all that the segment had which is not used is in a log that has `logged`, as far as anything of it tells (S-14.17).
    fn shows_none_beyond(&self, logged: u64) -> bool {
        let numbered = self.undo.as_ref().and_then(UndoLog::last_numbered);
        let headless = self.headless.as_ref();
        headless.is_some_and(|segment| adopted::shows_none_beyond(segment, numbered, logged))
    }
}

/// The value, and whether there is one.
fn apart<T, E: Into<Error>>(result: Option<Result<T, E>>) -> (Option<T>, Option<Result<(), Error>>) {
    match result {
        Some(Ok(value)) => (Some(value), Some(Ok(()))),
        Some(Err(error)) => (None, Some(Err(error.into()))),
        None => (None, None),
    }
}

/// See [`Store::resume`].
pub(crate) fn resume(
    device: Arc<dyn Device>,
    options: &StoreOptions,
    remains: Remains,
    mut raise: impl FnMut(u64),
) -> Result<(Arc<Store>, Resumed), Error> {
    let again = remains.duplicate()?;
    let mut claim = |options: &StoreOptions, remains, unwritten: Option<&Error>| {
        let resume = |device| resume_or_read(device, options, remains, unwritten, &mut raise);
        mmp::claimed(device.clone(), options.claimant(), Why::Succeed, resume)
    };
    let claimed = match claim(options, remains, None) {
        // It cannot be shown whose the pool is (S-16.33).
        Err(why) if why.is_unwritten() && !options.read_only => {
            tracing::error!(error = %why, "the pool is read-only from here on: it cannot be claimed");
            claim(&for_reading(options), again, Some(&why)).map_err(|_| why)
        }
        claimed => claimed,
    };
    let ((mut store, resumed), guard) = claimed?;
    store.life.mmp = guard;
    let options = StoreOptions {
        read_only: store.ground.is_read_only(),
        ..options.clone()
    };
    Ok((store.start(&options)?, resumed))
}

fn for_reading(options: &StoreOptions) -> StoreOptions {
    StoreOptions {
        read_only: true,
        ..options.clone()
    }
}

/// A resume that reads where it may not or cannot write (S-16.6, S-16.33). `unwritten`: why it cannot, if that is known.
fn resume_or_read(
    device: Arc<dyn Device>,
    options: &StoreOptions,
    remains: Remains,
    unwritten: Option<&Error>,
    mut raise: impl FnMut(u64),
) -> Result<(Store, Resumed), Error> {
    let again = remains.duplicate()?;
    let why = match resume_as(device.clone(), options, remains, unwritten, &mut raise) {
        Err(why) if !options.read_only && why.ends_writing_of_a_resume() => why,
        resumed => return resumed,
    };
    let unwritten = Some(&why).filter(|why| why.is_unwritten());
    let resumed = resume_as(device, &for_reading(options), again, unwritten, &mut raise).map_err(|_| why.clone())?;
    match resumed.0.frames.fences.has_what_writers_need() {
        Err(missing) => resumed.0.end_writing(missing),
        Ok(()) if unwritten.is_some() => {}
        Ok(()) => return Err(why),
    }
    Ok(resumed)
}

fn resume_as(
    device: Arc<dyn Device>,
    options: &StoreOptions,
    remains: Remains,
    unwritten: Option<&Error>,
    mut raise: impl FnMut(u64),
) -> Result<(Store, Resumed), Error> {
    let mut resumed = Resumed::default();
    let mut clock = Lap::begin();
    let inherited = remains.duplicate()?;
    let findings = remains.findings().to_vec();
    let code = options.protect.unwrap_or(Pool::on(&*device)?.protect);
    let mut dead = Dead::adopt(remains, options, code, &mut resumed.findings);
    resumed.device_failed = dead.has_failed(&*device, options, unwritten);
    let options = StoreOptions {
        lasting: true,
        read_only: options.read_only || resumed.device_failed,
        ..options.clone()
    };
    resumed.parts.adopt = clock.lap();
    planted::step(Point::Adopted);
    let half_done = evidence::roll_back(&dead.arena, &dead.undo, &mut resumed);
    resumed.parts.roll_back = clock.lap();
    planted::step(Point::RolledBack);
    let opened = Home::recover(device, &options, dead.adopted.as_mut())?;
    let (mut store, logged) = (opened.store, opened.logged);
    store.ground.events.history.adopt(&findings);
    resumed.parts.recover = clock.lap_at(opened.replayed);
    resumed.parts.checkpoint = clock.lap();
    planted::step(Point::Recovered);
    let last = store.home.redo().lock().last;
    resumed.beyond = last.saturating_sub(logged);
    resumed.lost = match &dead.adopted {
        Some(adopted) => adopted.lost(logged),
        None => {
            let most = logged.saturating_add(ENTRIES_MAX);
            let told = dead.undo.as_ref().map_or(0, |undo| undo.last_told(most));
            let least = u64::from(!dead.shows_none_beyond(logged));
            told.saturating_sub(logged).max(least)
        }
    };
    // A life that nobody has heard of may have written more to the log than this memory knows.
    let is_last = |adopted: &&Adopted| resumed.lost == 0 && logged <= adopted.last_seq();
    if let Some(adopted) = dead.adopted.as_ref().filter(is_last) {
        evidence::compare_staged(&store, adopted, &mut resumed.findings);
    }
    if let Some(arena) = dead.arena.as_ref().filter(|_| dead.undo.is_some()) {
        evidence::look(&store, arena, &half_done, &mut resumed.findings);
    }
    resumed.parts.evidence = clock.lap();
    let met = dead.met(last, &mut resumed);
    carry(&store, met, dead.requests.as_ref(), &mut raise);
    // Where the device has all that the last memory had, this life's own will do.
    if options.read_only && (resumed.beyond > 0 || resumed.lost > 0 || resumed.device_failed) {
        store.life.inherited = Some(inherited);
    }
    if resumed.device_failed {
        let before = "the device failed in the life before; unmount the pool and mount it again";
        let why = unwritten.cloned().unwrap_or_else(|| Error::ReadOnly(before.into()));
        store.ground.ending.writes_no_more(why);
    }
    planted::step(Point::Carried);
    resumed.parts.requests = clock.lap();
    for finding in &resumed.findings {
        evidence::tell(&store, finding);
    }
    if resumed.lost > 0 {
        let by_log = dead.adopted.as_ref().is_some_and(|adopted| adopted.lacks(logged));
        evidence::tell_lost(&store, resumed.lost, by_log);
    }
    resumed.tell();
    Ok((store, resumed))
}

/// Carries the requests of earlier lives on, their lookups counted.
fn carry(store: &Store, mut met: Vec<Met>, left: Option<&Left>, raise: &mut impl FnMut(u64)) {
    for met in met.iter_mut().filter(|met| met.done && !met.raised) {
        raise(met.ino);
        met.raised = true;
        if let Some(left) = left {
            left.note_raised(met.unique);
        }
    }
    if planted::forgets(Second::CarryOmitted) {
        met.retain(|met| !met.done);
    }
    if let Some(requests) = &store.life.requests {
        requests.carry(met);
    }
}

impl Dead {
    /// Whether the device had failed in the life before, or fails now to flush what that life wrote: what is read is believed
    /// to be durable, and who is told of a failed flush is told once (S-9.23). So that is noted before anything is read, in the
    /// memory that outlives this life too, and so is a write of this resume that failed (`unwritten`).
    fn has_failed(&self, device: &dyn Device, options: &StoreOptions, unwritten: Option<&Error>) -> bool {
        let Some(adopted) = &self.adopted else {
            return unwritten.is_some();
        };
        if unwritten.is_some() {
            adopted.note_device_failed();
        }
        if adopted.device_failed() || options.read_only || planted::is(Bug::NoFlushBeforeRecovery) {
            return adopted.device_failed();
        }
        let Err(error) = device.flush() else { return false };
        tracing::error!(%error, "what the server before wrote cannot be made durable");
        adopted.note_device_failed();
        true
    }

    /// The requests of the lives before.
    fn met(&self, last: u64, resumed: &mut Resumed) -> Vec<Met> {
        let (Some(requests), Some(undo)) = (&self.requests, &self.undo) else {
            return Vec::new();
        };
        let (met, damaged) = requests.met(undo, last);
        resumed.findings.extend(damaged.into_iter().map(Evidence::Request));
        for met in &met {
            match met.done {
                true => resumed.answered.push(Answered {
                    unique: met.unique,
                    ino: (met.ino != 0).then_some(met.ino),
                }),
                false => resumed.begun.push((met.unique, met.attempts)),
            }
        }
        resumed.answered.sort_unstable_by_key(|answered| answered.unique);
        resumed.begun.sort_unstable();
        met
    }
}

impl Resumed {
    /// As events.
    fn tell(&self) {
        tracing::info!(
            open = self.open,
            beyond = self.beyond,
            answered = self.answered.len(),
            pause = ?self.parts.total(),
            "resumed after the server died"
        );
    }
}

/// Measures one part after another.
struct Lap(Instant);

impl Lap {
    fn begin() -> Lap {
        Lap(Instant::now())
    }

    fn lap(&mut self) -> Duration {
        self.lap_at(Instant::now())
    }

    /// A part that ended `at`.
    fn lap_at(&mut self, at: Instant) -> Duration {
        at - core::mem::replace(&mut self.0, at)
    }
}

#[cfg(test)]
mod tests;
