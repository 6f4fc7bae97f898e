//! What is told: one entry of [`FAMILIES`] a metric. Names follow Prometheus' practice: base units, `_total` for what only grows.
//!
//! Counters begin at 0 with each server. [`UP`] has the label `dir` alone, so that it is one series whether the server answers or not.

use super::gather::Seen;
use super::text::{Kind, Sample, family};
use crate::figures::{MountFigures, Status};
use crate::scrub::{Found, Report};
use crate::told_path;
use Kind::{Counter, Gauge};
use keepfs_format::PAGE;

/// What a mount can be, as [`Status::state`] has it.
const STATES: [&str; 6] = ["online", "degraded", "faulted", "unavail", "offline", "unknown"];

/// A metric of mounts.
struct Family {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    samples: fn(&Seen) -> Vec<Sample>,
}

/// The first one of all.
const UP: &str = "keepfs_up";

/// All metrics of what was seen, also those that nothing has now: so one answer shows which there are.
pub fn text(all: &[Seen]) -> String {
    let mut text = String::new();
    let version = Sample::of(1).with("version", env!("CARGO_PKG_VERSION"));
    let help = "The program that tells these metrics.";
    family(&mut text, "keepfs_build_info", Gauge, help, [version]);
    let up = all
        .iter()
        .map(|seen| Sample::of(u8::from(seen.is_up())).with("dir", told_path::text(&seen.dir)));
    let help = "Whether the mount is there and its server answered within 2 s.";
    family(&mut text, UP, Gauge, help, up);
    for one in FAMILIES {
        let samples = all.iter().flat_map(|seen| {
            let samples = (one.samples)(seen).into_iter();
            samples.map(|sample| of_mount(seen, sample))
        });
        family(&mut text, one.name, one.kind, one.help, samples);
    }
    text
}

/// The labels of every mount.
fn of_mount(seen: &Seen, sample: Sample) -> Sample {
    let sample = sample.with("dir", told_path::text(&seen.dir));
    match &seen.status {
        Some(status) => sample.with("pool", &*status.id).with("label", &*status.label),
        None => sample,
    }
}

/// One value, if the part of the status that it comes from is there.
fn one<T, V: std::fmt::Display>(part: Option<&T>, value: impl Fn(&T) -> V) -> Vec<Sample> {
    part.map(|part| Sample::of(value(part))).into_iter().collect()
}

/// What its server told, if it did.
fn told<T>(seen: &Seen, part: impl Fn(&Status) -> Option<T>) -> Option<T> {
    seen.status.as_ref().filter(|_| seen.is_up()).and_then(part)
}

fn of_status<V: std::fmt::Display>(seen: &Seen, value: impl Fn(&Status) -> V) -> Vec<Sample> {
    one(seen.status.as_ref().filter(|_| seen.is_up()), value)
}

macro_rules! of_part {
    ($part:ident, $value:expr) => {
        |seen| one(seen.status.as_ref().and_then(|status| status.$part.as_ref()), $value)
    };
}

/// Values that one label tells apart.
fn each<const N: usize>(label: &'static str, values: [(&str, u64); N]) -> Vec<Sample> {
    let sample = |(name, value): (&str, u64)| Sample::of(value).with(label, name);
    values.into_iter().map(sample).collect()
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// Of the last scrub, by what it looked at.
fn found(scrub: Option<&Report>, value: fn(&Found) -> u64) -> Vec<Sample> {
    let Some(scrub) = scrub.filter(|scrub| scrub.state != "none") else {
        return Vec::new();
    };
    each(
        "part",
        [
            ("arena", value(&scrub.arena)),
            ("metadata", value(&scrub.metadata)),
            ("data", value(&scrub.data)),
        ],
    )
}

/// A time that may not have come.
fn time(scrub: Option<&Report>, value: fn(&Report) -> i64) -> Vec<Sample> {
    one(scrub.filter(|scrub| value(scrub) > 0), value)
}

fn operations(seen: &Seen, value: impl Fn(&crate::figures::OperationFigures) -> Sample) -> Vec<Sample> {
    let serving = seen.status.as_ref().and_then(|status| status.serving.as_ref());
    let all = serving.into_iter().flat_map(|serving| &serving.operations);
    all.map(|one| value(one).with("operation", one.name.to_ascii_lowercase()))
        .collect()
}

fn state(seen: &Seen) -> Vec<Sample> {
    let state = seen.status.as_ref().map_or("unknown", |status| &*status.state);
    let is = |name: &str| u64::from(name.eq_ignore_ascii_case(state));
    each("state", STATES.map(|name| (name, is(name))))
}

fn mount_info(seen: &Seen) -> Vec<Sample> {
    let info = |(status, mount): (&Status, &MountFigures)| {
        let arena = status.arena.as_ref();
        Sample::of(1)
            .with("device", told_path::text(&status.pool))
            .with("protect", arena.map_or("", |arena| &arena.protect))
            .with("guard", arena.map_or("", |arena| &arena.guard))
            .with("audit", arena.map_or("", |arena| &arena.audit))
            .with("cache", &*mount.cache)
            .with("io", &*mount.io)
            .with("transport", &*mount.transport)
    };
    let status = seen.status.as_ref();
    let both = status.and_then(|status| Some((status, status.mount.as_ref()?)));
    both.map(info).into_iter().collect()
}

/// In the order in which they are written.
const FAMILIES: &[Family] = &[
    Family {
        name: "keepfs_pool_state",
        kind: Gauge,
        help: "How the pool is: 1 for the state that it has, 0 for the others.",
        samples: state,
    },
    Family {
        name: "keepfs_known_errors",
        kind: Gauge,
        help: "Errors that keepfs status names until they are over or noted.",
        samples: |seen| of_status(seen, |status| status.errors.len()),
    },
    Family {
        name: "keepfs_mount_info",
        kind: Gauge,
        help: "How the pool is mounted.",
        samples: mount_info,
    },
    Family {
        name: "keepfs_mount_start_time_seconds",
        kind: Gauge,
        help: "When it was mounted, seconds since 1970.",
        samples: of_part!(mount, |mount| mount.since_s),
    },
    Family {
        name: "keepfs_mount_read_only",
        kind: Gauge,
        help: "Whether it is mounted read-only.",
        samples: of_part!(mount, |mount| u8::from(mount.read_only)),
    },
    Family {
        name: "keepfs_mount_writing_ended",
        kind: Gauge,
        help: "Whether a failure ended all writing, or too many servers died.",
        samples: of_part!(mount, |mount| u8::from(mount.writing_ended || mount.changes_refused)),
    },
    Family {
        name: "keepfs_pool_size_bytes",
        kind: Gauge,
        help: "Size of the pool.",
        samples: of_part!(space, |space| space.size_bytes),
    },
    Family {
        name: "keepfs_pool_used_bytes",
        kind: Gauge,
        help: "Space in use.",
        samples: of_part!(space, |space| space.used_bytes),
    },
    Family {
        name: "keepfs_pool_available_bytes",
        kind: Gauge,
        help: "Space free for new data.",
        samples: of_part!(space, |space| space.available_bytes),
    },
    Family {
        name: "keepfs_pool_inodes",
        kind: Gauge,
        help: "Inodes in use; there is no limit but space.",
        samples: of_part!(space, |space| space.inodes),
    },
    Family {
        name: "keepfs_device_errors_total",
        kind: Counter,
        help: "Operations that the device failed, and pages read with a wrong checksum.",
        samples: |seen| {
            let Some(errors) = told(seen, |status| status.device_errors) else {
                return Vec::new();
            };
            each(
                "kind",
                [
                    ("read", errors.read),
                    ("write", errors.write),
                    ("flush", errors.flush),
                    ("checksum", errors.checksum),
                ],
            )
        },
    },
    Family {
        name: "keepfs_device_written_bytes_total",
        kind: Counter,
        help: "Bytes written to the device by class of pages.",
        samples: |seen| {
            let Some(written) = seen.status.as_ref().and_then(|status| status.written.as_ref()) else {
                return Vec::new();
            };
            let of = &written.class_bytes;
            each(
                "class",
                [
                    ("data", of.data),
                    ("plog", of.plog),
                    ("metadata", of.metadata),
                    ("map", of.map),
                    ("superblock", of.superblock),
                    ("history", of.history),
                ],
            )
        },
    },
    Family {
        name: "keepfs_metadata_written_bytes_total",
        kind: Counter,
        help: "Bytes of metadata written by what made it necessary.",
        samples: |seen| {
            let Some(written) = seen.status.as_ref().and_then(|status| status.written.as_ref()) else {
                return Vec::new();
            };
            let of = &written.cause_bytes;
            each(
                "cause",
                [
                    ("eviction", of.eviction),
                    ("checkpoint", of.checkpoint),
                    ("consistency", of.consistency),
                    ("persistence", of.persistence),
                ],
            )
        },
    },
    Family {
        name: "keepfs_device_read_bytes_total",
        kind: Counter,
        help: "Bytes read from the device.",
        samples: of_part!(written, |written| written.read_bytes),
    },
    Family {
        name: "keepfs_device_discarded_bytes_total",
        kind: Counter,
        help: "Bytes that the device was told are not needed.",
        samples: of_part!(written, |written| written.discarded_bytes),
    },
    Family {
        name: "keepfs_device_flushes_total",
        kind: Counter,
        help: "Flushes of the device.",
        samples: of_part!(written, |written| written.flushes),
    },
    Family {
        name: "keepfs_transactions_total",
        kind: Counter,
        help: "Transactions committed.",
        samples: of_part!(written, |written| written.transactions),
    },
    Family {
        name: "keepfs_checkpoints_total",
        kind: Counter,
        help: "Checkpoints written.",
        samples: of_part!(written, |written| written.checkpoints),
    },
    Family {
        name: "keepfs_checkpoint_age_seconds",
        kind: Gauge,
        help: "Time since the last checkpoint, before the first one since the mount.",
        samples: |seen| {
            let log = seen.status.as_ref().and_then(|status| status.log.as_ref());
            one(log.and_then(|log| log.since_checkpoint_s.as_ref()), |age_s| *age_s)
        },
    },
    Family {
        name: "keepfs_log_size_bytes",
        kind: Gauge,
        help: "Size of the log.",
        samples: of_part!(log, |log| log.size_bytes),
    },
    Family {
        name: "keepfs_log_used_ratio",
        kind: Gauge,
        help: "How full the log is; at 1 a checkpoint must empty it.",
        samples: of_part!(log, |log| log.used_percent as f64 / 100.0),
    },
    Family {
        name: "keepfs_log_groups_total",
        kind: Counter,
        help: "Commit groups written to the log.",
        samples: of_part!(log, |log| log.groups),
    },
    Family {
        name: "keepfs_log_pending_transactions",
        kind: Gauge,
        help: "Committed transactions that are not on the device yet.",
        samples: of_part!(log, |log| log.last_seq.saturating_sub(log.durable_seq)),
    },
    Family {
        name: "keepfs_arena_size_bytes",
        kind: Gauge,
        help: "Memory for metadata.",
        samples: of_part!(arena, |arena| arena.frames * PAGE as u64),
    },
    Family {
        name: "keepfs_arena_dirty_bytes",
        kind: Gauge,
        help: "Metadata in memory that no checkpoint has yet.",
        samples: of_part!(arena, |arena| arena.dirty_frames * PAGE as u64),
    },
    Family {
        name: "keepfs_arena_evictions_total",
        kind: Counter,
        help: "Frames of memory given to other metablocks.",
        samples: of_part!(arena, |arena| arena.evictions),
    },
    Family {
        name: "keepfs_arena_fetches_total",
        kind: Counter,
        help: "Metablocks read from the device.",
        samples: of_part!(arena, |arena| arena.fetched),
    },
    Family {
        name: "keepfs_arena_repairs_total",
        kind: Counter,
        help: "Damaged frames that the code repaired.",
        samples: of_part!(arena, |arena| arena.repaired),
    },
    Family {
        name: "keepfs_arena_rereads_total",
        kind: Counter,
        help: "Damaged frames that were read again from the device.",
        samples: of_part!(arena, |arena| arena.read_again),
    },
    Family {
        name: "keepfs_arena_drops_total",
        kind: Counter,
        help: "Frames that something changed behind the pool's back and that were dropped.",
        samples: |seen| one(told(seen, |status| status.scribbles_dropped).as_ref(), |frames| *frames),
    },
    Family {
        name: "keepfs_barrier_max_seconds",
        kind: Gauge,
        help: "Longest time that a checkpoint kept transactions from beginning.",
        samples: of_part!(stops, |stops| stops.barrier_us_max as f64 / 1e6),
    },
    Family {
        name: "keepfs_throttle_max_seconds",
        kind: Gauge,
        help: "Longest time that a transaction waited for room in memory.",
        samples: of_part!(stops, |stops| stops.throttle_us_max as f64 / 1e6),
    },
    Family {
        name: "keepfs_requests_total",
        kind: Counter,
        help: "Requests of the kernel by operation of FUSE.",
        samples: |seen| operations(seen, |one| Sample::of(one.requests)),
    },
    Family {
        name: "keepfs_request_wait_seconds_total",
        kind: Counter,
        help: "Time that requests waited for a worker.",
        samples: |seen| operations(seen, |one| Sample::of(seconds(one.waited_ns))),
    },
    Family {
        name: "keepfs_request_handling_seconds_total",
        kind: Counter,
        help: "Time that requests were handled.",
        samples: |seen| operations(seen, |one| Sample::of(seconds(one.handled_ns))),
    },
    Family {
        name: "keepfs_lost_files",
        kind: Gauge,
        help: "Files known to have lost data.",
        samples: |seen| one(told(seen, |status| status.files_lost).as_ref(), |files| *files),
    },
    Family {
        name: "keepfs_damage_entries",
        kind: Gauge,
        help: "Entries of the damage list, by whether something is lost.",
        samples: |seen| {
            let Some(damage) = told(seen, |status| status.damage) else {
                return Vec::new();
            };
            each("kind", [("lost", damage.lost), ("mended", damage.mended)])
        },
    },
    Family {
        name: "keepfs_events_total",
        kind: Counter,
        help: "Warnings and errors that keepfs events shows.",
        samples: |seen| of_status(seen, |status| status.events),
    },
    Family {
        name: "keepfs_keeper_up",
        kind: Gauge,
        help: "Whether the keeper lives, which starts another server if this one dies.",
        samples: of_part!(keeper, |keeper| u8::from(keeper.alive)),
    },
    Family {
        name: "keepfs_server_deaths_total",
        kind: Counter,
        help: "Servers of the mount that died.",
        samples: of_part!(keeper, |keeper| keeper.deaths),
    },
    Family {
        name: "keepfs_server_last_death_timestamp_seconds",
        kind: Gauge,
        help: "When a server of the mount died last, seconds since 1970.",
        samples: |seen| {
            let keeper = seen.status.as_ref().and_then(|status| status.keeper.as_ref());
            one(keeper.and_then(|keeper| keeper.last_death.as_ref()), |death| death.at_s)
        },
    },
    Family {
        name: "keepfs_server_last_death_pause_seconds",
        kind: Gauge,
        help: "For how long the mount stood still then.",
        samples: |seen| {
            let keeper = seen.status.as_ref().and_then(|status| status.keeper.as_ref());
            one(keeper.and_then(|keeper| keeper.last_death.as_ref()), |death| {
                death.pause_ms as f64 / 1e3
            })
        },
    },
    Family {
        name: "keepfs_scrub_running",
        kind: Gauge,
        help: "Whether a scrub is under way.",
        samples: |seen| one(seen.scrub.as_ref(), |scrub| u8::from(scrub.state == "running")),
    },
    Family {
        name: "keepfs_scrub_done_ratio",
        kind: Gauge,
        help: "How much of the last scrub is done.",
        samples: |seen| {
            let began = seen.scrub.as_ref().filter(|scrub| scrub.total_bytes > 0);
            one(began, |scrub| scrub.done_bytes as f64 / scrub.total_bytes as f64)
        },
    },
    Family {
        name: "keepfs_scrub_last_end_timestamp_seconds",
        kind: Gauge,
        help: "When the last scrub ended, seconds since 1970.",
        samples: |seen| time(seen.scrub.as_ref(), |scrub| scrub.ended_s),
    },
    Family {
        name: "keepfs_scrub_last_whole_timestamp_seconds",
        kind: Gauge,
        help: "When everything on the device was looked at last, seconds since 1970.",
        samples: |seen| time(seen.scrub.as_ref(), |scrub| scrub.rest_done_s),
    },
    Family {
        name: "keepfs_scrub_looked_pages",
        kind: Gauge,
        help: "Frames or pages that the last scrub looked at.",
        samples: |seen| found(seen.scrub.as_ref(), |found| found.pages),
    },
    Family {
        name: "keepfs_scrub_corrected_pages",
        kind: Gauge,
        help: "Of them, those that were bad and were mended.",
        samples: |seen| found(seen.scrub.as_ref(), |found| found.corrected),
    },
    Family {
        name: "keepfs_scrub_uncorrectable_pages",
        kind: Gauge,
        help: "Of them, those that cannot be mended.",
        samples: |seen| found(seen.scrub.as_ref(), |found| found.uncorrectable),
    },
    Family {
        name: "keepfs_rounds_looked_frames_total",
        kind: Counter,
        help: "Frames that the rounds looked at that never end.",
        samples: |seen| one(seen.scrub.as_ref(), |scrub| scrub.rounds.pages),
    },
    Family {
        name: "keepfs_rounds_bad_frames_total",
        kind: Counter,
        help: "Of them, those that were bad.",
        samples: |seen| one(seen.scrub.as_ref(), |scrub| scrub.rounds.bad),
    },
];
