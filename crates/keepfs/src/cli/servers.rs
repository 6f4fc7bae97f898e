//! Processes that serve mounts, found without asking them: a server may hang.

use super::registry::Record;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// A server that has begun so lately still takes over what the one before it left.
const YOUNG_S: u64 = 10;

/// A process that serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    /// Its number.
    pub pid: u32,
    /// Its state as proc(5) has it.
    state: char,
    /// Seconds since it was started.
    age_s: u64,
}

impl Server {
    /// Whether it may be busy with what it found, and not hang.
    pub fn is_young(&self) -> bool {
        self.age_s < YOUNG_S && !self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Why it does not answer, as far as that can be seen.
    pub fn why(&self) -> String {
        let what = match self.state {
            'T' | 't' => "is stopped (a signal or a debugger)",
            'D' => "waits for a device",
            _ => "hangs, or is busy",
        };
        format!("process {} {what}", self.pid)
    }
}

/// The one that serves the mount of `record`.
pub fn of(record: &Record) -> Option<Server> {
    if !record.kept {
        return look(record.pid);
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers
        .find(|pid| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            serves(&words, record)
        })
        .and_then(look)
}

/// Whether these are the words of a server of this mount that a keeper started.
fn serves(words: &[u8], record: &Record) -> bool {
    let mut words = words.split(|byte| *byte == 0).map(OsStr::from_bytes).skip(1);
    let expected = [
        OsStr::new("serve"),
        OsStr::new("--kept"),
        record.pool.as_os_str(),
        record.dir.as_os_str(),
    ];
    expected.iter().all(|word| words.next() == Some(word))
}

fn look(pid: u32) -> Option<Server> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let up_s = uptime.split('.').next()?.parse::<u64>().ok()?;
    let (state, started) = state_and_start(&stat)?;
    let age_s = up_s.saturating_sub(started / rustix::param::clock_ticks_per_second());
    Some(Server { pid, state, age_s })
}

/// The fields of /proc/PID/stat behind the name, which may hold anything: the first, and the 22nd of all.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests;
