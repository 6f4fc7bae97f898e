//! Logging: to standard error or a file, and the ring of what the server noticed (for `keepfs events`).

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::{Event as Traced, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

/// The environment variable that says what is logged.
const VARIABLE: &str = "KEEPFS_LOG";
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

/// The last events, warnings and errors only.
#[derive(Clone, Default)]
pub struct Ring(Arc<Mutex<VecDeque<Event>>>);

impl Ring {
    /// All that are kept, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.0.lock().iter().cloned().collect()
    }

    fn push(&self, event: Event) {
        let mut events = self.0.lock();
        if events.len() == RING {
            events.pop_front();
        }
        events.push_back(event);
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
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.push(Event {
            time_s: now.as_secs(),
            level: meta.level().as_str().to_ascii_lowercase(),
            part: meta.target().split("::").next().unwrap_or_default().to_owned(),
            text: words.message + &words.fields,
        });
    }
}

/// The message of an event, then its fields.
#[derive(Default)]
struct Words {
    message: String,
    fields: String,
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a String never fails.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, "; {name}: {value:?}"),
        };
    }
}

fn filter() -> EnvFilter {
    EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new("warn"))
}

/// Logs of a command that ends soon.
pub fn to_stderr() {
    let stderr = fmt::layer().with_writer(std::io::stderr).with_filter(filter());
    tracing_subscriber::registry().with(stderr).init();
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

/// Logs of a server; the ring holds what `keepfs events` shows.
pub fn of_server(to: LogTo) -> Ring {
    let ring = Ring::default();
    // The filter also keeps spans and events below it from being made at all.
    let registry = tracing_subscriber::registry().with(ring.clone().with_filter(LevelFilter::WARN));
    match to {
        LogTo::Ring => registry.init(),
        LogTo::Stderr => {
            let stderr = fmt::layer().with_writer(std::io::stderr);
            registry.with(stderr.with_filter(filter())).init();
        }
        LogTo::File(file) => {
            let file = fmt::layer().with_ansi(false).with_writer(Arc::new(file));
            registry.with(file.with_filter(filter())).init();
        }
    }
    ring
}
