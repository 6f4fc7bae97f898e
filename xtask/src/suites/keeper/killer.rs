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
/// Files made and removed between two kills, at most.
const BETWEEN: u64 = 60;

/// Times that a mount is asked for a keeper that follows another.
const TRIES: usize = 1000;

/// A kill, and what was seen of it from outside.
pub struct Kill {
    /// When.
    pub at: Instant,
    /// What died.
    pub what: &'static str,
    /// When the kernel had taken the last server's process apart.
    pub gone: Instant,
    /// When the next server answered.
    pub back: Instant,
    /// What that server says of the pause, microseconds a part.
    pub parts: Vec<(String, u64)>,
}

/// What was done to a mount.
#[derive(Default)]
pub struct Done {
    /// In order.
    pub kills: Vec<Kill>,
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
            if kill.is_multiple_of(KEEPER) {
                self.kill_keeper()?;
                done.keepers += 1;
            }
            let kill = self.kill_noting(kill)?;
            // Of two deaths the second server's is told.
            done.back_ms.extend(kill.1);
            done.kills.push(kill.0);
        }
        Ok(done)
    }

    /// Kills a server, and perhaps the next one while it begins. Also what the one after them says of its pause, milliseconds.
    fn kill_noting(&mut self, number: usize) -> Result<(Kill, Option<u64>), String> {
        let at = Instant::now();
        self.kill_server()?;
        let twice = number.is_multiple_of(TWICE);
        if twice {
            self.kill_server()?;
        }
        let gone = Instant::now();
        // The next server has answered when this returns.
        let status = self.pool.status()?;
        let death = &status["keeper"]["last_death"];
        let parts = death["pause_us"].as_object().into_iter().flatten();
        let kill = Kill {
            at,
            what: match (number.is_multiple_of(KEEPER), twice) {
                (false, false) => "a server",
                (false, true) => "a server and the next",
                (true, false) => "a keeper, then its server",
                (true, true) => "a keeper, then its server and the next",
            },
            gone,
            back: Instant::now(),
            parts: parts
                .map(|(part, us)| (part.clone(), us.as_u64().unwrap_or_default()))
                .collect(),
        };
        Ok((kill, death["pause_ms"].as_u64()))
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
