//! Multi-mount protection: of the machines that can reach a pool one has it, and shows that it is alive (S-2.12, decision 0850).
//!
//! * [`block`]: what stands on the device.
//! * [`claim`]: who may have the pool, as a machine of states without device or clock, so that all orders of events can be tried.
//! * `guard`: a claim with its device and its clock; `guarded`: the device that is written only while the claim holds.

pub mod block;
pub mod claim;
mod guard;
mod guarded;

pub use guard::{Guard, owner};
pub use guarded::Guarded;

use crate::error::Error;
use crate::pool::Pool;
use block::Seen;
use claim::Why;
use keepfs_format::{PAGE, PoolId};
use keepfs_media::{Class, Device, PageNo};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Who claims a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Who {
    /// This claim, and those of the servers that take its place: random, never zero.
    pub nonce: [u8; 16],
    /// The run of this machine, from its start to its end.
    pub boot: [u8; 16],
    /// The machine's name.
    pub host: String,
    /// Where the pool is mounted, or nothing.
    pub dir: Vec<u8>,
    /// Device and inode number of a file that is locked for as long as the pool is in use, or zeros. Whoever has that lock on the
    /// same run of the machine knows that nobody else who had it lives.
    pub lock: [u64; 2],
}

/// How a pool is opened by who claims it.
#[derive(Clone, Copy, Debug)]
pub struct Claimant<'w> {
    /// Who it is.
    pub who: &'w Who,
    /// A thread keeps the claim; else whoever writes does.
    pub background: bool,
    /// The pool is only read: nothing is claimed.
    pub read_only: bool,
}

/// How somebody is told that it is waited for another machine: so many seconds. The first one to say it decides.
static TELL_WAIT: OnceLock<fn(u64)> = OnceLock::new();

/// From here on `tell` tells how many seconds it will be waited to see whether another machine has a pool, if more than
/// `WAIT_UNTOLD`; without it the log has a warning.
pub fn tell_waits_by(tell: fn(u64)) {
    let _ = TELL_WAIT.set(tell);
}

/// What it is waited for, in words.
pub fn wait_in_words(seconds: u64) -> String {
    format!("waits {seconds} s to see whether another machine has this pool mounted")
}

fn tell_wait(seconds: u64) {
    match TELL_WAIT.get() {
        Some(tell) => tell(seconds),
        None => tracing::warn!("{}", wait_in_words(seconds)),
    }
}

/// The longest wait that nobody is told of.
const WAIT_UNTOLD: Duration = Duration::from_secs(2);

fn since_1970() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() as i64)
}

/// The guard of the pool on `device`, which nobody has claimed yet, if the pool has a block for it. Errors: there is no pool.
pub fn guard_of(device: &Arc<dyn Device>, who: &Who, background: bool) -> Result<Option<Arc<Guard>>, Error> {
    let pool = Pool::on(&**device)?;
    let made = |page| Guard::new(device.clone(), page, &pool, who.clone(), background);
    pool.mmp.map(made).transpose()
}

/// Opens a pool by `open`, which gets a device that is written only while this machine has the pool: claimed first, unless it is
/// opened for reading; let go of again if it cannot be opened.
pub fn claimed<T>(
    device: Arc<dyn Device>,
    claimant: Claimant<'_>,
    why: Why,
    open: impl FnOnce(Arc<dyn Device>) -> Result<T, Error>,
) -> Result<(T, Option<Arc<Guard>>), Error> {
    let Some(guard) = guard_of(&device, claimant.who, claimant.background)? else {
        return Ok((open(device)?, None));
    };
    if !claimant.read_only {
        guard.claim(why)?;
    }
    match open(Arc::new(Guarded::new(device, guard.clone()))) {
        Ok(opened) => Ok((opened, Some(guard))),
        Err(error) => {
            guard.leave();
            Err(error)
        }
    }
}

/// Claims the pool on `device` as [`claimed`] does, to overwrite it, and lets go of it without a word: `erase` has made it none. Of a
/// pool that is not protected nothing is erased.
///
/// Errors: there is no pool; `Taken`, another machine has it; those of `erase`, and of the device.
pub fn overwritten(
    device: Arc<dyn Device>,
    claimant: Claimant<'_>,
    erase: impl FnOnce(Arc<dyn Device>) -> Result<(), Error>,
) -> Result<(), Error> {
    let Some(guard) = guard_of(&device, claimant.who, claimant.background)? else {
        return Ok(());
    };
    guard.claim(Why::Open)?;
    let erased = match guard.interval_s() {
        Some(_) => erase(Arc::new(Guarded::new(device, guard.clone()))),
        None => Ok(()),
    };
    match erased {
        Ok(()) => guard.end(),
        Err(_) => guard.leave(),
    }
    erased
}

/// Writes the first block of a new pool, which shows itself each `interval_s` seconds or never: nobody is asked. Errors: those of the device.
pub fn write_first(device: &dyn Device, pool: &Pool, interval_s: Option<u32>) -> Result<(), Error> {
    let Some(page) = pool.mmp else { return Ok(()) };
    let (state, interval_s) = match interval_s {
        Some(interval_s) => (keepfs_format::mmp::FREE, interval_s),
        None => (keepfs_format::mmp::OFF, keepfs_format::mmp::INTERVAL_S_DEFAULT),
    };
    let block = block::unowned(pool.id, state, interval_s, 0);
    device.write(PageNo(page), &block::page(&block), Class::Superblock)?;
    Ok(())
}

/// The block of a pool whose id was changed while nobody had it says the same of the next one (S-2.13). Errors: those of the device.
pub fn rename(device: &dyn Device, page: u64, from: PoolId, to: PoolId) -> Result<(), Error> {
    let (at, mut bytes) = (PageNo(page), [0; PAGE]);
    device.read_shared(at, &mut bytes)?;
    if let Seen::Off(block) | Seen::Free(block) = block::read(&bytes, from) {
        let sequence = block.sequence.get().wrapping_add(1);
        let block = block::unowned(to, block.state.get(), block.interval_s.get(), sequence);
        device.write_shared(at, &block::page(&block), Class::Superblock)?;
    }
    Ok(())
}
