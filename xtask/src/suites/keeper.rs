//! kill -9 of the servers of mounts with a keeper, again and again, at each level of protection, under clients that must not
//! notice. Keepers die too, and servers make room for others.

mod client;
pub mod controls;
mod crowd;
mod killer;
mod residents;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Bench;
use super::build;
use super::pool::Pool;
use crate::install;
use client::Slow;
use crowd::{CLIENTS, Crowd, Shared};
use killer::{Done, Kill, Killer};
use residents::Residents;

/// Kills of servers; with `--long` as many as R-4 asks, for each level of protection a part.
const KILLS: usize = 60;
const KILLS_LONG: usize = 1000;
/// Kills behind an upgrade from the last commit.
const KILLS_UPGRADED: usize = 15;
/// Longest pause that a caller may notice, milliseconds; more is reported, not failed: a machine under load is slow.
const PAUSE_BAR_MS: u128 = 200;
/// Files of the pool whose servers are killed last, with `--long`, and kills of them.
const MANY: usize = 100_000;
const KILLS_OF_MANY: usize = 20;

/// Levels of protection: the code that the pool is made with, the guard that it is mounted with.
const LEVELS: [(&str, &str); 6] = [
    ("pcrc", "alias"),
    ("pq", "sealed"),
    ("off", "off"),
    ("evenodd64", "mprotect"),
    ("evenodd256", "alias"),
    ("crc", "alias"),
];

/// The sum over all mounts.
#[derive(Default)]
struct Sum {
    deaths: u64,
    keepers: usize,
    upgrades: usize,
    calls: u64,
    waits_ms: Vec<u128>,
    gone_ms: Vec<u128>,
    parts_us: BTreeMap<String, Vec<u64>>,
    back_ms: Vec<u64>,
}

/// Kills at each level; after the last of each compares everything and checks the pool.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::mount()?;
    install::suites()?;
    if bench.dir.is_some() {
        return Err("needs a server to kill; runs on a pool only".into());
    }
    let kills = if bench.long { KILLS_LONG } else { KILLS };
    let mut sum = Sum::default();
    for (seed, (protect, guard)) in (1..).zip(LEVELS) {
        let kills = kills.div_ceil(LEVELS.len());
        let level = format!("protect={protect}, guard={guard}");
        let said = at_level(bench, (protect, guard), kills, seed, &mut sum);
        println!("{level}: {}", said.map_err(|wrong| format!("{level}: {wrong}"))?);
    }
    let many = match bench.long {
        true => format!("; {}", with_many_files(bench)?),
        false => String::new(),
    };
    let times = sum.times();
    Ok(format!(
        "keeper: {} deaths of servers and {} of keepers, {} upgrades, at {} levels of protection, under {CLIENTS} clients, a shell and \
         fsx: {} calls, none failed, none done twice; {times}{many}",
        sum.deaths,
        sum.keepers,
        sum.upgrades,
        LEVELS.len(),
        sum.calls
    ))
}

/// One mount; says what was done.
fn at_level(bench: &Bench, level: (&str, &str), kills: usize, seed: u64, sum: &mut Sum) -> Result<String, String> {
    let (protect, guard) = level;
    let name = format!("{protect}-{guard}");
    let mut pool = Pool::create_with(bench.scratch.path(), &name, 1 << 30, &["--protect", protect])?;
    pool.mount(&["keeper=on", "restarts=1000000", &format!("guard={guard}")])?;
    survived(bench, pool, |_| Ok(()), (kills, seed), sum)
}

/// A mount that the program of the last commit made goes on with this one, under the same clients: its server makes room, then
/// servers and keepers die as ever, the keeper of that commit among them (S-16.15).
pub fn upgrade(bench: &Bench) -> Result<String, String> {
    install::mount()?;
    install::suites()?;
    if bench.dir.is_some() {
        return Err("needs a server to replace; runs on a pool only".into());
    }
    let (last, commit) = build::last()?;
    let mut pool = Pool::create(bench.scratch.path(), "last", 1024)?.served_by(last, None);
    pool.mount(&["keeper=on", "restarts=1000000"])?;
    let pool = pool.served_by(build::keepfs()?, None);
    let mut sum = Sum::default();
    let make_room = |pool: &Pool| pool.ask(&["upgrade"], &[]).map(drop);
    let said = survived(bench, pool, make_room, (KILLS_UPGRADED, 1), &mut sum)?;
    Ok(format!(
        "upgrade: a mount of commit {commit} went on with this program and through {said}, under {CLIENTS} clients, a shell and fsx: {} \
         calls, none failed, none done twice",
        sum.calls
    ))
}

/// What becomes of a mounted pool under its clients, behind what is done to it first; then it is unmounted and checked.
fn survived(
    bench: &Bench,
    mut pool: Pool,
    first: impl FnOnce(&Pool) -> Result<(), String>,
    (kills, seed): (usize, u64),
    sum: &mut Sum,
) -> Result<String, String> {
    let crowd = Crowd::begin(pool.point(), seed)?;
    let residents = Residents::begin(pool.point(), bench.scratch.path(), &crowd.shared)?;
    let done = first(&pool).and_then(|()| Killer::of(&pool)?.kill_all(kills, seed, &crowd.shared));
    crowd.shared.stop.store(true, Ordering::Release);
    let residents = residents.end();
    // Why a client stopped says more than that it stopped.
    let shared = crowd.end(pool.point())?;
    let residents = residents?;
    let done = done?;
    let status = pool.status()?;
    let deaths = status["keeper"]["deaths"].as_u64().unwrap_or_default();
    pool.unmount()?;
    pool.check()?;
    sum.add(deaths, done, &shared);
    Ok(format!("{deaths} deaths; {residents}"))
}

impl Sum {
    fn add(&mut self, deaths: u64, done: Done, shared: &Shared) {
        self.deaths += deaths;
        self.keepers += done.keepers;
        self.upgrades += done.upgrades;
        self.calls += shared.calls.load(Ordering::Relaxed);
        self.back_ms.extend(done.back_ms);
        if let Ok(slow) = shared.slow.lock() {
            let waits = waits(&done.kills, &slow);
            waits
                .iter()
                .zip(&done.kills)
                .filter_map(told)
                .for_each(|line| println!("{line}"));
            self.waits_ms.extend(waits.into_iter().map(|(ms, _)| ms));
        }
        for kill in done.kills {
            self.gone_ms.push((kill.gone - kill.at).as_millis());
            for (part, us) in kill.parts {
                self.parts_us.entry(part).or_default().push(us);
            }
        }
    }

    fn times(&mut self) -> String {
        let ms = &mut self.waits_ms;
        ms.sort_unstable();
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
        for (part, us) in &mut self.parts_us {
            println!("pause, {part}: {} (microseconds)", quantiles(us).replace(" ms", ""));
        }
        println!(
            "from a kill until the kernel has taken the server apart: {}",
            quantiles(&mut self.gone_ms)
        );
        let over = ms.iter().filter(|ms| **ms > PAUSE_BAR_MS).count();
        format!(
            "longest wait of a call over a kill: {}; {over} of {} above {PAUSE_BAR_MS} ms; service back {}",
            quantiles(ms),
            ms.len(),
            quantiles(&mut self.back_ms)
        )
    }
}

/// Median, ninth tenth and maximum.
fn quantiles<T: Ord + Copy + Default + std::fmt::Display>(ms: &mut [T]) -> String {
    ms.sort_unstable();
    let of = |percent: usize| ms.get((ms.len() * percent / 100).min(ms.len().saturating_sub(1)));
    let of = |percent| of(percent).copied().unwrap_or_default();
    format!("median {} ms, p90 {}, max {}", of(50), of(90), of(100))
}

/// How long the mount of a pool with many files, all of them known to the kernel, stands still.
fn with_many_files(bench: &Bench) -> Result<String, String> {
    let mut pool = Pool::create(bench.scratch.path(), "many", 2048)?;
    pool.mount(&["keeper=on", "restarts=1000000"])?;
    for n in 0..MANY {
        let dir = pool.point().join(format!("dir{}", n / 1000));
        if n.is_multiple_of(1000) {
            fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        let path = dir.join(format!("file{n}"));
        File::create_new(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let mut killer = Killer::of(&pool)?;
    let mut back_ms = Vec::new();
    for _ in 0..KILLS_OF_MANY {
        killer.kill_server()?;
        back_ms.extend(pool.status()?["keeper"]["last_death"]["pause_ms"].as_u64());
    }
    pool.unmount()?;
    pool.check()?;
    Ok(format!(
        "with {MANY} files looked up: service back {}",
        quantiles(&mut back_ms)
    ))
}

/// The longest call over each kill: for how long it waited, milliseconds, and which it was.
fn waits<'s>(kills: &[Kill], slow: &'s [Slow]) -> Vec<(u128, Option<&'s Slow>)> {
    let waited = |kill: &Kill| {
        // What began when a server answered again waited for something else.
        let concerned = slow
            .iter()
            .filter(|(begun, ended, _)| *ended > kill.at && *begun < kill.back);
        let waited = concerned.map(|call| ((call.1 - call.0.max(kill.at)).as_millis(), Some(call)));
        waited.max_by_key(|(ms, _)| *ms).unwrap_or_default()
    };
    kills.iter().map(waited).collect()
}

/// What a wait above the bar consisted of.
fn told(((ms, call), kill): (&(u128, Option<&Slow>), &Kill)) -> Option<String> {
    let (begun, _, what) = call.filter(|_| *ms > PAUSE_BAR_MS)?;
    let since = |instant: Instant| match instant.checked_duration_since(kill.at) {
        Some(after) => format!("{} ms after", after.as_millis()),
        None => format!("{} ms before", (kill.at - instant).as_millis()),
    };
    let parts: Vec<String> = kill
        .parts
        .iter()
        .map(|(part, us)| format!("{part} {}", us / 1000))
        .collect();
    Some(format!(
        "  {what} waited {ms} ms; it began {} the kill of {}, which was gone {} it; a server answered {} it; of its pause: {}",
        since(*begun),
        kill.what,
        since(kill.gone),
        since(kill.back),
        parts.join(", ")
    ))
}
