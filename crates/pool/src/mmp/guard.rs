//! A claim with its device and its clock: made when the pool is opened, kept by a thread, asked before each write (S-2.12).

use super::block::{self, Page, Seen};
use super::claim::{Claim, Hold, Next, Refusal, Why, beat, lease};
use super::{WAIT_UNTOLD, Who, block::unowned, tell_wait};
use crate::error::Error;
use crate::pool::Pool;
use crate::worker::Worker;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use keepfs_format::mmp::{Block, FREE, INTERVAL_S_DEFAULT, OFF};
use keepfs_format::{PAGE, PoolId};
use keepfs_media::{Class, Device, DeviceError, PageNo};
use keepfs_vault::locks::{Condvar, Mutex};
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Arc, Weak};

/// Nobody is asked before a write.
const ALWAYS: u64 = u64::MAX;
/// Each write asks anew.
const ASK: u64 = 0;
/// Between two tries to renew what could not be renewed.
const AGAIN: Duration = Duration::from_millis(500);

/// What is known of the claim.
enum State {
    /// None was made: the pool is read.
    Unclaimed,
    /// The pool is not protected.
    Off,
    /// It holds.
    Held(Box<Hold>),
    /// It is lost for good; it had this interval.
    Lost(Refusal, u32),
    /// The pool is closed.
    Left,
}

/// The same for those who ask how the pool is, and wait for no device.
#[derive(Default)]
struct Known {
    is_claimed: bool,
    interval_s: Option<u32>,
    lost: Option<(Refusal, u32)>,
}

/// The claim of one pool by one process.
pub struct Guard {
    device: Arc<dyn Device>,
    page: PageNo,
    pool: PoolId,
    /// What the superblock says, for a block that says nothing.
    is_on: bool,
    who: Who,
    /// Whether a thread keeps it; else whoever writes does.
    background: bool,
    /// Nanoseconds of [`now`] until which writes need not ask.
    until_ns: AtomicU64,
    state: Mutex<State>,
    /// Taken behind `state`, for a moment.
    known: Mutex<Known>,
    changed: Condvar,
    thread: Worker,
    /// For the thread, which keeps no guard that nobody else has.
    this: Weak<Guard>,
}

/// The time since this machine was started, sleep included.
fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

impl Guard {
    /// Of the pool whose block is `page`; nothing is claimed yet. Errors: `Logic` if there are no random numbers.
    pub(super) fn new(
        device: Arc<dyn Device>,
        page: u64,
        pool: &Pool,
        mut who: Who,
        background: bool,
    ) -> Result<Arc<Guard>, Error> {
        if who.nonce == [0; 16] {
            getrandom::fill(&mut who.nonce).map_err(|e| Error::Logic(format!("no random numbers: {e}")))?;
        }
        Ok(Arc::new_cyclic(|this| Guard {
            device,
            page: PageNo(page),
            pool: pool.id,
            is_on: pool.mmp_is_on,
            who,
            background,
            until_ns: AtomicU64::new(ASK),
            state: Mutex::new(State::Unclaimed),
            known: Mutex::default(),
            changed: Condvar::default(),
            thread: Worker::default(),
            this: this.clone(),
        }))
    }

    /// The nonce of this claim, by which a server that takes the place of this one goes on with it.
    pub fn nonce(&self) -> [u8; 16] {
        self.who.nonce
    }

    /// Seconds of the interval, if the pool is protected.
    pub fn interval_s(&self) -> Option<u32> {
        let known = self.known.lock();
        if known.is_claimed {
            return known.interval_s;
        }
        drop(known);
        match self.seen() {
            Seen::Free(block) | Seen::Used(block) => Some(block.interval_s.get()),
            Seen::Off(_) | Seen::Damaged => None,
        }
    }

    /// Why the pool was lost, if it was.
    pub fn lost(&self) -> Option<DeviceError> {
        let known = self.known.lock();
        known
            .lost
            .as_ref()
            .map(|(refusal, interval_s)| self.error(refusal, *interval_s))
    }

    /// What the block says now.
    pub fn seen(&self) -> Seen {
        block::read(&self.look(), self.pool)
    }

    /// The block as other machines see it; one that cannot be read says nothing.
    fn look(&self) -> Page {
        let mut page = [0; PAGE];
        if let Err(error) = self.device.read_shared(self.page, &mut page) {
            tracing::warn!(%error, "the block of multi-mount protection cannot be read");
            page = [0; PAGE];
        }
        page
    }

    /// Claims the pool, or goes on with what is had. It may take as long as another machine's block must be watched.
    ///
    /// # Errors
    /// `Taken`: another machine has it; `Late`; those of the device.
    pub fn claim(&self, why: Why) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        let made = self.run(
            Claim::new(self.who.clone(), self.pool, self.is_on, why),
            INTERVAL_S_DEFAULT,
        )?;
        if !matches!(why, Why::Protect(_)) {
            self.device.forget();
        }
        if let State::Lost(refusal, interval_s) = &made {
            let error = self.error(refusal, *interval_s);
            // Who was refused a change has what it had.
            if !matches!(why, Why::Protect(_)) {
                self.becomes(&mut state, made);
            }
            return Err(error);
        }
        self.becomes(&mut state, made);
        drop(state);
        self.keep();
        Ok(())
    }

    fn becomes(&self, state: &mut State, new: State) {
        let until = match &new {
            State::Off => ALWAYS,
            State::Held(hold) => hold.until().as_nanos() as u64,
            State::Unclaimed | State::Lost(..) | State::Left => ASK,
        };
        self.until_ns.store(until, Ordering::Release);
        *self.known.lock() = Known {
            is_claimed: true,
            interval_s: match &new {
                State::Held(hold) => Some(hold.block.interval_s.get()),
                State::Lost(_, interval_s) => Some(*interval_s),
                State::Unclaimed | State::Off | State::Left => None,
            },
            lost: match &new {
                State::Lost(refusal, interval_s) => Some((refusal.clone(), *interval_s)),
                _ => None,
            },
        };
        *state = new;
        self.changed.notify_all();
    }

    /// Runs a claim to its end; `interval_s` is the one that it has or would have. Errors: the block cannot be written.
    fn run(&self, mut claim: Claim, interval_s: u32) -> Result<State, DeviceError> {
        let mut at = now();
        let mut is_told = false;
        loop {
            let wait = claim.waits_until().unwrap_or(at).max(at).saturating_sub(now());
            if wait > WAIT_UNTOLD && !is_told {
                is_told = true;
                tell_wait(wait.as_secs_f32().ceil() as u64);
            }
            std::thread::sleep(at.saturating_sub(now()));
            let began = now();
            let page = self.look();
            let mut next = claim.seen(began, now(), &page);
            if let Next::Write(page) = next {
                let began = now();
                self.device.write_shared(self.page, &*page, Class::Superblock)?;
                next = claim.wrote(began, now());
            }
            at = match next {
                Next::Look(at) => at,
                Next::Write(_) => now(),
                Next::Off(block) => {
                    self.mend(&page, &block::page(&block));
                    return Ok(State::Off);
                }
                Next::Held(hold) => return Ok(State::Held(hold)),
                Next::Refused(refusal) => return Ok(State::Lost(refusal, interval_s)),
            };
        }
    }

    /// A block that was damaged, in a pool that is not protected, says so again.
    fn mend(&self, found: &Page, right: &Page) {
        if found == right {
            return;
        }
        match self.device.write_shared(self.page, right, Class::Superblock) {
            Ok(()) => {
                tracing::warn!("the block of multi-mount protection was damaged; it is off, and was written anew")
            }
            // The next one who opens the pool tries again.
            Err(error) => tracing::warn!(%error, "the damaged block of multi-mount protection cannot be written anew"),
        }
    }

    /// Whether the pool may be written now. Who comes late waits until that is known.
    ///
    /// # Errors
    /// `Taken`, `Late`.
    #[inline]
    pub fn permit(&self) -> Result<(), DeviceError> {
        let until = self.until_ns.load(Ordering::Acquire);
        if until == ALWAYS || (until != ASK && now().as_nanos() < u128::from(until)) {
            return Ok(());
        }
        self.permit_slowly()
    }

    #[cold]
    fn permit_slowly(&self) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        match &*state {
            State::Held(hold) if now() < hold.until() => Ok(()),
            State::Held(hold) => {
                let hold = hold.clone();
                self.renew(&mut state, hold)
            }
            State::Off => Ok(()),
            State::Lost(refusal, interval_s) => Err(self.error(refusal, *interval_s)),
            State::Unclaimed | State::Left => Err(DeviceError::ReadOnly {
                device: self.device.describe(),
            }),
        }
    }

    /// Writes the block once more. Errors: the claim is lost, or not renewed yet.
    fn renew(&self, state: &mut State, hold: Box<Hold>) -> Result<(), DeviceError> {
        let (until, interval_s) = (hold.until(), hold.block.interval_s.get());
        let made = match self.run(Claim::renew(self.who.clone(), self.pool, *hold), interval_s) {
            Ok(made) => made,
            Err(error) if now() < until => return Err(error),
            Err(error) => {
                tracing::error!(%error, "the block of multi-mount protection cannot be written");
                State::Lost(Refusal::Late, interval_s)
            }
        };
        let lost = match &made {
            State::Lost(refusal, interval_s) => Some(self.error(refusal, *interval_s)),
            _ => None,
        };
        self.becomes(state, made);
        lost.map_or(Ok(()), Err)
    }

    fn error(&self, refusal: &Refusal, interval_s: u32) -> DeviceError {
        let device = self.device.describe();
        match refusal {
            Refusal::Late => DeviceError::Late {
                device,
                seconds: lease(interval_s).as_secs(),
            },
            Refusal::Other(None) => DeviceError::Taken {
                device,
                by: "another machine, which its damaged block of multi-mount protection does not name".into(),
            },
            Refusal::Other(Some(block)) => DeviceError::Taken {
                device,
                by: owner(block),
            },
        }
    }

    /// Nobody is asked any more. Errors: the claim is lost; those of the device.
    pub fn end_protection(&self) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        if let State::Held(hold) = &*state {
            let hold = hold.clone();
            self.renew(&mut state, hold)?;
        }
        if let State::Held(hold) = &*state {
            let block = unowned(
                self.pool,
                OFF,
                INTERVAL_S_DEFAULT,
                hold.block.sequence.get().wrapping_add(1),
            );
            self.device
                .write_shared(self.page, &block::page(&block), Class::Superblock)?;
            self.becomes(&mut state, State::Off);
        }
        Ok(())
    }

    /// Lets go of the pool, which is closed: nothing is written any more.
    pub fn leave(&self) {
        let mut state = self.state.lock();
        if let State::Held(hold) = &*state {
            let hold = hold.clone();
            // In time, and as it was left: else it is another's.
            if self.renew(&mut state, hold).is_ok()
                && let State::Held(hold) = &*state
            {
                let interval_s = hold.block.interval_s.get();
                let block = unowned(self.pool, FREE, interval_s, hold.block.sequence.get().wrapping_add(1));
                let page = block::page(&block);
                if let Err(error) = self.device.write_shared(self.page, &page, Class::Superblock) {
                    tracing::warn!(%error, "the next one who mounts the pool has to wait: that it is free could not be written");
                }
            }
        }
        self.becomes(&mut state, State::Left);
        drop(state);
        self.thread.join();
    }

    /// As if power were cut: the block stays as it is.
    pub fn abandon(&self) {
        self.becomes(&mut self.state.lock(), State::Left);
    }

    /// As [`Guard::abandon`], when nobody uses the device any more, if it was not let go of.
    pub fn end(&self) {
        self.abandon();
        self.thread.join();
    }

    /// Starts the thread that renews the claim, if it is needed and there is none.
    fn keep(&self) {
        let is_held = matches!(&*self.state.lock(), State::Held(_));
        if !self.background || !is_held || self.thread.is_there() {
            return;
        }
        let this = self.this.clone();
        let work = move || {
            while let Some(guard) = this.upgrade() {
                if !guard.attend() {
                    return;
                }
            }
        };
        match std::thread::Builder::new().name("keepfs-mmp".into()).spawn(work) {
            Ok(thread) => self.thread.put(thread),
            // Then whoever writes renews it.
            Err(error) => tracing::error!(%error, "no thread keeps the block of multi-mount protection"),
        }
    }

    /// Waits for the next renewal and does it. `false`: there is nothing to do any more.
    fn attend(&self) -> bool {
        let mut state = self.state.lock();
        let hold = match &*state {
            State::Held(hold) => hold.clone(),
            State::Off => {
                // It may be protected again.
                self.changed.wait_for(&mut state, beat(INTERVAL_S_DEFAULT));
                return true;
            }
            _ => return false,
        };
        let wait = (hold.wrote + beat(hold.block.interval_s.get())).saturating_sub(now());
        if !wait.is_zero() {
            self.changed.wait_for(&mut state, wait);
            return true;
        }
        if let Err(error) = self.renew(&mut state, hold) {
            tracing::error!(%error, "the block of multi-mount protection was not renewed");
            if matches!(&*state, State::Held(_)) {
                self.changed.wait_for(&mut state, AGAIN);
            }
        }
        true
    }
}

/// Who has a pool, for people.
pub fn owner(block: &Block) -> String {
    let (host, dir) = (block::text(&block.host), block::text(&block.dir));
    let host = if host.is_empty() {
        "another process".to_owned()
    } else {
        format!("machine {host}")
    };
    match dir.as_str() {
        "" => host,
        dir => format!("{host}, which has it mounted at {dir}"),
    }
}
