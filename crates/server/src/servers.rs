//! Processes that serve mounts and keep servers, found without asking them: one may hang.

use crate::registry::Record;
use crate::task::Stat;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A server that has begun so lately still takes over what the one before it left.
const YOUNG_S: u64 = 10;
/// What the threads are called that hear questions.
pub const HEARS: &str = "keepfs-control";

/// A process that serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Server {
    /// Its number.
    pub pid: u32,
    /// Its state as proc(5) has it.
    state: char,
    /// It was killed and runs its program no more.
    killed: bool,
    /// Seconds since it was started.
    age_s: u64,
}

impl Server {
    /// Whether it may be busy with what it found, and not hang.
    pub fn is_young(&self) -> bool {
        self.age_s < YOUNG_S && !self.is_stopped()
    }

    /// Whether it still takes over or opens the pool, however long that takes: nothing of it hears questions yet.
    pub fn is_beginning(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid))
            .into_iter()
            .flatten()
            .flatten();
        let hears =
            |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm")).is_ok_and(|n| n.trim() == HEARS);
        !self.is_stopped() && !threads.into_iter().any(hears)
    }

    fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Why it does not answer, as far as that can be seen.
    pub fn why(&self) -> String {
        let pid = self.pid;
        match self.state {
            'T' | 't' => {
                format!("process {pid} is stopped (a signal or a debugger), and `kill -CONT {pid}` lets it go on")
            }
            'D' => format!("process {pid} waits for a device"),
            _ => format!("process {pid} hangs, or is busy"),
        }
    }
}

/// Why the server of `record` does not answer, as far as that can be seen.
pub fn why(record: &Record) -> String {
    let server = || of(record).map(|server| server.why());
    let why = stopped(record).or_else(server);
    why.unwrap_or_else(|| "no process is seen that serves it".into())
}

/// Which of those who have the mount of `record`, its server and its keeper, is stopped: no answer comes then.
pub fn stopped(record: &Record) -> Option<String> {
    let server = of(record).filter(Server::is_stopped).map(|server| server.why());
    server.or_else(|| stopped_keeper(record).map(|keeper| format!("its keeper, {}", keeper.why())))
}

/// The keeper, if it is stopped.
pub fn stopped_keeper(record: &Record) -> Option<Server> {
    let keeper = record.kept.then(|| look(record.pid)).flatten();
    keeper.filter(Server::is_stopped)
}

/// Whether a server may yet come to answer: it has just begun, or its keeper is about to begin one.
pub fn are_awaited(record: &Record) -> bool {
    match of(record) {
        Some(server) => server.is_young(),
        None => stopped_keeper(record).is_none(),
    }
}

/// The one that serves the mount of `record`.
pub fn of(record: &Record) -> Option<Server> {
    if !record.kept {
        return look(record.pid);
    }
    let of_it = processes().filter(|(_, words)| serves(words, record));
    // One that was killed and is not gone may be seen beside the next one (S-16.11).
    of_it
        .filter_map(|(pid, _)| look(pid))
        .min_by_key(|server| server.killed)
}

/// Whether a process is seen that serves or keeps a mount at `dir`, of whatever pool.
pub fn is_seen_at(dir: &Path) -> bool {
    processes().any(|(pid, words)| pid != std::process::id() && is_at(&words, dir))
}

/// The numbers of all processes.
pub fn numbers() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// All processes with their words, each of which ends with a zero.
fn processes() -> impl Iterator<Item = (u32, Vec<u8>)> {
    // It may be gone by now.
    numbers().map(|pid| (pid, fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()))
}

/// Whether these are the words of a server or a keeper at `dir`; `mount` is one that stays in the foreground.
fn is_at(words: &[u8], dir: &Path) -> bool {
    let mut words = words.split(|byte| *byte == 0).skip(1);
    let serves = words
        .next()
        .is_some_and(|word| [&b"serve"[..], b"keep", b"mount"].contains(&word));
    serves && words.any(|word| word == dir.as_os_str().as_bytes())
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
    let stat = Stat::of(Path::new(&format!("/proc/{pid}")))?;
    let uptime = fs::read_to_string("/proc/uptime").ok()?;
    let up_s = uptime.split('.').next()?.parse::<u64>().ok()?;
    Some(Server {
        pid,
        state: stat.state,
        killed: stat.is_killed(),
        age_s: up_s.saturating_sub(stat.started / rustix::param::clock_ticks_per_second()),
    })
}

#[cfg(test)]
mod tests;
