//! kill -9 of the server under load, again and again: after each recovery everything that was fsynced is there.

use std::path::PathBuf;

use super::Bench;
use super::pool::Pool;
use super::sample::Random;
use super::writer::{Writer, verify};
use crate::install;

/// Kills; ten times as many with `--long`.
const KILLS: usize = 20;

/// The death of the server must be the death of the mount here; with a keeper see the suite `keeper`.
const UNKEPT: &str = "keeper=off";

/// Threads that write and fsync.
const WRITERS: usize = 4;

/// A thread has written up to this many files when the server dies.
const FILES_MAX: u64 = 120;

/// Rounds on one pool, so that each recovery starts from what the one before it left; every tenth round ends in a
/// clean unmount and a check.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::mount()?;
    if bench.dir.is_some() {
        return Err("needs a server to kill; runs on a pool only".into());
    }
    let mut pool = bench.pool("mnt", 2048)?;
    pool.mount(&[UNKEPT])?;
    let mut random = Random(1);
    let mut acknowledged = 0;
    let kills = if bench.long { 10 * KILLS } else { KILLS };
    for round in 1..=kills {
        acknowledged += kill(&mut pool, round, &mut random).map_err(|e| format!("round {round}: {e}"))?;
        if round.is_multiple_of(10) {
            pool.unmount()?;
            pool.check()?;
            pool.mount(&[UNKEPT])?;
        }
    }
    pool.unmount()?;
    pool.check()?;
    Ok(format!(
        "kill: {kills} kills under {WRITERS} writers, {acknowledged} acknowledged files, none lost"
    ))
}

/// One round; returns how many files were acknowledged and found again.
fn kill(pool: &mut Pool, round: usize, random: &mut Random) -> Result<usize, String> {
    let dirs: Vec<PathBuf> = (0..WRITERS)
        .map(|n| pool.point().join(format!("round{round}-{n}")))
        .collect();
    let writers: Vec<Writer> = dirs.iter().cloned().map(Writer::start).collect();
    let enough = 1 + usize::try_from(random.below(FILES_MAX)).unwrap_or_default();
    writers[0].wait_for(enough)?;
    pool.kill_server()?;
    let mut written = Vec::new();
    for writer in writers {
        let (count, error) = writer.join()?;
        println!("{count} acknowledged, then: {error}");
        written.push(count);
    }
    pool.remount(&[UNKEPT])?;
    for (dir, count) in dirs.iter().zip(&written) {
        verify(dir, *count)?;
    }
    // Half of the rounds leave their files, so that the pool both grows and frees.
    if round.is_multiple_of(2) {
        for dir in dirs.iter().filter(|dir| dir.exists()) {
            std::fs::remove_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        }
    }
    Ok(written.iter().sum())
}
