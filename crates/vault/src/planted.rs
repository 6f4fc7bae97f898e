//! Ordering bugs that the lab plants to prove that crash enumeration finds them (docs/PROTOCOLS.md section 10).
//!
//! Without the feature `planted` (always, but in the lab's own build) [`is`] is a constant `false` and nothing of
//! this reaches a program.

macro_rules! bugs {
    ($bugs:ident: $( $(#[doc = $doc:literal])* $name:ident = $word:literal $(from $source:literal)?, )*) => {
        /// A bug that can be planted.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u32)]
        pub enum $bugs {
            $( $(#[doc = $doc])* $name, )*
        }

        impl $bugs {
            /// All of them.
            pub const ALL: &'static [$bugs] = &[$( $bugs::$name ),*];

            /// Its name in tables.
            pub fn word(self) -> &'static str {
                match self { $( $bugs::$name => $word, )* }
            }

            /// The published bug that it is modelled on; `None`: it is of our own making.
            pub fn source(self) -> Option<&'static str> {
                match self { $( $bugs::$name => None$(.or(Some($source)))?, )* }
            }
        }
    };
}

mod groups;
mod judging;
mod kills;
mod logic;
mod looks;
mod rungs;
mod uses;

#[doc(hidden)]
pub use groups::caller;
#[cfg(feature = "planted")]
pub use groups::plant_caller;
pub use judging::Judging;
#[doc(hidden)]
pub use judging::judges;
#[cfg(feature = "planted")]
pub use judging::plant_judging;
#[cfg(feature = "planted")]
pub use keepfs_memory::plant_torn;
pub use kills::{DEADLY, Point, Second};
#[doc(hidden)]
pub use kills::{forgets, step, touch};
#[cfg(feature = "planted")]
pub use kills::{kill_at, plant_second};
pub use logic::Logic;
#[doc(hidden)]
pub use logic::has;
#[cfg(feature = "planted")]
pub use logic::plant_logic;
#[cfg(any(test, feature = "schedules", feature = "planted"))]
pub use looks::{Look, Place, plant_blind, set_look};
#[doc(hidden)]
pub use looks::{is_blind, look};
pub use rungs::Rung;
#[doc(hidden)]
pub use rungs::ignores;
#[cfg(feature = "planted")]
pub use rungs::plant_rung;

pub use uses::Use;
#[cfg(any(test, feature = "schedules", feature = "planted"))]
pub use uses::plant_use;
#[doc(hidden)]
pub use uses::{blind, omits};

bugs! { Bug:
    /// No flush between the metablocks and the superblock.
    NoFlushBeforeSuperblock = "no flush before the superblock"
        from "jbd: Issue cache flush after checkpointing (353b67d8ced4)",
    /// No flush behind the superblock.
    NoSecondFlush = "no second flush of the checkpoint"
        from "jbd: Write journal superblock with WRITE_FUA after checkpointing (fd2cbd4dfa3d)",
    /// A group is taken without looking at its data pages.
    GroupWithoutData = "group accepted without its data"
        from "ext4, jbd2: Add barriers for file systems with external journals (cc3e1bea5d87)",
    /// Freed pages are handed out at once.
    ReuseTooEarly = "page reused too early"
        from "Btrfs: fix extent pinning bugs in the tree log (e688b7252f78)",
    /// A page whose allocation went into an earlier group is handed out as soon as it is freed.
    YoungForever = "page of an earlier group reused at once",
    /// The map is flushed, the metablocks it names are written after that.
    MapBeforeMetablocks = "map before metablocks",
    /// The log is empty for writers before the superblock that says so is durable.
    LogTruncatedEarly = "log truncated before the second flush"
        from "jbd: Write journal superblock with WRITE_FUA after checkpointing (fd2cbd4dfa3d)",
    /// A group says of itself that its flush has returned.
    DurableOverstated = "durable overstated by one",
    /// Births are not logged.
    BirthOmitted = "birth record omitted"
        from "xfs: Ensure inode allocation buffers are fully replayed (ccf7c23fc129)",
    /// A flipped bit is undone by storing the old byte.
    BitsUndoneAsBytes = "Bits undo replaced by Bytes",
    /// A group is cut from live frames, uncommitted bytes included.
    GroupFromFrames = "group cut from live frames",
    /// The last tail record of each group is lost.
    TailDropped = "tail record dropped"
        from "ext4: fast commit may miss file actions (bdc8a53a6f2f)",
    /// The group of transactions before the barrier counts as part of the new log.
    OldGroupInNewLog = "old group mixed into the new log",
    /// Every superblock goes to the same slot.
    SuperblockInPlace = "superblock overwritten in place",
    /// Staged pages are not carried over a checkpoint.
    CarryOmitted = "staged carry-over omitted",
    /// A chunk that a checkpoint gives back is used for data before the checkpoint is durable.
    ChunkReusedTooEarly = "chunk reused before the checkpoint"
        from "Btrfs: fix extent pinning bugs in the tree log (e688b7252f78)",
    /// A checkpoint writes to homes that it frees itself.
    HomesReusedAtOnce = "homes reused by the checkpoint that frees them",
    /// Frames go to log and checkpoint without a look at their sums.
    VerifyOff = "frames not verified",
    /// The verified copy is thrown away, and the frame is read once more for the device.
    VerifyThenRead = "frame verified, frame written",
    /// The look at the sums comes after the write.
    VerifyAfter = "frame verified after the write",
    /// Recovery takes a file with a pending hole off the hidden list and frees nothing.
    HoleForgotten = "pending hole not finished at recovery",
    /// Recovery writes over what a killed server had not flushed.
    NoFlushBeforeRecovery = "no flush before recovery's first write"
        from "jbd: Issue cache flush after checkpointing (353b67d8ced4): a journal that is replayed and wiped",
    /// The log that a resume begins has the incarnation of the one that a recovery would begin, and that one begins with its group:
    /// either rule alone keeps them apart (S-9.14, S-16.18).
    OwedInSameLog = "resume's log mixed into a recovery's",
    /// An opening that finds nothing in the log goes on in it, in the same life.
    LifeGoesOn = "log that nothing was found in goes on",
    /// What a resume applies of a dead server's redo frees pages for its own checkpoint.
    OwedReusedTooEarly = "page freed by redo reused too early"
        from "Btrfs: fix extent pinning bugs in the tree log (e688b7252f78)",
    /// Who asks for the settings in force waits for the checkpoint that is under way.
    SettingsWait = "settings in force told behind a checkpoint",
    /// A checkpoint gives the right to cut groups away before its old group is flushed.
    LeadGivenEarly = "lead given away before the old group's flush",
    /// Where the old group of a checkpoint could not be written, the carried one continues the old log all the same.
    CarriedBehindNothing = "carried group continues a log without the old one",
    /// The log keeps room for the carried group once: the checkpoint's, not that of the recovery behind it.
    RoomOnce = "room for the carried group once",
    /// A resume takes groups that the dead server had refused.
    RefusedBelieved = "refused group taken by a resume",
    /// Behind a page of the log that was given up the next group is written as if it were there.
    GivenUpSteppedOver = "log goes on behind a page that was given up",
    /// Of a transaction's changes only the first one is kept for undo.
    UndoOmitted = "undo record omitted",
    /// A transaction changes a stripe of TOTALS that is not its slot's.
    StripeForeign = "stripe of another slot changed",
    /// Counts of SHARES are changed without being owned.
    ShareUnowned = "count changed without owning it",
    /// The second home of a metablock keeps what it held.
    StaleCopy = "second copy of a metablock not written",
    /// A superblock whose checksum is wrong is taken as it stands, torn or not.
    TornSlotTaken = "torn superblock taken as it stands",
}

#[cfg(feature = "planted")]
static PLANTED: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(u32::MAX);

/// Plants a bug in this process, or digs it out.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.store(bug.map_or(u32::MAX, |b| b as u32), core::sync::atomic::Ordering::SeqCst);
}

/// What happens between the look at a frame and the second look of [`Bug::VerifyThenRead`], told which metablock it is.
#[cfg(feature = "planted")]
type Between = Box<dyn Fn(keepfs_format::MetaId) + Send>;

#[cfg(feature = "planted")]
static BETWEEN: parking_lot::Mutex<Option<Between>> = parking_lot::Mutex::new(None);

/// Sets what happens there.
#[cfg(feature = "planted")]
pub fn set_between(between: Option<Between>) {
    *BETWEEN.lock() = between;
}

/// The moment between the two looks.
#[cfg(feature = "planted")]
#[doc(hidden)]
pub fn between(id: keepfs_format::MetaId) {
    if let Some(between) = &*BETWEEN.lock() {
        between(id);
    }
}

/// The moment between the two looks: there is none in this build.
#[cfg(not(feature = "planted"))]
#[doc(hidden)]
pub const fn between(_: keepfs_format::MetaId) {}

/// Whether `bug` is planted.
#[cfg(feature = "planted")]
#[inline]
#[doc(hidden)]
pub fn is(bug: Bug) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == bug as u32
}

/// Whether `bug` is planted: never in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[doc(hidden)]
pub const fn is(_bug: Bug) -> bool {
    false
}
