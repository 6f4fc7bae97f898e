//! `keepfs status`: how pools are, from their servers if they are mounted, else from their devices.

use super::args::Status as Asked;
use super::control::{self, Silent};
use super::failure::Failure;
use super::logging::Ring;
use super::options::MountOptions;
use super::registry::{self, Record};
use super::{Outcome, offline, print};
use keepfs_format::PAGE;
use keepfs_fs::Volume;
use keepfs_media::Class;
use keepfs_store::{Abort, Error as StoreError, Purpose, Store};
use keepfs_vfs::Vfs;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Weak;

/// Version of the answer for programs: no field changes its name or unit within one.
pub const VERSION: u32 = 1;

/// How a pool is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Status {
    /// [`VERSION`].
    pub version: u32,
    /// Its device.
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
    /// Process of the server.
    pub server_pid: Option<u32>,
    /// Where it is mounted.
    pub mount: Option<MountFigures>,
    /// Space on the device.
    pub space: Option<SpaceFigures>,
    /// Memory for metadata.
    pub arena: Option<ArenaFigures>,
    /// The log.
    pub log: Option<LogFigures>,
    /// What the server wrote since it was mounted.
    pub written: Option<WrittenFigures>,
    /// Known errors.
    pub errors: Vec<String>,
    /// Warnings and errors that `keepfs events` shows.
    pub events: u64,
}

/// The mount.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MountFigures {
    /// Where.
    pub dir: PathBuf,
    /// Mounted read-only.
    pub read_only: bool,
    /// `cache=`.
    pub cache: String,
    /// Whether sync(2) and umount(2) wait.
    pub anchored: bool,
    /// Seconds between commits.
    pub commit_s: u64,
    /// When it was mounted, seconds since 1970.
    pub since_s: u64,
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
}

/// The log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogFigures {
    /// Its size, bytes.
    pub size_bytes: u64,
    /// Groups written since mount; not mounted: groups that the next mount replays.
    pub groups: u64,
    /// Last committed transaction.
    pub last_seq: u64,
    /// Last durable transaction.
    pub durable_seq: u64,
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
    /// Transactions committed.
    pub transactions: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
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

/// What scrub will say until it is built.
pub const SCRUB: &str = "none (not built yet; `keepfs check` reads everything of an unmounted pool)";

/// What a server needs to say how its pool is.
pub struct Live {
    /// Its own record.
    pub record: Record,
    /// How it was mounted.
    pub options: MountOptions,
    /// With an anchor.
    pub anchored: bool,
    /// What it noticed.
    pub ring: Ring,
    /// The file system, as long as it is served.
    pub volume: Weak<Volume>,
}

impl Live {
    /// How the pool is now.
    pub fn status(&self) -> Status {
        let mut status = Status::unknown(&self.record.pool);
        status.server_pid = Some(self.record.pid);
        status.mount = Some(self.mount());
        status.events = self.ring.events().len() as u64;
        match self.volume.upgrade() {
            Some(volume) => self.figures(volume.store(), &mut status),
            None => status.say("OFFLINE", "it is being unmounted", "wait until its server has ended"),
        }
        status
    }

    /// Makes everything durable that the server knows of.
    pub fn sync(&self) -> Value {
        match self.volume.upgrade().map(|volume| volume.syncfs()) {
            None | Some(Ok(())) => json!({"durable": true}),
            Some(Err(errno)) => json!({"durable": false, "error": errno.to_string()}),
        }
    }

    fn mount(&self) -> MountFigures {
        MountFigures {
            dir: self.record.dir.clone(),
            read_only: self.options.read_only,
            cache: self.options.cache_name().into(),
            anchored: self.anchored,
            commit_s: self.options.commit.as_secs(),
            since_s: self.record.since_ns / 1_000_000_000,
        }
    }

    fn figures(&self, store: &Store, status: &mut Status) {
        let pool = store.pool();
        status.label.clone_from(&pool.label);
        status.id = pool.id.to_string();
        status.space = space(store);
        let (frames, dirty, evictions) = store.arena_figures();
        let counts = store.stats();
        status.arena = Some(ArenaFigures {
            frames: frames.into(),
            dirty_frames: dirty,
            evictions,
            fetched: counts.fetched,
            guard: self.options.guard_name().into(),
        });
        status.log = Some(LogFigures {
            size_bytes: pool.log.pages * PAGE as u64,
            groups: counts.groups,
            last_seq: store.last_seq(),
            durable_seq: store.durable_seq(),
        });
        status.written = Some(written(store));
        self.judge(store, status);
    }

    /// State, status, action and errors.
    fn judge(&self, store: &Store, status: &mut Status) {
        if let Some(fault) = store.fault() {
            status.errors.push(fault.to_string());
            let action = "see to the device, then unmount and mount it again; what was synced is there";
            status.say("FAULTED", "a failure ended all writing", action);
            return;
        }
        if is_shut_down(store, self.options.read_only) {
            status.errors.push(StoreError::Dead.to_string());
            status.say(
                "FAULTED",
                "it was shut down: nothing reaches the device",
                "unmount it and mount it again",
            );
            return;
        }
        let bad = store.stats().bad_copies;
        if bad > 0 {
            status
                .errors
                .push(format!("{bad} copies of metadata were bad; the other copies were good"));
            status.say(
                "DEGRADED",
                "copies of metadata were bad",
                "see to the device; unmount it and run `keepfs check`",
            );
        }
    }
}

/// Whether the shutdown ioctl was used: a transaction that changes nothing is refused.
fn is_shut_down(store: &Store, read_only: bool) -> bool {
    if read_only {
        return false;
    }
    let nothing = store.transact::<(), StoreError>(|_| Err(Abort::Fail(StoreError::NoSpace)));
    matches!(nothing, Err(StoreError::Dead))
}

fn space(store: &Store) -> Option<SpaceFigures> {
    let figures = store.figures();
    let totals = store.totals().ok()?;
    let page = PAGE as u64;
    Some(SpaceFigures {
        size_bytes: figures.pages * page,
        used_bytes: totals.pages.min(figures.pages) * page,
        available_bytes: figures.available(Purpose::New) * page,
        inodes: totals.inodes,
    })
}

fn written(store: &Store) -> WrittenFigures {
    let traffic = store.traffic();
    let counts = store.stats();
    let of = |class| traffic.of(class).bytes;
    WrittenFigures {
        class_bytes: ClassBytes {
            data: of(Class::Data),
            plog: of(Class::Plog),
            metadata: of(Class::Metadata),
            map: of(Class::Map),
            superblock: of(Class::Superblock),
        },
        cause_bytes: CauseBytes {
            eviction: counts.bytes_eviction,
            checkpoint: counts.bytes_checkpoint,
            consistency: counts.bytes_consistency,
            persistence: counts.bytes_persistence,
        },
        read_bytes: traffic.read.bytes,
        flushes: traffic.flushes,
        transactions: counts.transactions,
        checkpoints: counts.checkpoints,
    }
}

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
            server_pid: None,
            mount: None,
            space: None,
            arena: None,
            log: None,
            written: None,
            errors: Vec::new(),
            events: 0,
        }
    }

    /// Says that something is not as it should be.
    pub fn say(&mut self, state: &str, status: &str, action: &str) {
        self.state = state.into();
        self.status = Some(status.into());
        self.action = Some(action.into());
    }
}

/// Tells how one pool is, or all that are mounted.
pub fn run(args: &Asked) -> Outcome {
    match &args.of {
        Some(of) => {
            let status = of_path(of)?;
            match args.json {
                true => println!("{}", json_text(&status)?),
                false => print!("{}", print::text(&status)),
            }
        }
        None => {
            let all = mounted();
            match args.json {
                true => println!("{:#}", json!({"version": VERSION, "pools": all})),
                false if all.is_empty() => println!("no pools are mounted"),
                false => print!("{}", all.iter().map(print::text).collect::<Vec<_>>().join("\n")),
            }
        }
    }
    Ok(0)
}

fn json_text(status: &Status) -> Result<String, Failure> {
    serde_json::to_string_pretty(status).map_err(|e| Failure::Other(e.to_string()))
}

/// The mounted pools, dead ones too.
fn mounted() -> Vec<Status> {
    let mut found = Vec::new();
    for record in registry::all() {
        match live(&record) {
            Ok(status) => found.push(status),
            // What a server left that died and is mounted no more.
            Err(_) if !record.is_mounted() => record.withdraw(),
            Err(failure) => found.push(silent(&record, &failure)),
        }
    }
    found
}

fn silent(record: &Record, failure: &Failure) -> Status {
    let mut status = Status::unknown(&record.pool);
    status.say(
        "UNKNOWN",
        &failure.to_string(),
        "ask as root, with the keepfs that mounted it",
    );
    status
}

/// A mount point or a pool.
fn of_path(of: &Path) -> Result<Status, Failure> {
    if let Ok((mount, record)) = registry::at_dir(of) {
        return match record {
            Some(record) => live(&record),
            None => Err(Failure::Other(format!(
                "{} is mounted, but its server cannot be asked: only root may, and only if /run was writable at mount",
                mount.dir.display()
            ))),
        };
    }
    let mut servers = registry::of_pool(of).into_iter();
    match servers.find(Record::is_mounted) {
        Some(record) => live(&record),
        None => offline::status(of),
    }
}

/// What the server says; if it is dead, that.
fn live(record: &Record) -> Result<Status, Failure> {
    match control::ask(record, "status") {
        Ok(answer) => serde_json::from_value(answer).map_err(|e| {
            Failure::Other(format!(
                "{}: its server is of another version ({e})",
                record.dir.display()
            ))
        }),
        Err(Silent::Dead) if record.is_mounted() => Ok(dead(record)),
        Err(error) => Err(Failure::Other(format!("{}: {error}", record.dir.display()))),
    }
}

fn dead(record: &Record) -> Status {
    let mut status = Status::unknown(&record.pool);
    let dir = record.dir.display();
    let action = format!("umount -l {dir}, then mount it again; what was synced is there");
    status.say(
        "UNAVAIL",
        &format!("its server (process {}) has died", record.pid),
        &action,
    );
    status.errors.push(format!("every access to {dir} fails"));
    if let Some(words) = record.last_words() {
        let first = words.lines().next().unwrap_or_default();
        status
            .errors
            .push(format!("its last words (more by keepfs events): {first}"));
    }
    status
}

#[cfg(test)]
mod tests;
