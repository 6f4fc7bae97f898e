//! Answers that have a page of their own: each is what it was, a file in `golden/control`, and is understood. S-16.16

use crate::figures::*;
use crate::history::{Concerned, Damaged, Noticed};
use crate::logging::Event;
use crate::pause::Pause;
use crate::properties::Property;
use crate::question::Question;
use crate::scrub::{Found, Report};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "golden/control"].iter().collect()
}

fn file(name: &str) -> String {
    let path = folder().join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Whether a question has an answer with a page of its own. Whoever adds one says it here.
fn page(question: &Question) -> Option<&'static str> {
    match question {
        Question::Status => Some("status"),
        Question::Events => Some("events"),
        Question::Get => Some("properties"),
        Question::History(_) => Some("history"),
        Question::Damage => Some("damage"),
        Question::ScrubStatus => Some("scrub"),
        Question::Alive
        | Question::Sync
        | Question::Follow
        | Question::Write
        | Question::Where
        | Question::Upgrade
        | Question::Wait
        | Question::DamageClear
        | Question::Set(_)
        | Question::ScrubStart(_)
        | Question::ScrubPause
        | Question::ScrubResume
        | Question::ScrubCancel
        | Question::ScrubLimit(_) => None,
        // For tests of Keepfs only: no other program asks.
        Question::Inject(_) | Question::Planted(_) => None,
    }
}

/// Files that are no page: the lines of questions and short answers, and a status as the first release told it.
const OTHERS: [&str; 3] = ["questions", "answers", "status-before"];

fn status() -> Status {
    Status {
        version: 1,
        pool: "/pools/photos".into(),
        label: "photos".into(),
        id: "0123456789abcdef0123456789abcdef".into(),
        state: "DEGRADED".into(),
        status: Some("a frame was mended".into()),
        action: Some("nothing need be done".into()),
        scrub: "finished, nothing found".into(),
        scrub_began_s: Some(1_764_187_000),
        scrub_ended_s: Some(1_764_187_100),
        test: false,
        protect: "pcrc".into(),
        exposed: Some("others can read it".into()),
        mmp_s: Some(5),
        mmp_by: Some("another".into()),
        server_pid: Some(4712),
        keeper: Some(KeeperFigures {
            pid: 4711,
            alive: true,
            spare_pid: Some(4713),
            servers: 3,
            deaths: 2,
            last_death: Some(DeathFigures {
                how: "signal 9".into(),
                at_s: 1_764_187_050,
                pause_ms: 21,
                pause_us: Pause {
                    start: 1,
                    confine: 2,
                    adopt: 3,
                    roll_back: 4,
                    recover: 5,
                    checkpoint: 6,
                    evidence: 7,
                    requests: 8,
                    volume: 9,
                    serve: 10,
                },
            }),
        }),
        dir: Some("/mnt/photos".into()),
        mount: Some(MountFigures {
            read_only: false,
            writing_ended: false,
            changes_refused: true,
            access_times: "relatime".into(),
            nodiratime: true,
            cache: "writeback".into(),
            anchored: true,
            transport: "dev".into(),
            io: "buffered".into(),
            commit_s: 5,
            since_s: 1_764_187_000,
        }),
        space: Some(SpaceFigures {
            size_bytes: 1 << 30,
            used_bytes: 1 << 20,
            available_bytes: 1 << 29,
            inodes: 17,
        }),
        arena: Some(ArenaFigures {
            frames: 16384,
            dirty_frames: 12,
            evictions: 1,
            fetched: 40,
            guard: "sealed".into(),
            protect: "pcrc".into(),
            audit: "all".into(),
            repaired: 1,
            read_again: 2,
            repairs_refused: 0,
        }),
        stops: Some(StopFigures {
            barrier_us_max: 90,
            barrier_us: vec![0, 1, 2],
            barriers_withdrawn: 1,
            throttle_us_max: 80,
            throttle_us: vec![3, 0],
        }),
        serving: Some(serving()),
        log: Some(LogFigures {
            size_bytes: 1 << 24,
            used_percent: 12,
            groups: 9,
            last_seq: 101,
            durable_seq: 100,
            since_checkpoint_s: Some(3),
        }),
        written: Some(written()),
        device_errors: Some(ErrorFigures {
            read: 1,
            write: 2,
            flush: 3,
            checksum: 4,
        }),
        files_lost: Some(1),
        scribbles_dropped: Some(2),
        damage: Some(DamageFigures { lost: 1, mended: 2 }),
        errors: vec!["a page of the device was bad".into()],
        events: 6,
    }
}

fn serving() -> ServingFigures {
    ServingFigures {
        operations: vec![OperationFigures {
            name: "CREATE".into(),
            requests: 5,
            handed_over: 1,
            waited_ns: 10,
            handled_ns: 20,
            replied_ns: 30,
        }],
        threads: vec![ThreadFigures {
            name: "fuse-read".into(),
            threads: 2,
            ran_ns: 100,
            runnable_ns: 20,
            runs: 7,
        }],
    }
}

fn written() -> WrittenFigures {
    WrittenFigures {
        class_bytes: ClassBytes {
            data: 1,
            plog: 2,
            metadata: 3,
            map: 4,
            superblock: 5,
            history: 6,
        },
        cause_bytes: CauseBytes {
            eviction: 1,
            checkpoint: 2,
            consistency: 3,
            persistence: 4,
        },
        read_bytes: 4096,
        flushes: 3,
        discarded_bytes: 8192,
        transactions: 101,
        checkpoints: 2,
        compaction: CompactionFigures {
            pages: 10,
            bytes: 900,
            dirty_sizes: vec![9, 1],
        },
    }
}

fn events() -> Vec<Event> {
    vec![Event {
        time_s: 1_764_187_050,
        level: "error".into(),
        part: "keepfs::guard".into(),
        text: "a stray write was stopped".into(),
    }]
}

fn properties() -> Vec<Property> {
    vec![Property {
        name: "size".into(),
        value: "1073741824".into(),
        is_size: true,
        source: "-".into(),
    }]
}

fn history() -> Vec<Noticed> {
    let whole = Noticed {
        number: 8,
        time_s: 1_764_187_050,
        place: "memory".into(),
        verdict: "other bytes".into(),
        done: "mended".into(),
        id: 300,
        at: 12,
        id_text: Some("300".into()),
        at_text: Some("12".into()),
        page: 77,
        offset: 40,
        length: 8,
        window_ms: Some(1500),
        old: "00ff".into(),
        new: "0000".into(),
        text: "a frame was mended".into(),
        files: vec![Concerned {
            inode: 300,
            path: "/a".into(),
            path_bytes: Some("2f61".into()),
            was: "/b".into(),
            was_bytes: Some("2f62".into()),
        }],
    };
    let least = Noticed {
        at: 0,
        id_text: None,
        at_text: None,
        window_ms: None,
        files: Vec::new(),
        ..whole.clone()
    };
    vec![whole, least]
}

fn damage() -> Vec<Damaged> {
    let whole = Damaged {
        inode: 300,
        path: "/a".into(),
        path_bytes: Some("2f61".into()),
        was: "/b".into(),
        was_bytes: Some("2f62".into()),
        place: "data".into(),
        metablock: Some("Inodes 7".into()),
        from: 4096,
        length: 512,
        verdict: "other bytes".into(),
        done: "lost".into(),
        lost: true,
        first_s: 1_764_187_050,
        last_s: 1_764_187_060,
        count: 2,
    };
    let least = Damaged {
        path_bytes: None,
        was: String::new(),
        was_bytes: None,
        metablock: None,
        ..whole.clone()
    };
    vec![whole, least]
}

fn scrub() -> Report {
    let found = |pages| Found {
        pages,
        bad: 3,
        corrected: 2,
        uncorrectable: 1,
    };
    Report {
        version: 1,
        id: "0123456789abcdef0123456789abcdef".into(),
        state: "running".into(),
        phase: "data".into(),
        started_s: 1_764_187_000,
        ended_s: 0,
        active_ms: 2500,
        left_s: Some(60),
        total_bytes: 1 << 30,
        done_bytes: 1 << 20,
        limit_bytes_per_s: 1 << 24,
        arena: found(10),
        metadata: found(20),
        data: found(30),
        rounds: found(40),
        rest_done_s: 1_764_000_000,
    }
}

/// It is written as the file, and read as it.
fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(name: &'static str, answer: &T) -> &'static str {
    let golden = file(name);
    let ours = serde_json::to_string_pretty(answer).unwrap() + "\n";
    assert_eq!(ours, golden, "{name}");
    assert_eq!(serde_json::from_str::<T>(&golden).unwrap(), *answer, "{name}");
    name
}

#[test]
fn every_page_is_what_it_was_and_is_understood() {
    let held = [
        same("status", &status()),
        same("events", &events()),
        same("properties", &properties()),
        same("history", &history()),
        same("damage", &damage()),
        same("scrub", &scrub()),
    ];
    let pages: BTreeSet<&str> = super::questions().iter().filter_map(page).collect();
    assert_eq!(pages, BTreeSet::from(held), "answers that no file holds");
    let known = held.len() + OTHERS.len();
    assert_eq!(
        fs::read_dir(folder()).unwrap().count(),
        known,
        "files that no test reads"
    );
}

/// A server of the first release told less; what it did not tell is as if there were none.
#[test]
fn a_status_of_the_first_release_is_understood() {
    let before: Status = serde_json::from_str(&file("status-before")).unwrap();
    let now = status();
    assert_eq!(
        (before.state, before.label, before.errors),
        (now.state, now.label, now.errors)
    );
    assert_eq!(before.keeper, None);
    assert_eq!(before.damage, None);
    let (mount, was) = (before.mount.unwrap(), now.mount.unwrap());
    assert_eq!((mount.access_times, mount.commit_s), (was.access_times, was.commit_s));
    assert_eq!((mount.transport, mount.changes_refused), (String::new(), false));
    let arena = before.arena.unwrap();
    assert_eq!((arena.frames, arena.protect), (16384, String::new()));
}
