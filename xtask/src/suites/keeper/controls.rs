//! The suite under servers that forget something: it must notice each, and nothing where nothing is forgotten.

use std::path::Path;

use super::crowd::Crowd;
use super::killer::Killer;
use crate::suites::pool::Pool;
use crate::suites::{Bench, build};

/// Kills until which it must be noticed: few of them fall between an operation and its answer.
const KILLS: usize = 400;
/// Kills without anything forgotten.
const KILLS_OF_NONE: usize = 10;

/// What servers forget, by the names that the store gives it (`crates/vault/src/planted/kills.rs`): the operations that a
/// dead server had answered, a request that it had done, file data that only its memory had, which inodes are in use.
const FORGET: [&str; 4] = [
    "redo not used",
    "request mark omitted",
    "staged page dropped",
    "lookup counts not used",
];

/// Kills under each. Errors: what was not noticed, or was without a cause.
pub fn run(bench: &Bench) -> Result<String, String> {
    if bench.dir.is_some() {
        return Err("needs a server to kill; runs on a pool only".into());
    }
    let binary = build::planted()?;
    let mut noticed = Vec::new();
    for (number, forget) in FORGET.iter().enumerate() {
        match kill(bench, &binary, Some(forget), number as u64 + 1) {
            Ok(()) => return Err(format!("\"{forget}\" was not noticed in {KILLS} kills")),
            Err(wrong) => {
                println!("{forget}: {wrong}");
                noticed.push(*forget);
            }
        }
    }
    kill(bench, &binary, None, 100).map_err(|wrong| format!("nothing was forgotten, but: {wrong}"))?;
    Ok(format!(
        "keeper_controls: noticed: {}; and nothing in {KILLS_OF_NONE} kills with nothing forgotten",
        noticed.join(", ")
    ))
}

/// Kills under clients; an error if they or `check` notice something.
fn kill(bench: &Bench, binary: &Path, forget: Option<&str>, seed: u64) -> Result<(), String> {
    let name = format!("controls{seed}");
    let pool = Pool::create(bench.scratch.path(), &name, 1024)?;
    let mut pool = pool.served_by(binary.to_owned(), forget.map(str::to_owned));
    pool.mount(&["keeper=on", "restarts=1000000", "commit=3600"])?;
    let crowd = Crowd::begin(pool.point(), seed)?;
    let kills = if forget.is_some() { KILLS } else { KILLS_OF_NONE };
    let killed = Killer::of(&pool).and_then(|mut killer| killer.kill_all(kills, seed, &crowd.shared));
    crowd.end(pool.point())?;
    killed?;
    pool.unmount()?;
    pool.check()
}
