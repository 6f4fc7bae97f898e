//! What the journal and syslog get.

use super::{About, MOST, System};
use crate::logging::Event;
use std::os::unix::net::UnixDatagram;

fn about() -> About {
    About {
        pool: "/pool".into(),
        dir: "/mnt/a".into(),
    }
}

fn event(level: &str, text: &str) -> Event {
    Event {
        time_s: 7,
        level: level.into(),
        part: "keepfs_store".into(),
        text: text.into(),
    }
}

/// A log that listens, and who tells it.
fn log(is_journal: bool) -> (tempfile::TempDir, UnixDatagram, System) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("socket");
    let log = UnixDatagram::bind(&path).expect("a socket");
    log.set_nonblocking(true).expect("not waiting");
    let system = System::to(&path, is_journal, about()).expect("connected");
    (dir, log, system)
}

fn next(log: &UnixDatagram) -> Option<Vec<u8>> {
    let mut message = [0; 4096];
    let length = log.recv(&mut message).ok()?;
    Some(message[..length].to_vec())
}

#[test]
fn the_journal_gets_fields() {
    let (_dir, log, mut system) = log(true);
    let fields = [("how".to_owned(), "signal 9".to_owned())];
    system.tell(&event("error", "a server died"), &fields);
    let said = String::from_utf8(next(&log).expect("a message")).expect("text");
    for line in [
        "MESSAGE=/mnt/a: a server died",
        "PRIORITY=3",
        "SYSLOG_IDENTIFIER=keepfs",
        "KEEPFS_POOL=/pool",
        "KEEPFS_MOUNT=/mnt/a",
        "KEEPFS_PART=keepfs_store",
        "KEEPFS_HOW=signal 9",
    ] {
        assert!(said.lines().any(|told| told == line), "{line}: {said}");
    }
    system.tell(&event("warn", "two\nlines"), &[]);
    let said = next(&log).expect("a message");
    let mut start = b"MESSAGE\n".to_vec();
    start.extend(17_u64.to_le_bytes());
    start.extend(b"/mnt/a: two\nlines\n");
    assert!(said.starts_with(&start), "{said:?}");
    assert!(said.windows(11).any(|part| part == b"PRIORITY=4\n"));
}

#[test]
fn syslog_gets_one_line() {
    let (_dir, log, mut system) = log(false);
    system.tell(&event("error", "two\nlines"), &[]);
    let said = String::from_utf8(next(&log).expect("a message")).expect("text");
    let expected = format!("<27>keepfs[{}]: /mnt/a: two\\nlines", std::process::id());
    assert_eq!(said, expected);
}

#[test]
fn a_flood_is_counted_and_not_told() {
    let (_dir, log, mut system) = log(false);
    let mut told = 0;
    for _ in 0..MOST + 100 {
        system.tell(&event("warn", "again"), &[]);
        told += u32::from(next(&log).is_some());
    }
    assert_eq!((told, system.left_out), (MOST, 100));
}

/// A log that nobody reads stops nobody.
#[test]
fn nobody_waits_for_the_log() {
    let (_dir, _log, mut system) = log(false);
    for _ in 0..MOST {
        system.tell(&event("warn", "again"), &[]);
    }
}

#[test]
fn without_a_log_there_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    assert!(System::to(&dir.path().join("none"), true, about()).is_err());
}
