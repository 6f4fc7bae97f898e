//! What is told, and what is no news.

use super::{GATHER, Look, Told, Watch};
use crate::cli::hooks::event::{Event, Kind};
use keepfs_server::figures::{DeathFigures, KeeperFigures, MountFigures, Status};
use keepfs_server::history::Noticed;
use keepfs_server::registry::Record;
use keepfs_server::scrub::Report;
use std::path::Path;
use std::time::{Duration, Instant};

fn watch(folder: &Path) -> Watch {
    let record = Record {
        pid: 1,
        kept: true,
        pool: "/pool".into(),
        identities: Vec::new(),
        births: Default::default(),
        dir: "/mnt".into(),
        device: "0:1".into(),
        since_ns: 1,
        options: Vec::new(),
    };
    let mut watch = Watch::new(record, folder);
    (watch.told, watch.id) = (Some(Told::default()), "id".into());
    watch
}

fn noticed(number: u64, done: &str) -> Noticed {
    Noticed {
        number,
        time_s: 0,
        place: "memory".into(),
        verdict: "stray write".into(),
        done: done.into(),
        id: 0,
        at: 0,
        id_text: None,
        at_text: None,
        page: 0,
        offset: 0,
        length: 0,
        window_ms: None,
        old: String::new(),
        new: String::new(),
        text: format!("number {number}"),
        files: Vec::new(),
    }
}

fn look(state: &str, deaths: u64, noticed: Vec<Noticed>) -> Look {
    let mut status = Status::unknown(Path::new("/pool"));
    (status.id, status.dir, status.state) = ("id".into(), Some("/mnt".into()), state.into());
    status.mount = Some(MountFigures {
        read_only: false,
        writing_ended: false,
        changes_refused: false,
        access_times: "relatime".into(),
        nodiratime: false,
        cache: String::new(),
        anchored: true,
        transport: String::new(),
        io: String::new(),
        commit_s: 5,
        since_s: 7,
    });
    status.keeper = Some(KeeperFigures {
        pid: 1,
        alive: true,
        spare_pid: None,
        servers: deaths + 1,
        deaths,
        last_death: (deaths > 0).then(|| DeathFigures {
            how: "signal 9".into(),
            at_s: 0,
            pause_ms: 50,
            pause_us: Default::default(),
        }),
    });
    Look {
        status,
        scrub: None,
        noticed,
    }
}

fn ended(ended_s: i64) -> Report {
    let nothing = serde_json::json!({"pages": 0, "bad": 0, "corrected": 0, "uncorrectable": 0});
    serde_json::from_value(serde_json::json!({
        "version": 1, "id": "id", "state": "finished", "phase": "data", "started_s": 1, "ended_s": ended_s, "active_ms": 1,
        "left_s": null, "total_bytes": 1, "done_bytes": 1, "limit_bytes_per_s": 0, "arena": nothing, "metadata": nothing,
        "data": nothing, "rounds": nothing, "rest_done_s": ended_s,
    }))
    .unwrap()
}

fn kinds(events: &[Event]) -> Vec<Kind> {
    events.iter().map(|event| event.kind).collect()
}

#[test]
fn what_was_there_at_first_is_no_news_but_for_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = watch(folder.path());
    let now = Instant::now();
    let first = look("DEGRADED", 3, vec![noticed(1, "dropped")]);
    let first = Look {
        scrub: Some(ended(5)),
        ..first
    };
    let told = watch.compare(first, now);
    assert_eq!(kinds(&told), [Kind::State]);
    assert!(
        told[0].summary.starts_with("/mnt: DEGRADED (was ONLINE)"),
        "{}",
        told[0].summary
    );
    assert!(watch.compare(look("DEGRADED", 3, Vec::new()), now).is_empty());
    watch.keep(&watch.told().unwrap());
    // Whoever follows next goes on there.
    let mut next = self::watch(folder.path());
    next.told = Some(super::read(folder.path(), "id"));
    assert_eq!(next.told.as_ref().unwrap().event, 1);
    let later = Look {
        scrub: Some(ended(6)),
        ..look("ONLINE", 4, vec![noticed(2, "fenced")])
    };
    let told = next.compare(later, now);
    assert_eq!(kinds(&told), [Kind::Damage, Kind::Death, Kind::State, Kind::Scrub]);
    assert_eq!(told[0].summary, "/mnt: number 2");
    assert_eq!(told[1].summary, "/mnt: its server died (signal 9); another one serves");
}

#[test]
fn a_flood_of_damage_is_told_together() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = watch(folder.path());
    let now = Instant::now();
    watch.compare(look("ONLINE", 0, Vec::new()), now);
    let damage = |number| look("ONLINE", 0, vec![noticed(number, "dropped")]);
    assert_eq!(kinds(&watch.compare(damage(1), now)), [Kind::Damage]);
    assert!(watch.compare(damage(2), now + Duration::from_secs(1)).is_empty());
    assert!(watch.compare(damage(3), now + Duration::from_secs(2)).is_empty());
    // Who follows next is told of what waits.
    watch.keep(&watch.told().unwrap());
    assert_eq!(super::read(folder.path(), "id").event, 1);
    let told = watch.compare(look("ONLINE", 0, Vec::new()), now + GATHER);
    assert_eq!(told[0].summary, "/mnt: 2 damages, of which all were mended");
    assert_eq!(told[0].text, "number 2\nnumber 3");
    assert_eq!(told[0].details["events"].as_array().unwrap().len(), 2);
    watch.keep(&watch.told().unwrap());
    assert_eq!(super::read(folder.path(), "id").event, 3);
}

#[test]
fn a_server_that_is_silent_for_a_moment_is_no_news() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = watch(folder.path());
    let now = Instant::now();
    watch.compare(look("ONLINE", 0, Vec::new()), now);
    let silent = || look("UNKNOWN", 0, Vec::new());
    assert!(watch.compare(silent(), now).is_empty());
    assert!(watch.compare(silent(), now).is_empty());
    assert!(watch.compare(look("ONLINE", 0, Vec::new()), now).is_empty());
    let told: Vec<Event> = (0..4).flat_map(|_| watch.compare(silent(), now)).collect();
    assert_eq!(kinds(&told), [Kind::State]);
    let told = watch.compare(look("ONLINE", 0, Vec::new()), now);
    assert!(
        told[0].summary.starts_with("/mnt: ONLINE (was UNKNOWN)"),
        "{}",
        told[0].summary
    );
    assert!(watch.compare(look("OFFLINE", 0, Vec::new()), now).is_empty());
}
