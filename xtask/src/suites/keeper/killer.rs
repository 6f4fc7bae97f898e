//! What kills the servers of a mount, and its keepers, and what replaces them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::crowd::Shared;
use crate::suites::pool::Pool;
use crate::suites::sample::Random;

/// Every so many kills the next server dies too, while it begins.
const TWICE: usize = 4;
/// Every so many kills the keeper dies, and its server right after it.
const KEEPER: usize = 5;
/// Every so many kills a server makes room for another one of the same program before.
const UPGRADE: usize = 7;
/// Every so many kills the server is asked how long the mount stood still.
const ASK: usize = 3;
/// Files made and removed between two kills, at most.
const BETWEEN: u64 = 60;

/// Times that a mount is asked for a keeper that follows another.
const TRIES: usize = 1000;

/// What was done to a mount.
#[derive(Default)]
pub struct Done {
    /// The instants of the kills.
    pub at: Vec<Instant>,
    /// Keepers killed.
    pub keepers: usize,
    /// Servers that made room.
    pub upgrades: usize,
    /// From a death to the next server's first request, as servers say, milliseconds.
    pub back_ms: Vec<u64>,
}

/// Kills servers of one mount.
pub struct Killer<'p> {
    pool: &'p Pool,
    keeper: Pid,
    /// The server is not the keeper's child: its keeper is younger.
    adopted: bool,
    last: Option<Pid>,
}

impl<'p> Killer<'p> {
    /// Of the mount of `pool`.
    pub fn of(pool: &'p Pool) -> Result<Self, String> {
        Ok(Self {
            keeper: keeper(pool)?,
            pool,
            adopted: false,
            last: None,
        })
    }

    /// Kills until `kills` servers are dead, at instants that `seed` says, while `shared` shows nothing wrong.
    pub fn kill_all(&mut self, kills: usize, seed: u64, shared: &Shared) -> Result<Done, String> {
        let mut random = Random(seed);
        let mut done = Done::default();
        let own = self.pool.point().join("between");
        for kill in 1..=kills {
            for _ in 0..random.below(BETWEEN) {
                let made = File::create_new(&own).and_then(|_| fs::remove_file(&own));
                made.map_err(|e| format!("{}: {e}", own.display()))?;
            }
            if shared.is_over() {
                return Err("a client stopped".into());
            }
            if kill.is_multiple_of(UPGRADE) {
                self.pool.ask(&["upgrade"], &[])?;
                done.upgrades += 1;
            }
            done.at.push(Instant::now());
            if kill.is_multiple_of(KEEPER) {
                self.kill_keeper()?;
                done.keepers += 1;
            }
            self.kill_server()?;
            if kill.is_multiple_of(TWICE) {
                self.kill_server()?;
            }
            if kill.is_multiple_of(ASK) {
                let status = self.pool.status()?;
                done.back_ms.extend(status["keeper"]["last_death"]["pause_ms"].as_u64());
            }
        }
        // The last server has answered when this returns.
        self.pool.status()?;
        Ok(done)
    }

    /// Kills the server as soon as there is one that was not killed before.
    pub fn kill_server(&mut self) -> Result<(), String> {
        let pid = loop {
            match self.server()?.filter(|pid| Some(*pid) != self.last) {
                Some(pid) => break pid,
                None => thread::yield_now(),
            }
        };
        end(pid)?;
        self.last = Some(pid);
        self.adopted = false;
        Ok(())
    }

    fn server(&self) -> Result<Option<Pid>, String> {
        if self.adopted {
            return Ok(pid_of(&self.pool.status()?["server_pid"]));
        }
        let keeper = self.keeper.as_raw_nonzero();
        let list = PathBuf::from(format!("/proc/{keeper}/task/{keeper}/children"));
        let children = fs::read_to_string(&list).map_err(|e| format!("the keeper is gone: {e}"))?;
        let pids = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        Ok(pids.filter_map(Pid::from_raw).find(|pid| serves(*pid)))
    }

    /// Kills the keeper of a server that serves, which takes another one. (If both die at once the mount is dead.)
    fn kill_keeper(&mut self) -> Result<(), String> {
        self.pool.status()?;
        let dead = self.keeper;
        end(dead)?;
        // The record moves while this asks.
        for _ in 0..TRIES {
            match keeper(self.pool) {
                Ok(pid) if pid != dead => {
                    self.keeper = pid;
                    self.adopted = true;
                    return Ok(());
                }
                _ => thread::yield_now(),
            }
        }
        Err(format!("no keeper follows {dead}"))
    }
}

fn keeper(pool: &Pool) -> Result<Pid, String> {
    pid_of(&pool.status()?["keeper"]["pid"]).ok_or_else(|| "the mount has no keeper".into())
}

fn pid_of(value: &serde_json::Value) -> Option<Pid> {
    value
        .as_i64()
        .and_then(|pid| i32::try_from(pid).ok())
        .and_then(Pid::from_raw)
}

/// Whether a process has begun to be a server: a keeper has other children too.
fn serves(pid: Pid) -> bool {
    let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    words.split(|byte| *byte == 0).nth(1) == Some(b"serve")
}

/// Kills a process and waits until it is gone.
fn end(pid: Pid) -> Result<(), String> {
    // Gone by itself is as good: looked for again.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return Ok(());
    };
    kill_process(pid, Signal::KILL).map_err(|e| format!("kill {pid}: {e}"))?;
    poll(&mut [PollFd::new(&process, PollFlags::IN)], None).map_err(|e| format!("process {pid}: {e}"))?;
    Ok(())
}
