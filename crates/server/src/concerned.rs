//! The log says which files damage is of: behind each event of the pool's history, when the tree was searched for them (S-18.15).
//!
//! Whoever notices damage must not wait for that, and may hold what a search needs.

use crate::history::{self, Noticed};
use crate::logging::UNKEPT;
use keepfs_fs::Volume;
use keepfs_store::History;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::field::display;

/// What was noticed so short before this server began may not have been said by the one before it.
const BEFORE: Duration = Duration::from_secs(60);
/// Least time between two looks: what comes in swarms is searched for together.
const PAUSE: Duration = Duration::from_millis(500);
/// A file is not named again before.
const SAY_AGAIN: Duration = Duration::from_secs(60 * 60);
/// Files that are remembered as named.
const NAMED_MAX: usize = 4096;
/// Longest search.
const PATIENCE: Duration = Duration::from_secs(60 * 60);
/// Most files that are named at a look.
const AT_A_LOOK: usize = 16;

/// Says it until the pool is closed. Errors: no thread can be started.
pub fn watch(volume: &Weak<Volume>) -> io::Result<()> {
    let Some(history) = volume.upgrade().map(|volume| volume.store().history().clone()) else {
        return Ok(());
    };
    let volume = volume.clone();
    let thread = thread::Builder::new().name("keepfs-concerned".into());
    thread.spawn(move || follow(&history, &volume)).map(drop)
}

fn follow(history: &Arc<History>, volume: &Weak<Volume>) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since_s = i64::try_from(since.saturating_sub(BEFORE).as_secs()).unwrap_or_default();
    let (mut seen, mut after) = (0, 0);
    let mut named = BTreeMap::new();
    while let Some(version) = history.wait_for_change(seen) {
        seen = version;
        let mut events = history.events(after);
        after = events.last().map_or(after, |last| last.number);
        events.retain(|event| event.seconds >= since_s);
        if !events.is_empty() {
            let Some(volume) = volume.upgrade() else { return };
            say(&history::in_words(&volume, events, PATIENCE), &mut named);
        }
        thread::sleep(PAUSE);
    }
}

/// Names the files that were not named lately.
fn say(events: &[Noticed], named: &mut BTreeMap<u64, Instant>) {
    let now = Instant::now();
    if named.len() > NAMED_MAX {
        named.clear();
    }
    let files = events
        .iter()
        .flat_map(|event| event.files.iter().map(move |file| (event.number, file)));
    let is_new = |(_, file): &(u64, &history::Concerned)| {
        let before = named.get(&file.inode);
        let is_new = before.is_none_or(|at| now.duration_since(*at) >= SAY_AGAIN);
        if is_new {
            named.insert(file.inode, now);
        }
        is_new
    };
    let files: Vec<_> = files.filter(is_new).collect();
    for (event, file) in files.iter().take(AT_A_LOOK) {
        let (path, was) = (file.shown_path(), file.shown_was());
        let text = match (path.is_empty(), was.is_empty()) {
            (false, _) => "what was noticed is about this file",
            (true, false) => "what was noticed is about a file that is not at this path any more",
            (true, true) => "what was noticed is about a file of which no path is known",
        };
        let given = |path: &Cow<'_, str>| (!path.is_empty()).then(|| display(path.clone().into_owned()));
        tracing::warn!(target: UNKEPT, event, inode = file.inode, path = given(&path), was = given(&was), "{text}");
    }
    if let Some(more) = files.len().checked_sub(AT_A_LOOK).filter(|more| *more > 0) {
        tracing::warn!(target: UNKEPT, "what was noticed is about {more} more files: `keepfs events` names them");
    }
}
