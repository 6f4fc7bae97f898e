//! One mount, looked at again and again: what is different from what was told last is an event.

use super::event::{Event, Kind};
use keepfs_server::figures::Status;
use keepfs_server::history::{self, Noticed};
use keepfs_server::question::Question;
use keepfs_server::registry::{self, Record};
use keepfs_server::scrub::Report;
use keepfs_server::status;
use keepfs_server::visible::Shown;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

/// Damage that comes in a flood is told together, so often.
const GATHER: Duration = Duration::from_secs(60);
/// Looks in a row at which a server was silent or gone before that is told: it may be busy, or in the middle of an unmount.
const SILENT: u32 = 3;

/// What of a pool was told.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// The last event of the pool's history.
    event: u64,
    /// The state.
    state: String,
    /// Deaths of servers of the mount that was made then.
    deaths: u64,
    since_s: u64,
    /// When the scrub ended of which it was told.
    scrub_ended_s: i64,
}

/// What was seen of a pool at one look.
pub struct Look {
    /// How it is.
    pub status: Status,
    /// Its scrub.
    pub scrub: Option<Report>,
    /// What it remembers behind what was told.
    pub noticed: Vec<Noticed>,
}

/// A mount.
pub struct Watch {
    record: Record,
    folder: PathBuf,
    /// Known when its server was heard once.
    told: Option<Told>,
    id: String,
    label: String,
    silent: u32,
    gathered: Vec<Noticed>,
    damage_told: Option<Instant>,
}

impl Watch {
    /// Of the mount of `record`; what was told of pools is kept in `folder`.
    pub fn new(record: Record, folder: &Path) -> Watch {
        Watch {
            record,
            folder: folder.to_owned(),
            told: None,
            id: String::new(),
            label: String::new(),
            silent: 0,
            gathered: Vec::new(),
            damage_told: None,
        }
    }

    /// Looks at it, and tells what is different. `None`: it is mounted no more.
    pub fn look(&mut self) -> Option<Vec<Event>> {
        if !self.record.is_mounted() {
            return None;
        }
        // It may have another keeper.
        if let Some(moved) = registry::moved(&self.record) {
            self.record = moved;
        }
        let Ok(mut status) = status::live(&self.record) else {
            return Some(Vec::new());
        };
        if status.id.is_empty() {
            (status.id, status.label) = (self.id.clone(), self.label.clone());
        } else {
            (self.id, self.label) = (status.id.clone(), status.label.clone());
        }
        let is_heard = status.server_pid.is_some();
        if is_heard && self.told.is_none() {
            self.told = Some(read(&self.folder, &self.id));
        }
        let after = self.told.as_ref().map_or(0, |told| told.event);
        let mut look = Look {
            status,
            scrub: None,
            noticed: Vec::new(),
        };
        if is_heard {
            look.scrub = history::ask(&self.record, &Question::ScrubStatus).ok().flatten();
            let noticed = history::ask(&self.record, &Question::History(after));
            look.noticed = noticed.ok().flatten().unwrap_or_default();
        }
        Some(self.compare(look, Instant::now()))
    }

    /// What of a look was not told.
    pub fn compare(&mut self, look: Look, now: Instant) -> Vec<Event> {
        let Some(mut told) = self.told.clone() else {
            return Vec::new();
        };
        let Look { status, scrub, noticed } = look;
        let mut events = Vec::new();
        // What a pool had when it was seen first is no news, but for how it is now.
        let is_first = told.state.is_empty();
        if let Some(last) = noticed.last() {
            told.event = last.number;
            self.gathered.extend(noticed.into_iter().filter(|_| !is_first));
        }
        let is_due = self
            .damage_told
            .is_none_or(|told| now.saturating_duration_since(told) >= GATHER);
        if is_due && !self.gathered.is_empty() {
            self.damage_told = Some(now);
            events.push(damage(&std::mem::take(&mut self.gathered), &status));
        }
        if let (Some(keeper), Some(mount)) = (&status.keeper, &status.mount) {
            let before = if mount.since_s == told.since_s { told.deaths } else { 0 };
            if keeper.deaths > before && !is_first {
                events.push(death(keeper.deaths - before, &status));
            }
            (told.deaths, told.since_s) = (keeper.deaths, mount.since_s);
        }
        let is_silent = ["UNKNOWN", "UNAVAIL"].contains(&&*status.state);
        self.silent = if is_silent { self.silent + 1 } else { 0 };
        let is_passing = status.state == "OFFLINE" || (is_silent && self.silent < SILENT);
        let before = if is_first { "ONLINE" } else { &*told.state };
        if !is_passing && status.state != before {
            events.push(state(before, &status));
        }
        if !is_passing {
            told.state.clone_from(&status.state);
        }
        if let Some(scrub) = scrub.filter(|scrub| ["finished", "canceled"].contains(&&*scrub.state)) {
            if scrub.ended_s != told.scrub_ended_s && !is_first {
                events.push(scrubbed(&scrub, &status));
            }
            told.scrub_ended_s = scrub.ended_s;
        }
        self.told = Some(told);
        events
    }

    /// What was told until now, to be kept when the hooks for it have ended. `None`: of a pool that is not known yet.
    pub fn told(&self) -> Option<Told> {
        let mut told = self.told.clone().filter(|told| !told.state.is_empty())?;
        // What is gathered still is to be told then.
        let first = self.gathered.first().map(|event| event.number.saturating_sub(1));
        told.event = first.unwrap_or(told.event);
        Some(told)
    }

    /// Keeps what was told, for the next one who follows.
    pub fn keep(&self, told: &Told) {
        if *told != read(&self.folder, &self.id)
            && let Err(error) = write(&self.folder, &self.id, told)
        {
            tracing::warn!(%error, folder = %self.folder.shown(), "cannot keep what hooks were told; they may be told again");
        }
    }
}

fn damage(noticed: &[Noticed], status: &Status) -> Event {
    let lost = noticed.iter().filter(|event| event.is_lost()).count();
    let what = match (noticed, lost) {
        ([one], _) => one.sentence(),
        (_, 0) => format!("{} damages, of which all were mended", noticed.len()),
        (_, lost) => format!("{} damages, of which {lost} were not mended", noticed.len()),
    };
    let lines: Vec<String> = noticed.iter().map(Noticed::sentence).collect();
    Event::new(Kind::Damage, format!("{}: {what}", place(status)))
        .of(status)
        .with(lines.join("\n"), json!({ "events": noticed }))
}

fn death(deaths: u64, status: &Status) -> Event {
    let last = status.keeper.as_ref().and_then(|keeper| keeper.last_death.as_ref());
    let how = last.map_or("unknown", |death| &*death.how);
    let pause_ms = last.map_or(0, |death| death.pause_ms);
    let what = match deaths {
        1 => format!("its server died ({how})"),
        more => format!("{more} of its servers died, the last by {how}"),
    };
    Event::new(Kind::Death, format!("{}: {what}; another one serves", place(status)))
        .of(status)
        .with(
            format!("Programs waited for {pause_ms} ms. `keepfs events` tells more."),
            json!({ "deaths": deaths, "keeper": status.keeper }),
        )
}

fn state(before: &str, status: &Status) -> Event {
    let why = status.status.as_deref().unwrap_or("nothing to report");
    let what = format!("{}: {} (was {before}): {why}", place(status), status.state);
    let action = status.action.iter().map(|action| format!("action: {action}"));
    let text: Vec<String> = status.errors.iter().cloned().chain(action).collect();
    let details = json!({
        "before": before,
        "status": status.status,
        "action": status.action,
        "errors": status.errors,
    });
    Event::new(Kind::State, what).of(status).with(text.join("\n"), details)
}

fn scrubbed(scrub: &Report, status: &Status) -> Event {
    let what = format!("{}: scrub {}: {}", place(status), scrub.state, status.scrub);
    let details = serde_json::to_value(scrub).unwrap_or(Value::Null);
    Event::new(Kind::Scrub, what)
        .of(status)
        .with("", json!({ "scrub": details }))
}

/// The mount, for people.
fn place(status: &Status) -> String {
    status.dir.as_ref().unwrap_or(&status.pool).shown()
}

/// What was told of a pool; nothing, if that was never kept, or is not readable.
fn read(folder: &Path, id: &str) -> Told {
    let text = fs::read(file(folder, id)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

fn write(folder: &Path, id: &str, told: &Told) -> io::Result<()> {
    let (file, part) = (file(folder, id), folder.join(format!("{id}.part")));
    fs::write(&part, serde_json::to_vec(told)?)?;
    fs::rename(part, file)
}

fn file(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}.told"))
}

#[cfg(test)]
mod tests;
