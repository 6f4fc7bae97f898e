//! PostgreSQL: the same work as beside has the same result; five times the file system's server is killed under load,
//! and after recovery every acknowledged transaction is there and the books balance.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use crate::install;
use crate::suites::{Bench, Place};

pub mod cluster;

use cluster::Cluster;

/// pgbench's scale: 100,000 accounts each.
const SCALE: &str = "10";

/// Crashes.
const KILLS: usize = 5;

/// Seconds of load before each crash, as pgbench counts them.
const LOAD_SECONDS: usize = 3;

/// Accounts, tellers, branches and the history must have one sum.
const BALANCE: &str =
    "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(bbalance) FROM pgbench_branches)
  AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches)
  AND (SELECT coalesce(sum(delta), 0) FROM pgbench_history) = (SELECT sum(bbalance) FROM pgbench_branches)
  AND (SELECT count(*) FROM pgbench_accounts) = 1000000";

/// Every balance weighed by its number: equal runs have equal values.
const DIGEST: &str = "SELECT sum(abalance::numeric * aid), count(*) FROM pgbench_accounts";

/// Runs the same single-client load in both places, then crashes under four clients.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::programs()?;
    let mut place = bench.place("mnt", 2048, &["keeper=off"])?;
    let here = prepare(bench, place.dir(), "here")?;
    let beside = prepare(bench, &bench.beside("beside")?, "beside")?;
    let (a, b) = (here.sql(DIGEST)?, beside.sql(DIGEST)?);
    beside.stop()?;
    if a != b {
        return Err(format!("the same load made {a} here and {b} beside"));
    }
    let mut acknowledged = history(&here)?;
    for kill in 1..=KILLS {
        acknowledged += crash(&mut place, &here, kill)?;
        let kept = history(&here)?;
        if kept < acknowledged {
            return Err(format!(
                "crash {kill}: {acknowledged} transactions were acknowledged, {kept} are there"
            ));
        }
        balanced(&here)?;
        acknowledged = kept;
    }
    here.check_indexes()?;
    here.stop()?;
    here.check_pages()?;
    place.close()?;
    Ok(format!(
        "postgres: equal to beside; {KILLS} crashes, {acknowledged} transactions kept, books balanced"
    ))
}

/// A running cluster with pgbench's tables after 1,000 transactions of one client.
fn prepare(bench: &Bench, dir: &Path, name: &str) -> Result<Cluster, String> {
    let cluster = Cluster::create(&bench.beside(&format!("postgres-{name}"))?, dir)?;
    cluster.start()?;
    cluster.pgbench(&["--initialize", "--quiet", "--scale", SCALE])?;
    cluster.pgbench(&["--no-vacuum", "--client=1", "--transactions=1000", "--random-seed=7"])?;
    balanced(&cluster)?;
    Ok(cluster)
}

fn balanced(cluster: &Cluster) -> Result<(), String> {
    match cluster.sql(BALANCE)?.as_str() {
        "t" => Ok(()),
        other => Err(format!("the books do not balance ({other})")),
    }
}

fn history(cluster: &Cluster) -> Result<u64, String> {
    let count = cluster.sql("SELECT count(*) FROM pgbench_history")?;
    count.parse().map_err(|e| format!("count {count}: {e}"))
}

/// Kills under load (the file system's server, or PostgreSQL alone where there is none), recovers, and returns how
/// many transactions had been acknowledged to the clients.
fn crash(place: &mut Place, cluster: &Cluster, number: usize) -> Result<u64, String> {
    let log = format!("acknowledged{number}");
    let mut load = cluster.load(&log)?;
    wait_for_progress(&mut load)?;
    if let Place::Pool(pool) = place {
        pool.kill_server()?;
    }
    cluster.kill()?;
    load.wait().map_err(|e| format!("pgbench: {e}"))?;
    if let Place::Pool(pool) = place {
        pool.remount(&["keeper=off"])?;
    }
    cluster.start()?;
    cluster.logged_lines(&log)
}

/// Returns when pgbench has reported a few seconds of load; its later reports are read and dropped.
fn wait_for_progress(load: &mut Child) -> Result<(), String> {
    let mut lines = BufReader::new(load.stderr.take().ok_or("pgbench has no standard error")?).lines();
    for second in 0..LOAD_SECONDS {
        let line = lines
            .by_ref()
            .map_while(Result::ok)
            .find(|line| line.starts_with("progress:"));
        println!("{}", line.ok_or_else(|| format!("pgbench ended after {second} s"))?);
    }
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    Ok(())
}

/// Standard streams of a load: its progress is read, the rest is not.
fn quiet(command: &mut std::process::Command) -> &mut std::process::Command {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
}
