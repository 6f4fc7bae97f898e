//! Where a server dies by itself, and what it forgets to leave behind: for the lab's tests of the second life (X-1.1,
//! S-16.3).

bugs! { Point:
    /// Redo entry and operations are stored, the state word is not.
    EntryStored = "entry stored",
    /// The state word is stored, the cursor is not.
    Committed = "state word stored",
    /// The cursor is stored, the request is not marked.
    CursorMoved = "cursor moved",
    /// The request is marked, the staged pages do not follow yet.
    RequestDone = "request marked",
    /// The staged pages follow; the undo slot is not retired.
    StagedFollowed = "staged pages follow",
    /// An operation is committed, the lookup of its reply is not counted.
    BeforeRaise = "before the lookup is counted",
    /// It is, and that is not noted in the request's slot.
    BeforeNote = "before the lookup is noted",
    /// A resume has adopted the memory and changed nothing.
    Adopted = "memory adopted",
    /// It has rolled the arena back.
    RolledBack = "arena rolled back",
    /// It has applied log and redo in memory.
    Replayed = "log and redo applied",
    /// A superblock is written and not flushed.
    SuperblockWritten = "superblock written",
    /// The superblock is durable.
    SuperblockFlushed = "superblock flushed",
    /// The recovery's checkpoint is durable, requests are not carried over.
    Recovered = "recovered",
    /// The new memory is complete.
    Carried = "requests carried over",
}

bugs! { Second:
    /// The redo ring of the dead server is not used.
    RedoForgotten = "redo not used",
    /// The log is not asked which transactions it has.
    RedoTwice = "redo applied twice",
    /// Staged pages that only the redo has are dropped.
    StagedDropped = "staged page dropped",
    /// A request is not marked by the transaction that does what it shall.
    MarkOmitted = "request mark omitted",
    /// Requests of the life before the last are forgotten.
    CarryOmitted = "requests not carried over",
    /// Lookup counts start empty.
    LookupsForgotten = "lookup counts not used",
    /// Lookups are counted after the reply.
    LookupAfterReply = "lookup count after reply",
    /// A file without a name that may get one is forgotten.
    LinkableForgotten = "nameless file not linkable",
}

#[cfg(feature = "planted")]
mod armed {
    use super::{Point, Second};
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

    static KILL: AtomicU32 = AtomicU32::new(u32::MAX);
    static PASSES: AtomicU64 = AtomicU64::new(0);
    static FORGETS: AtomicU32 = AtomicU32::new(u32::MAX);

    /// This process kills itself when it comes to `step` for the `pass`-th time from now, counted from 1.
    pub fn kill_at(step: Option<(Point, u64)>) {
        PASSES.store(step.map_or(0, |(_, pass)| pass), SeqCst);
        KILL.store(step.map_or(u32::MAX, |(step, _)| step as u32), SeqCst);
    }

    /// The process is at `step`.
    #[doc(hidden)]
    pub fn step(step: Point) {
        if KILL.load(SeqCst) == step as u32 && PASSES.fetch_sub(1, SeqCst) == 1 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
    }

    /// Plants a mutant in this process, or digs it out.
    pub fn plant_second(bug: Option<Second>) {
        FORGETS.store(bug.map_or(u32::MAX, |bug| bug as u32), SeqCst);
    }

    /// Whether this mutant is planted.
    #[doc(hidden)]
    pub fn forgets(bug: Second) -> bool {
        FORGETS.load(SeqCst) == bug as u32
    }
}

/// Whoever does something to this name dies of it.
pub const DEADLY: &[u8] = b"planted-abort";

/// Something is done to a name.
#[cfg(feature = "planted")]
#[doc(hidden)]
pub fn touch(name: &[u8]) {
    if name == DEADLY {
        std::process::abort();
    }
}

/// Something is done to a name: nothing happens in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[doc(hidden)]
pub const fn touch(_: &[u8]) {}

#[cfg(feature = "planted")]
pub use armed::{forgets, kill_at, plant_second, step};

/// The process is at a step: nothing happens in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[doc(hidden)]
pub const fn step(_: Point) {}

/// Whether a mutant is planted: never in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[doc(hidden)]
pub const fn forgets(_: Second) -> bool {
    false
}
