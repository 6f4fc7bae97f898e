//! The servers of the mounts, asked side by side: one that hangs costs its own figures, never the answer.

use crate::figures::Status;
use crate::question::Question;
use crate::registry::{self, Record};
use crate::scrub::Report;
use crate::{control, status, table};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long all of them together may take: what a server may ([`control::SOON`]), and what asking takes.
const LIMIT: Duration = control::SOON.saturating_add(Duration::from_millis(500));

/// What is known of one mount.
pub struct Seen {
    /// Where it is, or should be.
    pub dir: PathBuf,
    /// `None`: it is not there, or tells nothing.
    pub status: Option<Status>,
    /// Its scrub.
    pub scrub: Option<Report>,
}

impl Seen {
    /// Whether its server answered.
    pub fn is_up(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.server_pid.is_some())
    }
}

/// What is asked.
enum Asked {
    /// A mount point that was named, mounted or not.
    Named(PathBuf),
    /// A server that is known.
    Known(Record),
    /// A mount of which nothing else is known.
    Unknown,
}

/// The mounts at `dirs`, in order of their names; without any, all mounts of this machine.
pub fn all(dirs: &[PathBuf]) -> Vec<Seen> {
    let asked = if dirs.is_empty() {
        mounted()
    } else {
        dirs.iter()
            .cloned()
            .map(|dir| (dir.clone(), Asked::Named(dir)))
            .collect()
    };
    let until = Instant::now() + LIMIT;
    let (tell, hear) = mpsc::channel();
    let nothing = |dir: &PathBuf| Seen {
        dir: dir.clone(),
        status: None,
        scrub: None,
    };
    let mut seen: BTreeMap<PathBuf, Seen> = asked.iter().map(|(dir, _)| (dir.clone(), nothing(dir))).collect();
    let mut awaited = 0;
    for (dir, asked) in asked {
        let tell = tell.clone();
        let ask = move || {
            // Whoever waited may have gone on.
            let _ = tell.send((dir, look(asked)));
        };
        // Without a thread it tells nothing.
        awaited += usize::from(thread::Builder::new().name("keepfs-metrics".into()).spawn(ask).is_ok());
    }
    while awaited > 0
        && let Ok((dir, (status, scrub))) = hear.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        awaited -= 1;
        if let Some(seen) = seen.get_mut(&dir) {
            (seen.status, seen.scrub) = (status, scrub);
        }
    }
    seen.into_values().collect()
}

/// All mounts, those of dead servers too.
fn mounted() -> Vec<(PathBuf, Asked)> {
    let records = registry::all().into_iter().filter(Record::is_mounted);
    let mut asked: Vec<(PathBuf, Asked)> = Vec::new();
    let mut known = Vec::new();
    // The upper one of two at the same place comes last, and is the one that is seen.
    let mut records: Vec<Record> = records.collect();
    records.sort_by_key(|record| record.since_ns);
    for record in records {
        asked.retain(|(dir, _)| *dir != record.dir);
        known.push(record.device.clone());
        asked.push((record.dir.clone(), Asked::Known(record)));
    }
    let mounts = table::mounts().into_iter();
    let others = mounts.filter(|mount| mount.is_keepfs() && !known.contains(&mount.device));
    asked.extend(others.map(|mount| (mount.dir, Asked::Unknown)));
    asked
}

fn look(asked: Asked) -> (Option<Status>, Option<Report>) {
    let record = match asked {
        Asked::Unknown => None,
        Asked::Known(record) => Some(record),
        Asked::Named(dir) => of_dir(&dir),
    };
    let Some(record) = record else { return (None, None) };
    let status = status::live(&record).ok();
    let scrub = status
        .as_ref()
        .filter(|status| status.server_pid.is_some())
        .and_then(|_| control::ask_soon(&record, &Question::ScrubStatus).ok());
    (status, scrub)
}

/// The server of a mount point; of none, as after a mount failed, there is nothing to ask.
fn of_dir(dir: &Path) -> Option<Record> {
    registry::at_dir(dir).ok()?.1
}
