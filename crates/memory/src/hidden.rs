//! Where the door's windows lie: told to the door alone, and nowhere in memory as an address.
//!
//! Invariants:
//! H-1 An address of a window stands in memory only masked by a secret of this process, in [`WINDOWS`]; the secret stands
//!     elsewhere. What is masked is no address: its highest bit is set. So no pointer leads to a window, and no over- or
//!     underrun from one (decision 0603).
//! H-2 An address is unmasked in registers, for one access, behind which they are cleared (W-3 of `region::window`): a
//!     function that is called next saves what it finds in them. What making a window left on the stack is overwritten
//!     ([`overwrite_stack`]).

use core::hint::black_box;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io;

/// Most regions that may live in one process at a time.
pub(crate) const REGIONS: usize = 4096;
/// Masked addresses by region number; 0: none.
static WINDOWS: [AtomicUsize; REGIONS] = [const { AtomicUsize::new(0) }; REGIONS];
/// What masks them; 0: not drawn yet.
static SECRET: AtomicUsize = AtomicUsize::new(0);
/// No address of a program has this bit.
const NO_ADDRESS: usize = 1 << (usize::BITS - 1);
/// Bytes of stack that making a window may have used.
const STACK: usize = 16 << 10;

/// A masked address; 0: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hidden(usize);

impl Hidden {
    /// No window.
    pub const NONE: Hidden = Hidden(0);

    /// Masks an address. [`draw`] was called before.
    #[inline]
    pub fn from_address(at: usize) -> Hidden {
        Hidden(at ^ SECRET.load(Ordering::Relaxed))
    }

    /// The address; 0: none.
    #[inline]
    pub fn address(self) -> usize {
        match self {
            Hidden::NONE => 0,
            Hidden(word) => word ^ SECRET.load(Ordering::Relaxed),
        }
    }
}

/// Draws the secret, once a process. Errors: the system's.
pub(crate) fn draw() -> io::Result<()> {
    if SECRET.load(Ordering::Acquire) == 0 {
        let secret = random()? | NO_ADDRESS;
        // Another thread's is as good.
        let _ = SECRET.compare_exchange(0, secret, Ordering::AcqRel, Ordering::Acquire);
    }
    Ok(())
}

/// A random number. Errors: the system's.
pub(crate) fn random() -> io::Result<usize> {
    let mut random = [0; size_of::<usize>()];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(usize::from_ne_bytes(random))
}

/// The address of the window of a region that has one.
#[inline]
pub(crate) fn window(number: usize) -> usize {
    WINDOWS[number].load(Ordering::Relaxed) ^ SECRET.load(Ordering::Relaxed)
}

/// Keeps the window of a region.
pub(crate) fn keep(number: usize, window: Hidden) {
    WINDOWS[number].store(window.0, Ordering::Release);
}

/// The same, for who may come at any time.
pub(crate) fn kept(number: usize) -> Hidden {
    Hidden(WINDOWS[number].load(Ordering::Acquire))
}

/// Takes the window of a region away.
pub(crate) fn take(number: usize) -> Hidden {
    Hidden(WINDOWS[number].swap(0, Ordering::AcqRel))
}

/// Overwrites the stack below the caller, where calls that made a window may have left its address.
#[inline(never)]
pub(crate) fn overwrite_stack() {
    let mut room = [0u8; STACK];
    black_box(&mut room);
}

#[cfg(test)]
mod tests;
