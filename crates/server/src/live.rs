//! A server that serves: how its pool is, and its answers to those who ask on the control socket.

pub mod follow;
pub mod inject;
mod left;
pub mod scrub;
mod set;

pub use left::leave_remains;
pub use set::{is_as_wanted, was_set};

use crate::figures::{
    ArenaFigures, CauseBytes, ClassBytes, CompactionFigures, DeathFigures, ErrorFigures, KeeperFigures, LogFigures,
    MountFigures, SpaceFigures, Status, StopFigures, WrittenFigures,
};
use crate::health::{counted, damaged, ended, lost};
use crate::kept::Kept;
use crate::lives::Mode;
use crate::logging::Ring;
use crate::options::{MountOptions, access_times_name};
use crate::pause::Pause;
#[cfg(feature = "planted")]
use crate::planted;
use crate::question::{Durable, Question};
use crate::registry::Record;
use crate::{history, serving};
use keepfs_format::PAGE;
use keepfs_fs::{AccessTimes, Volume};
use keepfs_fuse::{Lifeline, Tally};
use keepfs_media::Class;
use keepfs_store::{Abort, Error as StoreError, Purpose, Store};
use keepfs_vfs::Vfs;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// What a server needs to say how its pool is.
pub struct Live {
    /// Its own record.
    pub record: Record,
    /// How it was mounted.
    pub options: MountOptions,
    /// With an anchor.
    pub anchored: bool,
    /// The transport in use.
    pub transport: &'static str,
    /// What the kernel asked for.
    pub tally: Arc<Tally>,
    /// Whether it is mounted still.
    pub lifeline: Lifeline,
    /// What it noticed.
    pub ring: Ring,
    /// The file system, as long as it is served.
    pub volume: Weak<Volume>,
    /// Whether all changes are refused now, as the table of mounts said last.
    pub read_only: AtomicBool,
    /// Its keeper, if there is one.
    pub kept: Option<Arc<Kept>>,
    /// How long the mount stood still for this server to take the place of one that died, milliseconds; and the parts.
    pub pause: Mutex<(u64, Pause)>,
    /// Held by who does what the table of mounts says; why it could not, when that was told last.
    pub following: Mutex<Option<String>>,
}

impl Live {
    /// At the moment of the mount: with an anchor or not, by which transport, and the counters of its requests.
    pub fn new(
        record: Record,
        options: MountOptions,
        (anchored, transport, tally): (bool, &'static str, Arc<Tally>),
        ring: Ring,
        volume: Weak<Volume>,
    ) -> Live {
        Live {
            read_only: AtomicBool::new(options.read_only),
            following: Mutex::default(),
            kept: None,
            pause: Mutex::default(),
            record,
            options,
            anchored,
            transport,
            tally,
            lifeline: Lifeline::default(),
            ring,
            volume,
        }
    }

    /// How the pool is now.
    pub fn status(&self) -> Status {
        let mut status = Status::unknown(&self.record.pool);
        status.server_pid = Some(std::process::id());
        status.keeper = self.kept.as_deref().map(|kept| self.keeper(kept));
        status.dir = Some(self.record.dir.clone());
        status.mount = Some(self.mount());
        status.serving = Some(serving::serving(&self.tally));
        status.events = self.ring.count();
        match self.volume.upgrade() {
            Some(volume) => self.figures(&volume, &mut status),
            None => status.say("OFFLINE", "it is being unmounted", "wait until its server has ended"),
        }
        status
    }

    fn keeper(&self, kept: &Kept) -> KeeperFigures {
        let told = kept.told();
        let (pause_ms, pause_us) = self.pause.lock().clone();
        KeeperFigures {
            pid: told.keeper_pid,
            alive: kept.has_keeper(),
            spare_pid: kept.spare_pid(),
            servers: told.lives,
            deaths: told.deaths,
            last_death: told.last_death.as_ref().map(|death| DeathFigures {
                how: death.how.clone(),
                at_s: death.at_s,
                pause_ms,
                pause_us: pause_us.clone(),
            }),
        }
    }

    /// The answer to a question; `None`: it makes no sense here.
    pub fn answer(&self, question: &Question) -> Option<Value> {
        match question {
            Question::Status => value(&self.status()),
            Question::Sync => value(&self.sync()),
            Question::Follow => value(&self.follow()),
            Question::Write => value(&self.begin_writing()),
            Question::Where => value(&self.place()),
            Question::Events => value(&self.ring.events()),
            Question::Get => value(&self.properties()?),
            Question::Upgrade => value(&self.upgrade()),
            Question::Set(wanted) => value(&self.set(wanted)?),
            // The control socket answers these itself.
            Question::Alive | Question::Wait => None,
            of_pool => self.answer_of_pool(of_pool),
        }
    }

    fn answer_of_pool(&self, question: &Question) -> Option<Value> {
        let volume = self.volume.upgrade()?;
        match question {
            Question::Inject(words) => inject::answer(&volume, words),
            #[cfg(feature = "planted")]
            Question::Planted(words) => planted::answer(&volume, self.kept.as_deref(), words),
            other => match scrub::answer(&volume, other) {
                None => history::answer(&volume, other),
                answer => answer,
            },
        }
    }

    /// Makes everything durable that the server knows of.
    pub fn sync(&self) -> Durable {
        let synced = self.volume.upgrade().map_or(Ok(()), |volume| volume.syncfs());
        synced.map_err(|errno| errno.to_string()).into()
    }

    /// When access times move now, as the table of mounts says, and whether those of directories stay.
    pub fn access_times(&self) -> (AccessTimes, bool) {
        self.seen()
            .map_or((self.options.access_times, self.options.nodiratime), |mount| {
                (mount.access_times(), mount.is_nodiratime())
            })
    }

    /// How it is mounted now.
    pub fn mount(&self) -> MountFigures {
        let (times, nodiratime) = self.access_times();
        MountFigures {
            read_only: self.read_only.load(Ordering::Acquire),
            writing_ended: false,
            changes_refused: false,
            access_times: access_times_name(times).into(),
            nodiratime,
            cache: self.options.cache_name().into(),
            anchored: self.anchored,
            transport: self.transport.into(),
            io: self.options.io_name().into(),
            commit_s: self.options.commit.as_secs(),
            since_s: self.record.since_ns / 1_000_000_000,
        }
    }

    fn figures(&self, volume: &Volume, status: &mut Status) {
        let store = volume.store();
        let pool = store.pool();
        status.label.clone_from(&pool.label);
        status.id = pool.id.to_string();
        status.space = Some(space(store));
        status.scrub = scrub::one_line(volume);
        (status.scrub_began_s, status.scrub_ended_s) = scrub::times(volume);
        status.test = pool.is_test;
        status.protect = store.pool_in_force().protect.name().into();
        status.mmp_s = store.mmp();
        let (frames, dirty, evictions) = store.arena_figures();
        let counts = store.stats();
        status.arena = Some(ArenaFigures {
            frames: frames.into(),
            dirty_frames: dirty,
            evictions,
            fetched: counts.fetched,
            guard: self.options.guard_name().into(),
            protect: pool.protect.name().into(),
            audit: self.options.audit.to_string(),
            repaired: counts.repaired,
            read_again: counts.read_again,
            repairs_refused: 0,
        });
        status.stops = Some(StopFigures {
            barrier_us_max: counts.barrier.ns_max / 1000,
            barrier_us: counts.barrier.counts.to_vec(),
            barriers_withdrawn: counts.barriers_withdrawn,
            throttle_us_max: counts.throttle.ns_max / 1000,
            throttle_us: counts.throttle.counts.to_vec(),
        });
        let (used, usable) = store.log_fill();
        status.log = Some(LogFigures {
            size_bytes: pool.log.pages * PAGE as u64,
            used_percent: (used * 100).checked_div(usable).unwrap_or(100).min(100),
            groups: counts.groups,
            last_seq: store.last_seq(),
            durable_seq: store.durable_seq(),
            since_checkpoint_s: Some(store.since_checkpoint().as_secs()),
        });
        status.written = Some(written(store));
        let failed = store.device_errors();
        status.device_errors = Some(ErrorFigures {
            read: failed.reads,
            write: failed.writes,
            flush: failed.flushes,
            checksum: failed.checksums,
        });
        status.files_lost = Some(volume.files_with_lost_data());
        status.scribbles_dropped = Some(counts.scribbles_dropped);
        self.judge(volume, status);
    }

    /// State, status, action and errors; the worst that is known decides.
    fn judge(&self, volume: &Volume, status: &mut Status) {
        let store = volume.store();
        if status.keeper.as_ref().is_some_and(|keeper| !keeper.alive) {
            status.say(
                "DEGRADED",
                "its keeper has died when no other stood ready; it serves on, but ends with this server",
                "unmount it and mount it again when that suits; until then nothing takes a dead server's place",
            );
        }
        degraded(store, &Told::since(store, self.record.since_ns), status);
        volume.heal_damage();
        let list = store.history().damage();
        lost(&list, store.log_cut(), status);
        damaged(&list, status);
        let ended = self.ended(store, status);
        if let Some(mount) = &mut status.mount {
            mount.writing_ended = ended;
        }
        if let Some(told) = self.kept.as_ref().map(|kept| kept.told())
            && told.mode == Mode::ReadOnly
        {
            status
                .errors
                .push(format!("{} servers of this mount died", told.deaths));
            if let Some(mount) = &mut status.mount {
                mount.changes_refused = true;
            }
            status.say(
                "FAULTED",
                "servers died too often; changes are refused",
                "see `keepfs events`; unmount it, check it, and mount it again",
            );
        }
    }

    /// Says so if writing has ended.
    fn ended(&self, store: &Store, status: &mut Status) -> bool {
        store.look_at_claim();
        if let Some(fault) = store.fault() {
            ended::by(&fault, status);
            return true;
        }
        let shut_down = is_shut_down(store);
        if shut_down {
            status.errors.push(StoreError::Dead.to_string());
            status.say(
                "FAULTED",
                "it was shut down: nothing reaches the device",
                "unmount it and mount it again",
            );
        }
        shut_down
    }
}

fn value(answer: &impl Serialize) -> Option<Value> {
    serde_json::to_value(answer).ok()
}

/// What the history tells of this mount: a server knows only what it met itself, not what those before it did.
#[derive(Default)]
struct Told {
    mended: u64,
    dropped: u64,
    /// Of memory that holds no metablocks.
    beside: u64,
    /// Slots of superblocks on the device that had a wrong bit, one bit each.
    superblocks: u64,
    /// Copies of metablocks on the device that were bad: the metablock, and which of its copies.
    copies: BTreeSet<(u64, u64)>,
    /// Pages of the log that were bad and mended.
    log: Vec<u64>,
}

impl Told {
    /// Since its mounting began, nanoseconds since 1970, and since somebody took note. S-18.18
    fn since(store: &Store, since_ns: u64) -> Told {
        let mut told = Told::default();
        let since_s = i64::try_from(since_ns / 1_000_000_000).unwrap_or(i64::MAX);
        let events = store.history().events(store.history().noted()).into_iter();
        for event in events.filter(|event| event.seconds >= since_s) {
            let (mended, dropped) = (history::is_mended(event.done), event.done == history::DROPPED);
            if event.place == history::MEMORY {
                told.mended += u64::from(mended);
                told.dropped += u64::from(dropped);
            } else if event.place == history::SUPERBLOCK {
                told.superblocks |= u64::from(mended) << (event.at % 64);
            } else if event.place == history::DEVICE {
                told.copies.insert((event.id, event.at));
            } else if event.place == history::LOG {
                if mended && !told.log.contains(&event.page) {
                    told.log.push(event.page);
                }
            } else if history::BESIDE.contains(&event.place) {
                told.beside += u64::from(mended || dropped || event.done == history::OTHER_COPY);
            }
        }
        told
    }
}

/// What failed although writing goes on; the worst comes last.
fn degraded(store: &Store, told: &Told, status: &mut Status) {
    if store.is_host_full() {
        status.degraded(
            "there is no room for more data in the file system that holds the pool's file".into(),
            "the file system under the pool is full: new data get ENOSPC",
            "make room there, or remove files from the pool and trim it (fstrim)",
        );
    }
    let news = store.news();
    let failed = news.errors;
    // What a page with a wrong checksum was of is damaged, or whole by now: that is told below.
    if failed.reads + failed.writes + failed.flushes > 0 {
        let errors = format!(
            "the device failed {} reads, {} writes, {} flushes; {} pages had a wrong checksum",
            failed.reads, failed.writes, failed.flushes, failed.checksums
        );
        status.degraded(
            errors,
            "the device failed operations",
            "see to the device (dmesg, smartctl); `keepfs events` says what became of each, `keepfs damage clear` takes note of it",
        );
    }
    let bad = news.bad_copies.max(told.copies.len() as u64);
    if bad > 0 {
        status.degraded(
            format!("{bad} copies of metadata were bad; where another copy was good nothing is lost"),
            "copies of metadata were bad",
            "see to the device (dmesg, smartctl); `keepfs scrub start` writes bad copies anew while it is in use, `keepfs damage clear` takes note",
        );
    }
    let mended = news.mended.max(told.mended);
    if mended > 0 {
        let blocks = counted(mended, "block");
        status.degraded(
            format!("{blocks} of metadata changed in memory behind the pool's back and mended"),
            "metadata was damaged in memory; it was repaired, nothing of it was written",
            "test the memory (memtest86+, EDAC in dmesg); `keepfs events` names the blocks",
        );
    }
    let dropped = news.dropped.max(told.dropped);
    if dropped > 0 {
        let blocks = counted(dropped, "block");
        status.degraded(
            format!("{blocks} of metadata changed in memory behind the pool's back"),
            "metadata was damaged in memory; it was dropped and made anew, nothing of it was written",
            "test the memory (memtest86+, EDAC in dmesg); `keepfs events` names the blocks",
        );
    }
    if told.beside > 0 {
        let places = counted(told.beside, "place");
        status.degraded(
            format!(
                "{places} of memory beside metadata (redo, staged pages, what a server left) not as they should be"
            ),
            "memory was damaged; it was mended or not used, nothing of it was written",
            "test the memory (memtest86+, EDAC in dmesg); `keepfs events` names the places",
        );
    }
    if let Some(page) = told.log.first() {
        let more = match news.log_mended.max(told.log.len()) - 1 {
            0 => String::new(),
            more => format!("; so were {more} more of its pages"),
        };
        status.degraded(
            format!("page {page} of the device, of the log, was bad when it was read last, and was mended{more}"),
            "a page of the log was bad; nothing is lost",
            "see to the device (dmesg, smartctl)",
        );
    }
    if told.superblocks > 0 {
        let superblocks = counted(told.superblocks.count_ones().into(), "superblock");
        status.degraded(
            format!("{superblocks} on the device had a wrong bit, which was undone"),
            "a superblock was damaged; nothing is lost",
            "see to the device (dmesg, smartctl)",
        );
    }
    if let Some(lost) = status.files_lost.filter(|lost| *lost > 0) {
        let files = counted(lost, "file");
        status.degraded(
            format!("{files} with lost data"),
            "file data is lost: reading it gives EIO",
            "see to the device; `keepfs damage list` names the files: restore them or write what is lost anew; `keepfs check --data` reads all when it is unmounted",
        );
    }
}

/// Whether the shutdown ioctl was used: a transaction that changes nothing is refused.
fn is_shut_down(store: &Store) -> bool {
    if store.is_read_only() {
        return false;
    }
    let nothing = store.transact::<(), StoreError>(|_| Err(Abort::Fail(StoreError::NoSpace)));
    matches!(nothing, Err(StoreError::Dead))
}

fn space(store: &Store) -> SpaceFigures {
    let figures = store.figures();
    let totals = store.totals();
    let page = PAGE as u64;
    SpaceFigures {
        size_bytes: figures.pages * page,
        used_bytes: totals.pages.min(figures.pages) * page,
        available_bytes: figures.obtainable(Purpose::New) * page,
        inodes: totals.inodes,
    }
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
            history: of(Class::History),
        },
        cause_bytes: CauseBytes {
            eviction: counts.bytes_eviction,
            checkpoint: counts.bytes_checkpoint,
            consistency: counts.bytes_consistency,
            persistence: counts.bytes_persistence,
        },
        read_bytes: traffic.read.bytes,
        flushes: traffic.flushes,
        discarded_bytes: traffic.discarded.bytes,
        transactions: counts.transactions,
        checkpoints: counts.checkpoints,
        compaction: CompactionFigures {
            pages: counts.updated_pages,
            bytes: counts.updated_bytes,
            dirty_sizes: counts.dirty_sizes.to_vec(),
        },
    }
}
