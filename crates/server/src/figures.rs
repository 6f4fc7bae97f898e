//! The status of a pool as a value: what programs get as JSON, and what is printed.

mod serving;

pub use serving::{OperationFigures, ServingFigures, ThreadFigures};

use crate::pause::Pause;
use crate::told_path;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of the answer for programs: no field changes its name or unit within one.
pub const VERSION: u32 = 1;

/// How a pool is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// [`VERSION`].
    pub version: u32,
    /// Its device.
    #[serde(flatten, with = "told_path::pool")]
    pub pool: PathBuf,
    /// Its label, maybe empty.
    pub label: String,
    /// Its identity; empty if unknown.
    pub id: String,
    /// `ONLINE`, `DEGRADED`, `FAULTED`, `UNAVAIL` (server dead), `OFFLINE` (not mounted).
    pub state: String,
    /// What is not as it should be.
    pub status: Option<String>,
    /// What to do about it.
    pub action: Option<String>,
    /// The last scrub.
    pub scrub: String,
    /// When it began, seconds since 1970; `null`: there was none, or it is not known.
    #[serde(default)]
    pub scrub_began_s: Option<i64>,
    /// When it ended; `null`: it did not.
    #[serde(default)]
    pub scrub_ended_s: Option<i64>,
    /// It was made for tests: faults may be injected (S-2.8).
    #[serde(default)]
    pub test: bool,
    /// What guards metadata in memory, mounted or when it is mounted next (S-2.6); empty if unknown.
    #[serde(default)]
    pub protect: String,
    /// Others than root can read or lock the pool, and what to do about it; `null`: they cannot.
    #[serde(default)]
    pub exposed: Option<String>,
    /// Seconds of the interval in which the pool shows to other machines that it is in use (S-2.12); `null`: they are not told.
    #[serde(default)]
    pub mmp_s: Option<u32>,
    /// Of a pool that is not mounted here: which machine has it, or had it when that machine ended.
    #[serde(default)]
    pub mmp_by: Option<String>,
    /// Process of the server.
    pub server_pid: Option<u32>,
    /// The process that outlives the server, if there is one.
    #[serde(default)]
    pub keeper: Option<KeeperFigures>,
    /// Where it is mounted, even if its server is dead.
    #[serde(flatten, with = "told_path::dir::maybe")]
    pub dir: Option<PathBuf>,
    /// How it is mounted.
    pub mount: Option<MountFigures>,
    /// Space on the device.
    pub space: Option<SpaceFigures>,
    /// Memory for metadata.
    pub arena: Option<ArenaFigures>,
    /// For how long checkpoints made transactions wait since it was mounted.
    #[serde(default)]
    pub stops: Option<StopFigures>,
    /// What the kernel asked for since it was mounted, and where the server's time went.
    #[serde(default)]
    pub serving: Option<ServingFigures>,
    /// The log.
    pub log: Option<LogFigures>,
    /// What the server wrote since it was mounted.
    pub written: Option<WrittenFigures>,
    /// Operations that the device failed since it was mounted; `null`, as the next three: nobody told (S-18.20).
    #[serde(default)]
    pub device_errors: Option<ErrorFigures>,
    /// Files that are known to have lost data, as far as it was noticed since it was mounted.
    #[serde(default)]
    pub files_lost: Option<u64>,
    /// Clean frames that were changed behind the door and were dropped, since it was mounted.
    #[serde(default)]
    pub scribbles_dropped: Option<u64>,
    /// Entries of the list of damages (S-18.6).
    #[serde(default)]
    pub damage: Option<DamageFigures>,
    /// Known errors.
    pub errors: Vec<String>,
    /// Warnings and errors that `keepfs events` shows.
    pub events: u64,
}

/// The mount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MountFigures {
    /// All changes are refused: mounted or remounted read-only.
    pub read_only: bool,
    /// A failure, or the shutdown ioctl, ended all writing.
    #[serde(default)]
    pub writing_ended: bool,
    /// Servers died too often: the one that serves now refuses changes.
    #[serde(default)]
    pub changes_refused: bool,
    /// `relatime`, `noatime` or `strictatime`.
    pub access_times: String,
    /// Access times of directories stay.
    #[serde(default)]
    pub nodiratime: bool,
    /// `cache=`.
    pub cache: String,
    /// Whether sync(2) and umount(2) wait.
    pub anchored: bool,
    /// The transport in use, `dev` or `uring`; empty: the server is older than this.
    #[serde(default)]
    pub transport: String,
    /// `io=`; empty: the server is older than this.
    #[serde(default)]
    pub io: String,
    /// Seconds between commits.
    pub commit_s: u64,
    /// When it was mounted, seconds since 1970.
    pub since_s: u64,
}

/// The keeper of a mount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct KeeperFigures {
    /// Its process.
    pub pid: u32,
    /// It lives; else none stood ready when it died, and the mount ends with this server.
    #[serde(default = "yes")]
    pub alive: bool,
    /// The process that stands ready to take its place, if there is one.
    #[serde(default)]
    pub spare_pid: Option<u32>,
    /// Servers that the mount had, this one included.
    pub servers: u64,
    /// How many of them died.
    pub deaths: u64,
    /// How the last did.
    pub last_death: Option<DeathFigures>,
}

/// A server of before the field was told it at all only while it was so.
fn yes() -> bool {
    true
}

/// The death of a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DeathFigures {
    /// `signal N`, `exit code N`, or `unknown`.
    pub how: String,
    /// When, seconds since 1970.
    pub at_s: u64,
    /// From the moment when the keeper noticed until requests were answered again.
    pub pause_ms: u64,
    /// Its parts.
    #[serde(default)]
    pub pause_us: Pause,
}

/// Errors of the device by class, as zpool(8) counts them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ErrorFigures {
    /// Reads that failed.
    pub read: u64,
    /// Writes that failed.
    pub write: u64,
    /// Flushes that failed.
    pub flush: u64,
    /// Pages read with a wrong checksum.
    pub checksum: u64,
}

/// The list of damages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DamageFigures {
    /// Entries of what is lost until it is written anew or restored.
    pub lost: u64,
    /// Entries of what was mended.
    pub mended: u64,
}

/// Space, bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SpaceFigures {
    /// The pool.
    pub size_bytes: u64,
    /// In use.
    pub used_bytes: u64,
    /// Free for new data.
    pub available_bytes: u64,
    /// Inodes in use.
    pub inodes: u64,
}

/// The arena.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ArenaFigures {
    /// Frames of 4 KiB.
    pub frames: u64,
    /// Frames that are not yet in a checkpoint.
    pub dirty_frames: u64,
    /// Frames given to other metablocks.
    pub evictions: u64,
    /// Metablocks read from the device.
    pub fetched: u64,
    /// `guard=`.
    pub guard: String,
    /// What guards the frames, as `create --protect` or `keepfs set` chose it; empty: the server is older than this.
    #[serde(default)]
    pub protect: String,
    /// `audit=`; empty: the server is older than this.
    #[serde(default)]
    pub audit: String,
    /// Damaged frames that the code repaired.
    #[serde(default)]
    pub repaired: u64,
    /// Damaged clean frames that were read again from the device.
    #[serde(default)]
    pub read_again: u64,
    /// Always 0: no repair is refused because bytes were just written (S-15.11). For programs that read it.
    #[serde(default)]
    pub repairs_refused: u64,
}

/// Waiting for checkpoints. In the histograms value i counts waits of less than 2^i microseconds and not less than half
/// of that; the last one counts all longer ones.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StopFigures {
    /// Longest time that a barrier kept transactions from beginning.
    pub barrier_us_max: u64,
    /// Those times.
    pub barrier_us: Vec<u64>,
    /// Barriers that opened again because a transaction did not end in time.
    pub barriers_withdrawn: u64,
    /// Longest time that a transaction waited for room in the arena.
    pub throttle_us_max: u64,
    /// Those times.
    pub throttle_us: Vec<u64>,
}

/// The log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogFigures {
    /// Its size, bytes.
    pub size_bytes: u64,
    /// How full it is; at 100 a checkpoint must empty it.
    pub used_percent: u64,
    /// Groups written since mount; not mounted: groups that the next mount replays.
    pub groups: u64,
    /// Last committed transaction.
    pub last_seq: u64,
    /// Last durable transaction.
    pub durable_seq: u64,
    /// Seconds since the last checkpoint (before the first one: since mount); null if not mounted.
    pub since_checkpoint_s: Option<u64>,
}

/// Bytes written since mount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct WrittenFigures {
    /// By class of pages.
    pub class_bytes: ClassBytes,
    /// Of metadata, by the four causes of ReconFS section 3.1.2.
    pub cause_bytes: CauseBytes,
    /// Bytes read.
    pub read_bytes: u64,
    /// Flushes of the device.
    pub flushes: u64,
    /// Bytes that the device was told are not needed.
    pub discarded_bytes: u64,
    /// Transactions committed.
    pub transactions: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// What compaction saved of the log.
    #[serde(default)]
    pub compaction: CompactionFigures,
}

/// Compaction of metadata in groups of the log (ReconFS Table 3, Fig. 9).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CompactionFigures {
    /// Metablocks changed, each once a group.
    pub pages: u64,
    /// Bytes of their records in the log.
    pub bytes: u64,
    /// How often at most 64, 128, 256, 512, 1024, 2048, 3072, 4096 bytes of one were changed.
    pub dirty_sizes: Vec<u64>,
}

/// Bytes by class of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are those of `media::Class`.
pub struct ClassBytes {
    pub data: u64,
    pub plog: u64,
    pub metadata: u64,
    pub map: u64,
    pub superblock: u64,
    /// Events, damages and named records (SPEC section 18).
    pub history: u64,
}

/// Bytes by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)] // The names are those of `store::Snapshot`.
pub struct CauseBytes {
    pub eviction: u64,
    pub checkpoint: u64,
    pub consistency: u64,
    pub persistence: u64,
}

/// What is known of scrubs of a pool that is not mounted.
pub const SCRUB: &str = "told while it is mounted; `keepfs check --data` reads everything of an unmounted pool";

impl Status {
    /// A pool of which nothing is known but that nothing is wrong.
    pub fn unknown(pool: &Path) -> Status {
        Status {
            version: VERSION,
            pool: pool.to_owned(),
            label: String::new(),
            id: String::new(),
            state: "ONLINE".into(),
            status: None,
            action: None,
            scrub: SCRUB.into(),
            scrub_began_s: None,
            scrub_ended_s: None,
            test: false,
            protect: String::new(),
            exposed: None,
            mmp_s: None,
            mmp_by: None,
            server_pid: None,
            keeper: None,
            dir: None,
            mount: None,
            space: None,
            arena: None,
            stops: None,
            serving: None,
            log: None,
            written: None,
            device_errors: Some(ErrorFigures::default()),
            files_lost: Some(0),
            scribbles_dropped: Some(0),
            damage: Some(DamageFigures::default()),
            errors: Vec::new(),
            events: 0,
        }
    }

    /// The same without numbers that nobody told: where nothing is known of the log, neither a server that has the pool nor the
    /// device was asked (S-18.20).
    pub fn as_told(mut self) -> Status {
        if self.log.is_none() {
            (self.device_errors, self.damage) = (None, None);
            (self.files_lost, self.scribbles_dropped) = (None, None);
        }
        self
    }

    /// Says an error, and that the pool goes on with it.
    pub fn degraded(&mut self, error: String, status: &str, action: &str) {
        self.errors.push(error);
        self.say("DEGRADED", status, action);
    }

    /// Says that something is not as it should be.
    pub fn say(&mut self, state: &str, status: &str, action: &str) {
        self.state = state.into();
        self.status = Some(status.into());
        self.action = Some(action.into());
    }
}
