//! How often servers died, and what the next one may do.

use crate::said;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Deaths are counted over this time.
const WINDOW: Duration = Duration::from_secs(60);

/// What a server may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Everything.
    Normal,
    /// It refuses changes: servers died too often.
    ReadOnly,
    /// It refuses everything: even read-only servers died too often.
    Failing,
}

/// Counts deaths.
#[derive(Debug)]
pub struct Lives {
    /// Deaths within a minute that are borne.
    most: usize,
    recent: VecDeque<Duration>,
    mode: Mode,
}

impl Lives {
    /// `most` deaths a minute are borne.
    pub fn new(most: usize) -> Lives {
        Lives {
            most,
            recent: VecDeque::new(),
            mode: Mode::Normal,
        }
    }

    /// A server died `now` (of any clock that only goes forward): what the next may do; `None` if there shall be none.
    pub fn died(&mut self, now: Duration) -> Option<Mode> {
        self.recent.retain(|at| now.saturating_sub(*at) < WINDOW);
        self.recent.push_back(now);
        if self.recent.len() <= self.most {
            return Some(self.mode);
        }
        self.recent.clear();
        self.mode = match self.mode {
            Mode::Normal => Mode::ReadOnly,
            Mode::ReadOnly => Mode::Failing,
            Mode::Failing => return None,
        };
        Some(self.mode)
    }
}

/// The death of a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Death {
    /// `signal 9`, `exit code 1`, or `unknown`.
    pub how: String,
    /// When, seconds since 1970.
    pub at_s: u64,
    /// When the keeper noticed, by the clock that counts from the machine's start, nanoseconds.
    pub noticed_ns: u64,
}

impl Death {
    /// A death that is noticed now.
    pub fn now(how: String) -> Death {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Death {
            how,
            at_s: since.as_secs(),
            noticed_ns: nanos(now()),
        }
    }

    /// Microseconds since the keeper noticed.
    pub fn ago_us(&self) -> u64 {
        (nanos(now()).saturating_sub(self.noticed_ns)) / 1000
    }
}

/// What a server is told when it begins.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Begin {
    /// What the keeper says has this version ([`said::FIRST`]).
    #[serde(default = "said::first")]
    pub version: u32,
    /// Its keeper.
    pub keeper_pid: u32,
    /// Which server of the mount it is, from 1.
    pub lives: u64,
    /// How many died.
    pub deaths: u64,
    /// What it may do.
    pub mode: Mode,
    /// How the last server that died did.
    pub last_death: Option<Death>,
    /// The server before this one died (else it made room, or there was none).
    pub after_death: bool,
}

impl Begin {
    /// For the first server of the keeper `keeper_pid`.
    pub fn first(keeper_pid: u32) -> Begin {
        Begin {
            version: said::FIRST,
            keeper_pid,
            lives: 1,
            deaths: 0,
            mode: Mode::Normal,
            last_death: None,
            after_death: false,
        }
    }

    /// What a keeper, or a server to its next keeper, tells. Errors: it makes no sense, or is of a later release.
    pub fn read(bytes: &[u8]) -> io::Result<Begin> {
        let begin: Begin = serde_json::from_slice(bytes)?;
        said::understood(begin.version, "its keeper").map_err(io::Error::other)?;
        Ok(begin)
    }

    /// For the next server; `death` of the one before it.
    pub fn next(&mut self, death: Option<Death>) {
        self.lives += 1;
        self.after_death = death.is_some();
        if let Some(death) = death {
            self.deaths += 1;
            self.last_death = Some(death);
        }
    }
}

/// Time since the machine was started.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec.max(0) as u64, time.tv_nsec as u32)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
