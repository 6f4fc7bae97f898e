//! What a server noticed, told to the system's log: the journal with fields (its native protocol, systemd-journald.service(8)), else syslog
//! (RFC 3164, /dev/log). One line an event; more than a few in a row are counted, not told.
//!
//! The socket is connected before the server reads its pool: later it may connect to nobody. Nothing waits for whoever reads the log.

use super::Event;
use crate::visible::Shown;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

/// Where the journal listens.
const JOURNAL: &str = "/run/systemd/journal/socket";
/// Where syslog does.
const SYSLOG: &str = "/dev/log";
/// Most events that are told in [`WHILE`].
const MOST: u32 = 50;
const WHILE: Duration = Duration::from_secs(30);
/// Daemons (syslog(3)).
const FACILITY: u8 = 3 << 3;
const NAME: &str = "keepfs";

/// Whose events they are.
#[derive(Clone, Debug)]
pub struct About {
    /// The pool, as it was named.
    pub pool: String,
    /// The mount point, empty while it is not mounted.
    pub dir: String,
}

impl About {
    /// The mount of `pool` at `dir`.
    pub fn of(pool: &Path, dir: &Path) -> About {
        About {
            pool: pool.shown(),
            dir: dir.shown(),
        }
    }
}

impl About {
    /// What people call it by.
    fn name(&self) -> &str {
        match self.dir.is_empty() {
            true => &self.pool,
            false => &self.dir,
        }
    }
}

/// The log of the system.
pub struct System {
    socket: UnixDatagram,
    is_journal: bool,
    about: About,
    since: Instant,
    told: u32,
    left_out: u64,
}

impl System {
    /// The journal, or else syslog. Errors: neither is there.
    pub fn connect(about: About) -> io::Result<System> {
        System::to(JOURNAL.as_ref(), true, about.clone()).or_else(|_| System::to(SYSLOG.as_ref(), false, about))
    }

    /// What listens at `path`. Errors: those of the sockets.
    fn to(path: &Path, is_journal: bool, about: About) -> io::Result<System> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        socket.set_nonblocking(true)?;
        Ok(System {
            socket,
            is_journal,
            about,
            since: Instant::now(),
            told: 0,
            left_out: 0,
        })
    }

    /// Tells one event; `fields` are those that were given beside its message.
    pub fn tell(&mut self, event: &Event, fields: &[(String, String)]) {
        if self.since.elapsed() >= WHILE {
            (self.since, self.told) = (Instant::now(), 0);
            if std::mem::take(&mut self.left_out) > 0 {
                self.say_left_out(event);
            }
        }
        if self.told >= MOST {
            self.left_out += 1;
            return;
        }
        self.told += 1;
        self.send(event, fields);
    }

    fn say_left_out(&self, next: &Event) {
        let text = "more was noticed than is told here: `keepfs events` has it".to_owned();
        let event = Event { text, ..next.clone() };
        self.send(&event, &[]);
    }

    fn send(&self, event: &Event, fields: &[(String, String)]) {
        let message = match self.is_journal {
            true => self.for_journal(event, fields),
            false => self.for_syslog(event),
        };
        // This is where telling ends; `keepfs events` has it all the same.
        let _ = self.socket.send(&message);
    }

    fn for_journal(&self, event: &Event, fields: &[(String, String)]) -> Vec<u8> {
        let mut message = Vec::new();
        let mut put = |name: &str, value: &str| field(&mut message, name, value);
        put("MESSAGE", &format!("{}: {}", self.about.name(), event.text));
        put("PRIORITY", &priority(event).to_string());
        put("SYSLOG_FACILITY", &(FACILITY >> 3).to_string());
        put("SYSLOG_IDENTIFIER", NAME);
        put("KEEPFS_POOL", &self.about.pool);
        if !self.about.dir.is_empty() {
            put("KEEPFS_MOUNT", &self.about.dir);
        }
        put("KEEPFS_PART", &event.part);
        for (name, value) in fields {
            put(&format!("KEEPFS_{}", name.to_ascii_uppercase()), value);
        }
        message
    }

    fn for_syslog(&self, event: &Event) -> Vec<u8> {
        let text = crate::visible::one_line(&event.text).into_owned();
        let (number, process) = (FACILITY | priority(event), std::process::id());
        format!("<{number}>{NAME}[{process}]: {}: {text}", self.about.name()).into_bytes()
    }
}

/// As syslog(3) has it: errors and warnings.
fn priority(event: &Event) -> u8 {
    if event.level == "error" { 3 } else { 4 }
}

/// A field: a line, or where the value has lines its length before it.
fn field(message: &mut Vec<u8>, name: &str, value: &str) {
    message.extend(name.as_bytes());
    if value.contains('\n') {
        message.push(b'\n');
        message.extend((value.len() as u64).to_le_bytes());
    } else {
        message.push(b'=');
    }
    message.extend(value.as_bytes());
    message.push(b'\n');
}

#[cfg(test)]
mod tests;
