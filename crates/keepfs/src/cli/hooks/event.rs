//! What hooks are told: an event as variables of the environment, and whole, as JSON.

use keepfs_server::figures::{self, Status};
use keepfs_server::told_path;
use keepfs_server::visible;
use serde::Serialize;
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Of which class it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Something was damaged, in memory or on the device, whatever became of it.
    Damage,
    /// A server died, and another one took its place.
    Death,
    /// The pool's state is another one.
    State,
    /// A scrub ended.
    Scrub,
    /// Somebody tries the hooks.
    Test,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Damage => "damage",
            Kind::Death => "death",
            Kind::State => "state",
            Kind::Scrub => "scrub",
            Kind::Test => "test",
        }
    }
}

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
pub struct Event {
    /// Version of the answer for programs.
    pub version: u32,
    /// Its class.
    #[serde(rename = "class")]
    pub kind: Kind,
    /// This machine.
    pub host: String,
    /// When it was noticed here, seconds since 1970.
    pub time_s: u64,
    /// The pool's device; `null`: of no pool.
    #[serde(flatten, with = "told_path::pool::maybe")]
    pub pool: Option<PathBuf>,
    /// Its identity, empty if unknown.
    pub id: String,
    /// Its label.
    pub label: String,
    /// Where it is mounted.
    #[serde(flatten, with = "told_path::dir::maybe")]
    pub dir: Option<PathBuf>,
    /// How it is now.
    pub state: String,
    /// What happened, in one line.
    pub summary: String,
    /// More lines, for people.
    pub text: String,
    /// What happened, for programs: as the class has it.
    pub details: Value,
}

/// Longest text in the environment, bytes: what all variables may take is bounded (execve(2)).
const TEXT_MAX: usize = 16 << 10;

impl Event {
    /// Of no pool yet.
    pub fn new(kind: Kind, summary: impl Into<String>) -> Event {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Event {
            version: figures::VERSION,
            kind,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            time_s: now.as_secs(),
            pool: None,
            id: String::new(),
            label: String::new(),
            dir: None,
            state: String::new(),
            summary: summary.into(),
            text: String::new(),
            details: Value::Null,
        }
    }

    /// Of the pool that is so.
    #[must_use]
    pub fn of(mut self, status: &Status) -> Event {
        self.pool = Some(status.pool.clone());
        self.id.clone_from(&status.id);
        self.label.clone_from(&status.label);
        self.dir.clone_from(&status.dir);
        self.state.clone_from(&status.state);
        self
    }

    /// With more lines and what programs want to know.
    #[must_use]
    pub fn with(mut self, text: impl Into<String>, details: Value) -> Event {
        (self.text, self.details) = (text.into(), details);
        self
    }

    /// The variables. Texts have no control characters: labels and paths are whatever a user made them.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let line = |text: &str| OsString::from(visible::one_line(text).into_owned());
        let path = |path: &Option<PathBuf>| path.clone().unwrap_or_default().into_os_string();
        vec![
            ("KEEPFS_CLASS", self.kind.name().into()),
            ("KEEPFS_HOST", line(&self.host)),
            ("KEEPFS_TIME", self.time_s.to_string().into()),
            ("KEEPFS_POOL", path(&self.pool)),
            ("KEEPFS_ID", line(&self.id)),
            ("KEEPFS_LABEL", line(&self.label)),
            ("KEEPFS_DIR", path(&self.dir)),
            ("KEEPFS_STATE", line(&self.state)),
            ("KEEPFS_SUMMARY", line(&self.summary)),
            ("KEEPFS_TEXT", self.seen_text().into()),
        ]
    }

    /// The text with its lines, and no longer than it may be.
    fn seen_text(&self) -> String {
        let lines = self.text.lines().map(visible::one_line);
        let mut text = lines.collect::<Vec<_>>().join("\n");
        if text.len() > TEXT_MAX {
            let end = (0..=TEXT_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(end);
            text.push_str("\n(more: keepfs events)");
        }
        text
    }
}
