//! kill -9 of the server of a mount with a keeper, again and again, under clients that must not notice.

mod client;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::Bench;
use super::pool::Pool;
use super::sample::Random;
use crate::install;
use client::{Client, Slow};

/// Kills; with `--long` as many as R-4 asks.
const KILLS: usize = 60;
const KILLS_LONG: usize = 1000;
/// Clients at work.
const CLIENTS: usize = 16;
/// Longest pause that a caller may notice, milliseconds; more is reported, not failed: a machine under load is slow.
const PAUSE_BAR_MS: u128 = 200;
/// Every so many kills the next server dies too, while it begins.
const TWICE: usize = 4;
/// Files made and removed between two kills, at most.
const BETWEEN: u64 = 60;

/// What all clients share.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// The first thing that went wrong.
    wrong: Mutex<Option<String>>,
    /// Who made which name in the directory where all make the same names.
    winners: Mutex<Vec<u64>>,
    calls: AtomicU64,
    slow: Mutex<Vec<Slow>>,
}

/// Kills, and after the last compares everything and checks the pool.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::mount()?;
    if bench.dir.is_some() {
        return Err("needs a server to kill; runs on a pool only".into());
    }
    let kills = if bench.long { KILLS_LONG } else { KILLS };
    let mut pool = bench.pool("mnt", 1024)?;
    pool.mount(&["keeper=on", "restarts=1000000"])?;
    let shared = Arc::new(Shared::default());
    let race = pool.point().join("race");
    fs::create_dir(&race).map_err(|e| format!("{}: {e}", race.display()))?;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| start(pool.point(), n, shared.clone()))
        .collect::<Result<_, String>>()?;
    let killed = kill_all(&pool, kills, &shared);
    shared.stop.store(true, Ordering::Release);
    let ended = clients.into_iter().map(JoinHandle::join).collect::<Vec<_>>();
    if let Some(wrong) = shared.wrong.lock().map_err(|_| "a client panicked")?.take() {
        return Err(wrong);
    }
    let at = killed?;
    for client in ended {
        client.map_err(|_| "a client panicked")?.verify()?;
    }
    one_winner_each(&race, &shared)?;
    let status = pool.status()?;
    let deaths = status["keeper"]["deaths"].as_u64().unwrap_or_default();
    pool.unmount()?;
    pool.check()?;
    let calls = shared.calls.load(Ordering::Relaxed);
    Ok(format!(
        "keeper: {deaths} deaths of servers under {CLIENTS} clients, {calls} calls, none failed, none done twice; {}",
        pauses(&at, &shared)
    ))
}

/// A client that works until it is told to stop, or something is wrong.
fn start(root: &Path, number: usize, shared: Arc<Shared>) -> Result<JoinHandle<Client>, String> {
    let mut client = Client::new(root.join(format!("client{number}")), number as u64 + 1)?;
    let race = root.join("race");
    Ok(thread::spawn(move || {
        for round in 0.. {
            if shared.stop.load(Ordering::Acquire) {
                break;
            }
            let done = client.step().and_then(|()| compete(&race, round / 64, round, &shared));
            if let Err(wrong) = done {
                if let Ok(mut first) = shared.wrong.lock() {
                    first.get_or_insert(wrong);
                }
                shared.stop.store(true, Ordering::Release);
            }
        }
        shared.calls.fetch_add(client.calls, Ordering::Relaxed);
        if let Ok(mut slow) = shared.slow.lock() {
            slow.append(&mut client.slow);
        }
        client
    }))
}

/// All clients make the same names with O_EXCL: for each exactly one may succeed.
fn compete(race: &Path, name: u64, round: u64, shared: &Shared) -> Result<(), String> {
    if !round.is_multiple_of(64) {
        return Ok(());
    }
    let path = race.join(format!("r{name}"));
    let won = match File::create_new(&path) {
        Ok(_) => 1,
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => 0,
        Err(e) => return Err(format!("create {}: {e}", path.display())),
    };
    let mut winners = shared.winners.lock().map_err(|_| "a client panicked")?;
    let name = usize::try_from(name).unwrap_or(usize::MAX);
    if winners.len() <= name {
        winners.resize(name + 1, 0);
    }
    winners[name] += won;
    Ok(())
}

fn one_winner_each(race: &Path, shared: &Shared) -> Result<(), String> {
    let winners = shared.winners.lock().map_err(|_| "a client panicked")?;
    match winners.iter().position(|won| *won != 1) {
        Some(name) => Err(format!(
            "{}: {} clients made it, each as the only one",
            race.join(format!("r{name}")).display(),
            winners[name]
        )),
        None => Ok(()),
    }
}

/// The instants of the kills.
fn kill_all(pool: &Pool, kills: usize, shared: &Shared) -> Result<Vec<Instant>, String> {
    let status = pool.status()?;
    let keeper = status["keeper"]["pid"].as_u64().ok_or("the mount has no keeper")?;
    let mut random = Random(7);
    let mut at = Vec::new();
    let mut last = None;
    for kill in 0..kills {
        let own = pool.point().join("between");
        for _ in 0..random.below(BETWEEN) {
            let made = File::create_new(&own).and_then(|_| fs::remove_file(&own));
            made.map_err(|e| format!("{}: {e}", own.display()))?;
        }
        if shared.stop.load(Ordering::Acquire) {
            return Err("a client stopped".into());
        }
        at.push(Instant::now());
        last = Some(kill_child(keeper, last)?);
        if kill.is_multiple_of(TWICE) {
            last = Some(kill_child(keeper, last)?);
        }
    }
    // The last server has answered when this returns.
    pool.status()?;
    Ok(at)
}

/// Kills the child of `keeper` as soon as there is one that is not `last`; its number.
fn kill_child(keeper: u64, last: Option<Pid>) -> Result<Pid, String> {
    let list = PathBuf::from(format!("/proc/{keeper}/task/{keeper}/children"));
    loop {
        let children = fs::read_to_string(&list).map_err(|e| format!("the keeper is gone: {e}"))?;
        let mut pids = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        let Some(pid) = pids.find_map(Pid::from_raw).filter(|pid| Some(*pid) != last) else {
            thread::yield_now();
            continue;
        };
        // It may be gone by itself: looked for again.
        let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
            continue;
        };
        kill_process(pid, Signal::KILL).map_err(|e| format!("kill {pid}: {e}"))?;
        poll(&mut [PollFd::new(&process, PollFlags::IN)], None).map_err(|e| format!("server {pid}: {e}"))?;
        return Ok(pid);
    }
}

/// For how long the longest call of each kill waited.
fn pauses(kills: &[Instant], shared: &Shared) -> String {
    let Ok(slow) = shared.slow.lock() else {
        return String::new();
    };
    let next = |n: usize| kills.get(n + 1).copied();
    let mut ms: Vec<u128> = Vec::new();
    for (n, kill) in kills.iter().enumerate() {
        let concerned = slow
            .iter()
            .filter(|(begun, ended)| ended > kill && next(n).is_none_or(|next| *begun < next));
        let waited = concerned.map(|(begun, ended)| (*ended - *begun.max(kill)).as_millis());
        ms.push(waited.max().unwrap_or_default());
    }
    ms.sort_unstable();
    let of = |percent: usize| ms.get((ms.len() * percent / 100).min(ms.len().saturating_sub(1)));
    let of = |percent| of(percent).copied().unwrap_or_default();
    for (from, to) in [
        (0, 10),
        (10, 20),
        (20, 50),
        (50, 100),
        (100, 200),
        (200, 500),
        (500, u128::MAX),
    ] {
        let number = ms.iter().filter(|ms| (from..to).contains(ms)).count();
        println!("pause from {from} ms: {number}");
    }
    let over = ms.iter().filter(|ms| **ms > PAUSE_BAR_MS).count();
    format!(
        "longest wait of a call over a kill: median {} ms, p90 {}, max {}; {over} of {} above {PAUSE_BAR_MS} ms",
        of(50),
        of(90),
        of(100),
        ms.len()
    )
}
