//! Logging: to standard error or a file, and the ring of what the server noticed (for `keepfs events`).

pub mod journal;
mod system;

pub use system::About;

use journal::Journal;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use system::System;
pub use tracing::Level;
use tracing::field::{Field, Visit};
use tracing::{Event as Traced, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

/// The environment variable that says what is logged.
pub const VARIABLE: &str = "KEEPFS_LOG";
/// The target of what is told to the logs and not kept here: `keepfs events` says it with what it is about.
pub const UNKEPT: &str = "keepfs::unkept";
/// Events that are kept; the oldest make room.
const RING: usize = 256;

/// Something the server noticed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Seconds since 1970.
    pub time_s: u64,
    /// `warn` or `error`.
    pub level: String,
    /// Which part of Keepfs noticed it.
    pub part: String,
    /// What.
    pub text: String,
}

impl Event {
    fn now(level: Level, part: &str, text: String) -> Event {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Event {
            time_s: now.as_secs(),
            level: level.as_str().to_ascii_lowercase(),
            part: part.to_owned(),
            text,
        }
    }
}

/// The last events, warnings and errors only; kept in a file too once there is one.
#[derive(Clone, Default)]
pub struct Ring(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    events: VecDeque<Event>,
    /// How many there were, those that made room included.
    count: u64,
    journal: Option<Journal>,
    /// The system's log, if there is one.
    system: Option<System>,
}

impl Kept {
    fn tell_system(&mut self, event: &Event, fields: &[(String, String)]) {
        if let Some(system) = &mut self.system {
            system.tell(event, fields);
        }
    }
}

impl Ring {
    /// All that are kept, oldest first; those of earlier servers too.
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().events.iter().cloned().collect()
    }

    /// How many there were since the server was started.
    pub fn count(&self) -> u64 {
        self.0.lock().count
    }

    /// From here on events are kept in a file as well, which is open for reading and appending, behind what earlier servers of
    /// the pool left there. Errors: those of the file system.
    pub fn keep_in(&self, file: File) -> io::Result<()> {
        let mut kept = self.0.lock();
        let mut earlier = VecDeque::from(journal::read_open(&file)?);
        earlier.extend(kept.events.drain(..));
        kept.events = earlier;
        let surplus = kept.events.len().saturating_sub(RING);
        kept.events.drain(..surplus);
        kept.journal = Some(Journal::begin(file, kept.events.iter())?);
        Ok(())
    }

    /// The file that they are kept in, once more. Errors: no free descriptor.
    pub fn file(&self) -> io::Result<Option<OwnedFd>> {
        self.0.lock().journal.as_ref().map(Journal::file).transpose()
    }

    fn push(&self, event: Event, fields: &[(String, String)]) {
        let mut kept = self.0.lock();
        kept.count += 1;
        kept.tell_system(&event, fields);
        if kept.events.len() == RING {
            kept.events.pop_front();
        }
        kept.events.push_back(event);
        let Kept { events, journal, .. } = &mut *kept;
        if let Some(journal) = journal {
            // Nobody can be told of a failure: this is where telling ends. The next event tries to write all of them.
            let _ = journal.add(events);
        }
    }
}

impl<S: Subscriber> Layer<S> for Ring {
    fn on_event(&self, event: &Traced<'_>, _: Context<'_, S>) {
        let meta = event.metadata();
        if !meta.target().starts_with("keepfs") {
            return;
        }
        let mut words = Words::default();
        event.record(&mut words);
        let part = meta.target().split("::").next().unwrap_or_default();
        let event = Event::now(*meta.level(), part, words.message.clone() + &words.fields);
        match meta.target() {
            UNKEPT => self.0.lock().tell_system(&event, &words.given),
            _ => self.push(event, &words.given),
        }
    }
}

/// The message of an event, then its fields.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
    /// The fields once more, by name.
    given: Vec<(String, String)>,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a String never fails.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => {
                self.given.push((name.to_owned(), format!("{value:?}")));
                write!(self.fields, "; {name}: {value:?}")
            }
        };
    }
}

fn filter() -> EnvFilter {
    EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new("warn"))
}

/// Logs of a command that ends soon.
pub fn to_stderr() {
    tracing_subscriber::registry().with(standard_error()).init();
}

/// Standard error, with colours where somebody sees them.
fn standard_error<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    let stderr = fmt::layer().with_ansi(io::stderr().is_terminal());
    stderr.with_writer(io::stderr).with_filter(filter())
}

/// Where a server logs, beside the ring.
pub enum LogTo {
    /// Nowhere else.
    Ring,
    /// To standard error.
    Stderr,
    /// To a file.
    File(File),
}

/// Logs of a server; the ring holds what `keepfs events` shows, and the system's log has it as well. Call it before the server may
/// connect to nobody.
pub fn of_server(to: LogTo, about: About) -> Ring {
    let ring = Ring::default();
    // A machine without one has the events all the same.
    ring.0.lock().system = System::connect(about).ok();
    // The filter also keeps spans and events below it from being made at all.
    let registry = tracing_subscriber::registry().with(ring.clone().with_filter(LevelFilter::WARN));
    match to {
        LogTo::Ring => registry.init(),
        LogTo::Stderr => registry.with(standard_error()).init(),
        LogTo::File(file) => {
            let file = fmt::layer().with_ansi(false).with_writer(Arc::new(file));
            registry.with(file.with_filter(filter())).init();
        }
    }
    ring
}

/// Tells one thing while there is no server: to the system's log, and to `events`, the file in which those of the pool are kept.
pub fn tell_alone(about: About, events: Option<&OwnedFd>, level: Level, text: &str) {
    let event = Event::now(level, "keepfs", text.to_owned());
    if let Ok(mut system) = System::connect(about) {
        system.tell(&event, &[]);
    }
    // Nobody can be told of a failure: this is where telling ends.
    let _ = events.map(|events| journal::append(events, &event));
}
